//! Clients that mean harm: they keep what they should give back, and say what they should not.

use super::{TestProcess, Testbed, until};
use gigae_broker::{BrokerError, Port, PortOffer, RefusalCode, Request};
use gigae_link::Link;
use rustix::fd::OwnedFd;
use rustix::net::xdp::{SocketAddrXdp, SocketAddrXdpFlags, SocketAddrXdpWithSharedUmem};
use rustix::net::{AddressFamily, SendFlags, SocketAddrUnix, SocketFlags, SocketType, sockopt};
use std::any::Any;
use std::path::Path;
use std::time::Duration;

/// Users who attack the broker, and what each of them and all together may have.
const ATTACKERS: [u32; 3] = [65534, 65533, 65532];
const PORTS_PER_USER: usize = 3;
const PORTS: usize = 7;
const LIMITS: &str = "ports_per_user = 3\nports = 7\nmib_per_user = 4\nmib = 9";

/// Things that one attacker does, times what the environment variable `TIMES` says.
const STEPS: usize = 300;

/// An attacker who is refused has more patience than one who is not.
const PAUSE: Duration = Duration::from_millis(10);

/// Descriptors of a broker: for each port connection, memory, claim and a socket to the kernel, six
/// while one is made; and silent connections of three users.
const DESCRIPTORS: usize = 4 * PORTS + 6 + 3 * 64 + 64;

/// A socket in another namespace that has a port's memory registered, of which all else is given
/// back.
pub(crate) fn share_memory(testbed: &Testbed, port: Port) -> OwnedFd {
    let node = testbed.fabric.node(2);
    let _inside = node.enter().unwrap();
    let interface = gigae_link::Interface::find("eth0").unwrap().index;
    let (family, kind) = (AddressFamily::XDP, SocketType::RAW);
    let socket = rustix::net::socket_with(family, kind, SocketFlags::CLOEXEC, None).unwrap();
    sockopt::set_xdp_umem_fill_ring_size(&socket, 64).unwrap();
    sockopt::set_xdp_umem_completion_ring_size(&socket, 64).unwrap();
    sockopt::set_xdp_tx_ring_size(&socket, 64).unwrap();
    let whose = port.link.fd().expect("a link has one");
    let address = SocketAddrXdp::new(SocketAddrXdpFlags::XDP_SHARED_UMEM, interface, 0);
    let address = SocketAddrXdpWithSharedUmem { addr: address, shared_umem_fd: whose };
    rustix::net::bind(&socket, &address).unwrap();
    socket
}

/// Xorshift (Marsaglia: Xorshift RNGs, 2003).
struct Random(u64);

impl Random {
    fn below(&mut self, most: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) as usize % most.max(1)
    }
}

/// Attacks for a while, says so, and ends when it gets a line.
pub(crate) fn attack(socket: &Path) {
    let seed = u64::from(rustix::process::getuid().as_raw()).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let times = std::env::var("TIMES").map_or(1, |times| times.parse().expect("a number"));
    let mut random = Random(seed);
    // What counts as a port until it is closed, and what else is kept.
    let (mut ports, mut others) = (Vec::<Box<dyn Any>>::new(), Vec::<Box<dyn Any>>::new());
    let mut got = 0;
    for _ in 0..STEPS * times {
        if random.below(2) == 0 && !others.is_empty() {
            drop(others.swap_remove(random.below(others.len())));
        }
        match step(socket, &mut random) {
            AttackResult::Port(port) => {
                got += 1;
                ports.push(port);
            }
            AttackResult::Other(other) => others.push(other),
            AttackResult::Nothing => {}
            // It gives back only what it must to get more.
            AttackResult::Refused if !ports.is_empty() && random.below(4) == 0 => {
                drop(ports.swap_remove(random.below(ports.len())));
            }
            AttackResult::Refused => std::thread::sleep(PAUSE),
        }
    }
    println!("lied {got}");
    std::io::stdin().read_line(&mut String::new()).unwrap();
    drop((ports, others));
    println!("gave back");
    std::io::stdin().read_line(&mut String::new()).unwrap();
}

/// What the attacker holds after a step.
enum AttackResult {
    Port(Box<dyn Any>),
    Other(Box<dyn Any>),
    Nothing,
    Refused,
}

/// One step of the attack.
fn step(socket: &Path, random: &mut Random) -> AttackResult {
    let frames = [1, 16, 64, 64, 128, 192, 500, u32::MAX];
    let request = Request {
        tx_frames: frames[random.below(frames.len())],
        rx_frames: frames[random.below(frames.len())],
        ..super::request()
    };
    if random.below(4) == 0 {
        return nonsense(socket, &request, random);
    }
    let offer = match PortOffer::ask(socket, &request) {
        Ok(offer) => offer,
        Err(BrokerError::Refused(refusal)) if refusal.why == RefusalCode::Limit => {
            return AttackResult::Refused;
        }
        Err(_) => return AttackResult::Nothing,
    };
    match random.below(6) {
        0 => return AttackResult::Nothing,
        1 => return AttackResult::Other(Box::new(offer)),
        2 => {
            offer.filled().unwrap();
            return AttackResult::Nothing;
        }
        _ => offer.filled().unwrap(),
    }
    let Ok(Port { link, claim, connection }) = offer.take() else { return AttackResult::Nothing };
    AttackResult::Port(match random.below(5) {
        0 => Box::new(link),
        1 => Box::new(claim),
        2 => Box::new(connection),
        3 => Box::new((link, claim, connection)),
        // The socket alone, without the mappings.
        _ => Box::new(link.fd().unwrap().try_clone_to_owned().unwrap()),
    })
}

/// Messages that are none, or come at the wrong time; the connection, perhaps.
fn nonsense(socket: &Path, request: &Request, random: &mut Random) -> AttackResult {
    let (family, kind) = (AddressFamily::UNIX, SocketType::SEQPACKET);
    let connection = rustix::net::socket_with(family, kind, SocketFlags::CLOEXEC, None).unwrap();
    rustix::net::connect(&connection, &SocketAddrUnix::new(socket).unwrap()).unwrap();
    let right = request.bytes();
    let cut = random.below(right.len());
    for _ in 0..random.below(4) {
        let bytes = match random.below(4) {
            0 => right.clone(),
            1 => right[..cut].to_vec(),
            2 => gigae_broker::filled(),
            _ => vec![7; 100],
        };
        let _ = rustix::net::send(&connection, &bytes, SendFlags::NOSIGNAL | SendFlags::DONTWAIT);
    }
    match random.below(2) {
        0 => AttackResult::Other(Box::new(connection)),
        _ => AttackResult::Nothing,
    }
}

/// AF_XDP sockets of the first node, of all processes.
fn sockets(testbed: &Testbed) -> usize {
    let text =
        testbed.inside(|| std::fs::read_to_string("/proc/thread-self/net/protocols").unwrap());
    let line = text.lines().find_map(|line| line.strip_prefix("XDP "));
    line.map_or(0, |line| line.split_whitespace().nth(1).unwrap().parse().unwrap())
}

fn descriptors(process: u32) -> usize {
    std::fs::read_dir(format!("/proc/{process}/fd")).unwrap().count()
}

/// KiB of memory that a process has itself.
fn memory(process: u32) -> usize {
    let status = std::fs::read_to_string(format!("/proc/{process}/status")).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("RssAnon:")).unwrap();
    line.split_whitespace().next().unwrap().parse().unwrap()
}

pub(crate) fn they_get_no_more() {
    let testbed = Testbed::new("attackers", &format!("groups = [65533, 65532]\n{LIMITS}"));
    let broker = testbed.broker.process.id();
    let (before, had) = (descriptors(broker), memory(broker));
    let mut attackers: Vec<_> = ATTACKERS
        .iter()
        .map(|uid| {
            let role = format!("attacker {uid}");
            TestProcess::start(&testbed.fabric.node(1), &role, &testbed.socket(), Path::new(""))
        })
        .collect();
    let look = || {
        let (sockets, children) = (sockets(&testbed), testbed.children().len());
        let (descriptors, memory) = (descriptors(broker) - before, memory(broker));
        // One more while it is made, or being removed.
        assert!(sockets <= PORTS + 1, "{sockets} sockets");
        assert!(children <= PORTS + 1, "{children} interfaces");
        assert!(descriptors <= DESCRIPTORS, "{descriptors} descriptors");
        assert!(memory <= had + 8192, "{memory} KiB after {had}");
    };
    let said = std::thread::scope(|scope| {
        let said: Vec<_> =
            attackers.iter_mut().map(|attacker| scope.spawn(|| attacker.line())).collect();
        while !said.iter().all(|said| said.is_finished()) {
            look();
            std::thread::sleep(2 * PAUSE);
        }
        said.into_iter().map(|said| said.join().unwrap()).collect::<Vec<_>>()
    });
    look();
    for said in said {
        let ports: usize = said.strip_prefix("lied ").expect("no panic").parse().unwrap();
        assert!(ports > PORTS_PER_USER, "{ports}: an attacker who gives back gets more");
    }
    attackers.iter_mut().for_each(TestProcess::go_on);
    attackers.iter_mut().for_each(|attacker| assert_eq!(attacker.line(), "gave back"));
    until(|| sockets(&testbed) == 0, || format!("{} sockets are left", sockets(&testbed)));
    testbed.until_children(&[]);
    until(
        || descriptors(broker) == before,
        || format!("{} descriptors, {before} before", descriptors(broker)),
    );
    drop(testbed.echo(ATTACKERS[0]).unwrap());
}
