//! The network as tests and links see it: ports, faults and a shared clock.

use crate::capture::CaptureFile;
use crate::faults::{Faults, Tally};
use crate::switch::{ETHERNET, PortPair, PortState, SHORTEST_FRAME, Switch};
use gigae_wire::MacAddr;
use std::cmp::Reverse;
use std::collections::VecDeque;
use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};

/// A simulated switch; clones are the same switch.
#[derive(Clone, Debug)]
pub struct Network {
    state: Arc<Mutex<Switch>>,
    clock: Arc<AtomicU64>,
}

/// A port's number on its network.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Port(usize);

impl Network {
    /// A network without ports whose faults follow from `seed`.
    pub fn new(seed: u64, faults: Faults) -> Self {
        let state = Switch::new(seed, faults);
        Self { state: Arc::new(Mutex::new(state)), clock: Arc::new(AtomicU64::new(0)) }
    }

    fn state(&self) -> MutexGuard<'_, Switch> {
        self.state.lock().expect("no panic while the network is locked")
    }

    /// Sets the MTU in bytes of ports that are added from now on: 68 (the IPv4 minimum) to 9,000;
    /// 1,500 at first. A port neither sends nor receives longer packets.
    ///
    /// # Panics
    /// If the MTU is outside these bounds.
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
        let (arrived, mtu) = (VecDeque::new(), state.mtu);
        let added = PortState {
            mac,
            mtu,
            faults: None,
            arrived,
            cut_from: false,
            cut_to: false,
            down: false,
            busy_until: 0,
            unsent: 0,
            is_fresh: false,
        };
        state.ports.push(added);
        (Port(state.ports.len() - 1), mac)
    }

    /// Makes this port the next one that is added, as when a node restarts with its address. What
    /// waited at it is gone; frames in flight will still arrive.
    pub fn reopen(&self, port: Port) {
        let mut state = self.state();
        state.ports[port.0].arrived.clear();
        state.reopened.push_back(port.0);
    }

    /// The port with this address.
    pub fn port_of(&self, mac: MacAddr) -> Option<Port> {
        self.state().port_of(mac).map(Port)
    }

    /// The virtual time in nanoseconds, shared with other users of the clock.
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

    /// Replaces the faults of frames towards one port from now on, for links of several kinds.
    pub fn set_port_faults(&self, port: Port, faults: Faults) {
        self.state().ports[port.0].faults = Some(faults);
    }

    /// Cuts a port off or joins it again, separately for frames `from` its node and `to` it.
    pub fn cut(&self, port: Port, from: bool, to: bool) {
        let mut state = self.state();
        let port = &mut state.ports[port.0];
        (port.cut_from, port.cut_to) = (from, to);
    }

    /// Takes a port down or up again, as `ip link set` does. Its link reports that, keeps what is
    /// posted, and receives nothing while it is down.
    pub fn set_down(&self, port: Port, down: bool) {
        self.state().ports[port.0].down = down;
    }

    /// Whether a port is down.
    pub fn is_down(&self, port: Port) -> bool {
        self.state().ports[port.0].down
    }

    /// Whether [datagrams](Faults::uncoalesced) come to a port one by one.
    pub fn is_uncoalesced(&self, port: Port) -> bool {
        let state = self.state();
        state.ports[port.0].faults.unwrap_or(state.faults).uncoalesced
    }

    /// Separates one port from another, or joins them again, only for frames in this direction.
    pub fn sever(&self, from: Port, to: Port, apart: bool) {
        let mut state = self.state();
        let ports = PortPair { from: from.0, to: to.0 };
        if apart {
            state.severed.insert(ports);
        } else {
            state.severed.remove(&ports);
        }
    }

    /// Joins all ports that were [severed](Self::sever).
    pub fn join_all(&self) {
        self.state().severed.clear();
    }

    /// The counts so far.
    pub fn tally(&self) -> Tally {
        self.state().tally
    }

    /// Writes every frame that is sent from now on to a pcapng stream.
    pub fn capture(&self, out: impl io::Write + Send + 'static) -> io::Result<()> {
        self.state().capture = Some(CaptureFile::new(Box::new(out))?);
        Ok(())
    }

    /// From now on this port receives every frame that others send, like a switch's mirror port.
    pub fn mirror_to(&self, port: Port) {
        self.state().mirror = Some(port.0);
    }

    /// From now on the caller carries frames: [`Network::take_sent`] returns what ports have sent,
    /// and [`Network::deliver`] hands a frame to a port. For a network that is simulated elsewhere,
    /// with this one as the hosts' ports and clock. No fault happens to frames then.
    pub fn set_relayed(&self) {
        self.state().relayed.get_or_insert_default();
    }

    /// The next frame that a port has sent, if the caller [carries](Self::set_relayed) frames.
    pub fn take_sent(&self) -> Option<(Port, Vec<u8>)> {
        let (port, frame) = self.state().relayed.as_mut()?.pop_front()?;
        Some((Port(port), frame))
    }

    /// A frame that was [taken](Self::take_sent) has left the port. Until then it counts as
    /// [unsent](gigae_link::Link::unsent).
    pub fn has_left(&self, port: Port) {
        self.state().ports[port.0].unsent -= 1;
    }

    /// Frames that a port has sent and that have not [left](Self::has_left) it. `None` unless the
    /// caller carries frames.
    pub(crate) fn unsent(&self, port: Port) -> Option<usize> {
        let state = self.state();
        state.relayed.is_some().then(|| state.ports[port.0].unsent)
    }

    /// Hands a frame to a port now. Pads it to the shortest length. If too many frames wait at the
    /// port already, the frame is dropped, and the tally counts it as lost.
    pub fn deliver(&self, port: Port, mut frame: Vec<u8>) {
        frame.resize(frame.len().max(SHORTEST_FRAME), 0);
        self.state().put(port.0, frame);
    }

    /// Sends a frame from a port. Its destination address decides where it goes. A frame to a group
    /// or an unknown address goes to all other ports.
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
        if state.ports[from.0].cut_from {
            state.tally.lost += 1;
            return;
        }
        if frame.len() > state.ports[from.0].mtu + ETHERNET {
            state.tally.too_long += 1;
            return;
        }
        if let Some(relayed) = &mut state.relayed {
            relayed.push_back((from.0, frame.to_vec()));
            state.ports[from.0].unsent += 1;
            return;
        }
        let pair = |to| PortPair { from: from.0, to };
        let to = MacAddr(*frame.first_chunk().expect("a frame has an Ethernet header"));
        let to = state.port_of(to);
        // A broadcast already goes to the mirror.
        if let Some(mirror) =
            state.mirror.filter(|&at| at != from.0 && to.is_some_and(|to| to != at))
        {
            state.carry(now, pair(mirror), frame);
        }
        match to {
            Some(port) => state.carry(now, pair(port), frame),
            None => {
                for port in (0..state.ports.len()).filter(|&p| p != from.0) {
                    state.carry(now, pair(port), frame);
                }
            }
        }
    }

    /// The next frame that has arrived at a port.
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

    /// Appends the ports at which frames have arrived since they were last appended, in the order
    /// of the arrivals. For a caller with many ports.
    pub fn arrivals(&self, ports: &mut Vec<Port>) {
        let now = self.now();
        let mut state = self.state();
        state.arrive(now);
        let Switch { fresh, ports: states, .. } = &mut *state;
        for port in fresh.drain(..) {
            states[port].is_fresh = false;
            ports.push(Port(port));
        }
    }

    /// When the next frame in flight arrives, in virtual nanoseconds.
    pub fn next_arrival(&self) -> Option<u64> {
        self.state().in_flight.peek().map(|Reverse(f)| f.at)
    }

    /// Moves the virtual time to the next arrival at one of these ports, by at most `timeout`
    /// nanoseconds. Returns whether a frame waits there. Without a timeout, also false if no frame
    /// is in flight.
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
                // No frame will ever come: the caller's own timers must be nearer.
                (_, None) => return false,
            }
        }
    }

    /// Moves the virtual time forward. It never goes back.
    pub fn advance_to(&self, at: u64) {
        self.clock.fetch_max(at, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests;
