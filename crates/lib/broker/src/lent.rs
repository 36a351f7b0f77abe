//! What clients have of the broker's, and whether they still have it.
//!
//! A client that hangs up may keep its descriptors, or have given copies to other processes. So what it was lent counts
//! until the kernel says that it is gone:
//!
//! - **Socket and claim.** An epoll instance forgets a file when its last copy is closed, in whatever process it is,
//!   and mappings of it too (epoll(7), question 6). The broker puts both files in, closes its own copies, and
//!   reads which are left (proc(5), `/proc/pid/fdinfo`).
//! - **Memory.** The kernel seals a memfd against writing only when it is mapped for writing nowhere and no page of it is
//!   registered with a socket ([`fcntl(2)`](https://man7.org/linux/man-pages/man2/fcntl.2.html), `F_SEAL_WRITE`). A
//!   client may have such a socket in a namespace of its own, which shares the memory and outlives the port.
//!
//! A client can seal its memory against further seals (`F_SEAL_SEAL`), since every process that may write to a memfd may. Then
//! nothing tells whether a socket still has it. When socket and claim are gone, the broker closes such a memory, and
//! what the client was granted counts until the broker ends.

use crate::ledger::PortGrant;
use rustix::event::epoll;
use rustix::fd::{AsRawFd, BorrowedFd, OwnedFd};
use rustix::fs::SealFlags;
use std::fs::File;
use std::io::{self, Read, Seek};
use std::time::{Duration, Instant};

/// Between the first two looks whether something is gone. A process that ends closes one file after the other, and the
/// kernel ends a socket in a task of its own.
const FIRST_PAUSE: Duration = Duration::from_millis(10);

/// The pause doubles with each look, up to this.
const LONGEST_PAUSE: Duration = Duration::from_secs(1);

/// So long after its interface one may expect that the rest goes, too.
const GOES_WITHIN: Duration = Duration::from_millis(500);

/// Files that were lent.
#[derive(Debug)]
pub(crate) struct LentFiles {
    files: OwnedFd,
    /// The kernel's list of them.
    list: File,
}

impl LentFiles {
    pub(crate) fn new() -> io::Result<Self> {
        let files = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        let list = File::open(format!("/proc/self/fdinfo/{}", files.as_raw_fd()))?;
        Ok(Self { files, list })
    }

    /// Watches files of a loan.
    pub(crate) fn watch(&self, loan: u64, files: [BorrowedFd<'_>; 2]) -> io::Result<()> {
        let data = epoll::EventData::new_u64(loan);
        let add = |file| epoll::add(&self.files, file, data, epoll::EventFlags::empty());
        Ok(files.into_iter().try_for_each(add)?)
    }

    /// Whether any process has a file of this loan.
    pub(crate) fn holds(&mut self, loan: u64) -> io::Result<bool> {
        Ok(self.loans()?.contains(&loan))
    }

    /// The loans of all files that are left, one for each file.
    pub(crate) fn loans(&mut self) -> io::Result<Vec<u64>> {
        let mut text = String::new();
        self.list.rewind()?;
        self.list.read_to_string(&mut text)?;
        Ok(text.lines().filter_map(loan).collect())
    }
}

/// The loan in a line such as `tfd:        5 events:        0 data:                1  pos:0 ino:1 sdev:8`.
fn loan(line: &str) -> Option<u64> {
    let (_, data) = line.strip_prefix("tfd:")?.split_once(" data:")?;
    u64::from_str_radix(data.split_whitespace().next()?, 16).ok()
}

/// What there is of a loan.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Remaining {
    /// No process has anything of it.
    Nothing,
    /// Some process has something.
    Something,
    /// Nobody will ever know: the client saw to that.
    Unknown,
}

/// What one client was lent.
#[derive(Debug)]
pub(crate) struct Loan<I> {
    /// Its number in the [`LentFiles`].
    pub(crate) id: u64,
    pub(crate) grant: PortGrant,
    /// The interface, until the client's end.
    pub(crate) interface: Option<I>,
    pub(crate) name: String,
    pub(crate) memory: OwnedFd,
    /// When its interface was removed.
    removed: Option<Instant>,
    /// The next look, and the pause before the one after it.
    due: Instant,
    pause: Duration,
}

impl<I> Loan<I> {
    pub(crate) fn new(
        id: u64,
        grant: PortGrant,
        (interface, name): (I, String),
        memory: OwnedFd,
        now: Instant,
    ) -> Self {
        let interface = Some(interface);
        Self { id, grant, interface, name, memory, removed: None, due: now, pause: FIRST_PAUSE }
    }

    /// Removes the interface, the first time; whether it was that.
    pub(crate) fn remove(&mut self, now: Instant) -> bool {
        self.removed.get_or_insert(now);
        self.interface.take().is_some()
    }

    /// When to look next.
    pub(crate) fn due(&self) -> Instant {
        self.due
    }

    /// Whether it will be gone soon, if its client means no harm.
    pub(crate) fn goes(&self, now: Instant) -> bool {
        self.removed.is_none_or(|then| now.saturating_duration_since(then) < GOES_WITHIN)
    }

    /// What processes have of it. The kernel takes up to 150 ms to say so of memory that is registered and not
    /// mapped, which is what nobody has by accident.
    pub(crate) fn left(&self, lent_files: &mut LentFiles) -> Remaining {
        if lent_files.holds(self.id).unwrap_or(true) {
            return Remaining::Something;
        }
        let _ = rustix::fs::fcntl_add_seals(&self.memory, SealFlags::WRITE);
        match rustix::fs::fcntl_get_seals(&self.memory) {
            Ok(seals) if seals.contains(SealFlags::WRITE) => Remaining::Nothing,
            Ok(seals) if seals.contains(SealFlags::SEAL) => Remaining::Unknown,
            _ => Remaining::Something,
        }
    }

    /// It is still there: look again later.
    pub(crate) fn wait(&mut self, now: Instant) {
        self.due = now + self.pause;
        self.pause = (2 * self.pause).min(LONGEST_PAUSE);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use gigae_link::Arena;
    use rustix::fd::AsFd;
    use rustix::net::{AddressFamily, SocketFlags, SocketType};

    fn pair() -> (OwnedFd, OwnedFd) {
        let flags = SocketFlags::CLOEXEC;
        rustix::net::socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None).unwrap()
    }

    #[test]
    fn a_file_is_held_until_its_last_copy_is_closed_in_whatever_process() {
        let mut lent_files = LentFiles::new().unwrap();
        let (one, other) = pair();
        lent_files.watch(7, [one.as_fd(), other.as_fd()]).unwrap();
        let copy = one.try_clone().unwrap();
        drop((one, other));
        assert_eq!(lent_files.loans().unwrap(), [7]);
        // A copy on its way in a message counts, too.
        let (to, from) = pair();
        crate::message::send(&to, b"x", &[copy.as_fd()]).unwrap();
        drop(copy);
        assert!(lent_files.holds(7).unwrap() && !lent_files.holds(8).unwrap());
        drop((to, from));
        assert!(!lent_files.holds(7).unwrap());
    }

    /// Memory that was lent.
    fn lend() -> Loan<()> {
        let memory = Arena::reserve(8192).unwrap();
        let config = "nics = ['eth1']\nusers = ['*']";
        let config = crate::Config::parse(config, "b.toml".as_ref()).unwrap();
        let mut ledger = crate::Ledger::new(config);
        let peer = crate::PeerProcess { uid: 1, groups: Vec::new(), pid: 1, elsewhere: false };
        let channels = gigae_link::ChannelSet::EMPTY;
        let request = crate::Request {
            interface: None,
            ethertype: 0x88b5,
            channels,
            long_frames: false,
            tx_frames: 1,
            rx_frames: 1,
            rx_ready: 1,
        };
        let grant = ledger.grant(&peer, &request).unwrap();
        let interface = ((), "gigae0".to_owned());
        Loan::new(1, grant, interface, memory, Instant::now())
    }

    #[test]
    fn memory_that_is_mapped_for_writing_is_not_gone() {
        let (loan, mut lent_files) = (lend(), LentFiles::new().unwrap());
        // SAFETY: the only mapping.
        let arena = unsafe { Arena::of(&loan.memory, 8192) }.unwrap();
        assert_eq!(loan.left(&mut lent_files), Remaining::Something);
        drop(arena);
        assert_eq!(loan.left(&mut lent_files), Remaining::Nothing);
    }

    #[test]
    fn memory_that_its_client_sealed_is_unknown_once_the_files_are_gone() {
        let (loan, mut lent_files) = (lend(), LentFiles::new().unwrap());
        let (one, other) = pair();
        lent_files.watch(1, [one.as_fd(), other.as_fd()]).unwrap();
        rustix::fs::fcntl_add_seals(&loan.memory, SealFlags::SEAL).unwrap();
        assert_eq!(loan.left(&mut lent_files), Remaining::Something);
        drop((one, other));
        assert_eq!(loan.left(&mut lent_files), Remaining::Unknown);
        // Who seals it against writing as well has shown that it is gone.
        let loan = lend();
        rustix::fs::fcntl_add_seals(&loan.memory, SealFlags::WRITE | SealFlags::SEAL).unwrap();
        assert_eq!(loan.left(&mut lent_files), Remaining::Nothing);
    }
}
