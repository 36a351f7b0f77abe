//! A backend of one's own: a cable in memory between two threads of a process.
//!
//! `docs/how-to/write-a-backend.md` leads through this file. The tests hold it to the suite for all
//! links and send messages between two endpoints over it.
#![allow(missing_docs, unreachable_pub)]

use gigae_link::{
    Arena, ChannelSet, Filter, FrameMemory, Held, Info, Link, LinkCounters, LinkError, Mode,
    Posted, Posting, RxFrame, Segment, TxFrame, TxHolds,
};
use gigae_wire::{Envelope, MacAddr, Route};
use rustix::event::{EventfdFlags, eventfd};
use std::collections::VecDeque;
use std::io;
use std::ops::Range;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

/// Ethernet header.
const ETHERNET: usize = 14;

/// Bytes of memory per frame: room for MTU 1500 and for headers in front of an aligned message.
const FRAME: usize = 2048;

/// One direction of the cable: frames that were sent and not received yet.
struct Wire {
    frames: Mutex<VecDeque<Vec<u8>>>,
    room: usize,
    /// Frames for which there was no room.
    lost: AtomicU64,
    /// Readable while there are frames.
    doorbell: OwnedFd,
}

impl Wire {
    fn new(room: usize) -> io::Result<Arc<Self>> {
        let doorbell = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        let (frames, lost) = (Mutex::default(), AtomicU64::new(0));
        Ok(Arc::new(Self { frames, room, lost, doorbell }))
    }

    /// Adds frames; those for which there is no room are lost, as on a real wire.
    fn send(&self, sent: impl Iterator<Item = Vec<u8>>) -> io::Result<()> {
        let mut frames = self.frames.lock().expect("nothing panics under this lock");
        for frame in sent {
            if frames.len() < self.room {
                frames.push_back(frame);
            } else {
                self.lost.fetch_add(1, Ordering::Relaxed);
            }
        }
        rustix::io::write(&self.doorbell, &1_u64.to_ne_bytes())?;
        Ok(())
    }

    fn receive(&self) -> io::Result<Option<Vec<u8>>> {
        let mut frames = self.frames.lock().expect("nothing panics under this lock");
        let frame = frames.pop_front();
        if frame.is_some() && frames.is_empty() {
            rustix::io::read(&self.doorbell, &mut [0; 8])?;
        }
        Ok(frame)
    }

    fn is_empty(&self) -> bool {
        self.frames.lock().expect("nothing panics under this lock").is_empty()
    }
}

/// One end of the cable.
pub struct Cable {
    info: Info,
    filter: Filter,
    /// Transmit frames first, received frames behind them.
    arena: Arc<Arena>,
    holds: TxHolds,
    posting: Posting,
    /// Slots for received frames that no token refers to.
    free: Vec<u32>,
    /// Posted frames that were not flushed yet, with their slots.
    posted: Vec<(u32, Vec<u8>)>,
    outgoing: Arc<Wire>,
    incoming: Arc<Wire>,
    counters: LinkCounters,
}

impl Cable {
    /// Both ends of a cable of this number, with `tx_frames` transmit and `rx_frames` receive
    /// frames each.
    pub fn pair(
        number: u8,
        filter: &Filter,
        tx_frames: usize,
        rx_frames: usize,
    ) -> io::Result<[Self; 2]> {
        let (a, b) = (Wire::new(rx_frames)?, Wire::new(rx_frames)?);
        let end = |end, outgoing: &Arc<Wire>, incoming: &Arc<Wire>| {
            let info = Info {
                interface: format!("cable{number}"),
                mac: MacAddr([2, 0, 0, 0, number, end]),
                mode: Mode::Own,
                max_frame: 1500 + ETHERNET,
                segment_size: 1500 + ETHERNET,
                max_segments: 1,
                frame_size: FRAME,
                tx_frames,
                rx_frames,
                reason: "the program brought it".into(),
            };
            io::Result::Ok(Self {
                filter: filter.clone(),
                arena: Arc::new(Arena::anonymous((tx_frames + rx_frames) * FRAME)?),
                holds: TxHolds::new(tx_frames as u32),
                posting: Posting::new(&info),
                free: (tx_frames as u32..(tx_frames + rx_frames) as u32).collect(),
                posted: Vec::new(),
                outgoing: Arc::clone(outgoing),
                incoming: Arc::clone(incoming),
                counters: LinkCounters::default(),
                info,
            })
        };
        Ok([end(1, &a, &b)?, end(2, &b, &a)?])
    }
}

fn failed(source: io::Error) -> LinkError {
    LinkError::Io { what: "using the cable", source }
}

impl Link for Cable {
    fn info(&self) -> &Info {
        &self.info
    }

    fn memory(&self) -> FrameMemory<'_> {
        (&self.arena).into()
    }

    fn take(&mut self) -> Option<TxFrame> {
        let slot = self.holds.take()?;
        let start = slot as usize * FRAME;
        // SAFETY: a slot is handed out once until both its holds are clear again.
        Some(unsafe { TxFrame::new(&self.arena, start..start + FRAME, slot) })
    }

    fn post(&mut self, frame: TxFrame, bytes: Range<usize>, segment: Segment) -> Posted {
        self.posting.add(bytes.len(), segment);
        let copy = self.arena.unsent_bytes(&frame)[bytes].to_vec();
        self.holds.post(frame.slot());
        self.posted.push((frame.slot(), copy));
        self.counters.tx_frames += 1;
        frame.into_posted()
    }

    fn flush(&mut self) -> Result<bool, LinkError> {
        self.posting.flush();
        if !self.posted.is_empty() {
            self.counters.doorbells += 1;
            let sent = self.posted.drain(..).map(|(slot, bytes)| {
                self.holds.complete(slot);
                bytes
            });
            self.outgoing.send(sent).map_err(failed)?;
        }
        Ok(true)
    }

    fn reclaim(&mut self, frame: Posted) -> Result<TxFrame, Posted> {
        // A token of another link ends here.
        let _ = self.arena.posted_bytes(&frame);
        if self.holds.with_nic(frame.slot()) {
            return Err(frame);
        }
        // SAFETY: the frame was flushed.
        Ok(unsafe { frame.into_frame() })
    }

    fn release(&mut self, frame: Held) {
        self.holds.release(self.arena.slot_of(&frame));
    }

    fn poll(&mut self, batch: &mut Vec<RxFrame>, max: usize) -> Result<usize, LinkError> {
        let before = batch.len();
        while batch.len() < before + max {
            let Some(bytes) = self.incoming.receive().map_err(failed)? else { break };
            let too_long = bytes.len() > self.info.max_frame;
            if too_long || !self.filter.takes(self.info.mac, &bytes) {
                continue;
            }
            let Some(slot) = self.free.pop() else {
                self.counters.rx_dropped += 1;
                continue;
            };
            let room = slot as usize * FRAME..(slot as usize + 1) * FRAME;
            // SAFETY: a free slot has no token.
            batch.push(unsafe { RxFrame::copied(&self.arena, room, slot, &bytes) });
        }
        self.counters.rx_frames += (batch.len() - before) as u64;
        Ok(batch.len() - before)
    }

    fn has_arrived(&mut self) -> bool {
        !self.incoming.is_empty()
    }

    fn recycle(&mut self, frame: RxFrame) {
        let _ = self.arena.bytes(&frame);
        self.free.push(frame.slot());
    }

    fn fd(&self) -> Option<BorrowedFd<'_>> {
        Some(self.incoming.doorbell.as_fd())
    }

    fn counters(&self) -> LinkCounters {
        let lost = self.incoming.lost.load(Ordering::Relaxed);
        LinkCounters { rx_dropped: self.counters.rx_dropped + lost, ..self.counters }
    }
}

/// Sends one frame through the cable.
#[allow(dead_code, reason = "tests include this file as a module")]
fn main() {
    let (envelope, channels) = (Envelope::DEFAULT, ChannelSet::EMPTY.with(0));
    let filter = Filter { envelope, channels };
    let [mut a, mut b] = Cable::pair(0, &filter, 8, 8).expect("memory and two descriptors");
    let route = Route::new(envelope, a.info.mac.into(), b.info.mac.into()).expect("two addresses");
    let mut frame = a.take().expect("all frames are free");
    route.write(&mut a.arena.bytes_mut(&mut frame)[..60]);
    let posted = a.post(frame, 0..60, Segment::Last);
    a.flush().expect("the cable works");
    a.release(posted.into());
    let mut batch = Vec::new();
    b.wait(None).expect("the cable works");
    b.poll(&mut batch, 1).expect("the cable works");
    println!("{} bytes arrived", b.memory().received(&batch[0]).len());
    batch.drain(..).for_each(|frame| b.recycle(frame));
}
