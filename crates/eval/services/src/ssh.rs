//! OpenSSH: `sshd` for one user with a key, and `rsync` and `scp` over `ssh`.
//!
//! Server and clients have configurations of their own, in the run's directory. So they read no
//! configuration or keys of `/etc/ssh` and `~/.ssh`, and the server asks no PAM. By `UseDNS no`, it
//! looks up no client's name. Ciphers are those that OpenSSH takes by itself.

use crate::installed::find;
use crate::rsync;
use crate::service::{Fetch, ServerPlace, Service, Transfer, listens, words};
use gigae_eval_model::service::{ServiceSpec, by_name};
use std::fs;
use std::io;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

pub(crate) struct RsyncSsh;
pub(crate) struct Scp;

/// The server's port: not that of the host's own server, though no other network has this one.
const PORT: u16 = 2222;

/// The only user that the server lets in: the one that it runs as.
const USER: &str = "root";

/// sshd needs a directory of the system, which its package makes only when it starts the system's
/// own server. Where it is missing, this server sees one of its own, which goes with it.
const SCRIPT: &str = "[ ! -d /run/sshd ] || exec \"$@\"\n\
    exec unshare --mount --propagation private sh -c \
    'mount -t tmpfs -o mode=755 gigae /run && mkdir -m 755 /run/sshd && exec \"$@\"' sh \"$@\"";

/// The version of server and client, which are of one source. It is printed on standard error.
const VERSION: &str = "ssh -V 2>&1";

impl Service for RsyncSsh {
    fn spec(&self) -> &'static ServiceSpec {
        by_name("rsync-ssh").expect("the model has it")
    }

    fn is_ready(&self, _port: u16, _log: &Path) -> bool {
        listens(PORT)
    }

    fn configure(&self, place: &ServerPlace<'_>) -> io::Result<Vec<String>> {
        configure(place)
    }

    fn launch(&self, line: Vec<String>) -> Vec<String> {
        launch(line)
    }

    fn version(&self) -> &'static str {
        VERSION
    }

    /// The version of ssh is the server's.
    fn client_version(&self) -> Option<&'static str> {
        Some("\"$1\" --version")
    }

    fn fetch(&self, fetch: &Fetch<'_>) -> Vec<String> {
        let shell = format!("--rsh=ssh -F \"{}\"", client_file(fetch.directory));
        let export = fetch.directory.with_file_name(crate::store::EXPORT);
        let at_server = |path: &str| format!("{}:{}/{path}", fetch.server, export.display());
        rsync::copy(fetch, &[shell], at_server)
    }

    fn read(&self, fetch: &Fetch<'_>, _said: &str, whole: Duration) -> Option<Transfer> {
        Some(fetch.all(whole))
    }
}

impl Service for Scp {
    fn spec(&self) -> &'static ServiceSpec {
        by_name("scp").expect("the model has it")
    }

    fn is_ready(&self, _port: u16, _log: &Path) -> bool {
        listens(PORT)
    }

    fn configure(&self, place: &ServerPlace<'_>) -> io::Result<Vec<String>> {
        configure(place)
    }

    fn launch(&self, line: Vec<String>) -> Vec<String> {
        launch(line)
    }

    fn version(&self) -> &'static str {
        VERSION
    }

    fn fetch(&self, fetch: &Fetch<'_>) -> Vec<String> {
        let mut all = words(["-q", "-r", "-p", "-F", &client_file(fetch.directory)]);
        let export = fetch.directory.with_file_name(crate::store::EXPORT);
        let at_server = |path: &str| format!("{}:{}/{path}", fetch.server, export.display());
        match fetch.sends {
            None => all.extend([at_server(fetch.file), format!("{}/", fetch.into())]),
            Some(from) => {
                all.extend([from.display().to_string(), at_server(&rsync::above(fetch.file))]);
            }
        }
        all
    }

    fn read(&self, fetch: &Fetch<'_>, _said: &str, whole: Duration) -> Option<Transfer> {
        Some(fetch.all(whole))
    }
}

fn launch(line: Vec<String>) -> Vec<String> {
    [words(["sh", "-c", SCRIPT, "sh"]), line].concat()
}

fn client_file(directory: &Path) -> String {
    directory.join("client.conf").display().to_string()
}

/// Makes keys and configurations of both ends; the server's arguments.
fn configure(place: &ServerPlace<'_>) -> io::Result<Vec<String>> {
    if place.directory.starts_with("/run") {
        return Err(io::Error::other("sshd has another /run; choose a directory elsewhere"));
    }
    let file = |name: &str| place.directory.join(name);
    let public = |name: &str| fs::read_to_string(file(&format!("{name}.pub")));
    for key in ["host_key", "client_key"] {
        make_key(&file(key))?;
    }
    fs::copy(file("client_key.pub"), file("authorized_keys"))?;
    let known = format!("[{}]:{PORT} {}", place.ip, public("host_key")?);
    fs::write(file("known_hosts"), known)?;
    fs::write(client_file(place.directory), client(place.directory))?;
    let server_file = file("sshd.conf");
    fs::write(&server_file, server(place))?;
    let log = place.log.to_string_lossy();
    Ok(words(["-D", "-f", &server_file.to_string_lossy(), "-E", &log]))
}

fn make_key(file: &Path) -> io::Result<()> {
    let program = find("ssh-keygen").unwrap_or_else(|| "ssh-keygen".to_owned());
    let mut command = Command::new(program);
    command.args(["-q", "-t", "ed25519", "-N", "", "-C", "gigae", "-f"]).arg(file);
    let output = command.stdin(Stdio::null()).output()?;
    if output.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    let last = said.lines().last().unwrap_or("it said nothing").to_owned();
    Err(io::Error::other(format!("ssh-keygen: {last}")))
}

/// A key is the only way in. `StrictModes`: the temporary directory's own parents belong to all.
fn server(place: &ServerPlace<'_>) -> String {
    format!(
        "ListenAddress {ip}\n\
         Port {PORT}\n\
         HostKey \"{directory}/host_key\"\n\
         AuthorizedKeysFile \"{directory}/authorized_keys\"\n\
         AllowUsers {USER}\n\
         PermitRootLogin prohibit-password\n\
         AuthenticationMethods publickey\n\
         PasswordAuthentication no\n\
         KbdInteractiveAuthentication no\n\
         UsePAM no\n\
         StrictModes no\n\
         PidFile none\n\
         UseDNS no\n\
         PrintMotd no\n\
         PrintLastLog no\n\
         PermitUserRC no\n\
         DisableForwarding yes\n\
         Subsystem sftp internal-sftp\n",
        ip = place.ip,
        directory = place.directory.display(),
    )
}

/// The client knows this server's key alone, and has no other key than its own.
fn client(directory: &Path) -> String {
    format!(
        "User {USER}\n\
         Port {PORT}\n\
         IdentityFile \"{directory}/client_key\"\n\
         IdentitiesOnly yes\n\
         IdentityAgent none\n\
         UserKnownHostsFile \"{directory}/known_hosts\"\n\
         GlobalKnownHostsFile /dev/null\n\
         StrictHostKeyChecking yes\n\
         BatchMode yes\n\
         ControlPath none\n\
         LogLevel ERROR\n",
        directory = directory.display(),
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::service::testing::{sent, tree};
    use std::net::Ipv4Addr;

    #[test]
    fn both_ends_have_keys_of_their_own_and_nothing_else_opens_the_server() {
        let place = tempfile::tempdir().unwrap();
        let (log, export) = (place.path().join("log"), place.path().join("export"));
        let place = ServerPlace {
            directory: place.path(),
            log: &log,
            export: &export,
            ip: Ipv4Addr::new(198, 18, 0, 2),
            port: 0,
            password: "",
            interfaces: "eth0",
            writable: false,
        };
        let words = configure(&place).unwrap();
        assert_eq!((words[0].as_str(), words[2].ends_with("sshd.conf")), ("-D", true));
        let read = |name: &str| fs::read_to_string(place.directory.join(name)).unwrap();
        assert_eq!(read("authorized_keys"), read("client_key.pub"));
        assert!(read("known_hosts").starts_with("[198.18.0.2]:2222 ssh-ed25519 "));
        assert_ne!(read("host_key"), read("client_key"));
        for line in ["PasswordAuthentication no", "AllowUsers root", "StrictHostKeyChecking yes"] {
            let all = read("sshd.conf") + &read("client.conf");
            assert!(all.lines().any(|it| it == line), "{line}: {all}");
        }
    }

    #[test]
    fn both_programs_name_the_files_by_their_paths_at_the_server() {
        let last = |service: &dyn Service, fetch: &Fetch<'_>| {
            let words = service.fetch(fetch);
            words[words.len() - 2..].join(" ")
        };
        let directory = Path::new("/store/scp");
        let (tree, sent) = (Fetch { directory, ..tree() }, Fetch { directory, ..sent() });
        assert_eq!(last(&Scp, &tree), "198.18.0.2:/store/export/200x20 /copies/0/");
        assert_eq!(last(&Scp, &sent), "/export/20 198.18.0.2:/store/export/in/");
        assert_eq!(last(&RsyncSsh, &tree), "198.18.0.2:/store/export/200x20 /copies/0/");
        assert_eq!(last(&RsyncSsh, &sent), "/export/20 198.18.0.2:/store/export/in/");
        let shell = "--rsh=ssh -F \"/store/scp/client.conf\"".to_owned();
        assert!(RsyncSsh.fetch(&tree).contains(&shell));
    }
}
