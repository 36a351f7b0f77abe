//! How the program comes and goes.

use super::*;

/// They are megabytes, and no program of ours uses one.
pub(crate) fn opening_reads_nothing() {
    let fabric = testing::fabric("reads", |_| ());
    let read = || -> u64 {
        let text = std::fs::read_to_string("/proc/self/io").unwrap();
        let bytes = text.lines().find_map(|line| line.strip_prefix("rchar: "));
        bytes.expect("bytes that were read").parse().unwrap()
    };
    let before = read();
    let _link = open(&fabric, config("eth0")).unwrap();
    let bytes = read() - before;
    assert!(bytes < 1 << 20, "{bytes} bytes were read");
}

pub(crate) fn the_program_goes_when_the_link_is_dropped() {
    let fabric = testing::fabric("drop", |_| ());
    for mode in [Mode::XdpGeneric, Mode::XdpNative] {
        let link = open(&fabric, XdpConfig { mode: Some(mode), ..config("eth0") }).unwrap();
        assert!(has_program(&fabric));
        drop(link);
        assert!(!has_program(&fabric), "{mode}");
    }
}

/// Waits for the end of a process and of its forks.
pub(crate) fn until_no_program(fabric: &Fabric) {
    let end = Instant::now() + BOUND;
    while has_program(fabric) {
        assert!(Instant::now() < end, "the program is still there");
    }
}

/// A process between fork and exec has copies of all descriptors.
pub(crate) fn a_copy_does_not_keep_the_program() {
    use std::os::unix::process::CommandExt;
    let fabric = testing::fabric("copy", |_| ());
    for mode in [Mode::XdpGeneric, Mode::XdpNative] {
        let link = open(&fabric, XdpConfig { mode: Some(mode), ..config("eth0") }).unwrap();
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
        drop(link);
        let stays = has_program(&fabric);
        here.write_all(&[0]).unwrap();
        assert!(child.join().unwrap().unwrap().success());
        assert!(!stays, "{mode}");
    }
}

/// What `ip` may not do, another program with the same rights can: detach the link by its number.
pub(crate) fn a_program_that_is_taken_away() {
    for (mode, sleeps) in [(Mode::XdpGeneric, true), (Mode::XdpNative, false)] {
        let fabric = testing::fabric("taken", |_| ());
        let mut link = open(&fabric, XdpConfig { mode: Some(mode), ..config("eth0") }).unwrap();
        let mut off = fabric.node(1).command("ip").unwrap();
        let word = if mode == Mode::XdpNative { "xdpdrv" } else { "xdpgeneric" };
        let refused = off.args(["link", "set", "eth0", word, "off"]).output().unwrap();
        assert!(!refused.status.success() && has_program(&fabric), "{refused:?}");
        foreign::detach(program(&fabric));
        assert!(!has_program(&fabric));
        let mut frames = Vec::new();
        let error = until_error(|| match sleeps {
            true => link.wait(None).map(drop),
            false => link.poll(&mut frames, 1).map(drop),
        });
        assert!(matches!(&error, LinkError::Detached(name) if name == "eth0"), "{error}");
        assert!(matches!(until_error(|| link.wait(None).map(drop)), LinkError::Detached(_)));
        drop(link);
        open(&fabric, config("eth0")).unwrap();
    }
}

/// A link of the same process still has the program that was taken away. A new one needs its own.
pub(crate) fn a_link_beside_a_detached_one() {
    let fabric = testing::fabric("beside", |config| config.queues = 2);
    let on =
        |queue| open(&fabric, XdpConfig { queue, mode: Some(Mode::XdpNative), ..config("eth0") });
    let mut first = on(0).unwrap();
    let former = program(&fabric);
    foreign::detach(former);
    let second = on(1).unwrap();
    assert!(has_program(&fabric) && program(&fabric) != former);
    assert!(matches!(until_error(|| first.wait(None).map(drop)), LinkError::Detached(_)));
    drop(first);
    assert!(has_program(&fabric), "the second one's");
    let mac = ["link", "set", "eth0", "address", "02:00:00:00:0f:0f"];
    assert!(fabric.node(1).command("ip").unwrap().args(mac).status().unwrap().success());
    // The program takes frames to the former address only.
    let refused = on(0).err().expect("it would hear nothing").to_string();
    assert!(refused.contains("another MAC address"), "{refused}");
    drop(second);
    on(0).unwrap();
}

pub(crate) fn a_program_that_is_replaced() {
    let fabric = testing::fabric("replaced", |_| ());
    let mut link = open(&fabric, config("eth0")).unwrap();
    let ours = program(&fabric);
    let _new = foreign::replace(ours);
    assert_ne!(program(&fabric), ours);
    let error = until_error(|| link.wait(None).map(drop));
    assert!(matches!(error, LinkError::Detached(_)), "{error}");
}

pub(crate) fn the_program_goes_with_the_process() {
    let fabric = testing::fabric("kill", |_| ());
    let this = std::env::current_exe().unwrap();
    let mut command = fabric.node(1).command(this).unwrap();
    let mut child = command.env(CHILD, "eth0").stdout(Stdio::piped()).spawn().unwrap();
    let mut line = String::new();
    BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
    assert_eq!(line, "open\n");
    assert!(has_program(&fabric));
    // SIGKILL: the child can do nothing about it.
    child.kill().unwrap();
    child.wait().unwrap();
    until_no_program(&fabric);
    open(&fabric, config("eth0")).unwrap();
}

pub(crate) fn a_link_can_be_opened_again_at_once() {
    let fabric = testing::fabric("again", |_| ());
    for mode in [Mode::XdpGeneric, Mode::XdpNative].repeat(5) {
        open(&fabric, XdpConfig { mode: Some(mode), ..config("eth0") }).unwrap();
    }
}

pub(crate) fn a_foreign_program_is_left_alone() {
    let fabric = testing::fabric("foreign", |_| ());
    for generic in [true, false] {
        let node = fabric.node(1);
        let inside = node.enter().unwrap();
        let program = foreign::Program::attach("eth0", generic);
        drop(inside);
        let before = ip(&fabric, "link show dev eth0");
        for mode in [None, Some(Mode::XdpGeneric), Some(Mode::XdpNative)] {
            match open(&fabric, XdpConfig { mode, ..config("eth0") }) {
                Err(OpenError::ForeignProgram { interface, program }) => {
                    assert_eq!(interface, "eth0");
                    assert!(before.contains(&format!("id {program} ")), "{before}");
                }
                Err(other) => panic!("{other}"),
                Ok(_) => panic!("opened beside a foreign program"),
            }
        }
        assert_eq!(ip(&fabric, "link show dev eth0"), before);
        drop(program);
        until_no_program(&fabric);
    }
    open(&fabric, config("eth0")).unwrap();
}

pub(crate) fn a_second_link_on_an_interface_is_refused() {
    let fabric = testing::fabric("second", |_| ());
    let _first = open(&fabric, config("eth0")).unwrap();
    let error = open(&fabric, config("eth0")).err().expect("the queue is taken");
    assert!(matches!(error, OpenError::QueueBusy { queue: 0, .. }), "{error}");
    assert!(has_program(&fabric), "the first one's program stays");
}
