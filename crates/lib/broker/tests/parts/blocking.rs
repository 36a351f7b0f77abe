//! Clients that hold on to what they share with the broker: the lock of their memory's inode, and
//! messages that they do not read.

use super::{BOUND, NOBODY, Testbed, request, until};
use gigae_broker::{ANSWER_LEN, Answer, BrokerError, RefusalCode, filled};
use gigae_link::{LentMemory, Remaining};
use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd};
use rustix::mm::{MapFlags, ProtFlags};
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendFlags, SocketAddrUnix,
    SocketFlags, SocketType,
};
use std::ffi::c_void;
use std::io::IoSliceMut;
use std::mem::MaybeUninit;
use std::thread::JoinHandle;

/// What makes root one of those who are allowed.
const ROOT_TOO: &str = "groups = [0]\n";

/// Of linux/userfaultfd.h.
const UFFD_API: u64 = 0xaa;
const UFFDIO_API: libc::Ioctl = 0xc018_aa3f_u32 as libc::Ioctl;
const UFFDIO_REGISTER: libc::Ioctl = 0xc020_aa00_u32 as libc::Ioctl;
const UFFDIO_REGISTER_MODE_MISSING: u64 = 1;

const PAGE: usize = 4096;

/// A write(2) to a file that never ends, and holds the lock of the file's inode all that time: its
/// source is a page whose faults go to a userfaultfd, which no thread serves.
struct HeldWrite {
    faults: Option<OwnedFd>,
    page: *mut c_void,
    writer: Option<JoinHandle<()>>,
}

impl HeldWrite {
    /// Returns when the write waits for its page.
    fn start(file: &OwnedFd) -> Self {
        let access = ProtFlags::READ | ProtFlags::WRITE;
        let map = || {
            // SAFETY: a fresh mapping aliases nothing.
            unsafe {
                rustix::mm::mmap_anonymous(std::ptr::null_mut(), PAGE, access, MapFlags::PRIVATE)
            }
        };
        let page = map().unwrap();
        // SAFETY: a system call on plain numbers. It returns a descriptor that is ours.
        let faults = unsafe {
            let descriptor = libc::syscall(libc::SYS_userfaultfd, libc::O_CLOEXEC);
            assert!(descriptor >= 0, "{}", std::io::Error::last_os_error());
            OwnedFd::from_raw_fd(descriptor as i32)
        };
        let mut api = [UFFD_API, 0, 0];
        let mut range = [page as u64, PAGE as u64, UFFDIO_REGISTER_MODE_MISSING, 0];
        // SAFETY: the structures of linux/userfaultfd.h are these words, and live across the calls.
        let results = unsafe {
            let descriptor = faults.as_raw_fd();
            [
                libc::ioctl(descriptor, UFFDIO_API, api.as_mut_ptr()),
                libc::ioctl(descriptor, UFFDIO_REGISTER, range.as_mut_ptr()),
            ]
        };
        assert_eq!(results, [0; 2], "{}", std::io::Error::last_os_error());
        let (file, from) = (file.try_clone().unwrap(), page as usize);
        let writer = std::thread::spawn(move || {
            // SAFETY: the page lives until this thread has ended, and no reference points to it.
            unsafe { libc::write(file.as_raw_fd(), from as *const c_void, 1) };
        });
        let mut waits = [PollFd::new(&faults, PollFlags::IN)];
        let time = Timespec { tv_sec: BOUND.as_secs() as i64, tv_nsec: 0 };
        assert_eq!(rustix::event::poll(&mut waits, Some(&time)).unwrap(), 1, "no fault came");
        Self { faults: Some(faults), page, writer: Some(writer) }
    }
}

impl Drop for HeldWrite {
    fn drop(&mut self) {
        // The kernel serves the fault itself now.
        self.faults = None;
        let _ = self.writer.take().expect("only taken here").join();
        // SAFETY: the mapping is ours, and its only user has ended.
        let _ = unsafe { rustix::mm::munmap(self.page, PAGE) };
    }
}

fn connect(testbed: &Testbed) -> OwnedFd {
    let (family, kind, flags) = (AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC);
    let socket = testbed.inside(|| rustix::net::socket_with(family, kind, flags, None)).unwrap();
    rustix::net::connect(&socket, &SocketAddrUnix::new(testbed.socket()).unwrap()).unwrap();
    socket
}

fn say(socket: &OwnedFd, bytes: &[u8]) {
    rustix::net::send(socket, bytes, SendFlags::NOSIGNAL).unwrap();
}

/// The next answer, and a descriptor that comes with it.
fn answer(socket: &OwnedFd) -> (Answer, Option<OwnedFd>) {
    let mut bytes = [0; ANSWER_LEN];
    let mut room = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(2))];
    let mut control = RecvAncillaryBuffer::new(&mut room);
    let into = &mut [IoSliceMut::new(&mut bytes)];
    let got = rustix::net::recvmsg(socket, into, &mut control, RecvFlags::CMSG_CLOEXEC).unwrap();
    let descriptor = control.drain().find_map(|message| match message {
        RecvAncillaryMessage::ScmRights(mut descriptors) => descriptors.next(),
        _ => None,
    });
    (Answer::parse(&bytes[..got.bytes]).unwrap(), descriptor)
}

/// Whether root, whose limit is used up, is refused for it, again and again.
fn has_no_room(testbed: &Testbed) {
    for _ in 0..3 {
        match testbed.open(&request()) {
            Err(BrokerError::Refused(refusal)) if refusal.why == RefusalCode::Limit => {}
            Err(other) => panic!("{other}"),
            Ok(_) => panic!("there is room"),
        }
    }
}

/// A client writes to its memory, which takes the lock of the memory's inode, and the write does
/// not end.
pub(crate) fn the_lock_of_memory() {
    let testbed = Testbed::new("lock", &format!("{ROOT_TOO}ports_per_user = 1"));
    let connection = connect(&testbed);
    say(&connection, &request().bytes());
    let (Answer::Memory, Some(memory)) = answer(&connection) else { panic!("no memory") };
    let (bytes, access) = (request().memory(), ProtFlags::READ | ProtFlags::WRITE);
    let flags = MapFlags::SHARED | MapFlags::POPULATE;
    // SAFETY: a mapping at a new place, of which nothing is read.
    let pages = unsafe { rustix::mm::mmap(std::ptr::null_mut(), bytes, access, flags, &memory, 0) };
    let held = HeldWrite::start(&memory);
    say(&connection, &filled());
    drop(testbed.echo(NOBODY).unwrap());
    let (Answer::Refusal(refusal), None) = answer(&connection) else { panic!("it has a port") };
    assert!(refusal.text.contains("not sealed"), "{}", refusal.text);
    drop((connection, memory));
    // SAFETY: the mapping is ours, and nothing uses it.
    unsafe { rustix::mm::munmap(pages.unwrap(), bytes) }.unwrap();
    // While the write is held, the broker asks whether the memory is gone. That does not hold the
    // broker up either.
    has_no_room(&testbed);
    drop(testbed.echo(NOBODY).unwrap());
    drop(held);
}

/// The same of the check whether memory is still in use. A sealed file cannot be locked so on every
/// kernel, so the memory here is not sealed.
pub(crate) fn a_check_of_locked_memory() {
    let memory = LentMemory::new(PAGE).unwrap();
    memory.unmap();
    let held = HeldWrite::start(&memory.lend().unwrap());
    let (tell, told) = std::sync::mpsc::channel();
    let check = std::thread::spawn(move || tell.send(memory.remaining()).unwrap());
    let remaining = told.recv_timeout(BOUND);
    drop(held);
    check.join().unwrap();
    assert_eq!(remaining, Ok(Remaining::Something));
}

/// A client keeps its end of connections that have ended, and does not read what was sent to it.
pub(crate) fn unread_messages() {
    let testbed = Testbed::new("unread", &format!("{ROOT_TOO}ports_per_user = 2"));
    let ask = || {
        let connection = connect(&testbed);
        say(&connection, &request().bytes());
        // The broker hangs up for this.
        say(&connection, b"x");
        connection
    };
    let unread = [ask(), ask()];
    for connection in &unread {
        let mut ended = [PollFd::from_borrowed_fd(connection.as_fd(), PollFlags::RDHUP)];
        let time = Timespec { tv_sec: BOUND.as_secs() as i64, tv_nsec: 0 };
        assert_eq!(rustix::event::poll(&mut ended, Some(&time)).unwrap(), 1, "it has not ended");
    }
    // The descriptors in the messages count for the broker's user in the kernel.
    has_no_room(&testbed);
    drop(testbed.echo(NOBODY).unwrap());
    drop(unread);
    let mut ports = Vec::new();
    let has_room = || {
        ports.extend(testbed.open(&request()).ok());
        ports.len() == 2
    };
    until(has_room, || "what is gone makes room".to_owned());
}
