extern crate std;
use super::*;
use proptest::prelude::*;
use std::vec;
use std::vec::Vec;

const A: MacAddr = MacAddr([2, 0, 0, 0, 0, 1]);
const B: MacAddr = MacAddr([2, 0, 0, 0, 0, 2]);

fn ip(text: &str, next_hop: MacAddr) -> NodeAddr {
    NodeAddr::Ip { ip: text.parse().unwrap(), next_hop }
}

fn wrapped(envelope: Envelope, from: NodeAddr, to: NodeAddr, inner: &[u8]) -> Vec<u8> {
    let route = Route::new(envelope, from, to).unwrap();
    let mut frame = vec![0; route.len() + inner.len()];
    frame[route.len()..].copy_from_slice(inner);
    route.write(&mut frame);
    frame
}

#[test]
fn an_ethernet_envelope_is_fourteen_bytes_and_names_its_sender() {
    let frame = wrapped(Envelope::DEFAULT, A.into(), B.into(), b"gigae");
    assert_eq!(frame, [&B.0[..], &A.0, &[0x88, 0xb5], b"gigae"].concat());
    assert_eq!(Envelope::DEFAULT.open(&frame), Ok((A.into(), &b"gigae"[..])));
    assert_eq!(Envelope::DEFAULT.destination(&frame), None);
}

#[test]
fn the_checksum_of_the_example_in_rfc_1071_is_right() {
    assert_eq!(fold(words(&[0x00, 0x01, 0xf2, 0x03, 0xf4, 0xf5, 0xf6, 0xf7])), !0xddf2);
}

#[test]
fn a_udp_envelope_over_ipv4_has_a_right_header_checksum() {
    let udp = Envelope::Udp { port: 4791 };
    let frame = wrapped(udp, ip("198.18.0.1", A), ip("198.18.0.2", B), b"gigae");
    assert_eq!(fold(words(&frame[14..34])), 0, "RFC 1071: the sum over a valid header is zero");
    assert_eq!(frame.len(), 14 + 20 + 8 + 5);
    assert_eq!(udp.open(&frame), Ok((ip("198.18.0.1", A), &b"gigae"[..])));
    assert_eq!(udp.destination(&frame), Some("198.18.0.2".parse().unwrap()));
}

#[test]
fn headers_for_a_socket_have_lengths_and_addresses_and_no_checksum() {
    let udp = Envelope::Udp { port: 4791 };
    let none = MacAddr::default();
    for (from, to) in [("198.18.0.1", "198.18.0.2"), ("fd00::1", "fd00::2")] {
        let (from, to) = (ip(from, none), ip(to, none));
        let NodeAddr::Ip { ip: own, .. } = to else { unreachable!() };
        let route = Route::new(udp, from, to).unwrap();
        let mut frame = vec![0; route.len() + 5];
        frame[route.len()..].copy_from_slice(b"gigae");
        route.write(&mut frame);
        assert_eq!(udp.open(&frame), Ok((from, &b"gigae"[..])));
        assert_eq!(udp.destination(&frame), Some(own));
        assert_eq!(frame[route.len() - 2..route.len()], [0; 2], "the UDP checksum");
    }
}

#[test]
fn a_udp_envelope_over_ipv6_has_a_right_udp_checksum() {
    let udp = Envelope::Udp { port: 4791 };
    let frame = wrapped(udp, ip("fd00::1", A), ip("fd00::2", B), b"gigae");
    let length = u32::from(u16::from_be_bytes([frame[18], frame[19]]));
    assert_eq!(fold(words(&frame[22..]) + length + 17), 0, "pseudo header and datagram");
    assert_eq!(udp.open(&frame), Ok((ip("fd00::1", A), &b"gigae"[..])));
    assert_eq!(udp.destination(&frame), Some("fd00::2".parse().unwrap()));
}

/// A way in each envelope and family.
fn ways() -> [(Envelope, NodeAddr, NodeAddr); 3] {
    let udp = Envelope::Udp { port: 4791 };
    [
        (Envelope::DEFAULT, A.into(), B.into()),
        (udp, ip("198.18.0.1", A), ip("198.18.0.2", B)),
        (udp, ip("fd00::1", A), ip("fd00::2", B)),
    ]
}

/// The same frame without a tag, and with one that gives it priority 5.
fn both((envelope, from, to): (Envelope, NodeAddr, NodeAddr)) -> [Vec<u8>; 2] {
    let plain = Route::new(envelope, from, to).unwrap();
    [plain.clone(), plain.tagged(5)].map(|route| {
        let inner = [7; 40];
        let mut frame = vec![0; route.len() + inner.len()];
        frame[route.len()..].copy_from_slice(&inner);
        route.write(&mut frame);
        frame
    })
}

#[test]
fn a_priority_tag_is_four_bytes_behind_the_addresses_and_changes_nothing_else() {
    for way in ways() {
        let [plain, tagged] = both(way);
        let mut expected = plain.clone();
        expected.splice(12..12, [0x81, 0x00, 0xa0, 0x00]);
        assert_eq!(tagged, expected, "{way:?}");
    }
}

#[test]
fn a_frame_with_a_priority_tag_is_opened_like_one_without() {
    for way in ways() {
        let (envelope, ..) = way;
        let [plain, tagged] = both(way);
        assert_eq!(envelope.open(&tagged), envelope.open(&plain));
        assert_eq!(envelope.destination(&tagged), envelope.destination(&plain));
        let (_, place) = envelope.locate(&tagged[..80.min(tagged.len())], tagged.len()).unwrap();
        assert_eq!(tagged[place], [7; 40]);
        for len in 0..tagged.len() {
            let short = envelope.open(&tagged[..len]);
            let is_header_whole = way.0 == Envelope::DEFAULT && len >= 18;
            assert_eq!(short.is_ok(), is_header_whole, "{len} bytes of {way:?}");
        }
    }
}

#[test]
fn a_tag_of_a_vlan_and_a_second_tag_are_not_ours() {
    for way in ways() {
        let (envelope, ..) = way;
        let [_, tagged] = both(way);
        for vlan in [1, 5, 0x100, 0xfff_u16] {
            let mut of_vlan = tagged.clone();
            of_vlan[14..16].copy_from_slice(&(0xa000 | vlan).to_be_bytes());
            assert_eq!(envelope.open(&of_vlan), Err(Discard::NotOurs), "VLAN {vlan}");
        }
        let mut of_a_provider = tagged.clone();
        of_a_provider[12..14].copy_from_slice(&[0x88, 0xa8]);
        assert_eq!(envelope.open(&of_a_provider), Err(Discard::NotOurs));
        let mut twice = tagged.clone();
        twice.splice(12..12, [0x81, 0x00, 0xa0, 0x00]);
        assert_eq!(envelope.open(&twice), Err(Discard::NotOurs));
    }
}

#[test]
fn jumbo_frames_are_as_long_as_their_headers_say() {
    let udp = Envelope::Udp { port: 4791 };
    for (from, to) in [("198.18.0.1", "198.18.0.2"), ("fd00::1", "fd00::2")] {
        let totals = [4096, 9000, 65_535];
        for total in totals.into_iter().take(if cfg!(miri) { 1 } else { totals.len() }) {
            let route = Route::new(udp, ip(from, A), ip(to, B)).unwrap();
            let mut inner: Vec<u8> =
                (0..total + ETHERNET_LEN - route.len()).map(|i| (i / 7) as u8).collect();
            inner[8..12].fill(0); // Both port ids.
            let frame = wrapped(udp, ip(from, A), ip(to, B), &inner);
            let (node, opened) = udp.open(&frame).unwrap();
            assert!(node == ip(from, A) && opened == inner, "{total} bytes from {from}");
            for cut in [route.len(), route.len() + 1, 2000, 4095] {
                let mut first = frame[..cut].to_vec();
                first[..route.len()].fill(0);
                let behind = [&frame[cut..cut + 7], &frame[cut + 7..]];
                route.write_segments(&mut first, Pieces::new(&[], &behind));
                assert!(first == frame[..cut], "{total} bytes from {from}, cut at {cut}");
                let (node, place) = udp.locate(&first, frame.len()).unwrap();
                assert!(node == ip(from, A) && frame[place] == inner);
                assert!(udp.locate(&first, frame.len() - 1).is_err());
            }
            // What follows is padding.
            let padded = [&frame[..], &[0xff; 20]].concat();
            assert!(udp.open(&padded).unwrap().1 == inner);
            assert!(udp.open(&frame[..frame.len() - 1]).is_err());
            if frame[12..14] == [0x08, 0x00] {
                assert_eq!(fold(words(&frame[14..34])), 0, "the IPv4 header's checksum");
            } else {
                let length = u32::from(u16::from_be_bytes([frame[18], frame[19]]));
                assert_eq!(fold(words(&frame[22..]) + length + 17), 0, "the UDP checksum");
            }
        }
    }
}

#[test]
fn udp_ports_follow_from_port_ids() {
    assert_eq!([0, 7, 32_767, 32_768, 32_769, u16::MAX].map(beyond), [0, 0, 0, 0, 1, 32_767]);
    assert_eq!([1, 32_767, 32_768].map(port_id_beyond), [Some(32_769), Some(u16::MAX), None]);
    for (from, to) in [("198.18.0.1", "198.18.0.2"), ("fd00::1", "fd00::2")] {
        for (own, ids, port) in [
            (4791, (0, 0), 4791),
            (4793, (32_770, 7), 4791),
            (4791, (2, 32_777), 4800),
            (1, (32_770, 32_769), 0),
        ] {
            let udp = Envelope::Udp { port: own };
            let mut inner = [0xa5; 40];
            let ids = u32::from(ids.0 as u16) << 16 | ids.1 as u32;
            inner[8..12].copy_from_slice(&ids.to_be_bytes());
            let frame = wrapped(udp, ip(from, A), ip(to, B), &inner);
            let datagram = Datagram::within(&frame).unwrap();
            assert_eq!(datagram.to, (to.parse::<IpAddr>().unwrap(), port).into());
            if datagram.to.is_ipv6() {
                assert_eq!(fold(words(&frame[22..]) + 48 + 17), 0, "the UDP checksum");
            }
            let peer = Envelope::Udp { port };
            assert_eq!(peer.open(&frame), Ok((ip(from, A), &inner[..])));
            assert_eq!(frame[datagram.payload.start - 8..][..2], own.to_be_bytes());
        }
    }
}

#[test]
fn frames_of_others_are_not_ours() {
    let ours = wrapped(Envelope::DEFAULT, A.into(), B.into(), b"gigae");
    assert_eq!(Envelope::Ethernet { ethertype: 0x88b6 }.open(&ours), Err(Discard::NotOurs));
    assert_eq!(Envelope::Udp { port: 1 }.open(&ours), Err(Discard::NotOurs));
    let udp = wrapped(Envelope::Udp { port: 7 }, ip("198.18.0.1", A), ip("198.18.0.2", B), b"x");
    assert_eq!(Envelope::Udp { port: 8 }.open(&udp), Err(Discard::NotOurs));
    assert_eq!(Envelope::DEFAULT.open(&udp), Err(Discard::NotOurs));
}

#[test]
fn a_fragment_is_not_ours() {
    let envelope = Envelope::Udp { port: 7 };
    let mut frame = wrapped(envelope, ip("198.18.0.1", A), ip("198.18.0.2", B), b"x");
    frame[14 + 6] |= 0x20;
    assert_eq!(envelope.open(&frame), Err(Discard::NotOurs));
}

#[test]
fn there_is_no_route_between_families() {
    let udp = Envelope::Udp { port: 7 };
    assert!(Route::new(udp, ip("198.18.0.1", A), ip("fd00::2", B)).is_none());
    assert!(Route::new(udp, A.into(), B.into()).is_none());
    assert!(Route::new(Envelope::DEFAULT, ip("fd00::1", A), ip("fd00::2", B)).is_none());
}

proptest! {
    #[test]
    fn arbitrary_bytes_never_panic(bytes in prop::collection::vec(any::<u8>(), 0..120), kind in 0usize..3, port: u16) {
        let mut bytes = bytes;
        if bytes.len() > 14 {
            bytes[12..14].copy_from_slice(&[[0x88, 0xb5], [8, 0], [0x86, 0xdd]][kind]);
        }
        let _ = Envelope::DEFAULT.open(&bytes);
        let _ = Envelope::Udp { port }.open(&bytes);
    }

    #[test]
    fn every_truncation_of_a_udp_frame_is_refused(cut in 1usize..60) {
        let udp = Envelope::Udp { port: 9 };
        for to in [("198.18.0.1", "198.18.0.2"), ("fd00::1", "fd00::2")] {
            let frame = wrapped(udp, ip(to.0, A), ip(to.1, B), &[7; 32]);
            prop_assert!(udp.open(&frame[..frame.len() - cut.min(frame.len())]).is_err());
        }
    }
}

#[test]
fn only_a_datagram_to_ones_own_address_stays_within_the_node() {
    let udp = Envelope::Udp { port: 4791 };
    for [one, other] in [["198.18.0.1", "198.18.0.2"], ["fd00::1", "fd00::2"]] {
        let to = |to| wrapped(udp, ip(one, A), ip(to, A), &[0, 0, 0, 0, 0, 0, 0, 0, 0, 2, 0x80, 3]);
        assert_eq!(port_within_node(&to(one)), Some(4794));
        assert_eq!(port_within_node(&to(other)), None);
        assert_eq!(port_within_node(&to(one)[..30]), None, "cut off");
        let route =
            |to| Route::new(udp, ip(one, A), ip(to, A)).unwrap().port_within_node(2, 32_771);
        assert_eq!([one, other].map(route), [Some(4794), None]);
    }
    let route = Route::new(Envelope::DEFAULT, A.into(), A.into()).unwrap();
    assert_eq!(route.port_within_node(0, 0), None);
    assert_eq!(port_within_node(&wrapped(Envelope::DEFAULT, A.into(), A.into(), &[0; 60])), None);
}
