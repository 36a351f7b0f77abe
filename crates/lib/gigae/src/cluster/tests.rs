use super::*;
use crate::local::Subnet;
use crate::neighbour::Neighbour;

const THREE: &str = r#"
envelope = { ethertype = 0x88b6 }
channel = 3
port = 7

[[node]]
name = "n1"
nic = [{ mac = "02:00:00:00:00:01", ip = "198.18.0.1", interface = "eth1" }]

[[node]]
name = "n2"
port = 9
nic = [
    { ip = "fd00::2", mac = "02:00:00:00:00:02" },
    { mac = "02:00:00:00:01:02" },  # the second network
]

[[node]]
name = "n3"
nic = [{ ip = "198.18.0.3" }]
"#;

fn parse(text: &str) -> Result<Cluster, ClusterError> {
    Cluster::parse(text.to_owned(), Path::new("c.toml"))
}

fn three() -> Cluster {
    parse(THREE).unwrap()
}

fn mac(n: u8) -> MacAddr {
    MacAddr([2, 0, 0, 0, 0, n])
}

fn local(name: &str, mac: Option<MacAddr>, ips: &[&str]) -> Local {
    let subnets = ips.iter().map(|ip| Subnet { ip: ip.parse().unwrap(), prefix: 24 }).collect();
    Local::new(name, mac, subnets)
}

fn found(name: &str, n: u8, ip: Option<&str>) -> Neighbour {
    Neighbour {
        name: name.into(),
        address: mac(n).into(),
        mac: mac(n),
        ip: ip.map(|ip| ip.parse().unwrap()),
        mtu: 1500,
        max_message: 1468,
        port: 7,
        channels: vec![3],
    }
}

#[test]
fn nodes_are_numbered_in_order_and_addressed_by_name() {
    let cluster = three();
    assert_eq!(cluster.nodes().len(), 3);
    assert_eq!(cluster.number("n3").unwrap(), 2);
    assert_eq!(cluster.node("n1").unwrap().to_string(), "02:00:00:00:00:01/7/3");
    assert_eq!(cluster.address(1).unwrap().to_string(), "02:00:00:00:00:02/9/3");
    assert_eq!(cluster.envelope(), Envelope::Ethernet { ethertype: 0x88b6 });
    let udp = parse(&THREE.replace("ethertype = 0x88b6", "udp = 4791")).unwrap();
    assert_eq!(udp.node("n2").unwrap().to_string(), "fd00::2/9/3");
    assert_eq!(udp.envelope(), Envelope::Udp { port: 4791 });
}

#[test]
fn a_host_finds_itself_by_its_mac_or_ip() {
    let cluster = three();
    let own = |locals: &[Local]| cluster.own_among(locals);
    let lo = local("lo", None, &["127.0.0.1"]);
    assert_eq!(own(&[lo.clone(), local("x", Some(mac(1)), &[])]).unwrap(), 0);
    assert_eq!(own(&[local("x", None, &["192.0.2.1", "198.18.0.3"])]).unwrap(), 2);
    let second = MacAddr([2, 0, 0, 0, 1, 2]);
    assert_eq!(own(&[local("x", Some(second), &[])]).unwrap(), 1, "by its second NIC");
    let says = own(&[lo]).unwrap_err().to_string();
    assert!(says.starts_with("c.toml: ") && says.contains("GIGAE_NODE"), "{says}");
    let says = own(&[local("x", Some(mac(1)), &["198.18.0.3"])]).unwrap_err().to_string();
    assert!(says.contains("'n1' and 'n3'") && says.contains("GIGAE_NODE"), "{says}");
}

#[test]
fn the_interface_is_the_one_with_the_address() {
    let cluster = three();
    let find = |n: usize, locals: &[Local]| {
        cluster.interfaces_of(n, &mut || Ok(locals.to_vec())).map(|names| names.join(", "))
    };
    let (bridge, port) = (local("br0", Some(mac(2)), &["fd00::2"]), local("p1", Some(mac(2)), &[]));
    assert_eq!(find(1, &[port.clone(), bridge]).unwrap(), "br0", "the IP address tells more");
    let twin = local("p2", Some(mac(2)), &[]);
    let says = find(1, &[port, twin]).unwrap_err().to_string();
    assert!(says.starts_with("c.toml:14: p1, p2 all"), "{says}");
    let says = find(2, &[]).unwrap_err().to_string();
    assert!(says.starts_with("c.toml:20: no interface"), "{says}");
}

#[test]
fn all_nics_of_a_node_are_used_where_the_file_says_so() {
    let names = |cluster: &Cluster, n| {
        let second = MacAddr([2, 0, 0, 0, 1, 2]);
        let locals = [local("two", Some(second), &[]), local("one", Some(mac(2)), &[])];
        cluster.interfaces_of(n, &mut || Ok(locals.to_vec()))
    };
    assert_eq!(names(&three(), 1).unwrap(), ["one"]);
    let trunk = parse(&format!("trunk = true{THREE}")).unwrap();
    assert_eq!(names(&trunk, 1).unwrap(), ["one", "two"], "in the file's order");
    assert_eq!(names(&trunk, 0).unwrap(), ["eth1"]);
    assert_eq!(trunk.node("n2").unwrap(), three().node("n2").unwrap(), "the first names the node");
    let says = names(&trunk, 2).unwrap_err().to_string();
    assert!(says.starts_with("c.toml:20: no interface"), "{says}");
    let nine: Vec<_> = (1..=9).map(|n| format!("{{ mac = \"{}\" }}", mac(n))).collect();
    let nine = format!("[[node]]\nname = \"a\"\nnic = [{}]", nine.join(", "));
    assert_eq!(parse(&nine).unwrap().nodes()[0].nics.len(), 9);
    let says = parse(&format!("trunk = true\n{nine}")).unwrap_err().to_string();
    assert_eq!(says, "c.toml:4: node 'a' has 9 NICs; at most 8 can be one");
}

#[test]
fn an_address_that_is_missing_is_asked_for() {
    let says = three().node("n3").unwrap_err().to_string();
    assert!(says.starts_with("c.toml:20: node 'n3' has no mac"), "{says}");
    let says = three().node("n4").unwrap_err().to_string();
    assert_eq!(says, "c.toml: no node 'n4'; choose one of: n1, n2, n3");
    let says = parse("").unwrap().node("n4").unwrap_err().to_string();
    assert!(says.contains("nor any other") && says.contains("gigae discover"), "{says}");
    let says = three().address(3).unwrap_err().to_string();
    assert_eq!(says, "c.toml: no node 3; its 3 nodes are counted from 0");
    assert_eq!(three().ip("n1").unwrap().to_string(), "198.18.0.1");
    let says = Cluster::read(Path::new("/nonexistent/c.toml")).unwrap_err().to_string();
    assert!(says.contains("'/nonexistent/c.toml'") && says.contains("--cluster"), "{says}");
}

/// Every mistake with its line, what is wrong and what to do.
#[test]
fn every_mistake_is_reported_in_one_line_with_its_place() {
    let node = "[[node]]\nname = \"a\"\nnic = [{ mac = \"02:00:00:00:00:01\" }]\n";
    let with = |text: &str| format!("{node}{text}");
    let name =
        |name: &str| format!("{node}[[node]]\nname = \"{name}\"\nnic = [{{ ip = \"fd00::1\" }}]");
    let nic = |nic: &str| format!("{node}[[node]]\nname = \"b\"\nnic = [{nic}]");
    let double = |text: &str| {
        format!("[[node]]\nname = \"c\"\nnic = [{text}]\n[[node]]\nname = \"b\"\nnic = [{text}]")
    };
    for (text, line, parts) in [
        ("chanel = 1".into(), 1, ["unknown field `chanel`", "`channel`"]),
        (with("nics = 1"), 4, ["unknown field `nics`", "`nic`"]),
        (nic("{ mac = \"02:00:00:00:00:02\", mtu = 9000 }"), 6, ["unknown field `mtu`", "`mac`"]),
        ("envelope = { tcp = 1 }".into(), 1, ["unknown variant `tcp`", "`udp`"]),
        ("\nenvelope = { ethertype = 1500 }".into(), 2, ["0x05dc is not an EtherType", "0x0600"]),
        ("envelope = { udp = 0 }".into(), 1, ["0 is not a UDP port", "from 1"]),
        ("channel = 256".into(), 1, ["256", "u8"]),
        ("port = \"one\"".into(), 1, ["string", "u16"]),
        ("trunk = 2".into(), 1, ["integer", "boolean"]),
        ("trunk = true\nenvelope = { udp = 1 }".into(), 1, ["one IP address", "EtherType"]),
        ("[[node]]\nname = ".into(), 2, ["", ""]),
        ("[[node]]\nname = \"a\"".into(), 1, ["missing field `nic`", ""]),
        (name("two words"), 5, ["'two words' is not a node's name", "letters"]),
        (name(""), 5, ["'' is not a node's name", "1 to 63"]),
        (name("a"), 5, ["another node is called 'a'", "of its own"]),
        (nic(""), 6, ["node 'b' has no NIC", "give it one"]),
        (nic("{ interface = \"eth0\" }"), 6, ["node 'b' has no address", "mac or an ip"]),
        (nic("{ mac = \"02:00\" }"), 6, ["'02:00' is not a MAC address", "write it as"]),
        (nic("{ mac = \"ff:ff:ff:ff:ff:ff\" }"), 6, ["not the address of one NIC", "ip link"]),
        (nic("{ mac = \"00:00:00:00:00:00\" }"), 6, ["not the address of one NIC", "ip link"]),
        (nic("{ ip = \"n7\" }"), 6, ["'n7' is not the IP address", "198.18.0.2"]),
        (nic("{ ip = \"224.0.0.1\" }"), 6, ["'224.0.0.1' is not the IP", "write it as"]),
        (nic("{ ip = \"fd00::1\", interface = \"\" }"), 6, ["1 to 15 bytes", "ip link"]),
        (
            double("{ mac = \"02:00:00:00:00:02\" }"),
            6,
            ["address of node 'c', too", "different ports"],
        ),
        (double("{ ip = \"fd00::2\" }"), 6, ["address of node 'c', too", "different ports"]),
    ] {
        let says = parse(&text).expect_err(&text).to_string();
        assert!(says.starts_with(&format!("c.toml:{line}: ")), "{says}\n{text}");
        assert!(parts.iter().all(|part| says.contains(part)), "{says}\n{text}");
        assert!(!says.contains('\n') && says.len() > 20, "{says}");
    }
}

#[test]
fn two_endpoints_of_one_host_may_be_two_nodes() {
    let two = "[[node]]\nname = \"a\"\nnic = [{ mac = \"02:00:00:00:00:01\" }]\n\
               [[node]]\nname = \"b\"\nport = 1\nnic = [{ mac = \"02:00:00:00:00:01\" }]";
    assert_eq!(parse(two).unwrap().node("b").unwrap(), Address::from(mac(1)).port(1));
}

#[test]
fn the_template_explains_every_key_and_is_read() {
    for envelope in [Envelope::DEFAULT, Envelope::Udp { port: 4791 }] {
        let text = Cluster::template(envelope);
        let cluster = parse(&text).unwrap();
        assert_eq!((cluster.envelope(), cluster.nodes().len()), (envelope, 0));
        for key in ["envelope", "channel", "port", "trunk", "name", "nic", "mac", "ip", "interface"]
        {
            let explained = |line: &str| line.starts_with('#') && line.contains(&format!(" {key}"));
            assert!(text.lines().any(explained), "{key}");
        }
        // Its example is one.
        let example = text.replace("#   [[node]]", "[[node]]").replace("#   name = ", "name = ");
        let cluster = parse(&example.replace("#   nic = ", "nic = ")).unwrap();
        assert_eq!(cluster.nodes()[0].nics[0].interface.as_deref(), Some("eth1"));
    }
}

#[test]
fn what_is_found_is_added_once_and_nothing_is_lost() {
    let mut cluster = parse(&Cluster::template(Envelope::DEFAULT)).unwrap();
    let before = cluster.text().to_owned();
    let said = cluster.add(&found("n1", 1, Some("198.18.0.1"))).unwrap();
    assert_eq!(said.unwrap(), "added n1: 02:00:00:00:00:01");
    assert_eq!(cluster.add(&found("n1", 1, Some("198.18.0.1"))).unwrap(), None);
    let said = cluster.add(&found("n1", 2, None)).unwrap().unwrap();
    assert_eq!(said, "added n1-2: 02:00:00:00:00:02 (it calls itself n1, as another does)");
    assert!(cluster.text().starts_with(&before));
    assert_eq!(cluster.node("n1-2").unwrap(), Address::from(mac(2)).port(7));
    assert_eq!(parse(cluster.text()).unwrap().nodes(), cluster.nodes(), "it reads back");
}

#[test]
fn a_missing_address_is_filled_in_where_the_other_one_tells() {
    let mut cluster = three();
    let said = cluster.add(&found("other-name", 3, Some("198.18.0.3"))).unwrap();
    assert_eq!(said.unwrap(), "added the mac of n3: 02:00:00:00:00:03");
    assert_eq!(cluster.node("n3").unwrap(), Address::from(mac(3)).port(7).channel(3));
    let mut second = found("n2", 2, Some("198.18.0.9"));
    second.mac = MacAddr([2, 0, 0, 0, 1, 2]);
    let said = cluster.add(&second).unwrap();
    assert_eq!(said.unwrap(), "added the ip of n2: 198.18.0.9");
    let whole = cluster.text();
    let shorter =
        whole.replace(" mac = \"02:00:00:00:00:03\",", "").replace(" ip = \"198.18.0.9\",", "");
    assert_eq!(shorter, THREE, "the rest stays as it was");
}

#[test]
fn what_contradicts_the_file_is_left_to_a_person() {
    let mut cluster = three();
    let said = cluster.add(&found("n1", 99, Some("198.18.0.1"))).unwrap().unwrap();
    assert!(said.starts_with("not added: n1 has the address of n1 (line 8)"), "{said}");
    assert_eq!(cluster.text(), THREE);
    let text = "node = [{ name = \"a\", nic = [{ ip = \"fd00::1\" }] }]\n";
    let mut cluster = parse(text).unwrap();
    let says = cluster.add(&found("n1", 1, None)).unwrap_err().to_string();
    assert!(says.contains("write nodes as [[node]] tables") && !says.contains('\n'), "{says}");
    assert_eq!(cluster.text(), text);
    let text = "[[node]]\nname = \"a\"\n[[node.nic]]\nip = \"fd00::1\"\n";
    let mut cluster = parse(text).unwrap();
    let said = cluster.add(&found("a", 1, Some("fd00::1"))).unwrap().unwrap();
    assert!(said.starts_with("not added: the mac of a"), "{said}");
}

#[test]
fn a_file_is_saved_whole_and_read_back() {
    let path = std::env::temp_dir().join(format!("gigae-cluster-{}.toml", std::process::id()));
    let mut cluster = Cluster::parse(Cluster::template(Envelope::DEFAULT), &path).unwrap();
    cluster.add(&found("n1", 1, None)).unwrap();
    cluster.save().unwrap();
    cluster.add(&found("n2", 2, None)).unwrap();
    cluster.save().unwrap();
    let read = Cluster::read(&path).unwrap();
    std::fs::remove_file(&path).unwrap();
    assert_eq!(read.nodes(), cluster.nodes());
    let nowhere = Cluster::parse(String::new(), Path::new("/nonexistent/c.toml")).unwrap();
    let says = nowhere.save().unwrap_err().to_string();
    assert!(says.contains("'/nonexistent/c.toml'") && says.contains("directory"), "{says}");
}
