//! The switch, its ports, its faults and its clock.

use crate::capture::Capture;
use gigae_wire::MacAddr;
use oorandom::Rand64;
use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashSet, VecDeque};
use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

/// Shortest Ethernet frame without FCS; the switch pads to it, as a NIC does.
const SHORTEST_FRAME: usize = 60;

/// Ethernet header, which an MTU does not count.
const ETHERNET: usize = 14;

/// Frames that wait at a port until the receiver takes them; more are dropped, as by a NIC whose
/// ring is full. The receiver's own ring is what should overflow first.
const PORT_BACKLOG: usize = 65_536;

/// What may happen to each frame, independently. Probabilities are from 0 to 1.
#[derive(Clone, Copy, Debug, Default)]
pub struct Faults {
    /// The frame vanishes.
    pub loss: f64,
    /// The frame arrives twice, the second time after a delay of its own.
    pub duplication: f64,
    /// One bit after the Ethernet addresses is flipped.
    pub corruption: f64,
    /// The frame is delayed by up to `disorder_by` more, so that later ones overtake it.
    pub disorder: f64,
    /// See `disorder`.
    pub disorder_by: Duration,
    /// Time on the way, the same for all frames.
    pub delay: Duration,
    /// Bytes per second that a port receives; zero is without limit.
    pub rate: u64,
    /// Longest wait for a busy port, in bytes of backlog at `rate`; a frame beyond is dropped.
    /// Zero is without limit.
    pub buffer: u64,
    /// Longest frame that passes, in bytes from the Ethernet header on; longer ones vanish without a
    /// word, whatever the ports' MTUs promise. Zero is without limit.
    pub black_hole: usize,
}

/// What happened on the network so far, in frames.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Handed in by senders.
    pub sent: u64,
    /// Handed out to receivers' ports.
    pub delivered: u64,
    /// Dropped at random, for want of buffer, or by a partition.
    pub lost: u64,
    /// Dropped because they were longer than the MTU of a port on their way, or than a black hole
    /// lets pass.
    pub too_long: u64,
    /// Delivered twice.
    pub duplicated: u64,
    /// Changed on the way.
    pub corrupted: u64,
    /// Delayed so that others may overtake.
    pub disordered: u64,
}

/// A simulated switch; clones are the same switch.
#[derive(Clone, Debug)]
pub struct Network {
    state: Arc<Mutex<State>>,
    clock: Arc<AtomicU64>,
}

/// A port's number on its network.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Port(usize);

#[derive(Debug)]
struct State {
    faults: Faults,
    /// Of the ports that are added from now on.
    mtu: usize,
    random: Rand64,
    ports: Vec<PortState>,
    /// Ports to be given out again.
    reopened: VecDeque<usize>,
    /// From port, to port: nothing passes.
    severed: HashSet<(usize, usize)>,
    /// Ports at which frames arrived and that were not named since.
    fresh: Vec<Port>,
    /// Frames on the way: arrival time and a serial number, for a total order.
    flying: BinaryHeap<Reverse<Flying>>,
    serial: u64,
    tally: Tally,
    capture: Option<Capture>,
    /// Where a copy of every frame goes.
    mirror: Option<usize>,
}

#[derive(Debug)]
struct PortState {
    mac: MacAddr,
    mtu: usize,
    /// What happens to frames towards it, if that differs.
    faults: Option<Faults>,
    arrived: VecDeque<Vec<u8>>,
    /// Nothing enters from the node, nothing leaves towards it.
    cut: (bool, bool),
    /// Its node has taken it down.
    down: bool,
    busy_until: u64,
    /// It is among `fresh`.
    is_fresh: bool,
}

#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Flying {
    at: u64,
    serial: u64,
    port: usize,
    frame: Vec<u8>,
}

impl Network {
    /// A network without ports whose faults follow from `seed`.
    pub fn new(seed: u64, faults: Faults) -> Self {
        let state = State {
            faults,
            mtu: 1500,
            random: Rand64::new(seed.into()),
            ports: Vec::new(),
            reopened: VecDeque::new(),
            severed: HashSet::new(),
            fresh: Vec::new(),
            flying: BinaryHeap::new(),
            serial: 0,
            tally: Tally::default(),
            capture: None,
            mirror: None,
        };
        Self { state: Arc::new(Mutex::new(state)), clock: Arc::new(AtomicU64::new(0)) }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("no panic while the network is locked")
    }

    /// The MTU in bytes of the ports that are added from now on: 68 (the least that IPv4 asks for) to
    /// 9,000; 1,500 at first. A port neither sends nor takes a longer packet.
    ///
    /// # Panics
    /// If it is another.
    pub fn set_mtu(&self, mtu: usize) {
        assert!((68..=9000).contains(&mtu), "MTU {mtu} is not within 68 to 9000");
        self.state().mtu = mtu;
    }

    /// A port's MTU in bytes.
    pub fn mtu(&self, port: Port) -> usize {
        self.state().ports[port.0].mtu
    }

    /// Adds a port with the next address: 02:00:00:00:00:01 and so on.
    pub fn add_port(&self) -> (Port, MacAddr) {
        let mut state = self.state();
        if let Some(port) = state.reopened.pop_front() {
            return (Port(port), state.ports[port].mac);
        }
        let n = u32::try_from(state.ports.len() + 1).expect("fewer than 2^32 ports");
        let [a, b, c, d] = n.to_be_bytes();
        let mac = MacAddr([2, 0, a, b, c, d]);
        let (arrived, cut) = (VecDeque::new(), (false, false));
        let mtu = state.mtu;
        let added = PortState {
            mac,
            mtu,
            faults: None,
            arrived,
            cut,
            down: false,
            busy_until: 0,
            is_fresh: false,
        };
        state.ports.push(added);
        (Port(state.ports.len() - 1), mac)
    }

    /// The next port that is added is this one, as a node that restarts comes back with its address.
    /// What waited at it is gone; what is on the way will still arrive.
    pub fn reopen(&self, port: Port) {
        let mut state = self.state();
        state.ports[port.0].arrived.clear();
        state.reopened.push_back(port.0);
    }

    /// The port with this address.
    pub fn port_of(&self, mac: MacAddr) -> Option<Port> {
        self.state().port_of(mac).map(Port)
    }

    /// The virtual time in nanoseconds, shared with whoever needs a clock.
    pub fn clock(&self) -> Arc<AtomicU64> {
        Arc::clone(&self.clock)
    }

    /// The virtual time in nanoseconds.
    pub fn now(&self) -> u64 {
        self.clock.load(Ordering::Relaxed)
    }

    /// Replaces the faults from now on.
    pub fn set_faults(&self, faults: Faults) {
        self.state().faults = faults;
    }

    /// Replaces the faults of frames towards one port from now on: links of several kinds.
    pub fn set_port_faults(&self, port: Port, faults: Faults) {
        self.state().ports[port.0].faults = Some(faults);
    }

    /// Cuts a port off or joins it again, separately for frames `from` its node and `to` it.
    pub fn cut(&self, port: Port, from: bool, to: bool) {
        self.state().ports[port.0].cut = (from, to);
    }

    /// Takes a port down or up again, as `ip link set` does: its link says so, keeps what is posted, and hears
    /// nothing meanwhile.
    pub fn set_down(&self, port: Port, down: bool) {
        self.state().ports[port.0].down = down;
    }

    /// Whether a port is down.
    pub fn is_down(&self, port: Port) -> bool {
        self.state().ports[port.0].down
    }

    /// Parts one port from another, or joins them again, for frames in this direction only.
    pub fn sever(&self, from: Port, to: Port, apart: bool) {
        let mut state = self.state();
        if apart {
            state.severed.insert((from.0, to.0));
        } else {
            state.severed.remove(&(from.0, to.0));
        }
    }

    /// Joins all ports that were [severed](Self::sever).
    pub fn join_all(&self) {
        self.state().severed.clear();
    }

    /// What happened so far.
    pub fn tally(&self) -> Tally {
        self.state().tally
    }

    /// Writes every frame that is handed in from now on to a pcapng stream.
    pub fn capture(&self, out: impl io::Write + Send + 'static) -> io::Result<()> {
        self.state().capture = Some(Capture::new(Box::new(out))?);
        Ok(())
    }

    /// From now on a port hears every frame that others send, as a switch's mirror port does.
    pub fn mirror_to(&self, port: Port) {
        self.state().mirror = Some(port.0);
    }

    /// Hands a frame in at a port. Where it goes is up to its destination address; to a group or
    /// an unknown address, it goes to all other ports.
    ///
    /// # Panics
    /// If the frame is shorter than an Ethernet header or the capture cannot be written.
    pub fn send(&self, from: Port, frame: &[u8]) {
        let now = self.now();
        let mut state = self.state();
        state.tally.sent += 1;
        if let Some(capture) = &mut state.capture {
            capture.frame(now, frame).expect("the capture can be written");
        }
        if state.ports[from.0].cut.0 {
            state.tally.lost += 1;
            return;
        }
        if frame.len() > state.ports[from.0].mtu + ETHERNET {
            state.tally.too_long += 1;
            return;
        }
        let to = MacAddr(*frame.first_chunk().expect("a frame has an Ethernet header"));
        let to = state.port_of(to);
        // What goes to all goes there anyhow.
        if let Some(mirror) =
            state.mirror.filter(|&at| at != from.0 && to.is_some_and(|to| to != at))
        {
            state.carry(now, (from.0, mirror), frame);
        }
        match to {
            Some(port) => state.carry(now, (from.0, port), frame),
            None => {
                for port in (0..state.ports.len()).filter(|&p| p != from.0) {
                    state.carry(now, (from.0, port), frame);
                }
            }
        }
    }

    /// The next frame that arrived at a port by now.
    pub fn receive(&self, port: Port) -> Option<Vec<u8>> {
        let now = self.now();
        let mut state = self.state();
        state.arrive(now);
        state.ports[port.0].arrived.pop_front()
    }

    /// Whether a frame waits at a port now.
    pub fn has_arrived(&self, port: Port) -> bool {
        let now = self.now();
        let mut state = self.state();
        state.arrive(now);
        !state.ports[port.0].arrived.is_empty()
    }

    /// Appends the ports at which frames have arrived by now and that were not named since, in the
    /// order of the arrivals. For a caller that has many ports and does not want to ask each.
    pub fn arrivals(&self, ports: &mut Vec<Port>) {
        let now = self.now();
        let mut state = self.state();
        state.arrive(now);
        let State { fresh, ports: states, .. } = &mut *state;
        fresh.iter().for_each(|port| states[port.0].is_fresh = false);
        ports.append(fresh);
    }

    /// When the next frame on the way arrives, in virtual nanoseconds.
    pub fn next_arrival(&self) -> Option<u64> {
        self.state().flying.peek().map(|Reverse(f)| f.at)
    }

    /// Moves the virtual time to the next arrival at one of these ports, at most by `timeout`
    /// nanoseconds. Whether a frame waits there; without a timeout also false when nothing is on the
    /// way.
    pub fn wait(&self, ports: &[Port], timeout: Option<u64>) -> bool {
        let until = timeout.map(|timeout| self.now() + timeout);
        loop {
            if ports.iter().any(|&port| self.has_arrived(port)) {
                return true;
            }
            match (self.next_arrival(), until) {
                (Some(at), until) if until.is_none_or(|u| at <= u) => self.advance_to(at),
                (_, Some(until)) => {
                    self.advance_to(until);
                    return false;
                }
                // For ever, and nothing will ever come: the caller's own timers must be nearer.
                (_, None) => return false,
            }
        }
    }

    /// Moves the virtual time forward; it never goes back.
    pub fn advance_to(&self, at: u64) {
        self.clock.fetch_max(at, Ordering::Relaxed);
    }
}

impl State {
    /// The number of the port with this address, which tells it.
    fn port_of(&self, mac: MacAddr) -> Option<usize> {
        let [.., a, b, c, d] = mac.0;
        let n = (u32::from_be_bytes([a, b, c, d]) as usize).checked_sub(1)?;
        self.ports.get(n).is_some_and(|port| port.mac == mac).then_some(n)
    }

    fn chance(&mut self, probability: f64) -> bool {
        probability > 0.0 && self.random.rand_float() < probability
    }

    fn carry(&mut self, now: u64, (from, port): (usize, usize), frame: &[u8]) {
        let faults = self.ports[port].faults.unwrap_or(self.faults);
        let hole = if faults.black_hole == 0 { usize::MAX } else { faults.black_hole };
        if frame.len() > hole.min(self.ports[port].mtu + ETHERNET) {
            self.tally.too_long += 1;
            return;
        }
        let apart = !self.severed.is_empty() && self.severed.contains(&(from, port));
        let deaf = self.ports[port].cut.1 || self.ports[port].down;
        if apart || deaf || self.chance(faults.loss) {
            self.tally.lost += 1;
            return;
        }
        let mut frame = frame.to_vec();
        frame.resize(frame.len().max(SHORTEST_FRAME), 0);
        if self.chance(faults.corruption) {
            let at = self.random.rand_range(12 * 8..frame.len() as u64 * 8);
            frame[at as usize / 8] ^= 1 << (at % 8);
            self.tally.corrupted += 1;
        }
        let Some(mut at) = self.queue(now, port, frame.len() as u64, &faults) else {
            self.tally.lost += 1;
            return;
        };
        if self.chance(faults.disorder) {
            at += self.random.rand_range(0..faults.disorder_by.as_nanos().max(1) as u64);
            self.tally.disordered += 1;
        }
        if self.chance(faults.duplication) {
            let later = at + self.random.rand_range(0..faults.delay.as_nanos().max(1) as u64);
            self.fly(later, port, frame.clone());
            self.tally.duplicated += 1;
        }
        self.fly(at, port, frame);
    }

    /// When a frame that comes to the switch now has left it towards `port`.
    fn queue(&mut self, now: u64, port: usize, bytes: u64, faults: &Faults) -> Option<u64> {
        let &Faults { rate, buffer, delay, .. } = faults;
        let delay = u64::try_from(delay.as_nanos()).expect("delays are short");
        if rate == 0 {
            return Some(now + delay);
        }
        let port = &mut self.ports[port];
        let start = port.busy_until.max(now);
        let backlog = (start - now) as u128 * u128::from(rate) / 1_000_000_000;
        if buffer > 0 && backlog + u128::from(bytes) > u128::from(buffer) {
            return None;
        }
        port.busy_until = start + bytes * 1_000_000_000 / rate;
        Some(port.busy_until + delay)
    }

    fn fly(&mut self, at: u64, port: usize, frame: Vec<u8>) {
        self.serial += 1;
        self.flying.push(Reverse(Flying { at, serial: self.serial, port, frame }));
    }

    fn arrive(&mut self, now: u64) {
        while self.flying.peek().is_some_and(|Reverse(f)| f.at <= now) {
            let Some(Reverse(flying)) = self.flying.pop() else { return };
            let port = &mut self.ports[flying.port];
            if port.arrived.len() < PORT_BACKLOG {
                port.arrived.push_back(flying.frame);
                self.tally.delivered += 1;
                if !port.is_fresh {
                    port.is_fresh = true;
                    self.fresh.push(Port(flying.port));
                }
            } else {
                self.tally.lost += 1;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frame(to: MacAddr, n: u8) -> Vec<u8> {
        let mut frame = vec![n; 100];
        frame[..6].copy_from_slice(&to.0);
        frame
    }

    fn run(seed: u64) -> (Vec<Vec<u8>>, Tally) {
        let faults = Faults {
            loss: 0.2,
            duplication: 0.1,
            corruption: 0.1,
            disorder: 0.2,
            disorder_by: Duration::from_micros(50),
            delay: Duration::from_micros(5),
            ..Faults::default()
        };
        let net = Network::new(seed, faults);
        let (a, _) = net.add_port();
        let (b, mac) = net.add_port();
        for i in 0..200 {
            net.send(a, &frame(mac, i));
            net.advance_to(net.now() + 1000);
        }
        net.advance_to(1_000_000);
        (std::iter::from_fn(|| net.receive(b)).collect(), net.tally())
    }

    #[test]
    fn the_same_seed_gives_the_same_frames_and_another_gives_others() {
        let (frames, tally) = run(7);
        assert_eq!((frames.clone(), tally), run(7));
        assert_ne!(frames, run(8).0);
        assert!(tally.lost > 0 && tally.duplicated > 0 && tally.corrupted > 0);
        assert_eq!(tally.sent + tally.duplicated - tally.lost, tally.delivered);
    }

    #[test]
    fn a_frame_is_there_after_its_delay_and_not_before() {
        let delay = Duration::from_micros(5);
        let net = Network::new(1, Faults { delay, ..Faults::default() });
        let ((a, _), (b, mac)) = (net.add_port(), net.add_port());
        net.send(a, &frame(mac, 1));
        net.advance_to(4_999);
        assert!(!net.has_arrived(b));
        assert_eq!(net.next_arrival(), Some(5_000));
        net.advance_to(5_000);
        assert_eq!(net.receive(b), Some(frame(mac, 1)));
    }

    #[test]
    fn a_cut_is_one_way_if_asked() {
        let net = Network::new(1, Faults::default());
        let ((a, mac_a), (b, mac_b)) = (net.add_port(), net.add_port());
        net.cut(b, true, false);
        net.send(a, &frame(mac_b, 1));
        net.send(b, &frame(mac_a, 2));
        assert!(net.has_arrived(b) && !net.has_arrived(a));
    }

    #[test]
    fn two_ports_are_severed_in_one_direction_and_others_are_not() {
        let net = Network::new(1, Faults::default());
        let ((a, mac_a), (b, mac_b), (c, _)) = (net.add_port(), net.add_port(), net.add_port());
        net.sever(a, b, true);
        for from in [a, c] {
            net.send(from, &frame(mac_b, 1));
        }
        net.send(b, &frame(mac_a, 2));
        let at = |port| std::iter::from_fn(|| net.receive(port)).count();
        assert_eq!((at(a), at(b)), (1, 1));
        net.join_all();
        net.send(a, &frame(mac_b, 1));
        assert_eq!((at(b), net.tally().lost), (1, 1));
    }

    #[test]
    fn a_port_that_is_reopened_has_its_address_and_gets_what_was_on_the_way() {
        let delay = Duration::from_micros(5);
        let net = Network::new(1, Faults { delay, ..Faults::default() });
        let ((a, _), (b, mac_b)) = (net.add_port(), net.add_port());
        net.send(a, &frame(mac_b, 1));
        net.advance_to(5_000);
        assert!(net.has_arrived(b));
        net.send(a, &frame(mac_b, 2));
        net.reopen(b);
        assert_eq!(net.add_port(), (b, mac_b));
        assert!(net.receive(b).is_none());
        net.advance_to(10_000);
        assert_eq!(net.receive(b), Some(frame(mac_b, 2)));
        assert_ne!(net.add_port().0, b);
    }

    #[test]
    fn arrivals_name_each_port_once() {
        let net = Network::new(1, Faults::default());
        let ((a, mac_a), (b, mac_b)) = (net.add_port(), net.add_port());
        for (from, to) in [(a, mac_b), (b, mac_a), (a, mac_b)] {
            net.send(from, &frame(to, 1));
        }
        let mut ports = Vec::new();
        net.arrivals(&mut ports);
        assert_eq!(ports, [b, a]);
        net.arrivals(&mut ports);
        assert_eq!(ports.len(), 2);
        net.send(a, &frame(mac_b, 1));
        net.arrivals(&mut ports);
        assert_eq!(ports, [b, a, b]);
    }

    #[test]
    fn a_frame_passes_only_where_every_mtu_on_its_way_allows_it() {
        let net = Network::new(1, Faults::default());
        let (a, mac_a) = net.add_port();
        net.set_mtu(9000);
        let ((b, mac_b), (c, mac_c)) = (net.add_port(), net.add_port());
        assert_eq!([a, b, c].map(|port| net.mtu(port)), [1500, 9000, 9000]);
        for (from, to, length) in [(a, mac_b, 1515), (b, mac_a, 1515), (b, mac_c, 9015)] {
            let mut long = frame(to, 1);
            long.resize(length, 1);
            net.send(from, &long);
            assert!(![a, b, c].iter().any(|&port| net.has_arrived(port)), "{length} bytes");
            long.truncate(length - 1);
            net.send(from, &long);
            let arrived = [a, b, c].iter().find_map(|&port| net.receive(port));
            assert_eq!(arrived, Some(long));
        }
        assert_eq!((net.tally().too_long, net.tally().lost), (3, 0));
    }

    #[test]
    fn a_black_hole_swallows_what_is_longer_and_nothing_else() {
        let net = Network::new(1, Faults { black_hole: 1514, ..Faults::default() });
        net.set_mtu(9000);
        let ((a, _), (b, mac)) = (net.add_port(), net.add_port());
        let mut long = frame(mac, 1);
        for (length, passes) in [(1514, true), (1515, false), (9014, false), (60, true)] {
            long.resize(length, 1);
            net.send(a, &long);
            assert_eq!(net.receive(b), passes.then(|| long.clone()), "{length} bytes");
        }
        assert_eq!((net.tally().too_long, net.tally().lost), (2, 0));
        net.set_faults(Faults::default());
        long.resize(9014, 1);
        net.send(a, &long);
        assert!(net.receive(b).is_some());
    }

    #[test]
    fn a_port_with_faults_of_its_own_does_not_share_those_of_the_others() {
        let net = Network::new(1, Faults::default());
        let ((a, _), (b, mac_b), (c, mac_c)) = (net.add_port(), net.add_port(), net.add_port());
        net.set_port_faults(c, Faults { delay: Duration::from_micros(5), ..Faults::default() });
        net.send(a, &frame(mac_b, 1));
        net.send(a, &frame(mac_c, 2));
        assert!(net.has_arrived(b) && !net.has_arrived(c));
        assert!(net.wait(&[a, c], Some(10_000)) && net.now() == 5_000);
        assert!(!net.wait(&[a], Some(10_000)) && net.now() == 15_000);
    }

    #[test]
    fn a_full_buffer_drops_and_the_rate_spaces_frames_out() {
        let faults = Faults { rate: 1_000_000_000, buffer: 250, ..Faults::default() };
        let net = Network::new(1, faults);
        let ((a, _), (b, mac)) = (net.add_port(), net.add_port());
        for i in 0..3 {
            net.send(a, &frame(mac, i));
        }
        assert_eq!(net.tally().lost, 1);
        net.advance_to(100);
        assert!(net.receive(b).is_some() && net.receive(b).is_none());
        net.advance_to(200);
        assert!(net.receive(b).is_some());
    }

    #[test]
    fn a_capture_holds_every_frame_with_its_virtual_time() {
        let path = std::env::temp_dir().join(format!("gigae-sim-{}.pcapng", std::process::id()));
        let net = Network::new(1, Faults::default());
        net.capture(std::fs::File::create(&path).unwrap()).unwrap();
        let ((a, _), (_, mac)) = (net.add_port(), net.add_port());
        net.advance_to(1_500_000_042);
        net.send(a, &frame(mac, 9));
        drop(net);
        let file = std::fs::File::open(&path).unwrap();
        let mut reader = pcap_file::pcapng::PcapNgReader::new(file).unwrap();
        let mut packets = Vec::new();
        while let Some(block) = reader.next_block() {
            if let Some(packet) = block.unwrap().into_owned().into_enhanced_packet() {
                packets.push((packet.timestamp.as_nanos(), packet.data.into_owned()));
            }
        }
        std::fs::remove_file(&path).unwrap();
        assert_eq!(packets, [(1_500_000_042, frame(mac, 9))]);
    }
}
