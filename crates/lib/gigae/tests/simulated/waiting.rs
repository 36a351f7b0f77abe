//! What an endpoint has done before it sleeps.

use super::*;
use std::io::Write;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Takes frames down and lets this many nanoseconds pass for each piece that is written, as a
/// doorbell does.
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
    let net = Network::new(1, faults());
    let cost = Arc::new(AtomicU64::new(0));
    net.capture(Slow { clock: net.clock(), cost: Arc::clone(&cost) }).unwrap();
    let (a, b, to_b, to_a) = warm(&net, &Options::new("sim"));
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
