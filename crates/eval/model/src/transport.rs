//! The transports: what each can do, as data. How each sends and receives is a file in the crate
//! `gigae-eval-measure`.

use crate::experiment::{Experiment, Pattern};
use crate::wait::Wait;
use gigae_wire::HEADER_LEN;

/// Largest message in bytes; larger ones say nothing new about a network.
pub const LARGEST_MESSAGE: usize = 4 << 20;

/// Socket buffers of transports without a setting of their own: the papers' 128 KB.
pub const SOCKET_BUFFER: usize = 128 << 10;

/// The reference for all comparisons: fair on a shaped link, where the default may be BBR with
/// pacing.
pub const CONGESTION_CONTROL: &str = "cubic";

/// IPv4 and TCP headers and the timestamp option that Linux sends by default (RFC 7323).
const TCP_HEADERS: usize = 20 + 20 + 12;

/// IPv4 header (without options) and UDP or ICMP header.
const DATAGRAM_HEADERS: usize = 20 + 8;

/// What precedes each part of a message that is longer than a datagram: numbers of message and
/// part.
pub const PART_HEADER: usize = 8;

/// Largest datagram over IPv4 (RFC 768, RFC 791); beyond one frame it travels in fragments.
pub const LARGEST_DATAGRAM: usize = 65_535 - DATAGRAM_HEADERS;

/// What a transport is and can do.
#[derive(Debug)]
pub struct TransportSpec {
    /// Its name in plans and results.
    pub name: &'static str,
    /// Its name as it begins a sentence or is within one.
    pub title: &'static str,
    /// What it is, in a few words for people.
    pub about: &'static str,
    /// Whether every message arrives, in order.
    pub reliable: bool,
    /// Whether the receiver gets the messages that were sent, and not a mere stream of bytes.
    pub boundaries: bool,
    /// What messages can do on it.
    patterns: &'static [Pattern],
    /// Whether one end receives from many senders. If not, each sender needs its own end.
    pub receives_from_all: bool,
    /// How it can wait.
    pub waits: &'static [Wait],
    /// Whether it uses all links between the ends as one, or only the first.
    pub uses_all_links: bool,
    /// Bytes of its headers in a frame, those of Ethernet left out.
    headers: usize,
    /// The same in a frame of a message that is longer than a frame.
    part_headers: usize,
    /// Largest message in bytes; absent: what fits into a frame.
    largest: Option<usize>,
}

impl TransportSpec {
    /// Whether this can be measured with it.
    pub fn offers(&self, experiment: Experiment) -> bool {
        self.patterns.contains(&experiment.form().pattern)
    }

    /// Largest payload in one frame on a link of this MTU, in bytes.
    pub fn frame_payload(&self, mtu: usize) -> usize {
        mtu.saturating_sub(self.headers)
    }

    /// Largest message that it carries on a link of this MTU, in bytes.
    pub fn largest(&self, mtu: usize) -> usize {
        self.largest.unwrap_or_else(|| self.frame_payload(mtu))
    }

    /// Payload in a full frame of a message longer than a frame, in bytes.
    pub fn part_payload(&self, mtu: usize) -> usize {
        mtu.saturating_sub(self.part_headers)
    }
}

/// What transports with a peer each can do.
const PAIRS: &[Pattern] = &[Pattern::Echo, Pattern::OneWay, Pattern::Silence];

/// What transports can do to which many can send.
const EVERYTHING: &[Pattern] =
    &[Pattern::Echo, Pattern::OneWay, Pattern::Silence, Pattern::ManyToOne, Pattern::Parallel];

/// All transports, in the order in which they are listed.
pub const TRANSPORTS: &[TransportSpec] = &[
    TransportSpec {
        name: "gigae",
        title: "gigae",
        about: "GigaE messages: reliable, in order, on the best link there is",
        reliable: true,
        boundaries: true,
        patterns: EVERYTHING,
        receives_from_all: true,
        waits: &[Wait::Spin, Wait::Sleep, Wait::Adaptive],
        uses_all_links: true,
        headers: HEADER_LEN,
        // By the socket for bulk data, where a frame of 44 datagrams has one header of ours.
        part_headers: DATAGRAM_HEADERS,
        largest: Some(LARGEST_MESSAGE),
    },
    TransportSpec {
        name: "gigae-write",
        title: "gigae-write",
        about: "GigaE remote memory: writes into the peer's registered memory, each with a notice",
        reliable: true,
        boundaries: true,
        patterns: &[Pattern::OneWay],
        receives_from_all: false,
        waits: &[Wait::Spin, Wait::Sleep, Wait::Adaptive],
        uses_all_links: true,
        headers: HEADER_LEN,
        part_headers: DATAGRAM_HEADERS,
        largest: Some(LARGEST_MESSAGE),
    },
    TransportSpec {
        name: "xdp",
        title: "raw AF_XDP",
        about: "raw frames by AF_XDP, in the best mode that the driver has",
        ..RAW
    },
    TransportSpec {
        name: "packet",
        title: "raw AF_PACKET",
        about: "raw frames by AF_PACKET",
        ..RAW
    },
    TransportSpec {
        name: "udp",
        title: "UDP",
        about: "UDP sockets",
        reliable: false,
        boundaries: true,
        patterns: EVERYTHING,
        receives_from_all: false,
        waits: &[Wait::Spin, Wait::Sleep],
        uses_all_links: false,
        headers: DATAGRAM_HEADERS,
        part_headers: DATAGRAM_HEADERS,
        largest: Some(LARGEST_DATAGRAM),
    },
    TransportSpec {
        name: "udp-gso",
        title: "UDP with GSO",
        about: "UDP sockets that send and receive several datagrams at a time (GSO, GRO); longer messages in parts",
        reliable: false,
        boundaries: true,
        patterns: EVERYTHING,
        receives_from_all: false,
        waits: &[Wait::Spin, Wait::Sleep],
        uses_all_links: false,
        headers: DATAGRAM_HEADERS,
        part_headers: DATAGRAM_HEADERS + PART_HEADER,
        largest: Some(LARGEST_MESSAGE),
    },
    TransportSpec {
        name: "tcp",
        title: "TCP",
        about: "TCP sockets",
        reliable: true,
        boundaries: false,
        patterns: EVERYTHING,
        receives_from_all: false,
        waits: &[Wait::Spin, Wait::Sleep],
        uses_all_links: false,
        headers: TCP_HEADERS,
        part_headers: TCP_HEADERS,
        largest: Some(LARGEST_MESSAGE),
    },
    TransportSpec {
        name: "icmp",
        title: "ICMP ECHO",
        about: "ICMP ECHO, answered by the remote kernel",
        reliable: false,
        boundaries: true,
        patterns: &[Pattern::Echo],
        receives_from_all: false,
        waits: &[Wait::Spin, Wait::Sleep],
        uses_all_links: false,
        headers: DATAGRAM_HEADERS,
        part_headers: DATAGRAM_HEADERS,
        largest: None,
    },
];

/// What raw frames have in common.
const RAW: TransportSpec = TransportSpec {
    name: "",
    title: "",
    about: "",
    reliable: false,
    boundaries: true,
    patterns: PAIRS,
    receives_from_all: false,
    waits: &[Wait::Spin, Wait::Sleep],
    uses_all_links: false,
    headers: HEADER_LEN,
    part_headers: HEADER_LEN,
    largest: None,
};

/// Finds a transport.
pub fn by_name(name: &str) -> Option<&'static TransportSpec> {
    TRANSPORTS.iter().find(|transport| transport.name == name)
}

/// All names, for messages to people.
pub fn names() -> String {
    TRANSPORTS.iter().map(|transport| transport.name).collect::<Vec<_>>().join(", ")
}
