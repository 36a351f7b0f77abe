//! The control connection: the messages of the two ends beside the measured traffic.
//!
//! Both prove that they know the same [`Key`], which never travels, and all that follows is
//! encrypted: [`Session`] says how. Lengths are bounded, far more narrowly before the peer is
//! known; every read and write has a deadline; a peer that is gone is noticed after [`GONE_AFTER`].
//!
//! A server has one client at a time. The others wait in a queue. The server sends them their place
//! ([`Reply::Waiting`]) until it is their turn ([`Reply::Welcome`]).

pub mod answering;
mod error;
mod key;
mod message;
mod session;

pub use error::ControlError;
pub use key::{KEY_FILE, Key};
pub use message::{
    FilesReply, FilesRequest, FilesServing, Limits, Reply, Request, Soak, Spent, VERSION, Waiting,
};
pub use session::{ANSWER, GONE_AFTER, Session, accept};

use session::HANDSHAKE_TIMEOUT;
use std::io;
use std::net::{SocketAddr, TcpStream, ToSocketAddrs};
use std::time::Duration;

/// TCP port that `serve` listens on by default; in the range that IANA leaves free.
pub const PORT: u16 = 49_988;

/// How often the server sends a queue update to each waiting client.
pub const QUEUE_UPDATE_EVERY: Duration = Duration::from_secs(1);
/// A waiting client gives up after this time without a queue update.
const NO_UPDATE_TIMEOUT: Duration = Duration::from_secs(20);

/// Connects to a server, proves the key, both ways, and waits for its turn. `turn` gets each queue
/// update; if it returns `false`, the client gives up.
pub fn connect(
    peer: &str,
    key: &Key,
    turn: &mut dyn FnMut(&Waiting) -> bool,
) -> Result<Session, ControlError> {
    let unreachable = |source| ControlError::Unreachable { peer: peer.to_owned(), source };
    let mut last = io::Error::new(io::ErrorKind::NotFound, "no address");
    for address in addresses(peer).map_err(unreachable)? {
        match TcpStream::connect_timeout(&address, HANDSHAKE_TIMEOUT) {
            Ok(stream) => return admitted(session::client(stream, key)?, turn),
            Err(error) => last = error,
        }
    }
    Err(unreachable(last))
}

fn admitted(
    mut session: Session,
    turn: &mut dyn FnMut(&Waiting) -> bool,
) -> Result<Session, ControlError> {
    loop {
        match session.receive(NO_UPDATE_TIMEOUT)? {
            Reply::Waiting(waiting) if !turn(&waiting) => return Err(ControlError::GivenUp),
            Reply::Waiting(_) => {}
            Reply::Welcome(limits) => {
                session.limits = limits;
                return Ok(session);
            }
            Reply::Over { reason } => return Err(ControlError::Over(reason)),
            _ => return Err(ControlError::Garbled("an answer without a question")),
        }
    }
}

/// "HOST:PORT", "[V6]:PORT", or a bare host or address, in brackets or not, with the default port.
fn addresses(peer: &str) -> io::Result<Vec<SocketAddr>> {
    let with_port = peer.parse::<SocketAddr>().is_ok()
        || peer
            .rsplit_once(':')
            .is_some_and(|(host, port)| !host.contains(':') && port.parse::<u16>().is_ok());
    let bare = peer.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')).unwrap_or(peer);
    let found = if with_port { peer.to_socket_addrs()? } else { (bare, PORT).to_socket_addrs()? };
    Ok(found.collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn peers_are_named_with_and_without_a_port_and_in_both_families() {
        for (text, address) in [
            ("127.0.0.1", "127.0.0.1:49988"),
            ("127.0.0.1:5", "127.0.0.1:5"),
            ("fd00::2", "[fd00::2]:49988"),
            ("[fd00::2]", "[fd00::2]:49988"),
            ("[fd00::2]:5", "[fd00::2]:5"),
        ] {
            assert_eq!(addresses(text).unwrap(), [address.parse().unwrap()], "{text}");
        }
    }

    #[test]
    fn a_queue_update_has_the_place_and_the_time() {
        let waiting = Waiting { before: 1, served: 61.0, at_most: None };
        assert_eq!(
            waiting.to_string(),
            "waiting: 1 client is before this one, the present one for 1m 1s"
        );
        let waiting = Waiting { before: 3, served: 1.0, at_most: Some(600.0) };
        assert_eq!(waiting.to_string(), "waiting: 3 clients are before this one, 10m at most");
    }
}
