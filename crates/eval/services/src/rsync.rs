//! `rsync` and its daemon. Over ssh it is in [`ssh`](crate::ssh).

use crate::service::{Fetch, ServerPlace, Service, Transfer, listens, words};
use gigae_eval_model::service::{ServiceSpec, by_name};
use gigae_host::user;
use rustix::process::geteuid;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

pub(crate) struct Rsync;

/// The name of the exported directory.
const MODULE: &str = "files";

/// Who may use it. Its password is that of the run.
const USER: &str = "gigae";

/// More connections than all clients of a plan have.
const MOST_CONNECTIONS: u32 = 200;

/// What a client copies of each file: what `gigae cp` copies, too.
const COPIED: [&str; 4] = ["--recursive", "--links", "--perms", "--times"];

impl Service for Rsync {
    fn spec(&self) -> &'static ServiceSpec {
        by_name("rsync").expect("the model has it")
    }

    fn is_ready(&self, port: u16, _log: &Path) -> bool {
        listens(port)
    }

    fn configure(&self, place: &ServerPlace<'_>) -> io::Result<Vec<String>> {
        let file = place.directory.join("rsyncd.conf");
        fs::write(&file, configuration(place)?)?;
        fs::write(secrets(place), format!("{USER}:{}\n", place.password))?;
        let file = format!("--config={}", file.display());
        Ok(words(["--daemon", "--no-detach", &file]))
    }

    fn version(&self) -> &'static str {
        "\"$1\" --version"
    }

    fn fetch(&self, fetch: &Fetch<'_>) -> Vec<String> {
        let at = format!("{USER}@{}:{}", fetch.server, fetch.port);
        copy(fetch, &[], |path| format!("rsync://{at}/{MODULE}/{path}"))
    }

    fn environment(&self, fetch: &Fetch<'_>) -> Vec<(&'static str, String)> {
        vec![("RSYNC_PASSWORD", fetch.password.to_owned())]
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
    match fetch.sends {
        None => all.extend([at_server(fetch.file), fetch.into().into_owned() + "/"]),
        Some(from) => all.extend([from.display().to_string(), at_server(&above(fetch.file))]),
    }
    all
}

/// The directory of a path, with a slash at its end.
pub(crate) fn above(path: &str) -> String {
    path.rsplit_once('/').map_or("", |(above, _)| above).to_owned() + "/"
}

/// The file with the only user and its password.
fn secrets(place: &ServerPlace<'_>) -> PathBuf {
    place.directory.join("secrets")
}

/// The daemon keeps the user that it runs as, and its root directory; root has to say so. It asks
/// no name server. `strict modes`: the directory of the secrets is this user's alone.
fn configuration(place: &ServerPlace<'_>) -> io::Result<String> {
    let is_root = geteuid().is_root();
    if is_root && user::in_user_namespace() {
        return Err(io::Error::other("a user namespace lets it set no groups; run this as root"));
    }
    let ids = if is_root { "uid = 0\ngid = 0\n" } else { "" };
    Ok(format!(
        "address = {ip}\n\
         port = {port}\n\
         use chroot = no\n\
         {ids}\
         max connections = {MOST_CONNECTIONS}\n\
         lock file = {lock}\n\
         auth users = {USER}\n\
         secrets file = {secrets}\n\
         strict modes = no\n\
         reverse lookup = no\n\
         log file = {log}\n\
         [{MODULE}]\n\
         path = {export}\n\
         incoming chmod = Du+rwx\n\
         read only = {read_only}\n",
        ip = place.ip,
        port = place.port,
        lock = place.directory.join("lock").display(),
        secrets = secrets(place).display(),
        log = place.log.display(),
        export = place.export.display(),
        read_only = if place.writable { "no" } else { "yes" },
    ))
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
        assert_eq!(last(&tree()), "rsync://gigae@198.18.0.2:2021/files/200x20 /copies/0/");
        assert_eq!(last(&sent()), "/export/20 rsync://gigae@198.18.0.2:2021/files/in/");
    }
}
