//! How AF_XDP links begin and end: what is chosen, what is refused, what is left behind.

mod common;

use common::{over_ipv4, route};
use gigae_fabric::{Fabric, testing};
use gigae_link::conformance::{CHANNEL, OTHER_CHANNEL, Options, frame, only, send};
use gigae_link::{ChannelSet, Link, LinkError, Mode, OpenError};
use gigae_packet::{PacketConfig, PacketLink};
use gigae_wire::Envelope;
use gigae_xdp::{BusyPoll, XdpConfig, XdpLink};
use rustix::thread::CapabilitySet;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::UdpSocket;
use std::os::unix::net::UnixStream;
use std::process::Stdio;
use std::time::{Duration, Instant};

/// Set for a child that opens a link, says so and waits to be killed.
const CHILD: &str = "GIGAE_XDP_TEST_CHILD";

/// Far more than anything bounded here takes, on a busy machine.
const BOUND: Duration = Duration::from_secs(60);

fn main() {
    if let Some(interface) = std::env::var_os(CHILD) {
        let config = XdpConfig::new(interface.to_str().unwrap(), options().filter);
        let _link = XdpLink::open(config).unwrap();
        println!("open");
        std::thread::sleep(BOUND);
        return;
    }
    testing::run(&[
        ("a_veth_gets_generic_mode_and_the_reason_is_told", veth_gets_generic as fn()),
        ("a_bridge_falls_back_to_generic_mode", a_bridge_falls_back_to_generic_mode),
        ("a_mode_that_is_asked_for_is_not_replaced", a_mode_that_is_asked_for_is_not_replaced),
        ("jumbo_frames_are_carried_in_several_buffers", jumbo_frames_are_carried),
        ("one_buffer_is_used_as_far_as_the_driver_goes", one_buffer_as_far_as_the_driver_goes),
        ("frames_can_be_limited_to_one_buffer", frames_can_be_limited_to_one_buffer),
        ("frames_of_any_mtu_are_limited_to_a_few_chunks", frames_of_any_mtu_are_limited),
        ("long_frames_pass_between_packet_and_xdp_links", long_frames_pass_between_backends),
        ("what_the_peers_mtu_forbids_vanishes_and_nothing_else", peers_of_a_lesser_mtu),
        ("a_frame_longer_than_its_reader_expected_is_dropped", frames_after_a_raised_mtu),
        ("opening_reads_nothing_of_the_kernels_own_types", opening_reads_nothing),
        ("the_program_goes_when_the_link_is_dropped", the_program_goes_when_the_link_is_dropped),
        ("the_program_goes_with_the_last_copy_of_its_descriptor", the_program_stays_with_a_copy),
        ("the_program_goes_when_the_process_is_killed", the_program_goes_with_the_process),
        ("a_program_that_is_taken_away_is_reported", a_program_that_is_taken_away),
        ("a_program_that_is_replaced_is_reported", a_program_that_is_replaced),
        ("a_link_can_be_opened_again_at_once", a_link_can_be_opened_again_at_once),
        ("a_foreign_program_is_refused_and_left_alone", a_foreign_program_is_left_alone),
        ("a_second_link_on_an_interface_is_refused", a_second_link_on_an_interface_is_refused),
        ("what_cannot_be_opened_is_refused_in_one_line", what_cannot_be_opened_is_refused),
        ("missing_capabilities_are_named", missing_capabilities_are_named),
        ("the_capabilities_that_are_documented_are_enough", documented_capabilities_are_enough),
        ("a_link_is_assembled_of_its_parts_without_privileges", parts_are_assembled),
        ("who_has_the_parts_of_a_link_can_make_nothing_else_of_them", parts_cannot_be_changed),
        ("an_interface_that_goes_down_is_reported_and_comes_back", going_down_is_reported),
        ("an_interface_that_is_deleted_is_reported", deletion_is_reported),
        ("frames_of_another_channel_reach_a_packet_link", other_channels_reach_a_packet_link),
        ("datagrams_of_another_channel_reach_the_kernel", other_datagrams_reach_the_kernel),
        ("frames_leave_without_the_wakeup_flag_too", frames_leave_without_the_wakeup_flag),
        ("as_many_frames_are_ready_as_are_asked_for", as_many_frames_are_ready),
        ("busy_polling_drives_the_driver_when_the_ring_is_empty", busy_polling_drives),
    ]);
}

fn options() -> Options {
    Options::new(Envelope::DEFAULT)
}

fn config(interface: &str) -> XdpConfig {
    XdpConfig::new(interface, options().filter)
}

/// Opens a link on node 1.
fn open(fabric: &Fabric, config: XdpConfig) -> Result<XdpLink, OpenError> {
    let _inside = fabric.node(1).enter().unwrap();
    XdpLink::open(config)
}

/// Runs `ip` in node 1; what it printed.
fn ip(fabric: &Fabric, arguments: &str) -> String {
    let mut command = fabric.node(1).command("ip").unwrap();
    let output = command.args(arguments.split(' ')).output().unwrap();
    assert!(output.status.success(), "ip {arguments}: {output:?}");
    String::from_utf8(output.stdout).unwrap()
}

fn has_program(fabric: &Fabric) -> bool {
    ip(fabric, "link show dev eth0").contains("prog/xdp")
}

/// The kernel's number of the program that node 1's interface has.
fn program(fabric: &Fabric) -> u32 {
    let text = ip(fabric, "link show dev eth0");
    let after = text.split("prog/xdp id ").nth(1).expect("there is a program");
    after.split(' ').next().unwrap().parse().unwrap()
}

fn veth_gets_generic() {
    let fabric = testing::fabric("generic", |_| ());
    let link = open(&fabric, config("eth0")).unwrap();
    assert_eq!(link.info().mode, Mode::XdpGeneric);
    assert!(link.info().reason.contains("veth"), "{}", link.info().reason);
    assert!(!link.is_busy_polling());
    assert_eq!(link.info().max_frame, 1514);
}

fn a_bridge_falls_back_to_generic_mode() {
    let fabric = testing::fabric("fall-back", |_| ());
    for (mtu, buffers) in [(1500, ""), (9000, " with frames in several buffers")] {
        ip(&fabric, &format!("link add br0 mtu {mtu} type bridge"));
        ip(&fabric, "link set br0 up");
        let link = open(&fabric, config("br0")).unwrap();
        assert_eq!((link.info().mode, link.info().max_frame), (Mode::XdpGeneric, mtu + 14));
        let reason = &link.info().reason;
        for mode in ["xdp zero-copy", "xdp native"] {
            let refused = format!("{mode}{buffers} refused");
            assert!(reason.contains(&refused) && !reason.contains('\n'), "{reason}");
        }
        drop(link);
        ip(&fabric, "link del br0");
    }
}

fn a_mode_that_is_asked_for_is_not_replaced() {
    let fabric = testing::fabric("asked", |_| ());
    let ask = |mode| open(&fabric, XdpConfig { mode: Some(mode), ..config("eth0") });
    assert_eq!(ask(Mode::XdpNative).unwrap().info().mode, Mode::XdpNative);
    for mode in [Mode::XdpZeroCopy, Mode::Packet] {
        let error = ask(mode).err().expect("no such mode here").to_string();
        assert!(error.contains("packet backend") && !error.contains('\n'), "{error}");
    }
    assert!(!has_program(&fabric), "a refused attempt leaves nothing");
}

fn jumbo(mtu: u32) -> Fabric {
    testing::fabric("jumbo", |config| config.mtu = mtu)
}

fn jumbo_frames_are_carried() {
    let fabric = jumbo(9000);
    for mode in [None, Some(Mode::XdpGeneric), Some(Mode::XdpNative)] {
        let link = open(&fabric, XdpConfig { mode, ..config("eth0") }).unwrap();
        let info = link.info();
        assert_eq!((info.max_frame, info.segment_size, info.frame_size), (9014, 3840, 4096));
        assert!(info.max_segments >= 9014usize.div_ceil(3840));
        assert!(info.reason.contains("several buffers"), "{}", info.reason);
    }
}

/// A veth has room for MTU 3520 under a native program, and a chunk for 3826.
fn one_buffer_as_far_as_the_driver_goes() {
    for (mtu, mode, several) in [
        (1500, Mode::XdpNative, false),
        (3400, Mode::XdpNative, false),
        (3700, Mode::XdpNative, true),
        (3826, Mode::XdpGeneric, false),
        (3827, Mode::XdpGeneric, true),
    ] {
        let fabric = jumbo(mtu);
        let link = open(&fabric, XdpConfig { mode: Some(mode), ..config("eth0") }).unwrap();
        let info = link.info();
        assert_eq!((info.mode, info.max_frame), (mode, mtu as usize + 14));
        assert_eq!(info.max_segments > 1, several, "{mode} at MTU {mtu}: {}", info.reason);
        assert_eq!(info.reason.contains("several buffers"), several, "{}", info.reason);
    }
}

fn frames_can_be_limited_to_one_buffer() {
    let fabric = jumbo(9000);
    let limited = XdpConfig { long_frames: false, ..config("eth0") };
    let link = open(&fabric, limited.clone()).unwrap();
    let info = link.info();
    assert_eq!((info.mode, info.max_frame, info.max_segments), (Mode::XdpGeneric, 3840, 1));
    assert!(info.reason.contains("3840"), "{}", info.reason);
    drop(link);
    // The driver has no room for such frames in one buffer, and says so.
    let refused = XdpConfig { mode: Some(Mode::XdpNative), ..limited };
    let error = open(&fabric, refused).err().expect("MTU 9000 in one buffer").to_string();
    assert!(error.contains("'ip link set eth0 mtu 3826'"), "{error}");
    assert!(error.contains("packet backend") && !error.contains('\n'), "{error}");
}

/// They are megabytes, and no program of ours uses one.
fn opening_reads_nothing() {
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

fn frames_of_any_mtu_are_limited() {
    let fabric = jumbo(60_000);
    let link = open(&fabric, config("eth0")).unwrap();
    assert_eq!(link.info().max_frame, 15_360);
    assert!(link.info().reason.contains("15360"), "{}", link.info().reason);
}

/// AF_PACKET hands the kernel long frames in other pieces than AF_XDP does.
fn long_frames_pass_between_backends() {
    for mode in [Mode::XdpGeneric, Mode::XdpNative] {
        let fabric = jumbo(9000);
        let nodes = [fabric.node(1), fabric.node(2)];
        let to_b = route(Envelope::DEFAULT, [&nodes[0], &nodes[1]], over_ipv4);
        let to_a = route(Envelope::DEFAULT, [&nodes[1], &nodes[0]], over_ipv4);
        let mut a = common::link(&fabric, 1, &options(), mode);
        let mut b = {
            let _inside = nodes[1].enter().unwrap();
            PacketLink::open(PacketConfig::new("eth0", options().filter)).unwrap()
        };
        for (i, length) in [60, 3840, 3841, 4096, 4097, 8192, 9014].into_iter().enumerate() {
            let there = frame(&to_b, CHANNEL, i as u32, length);
            send(&mut a, &there);
            only(&mut b, &there);
            let back = frame(&to_a, CHANNEL, i as u32, length);
            send(&mut b, &back);
            only(&mut a, &back);
        }
    }
}

/// The sender is none the worse for it.
fn peers_of_a_lesser_mtu() {
    for mode in [Mode::XdpGeneric, Mode::XdpNative] {
        let fabric = testing::fabric("mixed", |config| config.node_mtus = vec![9000, 1500]);
        let nodes = [fabric.node(1), fabric.node(2)];
        let [to_b, to_a] = [[0, 1], [1, 0]]
            .map(|ends| route(Envelope::DEFAULT, ends.map(|end: usize| &nodes[end]), over_ipv4));
        let mut a = common::link(&fabric, 1, &options(), mode);
        let mut b = common::link(&fabric, 2, &options(), mode);
        assert_eq!((a.info().max_frame, b.info().max_frame), (9014, 1514));
        for i in 0..1000 {
            send(&mut a, &frame(&to_b, CHANNEL, i, 9014));
            let ours = frame(&to_b, CHANNEL, i, 1514);
            send(&mut a, &ours);
            only_next(&mut b, &ours);
            let back = frame(&to_a, CHANNEL, i, 1514);
            send(&mut b, &back);
            only_next(&mut a, &back);
        }
        assert_eq!((b.counters().rx_frames, b.counters().rx_dropped), (1000, 0));
    }
}

/// The next frame is the one with these bytes.
fn only_next(link: &mut XdpLink, bytes: &[u8]) {
    assert!(gigae_link::conformance::receive(link, 1) == [bytes]);
}

/// Another end whose MTU was raised later sends what this one was not opened for.
fn frames_after_a_raised_mtu() {
    let fabric = jumbo(60_000);
    let to_a = route(Envelope::DEFAULT, [&fabric.node(2), &fabric.node(1)], over_ipv4);
    let mut link = open(&fabric, config("eth0")).unwrap();
    let sender = {
        let _inside = fabric.node(2).enter().unwrap();
        let socket = rustix::net::socket(
            rustix::net::AddressFamily::PACKET,
            rustix::net::SocketType::RAW,
            None,
        );
        let socket = socket.unwrap();
        bind_to_eth0(&socket);
        socket
    };
    let long = frame(&to_a, CHANNEL, 1, 50_000);
    assert_eq!(rustix::io::write(&sender, &long).unwrap(), long.len());
    let ours = frame(&to_a, CHANNEL, 2, 9014);
    rustix::io::write(&sender, &ours).unwrap();
    only(&mut link, &ours);
    assert_eq!(link.counters().rx_dropped, 1);
    assert_eq!(link.counters().rx_frames, 1);
}

/// Binds a packet socket to `eth0` of the calling thread's namespace, for sending only.
fn bind_to_eth0(socket: &rustix::fd::OwnedFd) {
    use rustix::fd::AsRawFd;
    // SAFETY: the structure is plain bytes, for which zeros are valid.
    let mut address: libc::sockaddr_ll = unsafe { std::mem::zeroed() };
    address.sll_family = libc::AF_PACKET as u16;
    // SAFETY: a string that ends with zero and lives across the call.
    address.sll_ifindex = unsafe { libc::if_nametoindex(c"eth0".as_ptr()) } as i32;
    let length = size_of_val(&address) as libc::socklen_t;
    // SAFETY: pointer and length describe one `sockaddr_ll` that lives across the call.
    let result = unsafe { libc::bind(socket.as_raw_fd(), (&raw const address).cast(), length) };
    assert_eq!(result, 0, "{}", std::io::Error::last_os_error());
}

fn the_program_goes_when_the_link_is_dropped() {
    let fabric = testing::fabric("drop", |_| ());
    for mode in [Mode::XdpGeneric, Mode::XdpNative] {
        let link = open(&fabric, XdpConfig { mode: Some(mode), ..config("eth0") }).unwrap();
        assert!(has_program(&fabric));
        drop(link);
        until_no_program(&fabric);
    }
}

/// Waits for it: the last copy of a descriptor is closed by whoever ends last.
fn until_no_program(fabric: &Fabric) {
    let end = Instant::now() + BOUND;
    while has_program(fabric) {
        assert!(Instant::now() < end, "the program is still there");
    }
}

/// A process between fork and exec has copies of all descriptors, which hold the program.
fn the_program_stays_with_a_copy() {
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
        // SAFETY: the closure makes two system calls on a descriptor that it owns; it neither allocates
        // nor locks.
        unsafe { command.pre_exec(forked) };
        let child = std::thread::spawn(move || command.status());
        here.read_exact(&mut [0]).unwrap();
        drop(link);
        assert!(has_program(&fabric), "{mode}");
        here.write_all(&[0]).unwrap();
        assert!(child.join().unwrap().unwrap().success());
        until_no_program(&fabric);
    }
}

/// What `ip` may not do, another program with the same rights can: detach the link by its number.
fn a_program_that_is_taken_away() {
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

fn a_program_that_is_replaced() {
    let fabric = testing::fabric("replaced", |_| ());
    let mut link = open(&fabric, config("eth0")).unwrap();
    let ours = program(&fabric);
    let _new = foreign::replace(ours);
    assert_ne!(program(&fabric), ours);
    let error = until_error(|| link.wait(None).map(drop));
    assert!(matches!(error, LinkError::Detached(_)), "{error}");
}

fn the_program_goes_with_the_process() {
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

fn a_link_can_be_opened_again_at_once() {
    let fabric = testing::fabric("again", |_| ());
    for mode in [Mode::XdpGeneric, Mode::XdpNative].repeat(5) {
        open(&fabric, XdpConfig { mode: Some(mode), ..config("eth0") }).unwrap();
    }
}

fn a_foreign_program_is_left_alone() {
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

fn a_second_link_on_an_interface_is_refused() {
    let fabric = testing::fabric("second", |_| ());
    let _first = open(&fabric, config("eth0")).unwrap();
    let error = open(&fabric, config("eth0")).err().expect("the queue is taken");
    assert!(matches!(error, OpenError::QueueBusy { queue: 0, .. }), "{error}");
    assert!(has_program(&fabric), "the first one's program stays");
}

fn what_cannot_be_opened_is_refused() {
    let fabric = testing::fabric("refusals", |_| ());
    let refused = |config| {
        let error = open(&fabric, config).err().expect("this cannot be opened");
        assert!(!error.to_string().contains('\n'), "{error}");
        error
    };
    let error = refused(config("eth7"));
    assert!(
        matches!(&error, OpenError::NoInterface { existing, .. } if existing.contains(&"eth0".into()))
    );
    let error = refused(XdpConfig { queue: 9, ..config("eth0") });
    assert!(error.to_string().contains("queue 9"), "{error}");
    ip(&fabric, "link set eth0 mtu 100");
    let error = refused(config("eth0"));
    assert!(matches!(error, OpenError::MtuTooSmall { mtu: 100, needed: 164, .. }), "{error}");
    ip(&fabric, "link set eth0 down");
    let error = refused(config("eth0"));
    assert!(matches!(&error, OpenError::InterfaceDown(name) if name == "eth0"), "{error}");
}

/// Runs `work` in a thread with these capabilities only, for they are a thread's own.
fn with<T: Send>(kept: CapabilitySet, work: impl FnOnce() -> T + Send) -> T {
    std::thread::scope(|scope| {
        let result = scope.spawn(|| {
            let mut sets = rustix::thread::capabilities(None).unwrap();
            sets.effective = kept;
            rustix::thread::set_capabilities(None, sets).unwrap();
            let result = work();
            sets.effective = sets.permitted;
            rustix::thread::set_capabilities(None, sets).unwrap();
            result
        });
        result.join().unwrap()
    })
}

fn documented_capabilities_are_enough() {
    let fabric = testing::fabric("enough", |_| ());
    // The last for frame memory beyond the limit of locked memory.
    let kept = CapabilitySet::NET_RAW
        | CapabilitySet::NET_ADMIN
        | CapabilitySet::BPF
        | CapabilitySet::IPC_LOCK;
    for (mode, mtu) in [(Mode::XdpGeneric, 1500), (Mode::XdpNative, 1500), (Mode::XdpNative, 9000)]
    {
        ip(&fabric, &format!("link set eth0 mtu {mtu}"));
        let node = fabric.node(1);
        let _inside = node.enter().unwrap();
        let open = || XdpLink::open(XdpConfig { mode: Some(mode), ..config("eth0") });
        let link = with(kept, open).unwrap_or_else(|e| panic!("{mode}, MTU {mtu}: {e}"));
        assert_eq!(link.info().max_frame, mtu + 14);
    }
}

fn parts_are_assembled() {
    let fabric = testing::fabric("parts", |_| ());
    let node = fabric.node(1);
    let inside = node.enter().unwrap();
    let parts = XdpLink::make(&config("eth0")).unwrap();
    drop(inside);
    let mut peer = {
        let node = fabric.node(2);
        let _inside = node.enter().unwrap();
        XdpLink::open(config("eth0")).unwrap()
    };
    let [to, back] = [[2, 1], [1, 2]]
        .map(|ends| ends.map(|n| fabric.node(n)))
        .map(|[a, b]| route(Envelope::DEFAULT, [&a, &b], over_ipv4));
    // What comes between is there when the link is.
    let early = frame(&to, CHANNEL, 1, 200);
    send(&mut peer, &early);
    let made = parts.description.clone();
    // SAFETY: the parts are new, and used here only.
    let mut link = with(CapabilitySet::empty(), || unsafe { XdpLink::assemble(parts) }).unwrap();
    assert_eq!((&link.info().reason, link.info().mac), (&made.reason, made.mac));
    with(CapabilitySet::empty(), || {
        only(&mut link, &early);
        for number in 0..20 {
            let there = frame(&to, CHANNEL, number, 300);
            send(&mut peer, &there);
            only(&mut link, &there);
            let again = frame(&back, CHANNEL, number, 400);
            send(&mut link, &again);
            only(&mut peer, &again);
        }
    });
    assert!(has_program(&fabric));
    drop(link);
    until_no_program(&fabric);
}

fn parts_cannot_be_changed() {
    use rustix::net::{sockopt, xdp};
    let fabric = testing::fabric("whose", |_| ());
    ip(&fabric, "link add eth9 type bridge");
    ip(&fabric, "link set eth9 up");
    let node = fabric.node(1);
    let _inside = node.enter().unwrap();
    let parts = XdpLink::make(&config("eth0")).unwrap();
    let other = gigae_link::Interface::find("eth9").unwrap();
    let busy = Err(rustix::io::Errno::BUSY);
    let attempts = || {
        let flags = xdp::SocketAddrXdpFlags::XDP_COPY;
        for (index, queue) in [(other.index, 0), (parts.description.index, 1)] {
            let address = xdp::SocketAddrXdp::new(flags, index, queue);
            assert_eq!(rustix::net::bind(&parts.socket, &address), busy);
        }
        let memory = xdp::XdpUmemReg {
            addr: 0,
            len: 4096,
            chunk_size: 4096,
            headroom: 0,
            flags: xdp::XdpUmemRegFlags::empty(),
            tx_metadata_len: 0,
        };
        assert_eq!(sockopt::set_xdp_umem_reg(&parts.socket, memory), busy);
        assert_eq!(sockopt::set_xdp_umem_fill_ring_size(&parts.socket, 64), busy);
        assert_eq!(sockopt::set_xdp_umem_completion_ring_size(&parts.socket, 64), busy);
        assert_eq!(sockopt::set_xdp_rx_ring_size(&parts.socket, 64), busy);
        assert_eq!(sockopt::set_xdp_tx_ring_size(&parts.socket, 64), busy);
        // A further socket with the same memory on another queue, and another program, need capabilities.
        let kind = rustix::net::SocketType::RAW;
        let further = rustix::net::socket(rustix::net::AddressFamily::XDP, kind, None);
        assert_eq!(further.err(), Some(rustix::io::Errno::PERM));
        assert!(foreign::try_load().is_err());
        // The memory keeps its length.
        assert!(rustix::fs::ftruncate(&parts.memory, 0).is_err());
        // Through the control socket nothing is changed.
        assert!(!foreign::set_down(&parts.control, "eth9"));
    };
    with(CapabilitySet::empty(), attempts);
    // Nor when its interface is gone, for a socket is bound once.
    ip(&fabric, "link del eth0");
    let address = xdp::SocketAddrXdp::new(xdp::SocketAddrXdpFlags::XDP_COPY, other.index, 0);
    assert_eq!(rustix::net::bind(&parts.socket, &address), busy);
    // All that the program's descriptor is good for is to let go.
    with(CapabilitySet::empty(), || foreign::let_go(&parts.program));
}

fn missing_capabilities_are_named() {
    let fabric = testing::fabric("capabilities", |_| ());
    for (kept, named) in [
        (CapabilitySet::empty(), "CAP_NET_RAW"),
        (CapabilitySet::NET_RAW | CapabilitySet::IPC_LOCK, "CAP_BPF"),
    ] {
        let _inside = fabric.node(1).enter().unwrap();
        let error = with(kept, || XdpLink::open(config("eth0")).err()).expect("not permitted");
        assert!(matches!(error, OpenError::MissingCapability { .. }), "{error}");
        assert!(error.to_string().contains(named), "{error}");
    }
}

/// Calls until an error comes, and asserts that it does.
fn until_error(mut call: impl FnMut() -> Result<(), LinkError>) -> LinkError {
    let end = Instant::now() + BOUND;
    loop {
        let result = call();
        assert!(Instant::now() < end, "no error within {BOUND:?}");
        if let Err(error) = result {
            return error;
        }
    }
}

fn going_down_is_reported() {
    for mode in [Mode::XdpGeneric, Mode::XdpNative] {
        let fabric = testing::fabric("down", |_| ());
        let mut link = open(&fabric, XdpConfig { mode: Some(mode), ..config("eth0") }).unwrap();
        let to_b = route(Envelope::DEFAULT, [&fabric.node(1), &fabric.node(2)], over_ipv4);
        ip(&fabric, "link set eth0 down");
        let mut frames = Vec::new();
        let error = until_error(|| link.poll(&mut frames, 1).map(drop));
        assert!(matches!(&error, LinkError::Down(name) if name == "eth0"), "{error}");
        let error = until_error(|| link.wait(None).map(drop));
        assert!(matches!(error, LinkError::Down(_)), "{error}");
        let posted = gigae_link::conformance::post(&mut link, &frame(&to_b, CHANNEL, 1, 100));
        link.release(posted);
        let error = until_error(|| link.flush().map(drop));
        assert!(matches!(error, LinkError::Down(_)), "{error}");

        ip(&fabric, "link set eth0 up");
        let mut peer = common::link(&fabric, 2, &options(), mode);
        // What was posted meanwhile goes now, or the driver has dropped it.
        link.flush().unwrap();
        gigae_link::conformance::drain(&mut peer);
        let ours = frame(&to_b, CHANNEL, 2, 100);
        send(&mut link, &ours);
        only(&mut peer, &ours);
    }
}

fn deletion_is_reported() {
    for (mode, timeout) in [(Mode::XdpGeneric, None), (Mode::XdpNative, Some(3 * BOUND))] {
        let fabric = testing::fabric("gone", |_| ());
        let mut link = open(&fabric, XdpConfig { mode: Some(mode), ..config("eth0") }).unwrap();
        let to_b = route(Envelope::DEFAULT, [&fabric.node(1), &fabric.node(2)], over_ipv4);
        std::thread::scope(|scope| {
            // Asleep when it happens.
            let sleeper = scope.spawn(|| until_error(|| link.wait(timeout).map(drop)));
            std::thread::sleep(Duration::from_millis(20));
            drop(fabric);
            let error = sleeper.join().unwrap();
            assert!(matches!(error, LinkError::Gone(_)), "{error}");
        });
        let mut frames = Vec::new();
        let error = until_error(|| link.poll(&mut frames, 1).map(drop));
        assert!(matches!(error, LinkError::Gone(_)), "{error}");
        let posted = gigae_link::conformance::post(&mut link, &frame(&to_b, CHANNEL, 1, 100));
        link.release(posted);
        let error = until_error(|| link.flush().map(drop));
        assert!(matches!(error, LinkError::Gone(_)), "{error}");
        let _ = link.counters();
    }
}

fn other_channels_reach_a_packet_link() {
    for mode in [Mode::XdpGeneric, Mode::XdpNative] {
        let fabric = testing::fabric("two channels", |_| ());
        let to_b = route(Envelope::DEFAULT, [&fabric.node(1), &fabric.node(2)], over_ipv4);
        let mut a = common::link(&fabric, 1, &options(), mode);
        let mut b = common::link(&fabric, 2, &options(), mode);
        let mut filter = options().filter;
        filter.channels = ChannelSet::EMPTY.with(OTHER_CHANNEL);
        let mut beside = {
            let _inside = fabric.node(2).enter().unwrap();
            PacketLink::open(PacketConfig::new("eth0", filter)).unwrap()
        };
        let ours = frame(&to_b, CHANNEL, 1, 100);
        let others = frame(&to_b, OTHER_CHANNEL, 2, 100);
        send(&mut a, &ours);
        send(&mut a, &others);
        only(&mut b, &ours);
        only(&mut beside, &others);
    }
}

fn other_datagrams_reach_the_kernel() {
    const PORT: u16 = 4791;
    let envelope = Envelope::Udp { port: PORT };
    let options = Options::new(envelope);
    let fabric = testing::fabric("udp", |_| ());
    let to_b = route(envelope, [&fabric.node(1), &fabric.node(2)], over_ipv4);
    let mut a = common::link(&fabric, 1, &options, Mode::XdpGeneric);
    let mut b = common::link(&fabric, 2, &options, Mode::XdpGeneric);
    let kernels = {
        let _inside = fabric.node(2).enter().unwrap();
        UdpSocket::bind((fabric.node(2).ipv4, PORT)).unwrap()
    };
    kernels.set_read_timeout(Some(BOUND)).unwrap();
    let ours = frame(&to_b, CHANNEL, 1, 100);
    let others = frame(&to_b, OTHER_CHANNEL, 2, 100);
    send(&mut a, &ours);
    send(&mut a, &others);
    only(&mut b, &ours);
    let mut datagram = [0; 200];
    let length = kernels.recv(&mut datagram).unwrap();
    assert_eq!(datagram[..length], others[to_b.len()..]);
}

fn frames_leave_without_the_wakeup_flag() {
    let fabric = testing::fabric("wakeup", |_| ());
    let to_b = route(Envelope::DEFAULT, [&fabric.node(1), &fabric.node(2)], over_ipv4);
    let mut a = open(&fabric, XdpConfig { need_wakeup: false, ..config("eth0") }).unwrap();
    let mut b = common::link(&fabric, 2, &options(), Mode::XdpGeneric);
    let ours = frame(&to_b, CHANNEL, 1, 100);
    send(&mut a, &ours);
    only(&mut b, &ours);
}

/// The rest waits on a stack: what is received one by one stays within a few chunks.
fn as_many_frames_are_ready() {
    let fabric = testing::fabric("ready", |_| {});
    let mut a = open(&fabric, config("eth0")).unwrap();
    let mut b = {
        let _inside = fabric.node(2).enter().unwrap();
        XdpLink::open(XdpConfig { rx_ready: 8, ..config("eth0") }).unwrap()
    };
    let route = route(Envelope::DEFAULT, [&fabric.node(1), &fabric.node(2)], over_ipv4);
    let dropped = |b: &XdpLink| b.kernel_statistics().unwrap().rx_dropped as usize;
    // Where the frames lie that came, once the kernel has dealt with all.
    let mut drain = |b: &mut XdpLink, count: usize, come: usize| {
        let (before, end) = (dropped(b), Instant::now() + BOUND);
        for n in 0..count {
            send(&mut a, &frame(&route, CHANNEL, n as u32, 100));
        }
        // Chunks that a poll makes ready come too late for what is dropped first.
        while dropped(b) - before < count - come {
            assert!(Instant::now() < end, "{} dropped of {count}", dropped(b) - before);
        }
        let batch = gigae_link::conformance::hold(b, come);
        assert_eq!(dropped(b) - before, count - come);
        let places: Vec<_> = batch.iter().map(|frame| frame.offset()).collect();
        batch.into_iter().for_each(|frame| b.recycle(frame));
        places
    };
    drain(&mut b, 50, 8);
    b.provide(50);
    drain(&mut b, 50, 50);
    let mut places: Vec<_> = (0..500).flat_map(|_| drain(&mut b, 1, 1)).collect();
    assert_eq!(places.len(), 500);
    places.sort_unstable();
    places.dedup();
    assert!(places.len() <= 51, "{} of 4,096 chunks", places.len());
}

fn busy_polling_drives() {
    let fabric = testing::fabric("busy", |_| ());
    let busy_poll = BusyPoll::On { micros: 20, budget: 64 };
    let native = XdpConfig { mode: Some(Mode::XdpNative), busy_poll, ..config("eth0") };
    let mut link = open(&fabric, native).unwrap();
    assert!(link.is_busy_polling());
    let mut frames = Vec::new();
    for _ in 0..10 {
        assert_eq!(link.poll(&mut frames, 1).unwrap(), 0);
    }
    assert_eq!(link.counters().drives, 10);
    let mut peer = common::link(&fabric, 2, &options(), Mode::XdpGeneric);
    let to_a = route(Envelope::DEFAULT, [&fabric.node(2), &fabric.node(1)], over_ipv4);
    let ours = frame(&to_a, CHANNEL, 1, 100);
    send(&mut peer, &ours);
    only(&mut link, &ours);
}

/// A program of somebody else's: passes everything. Loaded by bpf(2) itself.
mod foreign {
    use rustix::fd::{AsRawFd, FromRawFd, OwnedFd};

    /// linux/bpf.h: commands, program type, attachment, and the flags of linux/if_link.h.
    const PROG_LOAD: libc::c_int = 5;
    const LINK_CREATE: libc::c_int = 28;
    const LINK_UPDATE: libc::c_int = 29;
    const LINK_GET_FD_BY_ID: libc::c_int = 30;
    const LINK_DETACH: libc::c_int = 34;
    const TYPE_XDP: u32 = 6;
    const ATTACH_XDP: u32 = 37;
    const SKB_MODE: u32 = 1 << 1;
    const DRV_MODE: u32 = 1 << 2;

    /// `r0 = XDP_PASS; exit`.
    static CODE: [u64; 2] = [2 << 32 | 0xb7, 0x95];

    #[repr(C)]
    struct Load {
        kind: u32,
        instructions: u32,
        code: u64,
        license: u64,
        rest: [u64; 12],
    }

    #[repr(C)]
    struct Create {
        program: u32,
        interface: u32,
        attach: u32,
        flags: u32,
        rest: [u64; 6],
    }

    pub(crate) struct Program {
        _link: OwnedFd,
        _program: OwnedFd,
    }

    impl Program {
        pub(crate) fn attach(interface: &str, generic: bool) -> Self {
            let program = load();
            let name = std::ffi::CString::new(interface).unwrap();
            // SAFETY: a string that ends with zero and lives across the call.
            let index = unsafe { libc::if_nametoindex(name.as_ptr()) };
            let create = Create {
                program: program.as_raw_fd() as u32,
                interface: index,
                attach: ATTACH_XDP,
                flags: if generic { SKB_MODE } else { DRV_MODE },
                rest: [0; 6],
            };
            Self { _link: bpf(LINK_CREATE, &create), _program: program }
        }
    }

    /// Loading a program that passes everything: whether that is permitted.
    pub(crate) fn try_load() -> std::io::Result<OwnedFd> {
        let mut rest = [0; 12];
        // The upper half of it: what the program will be attached to.
        rest[5] = u64::from(ATTACH_XDP) << 32;
        let load = Load {
            kind: TYPE_XDP,
            instructions: CODE.len() as u32,
            code: CODE.as_ptr() as u64,
            license: c"MIT".as_ptr() as u64,
            rest,
        };
        // SAFETY: a new descriptor that nobody else has.
        attempt(PROG_LOAD, &load).map(|fd| unsafe { OwnedFd::from_raw_fd(fd as i32) })
    }

    fn load() -> OwnedFd {
        try_load().unwrap()
    }

    /// Detaches the program that a link holds. With its interface gone it holds none.
    pub(crate) fn let_go(link: &OwnedFd) {
        let _ = attempt(LINK_DETACH, &[link.as_raw_fd()]);
    }

    /// Takes an interface down; whether that was permitted.
    pub(crate) fn set_down(control: &OwnedFd, interface: &str) -> bool {
        // SAFETY: the structure is plain bytes, for which zeros are valid.
        let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
        let name = request.ifr_name.iter_mut().zip(interface.bytes());
        name.for_each(|(to, byte)| *to = byte as libc::c_char);
        // SAFETY: this ioctl reads one `ifreq`.
        let result =
            unsafe { libc::ioctl(control.as_raw_fd(), libc::SIOCSIFFLAGS as _, &raw mut request) };
        result == 0
    }

    /// The link by which a program is attached.
    fn link_of(program: u32) -> OwnedFd {
        let mut links = aya::programs::loaded_links().flatten();
        let link = links.find(|link| link.program_id() == program).expect("it is attached");
        bpf(LINK_GET_FD_BY_ID, &[link.id(), 0, 0])
    }

    /// Detaches a program, whoever has attached it.
    pub(crate) fn detach(program: u32) {
        call(LINK_DETACH, &[link_of(program).as_raw_fd()]);
    }

    /// Puts another in its place; that one, which the link keeps.
    pub(crate) fn replace(program: u32) -> OwnedFd {
        let new = load();
        call(LINK_UPDATE, &[link_of(program).as_raw_fd(), new.as_raw_fd(), 0, 0]);
        new
    }

    fn bpf<T>(command: libc::c_int, attributes: &T) -> OwnedFd {
        // SAFETY: a new descriptor that nobody else has.
        unsafe { OwnedFd::from_raw_fd(call(command, attributes) as i32) }
    }

    fn call<T>(command: libc::c_int, attributes: &T) -> libc::c_long {
        attempt(command, attributes).unwrap_or_else(|error| panic!("bpf({command}): {error}"))
    }

    fn attempt<T>(command: libc::c_int, attributes: &T) -> std::io::Result<libc::c_long> {
        // SAFETY: both structures begin as the kernel's own and are zero beyond what they set; the
        // pointers in them lead to what is static.
        let result = unsafe {
            libc::syscall(libc::SYS_bpf, command, std::ptr::from_ref(attributes), size_of::<T>())
        };
        if result < 0 { Err(std::io::Error::last_os_error()) } else { Ok(result) }
    }
}
