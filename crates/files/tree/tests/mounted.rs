//! What an export shows to a file system that is mounted.
#![allow(missing_docs)]

use gigae_share::{Change, Done, Fault, Inode, Kind, Parent, Source};
use gigae_tree::{Export, Pick, Picks};
use std::fs;
use std::os::unix::fs::{FileExt, MetadataExt, PermissionsExt, symlink};
use std::path::Path;
use tempfile::TempDir;

fn export(directory: &TempDir) -> Export {
    Export::open(directory.path()).unwrap()
}

fn stat(export: &mut Export, path: &str) -> Inode {
    export.stat(path.as_bytes()).unwrap().0
}

/// Names and identities, listed some at a time.
fn scan(export: &mut Export, path: &[u8], at_a_time: usize) -> Vec<(Vec<u8>, u64)> {
    let (mut found, mut from) = (Vec::new(), 0);
    loop {
        let mut room = at_a_time;
        let last = export.scan(path, from, &mut |entry| {
            if room > 0 {
                room -= 1;
                found.push((entry.name.clone(), entry.inode.id));
                from = entry.next;
                return true;
            }
            false
        });
        if last.unwrap() {
            found.sort();
            return found;
        }
    }
}

#[test]
fn a_file_has_the_attributes_that_the_kernel_has() {
    let directory = TempDir::new().unwrap();
    let path = directory.path().join("file");
    fs::write(&path, [7; 5000]).unwrap();
    fs::hard_link(&path, directory.path().join("hard")).unwrap();
    symlink("file", directory.path().join("link")).unwrap();
    let mut export = export(&directory);
    let (inode, known) = (stat(&mut export, "file"), fs::metadata(&path).unwrap());
    let attributes = inode.attributes;
    assert_eq!((attributes.size, inode.blocks, inode.links), (5000, known.blocks(), 2));
    assert_eq!(
        (attributes.seconds, i64::from(attributes.nanoseconds)),
        (known.mtime(), known.mtime_nsec())
    );
    assert_eq!((inode.changed.0, i64::from(inode.changed.1)), (known.ctime(), known.ctime_nsec()));
    assert_eq!(stat(&mut export, "hard").id, inode.id);
    let (link, target) = export.stat(b"link").unwrap();
    assert_eq!((link.attributes.kind, &target[..]), (Kind::Symlink, &b"file"[..]));
    let space = export.space(b"file").unwrap();
    assert!(space.block > 0 && space.blocks[0] >= space.blocks[1]);
}

#[test]
fn a_mount_follows_no_symlink_and_stays_in_the_export() {
    let (outside, directory) = (TempDir::new().unwrap(), TempDir::new().unwrap());
    fs::write(outside.path().join("secret"), b"secret").unwrap();
    fs::create_dir(directory.path().join("a")).unwrap();
    fs::write(directory.path().join("a/file"), b"file").unwrap();
    symlink("a", directory.path().join("in")).unwrap();
    symlink("a/file", directory.path().join("to-file")).unwrap();
    symlink(outside.path(), directory.path().join("out")).unwrap();
    let mut export = export(&directory);
    let id = stat(&mut export, "a/file").id;
    let up = format!("../{}", outside.path().file_name().unwrap().to_str().unwrap());
    let absolute = outside.path().to_str().unwrap();
    for path in ["in", "out", &up, absolute, "..", "/"] {
        let inside = format!("{path}/file");
        assert!(export.scan(path.as_bytes(), 0, &mut |_| true).is_err(), "{path}");
        for path in [inside, format!("{path}/secret")] {
            assert_eq!(export.stat(path.as_bytes()).err(), Some(Fault::Escapes), "{path}");
            let read = export.range(path.as_bytes(), id, 0, &mut [0; 9]);
            assert_eq!(read.err(), Some(Fault::Escapes), "{path}");
            assert_eq!(export.space(path.as_bytes()).err(), Some(Fault::Escapes), "{path}");
        }
    }
    assert!(export.range(b"to-file", id, 0, &mut [0; 9]).is_err());
    assert_eq!(export.range(b"a/file", id, 1, &mut [0; 9]).unwrap().1, 3);
    // A copy has opened it by another path, which must not matter.
    let copied = export.look(b"in/file").unwrap().0;
    export.read(b"in/file", copied.version, 0, &mut [0; 4]).unwrap();
    assert_eq!(export.stat(b"in/file").err(), Some(Fault::Escapes));
    export.close_files();
    assert_eq!(export.range(b"in/file", id, 0, &mut [0; 4]).err(), Some(Fault::Escapes));
}

#[test]
fn bytes_are_of_any_version_of_a_file_but_of_no_other_file() {
    let directory = TempDir::new().unwrap();
    let path = directory.path().join("file");
    fs::write(&path, [1; 100]).unwrap();
    let mut export = export(&directory);
    let first = stat(&mut export, "file");
    let mut out = [0; 200];
    assert_eq!(export.range(b"file", first.id, 50, &mut out).unwrap(), (first, 50));
    let file = fs::File::options().write(true).open(&path).unwrap();
    file.write_all_at(&[2; 100], 100).unwrap();
    let (grown, read) = export.range(b"file", first.id, 50, &mut out).unwrap();
    assert_eq!((read, out[49], out[50], grown.id), (150, 1, 2, first.id));
    assert_ne!(grown.attributes.version, first.attributes.version);
    assert_eq!(export.range(b"file", first.id, 200, &mut out).unwrap().1, 0);
    // While it is kept open, it can be read. Later, the path leads to another file.
    let mut others = 0;
    let has_birth = fs::metadata(&path).unwrap().created().is_ok();
    for n in 0..20u8 {
        let id = stat(&mut export, "file").id;
        // The next file is born in another tick of the kernel's clock.
        std::thread::sleep(std::time::Duration::from_millis(20));
        fs::remove_file(&path).unwrap();
        fs::write(&path, [n + 3; 100]).unwrap();
        export.close_files();
        match export.range(b"file", id, 0, &mut out) {
            Err(fault) => assert_eq!(fault, Fault::Changed),
            // The file system has no times of birth, and has used the same inode again.
            Ok(_) => others += 1,
        }
    }
    assert!(others == 0 || !has_birth, "{others}");
    fs::remove_file(&path).unwrap();
    export.close_files();
    assert_eq!(export.range(b"file", first.id, 0, &mut out).err(), Some(Fault::NotFound));
    fs::create_dir(&path).unwrap();
    assert!(export.range(b"file", first.id, 0, &mut out).is_err());
}

#[test]
fn a_directory_is_scanned_in_pieces_with_itself() {
    let directory = TempDir::new().unwrap();
    fs::create_dir(directory.path().join("d")).unwrap();
    for n in 0..50 {
        fs::write(directory.path().join(format!("d/{n}")), b"x").unwrap();
    }
    let mut export = export(&directory);
    let whole = scan(&mut export, b"d", usize::MAX);
    assert_eq!(whole.len(), 52);
    let itself = stat(&mut export, "d").id;
    // What is above the directory may not be shared.
    assert_eq!(whole[..2], [(b".".to_vec(), itself), (b"..".to_vec(), itself)]);
    for (name, id) in &whole[2..] {
        assert_eq!(export.stat(&gigae_share::join(b"d", name)).unwrap().0.id, *id);
    }
    for at_a_time in [1, 3, 7] {
        assert_eq!(scan(&mut export, b"d", at_a_time), whole);
    }
    assert!(export.scan(b"d/7", 0, &mut |_| true).is_err());
}

#[test]
fn what_was_removed_and_what_is_pushed_is_not_mounted() {
    let directory = TempDir::new().unwrap();
    let shared = directory.path().join("shared");
    fs::create_dir(&shared).unwrap();
    let mut export = Export::open(&shared).unwrap();
    let mut picks = Picks::new(vec![Pick::open(Path::new(&shared)).unwrap()]);
    assert_eq!(picks.stat(b"0").err(), Some(Fault::Invalid));
    assert_eq!(picks.range(b"0/x", 2, 0, &mut []).err(), Some(Fault::Invalid));
    fs::remove_dir(&shared).unwrap();
    assert_eq!(export.stat(b"").err(), Some(Fault::Gone));
    assert_eq!(export.stat(b"x").err(), Some(Fault::Gone));
}

fn changes(export: &mut Export, change: Change) -> Result<Option<Inode>, Fault> {
    export.change(&change).map(|done| done.inode)
}

#[test]
fn nothing_is_changed_outside_the_export_or_through_a_symlink() {
    let (outside, directory) = (TempDir::new().unwrap(), TempDir::new().unwrap());
    fs::write(outside.path().join("file"), b"text").unwrap();
    fs::create_dir(outside.path().join("empty")).unwrap();
    symlink(outside.path(), directory.path().join("out")).unwrap();
    symlink(outside.path().join("file"), directory.path().join("link")).unwrap();
    let name = outside.path().file_name().unwrap().to_str().unwrap();
    fs::write(directory.path().join("own"), b"own").unwrap();
    let mut export = export(&directory).writable();
    let (id, own) = (stat(&mut self::export(&outside), "file").id, stat(&mut export, "own").id);
    for above in ["out".to_owned(), format!("../{name}"), outside.path().display().to_string()] {
        let path = |name: &str| format!("{above}/{name}").into_bytes();
        let mode = Some(0o777);
        for change in [
            Change::File { path: path("new"), mode: 0o600, new: false, truncate: false },
            Change::File { path: path("file"), mode: 0o600, new: false, truncate: true },
            Change::Directory { path: path("new"), mode: 0o700 },
            Change::Symlink { path: path("new"), target: b"x".to_vec() },
            Change::Remove { path: path("file"), id: 0, directory: false },
            Change::Remove { path: path("empty"), id: 0, directory: true },
            Change::Rename { from: path("file"), to: b"stolen".to_vec(), id, new: false },
            Change::Rename { from: b"link".to_vec(), to: path("new"), id, new: false },
            Change::Link { from: path("file"), id, to: b"stolen".to_vec() },
            Change::Link { from: b"own".to_vec(), id: own, to: path("new") },
            Change::Open { path: path("file"), id, truncate: true },
            Change::Set { path: path("file"), id, mode, size: Some(0), modified: Some((0, 0)) },
            Change::Write { path: path("file"), id, offset: 0, data: b"x".to_vec() },
            Change::Sync { path: path("file"), id },
        ] {
            assert_eq!(export.change(&change), Err(Fault::Escapes), "{change:?}");
        }
    }
    // What a symlink at the end leads to stays as it is.
    let (link, file) = (|| b"link".to_vec(), outside.path().join("file"));
    let before = fs::metadata(&file).unwrap();
    let own = export.stat(b"link").unwrap().0.id;
    for id in [id, own] {
        let set = |mode, size, modified| Change::Set { path: link(), id, mode, size, modified };
        assert!(changes(&mut export, set(None, Some(0), None)).is_err());
        let write = Change::Write { path: link(), id, offset: 0, data: b"x".to_vec() };
        assert_eq!(changes(&mut export, write), Err(Fault::Changed));
        let open = Change::Open { path: link(), id, truncate: true };
        assert_eq!(changes(&mut export, open), Err(Fault::Changed));
        assert_eq!(changes(&mut export, Change::Sync { path: link(), id }), Err(Fault::Changed));
        // Of the symlink itself, only its time is set.
        let _ = changes(&mut export, set(Some(0o777), None, Some((5, 0))));
    }
    let truncate = Change::File { path: link(), mode: 0, new: false, truncate: true };
    let _ = changes(&mut export, truncate);
    let after = fs::metadata(&file).unwrap();
    let known = |of: &fs::Metadata| (of.mode(), of.len(), of.mtime(), of.ctime_nsec());
    assert_eq!(known(&before), known(&after));
    assert_eq!(fs::symlink_metadata(directory.path().join("link")).unwrap().mtime(), 5);
    for name in ["", ".", "..", "/"] {
        let path = || name.as_bytes().to_vec();
        assert!(
            changes(&mut export, Change::Remove { path: path(), id: 0, directory: true }).is_err()
        );
        assert!(changes(&mut export, Change::Directory { path: path(), mode: 0o700 }).is_err());
    }
    assert_eq!(fs::read_dir(outside.path()).unwrap().count(), 2);
}

#[test]
fn what_is_no_file_is_not_opened_to_be_written() {
    let directory = TempDir::new().unwrap();
    let fifo = std::process::Command::new("mkfifo").arg(directory.path().join("fifo")).status();
    assert!(fifo.unwrap().success());
    let mut export = export(&directory).writable();
    let id = stat(&mut export, "fifo").id;
    let path = || b"fifo".to_vec();
    let write = Change::Write { path: path(), id, offset: 0, data: b"x".to_vec() };
    assert_eq!(changes(&mut export, write), Err(Fault::Changed));
    assert_eq!(changes(&mut export, Change::Sync { path: path(), id }), Err(Fault::Changed));
    let open = Change::File { path: path(), mode: 0o600, new: false, truncate: true };
    assert_eq!(changes(&mut export, open).unwrap().unwrap().attributes.kind, Kind::Special);
}

#[test]
fn bytes_go_into_the_file_that_is_meant_and_no_other() {
    let directory = TempDir::new().unwrap();
    let path = || b"file".to_vec();
    let create = || Change::File { path: path(), mode: 0o640, new: true, truncate: false };
    assert_eq!(changes(&mut export(&directory), create()), Err(Fault::ReadOnly));
    let mut export = export(&directory).writable();
    let made = changes(&mut export, create()).unwrap().unwrap();
    assert_eq!((made.attributes.mode, made.attributes.size), (0o640, 0));
    assert_eq!(changes(&mut export, create()), Err(Fault::Exists));
    let write = |id| Change::Write { path: path(), id, offset: 5, data: b"text".to_vec() };
    let written = changes(&mut export, write(made.id)).unwrap().unwrap();
    assert_eq!((written.id, written.attributes.size), (made.id, 9));
    // Another file has the name now, and the former one is still open.
    fs::write(directory.path().join("other"), b"other").unwrap();
    fs::rename(directory.path().join("other"), directory.path().join("file")).unwrap();
    let _ = changes(&mut export, write(made.id));
    export.close_files();
    assert_eq!(changes(&mut export, write(made.id)), Err(Fault::Changed));
    let set = Change::Set { path: path(), id: made.id, mode: None, size: Some(0), modified: None };
    assert_eq!(changes(&mut export, set), Err(Fault::Changed));
    assert_eq!(fs::read(directory.path().join("file")).unwrap(), b"other");
}

#[test]
fn a_directory_says_whether_another_has_changed_its_names() {
    let directory = TempDir::new().unwrap();
    let mut export = export(&directory).writable();
    let made = |export: &mut Export, n: u32| {
        let path = format!("{n}").into_bytes();
        let create = Change::File { path, mode: 0o640, new: true, truncate: false };
        export.change(&create).unwrap()
    };
    let parent = |done: Done| {
        let Parent { inode, names } = done.parent.unwrap();
        (names.map(|(before, _)| before), inode)
    };
    let (Some(_), mut last) = parent(made(&mut export, 0)) else {
        // This kernel's times, or those of its file system, are too coarse to say that.
        for n in 1..50 {
            assert!(made(&mut export, n).parent.unwrap().names.is_none(), "{n}");
        }
        return;
    };
    for n in 1..200 {
        let others = n % 3 == 0;
        if others {
            fs::write(directory.path().join(format!("other-{n}")), b"").unwrap();
        }
        let (before, after) = parent(made(&mut export, n));
        assert_eq!(before != Some(last.attributes.version), others, "{n}");
        last = after;
    }
    let remove = Change::Remove { path: b"7".to_vec(), id: 0, directory: false };
    let (before, after) = parent(export.change(&remove).unwrap());
    assert!(before == Some(last.attributes.version) && after != last);
    assert_eq!(stat(&mut export, ""), after);
}

#[test]
fn a_name_is_removed_or_moved_only_if_it_is_that_of_the_file_that_is_meant() {
    let directory = TempDir::new().unwrap();
    let there = |name: &str| directory.path().join(name);
    fs::write(there("meant"), b"meant").unwrap();
    fs::write(there("file"), b"other").unwrap();
    let mut export = export(&directory).writable();
    let id = stat(&mut export, "meant").id;
    let path = || b"file".to_vec();
    for change in [
        Change::Remove { path: path(), id, directory: false },
        Change::Rename { from: path(), to: b"new".to_vec(), id, new: false },
    ] {
        assert_eq!(changes(&mut export, change), Err(Fault::Changed));
        assert_eq!(fs::read(there("file")).unwrap(), b"other");
    }
    let from = b"meant".to_vec();
    changes(&mut export, Change::Rename { from, to: path(), id, new: false }).unwrap();
    assert_eq!(fs::read(there("file")).unwrap(), b"meant");
    changes(&mut export, Change::Remove { path: path(), id, directory: false }).unwrap();
    assert!(!there("file").exists());
}

#[test]
fn a_file_that_is_written_loses_set_user_id_and_a_directory_keeps_its_bits() {
    let directory = TempDir::new().unwrap();
    let there = |name: &str| directory.path().join(name);
    let mode = |name: &str| fs::symlink_metadata(there(name)).unwrap().mode() & 0o7777;
    let set = |name: &str, mode| {
        fs::set_permissions(there(name), fs::Permissions::from_mode(mode)).unwrap();
    };
    fs::write(there("program"), b"x").unwrap();
    set("program", 0o6755);
    fs::create_dir(there("d")).unwrap();
    set("d", 0o3775);
    fs::write(there("plain"), b"x").unwrap();
    assert!(std::process::Command::new("mkfifo").arg(there("fifo")).status().unwrap().success());
    let mut export = export(&directory).writable();
    let id = stat(&mut export, "program").id;
    let open = Change::Open { path: b"program".to_vec(), id, truncate: false };
    changes(&mut export, open).unwrap();
    assert_eq!(mode("program"), 0o755);
    let to = |id, name: &str| {
        let path = name.as_bytes().to_vec();
        Change::Set { path, id, mode: Some(0o750), size: None, modified: None }
    };
    let id = stat(&mut export, "d").id;
    changes(&mut export, to(id, "d")).unwrap();
    assert_eq!(mode("d"), 0o3750);
    // One that is made there gets its group, too.
    changes(&mut export, Change::Directory { path: b"d/e".to_vec(), mode: 0o777 }).unwrap();
    assert_eq!(mode("d/e"), 0o2777);
    let before = mode("fifo");
    let id = stat(&mut export, "fifo").id;
    assert_eq!(changes(&mut export, to(id, "fifo")), Err(Fault::Special));
    assert_eq!(mode("fifo"), before);
}

#[test]
fn files_are_synced_while_others_are_served() {
    let directory = TempDir::new().unwrap();
    for n in 0..100 {
        fs::write(directory.path().join(format!("f{n}")), b"x").unwrap();
    }
    let mut export = export(&directory).writable();
    let mut begun = 0;
    for n in 0..100 {
        let name = format!("f{n}");
        let id = stat(&mut export, &name).id;
        match export.begin(&Change::Sync { path: name.into_bytes(), id }, n) {
            None => begun += 1,
            answer => assert_eq!(answer, Some(Err(Fault::Busy)), "too many wait"),
        }
    }
    assert!(begun >= 64);
    let mut ended = std::collections::BTreeSet::new();
    while ended.len() < begun {
        let wakes = export.wakes().expect("something goes on");
        let mut fds = [rustix::event::PollFd::new(&wakes, rustix::event::PollFlags::IN)];
        rustix::event::poll(&mut fds, None).unwrap();
        for synced in export.synced() {
            assert!(synced.result == Ok(Done::default()) && !synced.is_lost);
            assert!(ended.insert(synced.work));
        }
    }
    assert!(export.wakes().is_none());
    let gone = Change::Sync { path: b"gone".to_vec(), id: 5 };
    assert_eq!(export.begin(&gone, 1000), Some(Err(Fault::NotFound)));
}
