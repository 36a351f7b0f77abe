//! Registered memory that endpoints of this node use without frames.

use super::Links;
use gigae_proto::{PeerId, Protocol};
use gigae_shm::{AccessCounts, DirectAccess, DirectRights, SharedBuffer};

impl Links {
    /// Lets endpoints of this node use a registered memory, if they are reached through memory.
    pub(crate) fn lend(&mut self, region: u64, buffer: &SharedBuffer, rights: DirectRights) {
        if let Some(local) = self.first.link.local() {
            local.lend(region, buffer.clone(), rights);
        }
    }

    /// Takes it back, and returns how often they have used it. Waits until none does.
    pub(crate) fn take_back(&mut self, region: u64) -> AccessCounts {
        let local = self.first.link.local();
        local.and_then(|local| local.take_back(region)).unwrap_or_default()
    }

    /// How often they have used one memory, or with `None` all of them so far.
    pub(crate) fn uses(&mut self, region: Option<u64>) -> AccessCounts {
        self.first.link.local().map_or(AccessCounts::default(), |local| local.uses(region))
    }

    /// Reads or writes the registered memory of a peer on this node; `rest` bytes of the same
    /// access are behind these. False, with no effect, if that is not possible now.
    #[inline]
    pub(crate) fn access<T, R>(
        &mut self,
        proto: &Protocol<T, R>,
        peer: PeerId,
        (region, offset): (u64, u64),
        access: DirectAccess<'_>,
        rest: usize,
    ) -> bool {
        let near = self.neighbour(proto, peer);
        near.is_some_and(|(local, name)| local.access(name, (region, offset), access, rest))
    }
}
