//! The classic BPF program that picks a link's frames (Linux's `networking/filter.rst`).
//!
//! It sees the frame from its Ethernet header on. A load past the end of the frame ends the
//! program with "drop", so no length is checked here.

use gigae_link::{ChannelSet, Filter};
use gigae_wire::{Envelope, Kind, MacAddr, VERSION};
use libc::sock_filter;

/// Loads from here on give properties of the packet instead of its bytes (linux/filter.h).
const ANCILLARY: u32 = libc::SKF_AD_OFF as u32;
/// To whom the frame is addressed: `PACKET_HOST` is zero, `PACKET_BROADCAST` one, and larger values
/// are not for this host (linux/if_packet.h).
const PACKET_TYPE: u32 = ANCILLARY + libc::SKF_AD_PKTTYPE as u32;
/// Whether the frame came with a VLAN tag, which the kernel removes from the bytes.
const VLAN_TAG_PRESENT: u32 = ANCILLARY + 48;
/// That tag, and its bits that name a VLAN. Without a VLAN it only gives the frame a priority.
const VLAN_TAG: u32 = ANCILLARY + 44;
const VLAN: u32 = 0x0fff;

/// Offset of the channel in the GigaE header, in every version of the protocol.
const CHANNEL: u32 = 5;
/// Offset of version and kind, in every version of the protocol, and its value in a broadcast
/// question.
const KIND: u32 = 4;
const WHO: u32 = (VERSION << 4 | Kind::Who as u8) as u32;

/// Words in the program's memory.
const SAVED_CHANNEL: u32 = 0;
const SAVED_KIND: u32 = 1;
const SAVED_TYPE: u32 = 2;

const LOAD_BYTE: u16 = (libc::BPF_LD | libc::BPF_B | libc::BPF_ABS) as u16;
const LOAD_HALF: u16 = (libc::BPF_LD | libc::BPF_H | libc::BPF_ABS) as u16;
const LOAD_WORD: u16 = (libc::BPF_LD | libc::BPF_W | libc::BPF_ABS) as u16;
const LOAD_VALUE: u16 = (libc::BPF_LD | libc::BPF_IMM) as u16;
const LOAD_SAVED: u16 = (libc::BPF_LD | libc::BPF_MEM) as u16;
const SAVE: u16 = libc::BPF_ST as u16;
const TO_X: u16 = (libc::BPF_MISC | libc::BPF_TAX) as u16;
const AND: u16 = (libc::BPF_ALU | libc::BPF_AND | libc::BPF_K) as u16;
const SHIFT: u16 = (libc::BPF_ALU | libc::BPF_RSH | libc::BPF_K) as u16;
const SHIFT_BY_X: u16 = (libc::BPF_ALU | libc::BPF_RSH | libc::BPF_X) as u16;
const IF_ABOVE: u16 = (libc::BPF_JMP | libc::BPF_JGT | libc::BPF_K) as u16;
const IF_EQUAL: u16 = (libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K) as u16;
const IF_ANY_BIT: u16 = (libc::BPF_JMP | libc::BPF_JSET | libc::BPF_K) as u16;
const GO_TO: u16 = (libc::BPF_JMP | libc::BPF_JA) as u16;
const RETURN: u16 = (libc::BPF_RET | libc::BPF_K) as u16;

/// Bytes of the frame to keep: all.
const KEEP: u32 = u32::MAX;
/// Placeholder for "jump to the end, where the frame is dropped" until the program is complete.
const DROP: u8 = u8::MAX;

/// The program for `filter`: it keeps frames to this address on the filter's channels, and
/// broadcast questions ([`Kind::Who`]) on any. At most some 70 instructions.
pub(crate) fn program(filter: &Filter, own: MacAddr) -> Vec<sock_filter> {
    let mut code = Vec::new();
    no_vlan(&mut code);
    addressed_to_us(&mut code, own);
    match filter.envelope {
        Envelope::Ethernet { ethertype } => {
            require(&mut code, LOAD_HALF, 12, ethertype);
            kind_and_channel(&mut code, 14);
        }
        Envelope::Udp { port } => udp(&mut code, port),
    }
    questions(&mut code);
    channel(&mut code, &filter.channels);
    code.push(plain(RETURN, KEEP));
    let end = code.len();
    code.push(plain(RETURN, 0));
    for (i, instruction) in code.iter_mut().enumerate() {
        let distance = u8::try_from(end - i.min(end - 1) - 1).expect("a program below 255");
        for jump in [&mut instruction.jt, &mut instruction.jf] {
            if *jump == DROP {
                *jump = distance;
            }
        }
    }
    code
}

/// Drops frames of a VLAN. Those with a priority tag are kept.
fn no_vlan(code: &mut Vec<sock_filter>) {
    code.push(plain(LOAD_WORD, VLAN_TAG_PRESENT));
    code.push(jump(IF_EQUAL, 0, 2, 0));
    code.push(plain(LOAD_WORD, VLAN_TAG));
    code.push(jump(IF_ANY_BIT, VLAN, DROP, 0));
}

/// Drops frames that are neither to this address nor broadcast, and saves which. The packet's type
/// alone is not enough: a frame to a macvlan is "to us" while it passes the NIC, too.
fn addressed_to_us(code: &mut Vec<sock_filter>, MacAddr([a, b, c, d, e, f]): MacAddr) {
    code.push(plain(LOAD_WORD, PACKET_TYPE));
    code.push(jump(IF_ABOVE, 1, DROP, 0));
    code.push(plain(SAVE, SAVED_TYPE));
    code.push(jump(IF_EQUAL, 1, 4, 0));
    code.push(plain(LOAD_WORD, 0));
    code.push(jump(IF_EQUAL, u32::from_be_bytes([a, b, c, d]), 0, DROP));
    require(code, LOAD_HALF, 4, u16::from_be_bytes([e, f]));
}

/// Saves version and kind, and the channel, of a GigaE header at `start`.
fn kind_and_channel(code: &mut Vec<sock_filter>, start: u32) {
    for (at, saved) in [(KIND, SAVED_KIND), (CHANNEL, SAVED_CHANNEL)] {
        code.push(plain(LOAD_BYTE, start + at));
        code.push(plain(SAVE, saved));
    }
}

/// Keeps the questions among the broadcast frames and drops the rest.
fn questions(code: &mut Vec<sock_filter>) {
    code.push(plain(LOAD_SAVED, SAVED_TYPE));
    code.push(jump(IF_EQUAL, 0, 3, 0));
    code.push(plain(LOAD_SAVED, SAVED_KIND));
    code.push(jump(IF_EQUAL, WHO, 0, DROP));
    code.push(plain(RETURN, KEEP));
}

/// UDP to `port` over IPv4 without options and unfragmented, or over IPv6 without extension
/// headers; saves kind and channel.
fn udp(code: &mut Vec<sock_filter>, port: u16) {
    let mut ipv4 = Vec::new();
    require(&mut ipv4, LOAD_BYTE, 14, 0x45);
    ipv4.push(plain(LOAD_HALF, 20));
    ipv4.push(jump(IF_ANY_BIT, 0x3fff, DROP, 0));
    require(&mut ipv4, LOAD_BYTE, 23, 17);
    require(&mut ipv4, LOAD_HALF, 36, port);
    kind_and_channel(&mut ipv4, 42);

    let mut ipv6 = Vec::new();
    require(&mut ipv6, LOAD_HALF, 12, 0x86dd);
    require(&mut ipv6, LOAD_BYTE, 20, 17);
    require(&mut ipv6, LOAD_HALF, 56, port);
    kind_and_channel(&mut ipv6, 62);
    ipv6.push(plain(GO_TO, ipv4.len() as u32));

    code.push(plain(LOAD_HALF, 12));
    code.push(jump(IF_EQUAL, 0x0800, ipv6.len() as u8, 0));
    code.append(&mut ipv6);
    code.append(&mut ipv4);
}

/// Drops the frame unless the set contains the saved channel: picks one of the set's eight 32-bit
/// words and shifts the channel's bit to its end.
fn channel(code: &mut Vec<sock_filter>, channels: &ChannelSet) {
    code.push(plain(LOAD_SAVED, SAVED_CHANNEL));
    code.push(plain(AND, 31));
    code.push(plain(TO_X, 0));
    code.push(plain(LOAD_SAVED, SAVED_CHANNEL));
    code.push(plain(SHIFT, 5));
    let words: Vec<u32> =
        channels.words().iter().flat_map(|&word| [word as u32, (word >> 32) as u32]).collect();
    let used: Vec<(usize, u32)> =
        words.into_iter().enumerate().filter(|&(_, word)| word != 0).collect();
    for (i, &(number, word)) in used.iter().enumerate() {
        let to_test = 3 * (used.len() - i) - 2;
        let last = i + 1 == used.len();
        code.push(jump(IF_EQUAL, number as u32, 0, if last { DROP } else { 2 }));
        code.push(plain(LOAD_VALUE, word));
        code.push(plain(GO_TO, to_test as u32 - 1));
    }
    if used.is_empty() {
        code.push(plain(LOAD_VALUE, 0));
    }
    code.push(plain(SHIFT_BY_X, 0));
    code.push(jump(IF_ANY_BIT, 1, 0, DROP));
}

/// Drops the frame unless the value at `at` is `value`.
fn require(code: &mut Vec<sock_filter>, load: u16, at: u32, value: u16) {
    code.push(plain(load, at));
    code.push(jump(IF_EQUAL, value.into(), 0, DROP));
}

fn plain(code: u16, k: u32) -> sock_filter {
    jump(code, k, 0, 0)
}

fn jump(code: u16, k: u32, jt: u8, jf: u8) -> sock_filter {
    sock_filter { code, jt, jf, k }
}

#[cfg(test)]
mod tests {
    use super::*;
    use gigae_wire::{NodeAddr, Route};
    use std::os::unix::net::UnixDatagram;

    const US: MacAddr = MacAddr([2, 0, 0, 0, 0, 2]);
    const PEER: MacAddr = MacAddr([2, 0, 0, 0, 0, 1]);

    /// The kernel's own interpreter, without privileges. A filter on a datagram socket sees the
    /// datagram's bytes, and a datagram has packet type "host" and no VLAN tag.
    struct Judge(UnixDatagram, UnixDatagram);

    impl Judge {
        fn new(filter: &Filter) -> Self {
            let (to, from) = UnixDatagram::pair().unwrap();
            from.set_nonblocking(true).unwrap();
            crate::socket::attach(&from, &program(filter, US)).unwrap();
            Self(to, from)
        }

        fn takes(&self, frame: &[u8]) -> bool {
            // A filtered datagram is reported to its sender as EPERM.
            let _ = self.0.send(frame);
            let mut buffer = [0; 256];
            match self.1.recv(&mut buffer) {
                Ok(n) => {
                    assert_eq!(&buffer[..n], frame, "a frame that is taken is taken whole");
                    true
                }
                Err(e) => {
                    assert_eq!(e.kind(), std::io::ErrorKind::WouldBlock);
                    false
                }
            }
        }
    }

    fn filter(envelope: Envelope, channels: &[u8]) -> Filter {
        Filter { envelope, channels: channels.iter().copied().collect() }
    }

    fn framed(route: &Route, channel: u8) -> Vec<u8> {
        let mut frame = vec![0; route.len() + 32];
        frame[route.len() + 5] = channel;
        route.write(&mut frame);
        frame
    }

    fn ethernet(ethertype: u16) -> Route {
        Route::new(Envelope::Ethernet { ethertype }, PEER.into(), US.into()).unwrap()
    }

    fn udp_route(port: u16, from: &str, to: &str) -> Route {
        let node = |ip: &str, next_hop| NodeAddr::Ip { ip: ip.parse().unwrap(), next_hop };
        Route::new(Envelope::Udp { port }, node(from, PEER), node(to, US)).unwrap()
    }

    #[test]
    fn every_channel_of_the_set_is_taken_and_no_other() {
        for set in [&[0][..], &[255], &[0, 31, 32, 63, 64, 127, 128, 255], &[]] {
            let judge = Judge::new(&filter(Envelope::DEFAULT, set));
            for channel in 0..=255 {
                let frame = framed(&ethernet(0x88b5), channel);
                assert_eq!(judge.takes(&frame), set.contains(&channel), "{channel} of {set:?}");
            }
        }
    }

    #[test]
    fn the_set_of_all_channels_fits_a_program() {
        let all: Vec<u8> = (0..=255).collect();
        let judge = Judge::new(&filter(Envelope::Udp { port: 9 }, &all));
        for channel in [0, 77, 255] {
            assert!(judge.takes(&framed(&udp_route(9, "198.18.0.1", "198.18.0.2"), channel)));
        }
    }

    #[test]
    fn another_ethertype_is_not_taken() {
        let judge = Judge::new(&filter(Envelope::DEFAULT, &[1]));
        assert!(judge.takes(&framed(&ethernet(0x88b5), 1)));
        for ethertype in [0x0800, 0x0806, 0x8100, 0x88b6] {
            assert!(!judge.takes(&framed(&ethernet(ethertype), 1)), "{ethertype:04x}");
        }
    }

    #[test]
    fn a_frame_to_another_address_is_not_taken() {
        let judge = Judge::new(&filter(Envelope::DEFAULT, &[1]));
        let ours = framed(&ethernet(0x88b5), 1);
        assert!(judge.takes(&ours));
        for at in 0..6 {
            let mut other = ours.clone();
            other[at] ^= 4;
            assert!(!judge.takes(&other), "byte {at}");
        }
    }

    #[test]
    fn only_whole_datagrams_to_the_port_are_taken_over_both_ips() {
        let judge = Judge::new(&filter(Envelope::Udp { port: 4791 }, &[1]));
        for (from, to) in [("198.18.0.1", "198.18.0.2"), ("fd00::1", "fd00::2")] {
            let ours = framed(&udp_route(4791, from, to), 1);
            assert!(judge.takes(&ours));
            assert!(!judge.takes(&framed(&udp_route(4790, from, to), 1)), "another port");
            assert!(!judge.takes(&framed(&udp_route(4791, from, to), 2)), "another channel");
        }
        let ours = framed(&udp_route(4791, "198.18.0.1", "198.18.0.2"), 1);
        for (at, value) in [(14, 0x46), (20, 0x20), (21, 1), (23, 6)] {
            let mut other = ours.clone();
            other[at] = value;
            assert!(!judge.takes(&other), "byte {at} is {value:#x}");
        }
        let mut tcp = framed(&udp_route(4791, "fd00::1", "fd00::2"), 1);
        tcp[20] = 6;
        assert!(!judge.takes(&tcp));
    }

    #[test]
    fn a_frame_that_ends_before_its_channel_is_not_taken() {
        let eth = (filter(Envelope::DEFAULT, &[0]), framed(&ethernet(0x88b5), 0), 20);
        let v4 = udp_route(9, "198.18.0.1", "198.18.0.2");
        let v4 = (filter(Envelope::Udp { port: 9 }, &[0]), framed(&v4, 0), 48);
        let v6 = udp_route(9, "fd00::1", "fd00::2");
        let v6 = (filter(Envelope::Udp { port: 9 }, &[0]), framed(&v6, 0), 68);
        for (filter, frame, least) in [eth, v4, v6] {
            let judge = Judge::new(&filter);
            for length in 1..=frame.len() {
                assert_eq!(judge.takes(&frame[..length]), length >= least, "{length}");
            }
        }
    }
}
