//! What a run has to show, so that it checks what it is for.

/// Something that has to occur, or else the form does not reach what it is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CoverageGoal {
    /// All messages were delivered and reported as done.
    AllDone,
    /// A sender had no credit left.
    Stopped,
    /// A sender asked whether a GO was lost.
    Probed,
    /// A frame was repeated.
    Repeated,
    /// A frame was refused because it had come before.
    Duplicate,
    /// One was refused because it came before its turn (go-back-N).
    OutOfOrder,
    /// One was refused because there was no room for it.
    NoRoom,
    /// A frame of a former session was refused.
    OldEpoch,
    /// A message was reported as failed.
    Failed,
    /// A sequence number has wrapped.
    Wrapped,
}

impl CoverageGoal {
    /// All of them.
    pub const ALL: [Self; 10] = [
        Self::AllDone,
        Self::Stopped,
        Self::Probed,
        Self::Repeated,
        Self::Duplicate,
        Self::OutOfOrder,
        Self::NoRoom,
        Self::OldEpoch,
        Self::Failed,
        Self::Wrapped,
    ];

    /// In a word.
    pub const fn name(self) -> &'static str {
        match self {
            Self::AllDone => "done",
            Self::Stopped => "stop",
            Self::Probed => "probe",
            Self::Repeated => "repeat",
            Self::Duplicate => "duplicate",
            Self::OutOfOrder => "out-of-order",
            Self::NoRoom => "no-room",
            Self::OldEpoch => "old-epoch",
            Self::Failed => "failed",
            Self::Wrapped => "wrap",
        }
    }
}
