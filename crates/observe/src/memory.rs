//! The shared memory of an endpoint: under the name by which observers know it, and with its descriptor open, by
//! which they find it.

use crate::layout::TOTAL_WORDS;
use rustix::fs::{Mode, OFlags};
use std::io;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::atomic::AtomicU64;

/// By which observers know it.
pub(crate) const NAME: &str = "gigae-endpoint";

/// A mapping of [`TOTAL_WORDS`] words and the descriptor behind it.
#[derive(Debug)]
pub(crate) struct Memory {
    mapped: gigae_memfd::Memory,
    pub(crate) fd: OwnedFd,
}

impl Memory {
    /// New memory, all zeros. It takes up room as it is written to.
    pub(crate) fn create() -> io::Result<Self> {
        let (mapped, fd) = gigae_memfd::Memory::create(NAME, TOTAL_WORDS)?;
        Ok(Self { mapped, fd })
    }

    /// That of another process, by its name below `/proc`. Refused unless it is a memfd of the right length that
    /// will keep it.
    pub(crate) fn open(path: &Path) -> io::Result<Self> {
        // What only has the right name may be anything: waiting for it might take for ever.
        let flags = OFlags::RDWR | OFlags::CLOEXEC | OFlags::NONBLOCK | OFlags::NOCTTY;
        let fd = rustix::fs::open(path, flags, Mode::empty())?;
        Ok(Self { mapped: gigae_memfd::Memory::map(&fd, TOTAL_WORDS)?, fd })
    }

    /// All of it.
    pub(crate) fn words(&self) -> &[AtomicU64] {
        self.mapped.words()
    }
}
