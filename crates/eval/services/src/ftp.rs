//! FTP: `vsftpd` serves an anonymous user who knows a password, and `curl` transfers passively.

use crate::service::{Fetch, ServerPlace, Service, Transfer, listens, words};
use gigae_eval_model::service::{ServiceSpec, by_name};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

pub(crate) struct Ftp;

/// Who logs in. Its password is that of the run.
pub(crate) const USER: &str = "anonymous";

/// More sessions than all clients of a plan have.
const MOST_SESSIONS: u32 = 200;

/// The server prints its version on its standard input.
pub(crate) const VERSION: &str = "\"$1\" -v 0>&1";

/// What curl prints of each file: the time until its transfer began, the time until its end, and
/// its bytes one way and the other. Both times count from the begin of this file's part of the
/// work.
const TIMES: &str = "%{time_pretransfer} %{time_total} %{size_download} %{size_upload}\\n";

/// Files in each directory of a tree.
const OF_DIRECTORY: u32 = crate::store::OF_DIRECTORY;

impl Service for Ftp {
    fn spec(&self) -> &'static ServiceSpec {
        by_name("ftp").expect("the model has it")
    }

    fn is_ready(&self, port: u16, _log: &Path) -> bool {
        listens(port)
    }

    fn configure(&self, place: &ServerPlace<'_>) -> io::Result<Vec<String>> {
        configure(place)
    }

    fn version(&self) -> &'static str {
        VERSION
    }

    fn client_version(&self) -> Option<&'static str> {
        Some("\"$1\" --version")
    }

    fn fetch(&self, fetch: &Fetch<'_>) -> Vec<String> {
        let mut all = words(["--silent", "--show-error", "--disable", "--write-out", TIMES]);
        // Whatever proxy the environment names, it is in no node.
        all.extend(words(["--noproxy", "*"]));
        all.extend(words(["--user", &format!("{USER}:{}", fetch.password)]));
        let url = |file: &str| format!("ftp://{}:{}/{file}", fetch.server, fetch.port);
        if let Some(before) = fetch.before {
            all.extend(words(["--output", "/dev/null", &url(before)]));
        }
        let to = fetch.target();
        match (fetch.sends, fetch.files) {
            (Some(file), _) => {
                all.extend(words(["--upload-file", &file.to_string_lossy(), &url(fetch.file)]));
            }
            (None, 1) => all.extend(words(["--output", &to, &url(fetch.file)])),
            // curl makes the names of all files, and fills them in where the copy's name has `#`.
            (None, files) => {
                let last = [files / OF_DIRECTORY - 1, OF_DIRECTORY - 1];
                let [directories, files] = last.map(|last| format!("[00-{last:02}]"));
                let names = url(&format!("{}/{directories}/{files}", fetch.file));
                all.extend(words(["--create-dirs", "--output", &format!("{to}/#1/#2"), &names]));
            }
        }
        all
    }

    fn read(&self, fetch: &Fetch<'_>, said: &str, whole: Duration) -> Option<Transfer> {
        if fetch.files > 1 {
            let all: Option<Vec<Transfer>> = said.lines().map(times).collect();
            let bytes = all?.iter().map(|one| one.bytes).sum();
            return Some(Transfer { bytes, ..fetch.all(whole) });
        }
        times(said.lines().last()?)
    }
}

/// What curl printed of a file.
fn times(line: &str) -> Option<Transfer> {
    let mut numbers = line.split(' ').map(str::parse::<f64>);
    let mut next = || numbers.next()?.ok().filter(|number| number.is_finite());
    let (before, end, down, up) = (next()?, next()?, next()?, next()?);
    let seconds = end - before;
    (before >= 0.0 && seconds > 0.0 && down >= 0.0 && up >= 0.0).then_some(Transfer {
        before: Some(before),
        seconds,
        bytes: (down + up) as u64,
    })
}

/// Writes the server's configuration; its arguments.
pub(crate) fn configure(place: &ServerPlace<'_>) -> io::Result<Vec<String>> {
    let file = place.directory.join("vsftpd.conf");
    fs::write(passwords(place), format!("{}\n", place.password))?;
    let writes = if place.writable { WRITES } else { "write_enable=NO\n" };
    fs::write(&file, configuration(place) + writes)?;
    Ok(words([&file.to_string_lossy()]))
}

/// So that an anonymous user can write.
const WRITES: &str = "write_enable=YES\n\
                      anon_upload_enable=YES\n\
                      anon_mkdir_write_enable=YES\n\
                      anon_other_write_enable=YES\n\
                      anon_umask=022\n\
                      allow_writeable_chroot=YES\n";

/// The file with the only password of an anonymous user.
fn passwords(place: &ServerPlace<'_>) -> PathBuf {
    place.directory.join("passwords")
}

/// `run_as_launching_user`: vsftpd changes neither user nor root directory, so it works in a user
/// namespace, too. What a client with the password can read is what this user can read.
/// `seccomp_sandbox`: its list of system calls is older than today's C library.
fn configuration(place: &ServerPlace<'_>) -> String {
    format!(
        "listen=YES\n\
         listen_address={ip}\n\
         listen_port={port}\n\
         max_clients={MOST_SESSIONS}\n\
         background=NO\n\
         run_as_launching_user=YES\n\
         seccomp_sandbox=NO\n\
         isolate=NO\n\
         isolate_network=NO\n\
         anonymous_enable=YES\n\
         local_enable=NO\n\
         port_enable=NO\n\
         secure_email_list_enable=YES\n\
         email_password_file={passwords}\n\
         anon_root={export}\n\
         anon_world_readable_only=NO\n\
         use_sendfile=YES\n\
         xferlog_enable=YES\n\
         vsftpd_log_file={log}\n",
        ip = place.ip,
        port = place.port,
        passwords = passwords(place).display(),
        export = place.export.display(),
        log = place.log.display(),
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::service::testing::{fetch, sent, tree};

    #[test]
    fn a_kept_connection_fetches_another_file_before() {
        let kept = Fetch { before: Some("1"), ..fetch() };
        let said = Ftp.fetch(&kept).join(" ");
        assert!(said.contains("--noproxy * --user anonymous:secret "), "{said}");
        assert!(
            said.ends_with(
                "--output /dev/null ftp://198.18.0.2:2021/1 --output /dev/null ftp://198.18.0.2:2021/20"
            ),
            "{said}"
        );
        assert_eq!(Ftp.fetch(&fetch()).iter().filter(|word| *word == "--output").count(), 1);
    }

    #[test]
    fn a_tree_is_one_command_and_a_file_that_is_sent_is_named() {
        let said = Ftp.fetch(&tree()).join(" ");
        let names = "--output /copies/0/200x20/#1/#2 ftp://198.18.0.2:2021/200x20/[00-01]/[00-99]";
        assert!(said.ends_with(names), "{said}");
        let said = Ftp.fetch(&sent()).join(" ");
        assert!(said.ends_with("--upload-file /export/20 ftp://198.18.0.2:2021/in/20"), "{said}");
    }

    #[test]
    fn the_last_files_times_are_read_and_login_is_told_from_transfer() {
        let read = |said: &str| Ftp.read(&fetch(), said, Duration::ZERO);
        let found = read("0.002 0.003 2048 0\n0.25 1.75 83886080 0\n").unwrap();
        assert_eq!((found.before, found.seconds, found.bytes), (Some(0.25), 1.5, 83_886_080));
        assert_eq!(read("0.25 1.75 0 20").unwrap().bytes, 20);
        for nonsense in ["", "x", "1 2 3", "1 NaN 3 0", "2 1 5 0", "-1 1 5 0", "1 2 -3 0"] {
            assert_eq!(read(nonsense), None, "{nonsense}");
        }
        let all = Ftp.read(&tree(), "0.1 0.2 20 0\n0.1 0.2 20 0\n", Duration::from_secs(3));
        let all = all.unwrap();
        assert_eq!((all.before, all.seconds, all.bytes), (None, 3.0, 40));
    }
}
