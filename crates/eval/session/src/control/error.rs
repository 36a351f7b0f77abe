//! Why the control connection failed.

use super::key::{LONGEST, SHORTEST};
use super::message::VERSION;
use std::fmt;
use std::io;

/// The control connection failed. The text is one line and says what to do.
#[derive(Debug)]
pub enum ControlError {
    /// The key file cannot be read.
    KeyFile {
        /// The file.
        file: String,
        /// Why.
        source: io::Error,
    },
    /// Everybody can read the key file.
    KeyOpen {
        /// The file.
        file: String,
        /// Its mode.
        mode: u32,
    },
    /// The key file cannot be written.
    KeyWrite {
        /// The file.
        file: String,
        /// Why.
        source: io::Error,
    },
    /// The key is too short or too long.
    KeyLength(usize),
    /// The kernel gives no random numbers.
    Random,
    /// The peer cannot be reached.
    Unreachable {
        /// Its name.
        peer: String,
        /// Why.
        source: io::Error,
    },
    /// The peer has another key.
    WrongKey,
    /// The peer speaks another version.
    OtherVersion {
        /// Its version.
        theirs: u32,
    },
    /// The peer is not an evaluator, or something changed its messages.
    Garbled(&'static str),
    /// The peer did not answer in time.
    Silent(&'static str),
    /// The peer closed the connection.
    Closed,
    /// The peer answers nothing any more.
    Gone,
    /// The peer ended the session.
    Over(String),
    /// This end did not want to wait for its turn.
    GivenUp,
    /// The connection broke.
    Io(io::Error),
}

impl fmt::Display for ControlError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::KeyFile { file, source } => write!(
                f,
                "cannot read key file '{file}': {source}; make one with 'gigae key' and copy it to both machines, or name another with --key"
            ),
            Self::KeyOpen { file, mode } => write!(
                f,
                "key file '{file}' can be read by everybody (mode {mode:o}), so it is no secret; make a new one with 'gigae key', or run 'chmod 600 {file}' if nobody has read it"
            ),
            Self::KeyWrite { file, source } => write!(
                f,
                "cannot write key file '{file}': {source}; remove an old key first, or name another file"
            ),
            Self::KeyLength(bytes) => write!(
                f,
                "a key of {bytes} bytes does not do; it must have {} to {}",
                SHORTEST, LONGEST
            ),
            Self::Random => f.write_str("the kernel gives no random numbers; see getrandom(2)"),
            Self::Unreachable { peer, source } => {
                write!(
                    f,
                    "cannot reach '{peer}': {source}; start 'gigae serve' there and check the address"
                )
            }
            Self::WrongKey => {
                f.write_str("the peer has another key; copy the same key file to both machines")
            }
            Self::OtherVersion { theirs } => write!(
                f,
                "the peer speaks version {theirs} of the control protocol, this is {VERSION}; install the same gigae on both machines"
            ),
            Self::Garbled(what) => {
                write!(
                    f,
                    "the peer sent {what}; check that it is 'gigae serve' of the same version"
                )
            }
            Self::Silent(what) => {
                write!(f, "the peer did not {what} in time; look at its messages and try again")
            }
            Self::Closed => f.write_str(
                "the peer closed the control connection; look at its messages and try again",
            ),
            Self::Gone => f.write_str(
                "the peer does not answer any more; check that its machine runs and the way there",
            ),
            Self::Over(reason) => write!(f, "the peer ended the session: {reason}"),
            Self::GivenUp => f.write_str("gave up waiting for its turn"),
            Self::Io(source) => write!(f, "the control connection broke: {source}; try again"),
        }
    }
}

impl std::error::Error for ControlError {}
