//! One open port: where a firewall lets clients reach only the port of the control connection, what is
//! measured comes by that same port, too.
//!
//! UDP has a port of the same number for itself. A TCP connection to be measured arrives where control
//! connections do; the client has said from which address and port it comes, and by those it is told
//! from the others and handed on.

use std::net::{SocketAddr, TcpStream};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// The port, and who is expected there.
#[derive(Debug)]
pub struct Door {
    port: u16,
    state: Mutex<State>,
    came: Condvar,
}

#[derive(Debug, Default)]
struct State {
    expected: Option<SocketAddr>,
    arrived: Option<TcpStream>,
}

impl Door {
    /// The port of the control connection.
    pub fn new(port: u16) -> Self {
        Self { port, state: Mutex::default(), came: Condvar::new() }
    }

    /// The port.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// From now on this peer's connection is for [`Door::wait`], and nobody else's; `None` expects nobody. What
    /// came for the one before is closed.
    pub fn expect(&self, peer: Option<SocketAddr>) {
        *self.state() = State { expected: peer, arrived: None };
    }

    /// Keeps a connection that is expected, and gives back any other.
    pub fn take(&self, from: SocketAddr, stream: TcpStream) -> Option<TcpStream> {
        let mut state = self.state();
        // A socket for both families says IPv4 addresses in another way.
        let from = SocketAddr::new(from.ip().to_canonical(), from.port());
        if state.expected != Some(from) {
            return Some(stream);
        }
        state.expected = None;
        state.arrived = Some(stream);
        self.came.notify_all();
        None
    }

    /// The expected connection, if it comes in time.
    pub fn wait(&self, timeout: Duration) -> Option<TcpStream> {
        let none = |state: &mut State| state.arrived.is_none();
        let waited = self.came.wait_timeout_while(self.state(), timeout, none);
        waited.unwrap_or_else(PoisonError::into_inner).0.arrived.take()
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // Whoever panicked left it whole: each change is a single assignment.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::TcpListener;

    #[test]
    fn only_the_expected_connection_is_kept_and_only_once() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let connect = || {
            let one = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
            (one.local_addr().unwrap(), listener.accept().unwrap().0)
        };
        let door = Door::new(1);
        let ((first, stream), (second, other)) = (connect(), connect());
        let stream = door.take(first, stream).expect("nobody was expected");
        door.expect(Some(first));
        let other = door.take(second, other).expect("another was expected");
        assert!(door.wait(Duration::from_millis(1)).is_none());
        assert!(door.take(first, stream).is_none());
        assert!(door.take(first, other).is_some(), "it came already");
        assert!(door.wait(Duration::ZERO).is_some());
        assert!(door.wait(Duration::ZERO).is_none());
    }
}
