//! `rsync` and its daemon. Over ssh it is in [`ssh`](crate::ssh).

use crate::service::{Fetch, ServerPlace, Service, Transfer, listens, words};
use gigae_eval_model::service::{ServiceSpec, by_name};
use std::fs;
use std::io;
use std::path::Path;
use std::time::Duration;

pub(crate) struct Rsync;

/// The daemon's port (RFC 5781).
const PORT: u16 = 873;

/// The name of the exported directory.
const MODULE: &str = "files";

/// What a client copies of each file: what `gigae cp` copies, too.
const COPIED: [&str; 4] = ["--recursive", "--links", "--perms", "--times"];

impl Service for Rsync {
    fn spec(&self) -> &'static ServiceSpec {
        by_name("rsync").expect("the model has it")
    }

    fn is_ready(&self, _log: &Path) -> bool {
        listens(PORT)
    }

    fn configure(&self, place: &ServerPlace<'_>) -> io::Result<Vec<String>> {
        let file = place.directory.join("rsyncd.conf");
        fs::write(&file, configuration(place))?;
        let file = format!("--config={}", file.display());
        Ok(words(["--daemon", "--no-detach", &file]))
    }

    fn version(&self) -> &'static str {
        "\"$1\" --version"
    }

    fn fetch(&self, fetch: &Fetch<'_>) -> Vec<String> {
        copy(fetch, &[], |path| format!("rsync://{}:{PORT}/{MODULE}/{path}", fetch.server))
    }

    fn read(&self, fetch: &Fetch<'_>, _said: &str, whole: Duration) -> Option<Transfer> {
        Some(fetch.all(whole))
    }
}

/// The client's arguments, by how it names a path at the server. Into a directory, each file keeps
/// its name.
pub(crate) fn copy(
    fetch: &Fetch<'_>,
    how: &[String],
    at_server: impl Fn(&str) -> String,
) -> Vec<String> {
    let mut all = words(COPIED);
    all.extend_from_slice(how);
    let above = |path: &str| path.rsplit_once('/').map_or("", |(above, _)| above).to_owned() + "/";
    match fetch.sends {
        None => all.extend([at_server(fetch.file), fetch.into().into_owned() + "/"]),
        Some(from) => all.extend([from.display().to_string(), at_server(&above(fetch.file))]),
    }
    all
}

/// The daemon keeps the user that it runs as, and its root directory. It asks no name server.
fn configuration(place: &ServerPlace<'_>) -> String {
    format!(
        "address = {ip}\n\
         port = {PORT}\n\
         use chroot = no\n\
         uid = 0\n\
         gid = 0\n\
         reverse lookup = no\n\
         log file = {log}\n\
         [{MODULE}]\n\
         path = {export}\n\
         read only = {read_only}\n",
        ip = place.ip,
        log = place.log.display(),
        export = place.export.display(),
        read_only = if place.writable { "no" } else { "yes" },
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::service::testing::{sent, tree};

    #[test]
    fn a_copy_keeps_its_name_in_the_directory_it_goes_to() {
        let last = |fetch: &Fetch<'_>| {
            let words = Rsync.fetch(fetch);
            words[words.len() - 2..].join(" ")
        };
        assert_eq!(last(&tree()), "rsync://198.18.0.2:873/files/200x20 /copies/0/");
        assert_eq!(last(&sent()), "/export/20 rsync://198.18.0.2:873/files/in/");
    }
}
