//! Endpoints on a simulated network: the public API without a kernel, in virtual time.
#![allow(missing_docs)]

use gigae::{Address, Endpoint, Options, Peer, Reason, RecvError, SendError, TrySendError};
use gigae_sim::{Faults, Network};
use std::time::Duration;

mod discovery;
mod hostile;
mod links;
mod messages;
mod sharing;
mod waiting;

fn faults() -> Faults {
    Faults { delay: Duration::from_micros(5), ..Faults::default() }
}

/// Two endpoints that know each other.
fn pair(net: &Network, options: &Options) -> (Endpoint, Endpoint, Peer, Peer) {
    let a = options.clone().open_simulated(net, 1).unwrap();
    let b = options.clone().open_simulated(net, 2).unwrap();
    let to_b = a.peer(Address::from(b.link().mac)).unwrap();
    let to_a = b.peer(Address::from(a.link().mac)).unwrap();
    (a, b, to_b, to_a)
}

/// Lets time pass while both ends make progress.
fn run(net: &Network, ends: [&Endpoint; 2], time: Duration) {
    let end = net.now() + time.as_nanos() as u64;
    while net.now() < end {
        for endpoint in ends {
            endpoint.progress().unwrap();
        }
        net.advance_to(net.now() + 1_000);
    }
}

/// Two endpoints whose session is up, with nothing on the way.
fn warm(net: &Network, options: &Options) -> (Endpoint, Endpoint, Peer, Peer) {
    let (a, b, to_b, to_a) = pair(net, options);
    a.send(to_b, b"warm-up").unwrap();
    run(net, [&a, &b], Duration::from_micros(200));
    assert!(b.try_recv().unwrap().is_some());
    run(net, [&a, &b], Duration::from_micros(200));
    a.drain(Duration::ZERO).unwrap();
    (a, b, to_b, to_a)
}

fn frames_sent(endpoint: &Endpoint) -> u64 {
    endpoint.counters().link.tx_frames
}
