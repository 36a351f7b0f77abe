//! The TCP sockets of a server's control port, as the kernel lists them.

use gigae_fabric::Node;
use std::time::{Duration, Instant};

/// Waits until the node has one in this state, of two hexadecimal digits: `01` is ESTABLISHED, `0A`
/// is LISTEN.
pub(crate) fn await_socket(node: &Node, state: &str, patience: Duration) {
    let deadline = Instant::now() + patience;
    while !has_socket(node, state) {
        assert!(Instant::now() < deadline, "the control port has no socket in state {state}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

fn has_socket(node: &Node, state: &str) -> bool {
    let _inside = node.enter().unwrap();
    let table = std::fs::read_to_string("/proc/thread-self/net/tcp").unwrap();
    table.lines().any(|line| {
        // A number, the local address and port in hexadecimal, the remote ones, the state, and
        // more.
        let fields: Vec<&str> = line.split_whitespace().collect();
        let here = fields.get(1).is_some_and(|local| local.ends_with(":C344"));
        here && fields.get(3) == Some(&state)
    })
}
