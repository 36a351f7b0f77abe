//! The [`Link`] trait and the plain data that goes with it.

use crate::wait::sleep_on;
use crate::{FrameMemory, Held, LinkError, Posted, RxFrame, TxFrame};
use gigae_wire::{AckReport, Envelope, HEADER_LEN, MacAddr, is_who};
use std::fmt;
use std::ops::Range;
use std::os::fd::BorrowedFd;
use std::time::Duration;

/// Carries whole Ethernet frames, unreliably, to and from one interface.
///
/// A backend must have nine methods. They describe the link ([`info`](Self::info),
/// [`memory`](Self::memory)), transmit ([`take`](Self::take), [`post`](Self::post),
/// [`flush`](Self::flush), [`reclaim`](Self::reclaim), [`release`](Self::release)) and receive
/// ([`poll`](Self::poll), [`recycle`](Self::recycle)). The others have defaults. A link with a
/// descriptor should return it from [`fd`](Self::fd), so that callers can sleep.
///
/// One thread at a time uses a link. It may move between threads.
pub trait Link: Send {
    /// What this link is. It never changes.
    fn info(&self) -> &Info;

    /// The memory in which all its frames lie. It never changes.
    fn memory(&self) -> FrameMemory<'_>;

    /// A free transmit frame, or `None` while all are in use. Collects completions when its own
    /// list of free frames is empty. No system call.
    fn take(&mut self) -> Option<TxFrame>;

    /// Hands `bytes` of the frame (from the Ethernet header on) to the NIC. Never fails: there is
    /// room for every frame of the link. Nothing moves before [`flush`](Self::flush).
    ///
    /// A frame on the wire that is too long for one transmit frame is posted in segments: all but
    /// the last as [`Segment::More`]. Each is reclaimed or released by itself.
    ///
    /// # Panics
    /// If the frame is another link's. If `bytes` is empty or not within the frame. If the frame on
    /// the wire is shorter than an Ethernet header, longer than [`Info::max_frame`] or has more
    /// than [`Info::max_segments`].
    fn post(&mut self, frame: TxFrame, bytes: Range<usize>, segment: Segment) -> Posted;

    /// Rings the doorbell for all that was posted: one system call per batch, none where the driver
    /// needs no wake-up. A NIC that is momentarily full is not an error: the frames stay posted and
    /// the next flush goes on with them. Returns whether the NIC took everything. If not, call this
    /// again soon: nothing else rings for the rest. It does not wait for a receiver. Frames that
    /// the receiver does not read are lost.
    ///
    /// # Panics
    /// If the last segment of a frame was not posted yet.
    fn flush(&mut self) -> Result<bool, LinkError>;

    /// Takes a posted frame back in order to change and send it again. Returns the token as an
    /// error while the NIC still holds the frame. Such a frame is still queued, so the caller need
    /// not repeat it; the link wakes a driver that may have overlooked it.
    ///
    /// # Panics
    /// If the frame is another link's.
    fn reclaim(&mut self, frame: Posted) -> Result<TxFrame, Posted>;

    /// Gives up a transmit frame, taken or posted. It becomes free as soon as the NIC is done with
    /// it.
    ///
    /// # Panics
    /// If the frame is another link's.
    fn release(&mut self, frame: Held);

    /// Appends up to `max` tokens of received frames to `batch` and returns how many. Never blocks.
    /// Passes on only frames that the link's [`Filter`] takes, none longer than
    /// [`Info::max_frame`]. While the caller holds all receive frames, what comes may be dropped;
    /// it is counted.
    ///
    /// A frame longer than [`Info::segment_size`] is several tokens in a row, of which all but the
    /// last say [`RxFrame::continues`]. It is always handed over whole, so with such a frame at the
    /// end there may be up to [`Info::max_segments`] - 1 tokens more. The link drops a frame of
    /// which a segment is missing, and counts it ([`LinkCounters::rx_dropped`]).
    ///
    /// With busy polling on (an option of the backend), an empty ring makes the link drive the
    /// driver from the caller's own context and look again, as in GigaE PM II §4.4; that is the
    /// only case with a system call.
    fn poll(&mut self, batch: &mut Vec<RxFrame>, max: usize) -> Result<usize, LinkError>;

    /// Returns a received frame so that the NIC can fill it again: at once if it has few, else
    /// after some more or with the next empty [`poll`](Self::poll) or [`wait`](Self::wait).
    ///
    /// # Panics
    /// If the frame is another link's.
    fn recycle(&mut self, frame: RxFrame);

    /// A descriptor that polls readable when a frame may have arrived. Before sleeping on it, call
    /// [`prepare_to_wait`](Self::prepare_to_wait). `None`, the default: the link has no descriptor.
    /// Then override [`wait`](Self::wait), unless it is enough to look each millisecond. The
    /// conformance suite regards a link without a descriptor as a simulated one.
    fn fd(&self) -> Option<BorrowedFd<'_>> {
        None
    }

    /// Sleeps until a frame may have arrived, or `timeout` has passed (`None`: for ever), or a
    /// signal came. Returns whether there is something to poll.
    ///
    /// The default sleeps on [`fd`](Self::fd). Without a descriptor it sleeps for a millisecond at
    /// most. It counts nothing.
    fn wait(&mut self, timeout: Option<Duration>) -> Result<bool, LinkError> {
        if self.prepare_to_wait() { Ok(true) } else { sleep_on(self.fd(), timeout) }
    }

    /// The caller is about to sleep on [`fd`](Self::fd) by itself. Returns whether there is
    /// something to poll already. No system call, except one to ring a driver that lacks memory for
    /// frames. By default there is nothing to prepare.
    fn prepare_to_wait(&mut self) -> bool {
        false
    }

    /// Whether [`poll`](Self::poll) may find something or has something to do: the cheapest check,
    /// for callers that spin. They must poll now and then all the same. By default always.
    fn has_arrived(&mut self) -> bool {
        true
    }

    /// Posted frames that the NIC has not sent yet. By default `None`: the link does not know.
    fn unsent(&self) -> Option<usize> {
        None
    }

    /// Keeps this many receive frames ready for the NIC to fill; each segment counts as a frame. It
    /// keeps fewer if the link has fewer ([`Info::rx_frames`]) or the caller holds some. Fewer
    /// frames touch less memory, but must have room for all that arrives between two polls. By
    /// default this does nothing: a link whose ring is fixed has no choice.
    fn provide(&mut self, _frames: usize) {}

    /// What the link has counted so far; by default nothing. The conformance suite checks
    /// `tx_frames`, `rx_frames` and `rx_dropped`, and of a link with a descriptor `doorbells`. No
    /// system call beyond what the kernel's own counters need.
    fn counters(&self) -> LinkCounters {
        LinkCounters::default()
    }
}

/// Which segment of a frame is posted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Segment {
    /// The last one, or the only one.
    Last,
    /// One that the next posted segment goes on with.
    More,
}

/// What a link is and how it reaches the wire.
#[derive(Clone, Debug)]
pub struct Info {
    /// Interface name, for messages to people.
    pub interface: String,
    /// The interface's own address, source of every frame. A link without an interface has one that
    /// is unique on what carries its frames.
    pub mac: MacAddr,
    /// How frames reach the wire.
    pub mode: Mode,
    /// Longest frame that can be posted and received, in bytes: Ethernet header and payload,
    /// without FCS.
    pub max_frame: usize,
    /// Longest frame in bytes that is received in one token; a longer one has segments of this
    /// size, or of less where the driver says so. At least as much fits a transmit frame's memory.
    pub segment_size: usize,
    /// Most segments that a frame may be posted in, and most that it is received in. 1: every frame
    /// is one token.
    pub max_segments: usize,
    /// Bytes in a transmit frame's memory. With 128 more than [`max_frame`](Self::max_frame) a
    /// message is as long as the frame allows.
    pub frame_size: usize,
    /// Transmit frames in all, two at least for an endpoint; a frame in segments takes as many as
    /// it has segments.
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
    /// AF_PACKET with a memory-mapped ring.
    Packet,
    /// AF_PACKET without a ring: frames are received by system calls.
    PacketCalls,
    /// A UDP socket. The kernel writes the headers; frames have no MAC addresses.
    Udp,
    /// No kernel: a simulated wire in virtual time.
    Simulated,
    /// A backend of the program's own.
    Own,
}

impl fmt::Display for Mode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::XdpZeroCopy => "xdp zero-copy",
            Self::XdpNative => "xdp native",
            Self::XdpGeneric => "xdp generic",
            Self::Packet => "packet",
            Self::PacketCalls => "packet without a ring",
            Self::Udp => "udp",
            Self::Simulated => "simulated",
            Self::Own => "own",
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

    /// Whether a link with this address takes a whole frame: one to the address and on one of the
    /// channels, or a discovery request to all. For backends that filter by themselves.
    #[inline]
    pub fn takes(&self, mac: MacAddr, frame: &[u8]) -> bool {
        /// Where in the header the channel is.
        const CHANNEL: usize = 5;
        if is_who(self.envelope, frame) {
            return true;
        }
        let inner = self.envelope.open(frame).map(|(_, inner)| inner);
        let channel = inner.ok().and_then(|inner| inner.get(CHANNEL).copied());
        frame.starts_with(&mac.0) && channel.is_some_and(|channel| self.channels.contains(channel))
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
pub struct LinkCounters {
    /// Frames posted, each counted once, however many segments it has.
    pub tx_frames: u64,
    /// Frames polled, each counted once, however many segments it has.
    pub rx_frames: u64,
    /// System calls made in order to transmit (`sendto`).
    pub doorbells: u64,
    /// System calls made in order to receive: those that drive the driver from the caller's
    /// context, and those that look for datagrams in a socket.
    pub drives: u64,
    /// Sleeps in [`Link::wait`].
    pub waits: u64,
    /// Sleeps that ended because of a frame.
    pub wakeups: u64,
    /// Frames for us for which there was no room, in the kernel (statistics of the socket) or
    /// because the caller held all receive frames, or of which a segment was missing. A card in
    /// zero-copy mode itself counts the frames for which it has no room (`ethtool -S`).
    pub rx_dropped: u64,
    /// Transmit descriptors that the kernel refused as invalid. Always zero unless there is a bug.
    pub tx_invalid: u64,
    /// Of the frames posted and polled, those that went through memory to and from endpoints of
    /// this node.
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

    #[test]
    fn a_frame_cut_anywhere_is_not_taken_and_does_no_harm() {
        let mac = MacAddr([2, 0, 0, 0, 0, 1]);
        let mut frame = [0; 64];
        frame[..6].copy_from_slice(&mac.0);
        let ethernet = Envelope::Ethernet { ethertype: 0x88b5 };
        for envelope in [ethernet, Envelope::Udp { port: 4791 }] {
            let filter = Filter { envelope, channels: (0..=u8::MAX).collect() };
            for length in 0..=14 {
                assert!(!filter.takes(mac, &frame[..length]), "{envelope:?}, {length} bytes");
            }
        }
    }
}
