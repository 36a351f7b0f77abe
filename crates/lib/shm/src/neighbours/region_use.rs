//! Registered memory between neighbours: questions, answers, use, and the end of use.

use super::*;
use crate::access_words::AccessCounts;
use crate::buffer::SharedBuffer;
use crate::region_messages::{Ask, DirectRights, Permit};
use crate::regions::{DirectAccess, Permits};

impl Neighbours {
    /// Lets neighbours use a registered memory without this endpoint.
    pub(crate) fn lend(&mut self, region: u64, buffer: SharedBuffer, rights: DirectRights) {
        self.own_regions.insert(region, buffer, rights);
    }

    /// Takes a memory back, and returns how often neighbours have used it. Waits until no neighbour
    /// does. `None` if it is not lent.
    pub(crate) fn take_back(&mut self, region: u64) -> Option<AccessCounts> {
        if self.own_regions.has(region) {
            self.end_use(Some(region));
        }
        self.own_regions.remove(region)
    }

    /// Ends the use of a region, or of all.
    fn end_use(&mut self, region: Option<u64>) {
        let Self { incoming, own_regions, .. } = self;
        // All at once: so the longest wait is the only one.
        for permits in incoming.iter().filter_map(|from| from.permits.as_ref()) {
            permits.revoke(region);
        }
        for from in incoming {
            if let Some(permits) = &mut from.permits {
                permits.wait(region, &from.socket, own_regions);
            }
        }
    }

    /// How often neighbours have used a region that is lent, or all regions so far.
    pub(crate) fn uses(&self, region: Option<u64>) -> AccessCounts {
        let mut all = self.own_regions.ended(region);
        if self.own_regions.is_empty() {
            // Then no permit is left.
            return all;
        }
        for permits in self.incoming.iter().filter_map(|from| from.permits.as_ref()) {
            all.add(permits.counts(region));
        }
        all
    }

    /// Reads or writes a neighbour's registered memory; `rest` bytes of the same access are behind
    /// these. False, with no effect, if that is not possible now.
    #[inline]
    pub(crate) fn access(
        &mut self,
        peer: u64,
        (region, offset): (u64, u64),
        access: DirectAccess<'_>,
        rest: usize,
    ) -> bool {
        let Via::Ring(number) = self.via(peer) else { return false };
        if !self.is_welcome(number) {
            return false;
        }
        let now = self.now;
        let Some(OutgoingRing { regions, socket, .. }) = &mut self.outgoing[number] else {
            return false;
        };
        regions.access(region, offset, access, rest, (now, socket))
    }

    /// Reads what a neighbour from which frames come has sent: doorbells, and questions for
    /// regions. False if its end is gone.
    pub(super) fn read_asks(&mut self, at: usize) -> bool {
        for _ in 0..AT_ONCE {
            let from = &mut self.incoming[at];
            match Ask::receive(&from.socket) {
                Ok(None) => {}
                Ok(Some(Ask { region, page })) => {
                    if let (None, Some(page)) = (&from.permits, page) {
                        // Without the page the neighbour gets no answer.
                        from.permits = Permits::new(page).ok().map(Box::new);
                    }
                    if let Some(permits) = &mut from.permits {
                        // Without an answer the neighbour uses frames.
                        let granted = permits.grant(&self.own_regions, region, &from.socket);
                        trace!(peer = %mac(from.key), ?granted, "a neighbour asks for a region");
                    }
                }
                Err(Errno::AGAIN | Errno::INTR) => return true,
                Err(_) => return false,
            }
        }
        true
    }

    /// Reads what a neighbour to which frames go has sent: permits. False if its end is gone.
    pub(super) fn read_permits(outgoing: &mut OutgoingRing) -> bool {
        for _ in 0..AT_ONCE {
            match Permit::receive(&outgoing.socket) {
                Ok(None) => {}
                Ok(Some((permit, memory))) => {
                    trace!(peer = %mac(outgoing.key), ?permit, "a region is mapped");
                    outgoing.regions.permitted(permit, memory);
                }
                Err(Errno::AGAIN | Errno::INTR) => return true,
                Err(_) => return false,
            }
        }
        true
    }

    /// Counts what a neighbour did from which nothing more comes.
    pub(super) fn settle(from: &mut IncomingRing, own: &mut OwnRegions) {
        if let Some(mut permits) = from.permits.take() {
            permits.revoke(None);
            permits.wait(None, &from.socket, own);
        }
    }

    /// Mapped regions.
    #[cfg(test)]
    pub(crate) fn mapped(&self) -> usize {
        self.outgoing.iter().flatten().map(|to| to.regions.mapped()).sum()
    }

    /// Unmaps what neighbours do not permit any more.
    pub(super) fn clean_regions(&mut self) {
        self.outgoing.iter_mut().flatten().for_each(|to| to.regions.clean());
    }
}

impl Drop for Neighbours {
    /// The program has its memory back, and nobody else uses it.
    fn drop(&mut self) {
        self.end_use(None);
    }
}
