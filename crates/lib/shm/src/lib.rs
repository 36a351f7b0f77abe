//! Frames between endpoints of one node, through memory instead of the NIC. A wrapper around any
//! [`Link`](gigae_link::Link) that changes only the path of some frames.
//!
//! # How endpoints meet
//!
//! An endpoint listens at an abstract UNIX name made of its address (unix(7)): the MAC address, or
//! in the UDP envelope the interface and the UDP port. There, a frame is for an endpoint of this
//! node if its source and destination are the same IP address. The name belongs to the network
//! namespace, so "hosts" in namespaces of one machine stay apart. With the first frame to an
//! address, the sender tries to connect there. If no endpoint listens, that fails at once. The
//! sender remembers this for 1 to 8 seconds, and its frames go to the NIC. An endpoint that accepts
//! a connection connects back at once, so endpoints that were there before also find one that comes
//! later.
//!
//! | step | by | what |
//! |---|---|---|
//! | connect | sender | checks by `SO_PEERCRED` that the listener belongs to the sender's own user |
//! | hello | sender | its address, which frames it takes, and a sealed memfd that holds the ring |
//! | until the welcome | sender | every frame goes both ways, to the NIC and into the ring: doubles are the protocol's daily bread, and nothing is lost to a listener that does not answer |
//! | welcome | receiver | the same check, the same filter, the memory as it must be: a word in the ring. Else it hangs up |
//!
//! Each direction has its own ring and its own connection. The connection is the doorbell for a
//! reader that sleeps, and reports the end of either process: the kernel closes it, also after
//! `kill -9`. The memory is freed with the last descriptor and mapping. There is no name in any
//! file system and no thread.
//!
//! # Who owns which memory when
//!
//! Posting a frame to a neighbour copies it into the ring. Its sender may write it again, but need
//! not repeat it while the copy is unread ([`Link::reclaim`](gigae_link::Link::reclaim)). The
//! reader copies it into a receive frame of the wrapper, in an arena beside the link's
//! ([`FrameMemory::beside`](gigae_link::FrameMemory::beside)). While the caller has all of those,
//! frames wait in the ring. The ring has room for all that may be unacknowledged between two
//! endpoints, so a reader that is kept off its processor costs only time. A frame without room is
//! lost, as on a wire.
//!
//! # Memory of the neighbour's process
//!
//! A long message need not go through the ring: the reader can copy it from the writer's memory
//! ([`ShmLink::read_from`]), with one copy. Where the kernel allows that
//! (process_vm_readv(2)), which is tried when two meet, the reader says so with its welcome.
//!
//! # Registered memory
//!
//! A neighbour that wants to read or write a registered [`SharedBuffer`] asks its owner for it over
//! the connection that it has made to it ([`ShmLink::access`]). The owner answers with the memory's
//! descriptor and a permit, and the neighbour maps it. From then on a read or a write is one copy
//! by the neighbour. The owner takes the permit back before the program may use the memory for
//! something else ([`ShmLink::take_back`]); `access_words` says how both agree on that. Without an
//! answer, and whenever anything is unusual, the caller uses frames.
//!
//! # System calls
//!
//! None per frame while the reader is awake: the reader looks at the rings, and the writer at a
//! flag. If the reader sleeps, the writer sends one byte to the connection. One look at all
//! connections in 64 polls, and after every sleep.
//!
//! # Trust
//!
//! Only processes of one user share memory, and even so neither side trusts the other's words
//! (`ring`). A frame from a ring is like one from the wire, but no filter of the kernel has seen
//! it: the caller must check its contents.
//!
//! Who reads in a neighbour's memory gets whatever the neighbour puts there, as from a frame. The
//! reads change nothing there. A neighbour may let a read wait, by memory that it does not give; it
//! may stop or end this process as well, for both are of one user.
//!
//! The wrapper does *not* carry frames to oneself, to groups, or of programs that did not ask for
//! it.

#![cfg_attr(loom, allow(dead_code, unused_imports))]

mod access_words;
#[cfg(not(loom))]
mod buffer;
#[cfg(not(loom))]
mod frames;
#[cfg(not(loom))]
mod lender;
#[cfg(not(loom))]
mod link;
#[cfg(not(loom))]
mod neighbours;
#[cfg(not(loom))]
mod region_messages;
#[cfg(not(loom))]
mod regions;
#[cfg(not(loom))]
mod rendezvous;
mod ring;
mod sync;

pub use access_words::AccessCounts;
#[cfg(not(loom))]
pub use buffer::SharedBuffer;
#[cfg(not(loom))]
pub use link::{ShmConfig, ShmLink};
#[cfg(not(loom))]
pub use region_messages::DirectRights;
#[cfg(not(loom))]
pub use regions::DirectAccess;
#[cfg(not(loom))]
pub use rendezvous::{bind, listen, name_in_ip};
