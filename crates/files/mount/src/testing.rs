//! What tests of several files need.

use gigae_share::{Attributes, Inode, Kind};

/// A file of this kind, number and version.
pub(crate) fn inode(kind: Kind, id: u64, version: u64) -> Inode {
    let attributes = Attributes {
        kind,
        sparse: false,
        mode: 0o644,
        size: 0,
        seconds: 0,
        nanoseconds: 0,
        version,
    };
    Inode { attributes, id, links: 1, blocks: 0, changed: (0, 0) }
}
