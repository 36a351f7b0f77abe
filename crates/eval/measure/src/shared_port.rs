//! One open port. A firewall may let clients reach only the port of the control connection. Then
//! the measured traffic uses the same port.
//!
//! UDP has a port of the same number for itself. A TCP connection to be measured arrives where
//! control connections do. The client has said from which address and port it comes. By these the
//! server recognizes the connection and hands it on.

use std::net::{SocketAddr, TcpStream};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// The port, and who is expected there.
#[derive(Debug)]
pub struct SharedPort {
    port: u16,
    state: Mutex<SharedPortState>,
    came: Condvar,
}

#[derive(Debug, Default)]
struct SharedPortState {
    /// Whose connections are wanted, and those that came.
    wanted: Vec<(SocketAddr, Option<TcpStream>)>,
}

impl SharedPortState {
    fn is_complete(&self) -> bool {
        self.wanted.iter().all(|(_, came)| came.is_some())
    }
}

impl SharedPort {
    /// The port of the control connection.
    pub fn new(port: u16) -> Self {
        Self { port, state: Mutex::default(), came: Condvar::new() }
    }

    /// The port.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// From now on the connections from these addresses and ports are for [`SharedPort::wait`], and
    /// no others. What came for those before is closed.
    pub fn expect(&self, peers: &[SocketAddr]) {
        *self.state() =
            SharedPortState { wanted: peers.iter().map(|peer| (*peer, None)).collect() };
    }

    /// Keeps a connection that is expected, and gives back any other.
    pub fn take(&self, from: SocketAddr, stream: TcpStream) -> Option<TcpStream> {
        let mut state = self.state();
        // A socket for both families says IPv4 addresses in another way.
        let from = SocketAddr::new(from.ip().to_canonical(), from.port());
        let place = state.wanted.iter_mut().find(|(peer, came)| *peer == from && came.is_none());
        let Some((_, place)) = place else { return Some(stream) };
        *place = Some(stream);
        self.came.notify_all();
        None
    }

    /// The expected connections in the order of [`SharedPort::expect`], if all come in time.
    pub fn wait(&self, timeout: Duration) -> Option<Vec<TcpStream>> {
        let waited =
            self.came.wait_timeout_while(self.state(), timeout, |state| !state.is_complete());
        let mut state = waited.unwrap_or_else(PoisonError::into_inner).0;
        std::mem::take(&mut state.wanted).into_iter().map(|(_, came)| came).collect()
    }

    /// Whether all that are expected have come.
    pub fn is_complete(&self) -> bool {
        self.state().is_complete()
    }

    fn state(&self) -> MutexGuard<'_, SharedPortState> {
        // A thread that panicked left it whole: each change is a single assignment.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::TcpListener;

    #[test]
    fn only_the_expected_connections_are_kept_and_each_only_once() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let connect = || {
            let one = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
            (one.local_addr().unwrap(), listener.accept().unwrap().0)
        };
        let shared_port = SharedPort::new(1);
        let ((first, stream), (second, other), (third, last)) = (connect(), connect(), connect());
        let stream = shared_port.take(first, stream).expect("no connection was expected");
        shared_port.expect(&[second, first]);
        let last = shared_port.take(third, last).expect("another was expected");
        assert!(shared_port.take(first, stream).is_none());
        let last = shared_port.take(first, last).expect("it came already");
        assert!(shared_port.wait(Duration::from_millis(1)).is_none(), "one is missing");
        shared_port.expect(&[second, first]);
        assert!(
            shared_port.take(second, other).is_none() && shared_port.take(first, last).is_none()
        );
        let came = shared_port.wait(Duration::ZERO).unwrap();
        assert_eq!(came[0].peer_addr().unwrap(), second);
        assert_eq!(came.len(), 2);
    }
}
