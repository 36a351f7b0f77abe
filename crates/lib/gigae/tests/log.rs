//! What a program's subscriber sees of sessions and losses.
//!
//! One test, since a subscriber of one thread misses events that another thread met before it
//! (`tracing_core::callsite` keeps who is interested).
#![allow(missing_docs)]

use gigae::{Address, Endpoint, Options, Wanted};
use gigae_sim::{Faults, Network};
use std::fmt::{self, Write as _};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Metadata, Subscriber};

/// Keeps the events, a line each.
#[derive(Clone, Default)]
struct CapturedLog(Arc<Mutex<Vec<String>>>);

impl CapturedLog {
    /// How many there are that begin so and contain all of `parts`.
    fn count(&self, begin: &str, parts: &[&str]) -> usize {
        let lines = self.0.lock().unwrap();
        let fits = |line: &&String| {
            line.starts_with(begin) && parts.iter().all(|part| line.contains(part))
        };
        lines.iter().filter(fits).count()
    }
}

struct LogLine(String);

impl Visit for LogLine {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        let name = field.name();
        let begin = if name == "message" { String::new() } else { format!(" {name}=") };
        write!(self.0, "{begin}{value:?}").unwrap();
    }
}

impl Subscriber for CapturedLog {
    fn enabled(&self, about: &Metadata<'_>) -> bool {
        about.target().starts_with("gigae")
    }

    fn event(&self, event: &Event<'_>) {
        let mut line = LogLine(format!("{} ", event.metadata().target()));
        event.record(&mut line);
        self.0.lock().unwrap().push(line.0);
    }

    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}
    fn record_follows_from(&self, _: &Id, _: &Id) {}
    fn enter(&self, _: &Id) {}
    fn exit(&self, _: &Id) {}
}

/// A message that goes by the sockets for bulk data.
const LONG: usize = 64 << 10;

fn faults() -> Faults {
    Faults { delay: Duration::from_micros(5), ..Faults::default() }
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

/// A firewall drops what is for the sockets for bulk data, and is taken away.
fn sockets_for_bulk_data(log: &dyn Fn(&str, &[&str]) -> usize) {
    let net = Network::new(2, faults());
    let open = |seed| Options::new("sim").bulk(true).open_simulated(&net, seed).unwrap();
    let [a, b] = [open(1), open(2)];
    let sockets = [a.paths()[1].info.mac, b.paths()[1].info.mac];
    let firewall = |drops| {
        for mac in sockets {
            net.cut(net.port_of(mac).unwrap(), drops, drops);
        }
    };
    let to_b = a.peer(Address::from(b.link().mac)).unwrap();
    let peer = format!("peer={}", b.link().mac);
    let exchange = || {
        b.start_recv(Wanted::tag(1), vec![0; LONG]).unwrap();
        a.start_send(to_b, 1, vec![1; LONG]).unwrap();
        for _ in 0..100 {
            run(&net, [&a, &b], Duration::from_micros(100));
        }
        let done = [&a, &b].map(|end| end.try_completion().unwrap().map(|done| done.result));
        assert_eq!(done, [Some(Ok(())); 2]);
    };
    let silent = || log("no answer from the peer's UDP socket", &[&peer]);
    let up = || log("path up", &[&peer, "path=1"]);
    firewall(true);
    for _ in 0..300 {
        exchange();
    }
    assert_eq!((silent(), up()), (1, 0), "once, however long it lasts");
    firewall(false);
    for _ in 0..300 {
        exchange();
    }
    assert_eq!((silent(), up()), (1, 1));
}

#[test]
fn a_subscriber_sees_a_session_come_up_lose_a_frame_and_end_and_no_secret() {
    let kept = CapturedLog::default();
    tracing::subscriber::with_default(kept.clone(), || {
        let net = Network::new(1, faults());
        let [a, b] = [1, 2].map(|node| Options::new("sim").open_simulated(&net, node).unwrap());
        let to_b = a.peer(Address::from(b.link().mac)).unwrap();
        a.send(to_b, b"warm-up").unwrap();
        run(&net, [&a, &b], Duration::from_micros(400));
        assert!(b.try_recv().unwrap().is_some());
        let peer = format!("peer={}", b.link().mac);
        let log =
            |begin: &str, parts: &[&str]| kept.count(&format!("gigae_proto::log {begin}"), parts);
        assert_eq!(log("session proposed", &[&peer]), 1);
        assert_eq!(log("session up", &[&peer, "proposed_by=\"this end\""]), 1);
        assert_eq!(log("session up", &["proposed_by=\"the peer\""]), 1);
        assert_eq!((log("frames lost", &[]), log("session ended", &[])), (0, 0));

        net.set_faults(Faults { loss: 1.0, ..faults() });
        a.send(to_b, b"lost").unwrap();
        net.set_faults(faults());
        run(&net, [&a, &b], Duration::from_millis(10));
        assert!(log("retransmission timeout", &[&peer, "frames=1"]) > 0);
        assert!(b.try_recv().unwrap().is_some(), "it was repeated");

        drop(b);
        net.advance_to(net.now() + 10_000);
        a.progress().unwrap();
        assert_eq!(log("session ended", &["reason=Closed"]), 1);
        assert_eq!(log("session ended", &[&peer, "was=\"up\"", "reason=Reset"]), 1);
        assert_eq!(kept.count("gigae::endpoint::closing endpoint closed", &[]), 1);
        drop(a);
        sockets_for_bulk_data(&log);
    });
    for word in ["epoch", "token", "key"] {
        assert_eq!(kept.count("gigae", &[word]), 0, "{word}");
    }
}
