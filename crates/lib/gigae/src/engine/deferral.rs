//! Acknowledgements of bulk frames that wait for the program's answer.

/// Whether acknowledgements of bulk frames are left to the program's next call.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Deferral {
    #[default]
    No,
    /// Bulk frames came with this poll.
    May,
    /// They are due since an earlier poll.
    Was,
}

impl Deferral {
    /// This many bulk frames came with this poll.
    #[inline]
    pub(super) fn came(&mut self, bulk: usize) {
        if bulk > 0 && *self == Self::No {
            *self = Self::May;
        }
    }

    /// Whether to defer now, if that can be.
    pub(super) fn may(&mut self, can: impl FnOnce() -> bool) -> bool {
        let may = *self == Self::May && can();
        *self = if may { Self::Was } else { Self::No };
        may
    }
}
