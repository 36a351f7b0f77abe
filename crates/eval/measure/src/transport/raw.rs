//! Raw frames on a [`Link`], without any protocol: what the road itself gives, and the yardstick
//! for what a protocol on it costs. One code for AF_PACKET and AF_XDP.
//!
//! A frame has the size and the headers of a GigaE frame of the same payload, padding included, so
//! that a filter lets it in and the same bytes travel; but its header is constant, its checksum is
//! not computed, and it is neither acknowledged nor sent again. It goes on a separate channel. A
//! frame too long for one buffer of the link goes in several.

use super::common::{self, read};
use crate::channel::{Calls, Channel, ReceivedMessage, Side, Slept, Task, TransportError};
use crate::end::Opening;
use crate::end::Probe;
use crate::site::{ChannelAddress, Site};
use gigae_eval_model::note::Note;
use gigae_eval_model::plan::{Wait, XdpMode, XdpOptions};
use gigae_link::{ChannelSet, Filter, Link, LinkError, Mode, OpenError, RxFrame, Segment, TxFrame};
use gigae_packet::{PacketConfig, PacketLink};
use gigae_wire::{Envelope, HEADER_LEN, MacAddr, NodeAddr, Route, VERSION};
use gigae_xdp::{XdpConfig, XdpLink};
use std::time::{Duration, Instant};

/// Channel of raw frames: the last one, which nothing uses by default.
const CHANNEL: u8 = 255;

/// Frames taken at a time: few enough that the clock is read often, enough to make polling cheap.
const POLL_BATCH: usize = 64;

/// Frames of a stream per doorbell: enough to make the system call cheap, few enough that the
/// receiver has something to do in the meantime.
const DOORBELL_BATCH: usize = 32;

/// Shortest frame in bytes (IEEE 802.3: 64 with the check sequence). Most cards pad what is
/// shorter; those that do not, as a PCnet by default, would have it dropped.
const SHORTEST: usize = 60;

/// Places within the GigaE header (`PROTOCOL.md`, section 2): version and kind, channel, length.
const VERSION_AT: usize = 4;
const CHANNEL_AT: usize = 5;
const LENGTH_AT: std::ops::Range<usize> = 6..8;

fn filter() -> Filter {
    Filter { envelope: Envelope::DEFAULT, channels: ChannelSet::EMPTY.with(CHANNEL) }
}

/// What an error while opening a link means for a run.
pub(super) fn unavailable(error: OpenError) -> TransportError {
    TransportError::Unavailable(match error {
        // A program would have other ways, but this one is what is to be measured.
        OpenError::MissingCapability { what, .. } => {
            format!("{what} is not permitted; run as root")
        }
        error => error.to_string(),
    })
}

/// Opens one end.
pub(super) fn open_packet(
    site: &Site,
    task: &Task,
    _side: Side,
) -> Result<Box<dyn Opening>, TransportError> {
    let link =
        PacketLink::open(PacketConfig::new(&site.interface, filter())).map_err(unavailable)?;
    Ok(Box::new(RawOpening::new(link, site, task, None)))
}

/// Opens one end.
pub(super) fn open_xdp(
    site: &Site,
    task: &Task,
    _side: Side,
) -> Result<Box<dyn Opening>, TransportError> {
    let options = task.setting.xdp();
    let link = XdpLink::open(xdp_config(site, &options)).map_err(unavailable)?;
    Ok(Box::new(RawOpening::new(link, site, task, options.batch)))
}

fn xdp_config(site: &Site, options: &XdpOptions) -> XdpConfig {
    let defaults = XdpConfig::new(&site.interface, filter());
    let frames = |asked: Option<u32>, default| asked.map_or(default, |frames| frames as usize);
    XdpConfig {
        mode: match options.mode {
            XdpMode::Auto => None,
            XdpMode::Generic => Some(Mode::XdpGeneric),
            XdpMode::Native => Some(Mode::XdpNative),
        },
        busy_poll: super::common::busy_poll(options.busy_poll),
        rx_frames: frames(options.rx_frames, defaults.rx_frames),
        // Named, they are all with the kernel.
        rx_ready: frames(options.rx_frames, defaults.rx_ready),
        tx_frames: frames(options.tx_frames, defaults.tx_frames),
        huge_pages: options.huge_pages.unwrap_or(defaults.huge_pages),
        need_wakeup: options.need_wakeup.unwrap_or(defaults.need_wakeup),
        ..defaults
    }
}

struct RawOpening<L> {
    link: L,
    address: ChannelAddress,
    task: Task,
    doorbell_batch: usize,
    poll_batch: usize,
}

impl<L: Link> RawOpening<L> {
    /// `batch` is for both directions; each has its own default.
    fn new(link: L, site: &Site, task: &Task, batch: Option<u32>) -> Self {
        let batch = |default| batch.map_or(default, |frames| frames as usize);
        let (doorbell_batch, poll_batch) = (batch(DOORBELL_BATCH), batch(POLL_BATCH));
        Self { link, address: site.address(0), task: task.clone(), doorbell_batch, poll_batch }
    }
}

impl<L: Link + 'static> Opening for RawOpening<L> {
    fn address(&self) -> ChannelAddress {
        self.address.clone()
    }

    fn join(self: Box<Self>, peer: &ChannelAddress) -> Result<Box<dyn Probe>, TransportError> {
        let ends = [self.address.mac, peer.mac].map(|mac| NodeAddr::from(MacAddr(mac)));
        let route = Route::new(Envelope::DEFAULT, ends[0], ends[1]).ok_or_else(|| {
            TransportError::Unavailable("raw frames need an Ethernet interface".into())
        })?;
        let mut headers = vec![0; route.len() + HEADER_LEN];
        route.write(&mut headers);
        let header = &mut headers[route.len()..];
        header[VERSION_AT] = VERSION << 4;
        header[CHANNEL_AT] = CHANNEL;
        header[LENGTH_AT].copy_from_slice(&(self.task.size as u16).to_be_bytes());
        let outer = route.len();
        Ok(Box::new(RawChannel {
            link: self.link,
            headers,
            outer,
            spin: self.task.wait == Wait::Spin,
            nap: self.task.nap(),
            slept: Slept::No,
            arrived: Vec::with_capacity(self.poll_batch),
            taken: Vec::new(),
            doorbell_batch: self.doorbell_batch,
            poll_batch: self.poll_batch,
            posted: 0,
        }))
    }
}

struct RawChannel<L> {
    link: L,
    /// What precedes the payload of every frame.
    headers: Vec<u8>,
    /// Bytes of it before the GigaE header.
    outer: usize,
    spin: bool,
    nap: Duration,
    slept: Slept,
    /// Polled frames that were not looked at yet, the first one last.
    arrived: Vec<RxFrame>,
    /// Transmit frames for the segments of a frame; empty between two.
    taken: Vec<TxFrame>,
    doorbell_batch: usize,
    poll_batch: usize,
    /// Frames posted since the last doorbell.
    posted: usize,
}

fn broken(error: LinkError) -> TransportError {
    TransportError::Io { what: "the link", source: std::io::Error::other(error.to_string()) }
}

impl<L: Link> RawChannel<L> {
    /// The number and length of a frame, of which this is the first segment or all; `None` for one
    /// that is shorter than it says. Gives it back.
    #[inline]
    fn take_in(&mut self, frame: RxFrame) -> Option<ReceivedMessage> {
        let arrival = self.read(&frame);
        let mut got = self.link.memory().arena.bytes(&frame).len();
        let mut goes_on = frame.continues();
        self.link.recycle(frame);
        while goes_on {
            let segment = self.arrived.pop()?;
            let bytes = self.link.memory().arena.bytes(&segment);
            got += bytes.len();
            read(bytes);
            goes_on = segment.continues();
            self.link.recycle(segment);
        }
        arrival.filter(|arrival| got >= self.outer + HEADER_LEN + arrival.bytes)
    }

    /// The number in a frame's first segment, and the length that its header states.
    #[inline]
    fn read(&self, first: &RxFrame) -> Option<ReceivedMessage> {
        let frame = self.link.memory().arena.bytes(first).get(self.outer..)?;
        let header = frame.get(..HEADER_LEN)?;
        let bytes =
            usize::from(u16::from_be_bytes([header[LENGTH_AT.start], header[LENGTH_AT.start + 1]]));
        let payload = &frame[HEADER_LEN..];
        Some(ReceivedMessage { number: read(&payload[..bytes.min(payload.len())])?, bytes })
    }

    /// Posts the rest of a frame, `length` bytes of it, whose first segment fills a transmit frame;
    /// false, and nothing is posted, if there are too few.
    #[cold]
    fn post_long(&mut self, first: TxFrame, length: usize) -> bool {
        let size = self.link.info().frame_size;
        let mut taken = std::mem::take(&mut self.taken);
        taken.push(first);
        while taken.len() < length.div_ceil(size) {
            let Some(frame) = self.link.take() else {
                taken.drain(..).for_each(|frame| self.link.release(frame.into()));
                self.taken = taken;
                return false;
            };
            taken.push(frame);
        }
        let mut left = length;
        for frame in taken.drain(..) {
            let segment = if left > size { Segment::More } else { Segment::Last };
            let posted = self.link.post(frame, 0..left.min(size), segment);
            left = left.saturating_sub(size);
            self.link.release(posted.into());
        }
        self.taken = taken;
        true
    }
}

impl<L: Link> Channel for RawChannel<L> {
    #[inline]
    fn send(&mut self, number: u32, size: usize) -> Result<bool, TransportError> {
        let Some(mut frame) = self.link.take() else {
            self.flush()?;
            return Ok(false);
        };
        let payload = self.headers.len();
        let bytes = self.link.memory().arena.bytes_mut(&mut frame);
        bytes[..payload].copy_from_slice(&self.headers);
        bytes[payload..payload + 4].copy_from_slice(&number.to_le_bytes());
        if payload + size <= bytes.len() {
            let length = SHORTEST.max(payload + size);
            bytes[payload + size..length].fill(0);
            let posted = self.link.post(frame, 0..length, Segment::Last);
            self.link.release(posted.into());
        } else if !self.post_long(frame, payload + size) {
            self.flush()?;
            return Ok(false);
        }
        self.posted += 1;
        if self.posted == self.doorbell_batch {
            self.flush()?;
        }
        Ok(true)
    }

    #[inline]
    fn flush(&mut self) -> Result<(), TransportError> {
        self.posted = 0;
        self.link.flush().map(drop).map_err(broken)
    }

    #[inline]
    fn receive(&mut self) -> Result<Option<ReceivedMessage>, TransportError> {
        self.slept = Slept::No;
        if self.arrived.is_empty() {
            let most = self.poll_batch;
            let mut polled = self.link.poll(&mut self.arrived, most).map_err(broken)?;
            if polled == 0 && !self.spin {
                self.slept = Slept::From(Instant::now());
                if self.link.wait(Some(self.nap)).map_err(broken)? {
                    polled = self.link.poll(&mut self.arrived, most).map_err(broken)?;
                }
            }
            if polled > 1 {
                self.arrived.reverse();
            }
        }
        let Some(frame) = self.arrived.pop() else { return Ok(None) };
        Ok(self.take_in(frame))
    }

    fn slept(&self) -> Slept {
        self.slept
    }

    fn calls(&self) -> Calls {
        let counters = self.link.counters();
        common::calls(&counters)
    }

    fn note(&mut self) -> Option<Note> {
        Some(common::note(self.link.info()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use gigae_sim::{Faults, Network, SimLink};

    #[test]
    fn a_frame_is_padded_to_the_shortest_that_ethernet_knows() {
        let network = Network::new(1, Faults::default());
        let open = || SimLink::open(&network, filter(), 1, 8).unwrap();
        let (mut link, mut peer) = (open(), open());
        // Its one frame carried something else before.
        let mut used = link.take().unwrap();
        link.memory().arena.bytes_mut(&mut used).fill(0xff);
        link.release(used.into());
        let [from, to] = [&link, &peer].map(|link| NodeAddr::from(link.info().mac));
        let route = Route::new(Envelope::DEFAULT, from, to).unwrap();
        let mut headers = vec![0; route.len() + HEADER_LEN];
        route.write(&mut headers);
        headers[route.len() + VERSION_AT] = VERSION << 4;
        headers[route.len() + CHANNEL_AT] = CHANNEL;
        let mut channel = RawChannel {
            link,
            headers,
            outer: route.len(),
            spin: true,
            nap: Duration::ZERO,
            slept: Slept::No,
            arrived: Vec::new(),
            taken: Vec::new(),
            doorbell_batch: 1,
            poll_batch: 1,
            posted: 0,
        };
        for (size, expected) in [(8, SHORTEST), (20, 14 + HEADER_LEN + 20)] {
            assert!(channel.send(7, size).unwrap());
            network.advance_to(network.now() + 1_000_000);
            let mut frames = Vec::new();
            assert_eq!(peer.poll(&mut frames, 8).unwrap(), 1);
            let bytes = peer.memory().received(&frames[0]);
            assert_eq!(bytes.len(), expected);
            assert!(bytes[14 + HEADER_LEN + size..].iter().all(|&byte| byte == 0));
            frames.into_iter().for_each(|frame| peer.recycle(frame));
        }
    }
}
