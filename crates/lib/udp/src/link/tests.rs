//! What kernels and devices refuse, on the loopback interface: no privileges.

use super::*;
use gigae_link::conformance::{self as suite, CHANNEL, PairOptions, frame};
use gigae_wire::{NodeAddr, Route};
use rustix::fd::AsRawFd;
use std::net::{Ipv4Addr, UdpSocket as Plain};

/// A link that sends to itself, and the way there.
fn to_itself() -> (UdpLink, Route) {
    // A port that no process has.
    let port = Plain::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let envelope = Envelope::Udp { port };
    let config = UdpConfig::new("lo", PairOptions::new(envelope).filter);
    let own = NodeAddr::Ip { ip: Ipv4Addr::LOCALHOST.into(), next_hop: Default::default() };
    (UdpLink::open(config).unwrap(), Route::new(envelope, own, own).unwrap())
}

/// Frames that go out as one buffer if they may. All arrive.
fn burst(link: &mut UdpLink, to: &Route) {
    let all: Vec<_> = (0..20).map(|n| frame(to, CHANNEL, n, 1000)).collect();
    all.iter().for_each(|bytes| suite::queue(link, bytes));
    suite::flush(link);
    assert_eq!(suite::receive(link, all.len()), all);
}

#[test]
fn frames_go_one_by_one_once_the_kernel_has_refused_to_cut_a_buffer() {
    let (mut link, to) = to_itself();
    burst(&mut link, &to);
    let calls = link.counters().drives;
    assert!(calls < 10, "{calls} calls received 20 frames that came joined");
    // What a device answers that cannot compute checksums, before Linux 6.11.
    assert!(link.on_refusal(Errno::IO, 20).unwrap(), "it goes on");
    burst(&mut link, &to);
    assert!(!link.joins, "one frame alone was taken: it is the buffer that is refused");
    burst(&mut link, &to);
    assert!(link.counters().drives - calls >= 40, "each came alone");
}

#[test]
fn a_buffer_that_is_refused_for_its_frames_costs_those_alone() {
    let (mut link, to) = to_itself();
    assert!(link.on_refusal(Errno::IO, 2).unwrap());
    // Each of them is refused alone, too.
    for n in 0..2 {
        suite::queue(&mut link, &frame(&to, CHANNEL, n, 1000));
    }
    for _ in 0..2 {
        assert!(link.on_refusal(Errno::NETUNREACH, 1).unwrap());
    }
    assert!(link.joins && !link.singly, "buffers are tried again");
    burst(&mut link, &to);
}

#[test]
fn an_mtu_that_shrinks_for_a_while_does_not_end_buffers() {
    let (mut link, to) = to_itself();
    for (n, length) in [(0, 1000), (1, 1000), (2, 300)] {
        suite::queue(&mut link, &frame(&to, CHANNEL, n, length));
    }
    assert!(link.on_refusal(Errno::INVAL, 3).unwrap());
    for _ in 0..2 {
        assert!(link.on_refusal(Errno::MSGSIZE, 1).unwrap());
    }
    // The last one is short enough.
    suite::flush(&mut link);
    assert_eq!(suite::receive(&mut link, 1), [frame(&to, CHANNEL, 2, 300)]);
    assert!(link.joins, "no frame was taken that was refused within a buffer");
    burst(&mut link, &to);
}

#[test]
fn copies_of_frames_go_alone() {
    let (mut link, to) = to_itself();
    link.set_alone(true);
    let calls = link.counters().drives;
    burst(&mut link, &to);
    assert!(link.counters().drives - calls >= 20, "each came alone");
    link.set_alone(false);
    let calls = link.counters().drives;
    burst(&mut link, &to);
    assert!(link.counters().drives - calls < 10, "they came joined");
}

#[test]
fn a_kernel_that_joins_no_datagrams_costs_calls_and_no_frame() {
    let (mut link, to) = to_itself();
    let (fd, off) = (link.socket.as_fd().as_raw_fd(), 0_i32);
    let length = size_of::<i32>() as libc::socklen_t;
    // SAFETY: pointer and length describe an integer that lives across the call.
    let result = unsafe {
        libc::setsockopt(fd, libc::SOL_UDP, libc::UDP_GRO, (&raw const off).cast(), length)
    };
    assert_eq!(result, 0);
    burst(&mut link, &to);
    assert!(link.counters().drives >= 20);
}

#[test]
fn a_full_socket_keeps_frames_for_the_next_flush() {
    let (mut link, _) = to_itself();
    assert!(!link.on_refusal(Errno::AGAIN, 3).unwrap(), "later");
    assert!(link.joins && !link.singly);
}

#[test]
fn a_firewall_of_this_host_costs_the_frame_and_not_the_link() {
    let (mut link, to) = to_itself();
    for errno in [Errno::PERM, Errno::ACCESS, Errno::CONNREFUSED, Errno::NOBUFS] {
        suite::queue(&mut link, &frame(&to, CHANNEL, 1, 1000));
        assert!(link.on_refusal(errno, 1).unwrap(), "{errno}");
        assert!(link.tx.frames().is_empty(), "it is lost, as on a wire");
    }
    burst(&mut link, &to);
}

/// Where in a transmit frame the suite writes.
const AT: usize = 16;

/// Posts a frame twice, as who repeats it does.
fn twice(link: &mut UdpLink, bytes: &[u8]) -> [usize; 2] {
    let mut arrived = [0; 2];
    let mut posted = suite::post(link, bytes);
    for (round, arrived) in arrived.iter_mut().enumerate() {
        suite::flush(link);
        *arrived = suite::drain(link);
        if round == 0 {
            let frame = link.reclaim(posted).expect("the kernel has copied it");
            posted = link.post(frame, AT..AT + bytes.len(), Segment::Last);
        }
    }
    link.release(posted.into());
    arrived
}

#[test]
fn what_is_sent_again_goes_alone() {
    let (mut link, to) = to_itself();
    let all: Vec<_> = (0..8).map(|n| frame(&to, CHANNEL, n, 1000)).collect();
    let posted: Vec<_> = all.iter().map(|bytes| suite::post(&mut link, bytes)).collect();
    suite::flush(&mut link);
    assert_eq!(suite::receive(&mut link, 8), all);
    let calls = link.counters().drives;
    for posted in posted {
        let frame = link.reclaim(posted).expect("the kernel has copied it");
        let posted = link.post(frame, AT..AT + 1000, Segment::Last);
        link.release(posted.into());
    }
    suite::flush(&mut link);
    assert_eq!(suite::receive(&mut link, 8), all);
    assert!(link.counters().drives - calls >= 8, "each came alone");
    burst(&mut link, &to);
}

#[test]
fn frames_go_one_by_one_where_many_have_to_be_sent_again_and_together_later() {
    let (mut link, to) = to_itself();
    for n in 0..FRAMES_PER_LOOK as u32 {
        assert_eq!(twice(&mut link, &frame(&to, CHANNEL, n, 1000)), [1, 1]);
    }
    assert!(!link.may_join(), "half of all frames were repeated");
    let calls = link.counters().drives;
    burst(&mut link, &to);
    assert!(link.counters().drives - calls >= 20, "each came alone");
    link.tx.posted = link.alone_until;
    assert!(link.may_join(), "it is tried again");
}
