//! What a data frame carries, and by which kind of path it goes.

use gigae_wire::Kind;

/// What may be done with the order of a frame.
#[derive(Clone, Copy, Debug, Hash)]
pub(crate) struct FrameOrder {
    /// It belongs to a short message: it may go first.
    pub(crate) short: bool,
    /// It only brings bytes of what the peer has asked for, so that others may overtake it.
    pub(crate) loose: bool,
}

/// What a frame carries, and how it goes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FrameKind {
    pub(crate) kind: Kind,
    /// Datagrams that it takes by the socket; zero for a frame that goes by the link.
    pub(crate) bulk: u8,
    /// What may be done with its order.
    pub(crate) order: FrameOrder,
}

impl FrameKind {
    /// A frame of a short message, which goes by the link.
    pub(crate) fn short(kind: Kind) -> Self {
        Self { kind, bulk: 0, order: FrameOrder { short: true, loose: false } }
    }

    /// A frame of a longer message, which goes by the link.
    pub(crate) fn by_link(kind: Kind) -> Self {
        Self { kind, bulk: 0, order: FrameOrder { short: false, loose: false } }
    }

    /// A frame of operations that only brings bytes of what the peer has asked for.
    pub(crate) fn loose(short: bool) -> Self {
        Self { order: FrameOrder { short, loose: true }, ..Self::by_link(Kind::Op) }
    }
}
