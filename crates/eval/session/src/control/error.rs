//! Why the control connection failed.

use super::key::{LONGEST, SHORTEST};
use super::message::VERSION;
use std::io;

/// The control connection failed. The text is one line and says what to do.
#[derive(Debug, thiserror::Error)]
pub enum ControlError {
    /// The key file cannot be read.
    #[error(
        "cannot read key file '{file}': {source}; make one with 'gigae key' and copy it to both machines, or name another with --key"
    )]
    KeyFile {
        /// The file.
        file: String,
        /// Why.
        source: io::Error,
    },
    /// Everybody can read the key file.
    #[error(
        "key file '{file}' is accessible to every user (mode {mode:o}). Make a new key with 'gigae key'; or run 'chmod 600 {file}' if no other user has read it"
    )]
    KeyOpen {
        /// The file.
        file: String,
        /// Its mode.
        mode: u32,
    },
    /// The key file cannot be written.
    #[error(
        "cannot write key file '{file}': {source}; remove an old key first, or name another file"
    )]
    KeyWrite {
        /// The file.
        file: String,
        /// Why.
        source: io::Error,
    },
    /// The key is too short or too long.
    #[error("a key of {0} bytes does not do; it must have {SHORTEST} to {LONGEST}")]
    KeyLength(usize),
    /// The kernel gives no random numbers.
    #[error("the kernel gives no random numbers; see getrandom(2)")]
    Random,
    /// The peer cannot be reached.
    #[error("cannot reach '{peer}': {source}; start 'gigae serve' there and check the address")]
    Unreachable {
        /// Its name.
        peer: String,
        /// Why.
        source: io::Error,
    },
    /// The peer has another key.
    #[error("the peer has another key; copy the same key file to both machines")]
    WrongKey,
    /// The peer speaks another version.
    #[error(
        "the peer speaks version {theirs} of the control protocol, this is {VERSION}; install the same gigae on both machines"
    )]
    OtherVersion {
        /// Its version.
        theirs: u32,
    },
    /// The peer is not an evaluator, or something changed its messages.
    #[error("the peer sent {0}; check that it is 'gigae serve' of the same version")]
    Garbled(&'static str),
    /// The peer did not answer in time.
    #[error("the peer did not {0} in time; look at its messages and try again")]
    Silent(&'static str),
    /// The peer closed the connection.
    #[error("the peer closed the control connection; look at its messages and try again")]
    Closed,
    /// The peer answers nothing any more.
    #[error("the peer does not answer any more; check that its machine runs and the way there")]
    Gone,
    /// The peer ended the session.
    #[error("the peer ended the session: {0}")]
    Over(String),
    /// This end did not want to wait for its turn.
    #[error("gave up waiting for its turn")]
    GivenUp,
    /// The connection broke.
    #[error("the control connection broke: {0}; try again")]
    Io(io::Error),
}
