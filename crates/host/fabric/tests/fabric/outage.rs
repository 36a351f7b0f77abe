//! A port that goes down once in the middle of some work, and is up again after whatever happens.

use super::{PATIENCE, arrivals, datagram, ip, socket};
use gigae_fabric::{Fabric, testing};
use std::net::UdpSocket;
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

/// Bytes after which the port goes down.
const BYTES: u64 = 20_000;

/// Whether the switch's port of the first node is up.
fn is_up(fabric: &Fabric) -> bool {
    let switch = format!("{}-sw", fabric.config().prefix);
    let output = Command::new("ip").args(["-n", &switch, "link", "show", "dev", "p1"]).output();
    let output = output.unwrap();
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout).unwrap().contains(",UP")
}

fn await_down(fabric: &Fabric) {
    let deadline = Instant::now() + PATIENCE;
    while is_up(fabric) {
        assert!(Instant::now() < deadline, "the port does not go down");
        thread::sleep(Duration::from_millis(1));
    }
}

/// How often the first node's interface has lost its carrier and found it again.
fn changes(fabric: &Fabric) -> u64 {
    let node = fabric.node(1).name;
    let words = ["-n", &node, "-s", "-s", "-json", "link", "show", "dev", "eth0"];
    let output = Command::new("ip").args(words).output().unwrap();
    let said: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    said[0]["stats64"]["tx"]["carrier_changes"].as_u64().unwrap()
}

/// Frames pass. A frame that comes at once may still be lost.
fn carries(fabric: &Fabric) -> bool {
    arrivals(fabric, 0, 64).is_empty()
}

/// Sends these bytes from the first node to the second one.
fn send([from, to]: &[UdpSocket; 2], bytes: u64) {
    for number in 0..bytes / 1000 {
        let number = u32::try_from(number).unwrap();
        from.send_to(&datagram(number, 1000), to.local_addr().unwrap()).unwrap();
    }
}

pub(crate) fn meets_what_goes_on() {
    let fabric = testing::fabric("outage", |_| ());
    let sockets = [1, 2].map(|number| socket(&fabric, number));
    let ended = AtomicBool::new(false);
    // Before the outage is prepared, bytes do not count.
    send(&sockets, BYTES);
    let (outage, before) = (fabric.outage(1).unwrap(), changes(&fabric));
    let met = thread::scope(|scope| {
        let outage = scope.spawn(|| outage.disturb(BYTES, Duration::from_millis(50), &ended));
        send(&sockets, BYTES / 2);
        thread::sleep(Duration::from_millis(50));
        assert!(changes(&fabric) == before && !outage.is_finished(), "these are too few");
        send(&sockets, BYTES / 2);
        outage.join().unwrap().unwrap()
    });
    assert!(met && is_up(&fabric));
    assert_eq!(changes(&fabric) - before, 2, "down and up");
    drop(sockets);
    assert!(carries(&fabric));
}

pub(crate) fn ends_with_its_work() {
    let fabric = testing::fabric("outage ends", |_| ());
    let ended = AtomicBool::new(false);
    let (outage, begin) = (fabric.outage(1).unwrap(), Instant::now());
    // As after Ctrl-C: what is disturbed ends while the port is down.
    let met = thread::scope(|scope| {
        let outage = scope.spawn(|| outage.disturb(0, PATIENCE, &ended));
        await_down(&fabric);
        ended.store(true, Ordering::Relaxed);
        outage.join().unwrap().unwrap()
    });
    assert!(!met, "what ended while the port was down was not disturbed");
    assert!(begin.elapsed() < PATIENCE, "the outage goes on after the end");
    assert!(is_up(&fabric) && carries(&fabric));
}

pub(crate) fn is_left_out_after_the_end() {
    let fabric = testing::fabric("no outage", |_| ());
    let met = fabric.outage(1).unwrap().disturb(u64::MAX, PATIENCE, &AtomicBool::new(true));
    assert!(!met.unwrap() && is_up(&fabric));
    // An end that came before the port was down: it goes down and up at once, and met nothing.
    let met = fabric.outage(1).unwrap().disturb(0, PATIENCE, &AtomicBool::new(true));
    assert!(!met.unwrap() && is_up(&fabric) && carries(&fabric));
    let error = fabric.outage(9).unwrap_err().to_string();
    assert!(error.contains("counters of a port") && is_up(&fabric), "{error}");
}

pub(crate) fn says_that_the_port_stays_down() {
    let fabric = testing::fabric("stays down", |_| ());
    let ended = AtomicBool::new(false);
    let outage = fabric.outage(1).unwrap();
    let switch = format!("{}-sw", fabric.config().prefix);
    let rename = |from: &str, to: &str| {
        assert!(ip(&["-n", &switch, "link", "set", "dev", from, "name", to]));
    };
    let error = thread::scope(|scope| {
        let outage = scope.spawn(|| outage.disturb(0, PATIENCE, &ended));
        await_down(&fabric);
        // Nothing of this name can be brought up.
        rename("p1", "other");
        ended.store(true, Ordering::Relaxed);
        outage.join().unwrap().unwrap_err().to_string()
    });
    assert!(error.contains("link set dev p1 up"), "{error}");
    rename("other", "p1");
    assert!(!is_up(&fabric));
    for _ in 0..2 {
        fabric.bring_up(1).unwrap();
        assert!(is_up(&fabric));
    }
    assert!(carries(&fabric));
}
