//! Frames on their way to the wire: one doorbell for all that should go now.

use super::Engine;
use crate::outbound::post_control;
use gigae_link::{Link, LinkError};
use gigae_proto::{Body, DataFrame, Destination, Transmit};
use gigae_wire::Kind;

impl Engine {
    /// Puts on the wire whatever should go now: one doorbell for all, none if there is nothing.
    #[inline]
    pub(crate) fn transmit(&mut self) -> Result<(), LinkError> {
        if self.proto.wants_transmit() || self.doorbell.backlog {
            self.transmit_pending()
        } else {
            Ok(())
        }
    }

    fn transmit_pending(&mut self) -> Result<(), LinkError> {
        self.doorbell.posted();
        self.mind_observers();
        if self.links.several() {
            return self.transmit_by_all();
        }
        if self.post_pending() || self.doorbell.backlog {
            // What was posted stays so while the link does not work, and nothing else would ring
            // for it.
            self.doorbell.backlog = true;
            self.doorbell.backlog = !self.links.first.flush()?;
        }
        Ok(())
    }

    /// The same with several links: a doorbell for each that has something to send.
    #[cold]
    #[inline(never)]
    fn transmit_by_all(&mut self) -> Result<(), LinkError> {
        while let Some(path) = self.proto.poll_path() {
            self.links.lead(path, self.sources.envelope);
        }
        if !self.post_pending() && !self.doorbell.backlog {
            return Ok(());
        }
        let Self { links, proto, .. } = self;
        let mut all = links.flush_further(|path| proto.link_down(path));
        if links.first_is_up() {
            match links.first.flush() {
                Ok(taken) => all &= taken,
                Err(error) => {
                    self.tolerate(0, error)?;
                }
            }
        }
        self.doorbell.backlog = !all;
        Ok(())
    }

    /// Posts all that should go now; whether there was anything.
    #[inline]
    pub(super) fn post_pending(&mut self) -> bool {
        let mut posted = 0;
        let Self { links, proto, sources, tx, routes, .. } = self;
        // While the way to a node is not known, nothing goes there: it is asked for until it is.
        loop {
            while let Some(DataFrame { to, path, header, buffer }) = proto.poll_data() {
                if path > 0 {
                    posted += usize::from(links.post_further(path, to, buffer, &header));
                    if links.is_near(proto.key(to).node) {
                        proto.keep_to_first(to);
                    }
                    continue;
                }
                let Some(route) = routes.to(to).filter(|_| links.first_is_up()) else { continue };
                posted += usize::from(buffer.post(&mut links.first, &tx.arena, route, &header));
            }
            if !proto.wants_transmit() {
                break;
            }
            let Some(Transmit { to, path, header, body }) = proto.poll_transmit() else { break };
            let Body::Control(payload, pad) = body else {
                unreachable!("data frames were polled before")
            };
            if path > 0 {
                let to = match to {
                    Destination::Peer(peer) => Ok(peer),
                    Destination::Unknown(key) => {
                        let route = links.route_by(path, key.node, sources.envelope);
                        let Some(route) = route else { continue };
                        Err(route)
                    }
                };
                let payload = (payload, pad);
                posted += usize::from(links.post_control_further(path, to, &header, payload));
                continue;
            }
            let stranger;
            let route = match to {
                Destination::Peer(peer) => routes.to(peer),
                Destination::Unknown(key) => {
                    stranger = match header.kind {
                        Kind::HelloAck => sources.route_of_answer(key.node),
                        _ => sources.route(key.node),
                    };
                    stranger.as_ref()
                }
            };
            let Some(route) = route.filter(|_| links.first_is_up()) else { continue };
            let link = &mut links.first;
            posted += usize::from(post_control(link, &tx.arena, route, &header, (payload, pad)));
        }
        self.clock.count(posted);
        posted > 0
    }
}
