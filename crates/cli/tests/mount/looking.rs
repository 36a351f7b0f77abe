//! What programs see that look at many names of a directory, which is then listed.

use crate::common::{Two, is, until};
use crate::sharing::Share;
use rustix::io::Errno;
use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Names and attributes may be so old, and a little more: what is measured is not this test's time.
const OLD: Duration = Duration::from_millis(1100);

/// Frames that the node that mounts has sent.
pub(crate) fn frames(two: &Two) -> u64 {
    let mut cat = two.fabric.node(2).command("cat").unwrap();
    let text = String::from_utf8(cat.arg("/proc/net/dev").output().unwrap().stdout).unwrap();
    let line = text.lines().find_map(|line| line.trim().strip_prefix("eth0:")).unwrap();
    line.split_whitespace().nth(9).unwrap().parse().unwrap()
}

/// Looks at files that the mount has not seen, until the directory is listed and what is on its
/// way has arrived.
fn look(two: &Two, directory: &Path, names: std::ops::Range<u32>) {
    for n in names {
        fs::metadata(directory.join(n.to_string())).unwrap();
    }
    let mut before = frames(two);
    for _ in 0..20 {
        std::thread::sleep(Duration::from_millis(5));
        let now = frames(two);
        if now == before {
            return;
        }
        before = now;
    }
}

pub(crate) fn many_looks_at_names_need_few_frames() {
    let two = Two::new("looks", 1000);
    let _share = two.share();
    let there = two.shared.path().join("a/b");
    let known = |m: fs::Metadata| {
        (m.file_type(), m.mode() & 0o777, m.len(), m.nlink(), m.modified().unwrap(), m.ctime())
    };
    let mount = two.mount("", &[]);
    let here = mount.path("a/b");
    fs::metadata(&here).unwrap();
    let before = frames(&two);
    for n in (0..700).rev() {
        let name = n.to_string();
        let seen = fs::symlink_metadata(here.join(&name)).unwrap();
        assert_eq!(known(seen), known(fs::symlink_metadata(there.join(&name)).unwrap()));
    }
    let sent = frames(&two) - before;
    // Each look was a frame before there were lists.
    assert!(sent < 350, "{sent} frames");
    // What is missing is asked for each time.
    for n in 0..100 {
        let name = format!("new-{n}");
        is(fs::read(here.join(&name)), Errno::NOENT);
        fs::write(there.join(&name), &name).unwrap();
        assert_eq!(fs::read(here.join(&name)).unwrap(), name.as_bytes());
    }
    // The server says so, and nothing that is known here.
    is(fs::metadata(here.join("n".repeat(300))), Errno::NAMETOOLONG);
}

/// Files of a directory that is made anew for each round.
const FILES: u32 = 100;

pub(crate) fn own_changes_are_seen_at_once_and_those_of_others_after_a_second() {
    let two = Two::new("listed-changes", 1000);
    let _share =
        Share::start(&two.fabric.node(1), two.shared.path(), &["--writable", "--trust-every-node"]);
    let mount = two.mount("", &["--writable"]);
    let links = |path: PathBuf| fs::metadata(path).unwrap().nlink();
    let (mut looked, mut asked) = (0, 0);
    for round in 0..5 {
        let there = two.shared.path().join(format!("d{round}"));
        fs::create_dir(&there).unwrap();
        for n in 0..FILES {
            fs::write(there.join(n.to_string()), b"text").unwrap();
        }
        for name in ["1", "2", "9"] {
            fs::hard_link(there.join(name), there.join(format!("hard-{name}"))).unwrap();
            fs::hard_link(there.join(name), there.join(format!("more-{name}"))).unwrap();
        }
        let directory = mount.path(format!("d{round}"));
        let here = |name: &str| directory.join(name);
        look(&two, &directory, 20..40);
        // This mount's own changes.
        is(fs::metadata(here("new")), Errno::NOENT);
        fs::write(here("new"), b"new").unwrap();
        assert_eq!(fs::metadata(here("new")).unwrap().len(), 3);
        fs::remove_file(here("0")).unwrap();
        is(fs::metadata(here("0")), Errno::NOENT);
        fs::rename(here("3"), here("moved")).unwrap();
        is(fs::metadata(here("3")), Errno::NOENT);
        assert_eq!(fs::metadata(here("moved")).unwrap().len(), 4);
        fs::write(here("1"), b"much longer").unwrap();
        assert_eq!(fs::metadata(here("hard-1")).unwrap().len(), 11);
        let file = fs::OpenOptions::new().write(true).open(here("hard-1")).unwrap();
        file.set_len(2).unwrap();
        assert_eq!(fs::metadata(here("more-1")).unwrap().len(), 2);
        fs::set_permissions(here("2"), fs::Permissions::from_mode(0o600)).unwrap();
        assert_eq!(fs::metadata(here("hard-2")).unwrap().mode() & 0o777, 0o600);
        // One of three names.
        fs::remove_file(here("hard-2")).unwrap();
        assert_eq!((links(here("more-2")), links(here("2"))), (2, 2));
        fs::hard_link(here("4"), here("hard-4")).unwrap();
        assert_eq!(links(here("4")), 2);
        // A file that is open when its name is removed has another name until it is closed.
        let open = fs::File::open(here("9")).unwrap();
        fs::remove_file(here("9")).unwrap();
        is(fs::metadata(here("9")), Errno::NOENT);
        assert_eq!(links(here("hard-9")), 3);
        drop(open);
        // Closing waits for nothing.
        until("the name is removed", || links(there.join("hard-9")) == 2);
        assert_eq!((links(here("more-9")), links(here("hard-9"))), (2, 2));
        fs::create_dir(here("sub")).unwrap();
        fs::create_dir(here("sub/below")).unwrap();
        assert_eq!(links(here("sub")), links(there.join("sub")));
        // What was not touched still comes from a list.
        look(&two, &directory, 40..60);
        let before = frames(&two);
        for n in 60..80 {
            fs::metadata(here(&n.to_string())).unwrap();
        }
        (looked, asked) = (looked + 20, asked + frames(&two) - before);
        // Those of others, of names that the kernel does not know yet.
        fs::write(there.join("5"), format!("round {round}")).unwrap();
        assert_eq!(fs::read(here("5")).unwrap(), format!("round {round}").as_bytes(), "opened");
        fs::write(there.join("6"), b"longer text").unwrap();
        fs::remove_file(there.join("7")).unwrap();
        is(fs::read(here("7")), Errno::NOENT);
        fs::remove_file(there.join("8")).unwrap();
        fs::write(there.join("others"), b"y").unwrap();
        assert_eq!(fs::metadata(here("others")).unwrap().len(), 1, "it is not in a list");
        // It exists, whatever is known here.
        is(fs::File::create_new(here("others")), Errno::EXIST);
        std::thread::sleep(OLD);
        assert_eq!(fs::metadata(here("6")).unwrap().len(), 11);
        is(fs::metadata(here("8")), Errno::NOENT);
    }
    // A machine that is slow at times may have asked for some.
    assert!(asked < looked / 2, "{asked} frames for {looked} looks");
}

/// What a list says of a file is not used if the kernel has newer attributes of it.
pub(crate) fn a_file_that_the_kernel_knows_is_asked_for() {
    let two = Two::new("listed-known", 1000);
    let _share = two.share();
    let mount = two.mount("", &[]);
    for round in 0..3 {
        let there = two.shared.path().join(format!("k{round}"));
        fs::create_dir(&there).unwrap();
        for n in 0..FILES {
            fs::write(there.join(n.to_string()), b"text").unwrap();
        }
        fs::hard_link(there.join("0"), there.join("hard")).unwrap();
        let here = mount.path(format!("k{round}"));
        let file = fs::File::open(here.join("0")).unwrap();
        look(&two, &here, 20..40);
        // It is listed with the former length, and opened with this one.
        fs::write(there.join("0"), b"longer text").unwrap();
        let before = frames(&two);
        assert_eq!(fs::metadata(here.join("hard")).unwrap().len(), 11);
        assert!(frames(&two) > before);
        drop(file);
    }
}
