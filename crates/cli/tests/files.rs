//! `gigae share` and `gigae cp` between nodes of a virtual network, as a person uses them.
#![allow(missing_docs)]

mod sharing;

use gigae_fabric::{Fabric, Node, testing, tests};
use serde_json::Value;
use sharing::{MAC, Share, bytes, fails, files, gigae, says, tree};
use std::ffi::{OsStr, OsString};
use std::fs;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;
use tempfile::TempDir;

fn main() {
    testing::run(tests![
        a_tree_is_copied_from_a_node_and_back,
        files_are_copied_within_a_node_and_in_udp_datagrams,
        several_clients_copy_at_the_same_time,
        a_share_is_read_only_unless_every_node_is_trusted,
        every_mistake_is_one_line_that_says_what_to_do,
        a_copy_that_is_interrupted_names_what_it_leaves_and_goes_on,
        a_file_that_changes_is_not_copied_in_a_mixed_state,
        a_full_disk_is_said_and_the_next_try_goes_on,
        a_push_goes_on_when_the_server_is_started_again,
        a_push_goes_on_when_the_server_had_no_processor_for_a_while,
        a_push_that_was_interrupted_does_not_mix_with_the_next_one,
        a_push_names_the_files_of_its_user,
        servers_and_clients_are_killed_and_no_file_is_wrong,
    ]);
}

fn cp(node: &Node, arguments: &[&OsStr]) -> Command {
    let mut command = gigae(node);
    command.args(["cp", "--interface", "eth0"]).args(arguments);
    command
}

fn there(path: impl AsRef<OsStr>) -> OsString {
    let mut text = OsString::from(format!("{MAC}:"));
    text.push(path);
    text
}

fn copies(node: &Node, arguments: &[&OsStr]) -> Value {
    let output = cp(node, arguments).arg("--json").output().unwrap();
    assert!(output.status.success(), "{}", says(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}

fn is_temporary(path: &Path) -> bool {
    path.file_name().is_some_and(|name| name.to_string_lossy().contains(".gigae-"))
}

/// What has a name is as it is there.
fn none_is_wrong(from: &Path, to: &Path) -> usize {
    let complete = files(to).into_iter().filter(|(path, _)| !is_temporary(path));
    let mut count = 0;
    for (path, metadata) in complete {
        let (a, b) = (from.join(&path), to.join(&path));
        if metadata.is_symlink() {
            assert_eq!(fs::read_link(a).unwrap(), fs::read_link(b).unwrap());
        } else if metadata.is_file() {
            let read = |path: &Path| {
                fs::read(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
            };
            assert!(read(&a) == read(&b), "{}", path.display());
        }
        count += 1;
    }
    count
}

fn same(from: &Path, to: &Path) {
    assert_eq!(none_is_wrong(from, to), files(from).len());
    assert_eq!(files(from).len(), files(to).len());
    for ((path, a), (_, b)) in files(from).into_iter().zip(files(to)).skip(1) {
        let known = |metadata: &fs::Metadata| (metadata.permissions(), metadata.modified().ok());
        assert!(metadata_is_link(&a) || known(&a) == known(&b), "{}", path.display());
    }
}

fn metadata_is_link(metadata: &fs::Metadata) -> bool {
    metadata.is_symlink()
}

struct Two {
    fabric: Fabric,
    from: TempDir,
    to: TempDir,
}

impl Two {
    fn new(test: &str, large: usize) -> Self {
        let fabric = testing::fabric(test, |config| config.rate = None);
        let (from, to) = (TempDir::new().unwrap(), TempDir::new().unwrap());
        tree(from.path(), large);
        Self { fabric, from, to }
    }

    fn share(&self, more: &[&str]) -> Share {
        Share::start(&self.fabric.node(1), self.from.path(), more)
    }
}

fn a_tree_is_copied_from_a_node_and_back() {
    let two = Two::new("tree", 3 << 20);
    let share = two.share(&[]);
    let node = two.fabric.node(2);
    let new = two.to.path().join("new");
    let said = copies(&node, &[&there(""), new.as_ref()]);
    same(two.from.path(), &new);
    assert_eq!(said["complete"], true);
    assert_eq!((&said["skipped"], &said["failed"]), (&0.into(), &0.into()));
    // A file, a directory and a symlink, each by its name.
    let (a, b, c) = (there("large"), there("a/b"), there("out"));
    copies(&node, &[&a, &b, &c, two.to.path().as_ref()]);
    assert_eq!(fs::read(two.to.path().join("large")).unwrap(), bytes(1, 3 << 20));
    assert_eq!(fs::read_dir(two.to.path().join("b")).unwrap().count(), 700);
    assert_eq!(fs::read_link(two.to.path().join("out")).unwrap(), Path::new("/etc/passwd"));
    // Everything is there.
    let said = copies(&node, &[&there(""), new.as_ref()]);
    assert_eq!(said["skipped"], 703);
    let said = copies(&node, &[&there(""), new.as_ref(), OsStr::new("--ignore-times")]);
    assert_eq!((&said["skipped"], &said["failed"]), (&0.into(), &0.into()));
    drop(share);
    let back = TempDir::new().unwrap();
    let _share =
        Share::start(&two.fabric.node(1), back.path(), &["--writable", "--trust-every-node"]);
    let said = copies(&node, &[new.as_ref(), &there("copy")]);
    assert_eq!(said["complete"], true);
    same(two.from.path(), &back.path().join("copy"));
    copies(&node, &[new.join("large").as_ref(), new.join("a").as_ref(), &there("")]);
    same(&two.from.path().join("a"), &back.path().join("a"));
    let output = cp(&node, &[&there("copy/large"), two.to.path().as_ref()]).output().unwrap();
    assert!(says(&output.stdout).starts_with("0 files") && output.status.success());
}

fn files_are_copied_within_a_node_and_in_udp_datagrams() {
    let two = Two::new("within", 1 << 20);
    let share = two.share(&[]);
    let node = two.fabric.node(1);
    copies(&node, &[&there(""), two.to.path().join("within").as_ref()]);
    same(two.from.path(), &two.to.path().join("within"));
    drop(share);
    let udp = ["--udp", "49200"];
    let _share = two.share(&udp);
    let from = OsString::from(format!("{}:", node.ipv4));
    let to = two.to.path().join("udp");
    copies(&two.fabric.node(2), &[&from, to.as_ref(), udp[0].as_ref(), udp[1].as_ref()]);
    same(two.from.path(), &to);
}

fn several_clients_copy_at_the_same_time() {
    let two = Two::new("several", 8 << 20);
    let _share = two.share(&[]);
    let node = two.fabric.node(2);
    let copying: Vec<_> = (0..6)
        .map(|n| {
            let to = two.to.path().join(n.to_string());
            let child = cp(&node, &[&there(""), to.as_ref()]).stdout(Stdio::null()).spawn();
            (to, child.unwrap())
        })
        .collect();
    for (to, mut child) in copying {
        assert!(child.wait().unwrap().success());
        same(two.from.path(), &to);
    }
}

fn a_share_is_read_only_unless_every_node_is_trusted() {
    let two = Two::new("only", 1000);
    let node = two.fabric.node(2);
    let mut command = gigae(&two.fabric.node(1));
    let output = command.arg("share").arg(two.from.path()).arg("--writable").output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    assert!(says(&output.stderr).contains("--trust-every-node"));
    let _share = two.share(&[]);
    // Only one on an interface: two would answer the same frames.
    let mut second = gigae(&two.fabric.node(1));
    let output = second.arg("share").arg(two.to.path()).args(["--interface", "eth0"]).output();
    fails(&output.unwrap(), "another 'gigae share'");
    let before = files(two.from.path()).len();
    let file = two.to.path().join("file");
    fs::write(&file, b"x").unwrap();
    fails(&cp(&node, &[file.as_ref(), &there("")]).output().unwrap(), "--writable");
    assert_eq!(files(two.from.path()).len(), before);
}

fn every_mistake_is_one_line_that_says_what_to_do() {
    let two = Two::new("mistakes", 1000);
    let share = two.share(&[]);
    let node = two.fabric.node(2);
    let to: &OsStr = two.to.path().as_ref();
    let fails = |arguments: &[&OsStr], part| {
        fails(&cp(&node, arguments).args(["--patience", "2"]).output().unwrap(), part);
    };
    fails(&[&there("missing"), to], "check the path");
    fails(&[&there("out/x"), to], "leads out");
    fails(&[&there("../x"), to], "leads out");
    fails(&[&there("large"), "/nowhere/x/".as_ref()], "no such file");
    fails(&[&there("large"), &there("x")], "on other nodes");
    fails(&[&there("large"), &there("a/large"), to], "would have the name 'large'");
    fails(&[OsStr::new("/etc"), OsStr::new("/usr/etc/../../etc"), &there("")], "the name 'etc'");
    let many = (0..513).map(|n| two.from.path().join(format!("a/b/{n}")).into_os_string());
    let many: Vec<_> = many.chain([there("")]).collect();
    fails(&many.iter().map(AsRef::as_ref).collect::<Vec<_>>(), "name their directory");
    fails(&["a".as_ref(), "b".as_ref()], "use 'cp'");
    fails(&["n7:large".as_ref(), to], "gigae discover --write");
    fails(&["02:67:69:00:00:0e:large".as_ref(), to], "start 'gigae share' there");
    fails(
        &[&there("large"), &there("a"), two.to.path().join("new").as_ref()],
        "is not a directory",
    );
    fs::create_dir(two.to.path().join("large")).unwrap();
    fails(&[&there("large"), to], "a file is where a directory should be");
    fs::remove_dir_all(two.from.path()).unwrap();
    fails(&[&there(""), to], "share it again");
    fs::create_dir(two.from.path()).unwrap();
    drop(share);
    fails(&[&there("large"), to], "start 'gigae share' there");
}

fn signal(child: &Child, signal: &str) {
    let kill = Command::new("kill").args([signal, &child.id().to_string()]).status();
    assert!(kill.unwrap().success());
}

fn interrupt(child: &Child) {
    signal(child, "-INT");
}

fn a_copy_that_is_interrupted_names_what_it_leaves_and_goes_on() {
    let two = Two::new("interrupted", 1000);
    let large = two.from.path().join("large");
    fs::write(&large, bytes(3, 200 << 20)).unwrap();
    let _share = two.share(&[]);
    let node = two.fabric.node(2);
    let arguments = [&there("large")[..], two.to.path().as_ref()];
    let child = cp(&node, &arguments).stderr(Stdio::piped()).spawn().unwrap();
    // Until something has arrived.
    while files(two.to.path()).iter().map(|(_, file)| file.len()).max() < Some(1 << 20) {
        std::thread::sleep(Duration::from_millis(1));
    }
    interrupt(&child);
    let output = child.wait_with_output().unwrap();
    let error = says(&output.stderr);
    // All of it takes 1.7 s at this rate.
    assert_eq!(output.status.code(), Some(130), "{error}");
    let left: Vec<_> = files(two.to.path()).into_iter().skip(1).collect();
    assert!(left.len() == 1 && is_temporary(&left[0].0), "{left:?}");
    let named = two.to.path().join(&left[0].0);
    assert!(error.contains(named.to_str().unwrap()) && error.lines().count() == 1, "{error}");
    let said = copies(&node, &arguments);
    assert!(said["resumed_bytes"].as_u64().unwrap() > 0, "{said}");
    assert!(fs::read(&large).unwrap() == fs::read(two.to.path().join("large")).unwrap());
    assert_eq!(files(two.to.path()).len(), 2);
}

fn a_file_that_changes_is_not_copied_in_a_mixed_state() {
    let two = Two::new("changes", 1000);
    let large = two.from.path().join("large");
    fs::write(&large, bytes(4, 100 << 20)).unwrap();
    let _share = two.share(&[]);
    let node = two.fabric.node(2);
    let arguments = [&there("large")[..], two.to.path().as_ref()];
    let child = cp(&node, &arguments).stderr(Stdio::piped()).spawn().unwrap();
    while files(two.to.path()).iter().map(|(_, file)| file.len()).max() < Some(1 << 20) {
        std::thread::sleep(Duration::from_millis(1));
    }
    let file = fs::File::options().write(true).open(&large).unwrap();
    std::os::unix::fs::FileExt::write_all_at(&file, b"other", 99 << 20).unwrap();
    let output = child.wait_with_output().unwrap();
    if output.status.success() {
        // It was quicker.
        assert!(bytes(4, 100 << 20) == fs::read(two.to.path().join("large")).unwrap());
    } else {
        fails(&output, "changed while it was copied");
        assert_eq!(files(two.to.path()).len(), 1, "nothing is left");
    }
}

fn a_full_disk_is_said_and_the_next_try_goes_on() {
    let two = Two::new("full", 3 << 20);
    let node = two.fabric.node(2);
    let _share = two.share(&[]);
    let small = two.to.path().join("small");
    fs::create_dir(&small).unwrap();
    let mount = |options: &str| {
        let output = Command::new("mount")
            .args(["-t", "tmpfs", "-o", options, "none"])
            .arg(&small)
            .output()
            .unwrap();
        assert!(output.status.success(), "{}", says(&output.stderr));
    };
    mount("size=2m");
    let to = small.join("new");
    let output = cp(&node, &[&there(""), to.as_ref()]).output().unwrap();
    let before = none_is_wrong_if_there(two.from.path(), &to);
    fails(&output, "make room");
    mount("remount,size=64m");
    copies(&node, &[&there(""), to.as_ref()]);
    same(two.from.path(), &to);
    assert!(before < files(&to).len());
    assert!(Command::new("umount").arg(&small).status().unwrap().success());
}

fn none_is_wrong_if_there(from: &Path, to: &Path) -> usize {
    if to.exists() { none_is_wrong(from, to) } else { 0 }
}

fn a_push_goes_on_when_the_server_is_started_again() {
    let two = Two::new("push", 100 << 20);
    let node = two.fabric.node(2);
    let writable = ["--writable", "--trust-every-node"];
    let share = || Share::start(&two.fabric.node(1), two.to.path(), &writable);
    let first = share();
    let to = two.to.path().join("new");
    let arguments = [two.from.path().as_ref(), &there("new")[..]];
    let child = cp(&node, &arguments).stderr(Stdio::piped()).spawn().unwrap();
    let large = || to.exists() && files(&to).iter().any(|(_, file)| file.len() > 1 << 20);
    while !large() {
        std::thread::sleep(Duration::from_millis(1));
    }
    drop(first);
    none_is_wrong(two.from.path(), &to);
    let _share = share();
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success(), "{}", says(&output.stderr));
    same(two.from.path(), &to);
}

/// Also in UDP datagrams, where both commands have the same port and so are the same peer.
fn a_push_that_was_interrupted_does_not_mix_with_the_next_one() {
    for udp in [&[][..], &["--udp", "49200"]] {
        let two = Two::new("next", 1000);
        let (first, next) = (two.from.path().join("first"), two.from.path().join("next"));
        for (n, directory) in [&first, &next].into_iter().enumerate() {
            fs::create_dir_all(directory.join("x")).unwrap();
            fs::write(directory.join("x/large"), bytes(n as u32, 100 << 20)).unwrap();
            for name in 0..300 {
                fs::write(directory.join(format!("x/{name}")), [n as u8; 99]).unwrap();
            }
        }
        let mut more = vec!["--writable", "--trust-every-node"];
        more.extend(udp);
        let _share = Share::start(&two.fabric.node(1), two.to.path(), &more);
        let node = two.fabric.node(2);
        let to = match udp {
            [] => there(""),
            _ => OsString::from(format!("{}:", two.fabric.node(1).ipv4)),
        };
        let push = |directory: &Path| {
            let mut command = cp(&node, &[directory.join("x").as_ref(), &to]);
            command.args(udp).stdout(Stdio::null()).stderr(Stdio::piped());
            command
        };
        let child = push(&first).spawn().unwrap();
        while files(two.to.path()).iter().map(|(_, file)| file.len()).max() < Some(1 << 20) {
            std::thread::sleep(Duration::from_millis(1));
        }
        interrupt(&child);
        let output = child.wait_with_output().unwrap();
        let error = says(&output.stderr);
        assert_eq!(output.status.code(), Some(130), "{error}");
        assert!(error.contains(":x/.large.gigae-"), "{error}");
        let output = push(&next).arg("--ignore-times").output().unwrap();
        assert!(output.status.success(), "{}", says(&output.stderr));
        none_is_wrong(&next, two.to.path());
        let complete = files(two.to.path()).into_iter().filter(|(path, _)| !is_temporary(path));
        assert_eq!(complete.count(), files(&next).len());
    }
}

/// For longer than a request's reply is waited for, before the first request.
fn a_push_goes_on_when_the_server_had_no_processor_for_a_while() {
    let two = Two::new("stopped", 1 << 20);
    let share =
        Share::start(&two.fabric.node(1), two.to.path(), &["--writable", "--trust-every-node"]);
    signal(&share.0, "-STOP");
    let arguments = [two.from.path().as_ref(), &there("copy")[..]];
    let mut child = cp(&two.fabric.node(2), &arguments).stdout(Stdio::null()).spawn().unwrap();
    std::thread::sleep(Duration::from_secs(4));
    signal(&share.0, "-CONT");
    let ended = (0..600).find_map(|_| {
        std::thread::sleep(Duration::from_millis(100));
        child.try_wait().unwrap()
    });
    if ended.is_none() {
        child.kill().unwrap();
        child.wait().unwrap();
    }
    assert!(ended.expect("it does not end").success());
    same(two.from.path(), &two.to.path().join("copy"));
}

fn a_push_names_the_files_of_its_user() {
    let two = Two::new("names", 1000);
    let _share =
        Share::start(&two.fabric.node(1), two.to.path(), &["--writable", "--trust-every-node"]);
    let fifo = two.from.path().join("a/fifo");
    assert!(Command::new("mkfifo").arg(&fifo).status().unwrap().success());
    let node = two.fabric.node(2);
    let output = cp(&node, &[two.from.path().as_ref(), &there("copy")]).output().unwrap();
    fails(&output, &format!("'{}'", fifo.display()));
}

/// By seed, one of the two is killed after some milliseconds. The same command again goes on.
fn servers_and_clients_are_killed_and_no_file_is_wrong() {
    let two = Two::new("killed", 24 << 20);
    let node = two.fabric.node(2);
    let mut share = two.share(&[]);
    let (mut killed, mut resumed) = (0, 0);
    for seed in 0..100u32 {
        let to = two.to.path().join(seed.to_string());
        let random = u32::from_le_bytes(bytes(seed + 1000, 4).try_into().unwrap());
        let after = Duration::from_micros((random % 120_000).into());
        let arguments = [&there("")[..], to.as_ref()];
        let mut child = cp(&node, &arguments).stdout(Stdio::null()).spawn().unwrap();
        std::thread::sleep(after);
        if random & (1 << 20) == 0 {
            child.kill().unwrap();
            killed += usize::from(!child.wait().unwrap().success());
        } else {
            // The client goes on with the next one.
            share = {
                drop(share);
                two.share(&[])
            };
            assert!(child.wait().unwrap().success(), "seed {seed}");
            same(two.from.path(), &to);
            killed += 1;
        }
        none_is_wrong_if_there(two.from.path(), &to);
        let said = copies(&node, &arguments);
        resumed += said["resumed_bytes"].as_u64().unwrap() + said["skipped"].as_u64().unwrap();
        same(two.from.path(), &to);
        fs::remove_dir_all(&to).unwrap();
    }
    drop(share);
    assert!(killed > 50 && resumed > 0, "{killed} killed, {resumed} resumed");
}
