//! The switch: its ports, and the frames in flight.

use crate::capture::CaptureFile;
use crate::faults::{Faults, Tally};
use gigae_wire::MacAddr;
use oorandom::Rand64;
use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashSet, VecDeque};

/// Shortest Ethernet frame without FCS; the switch pads to it, as a NIC does.
pub(crate) const SHORTEST_FRAME: usize = 60;

/// Ethernet header, which an MTU does not count.
pub(crate) const ETHERNET: usize = 14;

/// Most frames that wait at a port for the receiver. More are dropped, as by a NIC whose ring is
/// full. The receiver's own ring should overflow first.
const PORT_BACKLOG: usize = 65_536;

/// The numbers of two ports: frames go from one to the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct PortPair {
    pub(crate) from: usize,
    pub(crate) to: usize,
}

#[derive(Debug)]
pub(crate) struct Switch {
    pub(crate) faults: Faults,
    /// The MTU of ports that are added from now on.
    pub(crate) mtu: usize,
    pub(crate) random: Rand64,
    pub(crate) ports: Vec<PortState>,
    /// Ports that will be added again.
    pub(crate) reopened: VecDeque<usize>,
    /// Between these nothing passes.
    pub(crate) severed: HashSet<PortPair>,
    /// Ports at which frames have arrived since they were last reported.
    pub(crate) fresh: Vec<usize>,
    /// Frames in flight: arrival time and a serial number, for a total order.
    pub(crate) in_flight: BinaryHeap<Reverse<InFlight>>,
    pub(crate) serial: u64,
    pub(crate) tally: Tally,
    pub(crate) capture: Option<CaptureFile>,
    /// The port that gets a copy of every frame.
    pub(crate) mirror: Option<usize>,
    /// Frames that the caller carries, with the ports that sent them.
    pub(crate) relayed: Option<VecDeque<(usize, Vec<u8>)>>,
}

#[derive(Debug)]
pub(crate) struct PortState {
    pub(crate) mac: MacAddr,
    pub(crate) mtu: usize,
    /// The faults of frames towards it, if they differ.
    pub(crate) faults: Option<Faults>,
    pub(crate) arrived: VecDeque<Vec<u8>>,
    /// Nothing enters from the node.
    pub(crate) cut_from: bool,
    /// Nothing leaves towards it.
    pub(crate) cut_to: bool,
    /// Its node has taken it down.
    pub(crate) down: bool,
    pub(crate) busy_until: u64,
    /// Frames that it has sent, and the one who carries frames has not.
    pub(crate) unsent: usize,
    /// It is among `fresh`.
    pub(crate) is_fresh: bool,
}

#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct InFlight {
    pub(crate) at: u64,
    pub(crate) serial: u64,
    pub(crate) port: usize,
    pub(crate) frame: Vec<u8>,
}

impl Switch {
    /// Without ports; the faults follow from `seed`.
    pub(crate) fn new(seed: u64, faults: Faults) -> Self {
        Self {
            faults,
            mtu: 1500,
            random: Rand64::new(seed.into()),
            ports: Vec::new(),
            reopened: VecDeque::new(),
            severed: HashSet::new(),
            fresh: Vec::new(),
            in_flight: BinaryHeap::new(),
            serial: 0,
            tally: Tally::default(),
            capture: None,
            mirror: None,
            relayed: None,
        }
    }

    /// The number of the port with this address.
    pub(crate) fn port_of(&self, mac: MacAddr) -> Option<usize> {
        let [.., a, b, c, d] = mac.0;
        let n = (u32::from_be_bytes([a, b, c, d]) as usize).checked_sub(1)?;
        self.ports.get(n).is_some_and(|port| port.mac == mac).then_some(n)
    }

    fn chance(&mut self, probability: f64) -> bool {
        probability > 0.0 && self.random.rand_float() < probability
    }

    pub(crate) fn carry(&mut self, now: u64, ports: PortPair, frame: &[u8]) {
        let port = ports.to;
        let faults = self.ports[port].faults.unwrap_or(self.faults);
        let hole = if faults.black_hole == 0 { usize::MAX } else { faults.black_hole };
        if frame.len() > hole.min(self.ports[port].mtu + ETHERNET) {
            self.tally.too_long += 1;
            return;
        }
        let apart = !self.severed.is_empty() && self.severed.contains(&ports);
        let deaf = self.ports[port].cut_to || self.ports[port].down;
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

    /// When a frame that reaches the switch now has left it towards `port`.
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
        self.in_flight.push(Reverse(InFlight { at, serial: self.serial, port, frame }));
    }

    pub(crate) fn arrive(&mut self, now: u64) {
        while self.in_flight.peek().is_some_and(|Reverse(f)| f.at <= now) {
            let Some(Reverse(in_flight)) = self.in_flight.pop() else { return };
            self.put(in_flight.port, in_flight.frame);
        }
    }

    /// Puts a frame in front of a port's receiver.
    pub(crate) fn put(&mut self, number: usize, frame: Vec<u8>) {
        let port = &mut self.ports[number];
        if port.arrived.len() < PORT_BACKLOG {
            port.arrived.push_back(frame);
            self.tally.delivered += 1;
            if !port.is_fresh {
                port.is_fresh = true;
                self.fresh.push(number);
            }
        } else {
            self.tally.lost += 1;
        }
    }
}
