//! Servers, networks and commands that end.

use crate::common::{Mount, Two, is, is_mounted, same, signal, until};
use crate::sharing::{MAC, bytes, fails, gigae};
use rustix::io::Errno;
use std::ffi::OsStr;
use std::fs;
use std::io::Read;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::time::Duration;

pub(crate) fn a_server_that_is_killed_and_started_again_is_read_on() {
    let two = Two::new("again", 200 << 20);
    let mut share = Some(two.share());
    let mount = two.mount("", &[]);
    let wanted = bytes(1, 200 << 20);
    for round in 0..3u64 {
        // The kernel has nothing of it.
        let file = fs::File::open(two.shared.path().join("large")).unwrap();
        file.set_modified(std::time::UNIX_EPOCH + Duration::from_secs(round)).unwrap();
        let mut file = fs::File::open(mount.path("large")).unwrap();
        let mut read = Vec::with_capacity(wanted.len());
        let mut part = vec![0; 1 << 20];
        let mut killed = false;
        loop {
            let len = file.read(&mut part).unwrap();
            read.extend_from_slice(&part[..len]);
            if len == 0 {
                break;
            }
            if read.len() > (50 << 20) && !killed {
                killed = true;
                drop(share.take());
                if round == 1 {
                    // Others ask meanwhile.
                    let mut ls = Command::new("ls");
                    ls.arg("-l").arg(mount.path("a/b")).stdout(Stdio::null());
                    let mut ls = ls.spawn().unwrap();
                    std::thread::sleep(Duration::from_millis(500));
                    share = Some(two.share());
                    assert!(ls.wait().unwrap().success());
                } else {
                    share = Some(two.share());
                }
            }
        }
        assert!(killed && read == wanted, "round {round}");
    }
    same(two.shared.path(), two.at.path());
}

pub(crate) fn a_server_that_is_gone_is_an_error_and_no_hang() {
    let two = Two::new("gone", 1 << 20);
    let share = two.share();
    let mut mount = two.mount("", &["--patience", "1"]);
    let open = fs::File::open(mount.path("large")).unwrap();
    // Its process stands still, and then it is not there at all.
    signal(&share.0, "STOP");
    is(fs::read(mount.path("a/large")), Errno::IO);
    is(open.read_at(&mut [0; 9], 1 << 19), Errno::IO);
    mount.says("start 'gigae share' there");
    is(fs::read_dir(mount.path("a")).and_then(|mut list| list.next().unwrap()), Errno::IO);
    signal(&share.0, "CONT");
    until("an answer", || fs::read(mount.path("a/large")).is_ok());
    mount.says("answers again");
    drop(share);
    is(fs::read(mount.path("a/b/7")), Errno::IO);
    mount.says("start 'gigae share' there");
    let _share = two.share();
    until("an answer", || fs::read(mount.path("a/b/7")).is_ok());
    mount.says("answers again");
    same(two.shared.path(), two.at.path());
    // What was open before is so still.
    let mut part = vec![0; 4096];
    open.read_exact_at(&mut part, 1 << 19).unwrap();
    assert!(part == bytes(1, 1 << 20)[1 << 19..(1 << 19) + 4096]);
    fs::remove_dir_all(two.shared.path()).unwrap();
    is(fs::read(mount.path("a/b/8")), Errno::STALE);
    fs::create_dir(two.shared.path()).unwrap();
}

pub(crate) fn a_network_that_is_cut_is_an_error_and_used_again() {
    let two = Two::new("cut", 30 << 20);
    let _share = two.share();
    let mut mount = two.mount("", &["--patience", "1"]);
    for number in [1, 2] {
        let set = |state: &str| {
            let mut ip = two.fabric.node(number).command("ip").unwrap();
            let set = ip.args(["link", "set", "eth0", state]).status();
            assert!(set.unwrap().success());
        };
        let large = mount.path("large");
        let reads = std::thread::spawn(move || fs::read(large));
        set("down");
        is(fs::read(mount.path("a/large")), Errno::IO);
        mount.says("has not answered");
        // It had all of it, or says that it has not.
        match reads.join().unwrap() {
            Ok(read) => assert!(read == bytes(1, 30 << 20)),
            Err(error) => assert_eq!(error.raw_os_error(), Some(Errno::IO.raw_os_error())),
        }
        set("up");
        until("an answer", || fs::read(mount.path("a/large")).is_ok());
        mount.says("answers again");
        same(two.shared.path(), two.at.path());
        // The kernel has nothing of it.
        let file = fs::File::open(two.shared.path().join("large")).unwrap();
        file.set_modified(std::time::UNIX_EPOCH).unwrap();
        let file = fs::File::open(two.shared.path().join("a/large")).unwrap();
        file.set_modified(std::time::UNIX_EPOCH).unwrap();
    }
}

/// Processes of this test's mounts, by a path that no others have.
fn processes(of: &Path) -> Vec<u32> {
    let list = fs::read_dir("/proc").unwrap().flatten();
    let of = of.as_os_str().as_bytes();
    let number = |entry: fs::DirEntry| {
        let command = fs::read(entry.path().join("cmdline")).unwrap_or_default();
        let is = command.windows(of.len()).any(|part| part == of);
        entry.file_name().to_str()?.parse().ok().filter(|_| is)
    };
    list.filter_map(number).collect()
}

/// Kills what watches a mount.
fn kill_watcher(mount: &Mount) {
    let mut watcher = None;
    // A process that begins has no command line for a moment.
    until("the watcher", || {
        watcher = processes(&mount.at).into_iter().find(|&number| number != mount.child.id());
        watcher.is_some()
    });
    let kill = Command::new("kill").args(["-KILL", &watcher.unwrap().to_string()]).status();
    assert!(kill.unwrap().success());
    until("its end", || processes(&mount.at).len() == 1);
}

pub(crate) fn every_way_to_end_leaves_no_mount_and_no_process() {
    let two = Two::new("ends", 1000);
    let _share = two.share();
    let mount = two.mount("", &[]);
    until("the command, and what watches it", || processes(two.at.path()).len() == 2);
    signal(&mount.child, "INT");
    assert_eq!(mount.ends(), Some(0));
    assert!(processes(two.at.path()).is_empty());
    // While a program has a file and a directory open.
    let mount = two.mount("", &[]);
    let open = fs::File::open(mount.path("large")).unwrap();
    let list = fs::read_dir(mount.path("a/b")).unwrap();
    signal(&mount.child, "TERM");
    assert_eq!(mount.ends(), Some(0));
    assert!(processes(two.at.path()).is_empty());
    is(open.read_at(&mut [0; 9], 0), Errno::NOTCONN);
    drop((open, list));
    let mount = two.mount("", &[]);
    assert!(Command::new("umount").arg(two.at.path()).status().unwrap().success());
    assert_eq!(mount.ends(), Some(0));
    assert!(processes(two.at.path()).is_empty());
    // Killed, with a space in the path.
    let at = two.at.path().join("a b");
    fs::create_dir(&at).unwrap();
    let mut command = two.command("", &[]);
    let arguments: Vec<_> = command.get_args().map(OsStr::to_owned).collect();
    let last = arguments.len() - 1;
    command = gigae(&two.fabric.node(2));
    command.args(&arguments[..last]).arg(&at).stderr(Stdio::piped());
    let mut mount = Mount::start(command, &at);
    let escaped = two.at.path().join("a\\040b");
    assert!(is_mounted(&escaped));
    mount.child.kill().unwrap();
    mount.child.wait().unwrap();
    until("the watcher has unmounted", || !is_mounted(&escaped));
    until("the watcher has ended", || processes(&at).is_empty());
    // What watches is killed: the command goes on, and ends as ever.
    let mount = two.mount("", &[]);
    kill_watcher(&mount);
    assert_eq!(fs::read(mount.path("large")).unwrap(), bytes(1, 1000));
    signal(&mount.child, "INT");
    assert_eq!(mount.ends(), Some(0));
}

pub(crate) fn every_mistake_is_one_line_that_says_what_to_do() {
    let two = Two::new("mistaken", 1000);
    let share = two.share();
    let run = |directory: &str, more: &[&str]| -> Output {
        two.command(directory, &["--patience", "2"]).args(more).output().unwrap()
    };
    fails(&run("missing", &[]), "check the path");
    fails(&run("large", &[]), "is not a directory");
    let at = |from: &str, at: &str| -> Output {
        let mut command = gigae(&two.fabric.node(2));
        command.args(["mount", "--interface", "eth0", "--patience", "2", from, at]);
        command.output().unwrap()
    };
    let there = format!("{MAC}:");
    fails(&at("/etc", "/mnt"), "write NODE:DIR");
    fails(&at(&there, "/nowhere/x"), "make the directory");
    fails(&at(&there, "/etc/passwd"), "not a directory");
    fails(&at("n7:x", "/mnt"), "gigae discover --write");
    fails(&at("02:67:69:00:00:0e:", "/mnt"), "start 'gigae share' there");
    // Nothing stays mounted where a former command was killed with its watcher.
    let mut mount = two.mount("", &[]);
    kill_watcher(&mount);
    mount.child.kill().unwrap();
    mount.child.wait().unwrap();
    fails(&run("", &[]), "run 'umount -l");
    drop(mount);
    drop(share);
    fails(&run("", &[]), "start 'gigae share' there");
    assert!(!is_mounted(two.at.path()));
}
