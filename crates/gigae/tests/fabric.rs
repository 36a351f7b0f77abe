//! Endpoints on real interfaces, over every backend and both envelopes, in network namespaces that
//! each test makes and removes. Needs root.
#![allow(missing_docs)]

mod numbered;

use gigae::{
    Address, Backend, Cluster, Endpoint, Envelope, Mode, OpenError, Options, PeerError, Reason,
    Wait,
};
use gigae_fabric::{Fabric, FabricConfig, Node, testing};
use numbered::body;
use std::io::{Read, Write};
use std::net::{IpAddr, TcpListener, TcpStream};
use std::time::Duration;

/// Long enough for a loaded machine; nothing is concluded from how long it really takes.
const PATIENCE: Duration = Duration::from_secs(60);

const UDP: Envelope = Envelope::Udp { port: 4791 };

fn on(node: &Node, options: Options) -> Result<Endpoint, OpenError> {
    let _inside = node.enter().unwrap();
    options.open()
}

fn options(backend: Backend) -> Options {
    Options::new("eth0").backend(backend).wait(Wait::Sleep)
}

/// The same numbered messages of all sizes both ways at once; every byte is checked.
fn exchange(fabric: &Fabric, options: &Options, by_ip: bool, count: u32) {
    let address = |n: u16| match by_ip {
        true => Address::from(IpAddr::from(fabric.node(n).ipv4)),
        false => Address::from(gigae::MacAddr(fabric.node(n).mac)),
    };
    std::thread::scope(|scope| {
        for (me, other) in [(1, 2), (2, 1)] {
            let endpoint = on(&fabric.node(me), options.clone()).unwrap();
            let other = address(other);
            scope.spawn(move || converse(&endpoint, other, count));
        }
    });
}

fn converse(endpoint: &Endpoint, other: Address, count: u32) {
    let peer = endpoint.peer(other).unwrap();
    let max = endpoint.max_message();
    let (mut sent, mut got) = (0, 0);
    while got < count || sent < count {
        // A batch, then what has come: neither end waits for the other to finish.
        let end = count.min(sent + 16);
        while sent < end {
            match endpoint.try_send(peer, &body(sent, max)) {
                Ok(()) => sent += 1,
                Err(gigae::TrySendError::WouldBlock(())) => break,
                Err(error) => panic!("{error}"),
            }
        }
        let patience = if sent < count { Duration::ZERO } else { PATIENCE };
        while got < count {
            let Some(message) = endpoint.recv_timeout(patience).unwrap() else { break };
            assert_eq!(message[..], body(got, max), "message {got}");
            got += 1;
        }
        assert!(sent < count || got == count, "{got} of {count} messages came in time");
    }
    endpoint.drain(PATIENCE).unwrap();
}

fn over(backend: Backend, by_ip: bool) {
    let fabric = testing::fabric("over", |_| ());
    let options = options(backend);
    exchange(&fabric, &if by_ip { options.envelope(UDP) } else { options }, by_ip, 5_000);
}

fn messages_pass_over_xdp_generic() {
    over(Backend::XdpMode(Mode::XdpGeneric), false);
}

fn messages_pass_over_xdp_native() {
    over(Backend::XdpMode(Mode::XdpNative), false);
}

fn messages_pass_over_packet_sockets() {
    over(Backend::Packet, false);
}

/// A message is no longer than what one buffer of the link holds.
fn messages_pass_on_a_jumbo_network() {
    let fabric = testing::fabric("jumbo", |config| config.mtu = 9000);
    for (backend, most) in [
        (Backend::XdpMode(Mode::XdpGeneric), 3840 - 14 - 32),
        (Backend::XdpMode(Mode::XdpNative), 3840 - 14 - 32),
        (Backend::Packet, 9000 - 32),
    ] {
        let endpoint = on(&fabric.node(1), options(backend)).unwrap();
        assert_eq!(endpoint.max_message(), most, "{:?}", endpoint.link());
        drop(endpoint);
        exchange(&fabric, &options(backend), false, 2_000);
    }
}

fn messages_pass_in_the_udp_envelope_over_xdp() {
    over(Backend::Xdp, true);
}

fn messages_pass_in_the_udp_envelope_over_packet_sockets() {
    over(Backend::Packet, true);
}

fn messages_pass_in_the_udp_envelope_over_ipv6() {
    let fabric = testing::fabric("ipv6", |_| ());
    let options = options(Backend::Xdp).envelope(UDP);
    let a = on(&fabric.node(1), options.clone()).unwrap();
    let b = on(&fabric.node(2), options).unwrap();
    let to_b = a.peer(IpAddr::from(fabric.node(2).ipv6)).unwrap();
    // The second end was never told of the first: it answers whoever speaks to it.
    let answering = std::thread::spawn(move || {
        let question = b.recv_timeout(PATIENCE).unwrap().expect("the question came");
        b.send(question.from(), &question).unwrap();
        drop(question);
        b.drain(PATIENCE).unwrap();
    });
    a.send(to_b, b"question").unwrap();
    assert_eq!(&a.recv_timeout(PATIENCE).unwrap().expect("the answer came")[..], b"question");
    a.prepare_to_wait().unwrap();
    answering.join().unwrap();
}

/// Makes progress on endpoints, as their programs would, while `work` runs.
fn while_alive<R>(others: Vec<Endpoint>, work: impl FnOnce() -> R) -> R {
    let done = std::sync::atomic::AtomicBool::new(false);
    std::thread::scope(|scope| {
        for endpoint in others {
            let done = &done;
            scope.spawn(move || {
                while !done.load(std::sync::atomic::Ordering::Relaxed) {
                    endpoint.progress().unwrap();
                    std::thread::sleep(Duration::from_millis(1));
                }
            });
        }
        let result = work();
        done.store(true, std::sync::atomic::Ordering::Relaxed);
        result
    })
}

/// Three nodes, the third over packet sockets; the first asks until it knows both others, writes the
/// cluster file, and a message goes by name.
fn discovered(backend: Backend, by_ip: bool) {
    let fabric = testing::fabric("discovered", |config| config.nodes = 3);
    let envelope = if by_ip { UDP } else { Envelope::DEFAULT };
    let open = |n: u16, backend| {
        let options = options(backend).envelope(envelope).name(&format!("node-{n}"));
        on(&fabric.node(n), options.port(n).channels([n as u8])).unwrap()
    };
    let file = std::env::temp_dir().join(format!("{}.toml", fabric.config().prefix));
    let found = while_alive(vec![open(2, backend), open(3, Backend::Packet)], || {
        let asker = open(1, backend);
        let mut found = Vec::new();
        for _ in 0..100 {
            found = asker.discover(Duration::from_millis(100)).unwrap();
            if found.len() == 2 {
                break;
            }
        }
        found.insert(0, asker.identity());
        found
    });
    let mut cluster = Cluster::parse(Cluster::template(envelope), &file).unwrap();
    for (n, found) in (1..).zip(&found) {
        let node = fabric.node(n);
        assert_eq!((&found.name[..], found.port), (&format!("node-{n}")[..], n));
        assert_eq!((found.mac, found.ip), (gigae::MacAddr(node.mac), Some(node.ipv4.into())));
        assert_eq!((found.mtu, &found.channels[..]), (1500, &[n as u8][..]));
        assert!(cluster.add(found).unwrap().is_some());
    }
    assert_eq!(found.len(), 3);
    cluster.save().unwrap();
    let (first, second) = (fabric.node(1), fabric.node(2));
    let read = |node: &Node| {
        let _inside = node.enter().unwrap();
        let cluster = Cluster::read(&file).unwrap();
        let endpoint = cluster.options().unwrap().backend(backend).open().unwrap();
        (cluster, endpoint)
    };
    let ((cluster, a), (other, b)) = (read(&first), read(&second));
    std::fs::remove_file(&file).unwrap();
    drop(other);
    let to_b = a.peer(cluster.node("node-2").unwrap()).unwrap();
    a.send(to_b, b"by name").unwrap();
    while_alive(vec![a], || {
        assert_eq!(&b.recv_timeout(PATIENCE).unwrap().expect("it came")[..], b"by name");
    });
}

fn nodes_are_discovered_and_named_over_xdp() {
    discovered(Backend::XdpMode(Mode::XdpGeneric), false);
    discovered(Backend::XdpMode(Mode::XdpNative), false);
}

fn nodes_are_discovered_and_named_over_packet_sockets() {
    discovered(Backend::Packet, false);
}

fn nodes_are_discovered_and_named_in_the_udp_envelope() {
    discovered(Backend::Xdp, true);
    discovered(Backend::Packet, true);
}

fn an_interface_without_a_subnet_cannot_ask_in_the_udp_envelope() {
    let fabric = testing::fabric("nosubnet", |_| ());
    let node = fabric.node(1);
    let mut command = node.command("ip").unwrap();
    assert!(command.args(["-4", "address", "flush", "dev", "eth0"]).status().unwrap().success());
    let endpoint = on(&node, options(Backend::Packet).envelope(UDP)).unwrap();
    let says = endpoint.ask().unwrap_err().to_string();
    assert!(says.contains("'eth0'") && says.contains("ip address add"), "{says}");
}

fn the_two_backends_understand_each_other() {
    let fabric = testing::fabric("mixed", |_| ());
    let a = on(&fabric.node(1), options(Backend::Packet)).unwrap();
    let b = on(&fabric.node(2), options(Backend::Xdp)).unwrap();
    let (ma, mb) = (a.link().mac, b.link().mac);
    std::thread::scope(|scope| {
        scope.spawn(move || converse(&a, mb.into(), 1000));
        scope.spawn(move || converse(&b, ma.into(), 1000));
    });
}

/// Tagged messages of all sizes both ways at once, and a memory that both ends write and count in.
fn operate(fabric: &Fabric, options: &Options) {
    operate_with(fabric, options, |n| gigae::MacAddr(fabric.node(n).mac).into());
}

/// The same with nodes of these addresses.
fn operate_with(fabric: &Fabric, options: &Options, address: impl Fn(u16) -> Address) {
    const SIZES: [usize; 6] = [0, 8, 1_500, 20_000, 100_000, 1 << 20];
    let region = |me: u16| vec![me as u8; 1 << 20];
    std::thread::scope(|scope| {
        for (me, other) in [(1_u16, 2), (2, 1)] {
            let endpoint = on(&fabric.node(me), options.clone()).unwrap();
            let other = address(other);
            scope.spawn(move || {
                let peer = endpoint.peer(other).unwrap();
                let key = endpoint.register(region(me), gigae::Rights::ALL).unwrap();
                endpoint.send(peer, &key.0.to_be_bytes()).unwrap();
                let told = endpoint.recv_timeout(PATIENCE).unwrap().expect("the key came");
                let key = gigae::RegionKey(u64::from_be_bytes(told[..].try_into().unwrap()));
                drop(told);
                for (n, size) in SIZES.into_iter().enumerate() {
                    endpoint.start_recv(gigae::Wanted::tag(n as u64), vec![0; size]).unwrap();
                    endpoint.start_send(peer, n as u64, vec![n as u8; size]).unwrap();
                }
                endpoint.start_write(peer, key, 8, vec![77; 500_000], Some(5)).unwrap();
                endpoint.start_fetch_add(peer, key, 0, 1).unwrap();
                endpoint.start_read(peer, key, 0, vec![0; 1 << 20]).unwrap();
                for _ in 0..2 * SIZES.len() + 3 {
                    let ended = endpoint.completion_timeout(PATIENCE).unwrap();
                    let ended = ended.expect("it completed in time");
                    assert_eq!(ended.result, Ok(()));
                    let bytes = ended.memory.and_then(gigae::Memory::into_vec);
                    match bytes.as_deref() {
                        Some(read) if ended.tag == 0 && read.len() == 1 << 20 => {
                            assert!(read[8..500_008].iter().all(|&byte| byte == 77));
                        }
                        Some(bytes) => {
                            assert!(
                                bytes.iter().all(|&byte| [ended.tag as u8, 77].contains(&byte))
                            );
                        }
                        None => assert_eq!(ended.value, u64::from_le_bytes([3 - me as u8; 8])),
                    }
                }
                let notice = endpoint.notice_timeout(PATIENCE).unwrap().expect("a notice came");
                assert_eq!((notice.offset, notice.len, notice.value), (8, 500_000, 5));
                // What is owed to the peer goes on until it says that it has everything.
                endpoint.send(peer, b"done").unwrap();
                assert!(endpoint.recv_timeout(PATIENCE).unwrap().is_some());
                endpoint.drain(PATIENCE).unwrap();
            });
        }
    });
}

fn operations_over(backend: Backend) {
    for mtu in [1500, 3400, 9000] {
        let fabric = testing::fabric("ops", |config: &mut FabricConfig| config.mtu = mtu);
        operate(&fabric, &options(backend));
    }
}

fn operations_pass_over_xdp_generic_at_every_mtu() {
    operations_over(Backend::XdpMode(Mode::XdpGeneric));
}

fn operations_pass_over_xdp_native_at_every_mtu() {
    operations_over(Backend::XdpMode(Mode::XdpNative));
}

fn operations_pass_over_packet_sockets_at_every_mtu() {
    operations_over(Backend::Packet);
}

fn an_operation_with_a_peer_that_falls_silent_ends_for_a_sleeper_too() {
    let fabric = testing::fabric("silent", |_| ());
    let options = options(Backend::Xdp).peer_timeout(Duration::from_millis(300));
    let asleep = on(&fabric.node(1), options.clone()).unwrap();
    let silent = on(&fabric.node(2), options).unwrap();
    let to = asleep.peer(Address::from(silent.link().mac)).unwrap();
    asleep.send(to, b"first").unwrap();
    while silent.recv_timeout(Duration::from_millis(1)).unwrap().is_none() {
        asleep.progress().unwrap();
    }
    silent.prepare_to_wait().unwrap();
    asleep.drain(PATIENCE).unwrap();
    // From here on the peer is there and does nothing.
    asleep.start_send(to, 1, vec![0; 8]).unwrap();
    let (told, heard) = std::sync::mpsc::channel();
    std::thread::spawn(move || told.send(asleep.completion().unwrap().unwrap().result));
    let result = heard.recv_timeout(PATIENCE).expect("the sleeper was told");
    assert_eq!(result, Err(gigae::OpError::Lost(Reason::Timeout)));
    drop(silent);
}

fn operations_pass_in_the_udp_envelope_on_a_jumbo_network() {
    let fabric = testing::fabric("udpops", |config: &mut FabricConfig| config.mtu = 9000);
    let options = options(Backend::Xdp).envelope(UDP);
    operate_with(&fabric, &options, |n| IpAddr::from(fabric.node(n).ipv4).into());
    operate_with(&fabric, &options, |n| IpAddr::from(fabric.node(n).ipv6).into());
}

fn operations_with_oneself_pass_in_the_udp_envelope() {
    let fabric = testing::fabric("udpself", |_| ());
    let node = fabric.node(1);
    let endpoint = on(&node, options(Backend::Packet).envelope(UDP)).unwrap();
    for ip in [IpAddr::from(node.ipv4), IpAddr::from(node.ipv6)] {
        let peer = endpoint.peer(Address::from(ip)).unwrap();
        endpoint.start_recv(gigae::Wanted::tag(1), vec![0; 100_000]).unwrap();
        endpoint.start_send(peer, 1, vec![7; 100_000]).unwrap();
        for _ in 0..2 {
            let ended = endpoint.completion_timeout(PATIENCE).unwrap().expect("it ended");
            assert_eq!((ended.result, ended.len), (Ok(()), 100_000));
            let bytes = ended.memory.and_then(gigae::Memory::into_vec).unwrap();
            assert!(bytes.iter().all(|&byte| byte == 7));
        }
        // No way leads to another endpoint of this node.
        assert!(endpoint.peer(Address::from(ip).port(1)).is_err());
    }
}

fn operations_pass_through_loss_duplication_and_corruption() {
    for mtu in [1500, 9000] {
        let fabric = testing::fabric("wildops", |config: &mut FabricConfig| {
            (config.loss, config.duplicate, config.corrupt, config.seed) = (0.02, 0.01, 0.01, 11);
            config.mtu = mtu;
        });
        operate(&fabric, &options(Backend::Xdp));
        operate(&fabric, &options(Backend::Xdp).go_back_n());
    }
}

/// What a write of a mebibyte takes in data frames, and how often it was found that long ones vanish.
fn frames_of_a_write(fabric: &Fabric) -> (u64, u64) {
    let node = |n| on(&fabric.node(n), options(Backend::Xdp)).unwrap();
    let (from, to) = (node(1), node(2));
    let peer = from.peer(Address::from(to.link().mac)).unwrap();
    let key = to.register(vec![0; 1 << 20], gigae::Rights::ALL).unwrap();
    from.start_write(peer, key, 0, vec![7; 1 << 20], None).unwrap();
    let (mut done, began) = (None, std::time::Instant::now());
    while done.is_none() && began.elapsed() < PATIENCE {
        to.progress().unwrap();
        done = from.try_completion().unwrap();
    }
    assert_eq!(done.expect("it completed in time").result, Ok(()));
    let mut there = vec![0; 1 << 20];
    assert!(to.read_region(key, 0, &mut there) && there == vec![7; 1 << 20]);
    (to.counters().protocol.frames_delivered, from.counters().protocol.black_holes)
}

fn operations_fill_jumbo_frames() {
    let fabric = testing::fabric("long", |config: &mut FabricConfig| config.mtu = 9000);
    let (frames, holes) = frames_of_a_write(&fabric);
    assert!(frames <= 120 && holes == 0, "{frames} frames of 8,968 bytes, {holes} holes");
}

fn a_switch_that_swallows_long_frames_is_found_out() {
    let fabric = testing::fabric("hole", |config: &mut FabricConfig| {
        config.node_mtus = vec![9000, 9000];
        config.switch_mtu = Some(1500);
    });
    let (frames, holes) = frames_of_a_write(&fabric);
    assert!(frames > 700 && holes == 1, "{frames} frames of 1,468 bytes, {holes} holes");
}

fn a_link_that_loses_doubles_and_corrupts_frames_loses_no_message() {
    let fabric = testing::fabric("wild", |config: &mut FabricConfig| {
        config.loss = 0.02;
        config.duplicate = 0.01;
        config.corrupt = 0.01;
        config.seed = 7;
    });
    exchange(&fabric, &options(Backend::Xdp), false, 3_000);
    exchange(&fabric, &options(Backend::Xdp).go_back_n(), false, 1_000);
    let counters = fabric.impairment_counters().unwrap();
    assert!(counters.iter().all(|c| c.dropped > 0 && c.duplicated > 0 && c.corrupted > 0));
}

fn a_gigabit_link_with_a_small_buffer_carries_all() {
    let fabric = testing::fabric("shaped", |config: &mut FabricConfig| {
        config.rate = Some(gigae_fabric::Rate::GIGABIT);
        config.buffer = 128 * 1024;
    });
    exchange(&fabric, &options(Backend::Xdp), false, 10_000);
}

fn all_three_waiting_styles_end_a_conversation() {
    let fabric = testing::fabric("waits", |_| ());
    for wait in [Wait::Spin, Wait::Sleep, Wait::Adaptive] {
        exchange(&fabric, &options(Backend::Xdp).wait(wait), false, 500);
    }
}

fn a_tcp_connection_on_the_same_interface_goes_on() {
    let fabric = testing::fabric("tcp", |_| ());
    let (one, two) = (fabric.node(1), fabric.node(2));
    let listener = {
        let _inside = two.enter().unwrap();
        TcpListener::bind((two.ipv4, 7000)).unwrap()
    };
    let mut client = {
        let _inside = one.enter().unwrap();
        TcpStream::connect((two.ipv4, 7000)).unwrap()
    };
    let echo = std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let mut bytes = [0; 1000];
        while stream.read_exact(&mut bytes).is_ok() {
            stream.write_all(&bytes).unwrap();
        }
    });
    let mut talk = |n: u8| {
        client.write_all(&[n; 1000]).unwrap();
        let mut back = [0; 1000];
        client.read_exact(&mut back).unwrap();
        assert_eq!(back, [n; 1000]);
    };
    talk(1);
    for backend in
        [Backend::XdpMode(Mode::XdpGeneric), Backend::XdpMode(Mode::XdpNative), Backend::Packet]
    {
        exchange(&fabric, &options(backend), false, 500);
        talk(2);
    }
    drop(client);
    echo.join().unwrap();
}

fn two_programs_on_one_interface_use_two_channels() {
    let fabric = testing::fabric("channels", |_| ());
    let options = |channel| options(Backend::Packet).channels([channel]);
    let [a1, a2] = [1, 2].map(|channel| on(&fabric.node(1), options(channel)).unwrap());
    let [b1, b2] = [1, 2].map(|channel| on(&fabric.node(2), options(channel)).unwrap());
    for (a, b, channel) in [(&a1, &b1, 1), (&a2, &b2, 2)] {
        let peer = a.peer(Address::from(b.link().mac).channel(channel)).unwrap();
        a.queue(peer, &[channel]).unwrap();
        a.flush().unwrap();
        let got = receive(a, b);
        assert_eq!(got, [channel]);
    }
    assert!(matches!(a1.peer(Address::from(b1.link().mac).channel(2)), Err(PeerError::Channel(2))));
}

/// The next message at `b`, while `a` does its part of the session.
fn receive(a: &Endpoint, b: &Endpoint) -> Vec<u8> {
    let end = std::time::Instant::now() + PATIENCE;
    while std::time::Instant::now() < end {
        a.progress().unwrap();
        if let Some(message) = b.recv_timeout(Duration::from_millis(1)).unwrap() {
            return message.to_vec();
        }
    }
    panic!("no message came in time");
}

fn a_peer_that_is_not_there_is_reported_with_its_message() {
    let fabric = testing::fabric("absent", |_| ());
    let options = options(Backend::Xdp).peer_timeout(Duration::from_millis(100));
    let a = on(&fabric.node(1), options).unwrap();
    let peer = a.peer(gigae::MacAddr(fabric.node(2).mac)).unwrap();
    a.send(peer, b"anybody?").unwrap();
    assert!(matches!(a.recv_timeout(PATIENCE), Err(gigae::RecvError::Failed)));
    let failed = a.take_failure().unwrap();
    assert_eq!((&failed[..], failed.reason()), (&b"anybody?"[..], Reason::Timeout));
    assert_eq!(failed.to_string().lines().count(), 1);
}

fn a_second_endpoint_on_the_same_queue_falls_back_and_says_why() {
    let fabric = testing::fabric("second", |_| ());
    let _first = on(&fabric.node(1), options(Backend::Auto)).unwrap();
    let second = on(&fabric.node(1), options(Backend::Auto).channels([9])).unwrap();
    assert_eq!(second.link().mode, Mode::Packet);
    assert!(second.link().reason.contains("AF_XDP was refused"), "{}", second.link().reason);
}

fn what_cannot_be_opened_says_in_one_line_what_to_do() {
    let fabric = testing::fabric("errors", |_| ());
    let node = fabric.node(1);
    let says = |options: Options, part: &str| {
        let error = on(&node, options).unwrap_err().to_string();
        assert!(error.contains(part) && error.lines().count() == 1, "{error}");
    };
    says(Options::new("nosuch"), "no interface 'nosuch' here; choose one of");
    let ip = |arguments: &[&str]| {
        assert!(node.command("ip").unwrap().args(arguments).status().unwrap().success());
    };
    ip(&["link", "set", "eth0", "mtu", "68"]);
    says(Options::new("eth0"), "is too small");
    ip(&["link", "set", "eth0", "mtu", "1500", "down"]);
    says(Options::new("eth0"), "ip link set eth0 up");
}

fn epoll_wakes_up_for_a_message() {
    use rustix::event::{PollFd, PollFlags, poll};
    let fabric = testing::fabric("epoll", |_| ());
    for backend in [Backend::Xdp, Backend::Packet] {
        let a = on(&fabric.node(1), options(backend)).unwrap();
        let b = on(&fabric.node(2), options(backend)).unwrap();
        let peer = a.peer(b.link().mac).unwrap();
        let waiting = std::thread::spawn(move || {
            let end = std::time::Instant::now() + PATIENCE;
            while std::time::Instant::now() < end {
                let limit = b.prepare_to_wait().unwrap().unwrap_or(PATIENCE).min(PATIENCE);
                let limit = rustix::time::Timespec::try_from(limit).unwrap();
                let fd = b.fd().unwrap();
                poll(&mut [PollFd::new(&fd, PollFlags::IN)], Some(&limit)).unwrap();
                if let Some(message) = b.try_recv().unwrap() {
                    assert_eq!(message[..], *b"wake up");
                    return;
                }
            }
            panic!("no message came in time");
        });
        a.send(peer, b"wake up").unwrap();
        a.drain(PATIENCE).unwrap();
        waiting.join().unwrap();
    }
}

/// Both ends on one CPU: the receiver runs only while the sender sleeps, so acknowledgements for the
/// whole window come at once.
fn a_sleeping_sender_wakes_up_when_its_window_opens() {
    let fabric = testing::fabric("one_cpu", |_| ());
    let a = on(&fabric.node(1), options(Backend::Xdp)).unwrap();
    let b = on(&fabric.node(2), options(Backend::Xdp)).unwrap();
    let peer = a.peer(b.link().mac).unwrap();
    let pin = || {
        let mut first = rustix::thread::CpuSet::new();
        first.set(0);
        rustix::thread::sched_setaffinity(None, &first).unwrap();
    };
    let receiving = std::thread::spawn(move || {
        pin();
        for n in 0..20_000u32 {
            let message = b.recv_timeout(PATIENCE).unwrap().expect("the stream goes on");
            assert_eq!(message[..4], n.to_be_bytes());
        }
        b.drain(PATIENCE).unwrap();
    });
    std::thread::spawn(move || {
        pin();
        for n in 0..20_000u32 {
            let mut buffer = a.buffer().unwrap();
            buffer[..4].copy_from_slice(&n.to_be_bytes());
            buffer.queue(peer, 1400).unwrap();
        }
        a.drain(PATIENCE).unwrap();
    })
    .join()
    .unwrap();
    receiving.join().unwrap();
}

fn the_first_program_says_hello() {
    let fabric = testing::fabric("hello", |_| ());
    // Examples are built before tests are run and lie beside their directory.
    let hello = std::env::current_exe().unwrap();
    let hello = hello.parent().unwrap().parent().unwrap().join("examples/hello");
    let start = |node: u16, arguments: &[String]| {
        let mut command = fabric.node(node).command(&hello).unwrap();
        command.arg("eth0").args(arguments).stdout(std::process::Stdio::piped());
        command.spawn().unwrap()
    };
    let mut waiting = start(1, &[]);
    let mut said = std::io::BufReader::new(waiting.stdout.take().unwrap());
    let mut line = String::new();
    std::io::BufRead::read_line(&mut said, &mut line).unwrap();
    let mac = line.trim().strip_prefix("waiting on ").unwrap().to_owned();
    let answered = start(2, &[mac]).wait_with_output().unwrap();
    assert!(answered.status.success() && waiting.wait().unwrap().success());
    assert!(String::from_utf8(answered.stdout).unwrap().ends_with("says hello to you\n"));
    line.clear();
    std::io::BufRead::read_line(&mut said, &mut line).unwrap();
    assert!(line.ends_with("says hello\n"), "{line}");
}

fn ip(node: &Node, arguments: &str) {
    let mut command = node.command("ip").unwrap();
    assert!(command.args(arguments.split(' ')).status().unwrap().success(), "ip {arguments}");
}

/// Both ends are open, the first one's interface went down, and calls say so.
fn gone_down(fabric: &Fabric, backend: Backend) -> (Endpoint, Endpoint, gigae::Peer) {
    let [a, b] = [1, 2].map(|n| on(&fabric.node(n), options(backend)).unwrap());
    let peer = a.peer(b.link().mac).unwrap();
    a.send(peer, &0u32.to_be_bytes()).unwrap();
    let end = std::time::Instant::now() + PATIENCE;
    while b.recv_timeout(Duration::from_millis(1)).unwrap().is_none() {
        assert!(std::time::Instant::now() < end, "no message came");
        a.progress().unwrap();
    }
    b.prepare_to_wait().unwrap();
    a.drain(PATIENCE).unwrap();
    ip(&fabric.node(1), "link set eth0 down");
    (a, b, peer)
}

/// The messages from 1 on, each once, while the other end drains.
fn all_arrive(a: &Endpoint, b: Endpoint, last: u32) {
    std::thread::scope(|scope| {
        let receiving = scope.spawn(move || {
            for n in 1..=last {
                let message = b.recv_timeout(PATIENCE).unwrap().expect("it came in time");
                assert_eq!(message[..4], n.to_be_bytes(), "in order, each once");
            }
            b.drain(PATIENCE).unwrap();
            b.recv_timeout(Duration::from_millis(200)).unwrap().map(|message| message.to_vec())
        });
        a.drain(PATIENCE).unwrap();
        assert_eq!(receiving.join().unwrap(), None, "nothing came twice");
    });
}

fn a_message_that_is_refused_while_the_interface_is_down_is_not_sent() {
    for backend in
        [Backend::Packet, Backend::XdpMode(Mode::XdpGeneric), Backend::XdpMode(Mode::XdpNative)]
    {
        let fabric = testing::fabric("refused", |_| ());
        let (a, b, peer) = gone_down(&fabric, backend);
        let (mut next, mut refused) = (1u32, 0);
        for n in 0..40 {
            // By each way to send.
            let body = next.to_be_bytes();
            let accepted = match n % 4 {
                0 => a.send(peer, &body).is_ok(),
                1 => a.try_send(peer, &body).is_ok(),
                2 => a.queue(peer, &body).is_ok(),
                _ => {
                    let mut buffer = a.try_buffer().expect("there are many");
                    buffer[..4].copy_from_slice(&body);
                    buffer.send(peer, 4).is_ok()
                }
            };
            (next, refused) = (next + u32::from(accepted), refused + u32::from(!accepted));
        }
        assert!(refused > 0 && next > 1, "{refused} refused, {next}");
        ip(&fabric.node(1), "link set eth0 up");
        all_arrive(&a, b, next - 1);
    }
}

/// The receiver has nothing to say meanwhile, so nothing else makes the sender ring its doorbell.
fn what_was_posted_while_the_interface_was_down_goes_when_it_is_up() {
    for backend in
        [Backend::Packet, Backend::XdpMode(Mode::XdpGeneric), Backend::XdpMode(Mode::XdpNative)]
    {
        let fabric = testing::fabric("posted", |_| ());
        let (a, b, peer) = gone_down(&fabric, backend);
        a.queue(peer, &1u32.to_be_bytes()).unwrap();
        assert!(a.drain(Duration::from_secs(1)).is_err());
        ip(&fabric.node(1), "link set eth0 up");
        all_arrive(&a, b, 1);
    }
}

fn main() {
    testing::run(&[
        ("the_first_program_says_hello", the_first_program_says_hello as fn()),
        (
            "a_sleeping_sender_wakes_up_when_its_window_opens",
            a_sleeping_sender_wakes_up_when_its_window_opens,
        ),
        ("messages_pass_over_xdp_generic", messages_pass_over_xdp_generic),
        ("messages_pass_over_xdp_native", messages_pass_over_xdp_native),
        ("messages_pass_over_packet_sockets", messages_pass_over_packet_sockets),
        ("messages_pass_on_a_jumbo_network", messages_pass_on_a_jumbo_network),
        ("messages_pass_in_the_udp_envelope_over_xdp", messages_pass_in_the_udp_envelope_over_xdp),
        (
            "messages_pass_in_the_udp_envelope_over_packet_sockets",
            messages_pass_in_the_udp_envelope_over_packet_sockets,
        ),
        (
            "messages_pass_in_the_udp_envelope_over_ipv6",
            messages_pass_in_the_udp_envelope_over_ipv6,
        ),
        ("the_two_backends_understand_each_other", the_two_backends_understand_each_other),
        (
            "an_operation_with_a_peer_that_falls_silent_ends_for_a_sleeper_too",
            an_operation_with_a_peer_that_falls_silent_ends_for_a_sleeper_too,
        ),
        (
            "operations_pass_over_xdp_generic_at_every_mtu",
            operations_pass_over_xdp_generic_at_every_mtu,
        ),
        (
            "operations_pass_over_xdp_native_at_every_mtu",
            operations_pass_over_xdp_native_at_every_mtu,
        ),
        (
            "operations_pass_over_packet_sockets_at_every_mtu",
            operations_pass_over_packet_sockets_at_every_mtu,
        ),
        (
            "operations_pass_in_the_udp_envelope_on_a_jumbo_network",
            operations_pass_in_the_udp_envelope_on_a_jumbo_network,
        ),
        (
            "operations_with_oneself_pass_in_the_udp_envelope",
            operations_with_oneself_pass_in_the_udp_envelope,
        ),
        ("operations_fill_jumbo_frames", operations_fill_jumbo_frames),
        (
            "a_switch_that_swallows_long_frames_is_found_out",
            a_switch_that_swallows_long_frames_is_found_out,
        ),
        (
            "operations_pass_through_loss_duplication_and_corruption",
            operations_pass_through_loss_duplication_and_corruption,
        ),
        (
            "a_link_that_loses_doubles_and_corrupts_frames_loses_no_message",
            a_link_that_loses_doubles_and_corrupts_frames_loses_no_message,
        ),
        (
            "a_gigabit_link_with_a_small_buffer_carries_all",
            a_gigabit_link_with_a_small_buffer_carries_all,
        ),
        (
            "all_three_waiting_styles_end_a_conversation",
            all_three_waiting_styles_end_a_conversation,
        ),
        (
            "a_tcp_connection_on_the_same_interface_goes_on",
            a_tcp_connection_on_the_same_interface_goes_on,
        ),
        (
            "two_programs_on_one_interface_use_two_channels",
            two_programs_on_one_interface_use_two_channels,
        ),
        (
            "a_peer_that_is_not_there_is_reported_with_its_message",
            a_peer_that_is_not_there_is_reported_with_its_message,
        ),
        (
            "a_second_endpoint_on_the_same_queue_falls_back_and_says_why",
            a_second_endpoint_on_the_same_queue_falls_back_and_says_why,
        ),
        (
            "what_cannot_be_opened_says_in_one_line_what_to_do",
            what_cannot_be_opened_says_in_one_line_what_to_do,
        ),
        ("nodes_are_discovered_and_named_over_xdp", nodes_are_discovered_and_named_over_xdp),
        (
            "nodes_are_discovered_and_named_over_packet_sockets",
            nodes_are_discovered_and_named_over_packet_sockets,
        ),
        (
            "nodes_are_discovered_and_named_in_the_udp_envelope",
            nodes_are_discovered_and_named_in_the_udp_envelope,
        ),
        (
            "an_interface_without_a_subnet_cannot_ask_in_the_udp_envelope",
            an_interface_without_a_subnet_cannot_ask_in_the_udp_envelope,
        ),
        ("epoll_wakes_up_for_a_message", epoll_wakes_up_for_a_message),
        (
            "a_message_that_is_refused_while_the_interface_is_down_is_not_sent",
            a_message_that_is_refused_while_the_interface_is_down_is_not_sent,
        ),
        (
            "what_was_posted_while_the_interface_was_down_goes_when_it_is_up",
            what_was_posted_while_the_interface_was_down_goes_when_it_is_up,
        ),
    ]);
}
