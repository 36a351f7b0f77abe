//! What facts come to.

use super::facts::{BrokerFacts, BrokerReply, Facts, OpenedEndpoint, Provider};
use super::*;
use gigae_confine::{Kernel, Landlock, Seccomp};
use gigae_nic::{Level, Nic, Queues, Rings, Xdp};

fn healthy() -> Facts {
    let level = |current, max| Level { current, max };
    let (one, none) = (level(1, 1), level(0, 0));
    Facts {
        kernel: "6.1.0-18-amd64".into(),
        capabilities: u64::MAX,
        confining: Kernel { landlock: Landlock::FilesTcpAndSignals, seccomp: Seccomp::Calls },
        memlock: Some(8 << 20),
        rmem_max: Some(16 << 20),
        nic: Some(Nic {
            name: "eth1".into(),
            driver: Some("igb".into()),
            mtu: Some(1500),
            link_up: true,
            queues: Some(Queues { rx: none, tx: none, combined: one }),
            rings: Some(Rings { rx: level(256, 4096), tx: level(256, 4096) }),
            ..Nic::default()
        }),
        ip: Some([198, 18, 0, 1].into()),
        offload: Some(Offload { cuts: true, joins: true }),
        endpoint: Ok(OpenedEndpoint {
            mode: "xdp generic".into(),
            is_above_driver: false,
            is_refused_xdp: false,
            udp: None,
            is_socket: false,
            reason: String::new(),
            neighbours: vec!["n2".into()],
        }),
        users: Vec::new(),
        left_over: Vec::new(),
        broker: BrokerFacts {
            path: Some("/run/gigae/broker.sock".into()),
            says: BrokerReply::Nothing,
        },
        libfabric: Some("1.17.0".into()),
        provider_path: None,
        provider: Provider::Found,
        open_mpi: None,
    }
}

/// The lines that are not good, after a change.
fn noticed(change: impl FnOnce(&mut Facts)) -> Vec<(&'static str, Severity, String)> {
    let mut facts = healthy();
    change(&mut facts);
    checks(&facts)
        .into_iter()
        .filter(|check| check.grade != Severity::Good)
        .map(|check| (check.about, check.grade, format!("{} {}", check.found, check.next)))
        .collect()
}

#[test]
fn a_healthy_node_has_nothing_to_notice() {
    assert!(noticed(|_| ()).is_empty());
    let text = table("eth1", &checks(&healthy()));
    assert!(text.ends_with("messages can be sent on eth1\n"), "{text}");
    assert!(text.contains("1 answer: n2") && !text.contains("->"), "{text}");
}

#[test]
fn why_af_packet_is_the_better_one_is_said_and_is_no_obstacle() {
    let mut facts = healthy();
    let opened = facts.endpoint.as_mut().ok().unwrap();
    (opened.mode, opened.is_above_driver) = ("packet".into(), true);
    opened.reason = "AF_XDP has generic mode only".into();
    let check = checks(&facts).into_iter().find(|check| check.about == "endpoint").unwrap();
    assert_eq!(check.grade, Severity::Good);
    assert_eq!(check.found, "packet, 1 answer: n2; AF_XDP has generic mode only");
}

#[test]
fn each_obstacle_is_one_line_with_what_to_do() {
    type Change = fn(&mut Facts);
    let cases: [(&str, Severity, &str, Change); 25] = [
        ("kernel", Severity::Doubt, "5.11", |f| f.kernel = "5.4.0-1-x".into()),
        ("confining", Severity::Doubt, "Landlock: not in this kernel", |f| {
            f.confining.landlock = Landlock::Absent;
        }),
        ("confining", Severity::Doubt, "seccomp: not in this kernel", |f| {
            f.confining.seccomp = Seccomp::Absent;
        }),
        ("driver", Severity::Doubt, "another NIC", |f| {
            f.nic.as_mut().unwrap().xdp = Some(Xdp::default());
        }),
        ("locked memory", Severity::Doubt, "memlock", |f| {
            (f.capabilities, f.memlock) = (!(1 << 14), Some(8 << 20));
        }),
        ("receive memory", Severity::Doubt, "rmem_max=16777216", |f| {
            (f.capabilities, f.rmem_max) = (!(1 << 12), Some(212_992));
            f.broker.says = BrokerReply::Nics(vec!["eth1".into()]);
        }),
        ("link", Severity::Fault, "ip link set eth1 up", |f| {
            f.nic.as_mut().unwrap().link_up = false;
        }),
        ("receive ring", Severity::Doubt, "ethtool -G eth1 rx 4096", |f| {
            f.nic.as_mut().unwrap().rings.as_mut().unwrap().rx.current = 64;
        }),
        ("queues", Severity::Doubt, "ethtool -L eth1 combined 1", |f| {
            f.nic.as_mut().unwrap().queues.as_mut().unwrap().combined.current = 8;
        }),
        ("endpoint", Severity::Fault, "another XDP program", |f| {
            f.endpoint = Err("another XDP program is attached".into());
        }),
        ("endpoint", Severity::Doubt, "no program fits", |f| {
            let opened = f.endpoint.as_mut().ok().unwrap();
            (opened.is_refused_xdp, opened.reason) = (true, "no program fits".into());
        }),
        ("endpoint", Severity::Doubt, "FI_GIGAE_BACKEND=udp", |f| {
            let opened = f.endpoint.as_mut().ok().unwrap();
            (opened.is_socket, opened.udp) = (true, Some((4791, false)));
        }),
        ("UDP port", Severity::Doubt, "ss -ulnp", |f| {
            f.endpoint.as_mut().ok().unwrap().udp = Some((4791, true));
        }),
        ("bulk socket", Severity::Doubt, "dev eth1", |f| f.ip = None),
        ("bulk socket", Severity::Doubt, "UDP_SEGMENT", |f| {
            f.offload = Some(Offload { cuts: false, joins: true });
        }),
        ("bulk socket", Severity::Doubt, "UDP_GRO", |f| {
            f.offload = Some(Offload { cuts: true, joins: false });
        }),
        ("bulk socket", Severity::Doubt, "IPv6 only", |f| {
            f.ip = Some("fd00::1".parse().unwrap());
            f.endpoint.as_mut().ok().unwrap().udp = Some((4791, false));
        }),
        ("left over", Severity::Doubt, "ip link del gigae0", |f| {
            f.left_over = vec!["gigae0".into()]
        }),
        ("provider", Severity::Doubt, "export FI_PROVIDER_PATH=/opt/lib", |f| {
            f.provider = Provider::Missing { place: Some("/opt/lib/libgigae-fi.so".into()) };
        }),
        ("provider", Severity::Doubt, "make install", |f| {
            f.provider = Provider::Missing { place: None };
        }),
        ("provider", Severity::Doubt, "not in FI_PROVIDER_PATH, /opt", |f| {
            (f.provider, f.provider_path) =
                (Provider::Missing { place: None }, Some("/opt".into()));
        }),
        ("libfabric", Severity::Doubt, "apt-get install", |f| f.libfabric = None),
        ("Open MPI", Severity::Doubt, "OMPI_MCA_mtl=ofi", |f| {
            f.open_mpi = Some("/etc/openmpi/openmpi-mca-params.conf".into());
        }),
        ("endpoint", Severity::Fault, "When it does not work", |f| {
            f.endpoint = Err("asking the kernel failed".into());
        }),
        ("endpoint", Severity::Fault, "is down bring it up", |f| {
            f.endpoint = Err("interface 'eth1' is down; bring it up".into());
        }),
    ];
    for (about, grade, part, change) in cases {
        let found = noticed(change);
        let [(line, came, text)] = &found[..] else { panic!("{about}: {found:?}") };
        assert_eq!((*line, *came), (about, grade));
        assert!(text.contains(part), "{text}");
    }
}

#[test]
fn without_privileges_all_depends_on_the_broker() {
    let says = |says| {
        let found = noticed(|f| (f.capabilities, f.memlock, f.broker.says) = (0, None, says));
        let texts: Vec<_> = found.into_iter().map(|(about, _, text)| (about, text)).collect();
        texts
    };
    assert_eq!(says(BrokerReply::Nics(vec!["eth0".into(), "eth1".into()])), []);
    let refusal = "user 7 is not among those that b.toml allows; ask the administrator";
    let cases = [
        (BrokerReply::Nothing, "none at /run/gigae/broker.sock", "systemctl start gigae-broker"),
        (BrokerReply::Nics(vec!["eth0".into()]), "makes ports on eth0 only", "name that NIC"),
        (BrokerReply::No(refusal.into()), "user 7 is not among", "allows ask the administrator"),
        (BrokerReply::No("no answer".into()), "no answer", "journalctl -u gigae-broker"),
    ];
    for (case, found, next) in cases {
        let noticed = says(case);
        let [("privileges", missing), ("broker", text)] = &noticed[..] else {
            panic!("{noticed:?}")
        };
        assert!(missing.contains("CAP_NET_RAW") && missing.contains("setcap"), "{missing}");
        assert!(text.contains(found) && text.contains(next), "{text}");
    }
    // Its own memory is the broker's then.
    let limit = Some(8 << 20);
    let served = || BrokerReply::Nics(vec!["eth1".into()]);
    assert!(
        noticed(|f| (f.capabilities, f.memlock, f.broker.says) = (0, limit, served())).is_empty()
    );
    // With privileges none of it matters.
    assert!(noticed(|f| f.broker.says = BrokerReply::No(refusal.into())).is_empty());
    assert!(noticed(|f| f.broker.path = None).is_empty());
}

#[test]
fn whatever_is_noticed_says_what_to_do() {
    let mut facts = healthy();
    (facts.capabilities, facts.memlock, facts.kernel) = (0, Some(0), "4.19".into());
    (facts.libfabric, facts.open_mpi) = (None, Some("/etc/x".into()));
    (facts.left_over, facts.endpoint) = (vec!["gigae0".into()], Err("no".into()));
    facts.nic.as_mut().unwrap().link_up = false;
    facts.nic.as_mut().unwrap().queues.as_mut().unwrap().combined.current = 8;
    let checks = checks(&facts);
    let noticed: Vec<_> = checks.iter().filter(|check| check.grade != Severity::Good).collect();
    assert!(noticed.len() >= 9, "{noticed:?}");
    assert!(noticed.iter().all(|check| !check.next.is_empty()), "{noticed:?}");
}

#[test]
fn only_faults_keep_messages_from_being_sent() {
    let mut facts = healthy();
    (facts.libfabric, facts.capabilities) = (None, 0);
    assert!(can_send(&checks(&facts)));
    facts.endpoint = Err("down".into());
    let text = table("eth1", &checks(&facts));
    assert!(text.ends_with("messages cannot be sent on eth1; see FAULT above\n"), "{text}");
}

#[test]
fn a_socket_without_an_address_sends_nothing() {
    let found = noticed(|f| {
        f.ip = None;
        let opened = f.endpoint.as_mut().ok().unwrap();
        (opened.is_socket, opened.udp) = (true, Some((4791, false)));
    });
    let [("endpoint", Severity::Doubt, _), ("bulk socket", Severity::Fault, text)] = &found[..]
    else {
        panic!("{found:?}")
    };
    assert!(text.contains("ip address add"), "{text}");
}
