//! How packet links begin and end, and how they live beside each other.

use gigae_fabric::{Fabric, testing};
use gigae_link::conformance::{
    CHANNEL, OTHER_CHANNEL, PairOptions, drain, frame, only, post, send, send_until_received,
};
use gigae_link::{ChannelSet, Link, LinkError, OpenError};
use gigae_packet::{PacketConfig, PacketLink};
use gigae_wire::{Envelope, MacAddr, NodeAddr, Route};
use rustix::thread::CapabilitySet;
use std::io::ErrorKind;
use std::net::{IpAddr, UdpSocket};
use std::time::{Duration, Instant};

/// Far more than anything bounded here takes, on a busy machine.
const BOUND: Duration = Duration::from_secs(60);

const UDP: Envelope = Envelope::Udp { port: 4791 };

fn main() {
    testing::for_users_except(&[]).run(&[
        ("links_of_two_channels_share_an_interface", links_of_two_channels_share as fn()),
        ("frames_of_all_sizes_pass_on_a_jumbo_network", frames_pass_on_a_jumbo_network),
        ("a_link_opens_on_the_loopback", a_link_opens_on_the_loopback),
        ("the_queueing_discipline_can_be_passed_by", the_queueing_discipline_can_be_passed_by),
        ("the_kernel_does_not_answer_for_the_links_port", the_kernel_does_not_answer),
        ("what_cannot_be_opened_is_refused_in_one_line", what_cannot_be_opened_is_refused),
        ("a_missing_capability_is_named", a_missing_capability_is_named),
        ("an_interface_that_goes_down_is_reported_and_comes_back", going_down_is_reported),
        (
            "an_outage_that_is_over_keeps_no_program_awake",
            an_outage_that_is_over_keeps_no_program_awake,
        ),
        ("an_interface_that_is_deleted_is_reported", deletion_is_reported),
    ]);
}

fn config(envelope: Envelope, channel: u8) -> PacketConfig {
    let mut filter = PairOptions::new(envelope).filter;
    filter.channels = ChannelSet::EMPTY.with(channel);
    PacketConfig::new("eth0", filter)
}

fn open(fabric: &Fabric, node: u16, config: PacketConfig) -> Result<PacketLink, OpenError> {
    let _inside = fabric.node(node).enter().unwrap();
    PacketLink::open(config)
}

fn ethernet(fabric: &Fabric, from: u16, to: u16) -> Route {
    let [from, to] = [from, to].map(|node| MacAddr(fabric.node(node).mac).into());
    Route::new(Envelope::DEFAULT, from, to).unwrap()
}

fn ip(fabric: &Fabric, arguments: &str) {
    let mut command = fabric.node(1).command("ip").unwrap();
    assert!(command.args(arguments.split(' ')).status().unwrap().success(), "ip {arguments}");
}

fn links_of_two_channels_share() {
    let fabric = testing::fabric("channels", |_| ());
    let mut sender = open(&fabric, 1, config(Envelope::DEFAULT, CHANNEL)).unwrap();
    let mut one = open(&fabric, 2, config(Envelope::DEFAULT, CHANNEL)).unwrap();
    let mut other = open(&fabric, 2, config(Envelope::DEFAULT, OTHER_CHANNEL)).unwrap();
    let to_b = ethernet(&fabric, 1, 2);
    let (first, second) = (frame(&to_b, CHANNEL, 1, 80), frame(&to_b, OTHER_CHANNEL, 2, 80));
    send(&mut sender, &first);
    send(&mut sender, &second);
    only(&mut one, &first);
    only(&mut other, &second);
}

fn frames_pass_on_a_jumbo_network() {
    let fabric = testing::fabric("jumbo", |config| config.mtu = 9000);
    let mut a = open(&fabric, 1, config(Envelope::DEFAULT, CHANNEL)).unwrap();
    let mut b = open(&fabric, 2, config(Envelope::DEFAULT, CHANNEL)).unwrap();
    assert_eq!(a.info().max_frame, 9014);
    let to_b = ethernet(&fabric, 1, 2);
    for (i, length) in [60, 2048, 4096, 9013, 9014].into_iter().enumerate() {
        let ours = frame(&to_b, CHANNEL, i as u32, length);
        send(&mut a, &ours);
        only(&mut b, &ours);
    }
}

/// Its MTU is far beyond what a slot holds, and a node can talk to itself on it.
fn a_link_opens_on_the_loopback() {
    let fabric = testing::fabric("loopback", |_| ());
    let on_loopback = PacketConfig { interface: "lo".into(), ..config(Envelope::DEFAULT, CHANNEL) };
    let mut link = open(&fabric, 1, on_loopback).unwrap();
    let own: NodeAddr = link.info().mac.into();
    let to_itself = Route::new(Envelope::DEFAULT, own, own).unwrap();
    let ours = frame(&to_itself, CHANNEL, 1, link.info().max_frame);
    send(&mut link, &ours);
    only(&mut link, &ours);
}

fn the_queueing_discipline_can_be_passed_by() {
    let fabric = testing::fabric("bypass", |_| ());
    let bypassing = PacketConfig { qdisc_bypass: true, ..config(Envelope::DEFAULT, CHANNEL) };
    let mut a = open(&fabric, 1, bypassing).unwrap();
    let mut b = open(&fabric, 2, config(Envelope::DEFAULT, CHANNEL)).unwrap();
    // A queueing discipline that holds everything back for good.
    ip(&fabric, "link set eth0 txqueuelen 1000");
    let mut tc = fabric.node(1).command("tc").unwrap();
    let qdisc = "qdisc add dev eth0 root tbf rate 8bit burst 2000 limit 20000";
    assert!(tc.args(qdisc.split(' ')).status().unwrap().success());
    let to_b = ethernet(&fabric, 1, 2);
    for i in 0..20 {
        let ours = frame(&to_b, CHANNEL, i, 1000);
        send(&mut a, &ours);
        only(&mut b, &ours);
    }
}

/// Datagrams to the port would otherwise come back as "connection refused".
fn the_kernel_does_not_answer() {
    let fabric = testing::fabric("claim", |_| ());
    let client = {
        let _inside = fabric.node(1).enter().unwrap();
        let socket = UdpSocket::bind((fabric.node(1).ipv4, 0)).unwrap();
        socket.connect((fabric.node(2).ipv4, 4791)).unwrap();
        socket
    };
    let answer_within = |client: &UdpSocket, patience| {
        client.set_read_timeout(Some(patience)).unwrap();
        client.send(b"not a frame of ours, and the port must be quiet").unwrap();
        client.recv(&mut [0; 64]).unwrap_err().kind()
    };
    assert_eq!(answer_within(&client, BOUND), ErrorKind::ConnectionRefused, "without a link");
    let link = open(&fabric, 2, config(UDP, CHANNEL)).unwrap();
    let second = open(&fabric, 2, config(UDP, OTHER_CHANNEL)).unwrap();
    drop(link);
    let silence = Duration::from_millis(50);
    assert_eq!(answer_within(&client, silence), ErrorKind::WouldBlock, "with a link");
    drop(second);
    assert_eq!(answer_within(&client, BOUND), ErrorKind::ConnectionRefused, "after it");
}

fn what_cannot_be_opened_is_refused() {
    let fabric = testing::fabric("refusals", |_| ());
    let refused = |config| {
        let error = open(&fabric, 1, config).expect_err("this cannot be opened");
        assert!(!error.to_string().contains('\n'), "{error}");
        error
    };
    let nowhere = PacketConfig { interface: "eth7".into(), ..config(UDP, CHANNEL) };
    assert!(matches!(refused(nowhere), OpenError::NoInterface { .. }));
    let taken = {
        let _inside = fabric.node(1).enter().unwrap();
        UdpSocket::bind((IpAddr::from([0, 0, 0, 0]), 4791)).unwrap()
    };
    let error = refused(config(UDP, CHANNEL)).to_string();
    assert!(error.contains("UDP port"), "{error}");
    drop(taken);
    ip(&fabric, "link set eth0 mtu 100");
    let error = refused(config(UDP, CHANNEL));
    assert!(matches!(error, OpenError::MtuTooSmall { mtu: 100, needed: 212, .. }), "{error}");
    ip(&fabric, "link set eth0 down");
    assert!(matches!(refused(config(UDP, CHANNEL)), OpenError::InterfaceDown(_)));
}

fn a_missing_capability_is_named() {
    let fabric = testing::fabric("capabilities", |_| ());
    // Capabilities are a thread's own.
    let error = std::thread::scope(|scope| {
        let attempt = scope.spawn(|| {
            let _inside = fabric.node(1).enter().unwrap();
            let mut sets = rustix::thread::capabilities(None).unwrap();
            sets.effective = CapabilitySet::empty();
            rustix::thread::set_capabilities(None, sets).unwrap();
            let error = PacketLink::open(config(Envelope::DEFAULT, CHANNEL)).err();
            sets.effective = sets.permitted;
            rustix::thread::set_capabilities(None, sets).unwrap();
            error
        });
        attempt.join().unwrap().expect("not permitted")
    });
    assert!(matches!(error, OpenError::MissingCapability { .. }), "{error}");
    assert!(error.to_string().contains("CAP_NET_RAW"), "{error}");
}

/// Calls until an error comes, and asserts that it does.
fn until_error(mut call: impl FnMut() -> Result<(), LinkError>) -> LinkError {
    let end = Instant::now() + BOUND;
    loop {
        let result = call();
        assert!(Instant::now() < end, "no error within {BOUND:?}");
        if let Err(error) = result {
            return error;
        }
    }
}

fn going_down_is_reported() {
    let fabric = testing::fabric("down", |_| ());
    let mut link = open(&fabric, 1, config(Envelope::DEFAULT, CHANNEL)).unwrap();
    let to_b = ethernet(&fabric, 1, 2);
    std::thread::scope(|scope| {
        // It sleeps when the interface goes down.
        let sleeper = scope.spawn(|| until_error(|| link.wait(None).map(drop)));
        std::thread::sleep(Duration::from_millis(20));
        ip(&fabric, "link set eth0 down");
        let error = sleeper.join().unwrap();
        assert!(matches!(&error, LinkError::Down(name) if name == "eth0"), "{error}");
    });
    let mut frames = Vec::new();
    let error = until_error(|| link.poll(&mut frames, 1).map(drop));
    assert!(matches!(error, LinkError::Down(_)), "{error}");
    let posted = post(&mut link, &frame(&to_b, CHANNEL, 1, 100));
    link.release(posted.into());
    let error = until_error(|| link.flush().map(drop));
    assert!(matches!(error, LinkError::Down(_)), "{error}");

    ip(&fabric, "link set eth0 up");
    fabric.await_links().unwrap();
    let mut peer = open(&fabric, 2, config(Envelope::DEFAULT, CHANNEL)).unwrap();
    // What was posted in the meantime goes now.
    link.flush().unwrap();
    link.flush().unwrap();
    drain(&mut peer);
    let ours = frame(&to_b, CHANNEL, 2, 100);
    send_until_received(&mut link, &mut peer, &ours);
}

/// Its error stays at the socket until a call takes it.
fn an_outage_that_is_over_keeps_no_program_awake() {
    let fabric = testing::fabric("over", |_| ());
    let mut link = open(&fabric, 1, config(Envelope::DEFAULT, CHANNEL)).unwrap();
    ip(&fabric, "link set eth0 down");
    ip(&fabric, "link set eth0 up");
    fabric.await_links().unwrap();
    for timeout in [Duration::ZERO, Duration::from_millis(1)] {
        assert!(!link.wait(Some(timeout)).unwrap());
    }
    let mut peer = open(&fabric, 2, config(Envelope::DEFAULT, CHANNEL)).unwrap();
    let ours = frame(&ethernet(&fabric, 2, 1), CHANNEL, 1, 100);
    send_until_received(&mut peer, &mut link, &ours);
}

fn deletion_is_reported() {
    let fabric = testing::fabric("gone", |_| ());
    let mut link = open(&fabric, 1, config(Envelope::DEFAULT, CHANNEL)).unwrap();
    let to_b = ethernet(&fabric, 1, 2);
    std::thread::scope(|scope| {
        // It sleeps when the interface is deleted.
        let sleeper = scope.spawn(|| until_error(|| link.wait(None).map(drop)));
        std::thread::sleep(Duration::from_millis(20));
        drop(fabric);
        let error = sleeper.join().unwrap();
        assert!(matches!(error, LinkError::Gone(_) | LinkError::Down(_)), "{error}");
    });
    let mut frames = Vec::new();
    let error = until_error(|| link.poll(&mut frames, 1).map(drop));
    assert!(matches!(error, LinkError::Gone(_)), "{error}");
    let posted = post(&mut link, &frame(&to_b, CHANNEL, 1, 100));
    link.release(posted.into());
    let error = until_error(|| link.flush().map(drop));
    assert!(matches!(error, LinkError::Gone(_)), "{error}");
    let _ = link.counters();
}
