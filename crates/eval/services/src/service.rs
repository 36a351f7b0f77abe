//! What a file service is for a run: how its server is set up, and how its client fetches a file.

use gigae_eval_model::service::{Protection, ServiceSpec};
use std::io;
use std::net::Ipv4Addr;
use std::path::Path;
use std::time::Duration;

/// A file service.
pub trait Service: Sync {
    /// What it is.
    fn spec(&self) -> &'static ServiceSpec;

    /// The TCP port at which its server waits. A node of the fabric has all ports for itself.
    fn port(&self) -> u16;

    /// Writes the server's configuration and whatever else it needs; gives its arguments. The
    /// server must stay in the foreground and in its process group.
    fn configure(&self, place: &ServerPlace<'_>) -> io::Result<Vec<String>>;

    /// A shell command that prints the version of the server's program, whose path is `$1`.
    fn version(&self) -> &'static str;

    /// A client's arguments.
    fn fetch(&self, fetch: &Fetch<'_>) -> Vec<String>;

    /// What the client printed of the last file of a fetch; `None` if it makes no sense. `whole`
    /// is how long the client ran.
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
}

/// What a client is to fetch.
pub struct Fetch<'a> {
    /// The server's address.
    pub server: Ipv4Addr,
    /// The directory of the server's configuration, for clients that share it.
    pub directory: &'a Path,
    /// The name of the file.
    pub file: &'a str,
    /// Its bytes.
    pub size: u64,
    /// A file that the same connection brings before; its copy is dropped.
    pub before: Option<&'a str>,
    /// Where the copy goes.
    pub to: &'a Path,
    /// What protects it on its way.
    pub protection: Protection,
}

/// A transfer as its client saw it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Transfer {
    /// Seconds before the file began to come: connection, login, commands.
    pub before: f64,
    /// Seconds in which it came.
    pub seconds: f64,
    /// Bytes that came.
    pub bytes: u64,
}

/// Words as arguments.
pub(crate) fn words<const N: usize>(words: [&str; N]) -> Vec<String> {
    words.iter().map(|&word| word.to_owned()).collect()
}
