//! Frames on their way to the wire: all that should go now is posted, then each link that has
//! posted frames gets one doorbell. A frame whose data stay in the program's memory leaves when it
//! is posted, and takes along those that were posted before.

use super::Engine;
use crate::links::To;
use crate::outbound::Padded;
use gigae_link::LinkError;
use gigae_proto::{Body, DataFrame, Destination, LEAST_PART, Transmit};
use gigae_wire::{Kind, PathId};

impl Engine {
    /// Sends what is due now, if there is anything.
    #[inline]
    pub(crate) fn transmit(&mut self) -> Result<(), LinkError> {
        if self.proto.wants_transmit() || self.doorbell.backlog {
            self.transmit_now()
        } else {
            Ok(())
        }
    }

    /// Whether what is due can wait for the program's next call, once. That is so if one operation
    /// has ended and this call hands its completion to the program: the program's answer will carry
    /// the acknowledgements that are due. If several have ended, the next calls would hand those
    /// out and send nothing.
    fn can_wait(&mut self) -> bool {
        self.deferral.may(|| {
            !self.doorbell.backlog
                && self.transfer.pending_events() == 1
                && self.proto.owes_acknowledgements_only()
        })
    }

    fn transmit_now(&mut self) -> Result<(), LinkError> {
        if self.can_wait() {
            return Ok(());
        }
        self.doorbell.posted();
        self.serve_observers();
        if self.links.several() {
            self.update_paths();
        }
        if self.post_waiting() || self.doorbell.backlog {
            // If the only link fails, what was posted stays so, and nothing else would ring for it.
            self.doorbell.backlog = true;
            let mut left = self.ring(PathId::FIRST)?;
            if self.links.several() {
                left += self.sum_over_others(Self::ring)?;
            }
            self.doorbell.backlog = left > 0;
        }
        Ok(())
    }

    /// Rings the doorbell of a link, if something was posted there. Returns 1 if the NIC did not
    /// take everything.
    #[inline(always)]
    fn ring(&mut self, path: PathId) -> Result<usize, LinkError> {
        match self.links[path].flush() {
            Ok(all) => Ok(usize::from(!all)),
            Err(error) => self.give_up_link(path, error).map(|()| 0),
        }
    }

    /// Rings the doorbell of the first link for a message that was accepted and posted there. An
    /// error shows with the next message.
    #[inline]
    pub(super) fn ring_for_accepted(&mut self) {
        let left = self.ring(PathId::FIRST);
        self.doorbell.broken = left.is_err();
        self.doorbell.backlog = !matches!(left, Ok(0));
        self.quiet &= !self.doorbell.backlog;
    }

    /// Learns from the protocol where the paths to peers go.
    #[cold]
    #[inline(never)]
    fn update_paths(&mut self) {
        while let Some(path) = self.proto.poll_path() {
            self.links.set_route(path);
        }
    }

    /// Posts all that should go now; whether there was anything.
    #[inline]
    pub(super) fn post_waiting(&mut self) -> bool {
        let (mut posted, mut proposes) = (0, false);
        let Self { links, proto, transfer, route_table, tx, .. } = self;
        // While the route to a node is not known, nothing goes there: it is asked for until it is.
        loop {
            while let Some(DataFrame { to, path, in_parts, first, header, buffer }) =
                proto.poll_data()
            {
                if path.is_first() && buffer.path().is_first() && !in_parts {
                    posted += usize::from(links[path].post(to, buffer, &header, first));
                    continue;
                }
                if let Some(in_place) = buffer.in_place() {
                    let (data, home) = (transfer.data(to, in_place), buffer.path());
                    if let Some(data) = data.filter(|_| path == home) {
                        let done = links[path].post_in_place(to, buffer, data, &header);
                        posted += usize::from(done);
                        continue;
                    }
                    if !links[home].bring_in(buffer, data.map(|data| data.bytes)) {
                        continue;
                    }
                }
                if in_parts {
                    let longest = usize::from(LEAST_PART);
                    posted += usize::from(links.post_parts(to, buffer, &header, longest));
                    continue;
                }
                if path == buffer.path() {
                    posted += usize::from(links[path].post(to, buffer, &header, first));
                    continue;
                }
                let done = links[path].post_copy(to, buffer, &tx.arena, &header, first);
                posted += usize::from(done);
                if links.is_near(proto, to) {
                    proto.keep_to_first(to);
                }
            }
            if !proto.wants_transmit() {
                break;
            }
            let Some(Transmit { to, path, first, header, body }) = proto.poll_transmit() else {
                break;
            };
            let Body::Control(payload, pad) = body else {
                unreachable!("data frames were polled before")
            };
            let to = match to {
                Destination::Peer(peer) => To::Peer(peer),
                Destination::Unknown(key) => {
                    let route = match (path, header.kind) {
                        (PathId::FIRST, Kind::HelloAck) => route_table.route_of_answer(key.node),
                        (PathId::FIRST, _) => route_table.route(key.node),
                        _ => links[path].route(key.node),
                    };
                    let Some(route) = route else { continue };
                    To::Unknown(route)
                }
            };
            let payload = Padded::new(payload, pad);
            posted += usize::from(links[path].post_control(&to, &header, payload, first));
            proposes |= header.kind == Kind::Hello;
        }
        self.clock.count(posted);
        if proposes {
            // The proposal's time begins now, even if the program makes no call for long.
            self.clock.expire();
        }
        posted > 0
    }
}
