//! The files of a transfer: what is shared ([`Export`], [`Picks`]) and where fetched files go
//! ([`Destination`]).
//!
//! Paths are bytes and come from the other end. The kernel makes sure that none leads out:
//! everything is opened from the descriptor of the export or of the destination with openat2(2)
//! and `RESOLVE_BENEATH`. Beneath an export, symlinks are followed as long as they stay in it, but
//! not for a file system that is mounted: there the other end's kernel follows them.
//! Beneath a destination, no symlink is followed: the other end may have made it.
//!
//! A file gets its name when all of it is there. A small one has none before, where the file system
//! allows that. All others have a temporary name beside their own. What is left of a large file
//! under its temporary name is used by the next try.

#![forbid(unsafe_code)]

mod beneath;
mod changes;
mod destination;
mod export;
mod fault;
mod inode;
mod partial;
mod picks;
mod small;
mod syncs;
mod watches;

pub use destination::{Destination, Place};
pub use export::Export;
pub use picks::{Pick, Picks};
pub use syncs::Synced;
