//! What is chosen, and which frames it carries.

use super::*;

pub(crate) fn veth_gets_generic() {
    let fabric = testing::fabric("generic", |_| ());
    let link = open(&fabric, config("eth0")).unwrap();
    assert_eq!(link.info().mode, Mode::XdpGeneric);
    assert!(link.info().reason.contains("veth"), "{}", link.info().reason);
    assert!(!link.is_busy_polling());
    assert_eq!(link.info().max_frame, 1514);
}

pub(crate) fn a_bridge_falls_back_to_generic_mode() {
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

pub(crate) fn a_mode_that_is_asked_for_is_not_replaced() {
    let fabric = testing::fabric("asked", |_| ());
    let ask = |mode| open(&fabric, XdpConfig { mode: Some(mode), ..config("eth0") });
    assert_eq!(ask(Mode::XdpNative).unwrap().info().mode, Mode::XdpNative);
    for mode in [Mode::XdpZeroCopy, Mode::Packet] {
        let error = ask(mode).err().expect("no such mode here").to_string();
        assert!(error.contains("packet backend") && !error.contains('\n'), "{error}");
    }
    assert!(!has_program(&fabric), "a refused attempt leaves nothing");
}

pub(crate) fn jumbo(mtu: u32) -> Fabric {
    testing::fabric("jumbo", |config| config.mtu = mtu)
}

pub(crate) fn jumbo_frames_are_carried() {
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
pub(crate) fn one_buffer_as_far_as_the_driver_goes() {
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

pub(crate) fn frames_can_be_limited_to_one_buffer() {
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

pub(crate) fn frames_of_any_mtu_are_limited() {
    let fabric = jumbo(60_000);
    let link = open(&fabric, config("eth0")).unwrap();
    assert_eq!(link.info().max_frame, 15_360);
    assert!(link.info().reason.contains("15360"), "{}", link.info().reason);
}

/// AF_PACKET hands the kernel long frames in other pieces than AF_XDP does.
pub(crate) fn long_frames_pass_between_backends() {
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
pub(crate) fn peers_of_a_lesser_mtu() {
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
pub(crate) fn only_next(link: &mut XdpLink, bytes: &[u8]) {
    assert!(gigae_link::conformance::receive(link, 1) == [bytes]);
}

/// Another end whose MTU was raised later sends what this one was not opened for.
pub(crate) fn frames_after_a_raised_mtu() {
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
pub(crate) fn bind_to_eth0(socket: &rustix::fd::OwnedFd) {
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

/// On a veth without a bridge between, the tag stays where the sender wrote it.
pub(crate) fn a_tag_in_the_bytes_is_seen() {
    let fabric = testing::fabric("tags", |_| ());
    ip(&fabric, "link add v0 type veth peer name v1");
    for end in ["v0", "v1"] {
        ip(&fabric, &format!("link set {end} up"));
    }
    for mode in [Mode::XdpGeneric, Mode::XdpNative] {
        let [mut a, mut b] = ["v0", "v1"]
            .map(|end| open(&fabric, XdpConfig { mode: Some(mode), ..config(end) }).unwrap());
        let [from, to] = [&a, &b].map(|link| link.info().mac.into());
        let to_b = Route::new(Envelope::DEFAULT, from, to).unwrap();
        let tagged = frame(&to_b.tagged(7), CHANNEL, 1, 1514);
        send(&mut a, &tagged);
        only(&mut b, &tagged);
        let mut of_vlan = tagged.clone();
        of_vlan[15] = 1;
        send(&mut a, &of_vlan);
        let ours = frame(&to_b, CHANNEL, 2, 100);
        send(&mut a, &ours);
        only(&mut b, &ours);
    }
}

pub(crate) fn other_channels_reach_a_packet_link() {
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

pub(crate) fn other_datagrams_reach_the_kernel() {
    const PORT: u16 = 4791;
    let envelope = Envelope::Udp { port: PORT };
    let options = PairOptions::new(envelope);
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

pub(crate) fn frames_leave_without_the_wakeup_flag() {
    let fabric = testing::fabric("wakeup", |_| ());
    let to_b = route(Envelope::DEFAULT, [&fabric.node(1), &fabric.node(2)], over_ipv4);
    let mut a = open(&fabric, XdpConfig { need_wakeup: false, ..config("eth0") }).unwrap();
    let mut b = common::link(&fabric, 2, &options(), Mode::XdpGeneric);
    let ours = frame(&to_b, CHANNEL, 1, 100);
    send(&mut a, &ours);
    only(&mut b, &ours);
}

/// The rest waits on a stack: what is received one by one stays within a few chunks.
pub(crate) fn as_many_frames_are_ready() {
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

/// So few that the link does not give them back to the kernel between frames.
pub(crate) fn recycled_frames_are_ready() {
    let fabric = testing::fabric("asleep", |_| {});
    let mut a = open(&fabric, config("eth0")).unwrap();
    let mut b = {
        let _inside = fabric.node(2).enter().unwrap();
        XdpLink::open(XdpConfig { rx_frames: 32, rx_ready: 32, ..config("eth0") }).unwrap()
    };
    let route = route(Envelope::DEFAULT, [&fabric.node(1), &fabric.node(2)], over_ipv4);
    let mut send_many = |count| {
        (0..count).for_each(|n| send(&mut a, &frame(&route, CHANNEL, n, 100)));
    };
    send_many(10);
    let held = gigae_link::conformance::hold(&mut b, 10);
    held.into_iter().for_each(|frame| b.recycle(frame));
    assert!(!b.prepare_to_wait(), "nothing has come");
    send_many(32);
    let (mut batch, end) = (Vec::new(), Instant::now() + BOUND);
    let dropped = |b: &XdpLink| b.kernel_statistics().unwrap().rx_dropped as usize;
    while batch.len() + dropped(&b) < 32 {
        assert!(Instant::now() < end, "{} of 32 frames", batch.len());
        b.poll(&mut batch, 32).unwrap();
    }
    assert_eq!((batch.len(), dropped(&b)), (32, 0));
    batch.into_iter().for_each(|frame| b.recycle(frame));
}

pub(crate) fn busy_polling_drives() {
    let fabric = testing::fabric("busy", |_| ());
    let busy_poll = BusyPoll::On { micros: 20, budget: 64 };
    let native = XdpConfig { mode: Some(Mode::XdpNative), busy_poll, ..config("eth0") };
    let mut link = open(&fabric, native).unwrap();
    assert!(link.is_busy_polling());
    let mut frames = Vec::new();
    let before = link.counters().drives;
    for _ in 0..40 {
        assert_eq!(link.poll(&mut frames, 1).unwrap(), 0);
    }
    assert_eq!(link.counters().drives - before, 10, "one poll in four");
    let mut peer = common::link(&fabric, 2, &options(), Mode::XdpGeneric);
    let to_a = route(Envelope::DEFAULT, [&fabric.node(2), &fabric.node(1)], over_ipv4);
    let ours = frame(&to_a, CHANNEL, 1, 100);
    send(&mut peer, &ours);
    only(&mut link, &ours);
}
