//! The serving end, wherever it is.

use crate::error::ServiceError;
use crate::service::Service;
use crate::store::StoredFile;
use gigae_eval_session::control::Spent;
use std::net::Ipv4Addr;
use std::path::PathBuf;

/// What clients need to know of a server.
#[derive(Clone)]
pub struct ServerAddress {
    /// The service.
    pub service: &'static dyn Service,
    /// Its address.
    pub ip: Ipv4Addr,
    /// Its MAC address.
    pub mac: [u8; 6],
    /// Its port, where it has no usual one.
    pub port: u16,
    /// Its password, where it asks for one.
    pub password: String,
    /// The directory for what clients write, and of the server's configuration if that is on this
    /// machine.
    pub directory: PathBuf,
}

/// A server and its files, on this machine or on another one.
pub trait ServingEnd {
    /// Where clients find it.
    fn at(&self) -> &ServerAddress;

    /// What its program says of its version, and the file system of its files.
    fn about(&self) -> (String, Option<String>);

    /// An error if the server has ended.
    fn alive(&mut self) -> Result<(), ServiceError>;

    /// Reading its disk takes at least so long from now on, if its memory is limited.
    fn slow_disk(&mut self, bytes_per_second: f64) -> Result<(), ServiceError>;

    /// A repetition begins: what was sent in part is removed, and all files are written to the
    /// disk, so that no copy waits for what an earlier one has left.
    fn begin(&mut self) -> Result<(), ServiceError>;

    /// The repetition is over: what it cost.
    fn end(&mut self) -> Result<Spent, ServiceError>;

    /// Whether what was sent under this name is this file; it is removed, or put aside.
    fn is_same(&mut self, sent: &str, file: &StoredFile) -> Result<bool, ServiceError>;
}
