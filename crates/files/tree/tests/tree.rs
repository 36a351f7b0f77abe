//! Exports and destinations on real files.
#![allow(missing_docs)]

use gigae_share::{
    Answer, Attributes, Fault, Fetcher, Kind, Listed, Options, Server, Sink, Source, Want, Wanted,
    digest,
};
use gigae_tree::{Export, Pick, Picks, Place};
use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::Path;
use std::time::Duration;
use tempfile::TempDir;

const PART: usize = gigae_share::PART;

fn export(directory: &TempDir) -> Export {
    Export::open(directory.path()).unwrap()
}

fn names(source: &mut impl Source, path: &[u8]) -> Vec<Vec<u8>> {
    let mut names = Vec::new();
    let mut from = 0;
    // One at a time: each listing goes on where the former one has ended.
    loop {
        let mut room = true;
        let listed = source.list(path, from, &mut |entry| {
            let took = std::mem::replace(&mut room, false);
            if took {
                names.push(entry.name.clone());
            }
            took
        });
        match listed.unwrap() {
            Listed::Until(next) => from = next,
            Listed::All => break,
        }
    }
    names.sort();
    names
}

/// Copies without a network.
fn copy(source: &mut impl Source, from: &[u8], to: &Path) -> Fetcher {
    let Place { mut destination, name } = Place::open(to).unwrap();
    let wanted = vec![Wanted { from: from.to_vec(), to: name.unwrap_or_default() }];
    let options = Options { ignore_times: false, patience: Duration::from_secs(1) };
    let mut fetcher = Fetcher::new(wanted, options, Duration::ZERO);
    let (mut server, mut out) = (Server::default(), Vec::new());
    loop {
        match fetcher.next(Duration::ZERO, &mut destination) {
            Want::Send(request) => {
                let answer = server.handle((), &request.message, source, &mut out);
                assert_eq!(answer, Answer::Reply(request.number));
                server.sent(());
                fetcher.reply(Duration::ZERO, request.number, &out, &mut destination);
            }
            Want::Nothing => return fetcher,
            want => panic!("{want:?}"),
        }
    }
}

fn same(a: &Path, b: &Path) {
    let (of_a, of_b) = (fs::symlink_metadata(a).unwrap(), fs::symlink_metadata(b).unwrap());
    let known = |m: &fs::Metadata| (m.mode() & !0o7000, m.mtime(), m.mtime_nsec());
    assert_eq!(known(&of_a), known(&of_b), "{}", a.display());
    if of_a.is_symlink() {
        assert_eq!(fs::read_link(a).unwrap(), fs::read_link(b).unwrap());
    } else if of_a.is_dir() {
        let list = |path: &Path| {
            let mut names: Vec<_> =
                fs::read_dir(path).unwrap().map(|entry| entry.unwrap().file_name()).collect();
            names.sort();
            names
        };
        assert_eq!(list(a), list(b));
        list(a).iter().for_each(|name| same(&a.join(name), &b.join(name)));
    } else {
        assert!(fs::read(a).unwrap() == fs::read(b).unwrap(), "{}", a.display());
        assert!(of_b.blocks() <= of_a.blocks() + 8, "{} has holes", a.display());
    }
}

fn attributes(size: u64) -> Attributes {
    Attributes {
        kind: Kind::File,
        sparse: false,
        mode: 0o640,
        size,
        seconds: 1_000_000_000,
        nanoseconds: 123_456_789,
        version: 7,
    }
}

#[test]
fn a_tree_is_copied_with_attributes_holes_symlinks_and_odd_names() {
    let (from, to) = (TempDir::new().unwrap(), TempDir::new().unwrap());
    let deep = from.path().join("a/b");
    fs::create_dir_all(&deep).unwrap();
    fs::write(deep.join(OsStr::from_bytes(b"\xff\n")), b"odd").unwrap();
    fs::write(from.path().join("empty"), b"").unwrap();
    fs::write(from.path().join("large"), vec![3; 3 * PART + 5]).unwrap();
    let sparse = fs::File::create(from.path().join("sparse")).unwrap();
    sparse.set_len(100 << 20).unwrap();
    std::os::unix::fs::FileExt::write_all_at(&sparse, b"data", 50 << 20).unwrap();
    symlink("/etc/passwd", from.path().join("out")).unwrap();
    for n in 0..1500 {
        fs::write(deep.join(format!("{n}")), vec![n as u8; n]).unwrap();
    }
    fs::set_permissions(deep.join("7"), fs::Permissions::from_mode(0o666)).unwrap();
    fs::set_permissions(&deep, fs::Permissions::from_mode(0o750)).unwrap();
    let copied = copy(&mut export(&from), b"", &to.path().join("new"));
    assert_eq!((copied.fatal(), copied.progress().failed), (None, 0));
    same(from.path(), &to.path().join("new"));
    // Everything is there, so nothing is fetched.
    let again = copy(&mut export(&from), b"a", &to.path().join("new/a"));
    assert_eq!(again.progress().failed, 0);
    let again = copy(&mut export(&from), b"", &to.path().join("new"));
    assert_eq!(again.progress().skipped, 1504);
    same(from.path(), &to.path().join("new"));
}

#[test]
fn nothing_outside_the_export_is_read() {
    let (outside, shared) = (TempDir::new().unwrap(), TempDir::new().unwrap());
    fs::write(outside.path().join("secret"), b"secret").unwrap();
    symlink(outside.path(), shared.path().join("out")).unwrap();
    symlink("../../../../../../etc", shared.path().join("up")).unwrap();
    let mut export = export(&shared);
    for path in [&b".."[..], b"out/secret", b"up/passwd", b"/etc/passwd", b"x/../../etc"] {
        let fault = export.look(path).unwrap_err();
        assert!(matches!(fault, Fault::Escapes | Fault::NotFound), "{path:?}: {fault:?}");
        assert!(export.read(path, 0, 0, &mut [0]).is_err());
        assert!(export.list(path, 0, &mut |_| true).is_err());
        assert!(export.directory(path).is_err());
    }
    // A symlink itself is copied as such, and never followed out.
    assert_eq!(export.look(b"out").unwrap().0.kind, Kind::Symlink);
    assert_eq!(export.list(b"out", 0, &mut |_| true), Err(Fault::Escapes));
    let root = export.directory(b"").unwrap();
    assert_eq!(export.small(&root, b"out", 9, &mut Vec::new()), Err(Fault::Escapes));
}

#[test]
fn a_fifo_is_not_waited_for() {
    let shared = TempDir::new().unwrap();
    let fifo = shared.path().join("fifo");
    let made = std::process::Command::new("mkfifo").arg(&fifo).status().unwrap();
    assert!(made.success());
    let mut export = export(&shared);
    let root = export.directory(b"").unwrap();
    assert_eq!(export.small(&root, b"fifo", 9, &mut Vec::new()), Err(Fault::Changed));
    assert_eq!(export.read(b"fifo", 0, 0, &mut [0]), Err(Fault::Changed));
    assert_eq!(export.look(b"fifo").unwrap().0.kind, Kind::Special);
}

/// Opening alone would do something: release the writer of a FIFO, or start a watchdog.
#[test]
fn what_is_no_file_is_not_opened() {
    use rustix::fs::inotify;
    let shared = TempDir::new().unwrap();
    let fifo = shared.path().join("fifo");
    assert!(std::process::Command::new("mkfifo").arg(&fifo).status().unwrap().success());
    let opened = inotify::init(inotify::CreateFlags::NONBLOCK).unwrap();
    inotify::add_watch(&opened, &fifo, inotify::WatchFlags::OPEN).unwrap();
    let mut export = export(&shared);
    let root = export.directory(b"").unwrap();
    assert_eq!(export.small(&root, b"fifo", 9, &mut Vec::new()), Err(Fault::Changed));
    assert_eq!(export.read(b"fifo", 0, 0, &mut [0]), Err(Fault::Changed));
    assert_eq!(export.look(b"fifo").unwrap().0.kind, Kind::Special);
    assert_eq!(rustix::io::read(&opened, &mut [0; 256][..]), Err(rustix::io::Errno::AGAIN));
}

/// As an editor saves a file: another one takes its name, and that is what was found.
#[test]
fn a_file_that_was_replaced_is_opened_again() {
    let shared = TempDir::new().unwrap();
    let path = shared.path().join("file");
    fs::write(&path, b"before").unwrap();
    let mut export = export(&shared);
    let version = export.look(b"file").unwrap().0.version;
    assert_eq!(export.read(b"file", version, 0, &mut [0; 6]), Ok(()));
    fs::write(shared.path().join("other"), b"behind, and longer").unwrap();
    fs::rename(shared.path().join("other"), &path).unwrap();
    let version = export.look(b"file").unwrap().0.version;
    let mut out = [0; 18];
    assert_eq!(export.read(b"file", version, 0, &mut out), Ok(()));
    assert_eq!(&out, b"behind, and longer");
}

#[test]
fn a_directory_is_listed_in_pieces() {
    let shared = TempDir::new().unwrap();
    let mut expected = Vec::new();
    for n in 0..300 {
        expected.push(format!("{n}").into_bytes());
        fs::write(shared.path().join(format!("{n}")), b"").unwrap();
    }
    expected.sort();
    assert_eq!(names(&mut export(&shared), b""), expected);
}

#[test]
fn a_file_that_changes_is_another_version() {
    let shared = TempDir::new().unwrap();
    let path = shared.path().join("file");
    fs::write(&path, b"before").unwrap();
    let mut export = export(&shared);
    let version = export.look(b"file").unwrap().0.version;
    let mut out = [0; 6];
    assert_eq!(export.read(b"file", version, 0, &mut out), Ok(()));
    let time = fs::metadata(&path).unwrap().modified().unwrap();
    fs::write(&path, b"behind").unwrap();
    // Also if its time is set back.
    fs::File::options().write(true).open(&path).unwrap().set_modified(time).unwrap();
    assert_eq!(export.read(b"file", version, 0, &mut out), Err(Fault::Changed));
    // Or if another file takes its place.
    let version = export.look(b"file").unwrap().0.version;
    fs::write(shared.path().join("other"), b"behind").unwrap();
    fs::rename(shared.path().join("other"), &path).unwrap();
    export.close_files();
    assert_eq!(export.read(b"file", version, 0, &mut out), Err(Fault::Changed));
    fs::write(&path, b"short").unwrap();
    let version = export.look(b"file").unwrap().0.version;
    assert_eq!(export.read(b"file", version, 0, &mut out), Err(Fault::Changed));
}

#[test]
fn an_export_that_was_removed_is_gone() {
    let shared = TempDir::new().unwrap();
    let mut export = export(&shared);
    fs::remove_dir(shared.path()).unwrap();
    assert_eq!(export.look(b""), Err(Fault::Gone));
    assert_eq!(export.look(b"file"), Err(Fault::Gone));
}

#[test]
fn a_symlink_in_the_destination_is_not_followed() {
    let (outside, to) = (TempDir::new().unwrap(), TempDir::new().unwrap());
    fs::write(outside.path().join("file"), b"mine").unwrap();
    let mut destination = Place::open(to.path()).unwrap().destination;
    // As a hostile server would: first a symlink, then something in it, or in its place.
    let target = outside.path().as_os_str().as_bytes();
    destination.symlink(b"out", target, &attributes(0)).unwrap();
    assert_eq!(destination.make_directory(b"out"), Err(Fault::WrongKind));
    assert_eq!(destination.make_directory(b"out/new"), Err(Fault::Escapes));
    assert_eq!(destination.store(b"out/file", &attributes(1), b"x"), Err(Fault::Escapes));
    assert_eq!(destination.begin(1, b"out/file", &attributes(1)), Err(Fault::Escapes));
    assert_eq!(destination.finish_directory(b"out", &attributes(0)), Err(Fault::Escapes));
    // A file takes the place of a symlink, and not of what it leads to.
    let file = [target, b"/file"].concat();
    destination.symlink(b"file", &file, &attributes(0)).unwrap();
    destination.store(b"file", &attributes(1), b"x").unwrap();
    assert_eq!(fs::read(to.path().join("file")).unwrap(), b"x");
    assert_eq!(fs::read(outside.path().join("file")).unwrap(), b"mine");
    assert_eq!(fs::read_dir(outside.path()).unwrap().count(), 1);
}

#[test]
fn a_file_has_its_name_only_when_it_is_complete_and_the_next_try_goes_on() {
    let to = TempDir::new().unwrap();
    let path = to.path().join("file");
    fs::write(&path, b"old").unwrap();
    let attributes = attributes(2 * PART as u64);
    let part = vec![1; PART];
    let mut destination = Place::open(to.path()).unwrap().destination;
    assert_eq!(destination.begin(1, b"file", &attributes), Ok(0));
    destination.write(1, 0, &part).unwrap();
    assert_eq!(fs::read(&path).unwrap(), b"old");
    // Another process does not write the same file.
    let mut other = Place::open(to.path()).unwrap().destination;
    assert_eq!(other.begin(1, b"file", &attributes), Err(Fault::Locked));
    destination.leave(1, None);
    assert_eq!(destination.left(), [b".file.gigae-0000000000000007"]);
    assert_eq!(other.begin(2, b"file", &attributes), Ok(PART as u64));
    assert_eq!(other.digest(2, 0, PART), Ok(digest(&part)));
    other.write(2, PART as u64, &part).unwrap();
    other.finish(2, &attributes).unwrap();
    assert_eq!(fs::read(&path).unwrap(), vec![1; 2 * PART]);
    let metadata = fs::metadata(&path).unwrap();
    assert_eq!((metadata.mode() & 0o7777, metadata.mtime_nsec()), (0o640, 123_456_789));
    assert_eq!(fs::read_dir(to.path()).unwrap().count(), 1);
}

#[test]
fn nothing_is_written_into_what_another_has_put_there() {
    let (outside, to) = (TempDir::new().unwrap(), TempDir::new().unwrap());
    let victim = outside.path().join("victim");
    fs::write(&victim, b"mine").unwrap();
    let mut destination = Place::open(to.path()).unwrap().destination;
    let temporary = to.path().join(".file.gigae-0000000000000007");
    symlink(&victim, &temporary).unwrap();
    // Only what takes the place of another file needs a temporary name.
    fs::write(to.path().join("file"), b"old").unwrap();
    destination.store(b"file", &attributes(1), b"x").unwrap();
    assert_eq!(fs::read(to.path().join("file")).unwrap(), b"x");
    symlink(&victim, &temporary).unwrap();
    destination.begin(1, b"file", &attributes(1)).unwrap();
    destination.write(1, 0, b"y").unwrap();
    destination.finish(1, &attributes(1)).unwrap();
    fs::hard_link(&victim, &temporary).unwrap();
    destination.begin(2, b"file", &attributes(1)).unwrap();
    destination.write(2, 0, b"z").unwrap();
    destination.finish(2, &attributes(1)).unwrap();
    assert_eq!(fs::read(to.path().join("file")).unwrap(), b"z");
    assert_eq!(fs::read(&victim).unwrap(), b"mine");
}

#[test]
fn a_file_of_another_version_leaves_nothing_behind() {
    let to = TempDir::new().unwrap();
    let mut destination = Place::open(to.path()).unwrap().destination;
    destination.begin(1, b"file", &attributes(5)).unwrap();
    destination.write(1, 0, b"begin").unwrap();
    destination.leave(1, Some(Fault::Changed));
    assert_eq!((destination.left().len(), fs::read_dir(to.path()).unwrap().count()), (0, 0));
}

/// Also if it was for the file of an earlier copy; another process's stays.
#[test]
fn what_is_left_of_another_version_is_removed() {
    let to = TempDir::new().unwrap();
    let mut destination = Place::open(to.path()).unwrap().destination;
    let version = |version| Attributes { version, ..attributes(5) };
    destination.begin(1, b"file", &version(1)).unwrap();
    destination.write(1, 0, b"begin").unwrap();
    destination.leave(1, None);
    destination.begin(2, b"file", &version(2)).unwrap();
    fs::write(to.path().join(".file2.gigae-0000000000000001"), b"x").unwrap();
    let mut other = Place::open(to.path()).unwrap().destination;
    other.begin(1, b"file", &version(3)).unwrap();
    let mut names: Vec<_> =
        fs::read_dir(to.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    names.sort();
    let expected = [
        ".file.gigae-0000000000000002",
        ".file.gigae-0000000000000003",
        ".file2.gigae-0000000000000001",
    ];
    assert_eq!(names, expected);
}

#[test]
fn what_a_killed_copy_has_left_of_a_small_file_is_removed() {
    let to = tempfile::tempdir().unwrap();
    let mut destination = Place::open(to.path()).unwrap().destination;
    let wanted = attributes(3);
    let left = |name: &str, version: u64| {
        let path = to.path().join(format!(".{name}.gigae-{version:016x}"));
        fs::write(&path, b"x").unwrap();
        path
    };
    let (same, older) = (left("file", wanted.version), left("file", wanted.version + 1));
    let other = left("other", wanted.version);
    destination.store(b"file", &wanted, b"new").unwrap();
    assert_eq!(fs::read(to.path().join("file")).unwrap(), b"new");
    assert!(!same.exists() && !older.exists(), "nothing is left of this file");
    assert!(other.exists(), "another file may go on with it");
}

#[test]
fn a_small_file_that_another_process_writes_is_left_to_it() {
    let to = TempDir::new().unwrap();
    let mut destination = Place::open(to.path()).unwrap().destination;
    let temporary = to.path().join(".file.gigae-0000000000000007");
    fs::write(&temporary, b"half of i").unwrap();
    fs::write(to.path().join("file"), b"old").unwrap();
    let other = fs::File::open(&temporary).unwrap();
    other.lock().unwrap();
    assert_eq!(destination.store(b"file", &attributes(1), b"x"), Err(Fault::Locked));
    assert_eq!(fs::read(&temporary).unwrap(), b"half of i");
    assert_eq!(fs::read(to.path().join("file")).unwrap(), b"old");
    // That of a process that was killed is used.
    drop(other);
    destination.store(b"file", &attributes(1), b"x").unwrap();
    assert_eq!(fs::read(to.path().join("file")).unwrap(), b"x");
    assert_eq!(fs::metadata(to.path().join("file")).unwrap().mode() & 0o7777, 0o640);
    assert_eq!(fs::read_dir(to.path()).unwrap().count(), 1);
}

#[test]
fn what_cannot_get_its_name_is_said() {
    let to = TempDir::new().unwrap();
    let mut destination = Place::open(to.path()).unwrap().destination;
    destination.begin(1, b"file", &attributes(5)).unwrap();
    fs::create_dir(to.path().join("file")).unwrap();
    assert_eq!(destination.finish(1, &attributes(5)), Err(Fault::WrongKind));
    assert_eq!(destination.left(), [b".file.gigae-0000000000000007"]);
    // Of what has no room, nothing is left.
    let huge = Attributes { size: 1 << 60, version: 8, ..attributes(0) };
    assert_eq!(destination.begin(2, b"huge", &huge), Err(Fault::Full));
    assert_eq!(fs::read_dir(to.path()).unwrap().count(), 2);
}

#[test]
fn a_directory_is_not_replaced_by_a_file() {
    let to = TempDir::new().unwrap();
    fs::create_dir(to.path().join("file")).unwrap();
    let mut destination = Place::open(to.path()).unwrap().destination;
    assert_eq!(destination.begin(1, b"file", &attributes(5)), Err(Fault::WrongKind));
    assert_eq!(destination.store(b"file", &attributes(1), b"x"), Err(Fault::WrongKind));
    assert_eq!(destination.symlink(b"file", b"x", &attributes(0)), Err(Fault::WrongKind));
    assert_eq!(fs::read_dir(to.path()).unwrap().count(), 1);
}

#[test]
fn a_destination_beneath_an_export_stays_in_it() {
    let (outside, shared) = (TempDir::new().unwrap(), TempDir::new().unwrap());
    symlink(outside.path(), shared.path().join("out")).unwrap();
    fs::create_dir(shared.path().join("in")).unwrap();
    let export = export(&shared);
    for path in [&b"out"[..], b"..", b"../x", b"/tmp", b"out/x", b"in/../.."] {
        let fault = Place::beneath(&export, path, false).unwrap_err();
        assert!(matches!(fault, Fault::Escapes | Fault::NotFound), "{path:?}: {fault:?}");
    }
    assert_eq!(Place::beneath(&export, b"in", false).unwrap().name, None);
    assert_eq!(Place::beneath(&export, b"in/new/", false).unwrap().name, Some(b"new".to_vec()));
    assert_eq!(Place::beneath(&export, b"new", false).unwrap().name, Some(b"new".to_vec()));
    assert_eq!(Place::beneath(&export, b"", false).unwrap().name, None);
    assert_eq!(Place::beneath(&export, b"in", true).unwrap().name, Some(b"in".to_vec()));
    assert!(Place::beneath(&export, b"out/x", true).is_err());
}

#[test]
fn a_push_shows_only_what_was_named() {
    let from = TempDir::new().unwrap();
    fs::write(from.path().join("named"), b"named").unwrap();
    fs::write(from.path().join("secret"), b"secret").unwrap();
    fs::create_dir(from.path().join("tree")).unwrap();
    fs::write(from.path().join("tree/leaf"), b"leaf").unwrap();
    symlink("../secret", from.path().join("tree/up")).unwrap();
    let open = |name: &str| Pick::open(&from.path().join(name)).unwrap();
    let mut picks = Picks::new(vec![open("named"), open("tree")]);
    assert_eq!(picks.look(b"0").unwrap().0.size, 5);
    assert_eq!(names(&mut picks, b"1"), [b"leaf".to_vec(), b"up".to_vec()]);
    for path in [&b"0/../secret"[..], b"secret", b"2", b"", b"..", b"1/up", b"1/../secret", b"0/x"]
    {
        assert!(picks.read(path, 0, 0, &mut [0]).is_err(), "{path:?}");
        assert!(picks.directory(path).is_err() && picks.list(path, 0, &mut |_| true).is_err());
    }
}

/// A file that was named does not become a directory, whatever is put in its place.
#[test]
fn a_file_that_was_named_is_never_listed() {
    let from = TempDir::new().unwrap();
    let path = from.path().join("named");
    fs::write(&path, b"named").unwrap();
    let mut picks = Picks::new(vec![Pick::open(&path).unwrap()]);
    fs::remove_file(&path).unwrap();
    symlink(".", &path).unwrap();
    assert_eq!(picks.list(b"0", 0, &mut |_| true), Err(Fault::NotFound));
    assert!(picks.read(b"0", 0, 0, &mut [0]).is_err());
}
