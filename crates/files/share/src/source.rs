//! Where the server reads.

use crate::entry::{Attributes, Entry};
use crate::error::Fault;

/// What a directory has from some point on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Listed {
    /// Nothing more.
    All,
    /// More; it is listed from this point on.
    Until(u64),
}

/// The files that are shared. Paths are relative to the export; every method makes sure that they
/// stay in it.
pub trait Source {
    /// A directory that is open.
    type Directory;

    /// The attributes of what has this path, and of a symlink where it leads. A symlink at the end
    /// of the path is not followed.
    fn look(&mut self, path: &[u8]) -> Result<(Attributes, Vec<u8>), Fault>;

    /// Lists a directory from a point on, 0 at first. `take` returns whether there was room for the
    /// entry; the first one for which there was none is listed again later.
    fn list(
        &mut self,
        path: &[u8],
        from: u64,
        take: &mut dyn FnMut(&Entry) -> bool,
    ) -> Result<Listed, Fault>;

    /// Opens a directory for its small files.
    fn directory(&mut self, path: &[u8]) -> Result<Self::Directory, Fault>;

    /// Appends a whole file of a directory, if it has at most `most` bytes, and returns the
    /// attributes that it had before and after.
    fn small(
        &mut self,
        directory: &Self::Directory,
        name: &[u8],
        most: usize,
        out: &mut Vec<u8>,
    ) -> Result<Attributes, Fault>;

    /// Reads bytes of this version of a file into all of `out`.
    fn read(&mut self, path: &[u8], version: u64, offset: u64, out: &mut [u8])
    -> Result<(), Fault>;

    /// The next bytes that are not a hole, from `from` on: first byte, and the first one behind
    /// them. `None` if only a hole follows.
    fn data(&mut self, path: &[u8], version: u64, from: u64) -> Result<Option<(u64, u64)>, Fault>;
}
