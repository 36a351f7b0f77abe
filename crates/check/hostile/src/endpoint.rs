//! Whole endpoints on a simulated network: two honest ones, and a hostile node that sends them any
//! frame.

use crate::frames::{HONEST, Hostile, network};
use crate::scenario::{Scenario, body, play};
use crate::script::Script;
use gigae::{
    Address, Endpoint, MacAddr, Memory, OpId, Options, Peer, RecvError, RegionKey, Rights, Wanted,
};
use gigae_sim::Network;
use std::time::Duration;

/// Frames of each endpoint and way.
const FRAMES: usize = 256;

/// Messages and operations between honest ends that are in flight at once.
const MOST_IN_FLIGHT: u32 = 60;

/// How often an input's programs look at their endpoints, before what was to be long becomes short.
/// Without a bound an input of some hundred bytes took 6 s.
const MOST_LOOKS: u32 = 20_000;

/// Looks in a time that is long.
const LOOKS: u64 = 500;

/// Words of the memory whose key only the honest end knows.
const WORDS: usize = 16;

/// Tag of honest messages.
const TAG: u64 = 0x600d;

struct EndpointEnd {
    endpoint: Endpoint,
    other: Peer,
    sent: u32,
    got: u32,
    /// Tagged messages, sent and got; of those, receives that were posted.
    tagged: u32,
    taken: u32,
    posted: Option<OpId>,
    reads: bool,
}

struct Endpoints {
    net: Network,
    ends: [EndpointEnd; 2],
    hostile: Hostile,
    /// Memory of the first end that the second uses, and what must be in it.
    secret: RegionKey,
    words: [u64; WORDS],
    accesses: u32,
    done: u32,
    looks: u32,
}

/// Whole endpoints with hostile frames among the honest ones: sessions, messages, operations,
/// discovery.
///
/// # Panics
/// If an endpoint does, holds too much memory, or if what the honest ends send each other or write
/// into each other's memory does not arrive once, in order and unchanged, or fails.
pub fn endpoint(input: &[u8]) {
    play::<Endpoints>(input);
}

impl Scenario for Endpoints {
    /// Two endpoints of 256 frames (which lie in mapped memory and are not counted), frames on the
    /// way, and what a hostile sender may leave unexpected: 512 KiB and its offers, for each of
    /// some peers.
    const MEMORY: usize = 16 << 20;

    const MOST_STEPS: usize = 2000;

    fn new(script: &mut Script<'_>, secret: u128) -> Self {
        let setup = script.byte();
        let net = network();
        if setup & 2 > 0 {
            net.set_mtu(9000);
        }
        let names = ["one", "two"];
        let count = 1 + usize::from(setup & 1);
        let options = Options::trunk(names[..count].iter().copied())
            .channels([0, 1])
            .name("honest")
            .tuned(FRAMES, |_| {});
        let options = if setup & 4 > 0 { options.go_back_n() } else { options };
        let open = |seed: u128| options.clone().open_simulated(&net, seed as u32);
        let ends = [secret, !secret].map(|seed| open(seed).expect("a simulated port"));
        let first = ends.each_ref().map(|end| end.link().mac);
        let macs = |n: usize| -> Vec<MacAddr> {
            (0..count).map(|link| port_mac(first[n], link)).collect()
        };
        let mut hostile = Hostile::new(&net, [macs(0), macs(1)]);
        let rights = Rights::READ.with(Rights::WRITE);
        let public = |end: &Endpoint, rights| end.register(vec![0; 4096], rights).expect("room").0;
        let secret = ends[0].register(vec![0; WORDS * 8], Rights::ALL).expect("room");
        hostile.keys = [public(&ends[0], rights), public(&ends[0], Rights::ATOMIC)];
        hostile.secret = secret.0;
        let mut others = [1, 0].map(|n| first[n]).into_iter();
        let ends = ends.map(|endpoint| {
            let mac = others.next().expect("two");
            let other = endpoint.peer(Address::from(mac)).expect("the table is empty");
            EndpointEnd {
                endpoint,
                other,
                sent: 0,
                got: 0,
                tagged: 0,
                taken: 0,
                posted: None,
                reads: true,
            }
        });
        let words = [0; WORDS];
        let mut all = Self { net, ends, hostile, secret, words, accesses: 0, done: 0, looks: 0 };
        all.begin();
        all
    }

    fn act(&mut self, _: usize, script: &mut Script<'_>) {
        match script.byte() % 32 {
            0 | 1 => self.message(0, usize::from(script.byte()) * 5),
            2 | 3 => self.message(1, usize::from(script.byte()) * 5),
            4 => self.tagged(usize::from(script.byte() & 1), usize::from(script.u16())),
            5 => self.access(script),
            6 => self.hand_to_hostile(script),
            7 => self.ends[0].reads ^= true,
            8 => {
                let long = Duration::from_micros(u64::from(script.u16()) * 4);
                self.run(if self.looks < MOST_LOOKS { long } else { Duration::from_micros(12) });
            }
            9 => drop(self.ends[usize::from(script.byte() & 1)].endpoint.ask()),
            10..=13 => self.run(Duration::from_micros(12)),
            _ => self.hostile.send(&self.net, script),
        }
    }

    fn finish(mut self) {
        self.ends[0].reads = true;
        let mut left = 400;
        while !self.is_done() && left > 0 {
            self.run(Duration::from_millis(1));
            left -= 1;
        }
        self.message(0, 100);
        self.message(1, 100);
        self.run(Duration::from_millis(5));
        while !self.is_done() && left > 0 {
            self.run(Duration::from_millis(1));
            left -= 1;
        }
        let counts = |end: &EndpointEnd| (end.sent, end.got, end.tagged, end.taken);
        let [a, b] = self.ends.each_ref().map(counts);
        assert!(self.is_done(), "{a:?}, {b:?}, {} of {}", self.done, self.accesses);
        let words = self.ends[0].endpoint.with_region(self.secret, |bytes| {
            let (words, _) = bytes.as_chunks();
            words.iter().map(|&word| u64::from_le_bytes(word)).collect::<Vec<_>>()
        });
        assert_eq!(words.as_deref(), Some(&self.words[..]), "memory whose key no other node knows");
        for end in &self.ends {
            assert!(end.endpoint.neighbours().len() <= 4096);
        }
    }
}

impl Endpoints {
    fn begin(&mut self) {
        self.message(0, 8);
        self.run(Duration::from_millis(2));
        self.message(1, 8);
        self.run(Duration::from_millis(2));
        assert_eq!(self.ends[0].got + self.ends[1].got, 2, "the session comes up");
    }

    fn message(&mut self, from: usize, len: usize) {
        if self.ends[from].sent - self.ends[1 - from].got >= MOST_IN_FLIGHT {
            return;
        }
        let end = &mut self.ends[from];
        let body = body(end.sent, from, len);
        match end.endpoint.try_send(end.other, &body) {
            Ok(()) => end.sent += 1,
            Err(gigae::TrySendError::WouldBlock(())) => {}
            Err(other) => panic!("an honest message is refused: {other}"),
        }
    }

    fn tagged(&mut self, from: usize, len: usize) {
        if self.ends[from].tagged - self.ends[1 - from].taken >= MOST_IN_FLIGHT / 4 {
            return;
        }
        let end = &mut self.ends[from];
        let body = body(end.tagged, from, len);
        end.endpoint.start_send(end.other, TAG, body).expect("there is room for operations");
        end.tagged += 1;
    }

    /// The second end changes the first one's memory.
    fn access(&mut self, script: &mut Script<'_>) {
        if self.accesses - self.done >= MOST_IN_FLIGHT / 4 {
            return;
        }
        let (word, by) = (usize::from(script.byte()) % WORDS, u64::from(script.byte()));
        let EndpointEnd { endpoint, other, .. } = &self.ends[1];
        let place = word as u64 * 8;
        let started = if by % 2 == 0 {
            self.words[word] = self.words[word].wrapping_add(by);
            endpoint.start_fetch_add(*other, self.secret, place, by)
        } else {
            self.words[word] = u64::from(self.accesses) << 8 | by;
            let bytes = self.words[word].to_le_bytes().to_vec();
            endpoint.start_write(*other, self.secret, place, bytes, None)
        };
        started.expect("there is room for operations");
        self.accesses += 1;
    }

    /// An honest program uses the hostile node as a peer. All of this may fail.
    fn hand_to_hostile(&mut self, script: &mut Script<'_>) {
        let mac = self.hostile.own[usize::from(script.byte() & 1)];
        let endpoint = &self.ends[0].endpoint;
        let Ok(peer) = endpoint.peer(Address::from(mac)) else { return };
        let len = usize::from(script.u16() % 4096);
        match script.byte() % 6 {
            0 => drop(endpoint.try_send(peer, &vec![7; len])),
            1 => drop(endpoint.start_send(peer, 1, vec![7; len])),
            2 => drop(endpoint.start_send(peer, 1, vec![7; 40_000 + len])),
            3 => drop(endpoint.start_read(peer, RegionKey(5), 0, vec![0; len])),
            4 => drop(endpoint.start_write(peer, RegionKey(5), 0, vec![7; len], Some(1))),
            _ => drop(endpoint.start_fetch_add(peer, RegionKey(5), 0, 1)),
        }
        if endpoint.outstanding() < 200 {
            let kind = script.byte();
            let (tag, untagged) = (u64::from(kind % 4), kind & 16 != 0);
            let wanted = Wanted { from: None, tag, ignore: 0, untagged };
            drop(endpoint.start_recv(wanted, vec![0; len]));
        }
    }

    fn look(&mut self) {
        for n in 0..2 {
            self.ends[n].look(n);
            while let Some(ended) = self.ends[n].endpoint.try_completion().expect("no link fails") {
                let EndpointEnd { other, posted, taken, .. } = &mut self.ends[n];
                if ended.peer != Some(*other) {
                    assert!(*posted != Some(ended.id), "a receive from the honest end alone");
                    continue;
                }
                assert_eq!(ended.result, Ok(()), "an honest operation: {ended:?}");
                if *posted == Some(ended.id) {
                    let memory = ended.memory.and_then(Memory::into_vec).unwrap_or_default();
                    let expected = body(*taken, 1 - n, ended.len - body(0, 0, 0).len());
                    assert_eq!(memory[..ended.len], expected, "tagged message {taken}");
                    (*taken, *posted) = (*taken + 1, None);
                } else if n == 1 && ended.tag != TAG {
                    self.done += 1;
                }
            }
            while self.ends[n].endpoint.try_notice().expect("no link fails").is_some() {}
        }
        self.hostile.learn(&self.net);
        self.looks += 1;
    }

    fn run(&mut self, time: Duration) {
        let until = self.net.now() + time.as_nanos() as u64;
        let seldom = (time.as_nanos() as u64 / LOOKS).max(20_000);
        loop {
            self.look();
            if self.net.now() >= until {
                return;
            }
            // Time jumps to what comes next, and never far, since endpoints date things when they
            // look.
            let step = (until - self.net.now()).clamp(1, seldom);
            let next = self.net.next_arrival().unwrap_or(u64::MAX);
            self.net.advance_to(next.clamp(self.net.now() + 1000, self.net.now() + step.max(1000)));
        }
    }

    fn is_done(&self) -> bool {
        let [a, b] = &self.ends;
        let plain = (a.sent, b.sent) == (b.got, a.got);
        plain && (a.tagged, b.tagged) == (b.taken, a.taken) && self.accesses == self.done
    }
}

/// The address of a node's further links: an endpoint opens its ports one after the other.
fn port_mac(first: MacAddr, link: usize) -> MacAddr {
    let [a, b, c, d, e, f] = first.0;
    MacAddr([a, b, c, d, e, f + link as u8])
}

impl EndpointEnd {
    fn look(&mut self, me: usize) {
        self.endpoint.progress().expect("no link fails");
        while self.reads {
            let message = match self.endpoint.try_recv() {
                Ok(Some(message)) => message,
                Ok(None) => break,
                Err(RecvError::Failed) => {
                    while let Some(failed) = self.endpoint.take_failure() {
                        let honest = failed.to() == self.other;
                        assert!(!honest, "an honest message failed: {:?}", failed.reason());
                    }
                    continue;
                }
                Err(other) => panic!("{other}"),
            };
            if message.from() != self.other {
                assert!(!message.starts_with(&HONEST), "an honest message in a strange session");
                continue;
            }
            let len = message.len().saturating_sub(body(0, 0, 0).len());
            assert_eq!(message[..], body(self.got, 1 - me, len), "message {}", self.got);
            self.got += 1;
        }
        if self.posted.is_none() {
            let wanted = Wanted::tag(TAG).from(self.other);
            let started = self.endpoint.start_recv(wanted, vec![0; 66_000]);
            self.posted = Some(started.expect("there is room for operations"));
        }
    }
}
