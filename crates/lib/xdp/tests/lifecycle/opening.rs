//! What opening a link costs, and what it need not do again.

use super::*;
use std::path::Path;

/// Pages that this thread had the kernel make or map until now.
fn faults() -> i64 {
    // SAFETY: the call writes one structure of integers, for which zeros are valid.
    unsafe {
        let mut usage: libc::rusage = std::mem::zeroed();
        assert_eq!(libc::getrusage(libc::RUSAGE_THREAD, &mut usage), 0);
        usage.ru_minflt
    }
}

/// Twenty megabytes: making them took most of the time.
pub(crate) fn each_page_is_made_once() {
    const PAGES: i64 = (1024 + 4096) * 4096 / 4096;
    /// Stack, heap and rings.
    const REST: i64 = 200;
    let fabric = testing::fabric("pages", |_| ());
    let before = faults();
    let _link = open(&fabric, config("eth0")).unwrap();
    let made = faults() - before;
    assert!(made <= PAGES + REST, "{made} pages were made or mapped for {PAGES}");
}

/// The kernel has pinned the frames, which must stay those of both.
pub(crate) fn a_fork_changes_nothing() {
    use std::os::unix::process::CommandExt;
    let fabric = testing::fabric("forks", |_| ());
    let ends = [fabric.node(1), fabric.node(2)];
    let mut a = open(&fabric, config("eth0")).unwrap();
    let mut b = common::link(&fabric, 2, &options(), Mode::XdpGeneric);
    let (to_b, to_a) = (
        route(Envelope::DEFAULT, [&ends[0], &ends[1]], over_ipv4),
        route(Envelope::DEFAULT, [&ends[1], &ends[0]], over_ipv4),
    );
    for n in 0..3 {
        let (mut here, there) = UnixStream::pair().unwrap();
        let mut command = std::process::Command::new("true");
        let forked = move || {
            rustix::io::write(&there, &[0])?;
            rustix::io::read(&there, &mut [0][..])?;
            Ok(())
        };
        // SAFETY: the closure makes two system calls on a descriptor that it owns; it neither
        // allocates nor locks.
        unsafe { command.pre_exec(forked) };
        let child = std::thread::spawn(move || command.status());
        here.read_exact(&mut [0]).unwrap();
        // While the fork is there, and after it.
        for again in 0..2 {
            let out = frame(&to_b, CHANNEL, 10 * n + again, 100);
            send(&mut a, &out);
            only(&mut b, &out);
            let back = frame(&to_a, CHANNEL, 10 * n + again, 200);
            send(&mut b, &back);
            only(&mut a, &back);
            if again == 0 {
                here.write_all(&[0]).unwrap();
            }
        }
        assert!(child.join().unwrap().unwrap().success());
    }
}

/// A bridge has generic mode only, which two refusals show.
pub(crate) fn refusals_are_noted() {
    const WORSE: [&str; 2] = ["xdp zero-copy", "xdp native"];
    let fabric = testing::fabric("noted", |_| ());
    ip(&fabric, "link add br0 type bridge");
    ip(&fabric, "link set br0 up");
    let place = tempfile::tempdir().unwrap();
    let notes = place.path().canonicalize().unwrap().join("notes");
    let reason = |directory: Option<&Path>| {
        let notes = directory.map(Path::to_owned);
        let link = open(&fabric, XdpConfig { notes, ..config("br0") }).unwrap();
        assert_eq!(link.info().mode, Mode::XdpGeneric);
        link.info().reason.clone()
    };
    let are = |reason: &str, what: &str| {
        WORSE.iter().all(|mode| reason.contains(&format!("{mode} {what} (")))
    };
    let first = reason(Some(&notes));
    assert!(are(&first, "refused"), "{first}");
    let second = reason(Some(&notes));
    let file = notes.join("bridge-1500-0");
    let named = second.contains(&format!("noted 0 minutes ago in {}", file.display()));
    assert!(are(&second, "left out") && named && !second.contains('\n'), "{second}");
    assert!(are(&reason(None), "refused"), "without notes");
    // Another kernel's.
    let good = std::fs::read_to_string(&file).unwrap();
    let (head, lines) = good.split_once('\n').unwrap();
    std::fs::write(&file, format!("{head}-other\n{lines}")).unwrap();
    assert!(are(&reason(Some(&notes)), "refused"), "of another kernel");
    assert_eq!(std::fs::read_to_string(&file).unwrap(), good, "written again");
    // A mode that is asked for is tried, whatever is noted.
    let asked =
        XdpConfig { mode: Some(Mode::XdpNative), notes: Some(notes.clone()), ..config("br0") };
    let error = open(&fabric, asked).err().unwrap().to_string();
    assert!(error.contains("xdp native refused"), "{error}");
    // So is every one if the notes leave nothing.
    std::fs::write(&file, format!("{good}xdp generic\tnever\n")).unwrap();
    assert!(are(&reason(Some(&notes)), "refused"), "no mode was left");
    assert_eq!(std::fs::read_to_string(&file).unwrap(), good, "generic mode works");
}
