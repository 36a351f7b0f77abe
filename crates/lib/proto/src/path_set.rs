//! Sets of the paths to a peer.

use gigae_wire::{MAX_PATHS, PathId};

/// A set of paths.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct PathSet(u8);

const _: () = assert!(MAX_PATHS <= u8::BITS as usize);

impl PathSet {
    pub(crate) const NONE: Self = Self(0);

    pub(crate) fn of(path: PathId) -> Self {
        Self(1 << path.index())
    }

    pub(crate) fn is_empty(self) -> bool {
        self.0 == 0
    }

    pub(crate) fn insert(&mut self, path: PathId) {
        *self = self.union(Self::of(path));
    }

    /// Takes the path with the lowest number out.
    pub(crate) fn pop(&mut self) -> Option<PathId> {
        let first = (self.0 != 0).then(|| PathId::new(self.0.trailing_zeros() as usize));
        self.0 &= self.0.wrapping_sub(1);
        first
    }

    pub(crate) fn union(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// Whether there is a path besides this one.
    pub(crate) fn has_other_than(self, path: PathId) -> bool {
        self.0 & !Self::of(path).0 != 0
    }

    pub(crate) fn iter(mut self) -> impl Iterator<Item = PathId> {
        std::iter::from_fn(move || self.pop())
    }
}

impl FromIterator<PathId> for PathSet {
    fn from_iter<I: IntoIterator<Item = PathId>>(paths: I) -> Self {
        paths.into_iter().map(Self::of).fold(Self::NONE, Self::union)
    }
}

/// What the next control frames of a session ask or answer, most urgent first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Probes {
    /// A Probe or Echo of the length of frames.
    pub(crate) size: bool,
    /// Paths by which a question came. An Ack answers each by the same path.
    pub(crate) answers: PathSet,
    /// Paths that may work again.
    pub(crate) paths: PathSet,
    /// A probe for lost credit, by any path.
    pub(crate) credit: bool,
}

impl Probes {
    /// Whether there are none. One comparison, since each turn asks.
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        let Self { size, answers, paths, credit } = *self;
        u32::from_ne_bytes([size.into(), answers.0, paths.0, credit.into()]) == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_set_gives_each_path_once_lowest_first() {
        let mut set: PathSet = [7, 2, 0, 2].map(PathId::new).into_iter().collect();
        assert_eq!(set.iter().collect::<Vec<_>>(), [0, 2, 7].map(PathId::new));
        let third = PathId::new(2);
        assert!(set.has_other_than(third) && !PathSet::of(third).has_other_than(third));
        assert!(!PathSet::NONE.has_other_than(PathId::FIRST));
        set.insert(PathId::new(5));
        let taken: Vec<_> = std::iter::from_fn(|| set.pop()).collect();
        assert_eq!(taken, [0, 2, 5, 7].map(PathId::new));
        assert!(set.is_empty() && set == PathSet::NONE);
    }

    #[test]
    fn any_of_its_parts_makes_probes_due() {
        assert!(Probes::default().is_empty());
        for probes in [
            Probes { size: true, ..Probes::default() },
            Probes { answers: PathSet::of(PathId::new(7)), ..Probes::default() },
            Probes { paths: PathSet::of(PathId::FIRST), ..Probes::default() },
            Probes { credit: true, ..Probes::default() },
        ] {
            assert!(!probes.is_empty(), "{probes:?}");
        }
    }
}
