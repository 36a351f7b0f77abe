//! Fabrics with a delay: no frame is early, none overtakes another one, and the process that holds
//! them goes with the fabric.

use super::ping::{self, PATIENCE};
use super::{VICTIM_DELAY, datagram, ip, passing, socket, tcp_delivers, traces, victim};
use gigae_fabric::{Delay, Fabric, Rate, testing};
use std::io::Read;
use std::net::{IpAddr, Ipv4Addr, UdpSocket};
use std::time::{Duration, Instant};

fn delay(text: &str) -> Option<Delay> {
    Some(text.parse().unwrap())
}

/// A fabric of two nodes with this delay.
fn delayed(test: &str, text: &str) -> Fabric {
    testing::fabric(test, |config| config.delay = delay(text))
}

/// The forwarder's number, as the fabric's file has it.
fn forwarder(prefix: &str) -> u32 {
    let text = std::fs::read_to_string(format!("/run/gigae-fabric/{prefix}.json")).unwrap();
    let state: serde_json::Value = serde_json::from_str(&text).unwrap();
    u32::try_from(state["forwarder"]["pid"].as_u64().unwrap()).unwrap()
}

/// All processes that write the counters of this fabric's forwarder, as `/proc` has them.
fn forwarders(prefix: &str) -> Vec<u32> {
    let file = format!("/run/gigae-fabric/{prefix}.delay");
    let writes = |pid: &u32| {
        let target = std::fs::read_link(format!("/proc/{pid}/fd/1"));
        target.is_ok_and(|target| target.to_string_lossy().starts_with(&file))
    };
    let all = std::fs::read_dir("/proc").unwrap().flatten();
    all.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).filter(writes).collect()
}

fn runs(pid: u32) -> bool {
    let stat = gigae_host::proc::process::Stat::of(pid);
    stat.is_some_and(|stat| stat.state != 'Z')
}

/// Waits for the end of a process that nobody here may wait for.
fn ends(pid: u32) {
    let deadline = Instant::now() + PATIENCE;
    while runs(pid) {
        assert!(Instant::now() < deadline, "the forwarder {pid} still runs");
        std::thread::sleep(Duration::from_millis(1));
    }
}

pub(crate) fn echoes() {
    let fabric = testing::fabric("echoes", |config| {
        (config.nodes, config.delay) = (3, delay("3ms"));
    });
    for (from, to) in [(1, 2), (3, 2)] {
        let _inside = fabric.node(from).enter().unwrap();
        for target in [IpAddr::V4(fabric.node(to).ipv4), IpAddr::V6(fabric.node(to).ipv6)] {
            let begin = Instant::now();
            assert!(ping::answers(target), "{from} to {to}");
            assert!(begin.elapsed() >= Duration::from_millis(6), "{:?}", begin.elapsed());
        }
    }
    let counters = fabric.status().unwrap().delay.unwrap();
    assert!(counters.frames >= 8 && counters.dropped == 0, "{counters:?}");
    let without = testing::fabric("no delay", |_| ());
    assert_eq!(without.status().unwrap().delay, None);
}

pub(crate) fn order() {
    const COUNT: u32 = 3000;
    let fabric = delayed("order", "1ms");
    // The kernel keeps the order of frames only per CPU.
    gigae_host::affinity::pin(rustix::thread::sched_getcpu()).unwrap();
    let (from, to) = (socket(&fabric, 1), socket(&fabric, 2));
    let target = to.local_addr().unwrap();
    // On a busy machine the forwarder may be late. Then all that waited come at once, and so many
    // have room in any socket's buffer.
    const WAITING: usize = 128;
    let mut numbers = Vec::new();
    let mut receive = |least: usize| {
        to.set_nonblocking(least == 0).unwrap();
        let mut bytes = [0; 64];
        while let Ok(64) = to.recv(&mut bytes) {
            numbers.push(u32::from_be_bytes(bytes[..4].try_into().unwrap()));
            if least > 0 && numbers.len() >= least {
                break;
            }
        }
        numbers.len()
    };
    for number in 0..COUNT {
        from.send_to(&datagram(number, 64), target).unwrap();
        // Some back to back, some not.
        if number % 16 == 0 {
            if receive(0) + WAITING < number as usize {
                receive(number as usize - WAITING);
            }
            std::thread::sleep(Duration::from_micros(200));
        }
    }
    let arrived = receive(COUNT as usize);
    assert_eq!(arrived, COUNT as usize, "{:?}", fabric.delay_counters());
    assert!(numbers.is_sorted(), "{numbers:?}");
}

pub(crate) fn bound() {
    const COUNT: u64 = 1000;
    let fabric = testing::fabric("bound", |config| {
        (config.delay, config.delay_buffer) = (delay("2s"), 128 << 10);
    });
    let (from, to) = (socket(&fabric, 1), socket(&fabric, 2));
    // All that wait leave at once; the socket has room for them.
    rustix::net::sockopt::set_socket_recv_buffer_size(&to, 200_000).unwrap();
    let begin = Instant::now();
    for number in 0..COUNT as u32 {
        from.send_to(&datagram(number, 1000), to.local_addr().unwrap()).unwrap();
    }
    // Each counts 1000 bytes, three headers, the kernel's note and 64. Others' frames count, too.
    let most = (128 << 10) / (1000 + 8 + 20 + 14 + 10 + 64);
    let mut arrived = 0;
    to.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
    while to.recv(&mut [0; 2000]).is_ok() {
        arrived += 1;
    }
    let counters = fabric.delay_counters().unwrap();
    // On a machine so slow that the first ones had left, more find room.
    if begin.elapsed() < Duration::from_secs(9) {
        assert!(arrived <= most, "{arrived} of {most}");
    }
    assert!(counters.peak <= 128 << 10, "{counters:?}");
    assert!(counters.dropped >= COUNT - arrived && counters.dropped > 0, "{counters:?} {arrived}");
    let table = fabric.status().unwrap().to_string();
    assert!(table.contains(&format!("delay 2s: {} frames, ", counters.frames)), "{table}");
    assert!(table.contains(&format!("{} dropped", counters.dropped)), "{table}");
}

pub(crate) fn tcp() {
    const COUNT: usize = 8_000_000;
    let fabric = delayed("tcp", "1ms");
    assert!(tcp_delivers(&fabric, COUNT));
    let port = fabric.port_counters().unwrap()[1];
    assert!(port.frames < COUNT as u64 / 1460, "{port:?}: no piece was longer than a frame");
    // A datagram is a frame each, with all of its bytes.
    assert_eq!(passing(&fabric, 1, 2, &[1472, 1]), [1472, 1]);
    // Frames, one by one, at a rate.
    let fabric = testing::fabric("tcp at a rate", |config| {
        (config.delay, config.rate) = (delay("200us"), Some(Rate::GIGABIT));
    });
    assert!(tcp_delivers(&fabric, COUNT));
    let port = fabric.port_counters().unwrap()[1];
    assert!(port.bytes <= port.frames * 1514, "{port:?}: frames longer than the link's");
}

pub(crate) fn floods() {
    let fabric = testing::fabric("floods", |config| {
        (config.nodes, config.delay) = (3, delay("1ms"));
    });
    let (one, two) = (fabric.node(1), fabric.node(2));
    assert!(ip(&["-n", &one.name, "neighbour", "flush", "nud", "permanent"]));
    {
        let _inside = one.enter().unwrap();
        assert!(ping::answers(IpAddr::V4(two.ipv4)), "ARP asks all");
        assert!(ping::answers(IpAddr::V6(two.ipv6)), "neighbour discovery asks a group");
    }
    // Nobody has sent from this address yet.
    let address = "02:67:69:77:00:01";
    assert!(ip(&["-n", &two.name, "link", "set", "dev", "eth0", "address", address]));
    let neighbour = two.ipv4.to_string();
    let entry = ["lladdr", address, "nud", "permanent", "dev", "eth0"];
    let change = [&["-n", &one.name, "neighbour", "replace", &neighbour][..], &entry].concat();
    assert!(ip(&change));
    let _inside = one.enter().unwrap();
    assert!(ping::answers(IpAddr::V4(two.ipv4)));
}

pub(crate) fn networks() {
    let fabric = testing::fabric("networks", |config| {
        (config.networks, config.delay) = (2, delay("3ms"));
    });
    let address = |number: u8| Ipv4Addr::new(198, 19, 0, number);
    let bound = |number: u16| {
        let node = fabric.node(number);
        let own = address(number as u8);
        assert!(ip(&["-n", &node.name, "address", "add", &format!("{own}/24"), "dev", "eth1"]));
        let _inside = node.enter().unwrap();
        let socket = UdpSocket::bind((own, 4000)).unwrap();
        socket.set_read_timeout(Some(PATIENCE)).unwrap();
        socket
    };
    let (from, to) = (bound(1), bound(2));
    let begin = Instant::now();
    from.send_to(b"second", to.local_addr().unwrap()).unwrap();
    assert_eq!(to.recv(&mut [0; 9]).unwrap(), 6);
    // ARP's question and answer, and the datagram.
    assert!(begin.elapsed() >= Duration::from_millis(9), "{:?}", begin.elapsed());
    let first = fabric.port_counters().unwrap();
    assert!(first.iter().all(|port| port.bytes < 2000), "{first:?}");
}

pub(crate) fn loss_and_rate() {
    let fabric = testing::fabric("loss and rate", |config| {
        (config.delay, config.rate) = (delay("1ms"), Some("100mbit".parse().unwrap()));
        (config.loss, config.duplicate, config.seed) = (0.1, 0.05, 3);
    });
    assert!(tcp_delivers(&fabric, 1_000_000));
    let status = fabric.status().unwrap();
    let lost = status.nodes[1].impairments.unwrap();
    assert!(lost.dropped > 0 && lost.duplicated > 0, "{lost:?}");
    assert!(status.nodes[1].port.overlimits > 0, "{status:?}");
    let table = status.to_string();
    for words in ["delay 1ms: ", "100mbit", "loss 0.1"] {
        assert!(table.contains(words), "{table}");
    }
    assert!(table.lines().all(|line| line.chars().count() <= 110), "{table}");
}

pub(crate) fn forwarder_goes() {
    let fabric = delayed("goes", "1ms");
    let prefix = fabric.config().prefix.clone();
    let pid = forwarder(&prefix);
    assert_eq!(gigae_host::proc::process::command(pid), "gigae-delay");
    assert!(runs(pid) && traces(&prefix).len() == 5, "{:?}", traces(&prefix));
    drop(fabric);
    assert!(!std::path::Path::new(&format!("/proc/{pid}")).exists(), "not even a zombie");
    assert_eq!(traces(&prefix), Vec::<String>::new());
}

pub(crate) fn kept() {
    let mut fabric = delayed("kept", "3ms");
    let prefix = fabric.config().prefix.clone();
    fabric.keep().unwrap();
    drop(fabric);
    let fabric = Fabric::attach(&prefix).unwrap();
    let pid = forwarder(&prefix);
    {
        let _inside = fabric.node(1).enter().unwrap();
        let begin = Instant::now();
        assert!(ping::answers(IpAddr::V4(fabric.node(2).ipv4)));
        assert!(begin.elapsed() >= Duration::from_millis(6));
    }
    let down = Fabric::down(&prefix).unwrap();
    assert_eq!((down.removed.len(), down.left_running), (3, vec![]));
    assert!(!runs(pid), "it was waited for");
    assert_eq!(traces(&prefix), Vec::<String>::new());
}

pub(crate) fn dead_forwarder() {
    let fabric = delayed("dead", "1ms");
    fabric.check_forwarder().unwrap();
    assert!(!fabric.status().unwrap().forwarder_ended);
    let pid = forwarder(&fabric.config().prefix);
    let process = rustix::process::Pid::from_raw(pid.try_into().unwrap()).unwrap();
    rustix::process::kill_process(process, rustix::process::Signal::KILL).unwrap();
    ends(pid);
    let error = fabric.check_forwarder().unwrap_err().to_string();
    assert!(error.contains("forwarder") && error.lines().count() == 1, "{error}");
    let table = fabric.status().unwrap().to_string();
    assert!(table.contains("forwarder ended"), "{table}");
}

pub(crate) fn too_long() {
    let fabric = testing::fabric("too long", |config| {
        (config.delay, config.node_mtus) = (delay("1ms"), vec![3000, 1500]);
    });
    let (from, to) = (socket(&fabric, 1), socket(&fabric, 2));
    from.send_to(&datagram(1, 2000), to.local_addr().unwrap()).unwrap();
    let deadline = Instant::now() + PATIENCE;
    while fabric.delay_counters().unwrap().failed == 0 {
        assert!(Instant::now() < deadline, "{:?}", fabric.delay_counters());
        std::thread::sleep(Duration::from_millis(1));
    }
}

pub(crate) fn killed_owner() {
    let prefix = testing::prefix();
    let mut child = victim(&prefix).env(VICTIM_DELAY, "1ms").spawn().unwrap();
    let mut said = [0; 3];
    child.stdout.as_mut().unwrap().read_exact(&mut said).unwrap();
    let pid = forwarder(&prefix);
    assert!(runs(pid) && forwarders(&prefix) == [pid], "{:?}", forwarders(&prefix));
    child.kill().unwrap();
    child.wait().unwrap();
    ends(pid);
    Fabric::down_abandoned().unwrap();
    assert_eq!(traces(&prefix), Vec::<String>::new());
    for after in (0..60).step_by(12) {
        let prefix = testing::prefix();
        let mut child = victim(&prefix).env(VICTIM_DELAY, "1ms").spawn().unwrap();
        std::thread::sleep(Duration::from_millis(after));
        child.kill().unwrap();
        child.wait().unwrap();
        Fabric::down(&prefix).unwrap();
        forwarders(&prefix).into_iter().for_each(ends);
        assert_eq!(traces(&prefix), Vec::<String>::new(), "killed after {after} ms");
    }
}
