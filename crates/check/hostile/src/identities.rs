//! Addresses in the UDP envelope, where a node is an IP address and the way to it a MAC address
//! that anybody can claim.
//!
//! Two honest endpoints, and a stranger who sees none of their traffic. He speaks the real
//! protocol, in any IP address, theirs too, from several MAC addresses of his own. He receives what
//! is sent to those.

use crate::frames::{HONEST, network};
use crate::scenario::{Scenario, play};
use crate::script::Script;
use crate::speaker::Speaker;
use gigae::{Address, Endpoint, Options};
use gigae_sim::{Network, Port};
use gigae_wire::{Envelope, MacAddr, NodeAddr};
use std::net::IpAddr;
use std::time::Duration;

/// Longer than a peer may leave something unanswered: what a stranger has hindered has failed by
/// then.
const QUIET: Duration = Duration::from_millis(600);
const PEER_TIMEOUT: Duration = Duration::from_millis(200);

const ENVELOPE: Envelope = Envelope::Udp { port: 4791 };

struct Identities {
    net: Network,
    /// Each with the address of the other, which it names when it first has something to say: a
    /// stranger may be earlier.
    ends: [(Endpoint, IpAddr); 2],
    /// Messages that each end has received of the other.
    got: [u32; 2],
    strangers: Vec<Speaker>,
    port: Port,
    incarnations: u32,
}

/// Strangers with several addresses around two honest endpoints.
///
/// # Panics
/// If an endpoint does, holds too much memory, sends the stranger what was meant for the other, or
/// cannot be reached by the other when the stranger is silent again.
pub fn identities(input: &[u8]) {
    play::<Identities>(input);
}

impl Scenario for Identities {
    /// Both endpoints, whose frames are not counted, and the stranger's identities.
    const MEMORY: usize = 16 << 20;

    const MOST_STEPS: usize = 300;

    fn new(script: &mut Script<'_>, _: u128) -> Self {
        let v6 = script.byte() & 1 > 0;
        let net = network();
        let options = Options::new("sim").envelope(ENVELOPE).peer_timeout(PEER_TIMEOUT);
        let options = options.tuned(256, |config| config.max_peers = 64);
        let open = |seed| options.clone().open_simulated(&net, seed).expect("a simulated port");
        let (a, b) = (open(0x100), open(0x200));
        let (port, mac) = net.add_port();
        let macs = [a.link().mac, b.link().mac];
        let [ip_a, ip_b] = macs.map(|mac| gigae::simulated_ip(mac, v6));
        // Of a port, so that answers find it, and one that no other node has.
        let own = [mac, MacAddr([2, 0, 0, 0, 0, 77])];
        let own_ip = own.map(|mac| gigae::simulated_ip(mac, v6));
        let mut strangers = Vec::new();
        for (ip, victim) in [(ip_b, 0), (ip_a, 1), (own_ip[0], 0), (own_ip[1], 1), (ip_a, 0)] {
            for next_hop in own {
                let at = [ip_a, ip_b][victim];
                let victim = NodeAddr::Ip { ip: at, next_hop: macs[victim] };
                let seed = 0x5000 + strangers.len() as u32 * 0x100;
                let from = NodeAddr::Ip { ip, next_hop };
                strangers.push(Speaker::new(ENVELOPE, from, victim, seed));
            }
        }
        let ends = [(a, ip_b), (b, ip_a)];
        Self { net, ends, got: [0; 2], strangers, port, incarnations: 0 }
    }

    fn act(&mut self, _: usize, script: &mut Script<'_>) {
        let (what, who) = (script.byte(), usize::from(script.byte()));
        let who = who % self.strangers.len();
        match what % 8 {
            0 | 1 => drop(self.send(usize::from(what >> 7))),
            2..=4 => self.strangers[who].message(b"stranger".to_vec()),
            5 => {
                self.incarnations += 1;
                self.strangers[who].begin_anew(0x9_0000 + self.incarnations * 0x100);
            }
            6 => self.strangers[who].close(),
            _ => self.run(Duration::from_micros(u64::from(what) * 200)),
        }
        self.run(Duration::from_micros(20));
    }

    fn finish(mut self) {
        self.strangers.clear();
        self.run(QUIET);
        for from in 0..2 {
            let before = self.got[1 - from];
            assert!(self.send(from), "a message finds no room");
            self.run(QUIET);
            assert!(self.got[1 - from] > before, "end {from} does not reach the other");
        }
    }
}

impl Identities {
    /// Sends a message from one honest end to the other; whether there was room.
    fn send(&mut self, from: usize) -> bool {
        let (end, other) = &self.ends[from];
        let other = end.peer(Address::from(*other)).expect("the table has room");
        end.try_send(other, &HONEST).is_ok()
    }

    fn run(&mut self, time: Duration) {
        let until = self.net.now() + time.as_nanos() as u64;
        let step = (time.as_nanos() as u64 / 200).max(6_000);
        while self.net.now() < until {
            for stranger in &mut self.strangers {
                stranger.transmit(&self.net, self.port);
            }
            self.look();
            while let Some(frame) = self.net.receive(self.port) {
                let astray = frame.windows(HONEST.len()).any(|bytes| bytes == HONEST);
                assert!(!astray, "a message between honest ends went to the stranger");
                for stranger in &mut self.strangers {
                    stranger.receive(&frame);
                }
            }
            let now = (self.net.now() + step).min(until);
            self.net.advance_to(now);
            self.strangers.iter_mut().for_each(|stranger| stranger.advance(now));
        }
        self.look();
    }

    fn look(&mut self) {
        for (n, (end, other)) in self.ends.iter().enumerate() {
            end.progress().expect("no link fails");
            loop {
                match end.try_recv() {
                    Ok(Some(message)) => {
                        let honest = message.starts_with(&HONEST);
                        let from = end.address(message.from());
                        assert!(!honest || from == Address::from(*other), "it came from {from}");
                        self.got[n] += u32::from(honest);
                    }
                    Ok(None) => break,
                    // A stranger may hinder a session that is only being proposed (SECURITY.md).
                    Err(_) => while end.take_failure().is_some() {},
                }
            }
        }
    }
}
