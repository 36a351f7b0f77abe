//! Where the server reads.

use crate::change::{Change, Done};
use crate::entry::{Attributes, Entry};
use crate::error::Fault;
use crate::inode::{Inode, Named, Space};

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

    /// All that a mounted file system shows of what has this path, and of a symlink where it leads.
    /// For this and the methods below, a path has no symlink before its end. What can only be
    /// copied, not mounted, need not have them.
    fn stat(&mut self, _path: &[u8]) -> Result<(Inode, Vec<u8>), Fault> {
        Err(Fault::Invalid)
    }

    /// The same of the entries of a directory, with `.` and `..`, from a point on: 0, or what came
    /// with an entry. `take` returns whether there was room for the entry. Returns whether all are
    /// there.
    fn scan(
        &mut self,
        _path: &[u8],
        _from: u64,
        _take: &mut dyn FnMut(&Named) -> bool,
    ) -> Result<bool, Fault> {
        Err(Fault::Invalid)
    }

    /// Reads bytes of the file of this identity into the beginning of `out`: as many as the file
    /// has. Returns how many, and the file as it is then.
    fn range(
        &mut self,
        _path: &[u8],
        _id: u64,
        _offset: u64,
        _out: &mut [u8],
    ) -> Result<(Inode, usize), Fault> {
        Err(Fault::Invalid)
    }

    /// Changes something. Returns what it has done.
    fn change(&mut self, _change: &Change) -> Result<Done, Fault> {
        Err(Fault::ReadOnly)
    }

    /// Begins a change. `None`: it takes long, and the caller of the server says later that it [has
    /// ended](crate::Server::finished), with this number.
    fn begin(&mut self, change: &Change, _work: u64) -> Option<Result<Done, Fault>> {
        Some(self.change(change))
    }

    /// How much room the file system has in which the file of this path is.
    fn space(&mut self, _path: &[u8]) -> Result<Space, Fault> {
        Err(Fault::Invalid)
    }
}
