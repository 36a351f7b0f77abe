//! What programs see in a mount.

use crate::common::{Mount, Two, is, same, until};
use crate::sharing::{Share, bytes, fails, files, gigae, says};
use rustix::io::Errno;
use std::ffi::{OsStr, OsString};
use std::fs;
use std::io::{Read, Seek, SeekFrom};
use std::os::unix::fs::{FileExt, FileTypeExt, MetadataExt, PermissionsExt, symlink};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::Duration;

pub(crate) fn a_tree_is_seen_as_it_is() {
    let two = Two::new("seen", 40 << 20);
    let hard = two.shared.path().join("hard");
    fs::hard_link(two.shared.path().join("a/large"), &hard).unwrap();
    fs::set_permissions(&hard, fs::Permissions::from_mode(0o640)).unwrap();
    let holes = fs::File::create(two.shared.path().join("holes")).unwrap();
    holes.write_all_at(b"end", 3 << 30).unwrap();
    let before = std::time::UNIX_EPOCH - Duration::from_millis(1500);
    holes.set_modified(before).unwrap();
    let _share = two.share();
    let mount = two.mount("", &[]);
    let seen = fs::metadata(mount.path("holes")).unwrap();
    assert_eq!((seen.len(), seen.blocks()), ((3 << 30) + 3, holes.metadata().unwrap().blocks()));
    assert_eq!(seen.modified().unwrap(), before);
    let mut end = [1; 9];
    let read = fs::File::open(mount.path("holes")).unwrap().read_at(&mut end, (3 << 30) - 2);
    assert_eq!((read.unwrap(), &end[..5]), (5, &b"\0\0end"[..]));
    fs::remove_file(two.shared.path().join("holes")).unwrap();
    let changed = |path: &Path| fs::metadata(path).unwrap().modified().unwrap();
    until("the new time of the directory", || changed(two.at.path()) == changed(two.shared.path()));
    same(two.shared.path(), two.at.path());
    // A second look finds what the kernel has kept.
    same(two.shared.path(), two.at.path());
    let inode = |path: &str| fs::metadata(mount.path(path)).unwrap().ino();
    assert_eq!(inode("hard"), inode("a/large"));
    assert_ne!(inode("hard"), inode("large"));
    let mut list = Command::new("ls");
    let listed = list.env("LC_ALL", "C").arg("-1a").arg(mount.path("a")).output().unwrap();
    assert_eq!(listed.stdout, b".\n..\nb\nlarge\n\xff\x1b[2J\n");
    let free = |path: &Path| {
        let output = Command::new("stat").args(["-f", "-c", "%b %S %l"]).arg(path).output();
        says(&output.unwrap().stdout)
    };
    assert_eq!(free(two.at.path()), free(two.shared.path()));
    let mut file = fs::File::open(mount.path("large")).unwrap();
    let mut part = vec![0; 1 << 20];
    for at in [39u64 << 20, 5, 1 << 20, (40 << 20) - (1 << 20)] {
        file.seek(SeekFrom::Start(at)).unwrap();
        file.read_exact(&mut part).unwrap();
        let from = at as usize;
        assert!(part == bytes(1, 40 << 20)[from..from + (1 << 20)], "{at}");
    }
}

pub(crate) fn a_part_of_a_share_is_mounted_in_udp_datagrams() {
    let two = Two::new("part", 3 << 20);
    let udp = ["--udp", "49200"];
    let _share = Share::start(&two.fabric.node(1), two.shared.path(), &udp);
    let mut command = gigae(&two.fabric.node(2));
    command.args(["mount", "--interface", "eth0", &format!("{}:a/b/..", two.fabric.node(1).ipv4)]);
    command.arg(two.at.path()).args(udp).stderr(Stdio::piped());
    let _mount = Mount::start(command, two.at.path());
    same(&two.shared.path().join("a"), two.at.path());
}

/// More than a reply holds, and some are removed meanwhile.
pub(crate) fn a_large_directory_is_listed_whole() {
    let two = Two::new("listed", 1000);
    let many = two.shared.path().join("many");
    fs::create_dir(&many).unwrap();
    let name = |n: usize| format!("{n:0>100}");
    for n in 0..9000 {
        fs::write(many.join(name(n)), [n as u8]).unwrap();
    }
    let _share = two.share();
    let mount = two.mount("many", &[]);
    for _ in 0..2 {
        let listed = fs::read_dir(two.at.path()).unwrap();
        let mut names: Vec<_> = listed.map(|e| e.unwrap().file_name()).collect();
        names.sort();
        assert!(names == (0..9000).map(|n| name(n).into()).collect::<Vec<OsString>>());
    }
    let mut listed = fs::read_dir(two.at.path()).unwrap();
    let first = listed.next().unwrap().unwrap().file_name();
    for n in (0..9000).filter(|n| n % 2 == 1 && OsStr::new(&name(*n)) != first) {
        fs::remove_file(many.join(name(n))).unwrap();
    }
    let rest: Vec<_> = listed.map(|entry| entry.unwrap().file_name()).collect();
    let kept = (0..9000).step_by(2).filter(|n| OsStr::new(&name(*n)) != first);
    for n in kept {
        assert!(rest.iter().any(|found| found == OsStr::new(&name(n))), "{n}");
    }
    assert_eq!(fs::read(mount.path(name(8000))).unwrap(), [64]);
    is(fs::read(mount.path(name(8001))), Errno::NOENT);
}

pub(crate) fn nothing_can_be_written() {
    let two = Two::new("refused", 1000);
    // The mount is what is read-only, whatever the share is.
    let _share =
        Share::start(&two.fabric.node(1), two.shared.path(), &["--writable", "--trust-every-node"]);
    let mount = two.mount("", &[]);
    let before = files(two.shared.path()).len();
    let (large, new) = (mount.path("large"), mount.path("new"));
    is(fs::write(&new, b"x"), Errno::ROFS);
    is(fs::write(&large, b"x"), Errno::ROFS);
    is(fs::File::options().append(true).open(&large), Errno::ROFS);
    is(fs::remove_file(&large), Errno::ROFS);
    is(fs::remove_dir(mount.path("empty")), Errno::ROFS);
    is(fs::create_dir(&new), Errno::ROFS);
    is(fs::rename(&large, &new), Errno::ROFS);
    is(fs::hard_link(&large, &new), Errno::ROFS);
    is(symlink("x", &new), Errno::ROFS);
    is(fs::set_permissions(&large, fs::Permissions::from_mode(0o777)), Errno::ROFS);
    assert_eq!(files(two.shared.path()).len(), before);
    assert_eq!(fs::read(&large).unwrap(), bytes(1, 1000));
}

/// Two changes within one tick of the kernel's clock may look like one.
fn tick() {
    std::thread::sleep(Duration::from_millis(10));
}

pub(crate) fn a_file_that_was_closed_is_seen_by_the_next_program_that_opens_it() {
    let two = Two::new("closed", 1 << 20);
    let _share = two.share();
    let mount = two.mount("", &[]);
    let (there, here) = (two.shared.path().join("file"), mount.path("file"));
    is(fs::read(&here), Errno::NOENT);
    // Of the same and of other lengths, with attributes and bytes in the kernel's memory.
    for n in 0..60u32 {
        tick();
        let text = bytes(n, 10_000 + (n as usize / 2) * 977);
        fs::write(&there, &text).unwrap();
        assert!(fs::read(&here).unwrap() == text, "{n}");
        assert!(fs::read(&here).unwrap() == text, "{n}");
    }
    // Also if the time is set back.
    tick();
    let file = fs::File::options().write(true).open(&there).unwrap();
    let time = file.metadata().unwrap().modified().unwrap();
    let mut text = fs::read(&here).unwrap();
    text[5000] ^= 1;
    file.write_all_at(&text[5000..5001], 5000).unwrap();
    file.set_modified(time).unwrap();
    assert!(fs::read(&here).unwrap() == text);
    // What is open sees what is appended after a while.
    let open = fs::File::open(&here).unwrap();
    file.write_all_at(b"more", text.len() as u64).unwrap();
    let mut more = [0; 9];
    until("the new bytes", || open.read_at(&mut more, text.len() as u64).unwrap() == 4);
    assert_eq!(&more[..4], b"more");
    file.set_len(100).unwrap();
    until("the new length", || open.metadata().unwrap().len() == 100);
    assert!(fs::read(&here).unwrap() == text[..100]);
    fs::remove_file(&there).unwrap();
    is(fs::File::open(&here), Errno::NOENT);
    // A directory in the place of a file.
    fs::create_dir(&there).unwrap();
    fs::write(there.join("x"), b"x").unwrap();
    assert_eq!(fs::read(here.join("x")).unwrap(), b"x");
    fs::rename(&there, two.shared.path().join("renamed")).unwrap();
    assert_eq!(fs::read(mount.path("renamed/x")).unwrap(), b"x");
    is(fs::read(here.join("x")), Errno::NOENT);
}

/// A program gets what the file had, or its end, or an error, but no bytes that it never had.
pub(crate) fn a_file_that_becomes_shorter_has_no_zeros_at_its_end() {
    let two = Two::new("shorter", 1000);
    let _share = two.share();
    let mount = two.mount("", &[]);
    let (there, here) = (two.shared.path().join("file"), mount.path("file"));
    let (long, mut ends) = (2 << 20, 0);
    for n in 0..60u64 {
        fs::write(&there, vec![7; long]).unwrap();
        let open = fs::File::open(&here).unwrap();
        assert_eq!(open.metadata().unwrap().len(), long as u64);
        let end = n * 30_011 % 1_500_000;
        fs::File::options().write(true).open(&there).unwrap().set_len(end).unwrap();
        // Across the new end, or from the beginning on.
        let from = if n.is_multiple_of(2) { end.saturating_sub(5000) } else { 0 };
        let mut got = vec![1; long];
        let mut at = 0;
        while let Ok(read @ 1..) = open.read_at(&mut got[at..], from + at as u64) {
            assert!(got[at..at + read].iter().all(|&byte| byte == 7), "{n}: {from} and {at}");
            at += read;
        }
        ends += usize::from(from + at as u64 == end);
        assert!(fs::read(&here).unwrap() == vec![7; end as usize]);
    }
    assert!(ends > 0, "at least some end where the file does now");
}

pub(crate) fn a_file_that_was_replaced_is_never_read_as_the_former_one() {
    let two = Two::new("replaced", 1000);
    let _share = two.share();
    let mount = two.mount("", &[]);
    let (there, here) = (two.shared.path().join("file"), mount.path("file"));
    let mut stale = 0;
    for n in 0..40u8 {
        // The file system may give the new file the inode of the removed one.
        fs::write(&there, vec![n; 1 << 20]).unwrap();
        let open = fs::File::open(&here).unwrap();
        let mut first = [0; 4096];
        open.read_exact_at(&mut first, 0).unwrap();
        assert_eq!(first, [n; 4096]);
        if n.is_multiple_of(2) {
            fs::remove_file(&there).unwrap();
            fs::write(&there, vec![n + 100; 1 << 20]).unwrap();
        } else {
            let other = two.shared.path().join("other");
            fs::write(&other, vec![n + 100; 1 << 20]).unwrap();
            fs::rename(&other, &there).unwrap();
        }
        let new = || assert!(fs::read(&here).unwrap() == vec![n + 100; 1 << 20]);
        if n < 20 {
            // Until then, the server has the former file open.
            new();
        }
        let mut rest = vec![0; 4096];
        match open.read_exact_at(&mut rest, 900 << 10) {
            Ok(()) => assert_eq!(rest, [n; 4096], "of the file that is open"),
            Err(error) => {
                assert_eq!(error.raw_os_error(), Some(Errno::STALE.raw_os_error()));
                stale += 1;
            }
        }
        new();
    }
    assert!(stale > 0, "the server does not keep all that is removed");
}

pub(crate) fn symlinks_lead_to_files_of_this_host_and_devices_nowhere() {
    let two = Two::new("links", 1000);
    let shared = two.shared.path();
    symlink("a/../large", shared.join("in")).unwrap();
    symlink("b", shared.join("a/to-b")).unwrap();
    symlink("/proc/self/environ", shared.join("environ")).unwrap();
    let fifo = Command::new("mkfifo").arg(shared.join("fifo")).status();
    assert!(fifo.unwrap().success());
    let _share = two.share();
    let mount = two.mount("", &[]);
    assert_eq!(fs::read_link(mount.path("out")).unwrap(), Path::new("/etc/passwd"));
    assert_eq!(fs::read(mount.path("in")).unwrap(), bytes(1, 1000));
    assert_eq!(fs::read(mount.path("a/to-b/7")).unwrap(), bytes(7, 56));
    // This process's, not the server's.
    assert_eq!(fs::read(mount.path("environ")).unwrap(), fs::read("/proc/self/environ").unwrap());
    assert!(fs::symlink_metadata(mount.path("fifo")).unwrap().file_type().is_socket());
    is(fs::File::open(mount.path("fifo")), Errno::NXIO);
    drop(mount);
    // The server follows none.
    let fails = |directory: &str, part| {
        fails(&two.command(directory, &["--patience", "2"]).output().unwrap(), part);
    };
    fails("out", "name where it leads");
    fails("a/to-b", "name where it leads");
    fails("a/to-b/x", "leads out");
    fails("../x", "leads out");
}

pub(crate) fn several_programs_read_at_the_same_time() {
    let two = Two::new("readers", 20 << 20);
    let _share = two.share();
    let mount = two.mount("", &[]);
    std::thread::scope(|scope| {
        for n in 0..8 {
            let (shared, at) = (two.shared.path(), &mount);
            scope.spawn(move || match n {
                0 | 1 => same(shared, &at.at),
                2 => assert!(fs::read(at.path("large")).unwrap() == bytes(1, 20 << 20)),
                _ => {
                    for file in (0..700).rev().step_by(n) {
                        let read = fs::read(at.path(format!("a/b/{file}"))).unwrap();
                        assert!(read == bytes(file as u32, file * 8));
                    }
                }
            });
        }
    });
}

pub(crate) fn other_users_see_nothing_unless_they_may() {
    let two = Two::new("others", 1000);
    let set = |path: &Path, mode| {
        fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
    };
    set(two.at.path(), 0o755);
    set(two.shared.path(), 0o755);
    set(&two.shared.path().join("large"), 0o644);
    set(&two.shared.path().join("a/large"), 0o600);
    let _share = two.share();
    let cat = |path: PathBuf| -> Output {
        Command::new("cat").arg(path).uid(65_534).gid(65_534).current_dir("/").output().unwrap()
    };
    let mount = two.mount("", &[]);
    assert!(says(&cat(mount.path("large")).stderr).contains("Permission denied"));
    drop(mount);
    let mount = two.mount("", &["--allow-other"]);
    assert_eq!(cat(mount.path("large")).stdout, bytes(1, 1000));
    assert!(says(&cat(mount.path("a/large")).stderr).contains("Permission denied"));
}
