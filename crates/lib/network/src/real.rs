//! The real protocol as a host: a whole endpoint of the library, unchanged, on a simulated port.
//!
//! Two things differ from a real host. The processor takes no time. The NIC's transmit ring has no
//! end: frames wait in it, first in, first out, until the port has sent them.
//!
//! [`Real::send`] sends bytes of at most a frame as an untagged message. As a [`MessageHost`], an
//! endpoint sends tagged messages of any length, whose bytes exist in frames only. Its receives are
//! there before the messages come, as in most parallel programs.

use crate::workload::{Message, MessageHost};
use crate::{Context, Frame, Host, HostId, PortId, Time, Trace};
use gigae::{
    Address, Bytes, Endpoint, MacAddr, Memory, OpId, OpenError, Options, TrySendError, Wait, Wanted,
};
use gigae_sim::{Network, Port};
use std::collections::{BTreeMap, HashMap, HashSet, VecDeque};
use std::io;
use std::sync::Arc;
use std::time::Duration;

/// Bytes of the checksum, which the library's links do not see.
const CHECKSUM: u32 = 4;
/// Rounds of an endpoint that wants to be called again at once. It needs few: each one handles a
/// batch. More are a mistake that would stop the clock.
const MOST_ROUNDS: u32 = 100_000;
/// Receives for tagged messages that an endpoint has at any time, and their bytes: the longest
/// message.
const RECEIVES: usize = 256;
const LONGEST: usize = 1 << 30;

/// With fewer frames in its NIC, an endpoint may have more for it.
const FEW_UNSENT: usize = 2;

/// Memory of a message that nobody looks at.
struct Blank(usize);

impl Bytes for Blank {
    fn len(&self) -> usize {
        self.0
    }

    fn read(&self, _at: usize, _out: &mut [u8]) {}

    fn write(&mut self, _at: usize, _bytes: &[u8]) {}
}

/// An endpoint with messages to send, and those that it has received.
///
/// Messages wait in a queue for each receiver, so that one receiver does not hold up the others.
/// Frames wait in the NIC, first in, first out, without a limit: the NIC is not a transmit ring.
pub struct Real {
    endpoint: Endpoint,
    network: Network,
    port: Port,
    hosts: Arc<HashMap<Address, HostId>>,
    /// Frames that the port has not sent yet: any number.
    sent: VecDeque<Frame<Vec<u8>>>,
    /// Messages that the endpoint has not taken yet, by receiver. No queue is empty.
    to_send: BTreeMap<HostId, VecDeque<Vec<u8>>>,
    /// The receivers of these, in turns.
    turns: VecDeque<HostId>,
    /// When each message was received, from which host, and what it was.
    pub received: Vec<(Time, HostId, Vec<u8>)>,
    /// The receives for tagged messages.
    receives: HashSet<OpId>,
    /// The next time at which the endpoint wants to be called.
    due: Time,
}

impl Real {
    /// So many hosts, with their random decisions from a seed. `options` changes what each is like.
    pub fn hosts(
        count: u32,
        seed: u32,
        options: impl Fn(Options) -> Options,
    ) -> Result<Vec<Self>, OpenError> {
        let network = Network::new(u64::from(seed), Default::default());
        network.set_relayed();
        let hosts: Arc<HashMap<Address, HostId>> =
            Arc::new((0..count).map(|host| (address(host), host)).collect());
        let open = |host: u32| {
            let base = Options::new("simulated").wait(Wait::Sleep).linger(Duration::ZERO);
            let seed = seed.wrapping_mul(0x9E37_79B9).wrapping_add(host + 1);
            let endpoint = options(base).open_simulated(&network, seed)?;
            let port = network.port_of(endpoint.link().mac).expect("it has a port");
            let (sent, to_send, turns, received, receives) = Default::default();
            let (network, hosts, due) = (network.clone(), hosts.clone(), Time::NEVER);
            Ok(Self {
                endpoint,
                network,
                port,
                hosts,
                sent,
                to_send,
                turns,
                received,
                receives,
                due,
            })
        };
        (0..count).map(open).collect()
    }

    /// Sends a message to a host, of at most [`Endpoint::max_message`] bytes.
    pub fn send(&mut self, to: HostId, message: Vec<u8>, context: &mut Context<'_>) {
        let messages = self.to_send.entry(to).or_default();
        if messages.is_empty() {
            self.turns.push_back(to);
        }
        messages.push_back(message);
        self.work(context);
    }

    /// Messages that the endpoint has not taken yet.
    pub fn waiting(&self) -> usize {
        self.to_send.values().map(VecDeque::len).sum()
    }

    /// Begins a capture file with the whole frames that some ports send.
    pub fn trace(out: Box<dyn io::Write + Send>, ports: &[PortId]) -> io::Result<Trace<Vec<u8>>> {
        Trace::of_whole_frames(out, ports, |frame, bytes| bytes.extend_from_slice(frame))
    }

    /// The endpoint, for its counters.
    pub fn endpoint(&self) -> &Endpoint {
        &self.endpoint
    }

    /// Lets the endpoint do everything that it can do now.
    fn work(&mut self, context: &mut Context<'_>) {
        let now = context.now();
        self.network.advance_to(now.nanos());
        for _ in 0..MOST_ROUNDS {
            self.hand_over(context.host());
            while let Some(message) = self.endpoint.try_recv().expect("the link is up") {
                let from = self.hosts[&self.endpoint.address(message.from())];
                self.received.push((now, from, message.to_vec()));
            }
            self.take_completions(context);
            let left = self.endpoint.prepare_to_wait().expect("the link is up");
            self.take_sent(context.host());
            match left {
                Some(Duration::ZERO) => continue,
                Some(left) => {
                    // Not before: the endpoint counts in nanoseconds.
                    let due = Time::ns(now.nanos() + left.as_nanos() as u64);
                    if due < self.due {
                        self.due = due;
                        context.set_timer(due, due.0);
                    }
                }
                None => {}
            }
            return;
        }
        panic!("host {}: the endpoint has not come to rest at {now:?}", context.host());
    }

    /// Sees to tagged messages that have arrived, and to those that the peer has.
    fn take_completions(&mut self, context: &mut Context<'_>) {
        while let Some(done) = self.endpoint.try_completion().expect("the link is up") {
            done.result.unwrap_or_else(|error| panic!("host {}: {error}", context.host()));
            if self.receives.remove(&done.id) {
                context.complete(done.tag as u32);
            }
        }
        // The first one shows that this host carries tagged messages.
        if !self.receives.is_empty() || self.endpoint.peek(Wanted::ANY).is_some() {
            self.fill_receives();
        }
    }

    /// Sees that there are enough receives.
    fn fill_receives(&mut self) {
        while self.receives.len() < RECEIVES {
            let memory = Memory::Other(Box::new(Blank(LONGEST)));
            let started = self.endpoint.start_recv(Wanted::ANY, memory);
            self.receives.insert(started.expect("there is room for operations"));
        }
    }

    /// Hands messages to the endpoint, one for each receiver in turns, until it takes no more.
    fn hand_over(&mut self, host: HostId) {
        let mut blocked = 0;
        while blocked < self.turns.len()
            && let Some(to) = self.turns.pop_front()
        {
            let peer = self.endpoint.peer(address(to)).expect("there is room for all peers");
            let messages = self.to_send.get_mut(&to).expect("each receiver in turn has messages");
            match self.endpoint.try_send(peer, messages.front().expect("no queue is empty")) {
                Ok(()) => {
                    blocked = 0;
                    messages.pop_front();
                    if messages.is_empty() {
                        self.to_send.remove(&to);
                        continue;
                    }
                }
                Err(TrySendError::WouldBlock(())) => blocked += 1,
                Err(error) => panic!("host {host}: {error}"),
            }
            self.turns.push_back(to);
        }
    }

    /// Takes what the endpoint has sent to the NIC.
    fn take_sent(&mut self, host: HostId) {
        while let Some((port, bytes)) = self.network.take_sent() {
            assert_eq!(port, self.port, "only one host works at a time");
            let destination = MacAddr(*bytes.first_chunk().expect("an Ethernet header"));
            // Broadcasts look for neighbours. All hosts know each other here.
            let Some(destination) = number(destination) else {
                self.network.has_left(port);
                continue;
            };
            let length = bytes.len() as u32 + CHECKSUM;
            let flow = host.wrapping_mul(0x9E37_79B9) ^ destination;
            let priority = priority(&bytes);
            let (source, marked, payload) = (host, false, bytes);
            let frame = Frame { source, destination, flow, length, priority, marked, payload };
            self.sent.push_back(frame);
        }
    }
}

/// The address of a host.
fn address(host: HostId) -> Address {
    let [a, b, c, d] = (host + 1).to_be_bytes();
    MacAddr([2, 0, a, b, c, d]).into()
}

/// The priority in a frame's VLAN tag.
fn priority(frame: &[u8]) -> u8 {
    match frame.get(12..15) {
        Some(&[0x81, 0x00, tag]) => tag >> 5,
        _ => 0,
    }
}

/// The host with an address.
fn number(mac: MacAddr) -> Option<HostId> {
    let [2, 0, a, b, c, d] = mac.0 else { return None };
    u32::from_be_bytes([a, b, c, d]).checked_sub(1)
}

impl Host for Real {
    type Payload = Vec<u8>;

    fn receive(&mut self, frame: Frame<Vec<u8>>, context: &mut Context<'_>) {
        self.network.advance_to(context.now().nanos());
        self.network.deliver(self.port, frame.payload);
        assert_eq!(self.network.tally().lost, 0, "frames are lost on links and in switches only");
        self.work(context);
    }

    fn timer(&mut self, token: u64, context: &mut Context<'_>) {
        if token == self.due.0 {
            self.due = Time::NEVER;
            self.work(context);
        }
    }

    fn next_frame(&mut self, context: &mut Context<'_>) -> Option<Frame<Vec<u8>>> {
        let next = self.sent.pop_front()?;
        self.network.has_left(self.port);
        if self.sent.len() < FEW_UNSENT {
            self.work(context);
        }
        Some(next)
    }
}

impl MessageHost for Real {
    fn send(&mut self, number: u32, message: &Message, context: &mut Context<'_>) {
        let peer = self.endpoint.peer(address(message.destination)).expect("room for all peers");
        let memory = Memory::Other(Box::new(Blank(message.length as usize)));
        let started = self.endpoint.start_send(peer, u64::from(number), memory);
        started.expect("there is room for operations");
        self.work(context);
    }
}
