//! NFS: NFS-Ganesha serves version 3 over TCP, and `nfs-cp` of libnfs copies. Nothing is mounted.
//!
//! Version 3 needs `rpcbind`, which has its socket and its lock in `/run`. So both servers are in a
//! mount namespace with a `/run` of their own, which goes with them, and neither meets servers of
//! the machine. Without a socket of D-Bus there, Ganesha uses none.

use crate::installed::find;
use crate::service::{Fetch, ServerPlace, Service, Transfer, listens, words};
use gigae_eval_model::access::Export;
use gigae_eval_model::service::{ServiceSpec, by_name};
use std::fs;
use std::io;
use std::net::Ipv4Addr;
use std::path::Path;
use std::time::Duration;

pub(crate) struct Nfs;

/// Its port (RFC 1813). That of the mount protocol is asked of `rpcbind`.
const PORT: u16 = 2049;

/// The names of the exported directory: with writes as the client wishes, and with every write on
/// the disk before its answer.
const EXPORTS: [(&str, Export); 2] = [("files", Export::Async), ("synced", Export::Sync)];

/// What the server logs when it can serve.
const READY: &str = "NFS SERVER INITIALIZED";

/// File systems whose files have no handles, by statfs(2): overlayfs.
const NO_HANDLES: [u64; 1] = [0x794c_7630];

/// Directories of the host that the server does not see.
const OWN_PLACES: [&str; 2] = ["/run", "/var/lib/nfs"];

/// Starts `rpcbind`, which is `$1`, and becomes the command behind it. The state of both servers is
/// in file systems in memory that only they see.
const SCRIPT: &str = "set -e
mount -t tmpfs -o mode=755 gigae /run
mkdir /run/rpcbind /run/ganesha
if [ -d /var/lib/nfs ]; then
    mount -t tmpfs -o mode=755 gigae /var/lib/nfs
    mkdir /var/lib/nfs/ganesha
fi
\"$1\" -f &
shift
tries=0
until [ -S /run/rpcbind.sock ]; do
    tries=$((tries + 1))
    if [ $tries = 1000 ]; then echo 'rpcbind opened no socket' >&2; exit 1; fi
    sleep 0.01
done
exec \"$@\"";

impl Service for Nfs {
    fn spec(&self) -> &'static ServiceSpec {
        by_name("nfs").expect("the model has it")
    }

    fn is_ready(&self, _port: u16, log: &Path) -> bool {
        listens(PORT) && says_ready(log)
    }

    /// It remembers for a while files that were removed behind its back.
    fn reuses_names(&self) -> bool {
        false
    }

    fn configure(&self, place: &ServerPlace<'_>) -> io::Result<Vec<String>> {
        let directory = fs::canonicalize(place.directory)?;
        if OWN_PLACES.iter().any(|own| directory.starts_with(own)) {
            let why =
                "the server has its own /run and /var/lib/nfs; set TMPDIR to a directory elsewhere";
            return Err(io::Error::other(why));
        }
        has_handles(place.export)?;
        let file = place.directory.join("ganesha.conf");
        fs::write(&file, configuration(place))?;
        let (file, log) = (file.to_string_lossy(), place.log.to_string_lossy());
        let number = place.directory.join("pid");
        // -F: in the foreground.
        Ok(words(["-F", "-f", &file, "-L", &log, "-p", &number.to_string_lossy()]))
    }

    fn launch(&self, line: Vec<String>) -> Vec<String> {
        let rpcbind = find("rpcbind").unwrap_or_else(|| "rpcbind".to_owned());
        [words(["unshare", "--mount", "sh", "-c", SCRIPT, "sh", &rpcbind]), line].concat()
    }

    fn url(&self, server: Ipv4Addr, file: &str, export: Export) -> Option<String> {
        let (name, _) = EXPORTS.iter().find(|(_, one)| *one == export)?;
        Some(format!("nfs://{server}/{name}/{file}"))
    }

    fn export(&self) -> Option<&'static str> {
        Some("/files")
    }

    fn version(&self) -> &'static str {
        "\"$1\" -v"
    }

    fn fetch(&self, fetch: &Fetch<'_>) -> Vec<String> {
        let url = |file: &str| self.url(fetch.server, file, Export::Async).unwrap_or_default();
        match fetch.sends {
            None => words([&url(fetch.file), &fetch.target()]),
            Some(from) => words([&from.to_string_lossy(), &url(fetch.file)]),
        }
    }

    /// The client prints no times, so its whole time counts: its start, the mount protocol, the
    /// file, and after an upload the commit. It prints the bytes as a number of 32 bits with a
    /// sign.
    fn read(&self, fetch: &Fetch<'_>, said: &str, whole: Duration) -> Option<Transfer> {
        let line = said.lines().rfind(|line| line.starts_with("copied "))?;
        let bytes: i32 = line.split(' ').nth(1)?.parse().ok()?;
        #[expect(clippy::cast_possible_truncation, reason = "as the client does it")]
        let all_came = bytes == fetch.size as i32;
        all_came.then(|| fetch.all(whole))
    }
}

/// Whether the server has logged that it can serve.
fn says_ready(log: &Path) -> bool {
    fs::read_to_string(log).is_ok_and(|text| text.contains(READY))
}

/// An error, in one line, if the server cannot export this directory.
fn has_handles(export: &Path) -> io::Result<()> {
    let kind = rustix::fs::statfs(export)?.f_type;
    if u64::try_from(kind).is_ok_and(|kind| NO_HANDLES.contains(&kind)) {
        let why = "NFS-Ganesha exports no overlayfs; set TMPDIR to a directory on ext4 or XFS";
        return Err(io::Error::other(why));
    }
    Ok(())
}

/// Version 3 alone, without locks and quotas. A client's root is root at the server, which only the
/// nodes of the virtual network reach.
fn configuration(place: &ServerPlace<'_>) -> String {
    let export = |(number, (name, kind)): (usize, &(&str, Export))| {
        format!(
            "EXPORT {{\n\
             Export_Id = {number};\n\
             Path = \"{path}\";\n\
             Pseudo = \"/{name}\";\n\
             Access_Type = {access};\n\
             Squash = No_Root_Squash;\n\
             SecType = sys;\n\
             Protocols = 3;\n\
             Transports = TCP;\n\
             NFS_Commit = {commit};\n\
             FSAL {{ Name = VFS; }}\n\
             }}\n",
            number = number + 1,
            path = place.export.display(),
            access = if place.writable { "RW" } else { "RO" },
            commit = *kind == Export::Sync,
        )
    };
    format!(
        "NFS_CORE_PARAM {{\n\
         Protocols = 3;\n\
         NFS_Port = {PORT};\n\
         Bind_addr = {ip};\n\
         Enable_NLM = false;\n\
         Enable_RQUOTA = false;\n\
         mount_path_pseudo = true;\n\
         }}\n\
         NFSv4 {{ Graceless = true; }}\n\
         LOG {{ Default_Log_Level = EVENT; }}\n\
         {exports}",
        ip = place.ip,
        exports = EXPORTS.iter().enumerate().map(export).collect::<String>(),
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::service::testing::{fetch, sent};

    #[test]
    fn a_file_comes_from_the_export_and_an_own_one_goes_there() {
        let copy = Fetch { to: Some(Path::new("/copies/0/20")), ..fetch() };
        assert_eq!(Nfs.fetch(&copy), ["nfs://198.18.0.2/files/20", "/copies/0/20"]);
        let words = Nfs.fetch(&sent());
        assert_eq!(words, ["/export/20", "nfs://198.18.0.2/files/in/20"]);
    }

    #[test]
    fn bytes_beyond_31_bits_are_printed_with_a_sign() {
        let read = |size: u64, said: &str| {
            Nfs.read(&Fetch { size, ..fetch() }, said, Duration::from_secs(2))
        };
        let whole = read(20, "copied 20 bytes\n").unwrap();
        assert_eq!((whole.before, whole.seconds, whole.bytes), (None, 2.0, 20));
        assert_eq!(read(3 << 30, "copied -1073741824 bytes\n").unwrap().bytes, 3 << 30);
        for nonsense in ["", "copied", "copied x bytes", "copied 19 bytes", "Failed to open"] {
            assert_eq!(read(20, nonsense), None, "{nonsense}");
        }
    }

    #[test]
    fn both_exports_are_of_one_directory_and_one_commits_every_write() {
        let place = tempfile::tempdir().unwrap();
        let log = place.path().join("log");
        let here = ServerPlace {
            directory: place.path(),
            log: &log,
            export: place.path(),
            ip: Ipv4Addr::new(198, 18, 0, 2),
            port: 0,
            password: "",
            interfaces: "eth0",
            writable: true,
        };
        let text = configuration(&here);
        assert_eq!(text.matches(&format!("Path = \"{}\"", place.path().display())).count(), 2);
        let (first, second) = text.split_once("Export_Id = 2;").unwrap();
        assert!(first.contains("\"/files\"") && first.contains("NFS_Commit = false;"), "{text}");
        assert!(second.contains("\"/synced\"") && second.contains("NFS_Commit = true;"), "{text}");
        assert_eq!(Nfs.url(here.ip, "20", Export::Sync).unwrap(), "nfs://198.18.0.2/synced/20");
        assert_eq!(Nfs.export().unwrap().trim_start_matches('/'), EXPORTS[0].0);
        assert!(text.contains("Access_Type = RW;") && !text.contains("Access_Type = RO;"));
        let text = configuration(&ServerPlace { writable: false, ..here });
        assert!(text.contains("Access_Type = RO;") && !text.contains("Access_Type = RW;"));
        assert!(!says_ready(&log));
        fs::write(&log, "... :EVENT :             NFS SERVER INITIALIZED\n").unwrap();
        assert!(says_ready(&log));
    }

    #[test]
    fn the_server_starts_behind_rpcbind_in_mounts_of_its_own() {
        let line = Nfs.launch(words(["/usr/bin/ganesha.nfsd", "-F"]));
        assert_eq!(line[..4], ["unshare", "--mount", "sh", "-c"]);
        assert_eq!(line[line.len() - 2..], ["/usr/bin/ganesha.nfsd", "-F"]);
    }
}
