//! Files that only have the name of an endpoint's memory: an observer does not open them. Needs
//! root, for a file system of the test's own.

use gigae_observe::{Encapsulation, EndpointDescription, LinkDescription, Publisher, find};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{AtFlags, FileType, MemfdFlags, Mode, OFlags, SealFlags};
use rustix::mount::{FsMountFlags, FsOpenFlags, MountAttrFlags};
use std::os::fd::{AsRawFd, OwnedFd};

/// By which observers know an endpoint's memory.
const NAME: &str = "memfd:gigae-endpoint";

/// A file system without a place, of which a path therefore begins at its own root.
fn unplaced() -> OwnedFd {
    let context = rustix::mount::fsopen("tmpfs", FsOpenFlags::FSOPEN_CLOEXEC).unwrap();
    rustix::mount::fsconfig_create(&context).unwrap();
    let flags = FsMountFlags::FSMOUNT_CLOEXEC;
    rustix::mount::fsmount(&context, flags, MountAttrFlags::empty()).unwrap()
}

/// A file of this kind, which is called like a memfd then.
fn planted(kind: FileType, access: OFlags) -> OwnedFd {
    let root = unplaced();
    rustix::fs::mknodat(&root, NAME, kind, Mode::RWXU, 0).unwrap();
    let file = rustix::fs::openat(&root, NAME, access, Mode::empty()).unwrap();
    rustix::fs::unlinkat(&root, NAME, AtFlags::empty()).unwrap();
    let shown = std::fs::read_link(format!("/proc/self/fd/{}", file.as_raw_fd())).unwrap();
    assert_eq!(shown.to_str(), Some("/memfd:gigae-endpoint (deleted)"), "the test's own doing");
    file
}

/// Of an endpoint's memory.
fn length() -> u64 {
    let link = LinkDescription {
        interface: "eth0".into(),
        mode: "packet".into(),
        mac: [2, 0, 0, 0, 0, 1],
        max_frame: 1514,
    };
    let about = EndpointDescription {
        opened: 5,
        port: 1,
        wire: Encapsulation::Ethernet(0x88b5),
        channels: [1, 0, 0, 0],
        links: vec![link],
        names: [Vec::new(), Vec::new(), Vec::new()],
    };
    let _observed = Publisher::new(&about).unwrap();
    let found = find(Some(std::process::id())).unwrap();
    std::fs::metadata(found.endpoints[0].path()).unwrap().len()
}

fn look() {
    assert!(find(Some(std::process::id())).unwrap().endpoints.is_empty());
}

fn events(file: &OwnedFd) -> PollFlags {
    let mut wanted = [PollFd::new(file, PollFlags::IN)];
    poll(&mut wanted, Some(&Timespec::default())).unwrap();
    wanted[0].revents()
}

fn a_fifo_that_is_called_like_a_memfd_is_not_opened() {
    let fifo = planted(FileType::Fifo, OFlags::RDONLY | OFlags::NONBLOCK);
    assert!(events(&fifo).is_empty());
    look();
    // A writer that came and went is seen.
    assert!(events(&fifo).is_empty(), "an observer opened the FIFO");
    let path = format!("/proc/self/fd/{}", fifo.as_raw_fd());
    drop(rustix::fs::open(path, OFlags::RDWR | OFlags::NONBLOCK, Mode::empty()).unwrap());
    assert_eq!(events(&fifo), PollFlags::HUP, "the test's own doing");
}

fn a_file_that_is_called_like_a_memfd_is_not_opened() {
    let file = planted(FileType::RegularFile, OFlags::RDWR);
    let watch = rustix::fs::inotify::init(rustix::fs::inotify::CreateFlags::NONBLOCK).unwrap();
    let path = format!("/proc/self/fd/{}", file.as_raw_fd());
    let opened = rustix::fs::inotify::WatchFlags::OPEN;
    rustix::fs::inotify::add_watch(&watch, &path, opened).unwrap();
    look();
    assert!(events(&watch).is_empty(), "an observer opened the file");
    drop(std::fs::File::open(&path).unwrap());
    assert_eq!(events(&watch), PollFlags::IN, "the test's own doing");
}

fn a_memfd_that_is_not_sealed_or_of_another_user_is_not_opened_for_writing() {
    let len = length();
    let memfd = |seals: SealFlags, owner: u32| {
        let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
        let fd = rustix::fs::memfd_create("gigae-endpoint", flags).unwrap();
        rustix::fs::ftruncate(&fd, len).unwrap();
        rustix::fs::fcntl_add_seals(&fd, seals).unwrap();
        rustix::fs::fchown(&fd, Some(rustix::fs::Uid::from_raw(owner)), None).unwrap();
        fd
    };
    for memory in [memfd(SealFlags::empty(), 0), memfd(SealFlags::SHRINK, 1)] {
        let path = format!("/proc/self/fd/{}", memory.as_raw_fd());
        let watch = rustix::fs::inotify::init(rustix::fs::inotify::CreateFlags::NONBLOCK).unwrap();
        let written = rustix::fs::inotify::WatchFlags::CLOSE_WRITE;
        rustix::fs::inotify::add_watch(&watch, &path, written).unwrap();
        look();
        assert!(events(&watch).is_empty(), "an observer opened it for writing");
        drop(std::fs::File::options().write(true).open(&path).unwrap());
        assert_eq!(events(&watch), PollFlags::IN, "the test's own doing");
    }
}

fn main() {
    gigae_fabric::testing::run(&[
        (
            "a_fifo_that_is_called_like_a_memfd_is_not_opened",
            a_fifo_that_is_called_like_a_memfd_is_not_opened,
        ),
        (
            "a_file_that_is_called_like_a_memfd_is_not_opened",
            a_file_that_is_called_like_a_memfd_is_not_opened,
        ),
        (
            "a_memfd_that_is_not_sealed_or_of_another_user_is_not_opened_for_writing",
            a_memfd_that_is_not_sealed_or_of_another_user_is_not_opened_for_writing,
        ),
    ]);
}
