//! `lftp`, which opens several connections to `vsftpd`.

use crate::ftp;
use crate::service::{Fetch, ServerPlace, Service, Transfer, listens, words};
use gigae_eval_model::service::{ServiceSpec, by_name};
use std::io;
use std::path::Path;
use std::time::Duration;

pub(crate) struct Lftp;

/// Connections for the parts of a file: what lftp's own manual shows in its example is 4.
const OF_FILE: u32 = 4;

/// Connections for the files of a tree.
const OF_TREE: u32 = 8;

/// No TLS, which the server does not have, no second try, and nothing written into the user's
/// directories. What follows ends with the first failure.
const SETTINGS: &str = "set ftp:ssl-allow no; set net:max-retries 1; set net:timeout 60; \
                        set xfer:log no; set cmd:save-cwd-history no; set cmd:fail-exit yes; ";

impl Service for Lftp {
    fn spec(&self) -> &'static ServiceSpec {
        by_name("lftp").expect("the model has it")
    }

    fn is_ready(&self, port: u16, _log: &Path) -> bool {
        listens(port)
    }

    fn configure(&self, place: &ServerPlace<'_>) -> io::Result<Vec<String>> {
        ftp::configure(place)
    }

    fn version(&self) -> &'static str {
        ftp::VERSION
    }

    fn client_version(&self) -> Option<&'static str> {
        Some("\"$1\" --version")
    }

    fn fetch(&self, fetch: &Fetch<'_>) -> Vec<String> {
        let (file, to) = (fetch.file, fetch.target());
        let copy = match (fetch.sends, fetch.files) {
            (None, 1) => format!("pget -n {OF_FILE} {file} -o \"{to}\""),
            (None, _) => format!("mirror --parallel={OF_TREE} --no-perms {file} \"{to}\""),
            (Some(from), 1) => format!("put \"{}\" -o {file}", from.display()),
            (Some(from), _) => {
                let from = from.display();
                format!("mirror --reverse --parallel={OF_TREE} --no-perms \"{from}\" {file}")
            }
        };
        let (user, password) = (ftp::USER, fetch.password);
        let login = format!("open -u {user},{password} ftp://{}:{}", fetch.server, fetch.port);
        let script = format!("{SETTINGS}{login}; {copy}");
        words(["--norc", "-c", &script])
    }

    /// lftp always writes a history. It goes into the run's directory.
    fn environment(&self, fetch: &Fetch<'_>) -> Vec<(&'static str, String)> {
        vec![("LFTP_HOME", fetch.directory.join("lftp").display().to_string())]
    }

    fn read(&self, fetch: &Fetch<'_>, _said: &str, whole: Duration) -> Option<Transfer> {
        Some(fetch.all(whole))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::service::testing::{fetch, sent, sent_tree, tree};

    #[test]
    fn files_and_trees_come_over_several_connections() {
        let last = |fetch: &Fetch<'_>| {
            let script = Lftp.fetch(fetch).pop().unwrap();
            script.rsplit_once("; ").unwrap().1.to_owned()
        };
        assert_eq!(last(&fetch()), "pget -n 4 20 -o \"/dev/null\"");
        let mirror = "mirror --parallel=8 --no-perms 200x20 \"/copies/0/200x20\"";
        assert_eq!(last(&tree()), mirror);
        assert_eq!(last(&sent()), "put \"/export/20\" -o in/20");
        let mirror = "mirror --reverse --parallel=8 --no-perms \"/export/200x20\" in/200x20";
        assert_eq!(last(&sent_tree()), mirror);
    }
}
