//! Bulk data that the socket copies to where they belong, in the program's memory.
//!
//! Before each call, the engine gives the socket the place of the data that should come next. A
//! frame whose data were placed is verified where its pieces lie. If it is not what was expected,
//! its data are copied to where an ordinary frame has them, and it goes the ordinary way.

use super::Engine;
use super::incoming::{Parsed, parse_segments};
use super::rx_frames::BATCH;
use crate::inbox::Inbound;
use crate::link::AnyLink;
use gigae_link::{LinkError, RxFrame};
use gigae_proto::Arrival;
use gigae_transfer::{Expected, PlacedPayload};
use gigae_udp::{Placement, PollResult};
use gigae_wire::{HEADER_LEN, Kind, PathId, Pieces};

/// Bytes of a frame in front of the data that are expected.
const HEAD: usize = HEADER_LEN + Expected::HEADER;

/// Frames without an expectation after a wrong one. Frames of several peers may take turns.
const FRAMES_WITHOUT: u32 = 4;

/// A frame whose data lie where they belong, until it is delivered.
pub(super) struct Placed {
    /// Its number among the socket's.
    slot: u32,
    expected: Expected,
    /// Bytes of data.
    len: usize,
}

/// See the module's description.
#[derive(Default)]
pub(super) struct Placing {
    /// Frames to come without an expectation.
    without: u32,
    /// The frame that was taken in last, if its data were placed.
    frame: Option<Placed>,
}

impl Placing {
    /// The description of a frame that is delivered now, if its data were placed.
    pub(super) fn take(&mut self, frame: &Inbound) -> Option<Placed> {
        let by_socket = frame.path == PathId::SOCKET;
        self.frame.take_if(|placed| by_socket && placed.slot == frame.frame.slot())
    }
}

impl Placed {
    /// Which data the frame has, how many, and what its payload has behind them.
    pub(super) fn split<'a>(&self, mut payload: Pieces<'a>) -> PlacedPayload<'a> {
        let _ = payload.split(Expected::HEADER + self.len);
        PlacedPayload { expected: self.expected, len: self.len, behind: payload }
    }
}

impl Engine {
    /// Takes in what has arrived by the socket for bulk data. Returns the number of frames.
    pub(super) fn take_in_bulk(&mut self) -> Result<usize, LinkError> {
        let Self { links, transfer, placing, rx, .. } = self;
        if placing.without > 0 {
            let count = self.take_in_batch(PathId::SOCKET)?;
            self.placing.without = self.placing.without.saturating_sub(count as u32);
            return Ok(count);
        }
        let (AnyLink::Bulk(link), Some((expected, data))) =
            (&mut links[PathId::SOCKET].link, transfer.expect())
        else {
            return self.take_in_batch(PathId::SOCKET);
        };
        let polled = link.poll_placing(&mut rx.batch, BATCH, Placement { head: HEAD, data });
        match polled {
            Ok(PollResult { placed: 0, count }) => {
                self.take_in_polled(PathId::SOCKET);
                Ok(count)
            }
            Ok(PollResult { placed, count }) => {
                if let Some(frame) = self.rx.batch.pop() {
                    self.take_in_placed(frame, expected, placed);
                }
                Ok(count)
            }
            Err(error) => self.give_up_link(PathId::SOCKET, error).map(|()| 0),
        }
    }

    /// Takes in a frame with `len` bytes of data that were placed.
    fn take_in_placed(&mut self, frame: RxFrame, expected: Expected, len: usize) {
        let Err(frame) = self.take_in_expected(frame, expected, len) else { return };
        self.transfer.misplaced();
        self.placing.without = FRAMES_WITHOUT;
        let Self { links, transfer, .. } = self;
        let frame = match (&mut links[PathId::SOCKET].link, transfer.expected(expected, len)) {
            (AnyLink::Bulk(link), Some(data)) => link.fetch_placed(frame, HEAD, data),
            _ => frame,
        };
        self.take_in(PathId::SOCKET, frame);
    }

    /// The same if the frame is as expected; hands it back otherwise.
    fn take_in_expected(
        &mut self,
        frame: RxFrame,
        expected: Expected,
        len: usize,
    ) -> Result<(), RxFrame> {
        let path = PathId::SOCKET;
        let Self { links, transfer, proto, channels, .. } = self;
        let (bytes, envelope) = (links.arenas.bytes(&frame), links[path].envelope);
        let parsed = transfer.expected(expected, len).and_then(|data| {
            let (_, inner) = envelope.locate(bytes, bytes.len()).ok()?;
            let (head, rest) = bytes.split_at_checked(inner.start + HEAD)?;
            let rest = [data, rest.get(len..)?];
            let mut whole = Pieces::new(head, &rest);
            let parsed = parse_segments(envelope, bytes, whole).ok()?;
            whole.split(parsed.payload.start.into())?;
            expected.is_in(whole, len).then_some(parsed)
        });
        let Some(Parsed { from, header, payload }) = parsed else { return Err(frame) };
        let arrival = Arrival { path, from: &from, header: &header, payload: &[] };
        if header.kind != Kind::Op
            || !channels.contains(header.channel)
            || !proto.is_next(expected.peer, &arrival)
        {
            return Err(frame);
        }
        self.placing.frame = Some(Placed { slot: frame.slot(), expected, len });
        let mut inbound = Some(Inbound { frame, payload, path, several: false });
        // The protocol counts what it refuses.
        let _ = self.proto.handle(arrival, &mut inbound);
        if let Some(refused) = inbound {
            self.placing.frame = None;
            self.inbox.leave(refused, &mut self.links);
        }
        Ok(())
    }
}
