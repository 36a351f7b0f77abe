//! Who a message goes to or comes from, as programs name it.

use gigae_proto::PeerId;

/// Another endpoint on one channel, as this endpoint knows it. Small and free to copy; it stays
/// valid, also when the peer restarts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Peer(pub(crate) PeerId);
