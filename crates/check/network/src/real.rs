//! The real protocol as a host: a whole endpoint of the library, unchanged, on a simulated port.

use crate::{Context, Frame, Host, HostId, Time};
use gigae::{Address, Endpoint, MacAddr, OpenError, Options, TrySendError, Wait};
use gigae_sim::{Network, Port};
use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

/// Bytes of the checksum, which the library's links do not see.
const CHECKSUM: u32 = 4;

/// An endpoint with messages to send, and those that it has received.
///
/// Frames that it sends wait in the NIC, first in, first out, as in a transmit ring. Its processor
/// takes no time.
pub struct Real {
    endpoint: Endpoint,
    network: Network,
    port: Port,
    hosts: Arc<HashMap<Address, HostId>>,
    /// Frames that the port has not sent yet.
    sent: VecDeque<Frame<Vec<u8>>>,
    /// Messages that the endpoint has not taken yet.
    to_send: VecDeque<(HostId, Vec<u8>)>,
    /// When each message was received, from which host, and what it was.
    pub received: Vec<(Time, HostId, Vec<u8>)>,
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
            let (sent, to_send, received) = Default::default();
            let (network, hosts, due) = (network.clone(), hosts.clone(), Time::NEVER);
            Ok(Self { endpoint, network, port, hosts, sent, to_send, received, due })
        };
        (0..count).map(open).collect()
    }

    /// Sends a message to a host, of at most [`Endpoint::max_message`] bytes.
    pub fn send(&mut self, to: HostId, message: Vec<u8>, context: &mut Context<'_>) {
        self.to_send.push_back((to, message));
        self.work(context);
    }

    /// Messages that the endpoint has not taken yet.
    pub fn waiting(&self) -> usize {
        self.to_send.len()
    }

    /// The endpoint, for its counters.
    pub fn endpoint(&self) -> &Endpoint {
        &self.endpoint
    }

    /// Lets the endpoint do everything that it can do now.
    fn work(&mut self, context: &mut Context<'_>) {
        let now = context.now();
        self.network.advance_to(now.nanos());
        loop {
            while let Some((to, message)) = self.to_send.front() {
                let peer = self.endpoint.peer(address(*to)).expect("there is room for all peers");
                match self.endpoint.try_send(peer, message) {
                    Ok(()) => self.to_send.pop_front(),
                    Err(TrySendError::WouldBlock(())) => break,
                    Err(error) => panic!("host {}: {error}", context.host()),
                };
            }
            while let Some(message) = self.endpoint.try_recv().expect("the link is up") {
                let from = self.hosts[&self.endpoint.address(message.from())];
                self.received.push((now, from, message.to_vec()));
            }
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
            break;
        }
    }

    /// Takes what the endpoint has sent to the NIC.
    fn take_sent(&mut self, host: HostId) {
        while let Some((port, bytes)) = self.network.take_sent() {
            assert_eq!(port, self.port, "only one host works at a time");
            let destination = MacAddr(*bytes.first_chunk().expect("an Ethernet header"));
            // Broadcasts look for neighbours. All hosts know each other here.
            let Some(destination) = number(destination) else { continue };
            let length = bytes.len() as u32 + CHECKSUM;
            let flow = host.wrapping_mul(0x9E37_79B9) ^ destination;
            let (source, priority, marked, payload) = (host, 0, false, bytes);
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
        self.work(context);
    }

    fn timer(&mut self, token: u64, context: &mut Context<'_>) {
        if token == self.due.0 {
            self.due = Time::NEVER;
            self.work(context);
        }
    }

    fn next_frame(&mut self, _context: &mut Context<'_>) -> Option<Frame<Vec<u8>>> {
        self.sent.pop_front()
    }
}
