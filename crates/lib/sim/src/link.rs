//! A port of a simulated network as a link.

use crate::network::{Network, Port};
use gigae_link::{
    Arena, Filter, FrameMemory, Held, Info, Link, LinkCounters, LinkError, Mode, OpenError, Posted,
    Posting, RxFrame, Segment, TxFrame,
};
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

/// Ethernet header.
const ETHERNET: usize = 14;

/// Bytes of memory per frame: half a page for MTU 1500, else a page.
const SIZES: [usize; 2] = [2048, 4096];

/// The part of a page that a received frame may use. As with AF_XDP, which keeps the rest for
/// programs, jumbo frames come in segments here too.
const SEGMENT: usize = 3840;

/// Most segments of a frame: as with AF_XDP.
const MAX_SEGMENTS: usize = 8;

/// A link over one port of a [`Network`]. The link looks every returned token up in the arena,
/// which panics if the token belongs to another link. Each frame is copied at both ends. When the
/// receive ring is full, frames are dropped and counted, as by a NIC. Frames longer than 3,840
/// bytes come in segments.
#[derive(Debug)]
pub struct SimLink {
    network: Network,
    port: Port,
    filter: Filter,
    info: Info,
    arena: Arc<Arena>,
    free_tx: Vec<TxFrame>,
    free_rx: Vec<u32>,
    /// Posted frames that wait for the flush, as they will be sent.
    posted: Vec<Vec<u8>>,
    /// Segments of a frame whose last one is still missing.
    begun: Vec<u8>,
    posting: Posting,
    counters: LinkCounters,
}

impl SimLink {
    /// Adds a port to the network and opens it, with `tx_frames` transmit and `rx_frames` receive
    /// frames and the [MTU](Network::set_mtu) that the network gives its ports now.
    pub fn open(
        network: &Network,
        filter: Filter,
        tx_frames: usize,
        rx_frames: usize,
    ) -> Result<Self, OpenError> {
        let (port, mac) = network.add_port();
        let max_frame = network.mtu(port) + ETHERNET;
        let frame_size = SIZES[usize::from(max_frame > SIZES[0])];
        let arena = Arena::anonymous((tx_frames + rx_frames) * frame_size)
            .map_err(|source| OpenError::Io { what: "mapping frame memory", source })?;
        let info = Info {
            interface: mac.to_string(),
            mac,
            mode: Mode::Simulated,
            max_frame,
            segment_size: max_frame.min(SEGMENT),
            max_segments: if max_frame > SEGMENT { MAX_SEGMENTS } else { 1 },
            frame_size,
            tx_frames,
            rx_frames,
            reason: "a simulated network was asked for".into(),
        };
        let frame = |i: usize| i * frame_size..(i + 1) * frame_size;
        let free_tx = (0..tx_frames)
            .map(|i| {
                let slot = u32::try_from(i).expect("fewer than 2^32 frames");
                // SAFETY: each range is used for one token; received frames lie behind them.
                unsafe { TxFrame::new(&arena, frame(i), slot) }
            })
            .collect();
        let free_rx =
            (tx_frames..tx_frames + rx_frames).map(|i| i as u32).rev().collect::<Vec<_>>();
        Ok(Self {
            network: network.clone(),
            port,
            filter,
            posting: Posting::new(&info),
            info,
            arena: Arc::new(arena),
            free_tx,
            free_rx,
            posted: Vec::new(),
            begun: Vec::new(),
            counters: LinkCounters::default(),
        })
    }

    /// The network that it is a port of.
    pub fn network(&self) -> &Network {
        &self.network
    }

    /// The port, for cutting it off.
    pub fn port(&self) -> Port {
        self.port
    }

    /// Whether [datagrams](crate::Faults::uncoalesced) come to the port one by one.
    pub fn is_uncoalesced(&self) -> bool {
        self.network.is_uncoalesced(self.port)
    }

    /// Fails while its port is down.
    fn check(&self) -> Result<(), LinkError> {
        match self.network.is_down(self.port) {
            true => Err(LinkError::Down(self.info.interface.clone())),
            false => Ok(()),
        }
    }

    /// Puts a frame into receive slots, of which there must be enough, and appends its tokens.
    fn hand_out(&mut self, frame: &[u8], batch: &mut Vec<RxFrame>) {
        let segments = frame.chunks(self.info.segment_size);
        let last = segments.len() - 1;
        for (i, segment) in segments.enumerate() {
            let slot = self.free_rx.pop().expect("enough slots");
            let start = slot as usize * self.info.frame_size;
            let room = start..start + self.info.frame_size;
            // SAFETY: the slot came off the free list, so there is no token for its bytes.
            let token = unsafe { RxFrame::copied(&self.arena, room, slot, segment) };
            batch.push(if i < last { token.continued() } else { token });
        }
    }
}

impl Link for SimLink {
    fn info(&self) -> &Info {
        &self.info
    }

    #[inline]
    fn memory(&self) -> FrameMemory<'_> {
        (&self.arena).into()
    }

    #[inline]
    fn take(&mut self) -> Option<TxFrame> {
        self.free_tx.pop()
    }

    #[inline]
    fn post(&mut self, frame: TxFrame, bytes: Range<usize>, segment: Segment) -> Posted {
        self.posting.add(bytes.len(), segment);
        self.begun.extend_from_slice(&self.arena.unsent_bytes(&frame)[bytes]);
        if segment == Segment::Last {
            self.posted.push(std::mem::take(&mut self.begun));
            self.counters.tx_frames += 1;
        }
        frame.into_posted()
    }

    #[inline]
    fn reclaim(&mut self, frame: Posted) -> Result<TxFrame, Posted> {
        self.arena.posted_bytes(&frame);
        // SAFETY: the frame was copied when it was posted.
        Ok(unsafe { frame.into_frame() })
    }

    #[inline]
    fn release(&mut self, frame: Held) {
        self.arena.slot_of(&frame);
        // SAFETY: as in `reclaim`.
        self.free_tx.push(unsafe { frame.into_frame() });
    }

    fn flush(&mut self) -> Result<bool, LinkError> {
        self.posting.flush();
        self.check()?;
        self.counters.doorbells += u64::from(!self.posted.is_empty());
        for frame in self.posted.drain(..) {
            self.network.send(self.port, &frame);
        }
        Ok(true)
    }

    fn unsent(&self) -> Option<usize> {
        Some(self.posted.len() + self.network.unsent(self.port)?)
    }

    fn poll(&mut self, batch: &mut Vec<RxFrame>, max: usize) -> Result<usize, LinkError> {
        self.check()?;
        let before = batch.len();
        while batch.len() - before < max {
            let Some(frame) = self.network.receive(self.port) else { break };
            if !self.filter.takes(self.info.mac, &frame) {
                continue;
            }
            if self.free_rx.len() < frame.len().div_ceil(self.info.segment_size) {
                self.counters.rx_dropped += 1;
                continue;
            }
            self.hand_out(&frame, batch);
            self.counters.rx_frames += 1;
        }
        Ok(batch.len() - before)
    }

    #[inline]
    fn recycle(&mut self, frame: RxFrame) {
        self.arena.bytes(&frame);
        self.free_rx.push(frame.slot());
    }

    /// Moves the virtual time to the next arrival or to the end of the timeout.
    fn wait(&mut self, timeout: Option<Duration>) -> Result<bool, LinkError> {
        self.check()?;
        self.counters.waits += 1;
        let timeout = timeout.map(|t| t.as_nanos() as u64);
        let arrived = self.network.wait(&[self.port], timeout);
        self.counters.wakeups += u64::from(arrived);
        Ok(arrived)
    }

    fn counters(&self) -> LinkCounters {
        self.counters
    }
}
