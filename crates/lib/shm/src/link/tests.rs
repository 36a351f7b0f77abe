use super::*;
use crate::ring::{CONTROL, Ring, Writer};
use crate::{bind, name_in_ip, rendezvous};
use gigae_link::conformance::{self as suite, CHANNEL, LinkPair, Maker, PairOptions, frame};
use gigae_memfd::SharedMemory;
use gigae_sim::{Faults, Network, SimLink};
use gigae_wire::{Envelope, NodeAddr, Route};
use rustix::event::{PollFd, PollFlags, poll};
use rustix::fd::AsRawFd;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use std::sync::atomic::{AtomicU32, Ordering};

mod attackers;
mod registered;

/// Names of this test's own.
fn scope() -> String {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    format!("gigae-test-{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed))
}

/// A simulated network on which endpoints meet.
struct TestNetwork {
    network: Network,
    scope: String,
}

impl TestNetwork {
    fn new() -> Self {
        Self { network: Network::new(1, Faults::default()), scope: scope() }
    }

    fn plain(&self) -> SimLink {
        let PairOptions { filter, tx_frames, rx_frames, .. } = PairOptions::new(Envelope::DEFAULT);
        SimLink::open(&self.network, filter, tx_frames, rx_frames).unwrap()
    }

    fn wrap(&self, link: SimLink) -> ShmLink<SimLink> {
        let filter = PairOptions::new(Envelope::DEFAULT).filter;
        wrap(link, ShmConfig { scope: self.scope.clone(), ..ShmConfig::new(filter) })
    }

    fn open(&self) -> ShmLink<SimLink> {
        self.wrap(self.plain())
    }

    /// Two that know each other.
    fn pair(&self) -> (ShmLink<SimLink>, ShmLink<SimLink>) {
        let (mut a, mut b) = (self.open(), self.open());
        meet(&mut a, &mut b);
        (a, b)
    }
}

fn wrap(link: SimLink, config: ShmConfig) -> ShmLink<SimLink> {
    let listener = bind(&config.scope, link.info().mac).unwrap();
    ShmLink::new(link, config, listener).unwrap()
}

fn route(from: &dyn Link, to: &dyn Link) -> Route {
    Route::new(Envelope::DEFAULT, from.info().mac.into(), to.info().mac.into()).unwrap()
}

fn send(from: &mut dyn Link, to: MacAddr, number: u32) {
    let route = Route::new(Envelope::DEFAULT, from.info().mac.into(), to.into()).unwrap();
    suite::send(from, &frame(&route, CHANNEL, number, 100));
}

/// A frame each way by the NIC, after which all go through memory.
fn meet(a: &mut ShmLink<SimLink>, b: &mut ShmLink<SimLink>) {
    let (at_a, at_b) = (a.info().mac, b.info().mac);
    send(a, at_b, 0);
    suite::drain(b);
    send(b, at_a, 0);
    suite::drain(a);
    suite::drain(b);
}

fn by_memory(link: &dyn Link) -> (u64, u64) {
    let LinkCounters { memory_tx_frames, memory_rx_frames, .. } = link.counters();
    (memory_tx_frames, memory_rx_frames)
}

/// A pair for the suite, whose frames go through memory.
fn met(options: &PairOptions) -> LinkPair {
    let (network, scope) = (Network::new(1, Faults::default()), scope());
    network.set_mtu(options.mtu);
    let open = || {
        let filter = options.filter.clone();
        let link = SimLink::open(&network, filter.clone(), options.tx_frames, options.rx_frames);
        wrap(link.unwrap(), ShmConfig { scope: scope.clone(), ..ShmConfig::new(filter) })
    };
    let (mut a, mut b) = (open(), open());
    meet(&mut a, &mut b);
    let (to_b, to_a) = (route(&a, &b), route(&b, &a));
    LinkPair {
        to_b,
        to_a,
        a: Box::new(a),
        b: Box::new(b),
        kernels: None,
        keep_alive: Box::new(network),
    }
}

/// All of the suite that neither counts from the beginning nor wants frames dropped or completed
/// that no endpoint reads.
#[test]
fn frames_through_memory_are_as_those_of_every_link() {
    type Test = fn(&PairOptions, Maker);
    let tests: [Test; 14] = [
        suite::frames_of_every_length_arrive_unchanged,
        suite::frames_arrive_in_the_order_in_which_they_were_posted,
        suite::a_batch_larger_than_one_call_sends_arrives_whole,
        suite::a_thousand_frames_go_to_and_fro,
        suite::frames_to_others_are_not_seen,
        suite::taking_the_last_frame_exhausts_the_link_and_giving_back_revives_it,
        suite::a_released_frame_is_not_handed_out_while_the_nic_has_it,
        suite::frames_may_be_recycled_in_any_order,
        suite::a_token_of_another_link_is_refused,
        suite::the_longest_frames_arrive_whole_and_in_order_among_short_ones,
        suite::a_flush_of_nothing_but_the_longest_frames_arrives_whole,
        suite::segments_of_any_length_make_one_frame,
        suite::a_segment_is_reclaimed_and_sent_again_in_another_frame,
        suite::waiting_ends_when_a_frame_comes,
    ];
    for mtu in [1500, 3400, 9000] {
        let options = PairOptions { mtu, ..PairOptions::new(Envelope::DEFAULT) };
        tests.iter().for_each(|test| test(&options, met));
    }
}

#[test]
fn the_suites_pairs_use_memory() {
    let mut pair = met(&PairOptions::new(Envelope::DEFAULT));
    let before = (by_memory(&*pair.a), by_memory(&*pair.b));
    let sent: Vec<_> = (0..100).map(|n| frame(&pair.to_b, CHANNEL, n, 100)).collect();
    sent.iter().for_each(|bytes| suite::send(&mut *pair.a, bytes));
    assert_eq!(suite::receive(&mut *pair.b, 100), sent);
    let after = (by_memory(&*pair.a), by_memory(&*pair.b));
    assert_eq!((after.0.0 - before.0.0, after.1.1 - before.1.1), (100, 100));
    let counters = pair.a.counters();
    assert_eq!((counters.doorbells - before.0.0, counters.memory_full), (1, 0), "the first one's");
}

#[test]
fn until_it_is_known_that_somebody_reads_frames_go_both_ways() {
    let node = TestNetwork::new();
    let (mut a, mut b) = (node.open(), node.plain());
    let listener = bind(&node.scope, b.info().mac).unwrap();
    let to_b = b.info().mac;
    (0..5).for_each(|n| send(&mut a, to_b, n));
    assert_eq!(suite::drain(&mut b), 5, "who listens and does nothing loses nothing");
    assert_eq!(by_memory(&a), (0, 0));
    // Nor does who goes then.
    drop(listener);
    a.look();
    (5..10).for_each(|n| send(&mut a, to_b, n));
    assert_eq!(suite::drain(&mut b), 5);
    assert!(matches!(a.neighbours.via(key(to_b.0)), Via::Nic));
}

#[test]
fn an_endpoint_that_starts_later_is_found() {
    let node = TestNetwork::new();
    let (mut a, b) = (node.open(), node.plain());
    let (at_a, at_b) = (a.info().mac, b.info().mac);
    send(&mut a, at_b, 0);
    assert!(matches!(a.neighbours.via(key(at_b.0)), Via::Nic));
    let mut b = node.wrap(b);
    assert_eq!(suite::drain(&mut b), 1);
    send(&mut b, at_a, 1);
    assert!(suite::drain(&mut a) > 0);
    send(&mut a, at_b, 2);
    assert!(suite::drain(&mut b) > 0);
    let before = by_memory(&a).0;
    send(&mut a, at_b, 3);
    assert_eq!((by_memory(&a).0 - before, suite::drain(&mut b)), (1, 1));
}

/// As if it had no NIC in common: nothing that it says first gets here.
#[test]
fn a_silent_neighbour_that_starts_later_is_found_within_seconds() {
    let node = TestNetwork::new();
    let (mut a, b) = (node.open(), node.plain());
    let at_b = b.info().mac;
    send(&mut a, at_b, 0);
    assert_eq!(a.neighbours.via(key(at_b.0)), Via::Nic);
    let b = node.wrap(b);
    let found = |a: &mut ShmLink<SimLink>, seconds| {
        (0..seconds).any(|_| {
            a.neighbours.pass_a_second();
            a.look();
            a.neighbours.via(key(at_b.0)) != Via::Nic
        })
    };
    assert!(found(&mut a, 2));
    drop(b);
    a.look();
    for _ in 0..100 {
        assert!(!found(&mut a, 1), "no endpoint is there");
    }
    let _again = bind(&node.scope, at_b).unwrap();
    assert!(found(&mut a, 10), "asked for every 8 seconds");
}

#[test]
fn endpoints_that_take_other_frames_stay_with_the_nic() {
    let node = TestNetwork::new();
    let mut a = node.open();
    let mut filter = PairOptions::new(Envelope::DEFAULT).filter;
    filter.channels = filter.channels.with(suite::OTHER_CHANNEL);
    let b = SimLink::open(&node.network, filter.clone(), 64, 64).unwrap();
    let mut b = wrap(b, ShmConfig { scope: node.scope.clone(), ..ShmConfig::new(filter) });
    meet(&mut a, &mut b);
    meet(&mut a, &mut b);
    let to_b = b.info().mac;
    (0..5).for_each(|n| send(&mut a, to_b, n));
    assert_eq!(suite::drain(&mut b), 5);
    assert_eq!((by_memory(&a), by_memory(&b)), ((0, 0), (0, 0)));
}

#[test]
fn endpoints_in_the_udp_envelope_meet_by_their_ports_and_only_for_frames_of_their_node() {
    let node = TestNetwork::new();
    let open = |port| {
        let envelope = Envelope::Udp { port };
        let filter = Filter { envelope, ..PairOptions::new(envelope).filter };
        let link = SimLink::open(&node.network, filter.clone(), 64, 64).unwrap();
        let name = name_in_ip(7, port);
        let (scope, listener) = (node.scope.clone(), bind(&node.scope, name).unwrap());
        let config = ShmConfig { name: Some(name), scope, ..ShmConfig::new(filter) };
        ShmLink::new(link, config, listener).unwrap()
    };
    let (mut a, mut b) = (open(4791), open(4792));
    let ip = |ip: &str, mac| NodeAddr::Ip { ip: ip.parse().unwrap(), next_hop: mac };
    for own in ["198.18.0.1", "fd00::1"] {
        let other = if own.contains(':') { "fd00::2" } else { "198.18.0.2" };
        let route = |from: u16, to: &str, port| {
            let mac = MacAddr([2, 0, 0, 0, 0, 9]);
            Route::to_port(Envelope::Udp { port: from }, ip(own, mac), ip(to, mac), port).unwrap()
        };
        for n in 0..3 {
            suite::send(&mut a, &frame(&route(4791, own, 4792), CHANNEL, n, 100));
            suite::drain(&mut b);
            suite::send(&mut b, &frame(&route(4792, own, 4791), CHANNEL, n, 100));
            suite::drain(&mut a);
        }
        let before = (by_memory(&a), by_memory(&b));
        let near = frame(&route(4791, own, 4792), CHANNEL, 7, 100);
        suite::send(&mut a, &near);
        assert_eq!(suite::receive(&mut b, 1), [near]);
        suite::send(&mut a, &frame(&route(4791, other, 4792), CHANNEL, 8, 100));
        suite::send(&mut a, &frame(&route(4791, own, 4793), CHANNEL, 9, 100));
        let after = (by_memory(&a), by_memory(&b));
        assert_eq!((after.0.0 - before.0.0, after.1.1 - before.1.1), (1, 1), "{own}");
    }
}

#[test]
fn what_somebody_sent_who_is_gone_is_read_and_its_place_forgotten() {
    let node = TestNetwork::new();
    let (mut a, mut b) = node.pair();
    let (at_a, at_b) = (a.info().mac, b.info().mac);
    (0..5).for_each(|n| send(&mut a, at_b, n));
    drop(a);
    b.look();
    assert_eq!(suite::drain(&mut b), 5);
    assert!(b.neighbours.sends_nobody());
    send(&mut b, at_a, 0);
    assert!(matches!(b.neighbours.via(key(at_a.0)), Via::Nic));
}

#[test]
fn a_neighbour_that_reads_nothing_costs_the_frames_for_which_there_is_no_room() {
    let node = TestNetwork::new();
    let (mut a, mut b) = node.pair();
    let to_b = route(&a, &b);
    let long = a.info().max_frame;
    let before = by_memory(&a).0;
    (0..1000).for_each(|n| suite::send(&mut a, &frame(&to_b, CHANNEL, n, long)));
    let (sent, full) = (by_memory(&a).0 - before, a.counters().memory_full);
    assert!(sent >= 256 && full > 0 && sent + full == 1000, "{sent} sent, {full} lost");
    assert_eq!(suite::drain(&mut b) as u64, sent);
    let ours = frame(&to_b, CHANNEL, 7, long);
    suite::send(&mut a, &ours);
    assert_eq!(suite::receive(&mut b, 1), [ours]);
}

/// What goes both ways is repeated, and written again, for as long as the neighbour takes to
/// answer.
#[test]
fn what_was_written_before_somebody_reads_leaves_room_for_a_window() {
    let node = TestNetwork::new();
    let (mut a, mut b) = (node.open(), node.open());
    let long = a.info().max_frame;
    let ours = frame(&route(&a, &b), CHANNEL, 1, long);
    for _ in 0..1000 {
        suite::send(&mut a, &ours);
    }
    // It says that it reads, and does not yet.
    b.look();
    for _ in 0..256 {
        suite::send(&mut a, &ours);
    }
    assert_eq!((by_memory(&a).0, a.counters().memory_full), (256, 0));
}

#[test]
fn what_a_neighbour_has_not_read_yet_is_not_repeated_unless_it_is_gone() {
    let node = TestNetwork::new();
    let (mut a, mut b) = node.pair();
    let ours = frame(&route(&a, &b), CHANNEL, 1, 100);
    let posted = suite::post(&mut a, &ours);
    a.flush().unwrap();
    let posted = a.reclaim(posted).expect_err("it is still to be read");
    suite::only(&mut b, &ours);
    let free = a.reclaim(posted).expect("it was read");
    a.release(free.into());
    let posted = suite::post(&mut a, &ours);
    a.flush().unwrap();
    let posted = a.reclaim(posted).expect_err("it is still to be read");
    drop(b);
    a.look();
    let free = a.reclaim(posted).expect("no endpoint will read it");
    a.release(free.into());
}

#[test]
fn while_all_receive_frames_are_borrowed_frames_wait_in_the_ring() {
    let node = TestNetwork::new();
    let (mut a, mut b) = node.pair();
    let (at_b, ring) = (b.info().mac, b.info().rx_frames);
    let mut held = Vec::new();
    for n in 0..ring as u32 {
        send(&mut a, at_b, n);
        held.extend(suite::hold(&mut b, 1));
    }
    (0..10).for_each(|n| send(&mut a, at_b, n));
    assert_eq!(b.poll(&mut Vec::new(), 64).unwrap(), 0);
    assert!(!b.has_neighbours_frame(), "or waiting would be spinning");
    held.into_iter().for_each(|frame| b.recycle(frame));
    assert_eq!(suite::drain(&mut b), 10);
    assert_eq!(b.counters().rx_dropped, 0);
}

#[test]
fn neither_the_nic_nor_a_neighbour_starves_another() {
    let node = TestNetwork::new();
    let mut b = node.open();
    let (mut near, mut other, mut far) = (node.open(), node.open(), node.plain());
    let at_b = b.info().mac;
    meet(&mut near, &mut b);
    meet(&mut other, &mut b);
    for n in 0..200 {
        send(&mut near, at_b, n);
        send(&mut other, at_b, n);
        send(&mut far, at_b, n);
    }
    for max in [1, 2, 64] {
        let mut batch = Vec::new();
        for _ in 0..12 {
            assert!(b.poll(&mut batch, max).unwrap() <= max);
        }
        for link in [&near as &dyn Link, &other, &far] {
            let of = |frame: &&RxFrame| b.memory().received(frame)[6..12] == link.info().mac.0;
            let count = batch.iter().filter(of).count();
            assert!(count >= 12 * max / 6, "{count} of {} by polls of {max}", batch.len());
        }
        batch.into_iter().for_each(|frame| b.recycle(frame));
    }
}

#[test]
fn an_address_that_nobody_has_is_asked_for_once_and_not_all_are_remembered() {
    let node = TestNetwork::new();
    let mut a = node.open();
    for n in 0..100_000u64 {
        assert_eq!(a.neighbours.via(n << 8), Via::Nic);
    }
    assert!(a.neighbours.remembered() <= 1 << 15);
}

/// More than are accepted in one look.
#[test]
fn nobody_sleeps_while_connections_wait_to_be_accepted() {
    let node = TestNetwork::new();
    let mut b = node.open();
    let connect = |_| rendezvous::connect(&node.scope, b.info().mac).unwrap();
    let silent: Vec<_> = (0..17).map(connect).collect();
    assert!(!b.prepare_to_wait());
    assert_eq!(b.poll(&mut Vec::new(), 64).unwrap(), 0);
    assert!(b.neighbours.connections().count() < silent.len());
    assert!(b.prepare_to_wait(), "there are more");
    assert_eq!(b.poll(&mut Vec::new(), 64).unwrap(), 0);
    assert_eq!(b.neighbours.connections().count(), silent.len());
    assert!(!b.prepare_to_wait());
}

/// In a separate process, since it uses up the descriptors.
#[test]
fn a_neighbour_without_a_free_descriptor_is_refused_and_comes_again() {
    const ALONE: &str = "GIGAE_SHM_TEST_ALONE";
    if std::env::var_os(ALONE).is_none() {
        let name = "link::tests::a_neighbour_without_a_free_descriptor_is_refused_and_comes_again";
        let mut test = std::process::Command::new(std::env::current_exe().unwrap());
        let status = test.args(["--exact", name, "--nocapture"]).env(ALONE, "1").status();
        return assert!(status.unwrap().success());
    }
    let node = TestNetwork::new();
    let (mut a, mut b) = (node.open(), node.open());
    let at_b = b.info().mac;
    send(&mut a, at_b, 0);
    assert!(matches!(a.neighbours.via(key(at_b.0)), Via::Ring(_)));
    let limits = getrlimit(Resource::Nofile);
    let lowest_free = b.neighbours.events.try_clone().unwrap().as_raw_fd() as u64;
    setrlimit(Resource::Nofile, Rlimit { current: Some(lowest_free), ..limits }).unwrap();
    b.look();
    setrlimit(Resource::Nofile, limits).unwrap();
    assert!(b.neighbours.sends_nobody());
    a.look();
    assert_eq!(a.neighbours.via(key(at_b.0)), Via::Nic, "it has learnt that");
    for _ in 0..8 {
        a.neighbours.pass_a_second();
        a.look();
    }
    send(&mut a, at_b, 1);
    b.look();
    assert!(a.is_near(at_b));
}
