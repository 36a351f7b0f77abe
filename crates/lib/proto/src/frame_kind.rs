//! What a data frame carries, and by which kind of path it goes.

use gigae_wire::Kind;

/// What a frame carries, and how it goes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FrameKind {
    pub(crate) kind: Kind,
    /// Datagrams that it takes by the socket; zero for a frame that goes by the link.
    pub(crate) bulk: u8,
}

impl FrameKind {
    /// A frame that goes by the link.
    pub(crate) fn by_link(kind: Kind) -> Self {
        Self { kind, bulk: 0 }
    }
}
