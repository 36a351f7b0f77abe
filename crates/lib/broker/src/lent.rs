//! What the broker has lent to clients, and whether they still have it.
//!
//! A client that hangs up may keep its descriptors, or may have given copies to other processes. So
//! everything that it was lent counts until the kernel says that it is gone:
//!
//! - **Socket and claim.** An epoll instance forgets a file when its last copy and its last mapping
//!   are gone, in whatever process (epoll(7), question 6). The broker adds both files, closes its
//!   own copies, and reads which ones are left (proc(5), `/proc/pid/fdinfo`).
//! - **Memory.** The kernel gives a lease on it only if no other file of it is open. Then the
//!   broker seals it, which the kernel permits only if no page of it is registered with a socket
//!   ([`LentMemory`]). A client may have such a socket in its own namespace, where it shares the
//!   memory and outlives the port.
//!
//! Both also see a file that is in flight in a message which the client does not read. The kernel
//! counts such files for the broker's user (unix(7), `ETOOMANYREFS`), so they must not become more
//! than the limits allow.
//!
//! A client can seal its memory against further seals (`F_SEAL_SEAL`), since every process that may
//! write to a memfd may. Then nothing shows whether a socket still has it. When all files are gone,
//! the broker closes such a memory, and what the client was granted counts until the broker ends.

use crate::quotas::PortGrant;
use gigae_link::{LentMemory, Remaining};
use rustix::event::epoll;
use rustix::fd::{AsRawFd, BorrowedFd, OwnedFd};
use std::fs::File;
use std::io::{self, Read, Seek};
use std::time::{Duration, Instant};

/// Pause between the first two checks whether something is gone. A process that ends closes one
/// file after the other, and the kernel ends a socket in a separate task.
const FIRST_PAUSE: Duration = Duration::from_millis(10);

/// The pause doubles with each check, up to this.
const LONGEST_PAUSE: Duration = Duration::from_secs(1);

/// Time after the end of the interface within which the rest usually goes, too.
const GOES_WITHIN: Duration = Duration::from_millis(500);

/// Files that are lent.
#[derive(Debug)]
pub(crate) struct LentFiles {
    files: OwnedFd,
    /// The kernel's list of them.
    list: File,
}

impl LentFiles {
    pub(crate) fn new() -> io::Result<Self> {
        if LentMemory::new(1)?.is_open() {
            let text = "this kernel gives no leases, by which the broker sees what clients keep; \
                        run 'sysctl fs.leases-enable=1'";
            return Err(io::Error::new(io::ErrorKind::Unsupported, text));
        }
        let files = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        let list = File::open(format!("/proc/self/fdinfo/{}", files.as_raw_fd()))?;
        Ok(Self { files, list })
    }

    /// Watches the files of a loan.
    pub(crate) fn watch(&self, loan: u64, files: [BorrowedFd<'_>; 2]) -> io::Result<()> {
        let data = epoll::EventData::new_u64(loan);
        let add = |file| epoll::add(&self.files, file, data, epoll::EventFlags::empty());
        Ok(files.into_iter().try_for_each(add)?)
    }

    /// Whether any process has a file of this loan.
    pub(crate) fn holds(&mut self, loan: u64) -> io::Result<bool> {
        Ok(self.loans()?.contains(&loan))
    }

    /// The loans of all files that still exist, one for each file.
    pub(crate) fn loans(&mut self) -> io::Result<Vec<u64>> {
        let mut text = String::new();
        self.list.rewind()?;
        self.list.read_to_string(&mut text)?;
        Ok(text.lines().filter_map(loan).collect())
    }
}

/// The loan in a line such as `tfd:        5 events:        0 data:                1  pos:0 ino:1
/// sdev:8`.
fn loan(line: &str) -> Option<u64> {
    let (_, data) = line.strip_prefix("tfd:")?.split_once(" data:")?;
    u64::from_str_radix(data.split_whitespace().next()?, 16).ok()
}

/// What is lent to one client.
#[derive(Debug)]
pub(crate) struct Loan<I> {
    /// Its number in the [`LentFiles`].
    pub(crate) id: u64,
    pub(crate) grant: PortGrant,
    /// The interface, until the client ends.
    pub(crate) interface: Option<I>,
    /// Its name, once there was one.
    pub(crate) name: Option<String>,
    pub(crate) memory: LentMemory,
    /// When its client ended.
    ended: Option<Instant>,
    /// The next check, and the pause before the one after it.
    due: Instant,
    pause: Duration,
}

impl<I> Loan<I> {
    /// A loan of memory so far.
    pub(crate) fn new(id: u64, grant: PortGrant, memory: LentMemory, now: Instant) -> Self {
        let (interface, name, pause) = (None, None, FIRST_PAUSE);
        Self { id, grant, interface, name, memory, ended: None, due: now, pause }
    }

    /// Removes the interface. Returns true if there was one.
    pub(crate) fn remove(&mut self, now: Instant) -> bool {
        self.ended.get_or_insert(now);
        self.memory.unmap();
        self.interface.take().is_some()
    }

    /// When to check next.
    pub(crate) fn due(&self) -> Instant {
        self.due
    }

    /// Whether it will soon be gone, if its client is honest.
    pub(crate) fn goes(&self, now: Instant) -> bool {
        self.ended.is_none_or(|then| now.saturating_duration_since(then) < GOES_WITHIN)
    }

    /// What processes still have of it. For memory that is registered and not mapped, the kernel
    /// takes up to 150 ms to answer. No client has such memory by accident.
    pub(crate) fn left(&self, lent_files: &mut LentFiles) -> Remaining {
        if self.memory.is_open() || lent_files.holds(self.id).unwrap_or(true) {
            return Remaining::Something;
        }
        match self.name {
            Some(_) => self.memory.remaining(),
            // There was no port, and the client's own sockets are not the broker's business.
            None => Remaining::Nothing,
        }
    }

    /// It still exists: check again later.
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
    use rustix::fs::SealFlags;
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
        // A copy that is in flight in a message also counts.
        let (to, from) = pair();
        crate::message::send(&to, b"x", &[copy.as_fd()]).unwrap();
        drop(copy);
        assert!(lent_files.holds(7).unwrap() && !lent_files.holds(8).unwrap());
        drop((to, from));
        assert!(!lent_files.holds(7).unwrap());
    }

    /// A loan whose client has ended, and the descriptor of its memory.
    fn lend(name: Option<&str>) -> (Loan<()>, OwnedFd) {
        let memory = LentMemory::new(8192).unwrap();
        let theirs = memory.lend().unwrap();
        let config = "nics = ['eth1']\nusers = ['*']";
        let config = crate::BrokerConfig::parse(config, "b.toml".as_ref()).unwrap();
        let mut quotas = crate::Quotas::new(config);
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
        let grant = quotas.grant(&peer, &request).unwrap();
        let mut loan = Loan::new(1, grant, memory, Instant::now());
        loan.name = name.map(str::to_owned);
        assert!(!loan.remove(Instant::now()));
        (loan, theirs)
    }

    const PORT: Option<&str> = Some("gigae0");

    #[test]
    fn memory_that_is_open_or_mapped_is_not_gone() {
        for name in [PORT, None] {
            let ((loan, theirs), mut lent_files) = (lend(name), LentFiles::new().unwrap());
            assert_eq!(loan.left(&mut lent_files), Remaining::Something);
            // SAFETY: the only mapping.
            let arena = unsafe { Arena::of(&theirs, 8192) }.unwrap();
            drop(theirs);
            assert_eq!(loan.left(&mut lent_files), Remaining::Something);
            drop(arena);
            assert_eq!(loan.left(&mut lent_files), Remaining::Nothing);
        }
    }

    #[test]
    fn memory_in_a_message_that_is_not_read_is_not_gone() {
        let ((loan, theirs), mut lent_files) = (lend(None), LentFiles::new().unwrap());
        let (to, from) = pair();
        crate::message::send(&to, b"x", &[theirs.as_fd()]).unwrap();
        drop((theirs, to));
        assert_eq!(loan.left(&mut lent_files), Remaining::Something);
        drop(from);
        assert_eq!(loan.left(&mut lent_files), Remaining::Nothing);
    }

    #[test]
    fn memory_that_its_client_sealed_is_unknown_once_the_files_are_gone() {
        let ((loan, theirs), mut lent_files) = (lend(PORT), LentFiles::new().unwrap());
        let (one, other) = pair();
        lent_files.watch(1, [one.as_fd(), other.as_fd()]).unwrap();
        rustix::fs::fcntl_add_seals(&theirs, SealFlags::SEAL).unwrap();
        drop(theirs);
        assert_eq!(loan.left(&mut lent_files), Remaining::Something);
        drop((one, other));
        assert_eq!(loan.left(&mut lent_files), Remaining::Unknown);
        // A process that also seals it against writing has shown that the memory is unused.
        let (loan, theirs) = lend(PORT);
        rustix::fs::fcntl_add_seals(&theirs, SealFlags::WRITE | SealFlags::SEAL).unwrap();
        drop(theirs);
        assert_eq!(loan.left(&mut lent_files), Remaining::Nothing);
    }
}
