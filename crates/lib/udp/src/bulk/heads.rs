//! Memory for what is in front of data that are lent.
//!
//! It is lent, too. So each peer has memory of its own, which goes back to the kernel with the
//! peer: a receiver on this machine that leaves a frame unread sees only what was written for it.

use rustix::io::Errno;
use rustix::mm::{MapFlags, ProtFlags};
use std::ptr::NonNull;

/// Bytes of the smallest page.
pub(super) const PAGE: usize = 4096;

/// More than the transmit frames of a link. So when a page is used again, the peer has acknowledged
/// the frame that had it.
pub(super) const PAGES: usize = 512;

/// Pages that are used one after the other. There are none before the first one is taken.
#[derive(Debug, Default)]
pub(super) struct HeadPages {
    base: Option<NonNull<u8>>,
    next: usize,
}

// SAFETY: the memory is the value's own.
unsafe impl Send for HeadPages {}

impl HeadPages {
    /// The next page. The first one takes a system call, some 0.2 ms: all get their memory, so that
    /// no page fault counts against lending.
    pub(super) fn take(&mut self) -> Result<&mut [u8; PAGE], Errno> {
        let base = match self.base {
            Some(base) => base,
            None => {
                let access = ProtFlags::READ | ProtFlags::WRITE;
                let (none, flags) = (std::ptr::null_mut(), MapFlags::PRIVATE | MapFlags::POPULATE);
                // SAFETY: a fresh anonymous mapping aliases nothing.
                let base =
                    unsafe { rustix::mm::mmap_anonymous(none, PAGES * PAGE, access, flags)? };
                let base = NonNull::new(base.cast()).ok_or(Errno::NOMEM)?;
                *self.base.insert(base)
            }
        };
        let at = self.next * PAGE;
        self.next = (self.next + 1) % PAGES;
        // SAFETY: within the mapping, of which nobody else has a reference: this one borrows the
        // value.
        Ok(unsafe { base.add(at).cast().as_mut() })
    }

    /// The page that was taken last is not in use.
    pub(super) fn put_back(&mut self) {
        self.next = (self.next + PAGES - 1) % PAGES;
    }
}

impl Drop for HeadPages {
    fn drop(&mut self) {
        if let Some(base) = self.base {
            // SAFETY: no reference outlives the value. The kernel keeps the pages that it has.
            let _ = unsafe { rustix::mm::munmap(base.as_ptr().cast(), PAGES * PAGE) };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_is_used_again_after_all_others_or_if_it_was_put_back() {
        let mut pages = HeadPages::default();
        for n in 0..PAGES {
            *pages.take().unwrap() = [n as u8; PAGE];
        }
        assert_eq!(pages.take().unwrap(), &[0; PAGE]);
        assert_eq!(pages.take().unwrap(), &[1; PAGE]);
        pages.put_back();
        assert_eq!(pages.take().unwrap(), &[1; PAGE]);
        assert_eq!(pages.take().unwrap(), &[2; PAGE]);
    }
}
