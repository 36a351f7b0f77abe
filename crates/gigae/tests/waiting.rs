//! What an endpoint has done before it sleeps, on a simulated network in virtual time.
#![allow(missing_docs)]

use gigae::{Address, Options};
use gigae_sim::{Faults, Network};
use std::io::Write;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Takes frames down and lets so many nanoseconds pass for each piece that is written, as a doorbell does.
struct Slow {
    clock: Arc<AtomicU64>,
    cost: Arc<AtomicU64>,
}

impl Write for Slow {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.clock.fetch_add(self.cost.load(Ordering::Relaxed), Ordering::Relaxed);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

/// A message is overdue once the acknowledgement that goes before the sleep has taken its time. Its
/// repetition must go too: the next timer is twice as far away.
#[test]
fn what_falls_due_while_an_endpoint_prepares_to_sleep_goes_out_before_it_does() {
    let faults = Faults { delay: Duration::from_micros(5), ..Faults::default() };
    let net = Network::new(1, faults);
    let cost = Arc::new(AtomicU64::new(0));
    net.capture(Slow { clock: net.clock(), cost: Arc::clone(&cost) }).unwrap();
    let [a, b] = [1, 2].map(|seed| Options::new("sim").open_simulated(&net, seed).unwrap());
    let to_b = a.peer(Address::from(b.link().mac)).unwrap();
    let to_a = b.peer(Address::from(a.link().mac)).unwrap();
    a.send(to_b, b"up").unwrap();
    for _ in 0..1_000 {
        assert!(a.try_recv().unwrap().is_none());
        drop(b.try_recv().unwrap());
        net.advance_to(net.now() + 1_000);
    }
    // The other end has acknowledged that, and says something, but nothing more after that.
    let before = a.counters().protocol.retransmissions;
    a.send(to_b, b"nobody will acknowledge this").unwrap();
    let due = a.prepare_to_wait().unwrap().expect("it will be repeated");
    b.send(to_a, b"said before it came").unwrap();
    net.advance_to(net.now() + due.as_nanos() as u64 - 1_000);
    assert!(a.try_recv().unwrap().is_some());
    assert_eq!(a.counters().protocol.retransmissions, before, "not yet");
    cost.store(5_000, Ordering::Relaxed);
    a.prepare_to_wait().unwrap();
    assert_eq!(a.counters().protocol.retransmissions, before + 1);
}
