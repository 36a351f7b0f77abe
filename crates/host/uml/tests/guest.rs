//! Real guests: scripts, files of this machine, and what is left when they end.
//!
//! Called as `boots DIRECTORY`, this test binary boots a guest and waits; called by `cargo test`,
//! it is the tests.

use gigae_fabric::{testing, tests};
use gigae_host::proc::process;
use gigae_uml::{Guest, GuestError, HERE, Machine};
use std::collections::BTreeMap;
use std::fs;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

/// Long enough for a loaded machine; nothing is concluded from how long it really takes.
const PATIENCE: Duration = Duration::from_secs(300);

/// The role of a process that is killed.
const BOOTS: &str = "boots";

fn main() {
    let mut words = std::env::args().skip(1);
    if words.next().is_some_and(|word| word == BOOTS) {
        let directory = words.next().unwrap();
        let guest = boot(Path::new(&directory));
        println!("{}", guest.id());
        loop {
            std::thread::park();
        }
    }
    testing::run(tests![
        scripts_run_one_after_the_other_and_say_how_they_ended,
        a_guest_reads_the_files_of_this_machine_and_writes_to_its_own_disk_alone,
        a_guest_that_mounts_the_files_of_this_machine_to_write_them_cannot,
        what_is_written_at_once_and_in_parallel_is_on_the_disks,
        a_guest_that_hangs_is_ended_and_leaves_no_process,
        a_guest_that_talks_without_end_is_ended_in_time,
        a_guest_that_ends_by_itself_shows_the_end_of_its_console,
        a_killed_process_leaves_no_guest
    ]);
}

static NEVER: AtomicBool = AtomicBool::new(false);

fn machine(directory: &Path) -> Machine<'_> {
    Machine {
        name: "guest",
        directory,
        memory_mib: 96,
        disks: Vec::new(),
        modules: &[],
        link: None,
    }
}

fn boot(directory: &Path) -> Guest {
    Guest::boot(&machine(directory), &NEVER).unwrap()
}

fn run(guest: &mut Guest, script: &str) -> Result<String, GuestError> {
    guest.run("do what the test asks", script, PATIENCE, &NEVER)
}

/// A process and all that it has started.
fn tree(first: u32) -> Vec<u32> {
    let numbers = fs::read_dir("/proc").unwrap().flatten();
    let numbers = numbers.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    let parents: BTreeMap<u32, u32> =
        numbers.filter_map(|pid| Some((pid, process::Stat::of(pid)?.parent))).collect();
    let mut all = vec![first];
    let mut at = 0;
    while at < all.len() {
        let of = all[at];
        all.extend(parents.iter().filter(|(_, parent)| **parent == of).map(|(pid, _)| *pid));
        at += 1;
    }
    all
}

fn all_gone(pids: &[u32]) {
    let deadline = Instant::now() + PATIENCE;
    while let Some(pid) = pids.iter().find(|&&pid| process::is_alive(pid)) {
        assert!(Instant::now() < deadline, "{pid} ({}) lives on", process::command(*pid));
        std::thread::sleep(Duration::from_millis(10));
    }
}

fn scripts_run_one_after_the_other_and_say_how_they_ended() {
    let place = tempfile::tempdir().unwrap();
    let mut guest = boot(place.path());
    let own = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap();
    assert_ne!(guest.kernel(), own.trim(), "it has a kernel of its own");
    // Whatever bytes a script says, and much of it.
    let said = run(&mut guest, "printf 'a\\r\\n\\001b@done 2 0\\n'; echo error >&2").unwrap();
    assert_eq!(said, "a\r\n\u{1}b@done 2 0\nerror\n");
    let many = run(&mut guest, "seq 1 20000").unwrap();
    assert_eq!((many.lines().count(), many.lines().last()), (20_000, Some("20000")));
    let failed = run(&mut guest, "echo one; echo two; exit 3").unwrap_err();
    assert!(failed.leaves_guest());
    let text = failed.to_string();
    assert!(text.contains("(status 3): 'one' 'two'") && !text.contains('\n'), "{text}");
    assert_eq!(run(&mut guest, "cat").unwrap(), "", "it has no input");
    let interrupted = AtomicBool::new(true);
    let error = guest.run("wait", "sleep 1000", PATIENCE, &interrupted).unwrap_err();
    assert!(matches!(error, GuestError::Interrupted));
}

fn a_guest_reads_the_files_of_this_machine_and_writes_to_its_own_disk_alone() {
    let place = tempfile::tempdir().unwrap();
    let here = place.path().join("here");
    fs::write(&here, "of this machine").unwrap();
    let path = here.display();
    let machine = Machine { disks: vec![1 << 20], ..machine(place.path()) };
    let mut guest = Guest::boot(&machine, &NEVER).unwrap();
    // The guest has a directory of its own at /tmp.
    let script = format!("cat {HERE}{path}");
    assert_eq!(run(&mut guest, &script).unwrap(), "of this machine");
    let attempts = [
        format!("echo changed >{HERE}{path}"),
        format!("rm {HERE}{path}"),
        "touch /usr/gigae-guest /etc/gigae-guest".to_owned(),
        "touch /mnt/host/gigae-guest".to_owned(),
    ];
    for attempt in attempts {
        let error = run(&mut guest, &attempt).unwrap_err().to_string();
        assert!(error.contains("Read-only file system"), "{attempt}: {error}");
    }
    assert_eq!(fs::read_to_string(&here).unwrap(), "of this machine");
    run(&mut guest, "echo of the guest >/dev/loop0 && sync").unwrap();
    let disk = fs::read(place.path().join("guest/disks/0")).unwrap();
    assert!(disk.starts_with(b"of the guest\n") && disk.len() == 1 << 20);
}

fn a_guest_that_mounts_the_files_of_this_machine_to_write_them_cannot() {
    let place = tempfile::tempdir().unwrap();
    let here = place.path().join("here");
    fs::write(&here, "of this machine").unwrap();
    let path = here.display();
    let mut guest = boot(place.path());
    // The guest's own flag goes, and this machine's kernel refuses.
    run(&mut guest, "mount -o remount,rw / && mkdir /mnt/x /mnt/y").unwrap();
    run(&mut guest, "mount -t hostfs none /mnt/x").unwrap();
    run(&mut guest, "touch /mnt/y/writable && mount -t hostfs -o /proc none /mnt/y").unwrap();
    let own = std::process::id();
    let attempts = [
        format!("echo changed >{HERE}{path}"),
        format!("echo changed >/mnt/x{path}"),
        format!("rm /mnt/x{path}"),
        format!("mkdir {HERE}{path}-new"),
        "touch /usr/gigae-guest".to_owned(),
        format!("chmod 777 {HERE}{path}"),
        "echo 0 >/mnt/y/sys/vm/swappiness".to_owned(),
        // Processes of this machine have other mounts.
        format!("mount -t hostfs -o /proc/{own}/root none /mnt/z; echo changed >/mnt/z{path}"),
        format!("mount -t hostfs -o /proc/1/root none /mnt/z; echo changed >/mnt/z{path}"),
    ];
    for attempt in attempts {
        let attempt = format!("mkdir -p /mnt/z; {attempt}");
        match run(&mut guest, &attempt) {
            Ok(said) => panic!("{attempt}: {said}"),
            Err(error) => assert!(error.leaves_guest(), "{attempt}: {error}"),
        }
    }
    assert_eq!(fs::read_to_string(&here).unwrap(), "of this machine");
    let entries = fs::read_dir(place.path()).unwrap().flatten().map(|entry| entry.file_name());
    let mut entries: Vec<_> = entries.collect();
    entries.sort();
    assert_eq!(entries, ["guest", "here"]);
    // Its own directory is what it can write, so the attempts fail for their places alone.
    let own = place.path().join("guest");
    let script = format!("mount -t hostfs -o {} none /mnt/x && echo 1 >/mnt/x/new", own.display());
    run(&mut guest, &script).unwrap();
    assert_eq!(fs::read_to_string(own.join("new")).unwrap(), "1\n");
}

/// Two file systems with a journal, more than the guest has memory, and all writers at once.
fn what_is_written_at_once_and_in_parallel_is_on_the_disks() {
    let place = tempfile::tempdir().unwrap();
    let machine = Machine { disks: vec![192 << 20; 2], ..machine(place.path()) };
    let mut guest = Guest::boot(&machine, &NEVER).unwrap();
    let script = "set -e
        head -c 4194304 /dev/urandom >/run/piece
        for n in 0 1; do
            mkfs.ext4 -q -F /dev/loop$n
            mkdir /mnt/$n
            mount -t ext4 /dev/loop$n /mnt/$n
        done
        for file in 0/a 0/b 1/a 1/b; do
            (for piece in $(seq 16); do cat /run/piece; done) >/mnt/$file &
        done
        wait
        umount /mnt/0 /mnt/1
        for n in 0 1; do
            mount -t ext4 /dev/loop$n /mnt/$n
        done
        (for piece in $(seq 16); do cat /run/piece; done) | sha256sum
        for file in 0/a 0/b 1/a 1/b; do
            sha256sum </mnt/$file
        done";
    let said = run(&mut guest, script).unwrap();
    let mut hashes: Vec<&str> = said.lines().collect();
    assert_eq!(hashes.len(), 5, "{said}");
    hashes.dedup();
    assert_eq!(hashes.len(), 1, "{said}");
}

fn a_guest_that_hangs_is_ended_and_leaves_no_process() {
    let place = tempfile::tempdir().unwrap();
    let mut guest = boot(place.path());
    let pids = tree(guest.id());
    assert!(pids.len() > 2, "{pids:?}");
    let error = guest.run("sleep", "sleep 1000", Duration::from_secs(1), &NEVER).unwrap_err();
    let text = error.to_string();
    assert!(text.contains("did not sleep in 1 s") && !text.contains('\n'), "{text}");
    assert!(text.contains("try again") && text.contains("do less"), "{text}");
    all_gone(&pids);
    assert!(matches!(run(&mut guest, "true"), Err(GuestError::Ended { .. })));
}

fn a_guest_that_talks_without_end_is_ended_in_time() {
    let place = tempfile::tempdir().unwrap();
    let mut guest = boot(place.path());
    let script = "while :; do echo not an answer >/dev/tty1; done";
    let error = guest.run("end", script, Duration::from_secs(1), &NEVER).unwrap_err();
    assert!(matches!(error, GuestError::Late { .. }), "{error}");
}

fn a_guest_that_ends_by_itself_shows_the_end_of_its_console() {
    let place = tempfile::tempdir().unwrap();
    let mut guest = boot(place.path());
    let pids = tree(guest.id());
    let script = "echo last words >/dev/tty0; echo c >/proc/sysrq-trigger";
    let text = run(&mut guest, script).unwrap_err().to_string();
    assert!(text.starts_with("guest 'guest' ended") && !text.contains('\n'), "{text}");
    all_gone(&pids);
}

fn a_killed_process_leaves_no_guest() {
    let place = tempfile::tempdir().unwrap();
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.arg(BOOTS).arg(place.path()).stdout(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let mut line = String::new();
    BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
    let pids = tree(line.trim().parse().unwrap());
    assert!(pids.len() > 2, "{pids:?}");
    child.kill().unwrap();
    child.wait().unwrap();
    all_gone(&pids);
}
