//! Frames between endpoints of one node, through memory instead of the NIC: a wrapper around any
//! [`Link`](gigae_link::Link), at whose border nothing changes but the way of some frames.
//!
//! # Who meets whom
//!
//! An endpoint listens at an abstract UNIX name made of its address (unix(7)), which belongs to the network
//! namespace: "hosts" in namespaces of one machine stay apart. With the first frame to an address the sender tries
//! to connect there. Nobody at home: an error at once, which is remembered for 1 to 8 seconds, and the frames go to
//! the NIC. Whoever is connected to connects back at once, so that the one who comes later is found by those before.
//!
//! | step | by | what |
//! |---|---|---|
//! | connect | sender | checks by `SO_PEERCRED` that the listener is of its own user |
//! | hello | sender | its address, which frames it takes, and a sealed memfd that holds the ring |
//! | until the welcome | sender | every frame goes both ways, to the NIC and into the ring: doubles are the protocol's daily bread, and nothing is lost to a listener that does not answer |
//! | welcome | receiver | the same check, the same filter, the memory as it must be: a word in the ring. Else it hangs up |
//!
//! Each direction has a ring and a connection of its own. The connection is the doorbell for a reader that
//! sleeps, and tells of the end of either process: the kernel closes it, also after `kill -9`, and with the last
//! descriptor and mapping the memory is gone. There is no name in any file system and no thread.
//!
//! # Who owns which memory when
//!
//! A frame to a neighbour is copied into the ring while it is posted; its sender may write it again, but need not
//! repeat it while the copy was not read ([`Link::reclaim`](gigae_link::Link::reclaim)). The reader
//! copies it into a receive frame of the wrapper's own, which lies in an arena beside the link's
//! ([`Link::beside`](gigae_link::Link::beside)); while all of those are lent, frames wait in the ring. The
//! ring has room for all that may be unacknowledged between two endpoints, so that a reader that is kept off its
//! processor costs nothing but time; for which it has none all the same is lost, as on a wire.
//!
//! # System calls
//!
//! None per frame while the reader is awake: it looks at the rings, and the writer at a flag. One byte to the
//! connection if the reader sleeps. One look at all connections in 64 polls, and after every sleep.
//!
//! # Trust
//!
//! Only processes of one user share memory, and even so neither side believes the other's words (`ring`). What
//! comes out of a ring is a frame like one from the wire, and no filter of the kernel's has seen it: whoever takes
//! it must check what it says.
//!
//! What this does *not* do: frames to oneself, to groups, or of programs that did not ask for it.

#![cfg_attr(loom, allow(dead_code, unused_imports))]

#[cfg(not(loom))]
mod frames;
#[cfg(not(loom))]
mod link;
#[cfg(not(loom))]
mod meeting;
#[cfg(not(loom))]
mod neighbours;
mod ring;
mod sync;

#[cfg(not(loom))]
pub use link::{ShmConfig, ShmLink};
#[cfg(not(loom))]
pub use meeting::{bind, listen};
