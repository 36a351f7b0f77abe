//! What can be configured in an endpoint's protocol.

use crate::frame_kind::FrameKind;
use gigae_wire::{HEADER_LEN, Kind, MAX_PATHS, MacAddr, Paths};
use std::net::SocketAddr;
use std::time::Duration;

/// Parameters of a [`crate::Protocol`]. The default suits one Ethernet segment.
#[derive(Clone, Debug)]
pub struct ProtocolConfig {
    /// This endpoint's port id; frames for other ports are discarded.
    pub port: u16,
    /// The addresses of this endpoint's links in order, if it has several (`PROTOCOL.md` §11): at
    /// most [`MAX_PATHS`]. Empty if it has one. Enlarge the windows in proportion: frames of all
    /// links share them. The reorder window must cover the frames that one link delivers before
    /// another delivers the next one in order.
    pub links: Vec<MacAddr>,
    /// This endpoint's UDP socket for bulk data, if it has one. Only for an endpoint with one link.
    pub bulk: Option<BulkConfig>,
    /// Longest message in bytes that can be received.
    pub max_payload: u16,
    /// Longest payload in bytes of a frame with operations that this end can send and receive. Not
    /// less than `max_payload`.
    pub max_operations: u16,
    /// Longest payload in bytes that this end uses without asking whether the network carries it
    /// (`PROTOCOL.md` §12): that of MTU 1500.
    pub sure_payload: u16,
    /// Frames that may be unacknowledged per peer; a power of two up to 32,768. The default covers
    /// the buffer of a small switch port (256 full frames are 387 kB).
    pub send_window: u16,
    /// Most frames for which one peer is given credit at a time.
    pub receive_window: u16,
    /// Frames past a missing one that this end keeps until it arrives: zero (go-back-N, as in GigaE
    /// PM) or a power of two up to 1,024 (selective repeat).
    pub reorder_window: u16,
    /// Frames that the link can receive into. The credit of all peers together is planned to fit.
    pub receive_frames: u32,
    /// Most sessions at a time; a Hello beyond is discarded. Each idle session takes less than a
    /// kilobyte.
    pub max_peers: usize,
    /// Senders that want more credit than they have say so, and while several do, this end divides
    /// among them what its link carries (`PROTOCOL.md` §6). Both ends need it. It begins with a
    /// second peer.
    pub shared_credit: bool,
    /// Whether short messages and acknowledgements go first, before others in switches
    /// (`PROTOCOL.md` §14), and the longest payload in bytes of a frame that can. The caller marks
    /// [these frames](crate::DataFrame::first) so that switches know.
    pub longest_first: Option<u16>,
    /// Whether the checksum of data frames covers their payload, or only the header.
    pub payload_checksum: bool,
    /// The protocol reports a peer as lost that leaves something unanswered for this long.
    pub peer_timeout: Duration,
    /// After this many received frames an acknowledgement goes out at the latest,
    pub ack_every: u16,
    /// or after this time. An acknowledgement usually rides on a message.
    pub ack_delay: Duration,
    /// Bounds of the retransmission timeout. The lower one must exceed the peer's `ack_delay`.
    pub min_rto: Duration,
    /// See `min_rto`.
    pub max_rto: Duration,
}

/// Bytes of payload that both ends' links must take for bulk frames, which may have to go by the
/// link in parts: 64 parts of this length are longer than the longest frame.
pub const LEAST_PART: u16 = 1032;

/// A UDP socket that carries bulk data beside an endpoint's only link (`PROTOCOL.md` §13).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BulkConfig {
    /// Its address.
    pub at: SocketAddr,
    /// Bytes of a frame, header included, that it sends in one datagram.
    pub datagram: u16,
    /// Most datagrams of a frame.
    pub most: u8,
}

impl BulkConfig {
    /// Longest payload in bytes of a frame in `datagrams` datagrams, or in as many as it sends.
    pub fn longest(&self, datagrams: u8) -> u16 {
        let frame = usize::from(self.datagram) * usize::from(datagrams.min(self.most));
        u16::try_from(frame.saturating_sub(HEADER_LEN)).unwrap_or(u16::MAX)
    }

    /// How many datagrams a frame with a payload of `payload` bytes takes.
    fn datagrams(&self, payload: u16) -> u8 {
        let frame = usize::from(payload) + HEADER_LEN;
        u8::try_from(frame.div_ceil(self.datagram.into())).unwrap_or(u8::MAX)
    }

    /// The kind of a frame of operations with a payload of `payload` bytes.
    pub(crate) fn kind(&self, payload: u16) -> FrameKind {
        FrameKind { bulk: self.datagrams(payload), ..FrameKind::by_link(Kind::Op) }
    }
}

impl Default for ProtocolConfig {
    fn default() -> Self {
        Self {
            port: 0,
            links: Vec::new(),
            bulk: None,
            max_payload: 1468,
            max_operations: 1468,
            sure_payload: 1468,
            send_window: 256,
            receive_window: 256,
            reorder_window: 256,
            receive_frames: 4096,
            max_peers: 16_384,
            shared_credit: true,
            longest_first: None,
            payload_checksum: true,
            peer_timeout: Duration::from_secs(10),
            ack_every: 16,
            ack_delay: Duration::from_micros(50),
            min_rto: Duration::from_micros(200),
            max_rto: Duration::from_millis(200),
        }
    }
}

impl ProtocolConfig {
    /// Turns selective repeat off: everything after a missing frame is sent again, as in the
    /// papers.
    #[must_use]
    pub fn go_back_n(mut self) -> Self {
        self.reorder_window = 0;
        self
    }

    /// What this end has beside its first link.
    pub(crate) fn paths(&self) -> Paths {
        self.bulk.map_or_else(|| Paths::links(&self.links), |bulk| Paths::Bulk(bulk.at))
    }

    /// Paths that this end can have.
    pub(crate) fn own_paths(&self) -> usize {
        if self.bulk.is_some() { 2 } else { self.links.len().max(1) }
    }

    /// Checks the stated ranges.
    ///
    /// # Panics
    /// If a window is outside them: that is a mistake in the program and not in its input.
    pub(crate) fn check(&self) {
        let power = |n: u16, most: u16| n.is_power_of_two() && n <= most;
        assert!(self.links.len() <= MAX_PATHS, "at most {MAX_PATHS} links");
        assert!(self.bulk.is_none() || self.links.len() < 2, "a socket only beside one link");
        assert!(power(self.send_window, 32_768), "send_window must be a power of two up to 32,768");
        assert!(
            self.reorder_window == 0 || power(self.reorder_window, 1024),
            "reorder_window must be zero or a power of two up to 1,024"
        );
        assert!(self.max_operations >= self.max_payload);
        assert!(self.receive_window > 0 && self.ack_every > 0 && self.receive_frames > 0);
        assert!(self.min_rto > self.ack_delay && self.max_rto >= self.min_rto);
    }
}
