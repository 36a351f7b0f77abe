//! What else a program meets: waiting, other programs, what is refused, an interface that goes
//! down.

use super::*;

pub(crate) fn all_three_waiting_styles_end_a_conversation() {
    let fabric = testing::fabric("waits", |_| ());
    for wait in [Wait::Spin, Wait::Sleep, Wait::Adaptive] {
        exchange(&fabric, &options(Backend::Xdp).wait(wait), false, 500);
    }
}

pub(crate) fn a_tcp_connection_on_the_same_interface_goes_on() {
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

pub(crate) fn two_programs_on_one_interface_use_two_channels() {
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
pub(crate) fn receive(a: &Endpoint, b: &Endpoint) -> Vec<u8> {
    let end = std::time::Instant::now() + PATIENCE;
    while std::time::Instant::now() < end {
        a.progress().unwrap();
        if let Some(message) = b.recv_timeout(Duration::from_millis(1)).unwrap() {
            return message.to_vec();
        }
    }
    panic!("no message came in time");
}

pub(crate) fn a_peer_that_is_not_there_is_reported_with_its_message() {
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

pub(crate) fn a_second_endpoint_on_the_same_queue_falls_back_and_says_why() {
    let fabric = testing::fabric("second", |_| ());
    let _first = on(&fabric.node(1), options(Backend::Xdp)).unwrap();
    let second = on(&fabric.node(1), options(Backend::Auto).channels([9])).unwrap();
    assert_eq!(second.link().mode, Mode::Packet);
    assert!(second.link().reason.contains("AF_XDP was refused"), "{}", second.link().reason);
    // A veth has no other mode that is worth it, which is not a fault.
    let alone = on(&fabric.node(2), options(Backend::Auto)).unwrap();
    assert_eq!(alone.link().mode, Mode::Packet);
    assert!(alone.link().reason.contains("generic mode only"), "{}", alone.link().reason);
}

pub(crate) fn a_note_of_measured_round_trips_chooses_the_backend_and_is_said() {
    // Notes are for all endpoints of a user, so this one is for an MTU that nobody else has.
    let mtu = 1280 + std::process::id() % 200;
    let fabric = testing::fabric("measured", |config| config.mtu = mtu);
    let open = |packet, generic| {
        let [packet, generic] = [packet, generic].map(Duration::from_micros);
        let note = MeasuredBackends { packet, generic }.remember("veth", mtu as usize).unwrap();
        let endpoint = on(&fabric.node(1), options(Backend::Auto)).unwrap();
        (endpoint.link().mode, endpoint.link().reason.clone(), note)
    };
    let (mode, reason, _) = open(4, 3);
    assert_eq!(mode, Mode::XdpGeneric, "{reason}");
    let said = "4.00 us over AF_PACKET and 3.00 us over AF_XDP's generic mode";
    assert!(reason.contains(said), "{reason}");
    let (mode, reason, note) = open(3, 4);
    assert_eq!(mode, Mode::Packet, "{reason}");
    assert!(reason.contains("3.00 us over AF_PACKET"), "{reason}");
    // A program that asks for a backend gets that.
    let asked = on(&fabric.node(1), options(Backend::Xdp)).unwrap();
    assert_eq!(asked.link().mode, Mode::XdpGeneric);
    drop(asked);
    std::fs::remove_file(note).unwrap();
    let without = on(&fabric.node(1), options(Backend::Auto)).unwrap();
    assert_eq!(without.link().mode, Mode::Packet);
    assert!(!without.link().reason.contains("measured"), "{}", without.link().reason);
}

pub(crate) fn what_cannot_be_opened_says_in_one_line_what_to_do() {
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

pub(crate) fn epoll_wakes_up_for_a_message() {
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

/// Both ends on one CPU: the receiver runs only while the sender sleeps, so acknowledgements for
/// the whole window come at once.
pub(crate) fn a_sleeping_sender_wakes_up_when_its_window_opens() {
    let fabric = testing::fabric("one_cpu", |_| ());
    let a = on(&fabric.node(1), options(Backend::Xdp)).unwrap();
    let b = on(&fabric.node(2), options(Backend::Xdp)).unwrap();
    let peer = a.peer(b.link().mac).unwrap();
    let pin = || gigae_host::affinity::pin(0).unwrap();
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

pub(crate) fn the_first_program_says_hello() {
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

pub(crate) fn ip(node: &Node, arguments: &str) {
    let mut command = node.command("ip").unwrap();
    assert!(command.args(arguments.split(' ')).status().unwrap().success(), "ip {arguments}");
}

/// Both ends are open, the first one's interface went down, and calls say so.
pub(crate) fn gone_down(fabric: &Fabric, backend: Backend) -> (Endpoint, Endpoint, gigae::Peer) {
    // Until the interface is up again the kernel may take minutes, in which no message is to fail.
    let options = options(backend).peer_timeout(PATIENCE * 5);
    let [a, b] = [1, 2].map(|n| on(&fabric.node(n), options.clone()).unwrap());
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
pub(crate) fn all_arrive(a: &Endpoint, b: Endpoint, last: u32) {
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

pub(crate) fn a_message_that_is_refused_while_the_interface_is_down_is_not_sent() {
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
        fabric.await_links().unwrap();
        all_arrive(&a, b, next - 1);
    }
}

/// The receiver has nothing to send in the meantime, so nothing else makes the sender ring its
/// doorbell.
pub(crate) fn what_was_posted_while_the_interface_was_down_goes_when_it_is_up() {
    for backend in
        [Backend::Packet, Backend::XdpMode(Mode::XdpGeneric), Backend::XdpMode(Mode::XdpNative)]
    {
        let fabric = testing::fabric("posted", |_| ());
        let (a, b, peer) = gone_down(&fabric, backend);
        a.queue(peer, &1u32.to_be_bytes()).unwrap();
        assert!(a.drain(Duration::from_secs(1)).is_err());
        ip(&fabric.node(1), "link set eth0 up");
        fabric.await_links().unwrap();
        all_arrive(&a, b, 1);
    }
}
