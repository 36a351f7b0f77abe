//! Nodes that are found and named, and what cannot be.

use super::*;

/// Three nodes, the third over packet sockets; the first asks until it knows both others, writes
/// the cluster file, and a message goes by name. The programs of the others make no calls: the
/// process's thread answers.
pub(crate) fn discovered(backend: Backend, by_ip: bool) {
    let fabric = testing::fabric("discovered", |config| config.nodes = 3);
    let envelope = if by_ip { UDP } else { Envelope::DEFAULT };
    let open = |n: u16, backend| {
        let options = options(backend).envelope(envelope).name(&format!("node-{n}"));
        on(&fabric.node(n), options.port(n).channels([n as u8])).unwrap()
    };
    let file = std::env::temp_dir().join(format!("{}.toml", fabric.config().prefix));
    let others = [open(2, backend), open(3, Backend::Packet)];
    let requester = open(1, backend);
    let mut found = Vec::new();
    for _ in 0..100 {
        found = requester.discover(Duration::from_millis(100)).unwrap();
        if found.len() == 2 {
            break;
        }
    }
    found.insert(0, requester.identity());
    for other in others {
        assert!(other.counters().progress_turns > 0, "the thread has answered");
    }
    drop(requester);
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
    assert_eq!(&b.recv_timeout(PATIENCE).unwrap().expect("it came")[..], b"by name");
}

pub(crate) fn nodes_are_discovered_and_named_over_xdp() {
    discovered(Backend::XdpMode(Mode::XdpGeneric), false);
    discovered(Backend::XdpMode(Mode::XdpNative), false);
}

pub(crate) fn nodes_are_discovered_and_named_over_packet_sockets() {
    discovered(Backend::Packet, false);
}

pub(crate) fn nodes_are_discovered_and_named_in_the_udp_envelope() {
    discovered(Backend::Xdp, true);
    discovered(Backend::Packet, true);
}

pub(crate) fn an_interface_without_a_subnet_cannot_ask_in_the_udp_envelope() {
    let fabric = testing::fabric("nosubnet", |_| ());
    let node = fabric.node(1);
    let mut command = node.command("ip").unwrap();
    assert!(command.args(["-4", "address", "flush", "dev", "eth0"]).status().unwrap().success());
    let endpoint = on(&node, options(Backend::Packet).envelope(UDP)).unwrap();
    let says = endpoint.ask().unwrap_err().to_string();
    assert!(says.contains("'eth0'") && says.contains("ip address add"), "{says}");
}
