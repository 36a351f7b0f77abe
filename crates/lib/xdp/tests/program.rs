//! The XDP program's decisions, by `BPF_PROG_TEST_RUN`, and that the object is made of its source.

use aya::maps::{Array, XskMap};
use aya::programs::{TestRun, TestRunOptions, Xdp};
use aya::{Ebpf, EbpfLoader, include_bytes_aligned};
use gigae_fabric::testing;
use gigae_wire::{Envelope, MacAddr, NodeAddr, Route};
use rustix::fd::{AsRawFd, OwnedFd};
use rustix::net::{AddressFamily, SocketType};
use std::path::Path;
use std::process::Command;

static OBJECT: &[u8] = include_bytes_aligned!("../bpf/steer.bpf.o");

const US: MacAddr = MacAddr([2, 0x67, 0x69, 0, 0, 2]);
const PEER: MacAddr = MacAddr([2, 0x67, 0x69, 0, 0, 1]);
const PORT: u16 = 4791;

/// linux/bpf.h, `enum xdp_action`.
const PASS: u32 = 2;
const REDIRECT: u32 = 4;

fn main() {
    testing::run(&[
        ("frames_of_our_channels_are_taken", frames_of_our_channels_are_taken as fn()),
        ("other_ethertypes_pass", other_ethertypes_pass),
        ("frames_to_other_addresses_pass", frames_to_other_addresses_pass),
        (
            "questions_to_all_are_taken_on_every_channel",
            questions_to_all_are_taken_on_every_channel,
        ),
        ("frames_with_a_priority_tag_are_taken", frames_with_a_priority_tag_are_taken),
        ("frames_with_a_vlan_tag_pass", frames_with_a_vlan_tag_pass),
        ("datagrams_to_our_port_are_taken", datagrams_to_our_port_are_taken),
        ("other_datagrams_and_tcp_pass", other_datagrams_and_tcp_pass),
        ("fragments_and_options_pass", fragments_and_options_pass),
        ("arp_and_our_ethertype_pass_a_udp_filter", arp_and_our_ethertype_pass_a_udp_filter),
        ("frames_cut_before_their_channel_pass", frames_cut_before_their_channel_pass),
        ("a_queue_without_a_socket_passes_its_frames", a_queue_without_a_socket_passes_its_frames),
        ("long_frames_are_judged_by_their_first_buffer", long_frames_are_judged),
        ("the_object_is_what_its_source_compiles_to", the_object_is_what_its_source_compiles_to),
    ]);
}

/// The programs in the object: for frames in one buffer, and in several.
const ONE: &str = "gigae_steer";
const SEVERAL: &str = "gigae_steer_sg";

/// Bytes of a filter: EtherType, UDP port, four bytes unused, channels.
const FILTER: usize = 40;

/// Both programs, of which the second is asked too and must always agree.
struct Judge {
    object: Ebpf,
    _socket: OwnedFd,
}

impl Judge {
    fn new(envelope: Envelope, channels: &[u8]) -> Self {
        let (ethertype, port) = match envelope {
            Envelope::Ethernet { ethertype } => (ethertype.to_be(), 0),
            Envelope::Udp { port } => (0, port.to_be()),
        };
        let set: gigae_link::ChannelSet = channels.iter().copied().collect();
        let mut filter = [0; FILTER];
        filter[..2].copy_from_slice(&ethertype.to_ne_bytes());
        filter[2..4].copy_from_slice(&port.to_ne_bytes());
        filter[8..].copy_from_slice(set.words().map(u64::to_ne_bytes).as_flattened());
        let mut object = EbpfLoader::new()
            .btf(None)
            .override_global("own_mac", &US.0[..], true)
            .load(OBJECT)
            .unwrap();
        for name in [ONE, SEVERAL] {
            let program: &mut Xdp = object.program_mut(name).unwrap().try_into().unwrap();
            program.load().unwrap();
        }
        let mut filters: Array<_, [u8; FILTER]> =
            object.map_mut("filters").unwrap().try_into().unwrap();
        filters.set(0, filter, 0).unwrap();
        let socket = rustix::net::socket(AddressFamily::XDP, SocketType::RAW, None).unwrap();
        let mut map: XskMap<_> = object.map_mut("sockets").unwrap().try_into().unwrap();
        map.set(0, socket.as_raw_fd(), 0).unwrap();
        Self { object, _socket: socket }
    }

    fn verdict(&mut self, frame: &[u8]) -> u32 {
        let verdict = self.ask(ONE, frame);
        assert_eq!(self.ask(SEVERAL, frame), verdict);
        verdict
    }

    /// What one of the programs says.
    fn ask(&mut self, name: &str, frame: &[u8]) -> u32 {
        let program: &mut Xdp = self.object.program_mut(name).unwrap().try_into().unwrap();
        let options = TestRunOptions { data_in: Some(frame), ..TestRunOptions::new() };
        program.test_run(options).unwrap().return_value
    }

    fn takes(&mut self, frame: &[u8]) -> bool {
        match self.verdict(frame) {
            PASS => false,
            REDIRECT => true,
            other => panic!("verdict {other}"),
        }
    }
}

fn ethernet(ethertype: u16) -> Route {
    Route::new(Envelope::Ethernet { ethertype }, PEER.into(), US.into()).unwrap()
}

fn udp(port: u16, from: &str, to: &str) -> Route {
    let node = |ip: &str, next_hop| NodeAddr::Ip { ip: ip.parse().unwrap(), next_hop };
    Route::new(Envelope::Udp { port }, node(from, PEER), node(to, US)).unwrap()
}

fn ipv4(port: u16) -> Route {
    udp(port, "198.18.0.1", "198.18.0.2")
}

fn ipv6(port: u16) -> Route {
    udp(port, "fd00::1", "fd00::2")
}

/// The shortest GigaE frame: its header of 32 bytes.
fn framed(route: &Route, channel: u8) -> Vec<u8> {
    let mut frame = vec![0; route.len() + 32];
    frame[route.len() + 5] = channel;
    route.write(&mut frame);
    frame
}

fn frames_of_our_channels_are_taken() {
    let ours = [0, 1, 63, 64, 128, 255];
    let mut judge = Judge::new(Envelope::DEFAULT, &ours);
    for channel in 0..=255 {
        let taken = judge.takes(&framed(&ethernet(0x88b5), channel));
        assert_eq!(taken, ours.contains(&channel), "channel {channel}");
    }
    for version in [0x00, 0x10, 0xf0, 0xff] {
        let mut frame = framed(&ethernet(0x88b5), 1);
        frame[18] = version;
        assert!(judge.takes(&frame), "the version is the receiver's matter");
    }
}

fn other_ethertypes_pass() {
    let mut judge = Judge::new(Envelope::Ethernet { ethertype: 0x88b6 }, &[0]);
    for ethertype in [0x0600, 0x0800, 0x0806, 0x86dd, 0x88b5, 0xb688] {
        assert!(!judge.takes(&framed(&ethernet(ethertype), 0)), "{ethertype:04x}");
    }
    assert!(judge.takes(&framed(&ethernet(0x88b6), 0)));
    assert!(!judge.takes(&framed(&ipv4(PORT), 0)));
}

fn frames_to_other_addresses_pass() {
    let mut judge = Judge::new(Envelope::DEFAULT, &[0]);
    let ours = framed(&ethernet(0x88b5), 0);
    assert!(judge.takes(&ours));
    for byte in 0..6 {
        let mut other = ours.clone();
        other[byte] ^= 1;
        assert!(!judge.takes(&other), "byte {byte} of the destination");
    }
    let mut broadcast = ours;
    broadcast[..6].fill(0xff);
    assert!(!judge.takes(&broadcast));
}

fn questions_to_all_are_taken_on_every_channel() {
    for (envelope, routes) in [
        (Envelope::DEFAULT, vec![ethernet(0x88b5)]),
        (Envelope::Udp { port: PORT }, vec![ipv4(PORT), ipv6(PORT)]),
    ] {
        let mut judge = Judge::new(envelope, &[3]);
        for route in routes {
            let mut question = framed(&route, 200);
            let kind = route.len() + 4;
            question[kind] = 0x38;
            assert!(!judge.takes(&question), "to this node, on a channel that is not open");
            for byte in 0..6 {
                question[..6].fill(0xff);
                question[byte] = 0xfe;
                assert!(!judge.takes(&question), "byte {byte} of the destination");
            }
            question[..6].fill(0xff);
            assert!(judge.takes(&question));
            for other in (0..=255).filter(|&other| other != 0x38) {
                question[kind] = other;
                assert!(!judge.takes(&question), "kind {other:#x}");
            }
        }
    }
}

/// The envelopes, each with routes of its families.
fn routes() -> [(Envelope, Vec<Route>); 2] {
    [
        (Envelope::DEFAULT, vec![ethernet(0x88b5)]),
        (Envelope::Udp { port: PORT }, vec![ipv4(PORT), ipv6(PORT)]),
    ]
}

fn frames_with_a_priority_tag_are_taken() {
    for (envelope, routes) in routes() {
        let mut judge = Judge::new(envelope, &[3]);
        for route in routes {
            let tagged = route.tagged(5);
            let ours = framed(&tagged, 3);
            assert!(judge.takes(&ours), "{envelope:?}");
            assert!(!judge.takes(&framed(&tagged, 4)), "another channel");
            let least = tagged.len() + 6;
            for length in 14..ours.len() {
                assert_eq!(judge.takes(&ours[..length]), length >= least, "{length} bytes");
            }
            let mut question = framed(&tagged, 200);
            question[..6].fill(0xff);
            assert!(!judge.takes(&question), "to all, but no question");
            question[tagged.len() + 4] = 0x38;
            assert!(judge.takes(&question));
            let mut other = ours.clone();
            other[17] ^= 1;
            assert!(!judge.takes(&other), "another EtherType behind the tag");
            let mut twice = ours.clone();
            twice.splice(12..12, [0x81, 0x00, 0xa0, 0x00]);
            assert!(!judge.takes(&twice), "two tags");
            for vlan in [1, 0x800] {
                let mut of_vlan = ours.clone();
                of_vlan[14..16].copy_from_slice(&(0xa000_u16 | vlan).to_be_bytes());
                assert!(!judge.takes(&of_vlan), "VLAN {vlan}");
            }
        }
    }
}

fn frames_with_a_vlan_tag_pass() {
    for envelope in [Envelope::DEFAULT, Envelope::Udp { port: PORT }] {
        let mut judge = Judge::new(envelope, &[0]);
        for tag in [[0x81, 0x00, 0, 5], [0x88, 0xa8, 0, 5]] {
            let route = match envelope {
                Envelope::Udp { port } => ipv4(port),
                Envelope::Ethernet { ethertype } => ethernet(ethertype),
            };
            let mut tagged = framed(&route, 0);
            assert!(judge.takes(&tagged));
            tagged.splice(12..12, tag);
            assert!(!judge.takes(&tagged));
        }
    }
}

fn datagrams_to_our_port_are_taken() {
    let mut judge = Judge::new(Envelope::Udp { port: PORT }, &[3]);
    for route in [ipv4(PORT), ipv6(PORT)] {
        assert!(judge.takes(&framed(&route, 3)));
        assert!(!judge.takes(&framed(&route, 4)), "another channel");
    }
}

fn other_datagrams_and_tcp_pass() {
    let mut judge = Judge::new(Envelope::Udp { port: PORT }, &[0]);
    for port in [PORT + 1, PORT.swap_bytes(), 0] {
        assert!(!judge.takes(&framed(&ipv4(port), 0)), "port {port} over IPv4");
        assert!(!judge.takes(&framed(&ipv6(port), 0)), "port {port} over IPv6");
    }
    for protocol in [1, 6, 58, 132] {
        let mut v4 = framed(&ipv4(PORT), 0);
        v4[23] = protocol;
        assert!(!judge.takes(&v4), "protocol {protocol} over IPv4");
        let mut v6 = framed(&ipv6(PORT), 0);
        v6[20] = protocol;
        assert!(!judge.takes(&v6), "protocol {protocol} over IPv6");
    }
    // Our port as the source only: an answer to a client that happens to use it.
    let mut reply = framed(&ipv4(PORT + 1), 0);
    reply[34..36].copy_from_slice(&PORT.to_be_bytes());
    assert!(!judge.takes(&reply));
}

fn fragments_and_options_pass() {
    let mut judge = Judge::new(Envelope::Udp { port: PORT }, &[0]);
    // Byte, value: more fragments, two offsets, a longer header, another version.
    for (at, value) in [(20, 0x20), (20, 0x01), (21, 0x01), (14, 0x46), (14, 0x65)] {
        let mut frame = framed(&ipv4(PORT), 0);
        frame[at] = value;
        assert!(!judge.takes(&frame), "byte {at} is {value:#x}");
    }
    for extension in [0, 43, 44, 60] {
        let mut frame = framed(&ipv6(PORT), 0);
        frame[20] = extension;
        assert!(!judge.takes(&frame), "IPv6 extension {extension}");
    }
    let mut unfragmented = framed(&ipv4(PORT), 0);
    unfragmented[20] = 0x40;
    assert!(judge.takes(&unfragmented), "\"do not fragment\" is not a fragment");
}

fn arp_and_our_ethertype_pass_a_udp_filter() {
    let mut judge = Judge::new(Envelope::Udp { port: PORT }, &[0]);
    for ethertype in [0x0806, 0x88b5, 0x0000] {
        assert!(!judge.takes(&framed(&ethernet(ethertype), 0)), "{ethertype:04x}");
    }
}

fn frames_cut_before_their_channel_pass() {
    // The kernel tests no frame without an Ethernet header.
    const SHORTEST: usize = 14;
    let udp = Envelope::Udp { port: PORT };
    for (envelope, route) in
        [(Envelope::DEFAULT, ethernet(0x88b5)), (udp, ipv4(PORT)), (udp, ipv6(PORT))]
    {
        let mut judge = Judge::new(envelope, &[0]);
        let frame = framed(&route, 0);
        for length in SHORTEST..=frame.len() {
            let whole = length >= route.len() + 6;
            assert_eq!(judge.takes(&frame[..length]), whole, "{length} of {}", frame.len());
        }
    }
}

/// Longer than a page, so that the kernel's test puts the rest of the frame into further buffers.
fn long_frames_are_judged() {
    for (envelope, route) in [
        (Envelope::DEFAULT, ethernet(0x88b5)),
        (Envelope::Udp { port: PORT }, ipv4(PORT)),
        (Envelope::Udp { port: PORT }, ipv6(PORT)),
    ] {
        let mut judge = Judge::new(envelope, &[3]);
        for length in [4097, 9014, 15_360] {
            let mut ours = vec![0; length];
            ours[route.len() + 5] = 3;
            route.write(&mut ours);
            assert_eq!(judge.ask(SEVERAL, &ours), REDIRECT, "{length} bytes");
            ours[route.len() + 5] = 4;
            assert_eq!(judge.ask(SEVERAL, &ours), PASS, "another channel, {length} bytes");
        }
    }
}

fn a_queue_without_a_socket_passes_its_frames() {
    let mut judge = Judge::new(Envelope::DEFAULT, &[0]);
    let mut map: XskMap<_> = judge.object.map_mut("sockets").unwrap().try_into().unwrap();
    map.unset(0).unwrap();
    assert_eq!(judge.verdict(&framed(&ethernet(0x88b5), 0)), PASS);
}

/// Runs the very line that the source states. Elsewhere than under CI another compiler, or none,
/// leaves nothing to compare with.
fn the_object_is_what_its_source_compiles_to() {
    let version = Command::new("clang").arg("--version").output();
    let version = version.map(|o| String::from_utf8_lossy(&o.stdout).into_owned());
    if !version.as_ref().is_ok_and(|v| v.contains("version 14.")) {
        assert!(std::env::var_os("CI").is_none_or(|v| v.is_empty()), "clang 14 is not installed");
        eprintln!("not compared: clang 14 is not installed");
        return;
    }
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("bpf/steer.bpf.c");
    let text = std::fs::read_to_string(&source).unwrap();
    let command = text.lines().find_map(|l| l.strip_prefix("//   clang ")).expect("the command");
    let directory = std::env::temp_dir().join(format!("steer-{}", std::process::id()));
    std::fs::create_dir(&directory).unwrap();
    std::fs::copy(&source, directory.join("steer.bpf.c")).unwrap();
    let status = Command::new("sh")
        .args(["-c", &format!("clang {command}")])
        .current_dir(&directory)
        .status()
        .unwrap();
    let built = std::fs::read(directory.join("steer.bpf.o"));
    std::fs::remove_dir_all(&directory).unwrap();
    assert!(status.success());
    assert!(built.unwrap() == OBJECT, "steer.bpf.o is not made of steer.bpf.c; rebuild it");
}
