//! Frames that go first have a priority tag on the wire, and arrive at endpoints that know nothing
//! of it.

use super::*;
use socket2::{Domain, Protocol, SockFilter, Socket, Type};
use std::fs::File;
use std::mem::MaybeUninit;
use std::os::fd::AsFd;

const PRIORITY: u8 = 5;

/// Sees frames of a node on their way through the switch that have the tag of that priority, or
/// those that have none.
struct Sniffer(Socket);

impl Sniffer {
    fn new(fabric: &Fabric, node: u16, tagged: bool) -> Self {
        let path = format!("/run/netns/{}-sw", fabric.config().prefix);
        let switch = File::open(path).unwrap();
        let _inside = gigae_host::netns::enter(switch.as_fd()).unwrap();
        let every = Protocol::from(i32::from((libc::ETH_P_ALL as u16).to_be()));
        let socket = Socket::new(Domain::PACKET, Type::RAW, Some(every)).unwrap();
        socket.set_nonblocking(true).unwrap();
        socket.attach_filter(&filter(fabric.node(node).mac, tagged)).unwrap();
        while socket.recv(&mut [MaybeUninit::uninit(); 64]).is_ok() {}
        Self(socket)
    }

    /// How many there were since the last call.
    fn count(&self) -> usize {
        let mut buffer = [MaybeUninit::uninit(); 64];
        std::iter::from_fn(|| self.0.recv(&mut buffer).ok()).count()
    }
}

/// In the kernel a tag is beside a frame's bytes. From a sender with this address, `tagged` or not.
fn filter([.., high, low]: [u8; 6], tagged: bool) -> Vec<SockFilter> {
    const WORD: u16 = (libc::BPF_LD | libc::BPF_W | libc::BPF_ABS) as u16;
    const HALF: u16 = (libc::BPF_LD | libc::BPF_H | libc::BPF_ABS) as u16;
    const EQUAL: u16 = (libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K) as u16;
    const RETURN: u16 = (libc::BPF_RET | libc::BPF_K) as u16;
    let beside = |at: u32| (libc::SKF_AD_OFF as u32).wrapping_add(at);
    let tag = if tagged { u32::from(PRIORITY) << 13 } else { 0 };
    let steps = [
        (HALF, 10, u32::from(u16::from_be_bytes([high, low]))),
        (WORD, beside(48), u32::from(tagged)),
        (WORD, beside(44), tag),
    ];
    let count = steps.len();
    let mut code = Vec::new();
    for (i, (load, at, value)) in steps.into_iter().enumerate() {
        code.push(SockFilter::new(load, 0, 0, at));
        code.push(SockFilter::new(EQUAL, 0, (2 * (count - i) - 1) as u8, value));
    }
    code.push(SockFilter::new(RETURN, 0, 0, u32::MAX));
    code.push(SockFilter::new(RETURN, 0, 0, 0));
    code
}

fn address(fabric: &Fabric, n: u16, envelope: Envelope) -> Address {
    match envelope {
        Envelope::Udp { .. } => IpAddr::from(fabric.node(n).ipv4).into(),
        Envelope::Ethernet { .. } => gigae::MacAddr(fabric.node(n).mac).into(),
    }
}

/// Messages one after the other, and then many of all lengths both ways at once, between an
/// endpoint with the priority and one without. Returns the tagged frames of both nodes during the
/// former, and whether node 1 had others during the latter.
fn converse_over(fabric: &Fabric, [a, b]: [Backend; 2], envelope: Envelope) -> ([usize; 2], bool) {
    const ROUNDS: u32 = 100;
    let a = options(a).envelope(envelope).priority(Some(PRIORITY));
    let a = on(&fabric.node(1), a).unwrap();
    let b = on(&fabric.node(2), options(b).envelope(envelope)).unwrap();
    let to_b = a.peer(address(fabric, 2, envelope)).unwrap();
    let to_a = b.peer(address(fabric, 1, envelope)).unwrap();
    a.send(to_b, b"the session comes up").unwrap();
    assert!(b.recv_timeout(PATIENCE).unwrap().is_some());
    let tagged = [1, 2].map(|n| Sniffer::new(fabric, n, true));
    for n in 0..ROUNDS {
        a.send(to_b, &n.to_le_bytes()).unwrap();
        let message = b.recv_timeout(PATIENCE).unwrap().expect("it came");
        assert_eq!(message[..], n.to_le_bytes());
        b.send(to_a, &message).unwrap();
        let answer = a.recv_timeout(PATIENCE).unwrap().expect("the answer came");
        assert_eq!(answer[..], n.to_le_bytes());
    }
    let tagged = tagged.map(|sniffer| sniffer.count());
    let plain = Sniffer::new(fabric, 1, false);
    std::thread::scope(|scope| {
        for (n, endpoint) in [(2, a), (1, b)] {
            let other = address(fabric, n, envelope);
            scope.spawn(move || converse(&endpoint, other, 2_000));
        }
    });
    (tagged, plain.count() > 0)
}

/// Every frame is seen twice: as it comes to the switch, and as it leaves.
fn short_messages_have_tags(a: Backend, b: Backend, envelope: Envelope) {
    let fabric = testing::fabric("priority", |_| ());
    let ([of_a, of_b], others) = converse_over(&fabric, [a, b], envelope);
    assert!(of_a >= 100, "{of_a} tagged frames of {a:?} in {envelope:?}");
    assert_eq!(of_b, 0, "tagged frames of an endpoint without the option");
    assert!(others, "no frame of a long conversation without a tag");
}

const GENERIC: Backend = Backend::XdpMode(Mode::XdpGeneric);
const NATIVE: Backend = Backend::XdpMode(Mode::XdpNative);

pub(crate) fn short_messages_have_a_tag_over_packet_sockets() {
    for envelope in [Envelope::DEFAULT, UDP] {
        short_messages_have_tags(Backend::Packet, Backend::Packet, envelope);
    }
    short_messages_have_tags(Backend::Packet, Backend::Udp, UDP);
}

pub(crate) fn short_messages_have_a_tag_over_xdp() {
    for (a, b) in [(GENERIC, GENERIC), (NATIVE, NATIVE), (GENERIC, Backend::Packet)] {
        short_messages_have_tags(a, b, Envelope::DEFAULT);
    }
    for (a, b) in [(NATIVE, GENERIC), (Backend::Packet, NATIVE)] {
        short_messages_have_tags(a, b, UDP);
    }
}

pub(crate) fn a_link_over_a_udp_socket_has_no_tags() {
    let fabric = testing::fabric("untagged", |_| ());
    let (tagged, others) = converse_over(&fabric, [Backend::Udp; 2], UDP);
    assert!(tagged == [0, 0] && others);
}

pub(crate) fn a_priority_that_there_is_not_is_refused() {
    let fabric = testing::fabric("priorities", |_| ());
    for priority in [0, 8, 255] {
        let options = options(Backend::Packet).priority(Some(priority));
        let error = on(&fabric.node(1), options).expect_err("no such priority").to_string();
        assert!(error.contains("1 to 7"), "{error}");
    }
    on(&fabric.node(1), options(Backend::Packet).priority(Some(7))).unwrap();
}
