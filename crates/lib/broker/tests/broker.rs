//! A broker and its clients, as processes, on real interfaces in network namespaces. Needs root.
#![allow(missing_docs)]

mod parts;

use gigae_broker::{BrokerError, KEPT, Port, PortOffer, REQUEST_LEN, RefusalCode, Request, nics};
use gigae_fabric::testing;
use gigae_link::conformance::{drain, frame, only, queue, receive, send};
use gigae_link::{Link, LinkError, Mode};
use gigae_wire::MacAddr;
use parts::{
    BOUND, CHANNEL, IGNORED, NOBODY, OTHER, TestProcess, Testbed, attacker, blocking, request,
    route, until,
};
use rustix::fd::{AsRawFd, OwnedFd};
use rustix::net::{AddressFamily, SendFlags, SocketAddrUnix, SocketFlags, SocketType};
use rustix::thread::CapabilitySet;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

fn main() {
    if parts::play() {
        return;
    }
    testing::run(&[
        ("an_unprivileged_user_exchanges_frames_with_another_node", exchanges as fn()),
        ("a_user_that_is_not_allowed_gets_the_reason", a_user_that_is_not_allowed_gets_the_reason),
        ("what_is_not_allowed_is_refused_by_name", what_is_not_allowed_is_refused_by_name),
        ("limits_are_kept_and_what_ends_makes_room", limits_are_kept),
        ("the_child_of_a_killed_client_is_removed", the_child_of_a_killed_client_is_removed),
        ("clients_go_on_when_the_broker_is_killed_and_comes_back", clients_outlive_the_broker),
        ("clients_go_on_when_the_broker_ends_in_order", clients_outlive_an_orderly_end),
        ("one_client_does_not_receive_the_frames_of_another", one_does_not_receive_anothers_frames),
        ("clients_on_one_nic_reach_each_other", clients_reach_each_other),
        ("hanging_up_gives_nothing_back_that_is_kept", hanging_up_gives_nothing_back),
        ("memory_that_is_shared_with_another_socket_counts", memory_that_is_shared),
        ("a_client_that_locks_its_memory_holds_up_no_other", blocking::the_lock_of_memory),
        ("a_check_of_memory_does_not_wait_for_its_lock", blocking::a_check_of_locked_memory),
        ("messages_that_a_client_does_not_read_count", blocking::unread_messages),
        ("a_process_of_another_network_namespace_gets_nothing", another_namespace_gets_nothing),
        ("a_user_who_asks_for_much_does_not_keep_others_waiting", others_get_their_turn),
        (
            "a_broker_of_another_user_than_root_or_oneself_is_refused",
            a_broker_of_another_user_is_refused,
        ),
        ("a_set_user_id_program_does_not_ask_its_environment", set_user_id_programs),
        ("several_attackers_get_no_more_than_their_limits", attacker::they_get_no_more),
        ("hostile_clients_neither_stop_nor_hold_up_the_broker", hostile_clients),
        ("a_broker_has_the_capabilities_that_it_needs_and_no_other", capabilities),
        ("a_second_broker_is_refused_and_another_file_is_left_alone", a_second_broker_is_refused),
        ("a_packet_socket_would_be_bound_anywhere", a_packet_socket_would_be_bound_anywhere),
        (
            "a_client_that_is_sent_away_is_notified_that_its_interface_ended",
            the_end_of_an_interface_is_reported,
        ),
    ]);
}

fn why(testbed: &Testbed, request: &Request) -> (RefusalCode, String) {
    match testbed.open(request).err().expect("refused") {
        BrokerError::Refused(refusal) => (refusal.why, refusal.text),
        other => panic!("{other}"),
    }
}

/// Frames to an echoing client come back.
fn echoes(link: &mut dyn Link, client: MacAddr) {
    let there = route(link, client);
    for (number, length) in [(1, 60), (2, 1514), (3, 300)] {
        let out = frame(&there, CHANNEL, number, length);
        send(link, &out);
        let back = receive(link, 1).remove(0);
        assert_eq!((&back[..6], &back[6..12]), (&out[6..12], &out[..6]));
        assert_eq!(back[12..], out[12..]);
    }
    for number in 0..50 {
        queue(link, &frame(&there, CHANNEL, number, 500));
    }
    link.flush().unwrap();
    assert_eq!(receive(link, 50).len(), 50);
}

fn exchanges() {
    let testbed = Testbed::new("exchanges", "");
    let (_client, mac, interface) = testbed.echo(NOBODY).unwrap();
    assert_eq!(interface, "gigae0");
    echoes(&mut testbed.other(), mac);
}

fn a_user_that_is_not_allowed_gets_the_reason() {
    let testbed = Testbed::new("not allowed", "");
    let refused = testbed.echo(OTHER).err().unwrap();
    let said = format!("user {OTHER} is not among those that ");
    assert!(refused.starts_with(&said) && refused.contains("broker.toml allows; ask"), "{refused}");
    let refused = testbed.inside(|| nics(&testbed.socket()));
    let refused = refused.expect_err("not even root, if it is not named");
    assert!(matches!(&refused, BrokerError::Refused(refusal) if refusal.why == RefusalCode::User));
    assert!(refused.to_string().starts_with("user 0 is not among those"), "{refused}");
    let (refused, _) = why(&testbed, &request());
    assert_eq!(refused, RefusalCode::User);
    let error = Port::open("/nowhere/broker.sock".as_ref(), &request()).err().unwrap();
    assert!(matches!(error, BrokerError::Absent { .. }), "{error}");
    assert!(error.to_string().contains("start 'gigae broker'"), "{error}");
    assert_eq!(testbed.children(), Vec::<String>::new());
}

/// What makes root one of those who are allowed.
const ROOT_TOO: &str = "groups = [0]\n";

fn what_is_not_allowed_is_refused_by_name() {
    let testbed = Testbed::new("what", &format!("{ROOT_TOO}ethertypes = [0x88b5, 0x88b6]"));
    assert_eq!(testbed.inside(|| nics(&testbed.socket())).unwrap(), ["eth0"]);
    let with = |interface: &str| Request { interface: Some(interface.into()), ..request() };
    for unknown in ["eth7", "lo", "a-name-that-is-far-too-long"] {
        let (refused, text) = why(&testbed, &with(unknown));
        assert!(refused == RefusalCode::Interface && text.contains("eth0"), "{text}");
    }
    assert_eq!(
        why(&testbed, &Request { ethertype: 0x0800, ..request() }).0,
        RefusalCode::EtherType
    );
    let port = testbed.open(&with("eth0")).unwrap_or_else(|e| panic!("{e}"));
    let info = port.link.info();
    assert_eq!((info.mode, info.max_frame, info.rx_frames), (Mode::XdpGeneric, 1514, 192));
    assert!(info.reason.contains("shared NIC"), "{}", info.reason);
    let other = Request { ethertype: 0x88b6, ..request() };
    testbed.open(&other).unwrap_or_else(|e| panic!("{e}"));
}

fn limits_are_kept() {
    let testbed =
        Testbed::new("limits", &format!("{ROOT_TOO}ports_per_user = 3\nmib_per_user = 2"));
    let large = Request { rx_frames: 1 << 16, ..request() };
    let (refused, text) = why(&testbed, &large);
    assert!(refused == RefusalCode::Limit && text.contains("0 ports and 0 MiB"), "{text}");
    let (first, second) = (testbed.port(), testbed.port());
    let (refused, text) = why(&testbed, &request());
    assert!(refused == RefusalCode::Limit && text.contains("2 ports and 2 MiB"), "{text}");
    let (_theirs, ..) = testbed.echo(NOBODY).expect("another user has a share of his own");
    drop(first);
    let mut again = None;
    until(
        || match testbed.open(&request()) {
            Ok(port) => again.replace(port).is_none(),
            Err(BrokerError::Refused(refusal)) if refusal.why == RefusalCode::Limit => false,
            Err(other) => panic!("{other}"),
        },
        || "what ended makes room".to_owned(),
    );
    drop(second);
}

fn the_child_of_a_killed_client_is_removed() {
    let testbed = Testbed::new("killed", "");
    let (first, ..) = testbed.echo(NOBODY).unwrap();
    let (_second, mac, interface) = testbed.echo(NOBODY).unwrap();
    assert_eq!(testbed.children(), ["gigae0", "gigae1"]);
    first.kill();
    testbed.until_children(&[&interface]);
    echoes(&mut testbed.other(), mac);
}

fn clients_outlive_the_broker() {
    let mut testbed = Testbed::new("outlives", "");
    let (client, mac, interface) = testbed.echo(NOBODY).unwrap();
    let mut other = testbed.other();
    echoes(&mut other, mac);
    testbed.restart();
    assert_eq!(testbed.children(), [interface]);
    echoes(&mut other, mac);
    // What it leaves now is removed when the next port is made.
    client.kill();
    let (_next, mac, name) = testbed.echo(NOBODY).unwrap();
    testbed.until_children(&[&name]);
    echoes(&mut other, mac);
    drop(_next);
    // No process asks any more: what is left goes when a broker starts.
    let (last, ..) = testbed.echo(NOBODY).unwrap();
    let _ = testbed.broker.process.kill();
    let _ = testbed.broker.process.wait();
    last.kill();
    assert!(!testbed.children().is_empty());
    testbed.restart();
    testbed.until_children(&[]);
}

fn clients_outlive_an_orderly_end() {
    let mut testbed = Testbed::new("orderly", "");
    let (_client, mac, interface) = testbed.echo(NOBODY).unwrap();
    testbed.broker.signal(libc::SIGTERM);
    let mut said = String::new();
    while !said.starts_with("ends") {
        said = testbed.broker.line();
        assert!(!said.is_empty(), "it says how it ends");
    }
    assert_eq!((&said[..], &testbed.broker.line()[..]), ("ends; 1 ports stay in use", "ended"));
    let absent = testbed.open(&request()).err();
    assert!(matches!(absent, Some(BrokerError::Absent { .. })), "{absent:?}");
    assert_eq!(testbed.children(), [interface]);
    echoes(&mut testbed.other(), mac);
}

fn one_does_not_receive_anothers_frames() {
    let testbed = Testbed::new("apart", ROOT_TOO);
    let (mut a, mut b, mut other) = (testbed.port(), testbed.port(), testbed.other());
    let to_a = route(&other, a.link.info().mac);
    let to_b = route(&other, b.link.info().mac);
    let to_all = route(&other, MacAddr::BROADCAST);
    let to_nic = route(&other, MacAddr(testbed.fabric.node(1).mac));
    for number in 0..50 {
        queue(&mut other, &frame(&to_a, CHANNEL, number, 200));
        // Nor what is addressed to it on another channel, to all, or to the NIC.
        queue(&mut other, &frame(&to_b, CHANNEL + 1, number, 200));
        queue(&mut other, &frame(&to_all, CHANNEL, number, 200));
        queue(&mut other, &frame(&to_nic, CHANNEL, number, 200));
    }
    other.flush().unwrap();
    assert_eq!(receive(&mut *a.link, 50).len(), 50);
    assert_eq!((drain(&mut *a.link), drain(&mut *b.link)), (0, 0));
    let own = frame(&to_b, CHANNEL, 1, 200);
    send(&mut other, &own);
    only(&mut *b.link, &own);
    drop((a.link, b.link));
}

fn clients_reach_each_other() {
    let testbed = Testbed::new("neighbours", ROOT_TOO);
    let mut port = testbed.port();
    let (_client, mac, _) = testbed.echo(NOBODY).unwrap();
    echoes(&mut *port.link, mac);
}

fn connection(testbed: &Testbed) -> OwnedFd {
    let (family, kind, flags) = (AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC);
    let socket = testbed.inside(|| rustix::net::socket_with(family, kind, flags, None)).unwrap();
    rustix::net::connect(&socket, &SocketAddrUnix::new(testbed.socket()).unwrap()).unwrap();
    socket
}

fn descriptors(process: u32) -> usize {
    std::fs::read_dir(format!("/proc/{process}/fd")).unwrap().count()
}

fn hostile_clients() {
    let testbed = Testbed::new("hostile", ROOT_TOO);
    let broker = testbed.broker.process.id();
    let before = descriptors(broker);
    // Silent ones: of one user, as many as may wait and more, which costs the oldest their place.
    let silent: Vec<_> = (0..200).map(|_| connection(&testbed)).collect();
    drop(testbed.port());
    // 64 wait, and the places of 64 more were taken by those who came at once and are not closed
    // yet.
    let now = descriptors(broker) - before;
    assert!(now < 150, "{now} descriptors: no more wait than may");
    // Garbage, half messages, long ones, empty ones, the right one twice.
    let right = request().bytes();
    let long = vec![7; 100_000];
    let messages: [&[u8]; 6] =
        [b"", b"x", &right[..REQUEST_LEN - 1], &[0; REQUEST_LEN], &long, &right];
    for message in messages {
        for again in [1, 3] {
            let socket = connection(&testbed);
            for _ in 0..again {
                let _ = rustix::net::send(&socket, message, SendFlags::NOSIGNAL);
            }
        }
    }
    // Descriptors that come with a request are closed.
    for _ in 0..50 {
        send_descriptors(&connection(&testbed), &right);
    }
    // A client that asks and does not take what it gets.
    let deaf = connection(&testbed);
    rustix::net::send(&deaf, &right, SendFlags::NOSIGNAL).unwrap();
    drop(testbed.port());
    drop((silent, deaf));
    testbed.until_children(&[]);
    until(|| descriptors(broker) == before, || format!("{} of {before}", descriptors(broker)));
    let (_client, mac, _) = testbed.echo(NOBODY).unwrap();
    echoes(&mut testbed.other(), mac);
}

fn send_descriptors(socket: &OwnedFd, bytes: &[u8]) {
    use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage};
    use std::io::IoSlice;
    let null = std::fs::File::open("/dev/null").unwrap();
    let all = [std::os::fd::AsFd::as_fd(&null); 20];
    let mut room = [std::mem::MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(20))];
    let mut control = SendAncillaryBuffer::new(&mut room);
    assert!(control.push(SendAncillaryMessage::ScmRights(&all)));
    let flags = SendFlags::NOSIGNAL;
    let _ = rustix::net::sendmsg(socket, &[IoSlice::new(bytes)], &mut control, flags);
}

fn capabilities() {
    let testbed = Testbed::new("capabilities", ROOT_TOO);
    let _port = testbed.port();
    let broker = testbed.broker.process.id();
    let status = std::fs::read_to_string(format!("/proc/{broker}/status")).unwrap();
    let field = |name: &str| {
        let line = status.lines().find_map(|line| line.strip_prefix(name));
        line.expect("the kernel reports it").trim().to_owned()
    };
    assert_eq!(KEPT.bits(), 0x80_0000_3000, "CAP_NET_ADMIN, CAP_NET_RAW, CAP_BPF");
    // Where the limit of locked memory could not be lifted, one more.
    let limits = std::fs::read_to_string(format!("/proc/{broker}/limits")).unwrap();
    let limit = limits.lines().find_map(|line| line.strip_prefix("Max locked memory")).unwrap();
    let locking = match limit.trim_start().starts_with("unlimited") {
        true => CapabilitySet::empty(),
        false => CapabilitySet::IPC_LOCK,
    };
    let kept = format!("{:016x}", (KEPT | locking).bits());
    for set in ["CapPrm:", "CapEff:", "CapBnd:"] {
        assert_eq!(field(set), kept, "{set}");
    }
    for set in ["CapInh:", "CapAmb:"] {
        assert_eq!(field(set), "0000000000000000", "{set}");
    }
    assert_eq!((field("NoNewPrivs:"), field("Threads:")), ("1".to_owned(), "1".to_owned()));
    for ids in ["Uid:", "Gid:"] {
        let ids = field(ids);
        let user = ids.split_whitespace().all(|id| id != "0" && ids.starts_with(id));
        assert!(user, "not root, and one user: {ids}");
    }
    assert_eq!(field("Groups:"), "");
    let kernel = gigae_confine::Kernel::look();
    let filtered = kernel.seccomp != gigae_confine::Seccomp::Absent;
    assert_eq!(field("Seccomp:"), if filtered { "2" } else { "0" }, "{kernel}");
    // Each of them is needed: without it, no port can be made.
    for needed in KEPT.iter() {
        let failed = std::thread::scope(|scope| {
            let made = scope.spawn(|| {
                let node = testbed.fabric.node(2);
                let _inside = node.enter().unwrap();
                let mut sets = rustix::thread::capabilities(None).unwrap();
                let all = sets.effective;
                sets.effective = KEPT.difference(needed) | CapabilitySet::IPC_LOCK;
                rustix::thread::set_capabilities(None, sets).unwrap();
                let made = gigae_macvlan::Child::make("eth0").and_then(|child| {
                    let envelope = gigae_wire::Envelope::DEFAULT;
                    let channels = request().channels;
                    let filter = gigae_link::Filter { envelope, channels };
                    let mut config = gigae_xdp::XdpConfig::new(child.name(), filter);
                    config.mode = Some(Mode::XdpGeneric);
                    gigae_xdp::XdpLink::open(config).map(drop)
                });
                sets.effective = all;
                rustix::thread::set_capabilities(None, sets).unwrap();
                made.is_err()
            });
            made.join().unwrap()
        });
        assert!(failed, "{needed:?} is not needed");
    }
}

fn a_second_broker_is_refused() {
    let testbed = Testbed::new("second", "");
    let stop = std::sync::atomic::AtomicBool::new(true);
    let config = testbed.socket().with_file_name("broker.toml");
    let start = |socket: &std::path::Path| {
        let error = gigae_broker::run(&config, socket, &stop, &mut |_| ()).err();
        error.expect("refused").to_string()
    };
    let error = start(&testbed.socket());
    assert!(error.contains("another broker does") && !error.contains('\n'), "{error}");
    let file = testbed.socket().with_file_name("file");
    std::fs::write(&file, "precious").unwrap();
    let error = start(&file);
    assert!(error.contains("in use"), "{error}");
    assert_eq!(std::fs::read_to_string(&file).unwrap(), "precious");
    assert!(testbed.echo(NOBODY).is_ok());
}

/// Descriptors that a client keeps when it hangs up count on, and so does memory that it keeps.
fn hanging_up_gives_nothing_back() {
    let testbed = Testbed::new("hang up", &format!("{ROOT_TOO}ports_per_user = 2"));
    let refused = || why(&testbed, &request()).0 == RefusalCode::Limit;
    let Port { link, claim, connection } = testbed.port();
    drop((connection, claim));
    let Port { link: other, claim, connection } = testbed.port();
    drop((connection, other));
    let kept = (link, claim);
    assert!(refused());
    // Their interfaces go all the same.
    testbed.until_children(&[]);
    assert!(refused());
    drop(kept);
    let mut again = Vec::new();
    let has_room = || match testbed.open(&request()) {
        Ok(port) => {
            again.push(port);
            again.len() == 2
        }
        Err(_) => false,
    };
    until(has_room, || "what is gone makes room".to_owned());
}

/// A client registers the memory of its port with a socket in its own namespace and gives all else
/// back.
fn memory_that_is_shared() {
    let testbed = Testbed::new("shared", &format!("{ROOT_TOO}ports_per_user = 1"));
    let kept = attacker::share_memory(&testbed, testbed.port());
    testbed.until_children(&[]);
    for _ in 0..20 {
        let (refused, text) = why(&testbed, &request());
        assert_eq!(refused, RefusalCode::Limit, "{text}");
    }
    drop(kept);
    until(|| testbed.open(&request()).is_ok(), || "what is gone makes room".to_owned());
}

fn another_namespace_gets_nothing() {
    let testbed = Testbed::new("elsewhere", ROOT_TOO);
    let node = testbed.fabric.node(2);
    let inside = node.enter().unwrap();
    for refused in [
        Port::open(&testbed.socket(), &request()).err().expect("it is elsewhere"),
        nics(&testbed.socket()).expect_err("it is elsewhere"),
    ] {
        let BrokerError::Refused(refusal) = &refused else { panic!("{refused}") };
        assert_eq!(refusal.why, RefusalCode::Namespace);
        assert!(refusal.text.contains("another network namespace"), "{refusal:?}");
    }
    drop(inside);
    assert_eq!(testbed.children(), Vec::<String>::new());
    drop(testbed.port());
}

/// Root asks for many ports at once, another user then for one. All of them are ready before the
/// broker, which is stopped until then, sees the first.
fn others_get_their_turn() {
    let mut testbed = Testbed::new("turns", ROOT_TOO);
    let ask = || testbed.inside(|| PortOffer::ask(&testbed.socket(), &request()));
    let offers: Vec<_> = (0..12).map(|_| ask().unwrap_or_else(|e| panic!("{e}"))).collect();
    let role = format!("ask {NOBODY}");
    let mut other =
        TestProcess::start(&testbed.fabric.node(1), &role, &testbed.socket(), Path::new(""));
    assert_eq!(other.line(), "asked");
    testbed.broker.signal(libc::SIGSTOP);
    offers.iter().for_each(|offer| offer.filled().unwrap());
    other.go_on();
    assert_eq!(other.line(), "filled");
    testbed.broker.signal(libc::SIGCONT);
    let ports: Vec<_> = offers.into_iter().map(|offer| offer.take()).collect();
    assert!(ports.iter().all(Result::is_ok), "all are served");
    assert_eq!(other.line(), "open");
    let mut order = Vec::new();
    while order.len() < 13 {
        let line = testbed.broker.line();
        assert!(!line.is_empty());
        order.extend(line.contains("'s (process").then(|| line.contains(&format!("{NOBODY}'s"))));
    }
    let at = order.iter().position(|&is_other| is_other).expect("it has a port");
    assert!(at <= 1, "{at} of root's ports came first: {order:?}");
}

fn a_broker_of_another_user_is_refused() {
    let testbed = Testbed::new("another user", "");
    let open = tempfile::tempdir().unwrap();
    std::fs::set_permissions(open.path(), PermissionsExt::from_mode(0o777)).unwrap();
    let socket = open.path().join("broker.sock");
    let role = format!("fake {OTHER}");
    let mut fake = TestProcess::start(&testbed.fabric.node(1), &role, &socket, Path::new(""));
    assert_eq!(fake.line(), "listens");
    let error = testbed.inside(|| Port::open(&socket, &request())).err().expect("not believed");
    assert!(matches!(&error, BrokerError::UntrustedUser { uid: OTHER, .. }), "{error}");
    assert!(error.to_string().contains("not trusted"), "{error}");
    assert_eq!(fake.line(), "got 0 bytes", "nothing is said to it");
}

/// A set-user-id program of root's asks root's broker. It ignores the broker that its user names,
/// and the variables that every crate reads by the same function (`tools/security` checks that).
fn set_user_id_programs() {
    let testbed = Testbed::new("secure", "");
    let evil = "/nowhere/evil.sock";
    let copy = testbed.socket().with_file_name("secure");
    std::fs::copy(std::env::current_exe().unwrap(), &copy).unwrap();
    for (mode, followed) in [(0o755, Some(evil)), (0o4755, None)] {
        std::fs::set_permissions(&copy, PermissionsExt::from_mode(mode)).unwrap();
        let mut command = testbed.fabric.node(1).command("setpriv").unwrap();
        let user = NOBODY.to_string();
        command.args(["--reuid", &user, "--regid", &user, "--clear-groups"]).arg(&copy);
        command.env("GIGAE_TEST_ROLE", "secure").envs(IGNORED.map(|name| (name, evil)));
        let output = command.output().unwrap();
        let said = String::from_utf8(output.stdout).unwrap();
        let asked = followed.unwrap_or(gigae_broker::SOCKET);
        let expected = format!("Some({asked:?}) {:?}", [followed; IGNORED.len()]);
        assert_eq!(said.trim(), expected, "mode {mode:o}");
    }
}

/// Why none is passed on: filter and binding do not hold who has it.
fn a_packet_socket_would_be_bound_anywhere() {
    let fabric = testing::fabric("packet", |_| ());
    let node = fabric.node(1);
    let _inside = node.enter().unwrap();
    let kind = SocketType::RAW;
    let socket = rustix::net::socket(AddressFamily::PACKET, kind, None).unwrap();
    let bind = |interface: &str| {
        let index = gigae_link::Interface::find(interface).unwrap().index;
        // SAFETY: the structure is plain bytes, for which zeros are valid.
        let mut address: libc::sockaddr_ll = unsafe { std::mem::zeroed() };
        address.sll_family = libc::AF_PACKET as u16;
        address.sll_protocol = (libc::ETH_P_ALL as u16).to_be();
        address.sll_ifindex = index as i32;
        let length = size_of_val(&address) as libc::socklen_t;
        // SAFETY: pointer and length describe one structure that lives across the call.
        unsafe { libc::bind(socket.as_raw_fd(), (&raw const address).cast(), length) }
    };
    assert_eq!(bind("eth0"), 0);
    let mut sets = rustix::thread::capabilities(None).unwrap();
    let all = sets.effective;
    sets.effective = rustix::thread::CapabilitySet::empty();
    rustix::thread::set_capabilities(None, sets).unwrap();
    let elsewhere = bind("lo");
    sets.effective = all;
    rustix::thread::set_capabilities(None, sets).unwrap();
    assert_eq!(elsewhere, 0, "if this kernel forbids it, AF_PACKET could be passed on");
}

fn the_end_of_an_interface_is_reported() {
    let testbed = Testbed::new("sent away", ROOT_TOO);
    let mut port = testbed.port();
    let node = testbed.fabric.node(1);
    let mut command = node.command("ip").unwrap();
    assert!(command.args(["link", "del", "gigae0"]).status().unwrap().success());
    let error = loop {
        match port.link.wait(Some(BOUND)) {
            Ok(_) => {}
            Err(error) => break error,
        }
    };
    assert!(matches!(error, LinkError::Gone(_)), "{error}");
}
