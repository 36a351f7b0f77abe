//! What programs change in a mount.

use crate::common::{Mount, Two, is, signal, until};
use crate::sharing::{Share, bytes, fails, files};
use rustix::io::Errno;
use std::fs;
use std::io::{Read, Seek, SeekFrom, Write};
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, UNIX_EPOCH};
use tempfile::TempDir;

const WRITABLE: [&str; 2] = ["--writable", "--trust-every-node"];

fn share(two: &Two) -> Share {
    Share::start(&two.fabric.node(1), two.shared.path(), &WRITABLE)
}

/// A mount to write to, the share behind it, and a way from a path in the one to that in the other.
pub(crate) fn writable(test: &str, more: &[&str]) -> (Two, Share, Mount) {
    let two = Two::new(test, 1000);
    let share = share(&two);
    let mount = two.mount("", &[&["--writable"], more].concat());
    (two, share, mount)
}

pub(crate) fn what_is_written_is_at_the_node_when_the_file_is_closed() {
    let (two, _share, mount) = writable("written", &[]);
    let there = |path: &str| two.shared.path().join(path);
    for (n, len) in [0, 1, 4096, 300_000, 5 << 20].into_iter().enumerate() {
        let name = format!("new-{n}");
        fs::write(mount.path(&name), bytes(n as u32, len)).unwrap();
        assert!(fs::read(there(&name)).unwrap() == bytes(n as u32, len), "{len}");
        assert!(fs::read(mount.path(&name)).unwrap() == bytes(n as u32, len), "{len}");
        // Shorter, in the place of what is there.
        fs::write(mount.path(&name), b"other").unwrap();
        assert_eq!(fs::read(there(&name)).unwrap(), b"other");
    }
    let options = || fs::File::options().read(true).write(true).clone();
    let mut file = options().create_new(true).mode(0o604).open(mount.path("part")).unwrap();
    file.write_all(b"0123456789").unwrap();
    file.seek(SeekFrom::Start(4)).unwrap();
    file.write_all(b"ab").unwrap();
    file.write_all_at(b"end", 1 << 20).unwrap();
    file.sync_all().unwrap();
    let mut text = vec![0; (1 << 20) + 3];
    text[..10].copy_from_slice(b"0123ab6789");
    text[1 << 20..].copy_from_slice(b"end");
    assert!(fs::read(there("part")).unwrap() == text);
    let mut read = Vec::new();
    file.seek(SeekFrom::Start(0)).unwrap();
    file.read_to_end(&mut read).unwrap();
    assert!(read == text);
    file.set_len(6).unwrap();
    assert_eq!(fs::read(there("part")).unwrap(), b"0123ab");
    let umask = rustix::process::umask(rustix::fs::Mode::empty());
    rustix::process::umask(umask);
    let mode = 0o604 & !umask.as_raw_mode();
    assert_eq!(fs::metadata(there("part")).unwrap().mode() & 0o777, mode);
    is(options().create_new(true).open(mount.path("part")), Errno::EXIST);
    let mut more = fs::File::options().append(true).open(mount.path("part")).unwrap();
    more.write_all(b"more").unwrap();
    // The program itself sees it at once.
    assert_eq!(fs::metadata(mount.path("part")).unwrap().len(), 10);
    drop(more);
    assert_eq!(fs::read(there("part")).unwrap(), b"0123abmore");
    // What another node writes meanwhile is seen, too.
    fs::write(there("part"), b"by the node").unwrap();
    assert_eq!(fs::read(mount.path("part")).unwrap(), b"by the node");
}

pub(crate) fn names_and_attributes_are_changed() {
    let (two, _share, mount) = writable("names", &[]);
    let there = |path: &str| two.shared.path().join(path);
    fs::create_dir_all(mount.path("d/e")).unwrap();
    fs::write(mount.path("d/e/file"), b"text").unwrap();
    is(fs::create_dir(mount.path("d")), Errno::EXIST);
    is(fs::remove_dir(mount.path("d")), Errno::NOTEMPTY);
    let open = fs::File::open(mount.path("d/e/file")).unwrap();
    fs::rename(mount.path("d/e"), mount.path("moved")).unwrap();
    assert_eq!(fs::read(there("moved/file")).unwrap(), b"text");
    assert_eq!(fs::read(mount.path("moved/file")).unwrap(), b"text");
    let mut text = [0; 4];
    open.read_exact_at(&mut text, 0).unwrap();
    assert_eq!(&text, b"text");
    is(fs::read(mount.path("d/e/file")), Errno::NOENT);
    // In the place of another file.
    fs::write(mount.path("d/old"), b"old").unwrap();
    fs::rename(mount.path("moved/file"), mount.path("d/old")).unwrap();
    assert_eq!(fs::read(mount.path("d/old")).unwrap(), b"text");
    symlink("../nowhere", mount.path("d/link")).unwrap();
    assert_eq!(fs::read_link(there("d/link")).unwrap(), Path::new("../nowhere"));
    fs::set_permissions(mount.path("d/old"), fs::Permissions::from_mode(0o4751)).unwrap();
    assert_eq!(fs::metadata(there("d/old")).unwrap().mode() & 0o7777, 0o751);
    fs::set_permissions(mount.path("d"), fs::Permissions::from_mode(0o700)).unwrap();
    assert_eq!(fs::metadata(there("d")).unwrap().mode() & 0o7777, 0o700);
    let file = fs::File::options().write(true).open(mount.path("d/old")).unwrap();
    for time in [UNIX_EPOCH + Duration::new(5, 6), UNIX_EPOCH - Duration::from_millis(1500)] {
        file.set_modified(time).unwrap();
        assert_eq!(fs::metadata(there("d/old")).unwrap().modified().unwrap(), time);
        assert_eq!(fs::metadata(mount.path("d/old")).unwrap().modified().unwrap(), time);
    }
    is(std::os::unix::fs::chown(mount.path("d/old"), Some(7), None), Errno::PERM);
    fs::hard_link(mount.path("d/old"), mount.path("hard")).unwrap();
    assert_eq!(
        fs::metadata(there("hard")).unwrap().ino(),
        fs::metadata(there("d/old")).unwrap().ino()
    );
    assert_eq!(fs::metadata(mount.path("hard")).unwrap().nlink(), 2);
    is(fs::hard_link(mount.path("d/old"), mount.path("hard")), Errno::EXIST);
    fs::File::open(mount.path("d")).unwrap().sync_all().unwrap();
    let fifo = Command::new("mkfifo").arg(mount.path("fifo")).stderr(Stdio::null()).status();
    assert!(!fifo.unwrap().success());
    drop((file, open));
    fs::remove_dir_all(mount.path("d")).unwrap();
    fs::remove_dir(mount.path("moved")).unwrap();
    assert!(!there("d").exists() && !there("moved").exists());
    is(fs::remove_file(mount.path("d/old")), Errno::NOENT);
}

/// As a build does: a tree is unpacked, changed and removed.
pub(crate) fn a_tree_is_copied_into_a_mount_and_removed() {
    let (two, _share, mount) = writable("into", &[]);
    let from = tempfile::TempDir::new().unwrap();
    crate::sharing::tree(from.path(), 3 << 20);
    let run = |program: &str, arguments: &[&std::ffi::OsStr]| {
        let output = Command::new(program).args(arguments).output().unwrap();
        assert!(output.status.success(), "{}", crate::sharing::says(&output.stderr));
    };
    let new = mount.path("new");
    run("cp", &["-a".as_ref(), from.path().as_ref(), new.as_ref()]);
    let known = |root: &Path| -> Vec<(PathBuf, u32, u64, std::time::SystemTime)> {
        let files = files(root).into_iter().filter(|(_, file)| !file.is_symlink());
        let known = |(path, file): (PathBuf, fs::Metadata)| {
            let len = if file.is_file() { file.len() } else { 0 };
            (path, file.mode(), len, file.modified().unwrap())
        };
        files.map(known).collect()
    };
    assert_eq!(known(from.path()), known(&two.shared.path().join("new")));
    run("diff", &["-r".as_ref(), "--no-dereference".as_ref(), from.path().as_ref(), new.as_ref()]);
    let before = files(two.shared.path()).len();
    run("rm", &["-r".as_ref(), new.as_ref()]);
    assert_eq!(files(two.shared.path()).len(), before - files(from.path()).len());
}

pub(crate) fn a_share_that_is_read_only_stays_so() {
    let two = Two::new("stays", 1000);
    let read_only = two.share();
    let before = files(two.shared.path()).len();
    let output = two.command("", &["--writable", "--patience", "2"]).output().unwrap();
    fails(&output, "gigae share --writable");
    drop(read_only);
    let first = share(&two);
    let mount = two.mount("", &["--writable", "--patience", "2"]);
    let mut open = fs::File::create(mount.path("open")).unwrap();
    let before = before + 1;
    drop(first);
    let _read_only = two.share();
    // It was writable before.
    is(fs::write(mount.path("new"), b"x"), Errno::ROFS);
    is(fs::File::options().write(true).open(mount.path("large")), Errno::ROFS);
    is(fs::remove_file(mount.path("large")), Errno::ROFS);
    assert_eq!(fs::read(mount.path("large")).unwrap(), bytes(1, 1000));
    // Also a long message has its answer.
    let _ = open.write_all(&[7; 200_000]);
    is(open.sync_all(), Errno::ROFS);
    assert_eq!(files(two.shared.path()).len(), before);
}

pub(crate) fn writing_goes_on_when_the_server_is_started_again() {
    let (two, first, mount) = writable("goes-on", &[]);
    let mut first = Some(first);
    let mut second = None;
    let mut file = fs::File::create(mount.path("long")).unwrap();
    let text = bytes(9, 1 << 20);
    for n in 0..60 {
        if n == 20 || n == 40 {
            // Killed while parts of the file are on their way.
            drop((first.take(), second.take()));
            second = Some(share(&two));
        }
        file.write_all(&text).unwrap();
        fs::write(mount.path(format!("n{n}")), [n; 10]).unwrap();
        fs::rename(mount.path(format!("n{n}")), mount.path(format!("m{n}"))).unwrap();
    }
    file.sync_all().unwrap();
    drop(file);
    let written = fs::read(two.shared.path().join("long")).unwrap();
    assert!(written.len() == 60 << 20 && written.chunks(1 << 20).all(|part| part == text));
    for n in 0..60 {
        assert_eq!(fs::read(two.shared.path().join(format!("m{n}"))).unwrap(), [n; 10]);
    }
    // One that does not come again is an error of the program that writes.
    drop(mount);
    let mut mount = two.mount("", &["--writable", "--patience", "1"]);
    let mut file = fs::File::create(mount.path("lost")).unwrap();
    drop(second);
    file.write_all(&text).unwrap();
    is(file.sync_all(), Errno::IO);
    is(file.write_all(&text), Errno::IO);
    mount.says("'lost' is not written whole");
    drop(file);
    let _third = share(&two);
    until("an answer", || fs::write(mount.path("lost"), b"again").is_ok());
    assert_eq!(fs::read(two.shared.path().join("lost")).unwrap(), b"again");
}

pub(crate) fn what_was_written_and_closed_is_seen_by_the_next_that_opens_it() {
    let (two, _share, mount) = writable("clients", &[]);
    let there = two.shared.path().to_owned();
    let at = TempDir::new().unwrap();
    let second = two.second(at.path(), &["--writable"]);
    for n in 0..20u8 {
        let (writes, reads) = if n % 2 == 0 { (&mount, &second) } else { (&second, &mount) };
        let text = vec![n; 100_000 - usize::from(n) * 1000];
        fs::write(writes.path("shared"), &text).unwrap();
        assert!(fs::read(reads.path("shared")).unwrap() == text, "{n}");
        let mut more = fs::File::options().append(true).open(reads.path("shared")).unwrap();
        more.write_all(b"more").unwrap();
        drop(more);
        let read = fs::read(writes.path("shared")).unwrap();
        assert!(read.len() == text.len() + 4 && read.ends_with(b"more"));
    }
    // One that reads nothing in between appends behind what the other one has appended.
    let mut expected = b"first\n".to_vec();
    fs::write(there.join("log"), &expected).unwrap();
    for n in 0..20 {
        let writes = if n % 2 == 0 { &mount } else { &second };
        let line = format!("line {n}\n");
        let mut log = fs::File::options().append(true).open(writes.path("log")).unwrap();
        log.write_all(line.as_bytes()).unwrap();
        drop(log);
        expected.extend_from_slice(line.as_bytes());
    }
    assert_eq!(fs::read(there.join("log")).unwrap(), expected);
    // What another one makes shorter is seen by a program that has written to it.
    let open = fs::File::create(mount.path("shorter")).unwrap();
    open.write_all_at(&[1; 1000], 0).unwrap();
    open.sync_all().unwrap();
    fs::File::options().write(true).open(second.path("shorter")).unwrap().set_len(10).unwrap();
    until("it is shorter", || open.metadata().unwrap().len() == 10);
    until("the path says so", || fs::metadata(mount.path("shorter")).unwrap().len() == 10);
    // Only one of them makes a file.
    let create = |mount: &Mount| {
        let at = mount.path("lock");
        std::thread::spawn(move || fs::File::create_new(at).is_ok())
    };
    let made = [create(&mount), create(&second)].map(|thread| thread.join().unwrap());
    assert_eq!(made.into_iter().filter(|made| *made).count(), 1);
    until("the name is known", || fs::read(second.path("lock")).is_ok());
}

/// A program here goes on to make files in the same directory.
pub(crate) fn a_name_that_another_has_made_is_seen_after_a_moment() {
    let (two, _share, mount) = writable("seen", &[]);
    let at = TempDir::new().unwrap();
    let second = two.second(at.path(), &["--writable"]);
    let there = two.shared.path().to_owned();
    for (round, other) in [at.path(), &there].into_iter().enumerate() {
        let directory = format!("d{round}");
        fs::create_dir(mount.path(&directory)).unwrap();
        let mut n = 0;
        let mut makes = || {
            n += 1;
            let path = mount.path(&directory).join(n.to_string());
            is(fs::metadata(&path), Errno::NOENT);
            fs::write(&path, b"x").unwrap();
        };
        (0..50).for_each(|_| makes());
        let name = Path::new(&directory).join("other");
        until("the other one knows the directory", || fs::write(other.join(&name), b"y").is_ok());
        // It exists, whatever is known here.
        is(fs::File::create_new(mount.path(&name)), Errno::EXIST);
        until("the name is seen", || {
            makes();
            fs::metadata(mount.path(&name)).is_ok()
        });
        fs::remove_file(other.join(&name)).unwrap();
        until("it is seen no more", || {
            makes();
            fs::metadata(mount.path(&name)).is_err()
        });
        fs::write(mount.path(&name), b"again").unwrap();
        assert_eq!(fs::read(there.join(&name)).unwrap(), b"again");
    }
    drop(second);
}

pub(crate) fn a_file_that_is_removed_while_it_is_open_is_used_until_it_is_closed() {
    let (two, _share, mount) = writable("removed", &[]);
    let hidden = || {
        let names =
            fs::read_dir(two.shared.path()).unwrap().map(|entry| entry.unwrap().file_name());
        names.filter(|name| name.to_string_lossy().starts_with(".gigae-open-")).count()
    };
    let options = || fs::File::options().read(true).write(true).create(true).clone();
    let file = options().open(mount.path("old")).unwrap();
    file.write_all_at(b"first", 0).unwrap();
    fs::remove_file(mount.path("old")).unwrap();
    is(fs::read(mount.path("old")), Errno::NOENT);
    fs::write(mount.path("old"), b"other").unwrap();
    file.write_all_at(b"second", 5).unwrap();
    file.sync_all().unwrap();
    let mut text = [0; 11];
    file.read_exact_at(&mut text, 0).unwrap();
    assert_eq!((&text, hidden()), (b"firstsecond", 1));
    drop(file);
    until("its name is removed", || hidden() == 0);
    // Another one takes its place.
    let file = options().open(mount.path("old")).unwrap();
    fs::write(mount.path("new"), b"new").unwrap();
    fs::rename(mount.path("new"), mount.path("old")).unwrap();
    assert_eq!(fs::read(two.shared.path().join("old")).unwrap(), b"new");
    file.read_exact_at(&mut text[..5], 0).unwrap();
    assert_eq!(&text[..5], b"other");
    // A name that it has besides stays.
    let two_names = options().open(mount.path("one-name")).unwrap();
    two_names.write_all_at(b"text", 0).unwrap();
    let there = |name: &str| two.shared.path().join(name);
    fs::hard_link(there("one-name"), there("other-name")).unwrap();
    fs::remove_file(mount.path("one-name")).unwrap();
    assert_eq!(hidden(), 2);
    fs::metadata(mount.path("other-name")).unwrap();
    drop(two_names);
    until("only the file in use is hidden", || hidden() == 1);
    assert_eq!(fs::read(there("other-name")).unwrap(), b"text");
    // A rename that fails leaves both files, and no other name.
    let target = options().open(mount.path("target")).unwrap();
    fs::write(mount.path("source"), b"source").unwrap();
    fs::remove_file(there("source")).unwrap();
    assert!(fs::rename(mount.path("source"), mount.path("target")).is_err());
    drop(target);
    until("its other name is removed", || hidden() == 1);
    assert!(there("target").exists());
    // The end of the command is the end of the file.
    fs::remove_file(mount.path("old")).unwrap();
    assert_eq!(hidden(), 1);
    signal(&mount.child, "INT");
    assert_eq!(mount.ends(), Some(0));
    assert_eq!(hidden(), 0);
}

pub(crate) fn what_is_written_when_the_command_ends_is_at_the_node() {
    let (two, share, mount) = writable("dirty", &[]);
    let text = bytes(4, 8 << 20);
    // What a program has not closed.
    let mut file = fs::File::create(mount.path("open")).unwrap();
    file.write_all(&text).unwrap();
    signal(&mount.child, "INT");
    assert_eq!(mount.ends(), Some(0));
    assert!(fs::read(two.shared.path().join("open")).unwrap() == text);
    is(file.write_all(&text), Errno::NOTCONN);
    drop(file);
    let mount = two.mount("", &["--writable"]);
    fs::write(mount.path("closed"), &text).unwrap();
    assert!(Command::new("umount").arg(two.at.path()).status().unwrap().success());
    assert_eq!(mount.ends(), Some(0));
    assert!(fs::read(two.shared.path().join("closed")).unwrap() == text);
    // If the node is gone, that is said.
    let mut mount = two.mount("", &["--writable", "--patience", "1"]);
    let mut file = fs::File::create(mount.path("gone")).unwrap();
    drop(share);
    file.write_all(&text).unwrap();
    signal(&mount.child, "INT");
    mount.says("'gone' is not written whole");
    mount.says("write it again");
    assert_eq!(mount.ends(), Some(1));
}

pub(crate) fn several_programs_write_at_the_same_time() {
    let (two, _share, mount) = writable("several", &[]);
    let file = fs::File::create(mount.path("one")).unwrap();
    file.set_len(16 << 20).unwrap();
    let threads: Vec<_> = (0..8u8)
        .map(|n| {
            let (one, own) = (mount.path("one"), mount.path(format!("own-{n}")));
            std::thread::spawn(move || {
                let file = fs::File::options().read(true).write(true).open(one).unwrap();
                for part in 0..64u64 {
                    // Each has its own blocks of the same file, and writes each of them twice.
                    let at = (part * 8 + u64::from(n)) * 32_768;
                    file.write_all_at(&[0xff; 32_768], at).unwrap();
                    file.write_all_at(&vec![n + 1; 32_768], at).unwrap();
                    let mut read = vec![0; 32_768];
                    file.read_exact_at(&mut read, at).unwrap();
                    assert!(read.iter().all(|byte| *byte == n + 1));
                }
                fs::write(own, vec![n; 300_000]).unwrap();
            })
        })
        .collect();
    threads.into_iter().for_each(|thread| thread.join().unwrap());
    let written = fs::read(two.shared.path().join("one")).unwrap();
    let right =
        |(n, block): (usize, &[u8])| block.iter().all(|byte| usize::from(*byte) == n % 8 + 1);
    assert!(written.len() == 16 << 20 && written.chunks(32_768).enumerate().all(right));
    for n in 0..8 {
        assert_eq!(fs::read(two.shared.path().join(format!("own-{n}"))).unwrap(), vec![n; 300_000]);
    }
}

pub(crate) fn a_full_disk_is_an_error_of_the_program_that_writes() {
    let two = Two::new("no-room", 4 << 20);
    let small = two.shared.path().join("small");
    fs::create_dir(&small).unwrap();
    let mut mount = Command::new("mount");
    mount.args(["-t", "tmpfs", "-o", "size=1m", "none"]).arg(&small);
    assert!(mount.status().unwrap().success());
    {
        let _share = Share::start(&two.fabric.node(1), &small, &WRITABLE);
        let mut mount = two.mount("", &["--writable"]);
        let space = rustix::fs::statvfs(mount.path("")).unwrap();
        assert_eq!(space.f_blocks * space.f_frsize, 1 << 20);
        let mut file = fs::File::create(mount.path("large")).unwrap();
        // It may be seen by a write, and is by the end of all of them.
        let written = file.write_all(&bytes(1, 3 << 20));
        assert!(written.is_ok() || written.unwrap_err().raw_os_error() == Some(28));
        is(file.sync_all(), Errno::NOSPC);
        mount.says("'large' is not written whole: no space left");
        // What did not arrive is seen by nobody.
        let (read, there) = (fs::read(mount.path("large")), fs::read(small.join("large")));
        assert!(read.unwrap() == there.unwrap());
        let mut cp = Command::new("cp");
        cp.arg(two.shared.path().join("a/large")).arg(mount.path("x"));
        let output = cp.output().unwrap();
        let said = crate::sharing::says(&output.stderr);
        assert!(!output.status.success() && said.contains("No space left"), "{said}");
        drop(file);
        fs::remove_file(mount.path("large")).unwrap();
        fs::write(mount.path("large"), b"fits").unwrap();
        assert_eq!(fs::read(small.join("large")).unwrap(), b"fits");
        signal(&mount.child, "INT");
        assert_eq!(mount.ends(), Some(1), "files were not written whole");
    }
    // The server has closed its files.
    until("unmounting", || Command::new("umount").arg(&small).status().unwrap().success());
}
