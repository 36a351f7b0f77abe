//! SMB: `smbd` serves one user with a password, and `smbclient` fetches (Samba; SMB 3.1.1).

use crate::service::{Fetch, ServerPlace, Service, Transfer, UPLOADS, listens, words};
use gigae_eval_model::service::{Protection, ServiceSpec, by_name};
use std::fs;
use std::io::{self, Write};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

pub(crate) struct Smb;

/// Its port, without NetBIOS.
pub(crate) const PORT: u16 = 445;

/// Signing and encryption need a key, which comes from a password. Only the nodes of the virtual
/// network reach the server, so it is no secret.
pub(crate) const PASSWORD: &str = "gigae";

/// The server has the user that it runs as.
pub(crate) const USER: &str = "root";

/// The name of the exported directory.
pub(crate) const SHARE: &str = "files";

impl Service for Smb {
    fn spec(&self) -> &'static ServiceSpec {
        by_name("smb").expect("the model has it")
    }

    fn is_ready(&self, _port: u16, _log: &Path) -> bool {
        listens(PORT)
    }

    fn configure(&self, place: &ServerPlace<'_>) -> io::Result<Vec<String>> {
        let file = place.directory.join("smb.conf");
        fs::write(&file, configuration(place))?;
        fs::write(client_file(place.directory), state(place.directory))?;
        add_user(&file)?;
        let file = file.to_string_lossy();
        Ok(server_words(&file))
    }

    fn version(&self) -> &'static str {
        "\"$1\" --version"
    }

    fn client_version(&self) -> Option<&'static str> {
        Some("\"$1\" --version")
    }

    fn fetch(&self, fetch: &Fetch<'_>) -> Vec<String> {
        let get = |file: &str, to: &Path| format!("get {file} \"{}\"", to.display());
        let first = fetch.before.map(|before| get(before, Path::new("/dev/null")) + "; ");
        let commands = first.unwrap_or_default() + &commands(fetch, get);
        let configuration = client_file(fetch.directory);
        let protection = match fetch.protection {
            Protection::Off => "off",
            Protection::Sign => "sign",
            Protection::Encrypt => "encrypt",
        };
        words([
            // What it says of a file is a debug message.
            "--debug-stdout",
            "--configfile",
            &configuration.to_string_lossy(),
            "--user",
            &format!("{USER}%{PASSWORD}"),
            &format!("--client-protection={protection}"),
            &format!("//{}/{SHARE}", fetch.server),
            "--command",
            &commands,
        ])
    }

    /// The client prints the rate in KiB per second. What is not the transfer was before it: the
    /// client's own start, connection and login.
    fn read(&self, fetch: &Fetch<'_>, said: &str, whole: Duration) -> Option<Transfer> {
        // Of a file that it sends, its rate leaves out the server's part. Of a tree it prints many
        // rates.
        if fetch.sends.is_some() || fetch.files > 1 {
            return Some(fetch.all(whole));
        }
        let line = said.lines().rfind(|line| line.starts_with("getting file "))?;
        let (_, rest) = line.split_once(" of size ")?;
        let bytes: u64 = rest.split(' ').next()?.parse().ok()?;
        let (_, rest) = rest.split_once(" (")?;
        let rate: f64 = rest.split(' ').next()?.parse().ok()?;
        let (whole, counted) = (whole.as_secs_f64(), fetch.size as f64 / 1024.0 / rate);
        // A rate of "inf" is no time at all: less than a step of the client's clock.
        let seconds = counted.max(self.spec().clock_ms / 1e3).min(whole);
        (counted.is_finite() && seconds > 0.0).then_some(Transfer {
            before: Some(whole - seconds),
            seconds,
            bytes,
        })
    }
}

/// What the client does: a file, or a tree with all that is in it.
fn commands(fetch: &Fetch<'_>, get: impl Fn(&str, &Path) -> String) -> String {
    let all = "recurse ON; prompt OFF; ";
    match (fetch.sends, fetch.files) {
        (None, 1) => get(fetch.file, Path::new(&*fetch.target())),
        (None, _) => format!("{all}lcd \"{}\"; mget {}", fetch.into(), fetch.file),
        (Some(file), 1) => format!("put \"{}\" {}", file.display(), fetch.file),
        (Some(tree), _) => {
            let above = tree.parent().unwrap_or(tree).display();
            let name = tree.file_name().unwrap_or_default().display();
            format!("{all}lcd \"{above}\"; cd {UPLOADS}; mput {name}")
        }
    }
}

fn client_file(directory: &Path) -> std::path::PathBuf {
    directory.join("client.conf")
}

/// Whatever Samba writes, it writes into the directory.
fn state(directory: &Path) -> String {
    let names = ["private dir", "state directory", "cache directory", "lock directory"];
    let further = ["pid directory", "ncalrpc dir", "binddns dir"];
    let mut text = "[global]\n".to_owned();
    for name in names.iter().chain(&further) {
        text += &format!("{name} = {}\n", directory.display());
    }
    text
}

/// Whether copies are signed or encrypted is the client's choice. No printers, no NetBIOS, no
/// `/etc/samba`.
pub(crate) fn configuration(place: &ServerPlace<'_>) -> String {
    state(place.directory)
        + &format!(
            "server role = standalone server\n\
             interfaces = {ip}\n\
             bind interfaces only = yes\n\
             smb ports = {PORT}\n\
             disable netbios = yes\n\
             disable spoolss = yes\n\
             rpc start on demand helpers = no\n\
             load printers = no\n\
             printcap name = /dev/null\n\
             usershare path =\n\
             passdb backend = tdbsam:{directory}/passdb.tdb\n\
             logging = file\n\
             log file = {log}\n\
             [{SHARE}]\n\
             path = {export}\n\
             read only = {read_only}\n",
            ip = place.ip,
            directory = place.directory.display(),
            log = place.log.display(),
            export = place.export.display(),
            read_only = if place.writable { "no" } else { "yes" },
        )
}

/// The server's arguments.
pub(crate) fn server_words(configuration: &str) -> Vec<String> {
    words(["--foreground", "--no-process-group", "--configfile", configuration])
}

/// The arguments of `pdbedit`, which reads the password twice.
pub(crate) fn user_words(configuration: &str) -> Vec<String> {
    let create = ["--create", "--password-from-stdin", "--user", USER];
    let all = ["--configfile", configuration].into_iter().chain(create);
    all.map(str::to_owned).collect()
}

/// Gives the user a password, in a file of its own.
fn add_user(configuration: &Path) -> io::Result<()> {
    let path = crate::installed::find("pdbedit").unwrap_or_else(|| "pdbedit".to_owned());
    let mut command = Command::new(path);
    command.args(user_words(&configuration.to_string_lossy())).stdin(Stdio::piped());
    let mut child = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn()?;
    let twice = format!("{PASSWORD}\n{PASSWORD}\n");
    // Dropping the pipe ends the input.
    let written = child.stdin.take().map(|mut stdin| stdin.write_all(twice.as_bytes()));
    let output = child.wait_with_output()?;
    written.transpose()?;
    if output.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    let last = said.lines().last().unwrap_or("it said nothing").to_owned();
    Err(io::Error::other(format!("pdbedit: {last}")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::service::testing::{fetch, sent, sent_tree, tree};

    #[test]
    fn the_client_asks_for_what_protects_the_copy() {
        let signed = Fetch { before: Some("1"), protection: Protection::Sign, ..fetch() };
        let words = Smb.fetch(&signed);
        assert!(words.contains(&"--client-protection=sign".to_owned()), "{words:?}");
        assert_eq!(words.last().unwrap(), "get 1 \"/dev/null\"; get 20 \"/dev/null\"");
    }

    #[test]
    fn trees_are_copied_with_all_that_is_in_them() {
        let last = |fetch: &Fetch<'_>| Smb.fetch(fetch).pop().unwrap();
        let get = "recurse ON; prompt OFF; lcd \"/copies/0\"; mget 200x20";
        assert_eq!(last(&tree()), get);
        let put = "recurse ON; prompt OFF; lcd \"/export\"; cd in; mput 200x20";
        assert_eq!(last(&sent_tree()), put);
        assert_eq!(last(&sent()), "put \"/export/20\" in/20");
        let all = Smb.read(&tree(), "", Duration::from_secs(2)).unwrap();
        assert_eq!((all.before, all.seconds, all.bytes), (None, 2.0, 4000));
    }

    #[test]
    fn the_rate_of_the_last_file_is_told_from_all_the_time() {
        let said = "getting file \\1 of size 1 as /dev/null (20480000.0 KiloBytes/sec) (average inf KiloBytes/sec)\n\
                    getting file \\20 of size 83886080 as /dev/null (81920.0 KiloBytes/sec) (average 9.9 KiloBytes/sec)\n";
        let large = Fetch { size: 83_886_080, ..fetch() };
        let read = |said: &str| Smb.read(&large, said, Duration::from_millis(1250));
        let found = read(said).unwrap();
        assert_eq!((found.before, found.seconds, found.bytes), (Some(0.25), 1.0, 83_886_080));
        let short = read("getting file \\20 of size 5 as x (inf KiloBytes/sec) (").unwrap();
        assert_eq!((short.seconds, short.bytes), (0.001, 5));
        for nonsense in ["", "getting file x", "getting file x of size 5 as y (0 K", "NT_STATUS"] {
            assert_eq!(read(nonsense), None, "{nonsense}");
        }
    }
}
