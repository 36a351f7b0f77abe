//! Losses, duplicates and corruption, each drawn from a seed.

use super::ping::PATIENCE;
use super::{arrivals, datagram, socket, tcp_delivers};
use gigae_fabric::{Fabric, Impairments, testing};
use std::io::ErrorKind;

fn lossy(seed: u64) -> Fabric {
    testing::fabric("loss", |config| (config.loss, config.seed) = (0.1, seed))
}

pub(crate) fn seeds_and_patterns() {
    let first = arrivals(&lossy(1), 1000, 64);
    let again = arrivals(&lossy(1), 1000, 64);
    let other = arrivals(&lossy(2), 1000, 64);
    assert_eq!(first, again);
    assert_ne!(first, other);
    // 900 expected, standard deviation 9.5; the seeds are fixed, so this holds always or never.
    assert!((850..950).contains(&first.len()), "{}", first.len());
}

pub(crate) fn losses_are_counted() {
    let fabric = lossy(3);
    let (from, to) = (socket(&fabric, 1), socket(&fabric, 2));
    // Few enough for the receiving socket's default buffer, which nothing empties in the meantime.
    for number in 0..200_u32 {
        from.send_to(&datagram(number, 64), to.local_addr().unwrap()).unwrap();
    }
    // On an unshaped fabric a datagram is delivered, or lost, within the call that sends it or
    // shortly after; what was seen and not dropped will arrive.
    let counters = settled(&fabric, 200);
    for _ in 0..counters.seen - counters.dropped {
        to.recv(&mut [0; 64]).unwrap();
    }
    to.set_nonblocking(true).unwrap();
    assert_eq!(to.recv(&mut [0; 64]).unwrap_err().kind(), ErrorKind::WouldBlock);
    assert!(counters.dropped > 0);
}

/// The counters of node 2's port, once it has seen `frames`.
fn settled(fabric: &Fabric, frames: u64) -> gigae_fabric::ImpairmentCounters {
    let deadline = std::time::Instant::now() + PATIENCE;
    loop {
        let counters = fabric.impairment_counters().unwrap()[1];
        if counters.seen >= frames {
            assert_eq!(counters.seen, frames);
            return counters;
        }
        assert!(std::time::Instant::now() < deadline, "{counters:?}");
    }
}

pub(crate) fn duplicates_arrive_twice() {
    let fabric = testing::fabric("duplicates", |config| config.duplicate = 1.0);
    let seen = arrivals(&fabric, 100, 64);
    assert_eq!(seen.len(), 100);
    assert!(seen.values().all(|&times| times == 2), "{seen:?}");
    let counters = fabric.impairment_counters().unwrap()[1];
    assert_eq!(counters.seen, counters.duplicated, "a copy is not judged again");
}

pub(crate) fn corruption_is_caught() {
    // `arrivals` compares every byte; UDP's checksum covers the payload, the ports and the
    // addresses, IP's the rest of its header, and a frame with a wrong EtherType is dropped.
    let fabric = testing::fabric("corruption", |config| config.corrupt = 0.5);
    let seen = arrivals(&fabric, 1000, 256);
    let counters = fabric.impairment_counters().unwrap()[1];
    assert!((400..600).contains(&counters.corrupted), "{counters:?}");
    assert!(seen.len() < 700, "{} arrived", seen.len());
    assert!(seen.len() as u64 + counters.corrupted >= 1000, "{counters:?} {}", seen.len());
}

pub(crate) fn tcp_survives_corruption() {
    let fabric = testing::fabric("tcp corruption", |config| {
        (config.corrupt, config.loss, config.duplicate, config.seed) = (0.005, 0.005, 0.01, 9);
    });
    assert!(tcp_delivers(&fabric, 1_000_000));
    let port = fabric.impairment_counters().unwrap()[1];
    assert!(port.corrupted > 0 && port.dropped > 0 && port.duplicated > 0, "{port:?}");
}

pub(crate) fn impairments_change() {
    let mut fabric = testing::fabric("change", |_| ());
    assert!(fabric.impairment_counters().unwrap().is_empty());
    assert_eq!(arrivals(&fabric, 100, 64).len(), 100);
    fabric.impair(&Impairments { loss: 0.5, seed: 4, ..Default::default() }).unwrap();
    let half = arrivals(&fabric, 100, 64);
    assert!((20..80).contains(&half.len()), "{}", half.len());
    fabric.impair(&Impairments { loss: 0.5, seed: 4, ..Default::default() }).unwrap();
    assert_eq!(arrivals(&fabric, 100, 64), half, "the sequence starts again");
    // Another process changes it back.
    let mut attached = Fabric::attach(&fabric.config().prefix).unwrap();
    attached.impair(&Impairments::default()).unwrap();
    assert!(attached.impairment_counters().unwrap().is_empty());
    assert_eq!(arrivals(&fabric, 100, 64).len(), 100);
    let message = fabric.impair(&Impairments { loss: 2.0, ..Default::default() }).unwrap_err();
    assert!(message.to_string().contains("loss"), "{message}");
}
