//! A share as a file system of this host, by FUSE.
//!
//! The kernel's requests become questions to the server, and the server's replies become answers to
//! the kernel. [`Mounted`] does that without a socket and without a clock. Its caller sends and
//! receives, as it does for a copy.
//!
//! - `fuser` reads the kernel's requests in a thread of its own, and puts them into a queue. The
//!   caller's thread takes them from there and writes the answers itself. So a request crosses
//!   threads once, and what was read goes from the message's memory straight to the kernel.
//! - A directory in which programs look at many names is listed in the background. Later looks at
//!   files that the kernel does not know are answered from the list, by the thread that has read
//!   them.
//! - The answer to a change has the directory in which a name was made or removed. The kernel asks
//!   for that next, and gets it from the same thread.
//! - A file has the server's identity for it as its inode number. A path is made from the names by
//!   which the kernel has found the file.
//! - The kernel keeps names and attributes for [a second](TIME_TO_LIVE). Opening a file always asks
//!   the server. The kernel keeps a file's bytes for the next opening if its version is the same.
//! - What a program writes goes to the server while the program goes on. Closing a file, and
//!   fsync(2), wait until the server has it, and say what went wrong. Unless it is mounted for
//!   writing, the kernel refuses to write with EROFS.
//!
//! What the kernel waits for has an answer after a bounded time, if need be EIO.

#![forbid(unsafe_code)]

mod answers;
mod calls;
mod directories;
mod edits;
mod inodes;
mod kernel;
mod lifetime;
mod listings;
mod mounted;
mod mountpoint;
mod names;
mod parents;
#[cfg(test)]
mod testing;
mod writes;
mod writing;

pub use lifetime::TIME_TO_LIVE;
pub use mounted::Mounted;
pub use mountpoint::{MountError, Mountpoint, Options, unmount_if_there};
