//! The [`Link`] trait and the plain data that goes with it.

use crate::{Arena, LinkError, Posted, RxFrame, TxFrame};
use gigae_wire::{AckReport, Envelope, HEADER_LEN, MacAddr};
use std::fmt;
use std::ops::Range;
use std::os::fd::BorrowedFd;
use std::sync::Arc;
use std::time::Duration;

/// Carries whole Ethernet frames, unreliably, to and from one interface.
///
/// A link is used by one thread at a time and may be moved between threads.
pub trait Link: Send {
    /// What this link is; constant over its life.
    fn info(&self) -> &Info;

    /// The memory in which all its frames lie.
    fn arena(&self) -> &Arc<Arena>;

    /// Memory beside the [`arena`](Self::arena) in which received frames may lie, too, as many as
    /// [`Info::rx_frames`], numbered behind all of the arena's. Most links have none.
    fn beside(&self) -> Option<&Arc<Arena>> {
        None
    }

    /// The bytes of a received frame, wherever it lies.
    ///
    /// # Panics
    /// If the frame is another link's.
    fn received<'a>(&'a self, frame: &'a RxFrame) -> &'a [u8] {
        match self.beside() {
            Some(beside) if beside.has(frame) => beside.bytes(frame),
            _ => self.arena().bytes(frame),
        }
    }

    /// A free transmit frame, or `None` while all are in use. Collects completions when its own
    /// list of free frames is empty. No system call.
    fn take(&mut self) -> Option<TxFrame>;

    /// Returns a frame that was taken and not posted.
    fn give_back(&mut self, frame: TxFrame);

    /// Hands `bytes` of the frame (from the Ethernet header on) to the NIC. Never fails: there is
    /// room for every frame of the link. Nothing moves before [`flush`](Self::flush).
    ///
    /// # Panics
    /// If `bytes` is not within the frame, longer than [`Info::max_frame`] or shorter than an
    /// Ethernet header; with segments in front of it, if all together are longer or more than the
    /// link takes.
    fn post(&mut self, frame: TxFrame, bytes: Range<usize>) -> Posted;

    /// Like [`post`](Self::post) for all segments but the last of a frame that is too long for one
    /// transmit frame's memory: what is posted next goes on with the same frame on the wire. Each
    /// segment is reclaimed or released by itself.
    ///
    /// # Panics
    /// If `bytes` is empty or not within the frame, or if the frame gets longer than
    /// [`Info::max_frame`] or has [`Info::max_segments`] without its last one.
    fn post_segment(&mut self, frame: TxFrame, bytes: Range<usize>) -> Posted;

    /// Takes a posted frame back in order to change and send it again; refused, with the token
    /// returned, while the NIC still holds it (it need not be sent again then: it is still queued, and
    /// a driver that may have overlooked it is told again).
    fn reclaim(&mut self, frame: Posted) -> Result<TxFrame, Posted>;

    /// Gives up a posted frame. It becomes free as soon as the NIC is done with it.
    fn release(&mut self, frame: Posted);

    /// Rings the doorbell for all that was posted: one system call per batch, none where the
    /// driver needs no wake-up. A NIC that is momentarily full is no error: the frames stay
    /// posted and the next flush goes on with them. Returns whether it took everything; if not,
    /// flush again soon, for nothing else will.
    ///
    /// # Panics
    /// If the last segment of a frame was not posted yet.
    fn flush(&mut self) -> Result<bool, LinkError>;

    /// Appends up to `max` tokens of received frames to `batch` and returns how many. Never blocks.
    ///
    /// A frame longer than [`Info::segment_size`] is several tokens in a row, of which all but the
    /// last say [`RxFrame::continues`]. It is always handed over whole, so with such a frame at the
    /// end there may be up to [`Info::max_segments`] - 1 tokens more. One of which a segment is
    /// missing is dropped and counted ([`Counters::rx_dropped`]).
    ///
    /// With busy polling on (an option of the backend), an empty ring makes the link drive the
    /// driver from the caller's own context and look again, as in GigaE PM II §4.4; that is the only
    /// case with a system call.
    fn poll(&mut self, batch: &mut Vec<RxFrame>, max: usize) -> Result<usize, LinkError>;

    /// Whether [`poll`](Self::poll) may find something or has something to do: the shortest look that
    /// there is, for callers that spin. They must poll now and then all the same.
    fn has_arrived(&mut self) -> bool {
        true
    }

    /// Returns a received frame so that the NIC can fill it anew: at once if it has few, else after
    /// some more or with the next vain [`poll`](Self::poll) or [`wait`](Self::wait).
    fn recycle(&mut self, frame: RxFrame);

    /// Has so many frames (segments counted as frames) ready for the NIC to fill at any time, if there
    /// are as many ([`Info::rx_frames`]) and the caller does not hold them. The fewer, the less memory the
    /// received frames wander through; but what comes between two polls must find room. Links whose
    /// kernel interface has a fixed ring ignore it.
    fn provide(&mut self, _frames: usize) {}

    /// Sleeps until a frame may have arrived, or `timeout` has passed (`None`: for ever), or a
    /// signal came. Returns whether there is something to poll.
    fn wait(&mut self, timeout: Option<Duration>) -> Result<bool, LinkError>;

    /// The caller is about to sleep on [`fd`](Self::fd) by itself. Returns whether there is something to
    /// poll already. No system call.
    fn prepare_to_wait(&mut self) -> bool {
        false
    }

    /// A descriptor that polls readable when a frame may have arrived; `None` for a simulated link. Before
    /// sleeping on it, call [`prepare_to_wait`](Self::prepare_to_wait).
    fn fd(&self) -> Option<BorrowedFd<'_>>;

    /// What the link has counted so far. No system call beyond what the kernel's own counters need.
    fn counters(&self) -> Counters;
}

/// What a link is and how it reaches the wire.
#[derive(Clone, Debug)]
pub struct Info {
    /// Interface name, for messages to people.
    pub interface: String,
    /// The interface's own address, source of every frame.
    pub mac: MacAddr,
    /// How frames reach the wire.
    pub mode: Mode,
    /// Longest frame that can be posted and received, in bytes: Ethernet header and payload,
    /// without FCS.
    pub max_frame: usize,
    /// Longest frame in bytes that is received in one token; a longer one has segments of this size,
    /// or of less where the driver says so. At least as much fits a transmit frame's memory.
    pub segment_size: usize,
    /// Most segments that a frame may be posted in, and most that it is received in. 1: every frame
    /// is one token.
    pub max_segments: usize,
    /// Bytes in a transmit frame's memory.
    pub frame_size: usize,
    /// Transmit frames in all; a frame in segments takes as many as it has segments.
    pub tx_frames: usize,
    /// Frames that can be received before one must be recycled, segments counted as frames.
    pub rx_frames: usize,
    /// Why this mode, in one line: which better ones were tried and what refused them.
    pub reason: String,
}

/// How frames pass between the link and the driver, best first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Mode {
    /// AF_XDP, the NIC reads and writes the arena itself.
    XdpZeroCopy,
    /// AF_XDP with a program in the driver; the kernel copies each frame once.
    XdpNative,
    /// AF_XDP with a program above the driver (SKB mode); the kernel copies each frame once.
    XdpGeneric,
    /// AF_PACKET with memory-mapped rings.
    Packet,
    /// No kernel: a simulated wire in virtual time.
    Simulated,
}

impl fmt::Display for Mode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::XdpZeroCopy => "xdp zero-copy",
            Self::XdpNative => "xdp native",
            Self::XdpGeneric => "xdp generic",
            Self::Packet => "packet",
            Self::Simulated => "simulated",
        })
    }
}

/// Which frames a link takes; all others go on to the kernel's own network stack.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Filter {
    /// EtherType or UDP port.
    pub envelope: Envelope,
    /// The channels taken.
    pub channels: ChannelSet,
}

impl Filter {
    /// Least MTU in bytes with which an interface is of use: room for the headers and the longest
    /// report that a receiver sends.
    pub const fn least_mtu(&self) -> usize {
        const ETHERNET: usize = 14;
        const REPORT: usize = 4 + AckReport::MAX_BITMAP;
        self.envelope.max_len() - ETHERNET + HEADER_LEN + REPORT
    }
}

/// A set of the 256 channels.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ChannelSet([u64; 4]);

impl ChannelSet {
    /// The empty set.
    pub const EMPTY: Self = Self([0; 4]);

    /// Adds a channel.
    #[must_use]
    pub const fn with(mut self, channel: u8) -> Self {
        self.0[channel as usize / 64] |= 1 << (channel % 64);
        self
    }

    /// Whether the channel is in the set.
    #[inline]
    pub const fn contains(&self, channel: u8) -> bool {
        self.0[channel as usize / 64] >> (channel % 64) & 1 == 1
    }

    /// Whether no channel is in the set.
    pub fn is_empty(&self) -> bool {
        self.0 == [0; 4]
    }

    /// The set as four words, channel 0 in bit 0 of the first: the form that the XDP program reads.
    pub const fn words(&self) -> [u64; 4] {
        self.0
    }

    /// The channels in ascending order.
    pub fn iter(&self) -> impl Iterator<Item = u8> + '_ {
        (0..=u8::MAX).filter(|&c| self.contains(c))
    }
}

impl FromIterator<u8> for ChannelSet {
    fn from_iter<I: IntoIterator<Item = u8>>(channels: I) -> Self {
        channels.into_iter().fold(Self::EMPTY, Self::with)
    }
}

/// What a link counts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Frames posted, each counted once, however many segments it has.
    pub tx_frames: u64,
    /// Frames polled, counted likewise.
    pub rx_frames: u64,
    /// System calls made in order to transmit (`sendto`).
    pub doorbells: u64,
    /// System calls made in order to drive the driver from the caller's context.
    pub drives: u64,
    /// Sleeps in [`Link::wait`].
    pub waits: u64,
    /// Sleeps that ended because of a frame.
    pub wakeups: u64,
    /// Frames for us that the kernel had no room for (statistics of the socket), or of which a
    /// segment was missing. Those that a card in zero-copy mode has no room for, it counts itself
    /// (`ethtool -S`).
    pub rx_dropped: u64,
    /// Transmit descriptors that the kernel refused as invalid. Always zero unless there is a bug.
    pub tx_invalid: u64,
    /// Of the frames posted and polled, those that went through memory to and from endpoints of this node.
    pub memory_tx_frames: u64,
    /// See [`memory_tx_frames`](Self::memory_tx_frames).
    pub memory_rx_frames: u64,
    /// Frames to an endpoint of this node that were lost because it had not read those before.
    pub memory_full: u64,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_channel_set_holds_what_was_put_in_and_nothing_else() {
        let set: ChannelSet = [0, 63, 64, 255].into_iter().collect();
        assert_eq!(set.iter().collect::<Vec<_>>(), [0, 63, 64, 255]);
        assert_eq!(set.words(), [1 | 1 << 63, 1, 0, 1 << 63]);
        assert!(!set.contains(1) && !ChannelSet::EMPTY.contains(0));
    }
}
