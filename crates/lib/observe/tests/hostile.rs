//! What a process may put in the way of observers: memory that has the right name and is none of an
//! endpoint's.
#![allow(missing_docs)]

use gigae_observe::{
    Activity, Encapsulation, EndpointDescription, LinkDescription, ObservedEndpoint, PeerAddress,
    PeerState, Publisher, find,
};
use rustix::fs::{MemfdFlags, SealFlags, fcntl_add_seals, ftruncate, memfd_create};
use std::os::fd::OwnedFd;

fn about(port: u16) -> EndpointDescription {
    let link = LinkDescription {
        interface: "eth0".into(),
        mode: "packet".into(),
        mac: [2, 0, 0, 0, 0, 1],
        max_frame: 1514,
    };
    let names = [vec!["messages_sent".into()], vec!["tx_frames".into()], vec!["lost".into()]];
    EndpointDescription {
        opened: 5,
        port,
        wire: Encapsulation::Ethernet(0x88b5),
        channels: [1, 0, 0, 0],
        links: vec![link],
        names,
    }
}

/// The endpoints of this process with this port id: tests run side by side.
fn here(port: u16) -> Vec<ObservedEndpoint> {
    let mut all = find(Some(std::process::id())).unwrap().endpoints;
    all.retain(|endpoint| endpoint.about.port == port);
    all
}

#[test]
fn an_endpoint_is_found_until_it_is_closed() {
    assert!(here(1).is_empty());
    let observed = Publisher::new(&about(1)).unwrap();
    let found = here(1);
    assert_eq!((found.len(), &found[0].about), (1, &about(1)));
    let endpoint = &found[0];
    assert_eq!((endpoint.activity(), endpoint.statistics()), (Activity::Used, None));
    assert_eq!(observed.until(), 0);
    endpoint.look();
    assert!(observed.until() > gigae_observe::now());
    observed.publish(77, 3, |sheet| {
        sheet.counts(&[12]);
        sheet.peer(PeerAddress::Mac([2; 6]), 4, 5, PeerState::Up, &[6]);
    });
    let statistics = endpoint.statistics().unwrap();
    assert_eq!((statistics.at, statistics.known, &statistics.counts[..]), (77, 3, &[12][..]));
    assert_eq!((statistics.peers.len(), statistics.peers[0].values[0]), (1, 6));
    observed.set_asleep(true);
    assert_eq!(endpoint.activity(), Activity::Asleep);
    drop(observed);
    assert_eq!(endpoint.activity(), Activity::Closed);
    assert!(here(1).is_empty());
}

#[test]
fn frames_go_from_an_endpoint_to_one_observer_at_a_time() {
    let observed = Publisher::new(&about(2)).unwrap();
    let mut first = here(2).remove(0).capture(usize::MAX).unwrap();
    assert!(here(2).remove(0).capture(100).is_err(), "it is being captured");
    assert!(observed.capture_until() > gigae_observe::now());
    let tap = observed.tap();
    tap.frame(gigae_observe::Direction::Out, 0, b"a frame");
    let mut bytes = Vec::new();
    let record = first.next(&mut bytes).unwrap();
    assert_eq!((&bytes[..], record.original_len, record.dropped), (&b"a frame"[..], 7, 0));
    // More than there is room for.
    let large = vec![1; 65_536];
    (0..200).for_each(|_| tap.frame(gigae_observe::Direction::In, 0, &large));
    let mut got = 0;
    while first.next(&mut bytes).is_some() {
        got += 1;
    }
    assert_eq!((got + first.dropped(), first.damaged), (200, 0));
    tap.frame(gigae_observe::Direction::In, 0, b"");
    assert_eq!(u64::from(first.next(&mut bytes).unwrap().dropped), 200 - got);
    drop(first);
    assert_eq!(observed.capture_until(), 0);
    let mut second = here(2).remove(0).capture(3).unwrap();
    tap.frame(gigae_observe::Direction::Out, 0, b"a frame");
    assert_eq!(second.next(&mut bytes).map(|record| record.original_len), Some(7));
    assert_eq!((&bytes[..], second.dropped()), (&b"a f"[..], 0));
}

/// Memory with our name.
fn named(len: u64, seals: SealFlags) -> OwnedFd {
    let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
    let fd = memfd_create("gigae-endpoint", flags).unwrap();
    ftruncate(&fd, len).unwrap();
    fcntl_add_seals(&fd, seals).unwrap();
    fd
}

#[test]
fn what_only_has_the_name_is_passed_over() {
    // What an endpoint of this release has.
    let observed = Publisher::new(&about(3)).unwrap();
    let own = here(3).remove(0);
    let len = std::fs::metadata(own.path()).unwrap().len();
    let shrink = SealFlags::SHRINK;
    let _hostile = [
        named(len, SealFlags::empty()),
        named(0, shrink),
        named(len - 1, shrink),
        named(len + 4096, shrink),
        named(len, shrink),
        named(len, shrink | SealFlags::FUTURE_WRITE),
        named(1 << 50, shrink),
    ];
    let found = find(Some(std::process::id())).unwrap();
    // Other tests open and close theirs at the same time.
    assert!(found.endpoints.iter().all(|endpoint| endpoint.about == about(endpoint.about.port)));
    assert!(here(3).len() == 1 && found.foreign.is_empty());
    drop(observed);
}
