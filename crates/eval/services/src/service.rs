//! What a file service is for a run: how its server is set up, and how its client fetches a file.

use gigae_eval_model::access::Export;
use gigae_eval_model::service::{Protection, ServiceSpec};
use std::borrow::Cow;
use std::io;
use std::net::Ipv4Addr;
use std::path::Path;
use std::time::Duration;

/// A file service.
pub trait Service: Sync {
    /// What it is.
    fn spec(&self) -> &'static ServiceSpec;

    /// Whether the server can serve at this port; its log may say that. The calling thread is in
    /// its network.
    fn is_ready(&self, port: u16, log: &Path) -> bool;

    /// Writes the server's configuration and whatever else it needs; gives its arguments. The
    /// server must stay in the foreground and in its process group.
    fn configure(&self, place: &ServerPlace<'_>) -> io::Result<Vec<String>>;

    /// The command line that prepares what the server needs and becomes the server, from the
    /// server's own one.
    fn launch(&self, line: Vec<String>) -> Vec<String> {
        line
    }

    /// Whether clients can send a file to a name whose file was removed in the exported directory
    /// while the server ran.
    fn reuses_names(&self) -> bool {
        true
    }

    /// Where a program finds a file of the server to read and write within it, for services that
    /// have this ([`ServiceSpec::accesses`]).
    fn url(&self, _server: Ipv4Addr, _file: &str, _export: Export) -> Option<String> {
        None
    }

    /// The exported directory as a client names it that does operations on names, for services that
    /// have this ([`ServiceSpec::names`]).
    fn export(&self) -> Option<&'static str> {
        None
    }

    /// A shell command that prints the version of the server's program, whose path is `$1`.
    fn version(&self) -> &'static str;

    /// The same for the client's program, if it is another one.
    fn client_version(&self) -> Option<&'static str> {
        None
    }

    /// A client's arguments. The last one of the service's programs is the client.
    fn fetch(&self, fetch: &Fetch<'_>) -> Vec<String>;

    /// What a client has in its environment beside what this process has.
    fn environment(&self, _fetch: &Fetch<'_>) -> Vec<(&'static str, String)> {
        Vec::new()
    }

    /// What the client printed of the last file of a fetch, or of its tree; `None` if it makes no
    /// sense. `whole` is how long the client ran.
    fn read(&self, fetch: &Fetch<'_>, said: &str, whole: Duration) -> Option<Transfer>;
}

/// Where a server works.
pub struct ServerPlace<'a> {
    /// A directory for its configuration and its state.
    pub directory: &'a Path,
    /// The file for its log.
    pub log: &'a Path,
    /// The directory that it exports.
    pub export: &'a Path,
    /// Its address.
    pub ip: Ipv4Addr,
    /// A port that is free there, for servers that have no usual one.
    pub port: u16,
    /// What a client must know, of servers that ask for a password.
    pub password: &'a str,
    /// All its interfaces, with commas between them.
    pub interfaces: &'a str,
    /// Whether clients write into the directory `in` beneath the exported one.
    pub writable: bool,
}

/// The directory beneath the exported one that clients send to.
pub(crate) const UPLOADS: &str = "in";

/// What a client is to fetch, or to send.
pub struct Fetch<'a> {
    /// The server's address.
    pub server: Ipv4Addr,
    /// Its MAC address.
    pub mac: [u8; 6],
    /// Its port, if that is not the service's usual one.
    pub port: u16,
    /// The password, if it asks for one.
    pub password: &'a str,
    /// All interfaces of the client, with commas between them.
    pub interfaces: &'a str,
    /// The directory for what clients write, and of the server's configuration if that is on this
    /// machine.
    pub directory: &'a Path,
    /// The name of the file, or of the tree's directory, beneath the exported one.
    pub file: &'a str,
    /// Bytes of the file, or of each file of the tree.
    pub size: u64,
    /// How many files: more than one are a tree.
    pub files: u32,
    /// What is sent: the path of a file or directory here. Absent: it is fetched.
    pub sends: Option<&'a Path>,
    /// A file that the same connection brings before; its copy is dropped.
    pub before: Option<&'a str>,
    /// The path of a copy that is fetched: its directory is there, and it has the same name as the
    /// file. Absent: what is fetched goes to the null device.
    pub to: Option<&'a Path>,
    /// What protects it on its way.
    pub protection: Protection,
}

impl Fetch<'_> {
    /// All bytes.
    pub fn bytes(&self) -> u64 {
        self.size * u64::from(self.files)
    }

    /// Where the copy goes.
    pub(crate) fn target(&self) -> Cow<'_, str> {
        self.to.unwrap_or(Path::new("/dev/null")).to_string_lossy()
    }

    /// The directory of the copy, for clients that only copy into one.
    pub(crate) fn into(&self) -> Cow<'_, str> {
        let copy = self.to.expect("the plan was checked: this client makes copies only");
        copy.parent().unwrap_or(copy).to_string_lossy()
    }

    /// What is to be said of a client that says nothing: it has ended well, so everything was
    /// transferred, and that took all its time.
    pub(crate) fn all(&self, whole: Duration) -> Transfer {
        Transfer { before: None, seconds: whole.as_secs_f64(), bytes: self.bytes() }
    }
}

/// A transfer as its client saw it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Transfer {
    /// Seconds before the file began to come: connection, login, commands; absent if the client
    /// does not say.
    pub before: Option<f64>,
    /// Seconds in which it came.
    pub seconds: f64,
    /// Bytes that came.
    pub bytes: u64,
}

/// Whether something listens at this TCP port of the calling thread's network.
pub(crate) fn listens(port: u16) -> bool {
    gigae_eval_session::programs::answer::listens(port, false)
}

/// Words as arguments.
pub(crate) fn words<const N: usize>(words: [&str; N]) -> Vec<String> {
    words.iter().map(|&word| word.to_owned()).collect()
}

#[cfg(test)]
pub(crate) mod testing {
    use crate::service::Fetch;
    use gigae_eval_model::service::Protection;
    use std::net::Ipv4Addr;
    use std::path::Path;

    /// A file of 20 bytes to null.
    pub(crate) fn fetch<'a>() -> Fetch<'a> {
        Fetch {
            server: Ipv4Addr::new(198, 18, 0, 2),
            mac: [2, 0, 0, 0, 0, 2],
            port: 2021,
            password: "secret",
            interfaces: "eth0",
            directory: Path::new("/some where"),
            file: "20",
            size: 20,
            files: 1,
            sends: None,
            before: None,
            to: None,
            protection: Protection::Off,
        }
    }

    /// A tree of 200 files into a directory.
    pub(crate) fn tree<'a>() -> Fetch<'a> {
        Fetch { file: "200x20", files: 200, to: Some(Path::new("/copies/0/200x20")), ..fetch() }
    }

    /// The same tree, sent.
    pub(crate) fn sent_tree<'a>() -> Fetch<'a> {
        Fetch { file: "in/200x20", sends: Some(Path::new("/export/200x20")), to: None, ..tree() }
    }

    /// A file, sent.
    pub(crate) fn sent<'a>() -> Fetch<'a> {
        Fetch { file: "in/20", sends: Some(Path::new("/export/20")), ..fetch() }
    }
}
