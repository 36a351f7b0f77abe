//! Frames that come while the parts of a link are made. The process that assembles the link does
//! not know of them.

use super::*;
use gigae_fabric::Node;
use gigae_link::RxFrame;
use gigae_link::conformance::drain;
use gigae_macvlan::Child;
use gigae_wire::{MacAddr, NodeAddr, Route};
use gigae_xdp::LinkParts;
use std::sync::atomic::{AtomicBool, Ordering};

/// The parts of a link, and the memory that they were made for, as the two processes have them.
pub(crate) fn make(config: &XdpConfig) -> (LinkParts, Arena) {
    let bytes = XdpLink::memory_for(config.tx_frames as u32, config.rx_frames as u32);
    let memory = LentMemory::new(bytes).unwrap();
    // SAFETY: the only mapping that is read.
    let arena = unsafe { Arena::of(&memory.lend().unwrap(), bytes) }.unwrap();
    (XdpLink::make(config, &memory).unwrap(), arena)
}

/// So few receive frames that each gets its turn. The kernel has `rx_ready` of them.
fn few(interface: &str, rx_ready: usize) -> XdpConfig {
    XdpConfig { rx_frames: 64, rx_ready, ..config(interface) }
}

/// A route from a node of the fabric to an address.
fn to(mac: MacAddr, from: &Node) -> Route {
    let from = NodeAddr::Ethernet(MacAddr(from.mac));
    Route::new(Envelope::DEFAULT, from, NodeAddr::Ethernet(mac)).unwrap()
}

/// Every chunk receives a frame. None is lost, and none changes while the link's user has it.
fn every_chunk_receives(link: &mut XdpLink, peer: &mut XdpLink, route: &Route) {
    drain(link);
    let came = |link: &XdpLink| (link.counters().rx_frames, link.counters().rx_dropped);
    let (_, lost_before) = came(link);
    let (mut held, mut sent): (Vec<RxFrame>, Vec<Vec<u8>>) = (Vec::new(), Vec::new());
    for n in 0..link.info().rx_frames {
        let bytes = frame(route, CHANNEL, n as u32, 100);
        let (before, end) = (came(link), Instant::now() + BOUND);
        send(peer, &bytes);
        while came(link) == before {
            assert!(Instant::now() < end, "frame {n} neither came nor was dropped");
            link.poll(&mut held, 1).unwrap();
        }
        if held.len() > sent.len() {
            sent.push(bytes);
        }
    }
    let received = |token| link.memory().received(token);
    let changed = held.iter().zip(&sent).filter(|(token, bytes)| received(token) != &bytes[..]);
    let (changed, lost) = (changed.count(), came(link).1 - lost_before);
    held.into_iter().for_each(|token| link.recycle(token));
    assert_eq!((changed, lost), (0, 0), "frames that changed, and frames that were dropped");
}

/// Another node sends while the link is made. It does not hold up the making either.
pub(crate) fn a_flood_shifts_no_chunk() {
    let ready = [5, 8, 24, 48];
    for (mtu, rx_ready) in [1500, 9000].iter().flat_map(|&mtu| ready.map(|ready| (mtu, ready))) {
        let fabric = jumbo(mtu);
        let mut peer = common::link(&fabric, 2, &options(), Mode::XdpGeneric);
        let route = to(MacAddr(fabric.node(1).mac), &fabric.node(2));
        let (floods, made) = (AtomicBool::new(false), AtomicBool::new(false));
        let (parts, arena) = std::thread::scope(|scope| {
            let flood = scope.spawn(|| {
                // In several chunks if the MTU is large.
                let bytes = frame(&route, CHANNEL, 0, mtu as usize);
                let end = Instant::now() + BOUND;
                while !made.load(Ordering::Relaxed) && Instant::now() < end {
                    send(&mut peer, &bytes);
                    floods.store(true, Ordering::Relaxed);
                }
                made.load(Ordering::Relaxed)
            });
            while !floods.load(Ordering::Relaxed) {
                std::thread::yield_now();
            }
            let node = fabric.node(1);
            let _inside = node.enter().unwrap();
            let result = make(&few("eth0", rx_ready));
            made.store(true, Ordering::Relaxed);
            assert!(flood.join().unwrap(), "the link was made when the flood was over");
            result
        });
        // SAFETY: the parts are new, and used here only, with the memory that they were made for.
        let mut link = unsafe { XdpLink::assemble(parts, arena) }.unwrap();
        every_chunk_receives(&mut link, &mut peer, &route);
    }
}

/// A child gets back what its self-test sends, if its channel is one of the link's.
pub(crate) fn own_frames_shift_no_chunk() {
    for rx_ready in [15, 4, 1] {
        let fabric = testing::fabric("own frames", |_| ());
        let mut peer = common::link(&fabric, 2, &options(), Mode::XdpGeneric);
        let node = fabric.node(1);
        let inside = node.enter().unwrap();
        let child = Child::make(node.interface).unwrap();
        let mut config = few(child.name(), rx_ready);
        config.filter.channels = config.filter.channels.with(0);
        let (parts, arena) = make(&config);
        drop(inside);
        // SAFETY: as above.
        let mut link = unsafe { XdpLink::assemble(parts, arena) }.unwrap();
        let route = to(child.mac(), &fabric.node(2));
        every_chunk_receives(&mut link, &mut peer, &route);
    }
}
