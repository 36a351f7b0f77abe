//! FTP: `vsftpd` serves an anonymous user, and `curl` fetches by passive transfers.

use crate::service::{Fetch, ServerPlace, Service, Transfer, words};
use gigae_eval_model::service::{ServiceSpec, by_name};
use std::fs;
use std::io;
use std::time::Duration;

pub(crate) struct Ftp;

/// Its port (RFC 959).
const PORT: u16 = 21;

/// What curl prints of each file: the time until its transfer began, the time until its end, and
/// its bytes. Both times count from the begin of this file's part of the work.
const TIMES: &str = "%{time_pretransfer} %{time_total} %{size_download}\\n";

impl Service for Ftp {
    fn spec(&self) -> &'static ServiceSpec {
        by_name("ftp").expect("the model has it")
    }

    fn port(&self) -> u16 {
        PORT
    }

    fn configure(&self, place: &ServerPlace<'_>) -> io::Result<Vec<String>> {
        let file = place.directory.join("vsftpd.conf");
        fs::write(&file, configuration(place))?;
        Ok(words([&file.to_string_lossy()]))
    }

    /// It prints on its standard input.
    fn version(&self) -> &'static str {
        "\"$1\" -v 0>&1"
    }

    fn fetch(&self, fetch: &Fetch<'_>) -> Vec<String> {
        let mut all = words(["--silent", "--show-error", "--disable", "--write-out", TIMES]);
        // Whatever proxy the environment names, it is in no node.
        all.extend(words(["--noproxy", "*"]));
        let files = fetch.before.map(|before| (before, "/dev/null".into()));
        let to = fetch.to.to_string_lossy();
        for (file, to) in files.into_iter().chain([(fetch.file, to)]) {
            let url = format!("ftp://{}:{PORT}/{file}", fetch.server);
            all.extend(words(["--output", &to, &url]));
        }
        all
    }

    fn read(&self, _fetch: &Fetch<'_>, said: &str, _whole: Duration) -> Option<Transfer> {
        let line = said.lines().last()?;
        let mut numbers = line.split(' ').map(str::parse::<f64>);
        let mut next = || numbers.next()?.ok().filter(|number| number.is_finite());
        let (before, end, bytes) = (next()?, next()?, next()?);
        let seconds = end - before;
        (before >= 0.0 && seconds > 0.0 && bytes >= 0.0).then_some(Transfer {
            before,
            seconds,
            bytes: bytes as u64,
        })
    }
}

/// `run_as_launching_user`: vsftpd changes neither user nor root directory, so it works in a user
/// namespace, too. Only the nodes of the virtual network can reach it. `seccomp_sandbox`: its list
/// of system calls is older than today's C library.
fn configuration(place: &ServerPlace<'_>) -> String {
    format!(
        "listen=YES\n\
         listen_address={ip}\n\
         listen_port={PORT}\n\
         background=NO\n\
         run_as_launching_user=YES\n\
         seccomp_sandbox=NO\n\
         isolate=NO\n\
         isolate_network=NO\n\
         anonymous_enable=YES\n\
         local_enable=NO\n\
         write_enable=NO\n\
         no_anon_password=YES\n\
         anon_root={export}\n\
         anon_world_readable_only=NO\n\
         use_sendfile=YES\n\
         xferlog_enable=YES\n\
         vsftpd_log_file={log}\n",
        ip = place.ip,
        export = place.export.display(),
        log = place.log.display(),
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use gigae_eval_model::service::Protection;
    use std::net::Ipv4Addr;
    use std::path::Path;

    fn fetch<'a>(before: Option<&'a str>) -> Fetch<'a> {
        Fetch {
            server: Ipv4Addr::new(198, 18, 0, 2),
            directory: Path::new("/nowhere"),
            file: "20",
            size: 20,
            before,
            to: Path::new("/dev/null"),
            protection: Protection::Off,
        }
    }

    #[test]
    fn a_kept_connection_fetches_another_file_before() {
        let said = Ftp.fetch(&fetch(Some("1"))).join(" ");
        assert!(said.contains("--noproxy * "), "{said}");
        assert!(
            said.ends_with(
                "--output /dev/null ftp://198.18.0.2:21/1 --output /dev/null ftp://198.18.0.2:21/20"
            ),
            "{said}"
        );
        assert_eq!(Ftp.fetch(&fetch(None)).iter().filter(|word| *word == "--output").count(), 1);
    }

    #[test]
    fn the_last_files_times_are_read_and_login_is_told_from_transfer() {
        let read = |said: &str| Ftp.read(&fetch(None), said, Duration::ZERO);
        let found = read("0.002 0.003 2048\n0.25 1.75 83886080\n").unwrap();
        assert_eq!((found.before, found.seconds, found.bytes), (0.25, 1.5, 83_886_080));
        for nonsense in ["", "x", "1 2", "1 NaN 3", "2 1 5", "-1 1 5", "1 2 -3"] {
            assert_eq!(read(nonsense), None, "{nonsense}");
        }
    }
}
