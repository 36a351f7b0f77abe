//! What programs see of a directory in which they make and remove names.

use crate::common::{Mount, Two, until};
use crate::looking::frames;
use crate::writing::writable;
use std::fs::{self, FileTimes};
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::Path;
use std::time::{Duration, UNIX_EPOCH};

/// What a program sees of a directory, except for its number and owner.
fn seen(path: &Path) -> (u32, u64, u64, (i64, i64), (i64, i64)) {
    let m = fs::metadata(path).unwrap();
    let times = [(m.mtime(), m.mtime_nsec()), (m.ctime(), m.ctime_nsec())];
    (m.mode() & 0o777, m.nlink(), m.len(), times[0], times[1])
}

fn same(two: &Two, mount: &Mount, after: &str) {
    for directory in ["", "d", "e", "d/sub"] {
        let there = two.shared.path().join(directory);
        if there.exists() {
            assert_eq!(seen(&mount.path(directory)), seen(&there), "'{directory}' after {after}");
        }
    }
}

pub(crate) fn a_directory_is_at_once_as_it_is_after_each_own_change() {
    let (two, _share, mount) = writable("changing", &[]);
    let path = |name: &str| mount.path(name);
    let both = |after: &str| same(&two, &mount, after);
    fs::create_dir(path("d")).unwrap();
    fs::create_dir(path("e")).unwrap();
    both("mkdir");
    for n in 0..3 {
        fs::File::create_new(path(&format!("d/{n}"))).unwrap();
        both("a new file");
    }
    fs::create_dir(path("d/sub")).unwrap();
    both("mkdir in it");
    symlink("0", path("d/link")).unwrap();
    both("symlink");
    fs::hard_link(path("d/0"), path("d/hard")).unwrap();
    both("link");
    fs::File::create_new(path("d/3")).unwrap();
    fs::set_permissions(path("d"), fs::Permissions::from_mode(0o705)).unwrap();
    both("chmod");
    fs::File::create_new(path("d/4")).unwrap();
    let old = FileTimes::new().set_modified(UNIX_EPOCH + Duration::from_millis(1_234_567));
    fs::File::open(path("d")).unwrap().set_times(old).unwrap();
    both("utimes");
    fs::remove_file(path("d/1")).unwrap();
    both("unlink");
    fs::File::create_new(path("e/x")).unwrap();
    fs::rename(path("d/2"), path("e/2")).unwrap();
    both("rename into another directory");
    fs::File::create_new(path("d/sub/x")).unwrap();
    fs::rename(path("d/sub"), path("e/sub")).unwrap();
    both("rename of a directory");
    fs::rename(path("e/sub"), path("d/sub")).unwrap();
    fs::remove_file(path("d/sub/x")).unwrap();
    fs::remove_dir(path("d/sub")).unwrap();
    both("rmdir");
    let open = fs::File::create_new(path("d/open")).unwrap();
    fs::remove_file(path("d/open")).unwrap();
    both("unlink of an open file");
    drop(open);
    until("the file is gone at the node", || {
        fs::read_dir(two.shared.path().join("d")).unwrap().count() == 5
    });
    // Nobody waits for that, so the kernel may have it as it was.
    until("that is seen", || seen(&path("d")) == seen(&two.shared.path().join("d")));
    assert!(fs::File::create_new(path("d/0")).is_err());
    both("a file that is there");
    // Others' changes of the directory, after a moment.
    fs::write(two.shared.path().join("d/other"), b"").unwrap();
    let there = seen(&two.shared.path().join("d"));
    until("the other change is seen", || seen(&path("d")) == there);
    assert_eq!(fs::read(path("d/other")).unwrap(), b"");
}

pub(crate) fn a_directory_that_is_gone_is_not_as_it_was_for_programs_that_have_it_open() {
    let (two, _share, mount) = writable("gone", &[]);
    let path = |name: &str| mount.path(name);
    // The mount knows them from the answers to these changes.
    for name in ["removed", "replaced", "new"] {
        fs::create_dir(path(name)).unwrap();
        fs::File::create_new(path(&format!("{name}/x"))).unwrap();
        fs::remove_file(path(&format!("{name}/x"))).unwrap();
    }
    let open = |name: &str| fs::File::open(path(name)).unwrap();
    let gone = |held: fs::File| held.metadata().unwrap_err().raw_os_error();
    let (removed, replaced) = (open("removed"), open("replaced"));
    fs::remove_dir(path("removed")).unwrap();
    assert_eq!(gone(removed), Some(116), "stale");
    fs::rename(path("new"), path("replaced")).unwrap();
    assert_eq!(gone(replaced), Some(116), "stale");
    assert_eq!(seen(&path("replaced")), seen(&two.shared.path().join("replaced")));
}

pub(crate) fn programs_that_make_names_at_the_same_time_see_the_directory_as_it_is() {
    let (two, _share, mount) = writable("same-time", &[]);
    fs::create_dir(mount.path("d")).unwrap();
    for round in 0..20 {
        std::thread::scope(|scope| {
            for program in 0..4 {
                let mount = &mount;
                scope.spawn(move || {
                    let name = mount.path(format!("d/{round}-{program}"));
                    fs::create_dir(&name).unwrap();
                    if program % 2 == 0 {
                        fs::remove_dir(&name).unwrap();
                    }
                });
            }
        });
        same(&two, &mount, "changes by several programs");
    }
}

pub(crate) fn a_change_is_one_question() {
    let (two, _share, mount) = writable("one-question", &[]);
    fs::create_dir(mount.path("d")).unwrap();
    let mut sent = 0;
    for n in 0..100 {
        let name = mount.path(format!("d/{n}"));
        fs::File::create_new(&name).unwrap();
        let before = frames(&two);
        fs::remove_file(&name).unwrap();
        sent += frames(&two) - before;
    }
    // The question and an acknowledgement. There were as many for the directory's attributes.
    assert!(sent < 300, "{sent} frames");
}
