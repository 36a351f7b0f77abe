//! What an endpoint keeps, and how much it answers, under thousands of frames of several attackers.
//!
//! Each step of an input is a whole phase: many frames of one kind. So 20 bytes make thousands of
//! frames, and a search need not find each. Three attackers have sessions of their own, by the real
//! protocol, and put into them what no honest end would; they begin again as often as they like.
//! The last one sees all frames on the wire and sends them again in the name of any node, sealed.
//! Nothing is concluded about what arrives, for who knows the epochs may forge (SECURITY.md).

pub(crate) mod work;

use crate::frames::network;
use crate::meter::allocated;
use crate::scenario::{Scenario, play};
use crate::script::Script;
use crate::speaker::Speaker;
use gigae::{Address, Endpoint, Options, Peer, RegionKey, Rights, Usage, Wanted};
use gigae_sim::{Network, Port};
use gigae_wire::op::{Action, Change, Label, MAX_OP_HEADER, Number, Op, Status};
use gigae_wire::{Envelope, Header, Kind, MAX_PATHS, MacAddr, NodeAddr, Route, VERSION};
use std::time::Duration;
use work::CallMeter;

/// Notices that may wait until the program takes them: 65,536, and 64 for each peer.
const MOST_NOTICES: usize = 65_536 + 64 * MOST_PEERS;

/// Entries of tables that a peer's addresses may have: its own, and those of seven further links of
/// its session and of its proposal.
const ADDRESSES: usize = 1 + 2 * (MAX_PATHS - 1);

/// Unnamed peers that the table takes, and strangers that are remembered for an answer.
const MOST_UNNAMED: usize = MOST_PEERS - MOST_PEERS / 8;
const MOST_RECENT_HELLOS: usize = 64;

/// Bytes that all peers may be granted; completions, and messages behind an earlier one, from which
/// on receives take no more; and the latter that each peer may have beyond that.
const MOST_GRANTED: usize = 64 << 20;
const MOST_COMPLETIONS: usize = 16_384;
const OWN_COMPLETIONS: usize = 16;

/// Frames of one endpoint and way, and sessions that it may have.
const FRAMES: usize = 256;
const MOST_PEERS: usize = 64;

/// Frames that attackers send in one input, and frames between two polls of the victim.
const MOST_FRAMES: u64 = 40_000;
const BURST: usize = 16;

/// Frames that the victim may send for each that it received, and beside them: what the honest ends
/// say to each other, closes and repetitions.
const ANSWERS: u64 = 4;
const UNASKED: u64 = 20_000;

/// Frames that a read of the memory takes at most: who has its key and a session may ask for bytes,
/// many in a frame.
const READ_FRAMES: u64 = 4;

/// Bytes that the victim may allocate for each frame that it received or sent, and beside them. The
/// simulated network's copies of frames are among them.
const BYTES: u64 = 8 << 10;
const BYTES_UNASKED: u64 = 64 << 20;

/// Frames of others that the spy remembers.
const SEEN: usize = 64;

/// Bytes of the memory whose key every attacker knows.
const LEN: u32 = 4096;

/// Where in a frame the version is, in the upper half of a byte.
const VERSION_AT: usize = 4;

/// Bytes of input that describe an operation.
const TEMPLATE: usize = 12;

struct Resources {
    net: Network,
    envelope: Envelope,
    victim: Endpoint,
    honest: Endpoint,
    to_honest: Peer,
    attackers: [Speaker; 3],
    spy: Port,
    seen: Vec<Vec<u8>>,
    key: RegionKey,
    /// What the victim's program does.
    reads: bool,
    takes: bool,
    receives: u32,
    /// Calls what the victim's program does at a look, and bytes that it allocated there.
    measured: CallMeter,
    allocated: u64,
    /// Frames sent by attackers, and looks.
    sent: u64,
    made_up: u32,
    incarnations: u32,
}

/// Phases of hostile frames at one endpoint.
///
/// # Panics
/// If the endpoint does, if all together hold more memory than is stated, if a table has more
/// entries than it may, or if the endpoint answers with more frames than it should.
pub fn resources(input: &[u8]) {
    play::<Resources>(input);
}

impl Scenario for Resources {
    /// SECURITY.md ("What a peer can make us keep") allows each of the four peers 512 KiB of
    /// messages, 16,384 offers and 1,024 answers of 128 bytes each, 11 MiB in all. The rest are the
    /// peers' sessions, and what the attackers themselves have in their windows.
    const MEMORY: usize = 16 << 20;

    /// A step is a whole phase.
    const MOST_STEPS: usize = 200;

    fn new(script: &mut Script<'_>, _: u128) -> Self {
        let setup = script.byte();
        let net = network();
        let envelope = if setup & 1 > 0 { Envelope::Udp { port: 1234 } } else { Envelope::DEFAULT };
        let open = |seed| {
            let options = Options::new("sim").envelope(envelope);
            let options = options.tuned(FRAMES, |config| config.max_peers = MOST_PEERS);
            options.open_simulated(&net, seed).expect("a simulated port")
        };
        let (victim, honest) = (open(0x100), open(0x200));
        let (spy, _) = net.add_port();
        net.mirror_to(spy);
        let macs = [&victim, &honest].map(|end| end.link().mac);
        let to = |mac| Speaker::address(envelope, mac);
        let to_honest = victim.peer(named(envelope, macs[1])).expect("the table is empty");
        let rights = Rights::READ.with(Rights::WRITE).with(Rights::ATOMIC);
        let key = victim.register(vec![0; LEN as usize], rights).expect("room");
        let attackers = [1, 2, 3].map(|n| {
            let mac = MacAddr([2, 0, 0xbb, 0, 0, n]);
            Speaker::new(envelope, to(mac), to(macs[0]), u32::from(n) << 20)
        });
        let mut all = Self {
            net,
            envelope,
            victim,
            honest,
            to_honest,
            attackers,
            spy,
            seen: Vec::with_capacity(SEEN),
            key,
            reads: setup & 2 == 0,
            takes: setup & 4 == 0,
            receives: 0,
            measured: |look| look(),
            allocated: 0,
            sent: 0,
            made_up: 0,
            incarnations: 8,
        };
        for _ in 0..40 {
            all.small_talk();
            all.run(Duration::from_micros(50));
        }
        all
    }

    fn act(&mut self, _: usize, script: &mut Script<'_>) {
        if self.sent >= MOST_FRAMES {
            return;
        }
        let (what, attacker) = (script.byte(), usize::from(script.byte() % 3));
        // Few often, thousands now and then.
        let count = 1 + (usize::from(script.byte()) << (script.byte() % 5));
        match what % 10 {
            0 | 1 => {
                let template = script.take(TEMPLATE);
                self.operations(attacker, template, count);
            }
            2 | 3 => {
                let (template, frames) = (script.take(TEMPLATE), usize::from(script.byte() % 64));
                let goodbye = script.byte() & 1 > 0;
                for _ in 0..count.min(600) {
                    self.begin_anew(attacker, goodbye);
                    self.operations(attacker, template, 1 + frames);
                    if self.sent >= MOST_FRAMES {
                        break;
                    }
                }
            }
            4 => {
                let len = usize::from(script.u16()) % 1400;
                self.send(attacker, count, |speaker| speaker.message(vec![9; len]));
            }
            5 => self.made_up_names(count),
            6 | 7 => {
                let edit = script.take(6).to_vec();
                self.say_again(&edit, count);
            }
            8 => self.run(Duration::from_millis(count as u64 * 4)),
            _ => self.program(script),
        }
        self.small_talk();
        self.run(Duration::from_micros(200));
    }

    fn finish(mut self) {
        // No node is hostile any more: what was kept for a time goes.
        self.run(Duration::from_millis(100));
        self.count();
        let mut notices = 0;
        while self.victim.try_notice().expect("no link fails").is_some() {
            notices += 1;
        }
        assert!(notices <= MOST_NOTICES, "{notices} notices waited, {MOST_NOTICES} may");
    }
}

impl Resources {
    /// How many entries the victim's tables have, and how many frames it has sent for those that it
    /// got.
    fn count(&self) {
        let Usage { peers, operations, ip_routes, .. } = self.victim.usage();
        for (what, entries, most) in [
            ("peers", peers.peers, MOST_PEERS),
            ("unnamed peers", peers.unnamed_peers, MOST_UNNAMED),
            ("addresses", peers.addresses, peers.peers * ADDRESSES),
            ("nodes", peers.nodes, peers.peers),
            ("proposals", peers.proposing, peers.peers),
            ("replaceable peers", peers.replaceable, peers.peers),
            ("bytes granted", operations.granted, MOST_GRANTED),
            (
                "completions",
                operations.completions,
                2 * MOST_COMPLETIONS + OWN_COMPLETIONS * peers.peers,
            ),
            ("notices", operations.notices, MOST_NOTICES),
            ("debtors", operations.debtors, peers.peers),
            ("IP routes", ip_routes, peers.peers + MOST_RECENT_HELLOS),
        ] {
            assert!(
                entries <= most,
                "{entries} {what}, and {most} may be: {peers:?} {operations:?}"
            );
        }
        let link = self.victim.counters().link;
        let reads = READ_FRAMES * self.victim.accesses().reads;
        let most = ANSWERS * link.rx_frames + reads + UNASKED;
        assert!(link.tx_frames <= most, "{} for {} frames", link.tx_frames, link.rx_frames);
        let frames = link.rx_frames + link.tx_frames;
        let most = BYTES * frames + BYTES_UNASKED;
        assert!(self.allocated <= most, "{} bytes for {frames} frames", self.allocated);
    }

    // -----------------------------------------------------------------------------------------
    // What attackers do

    /// Frames full of one operation, over and over, each with another number.
    fn operations(&mut self, attacker: usize, template: &[u8], count: usize) {
        let (key, longest) = (self.key, self.victim.max_message());
        let mut n = 0;
        self.send(attacker, count, |speaker| {
            let mut payload = Vec::with_capacity(longest);
            loop {
                let len = payload.len();
                operation(template, n, key, &mut payload);
                n += 1;
                if payload.len() > longest {
                    payload.truncate(len);
                }
                if payload.len() == len || n % 64 == 0 {
                    return speaker.operations(payload);
                }
            }
        });
    }

    /// A new incarnation, which knows nothing of the one before.
    fn begin_anew(&mut self, attacker: usize, goodbye: bool) {
        self.incarnations += 1;
        let speaker = &mut self.attackers[attacker];
        if goodbye {
            speaker.close();
            self.exchange();
        }
        self.attackers[attacker].begin_anew(self.incarnations << 16);
    }

    /// Makes an attacker put `count` messages into its session. What finds no room in its window is
    /// left out.
    fn send(&mut self, attacker: usize, count: usize, mut put: impl FnMut(&mut Speaker)) {
        for n in 0..count {
            put(&mut self.attackers[attacker]);
            if n % BURST == BURST - 1 || n + 1 == count {
                // Once for the frames, once for the answers to a proposal.
                self.exchange();
                self.exchange();
            }
            if self.sent >= MOST_FRAMES {
                return;
            }
        }
    }

    /// Proposals in names that no node has: that of an honest end with another address and other
    /// epochs.
    fn made_up_names(&mut self, count: usize) {
        let is_hello = |header: &Header| header.kind == Kind::Hello;
        let hello = |frame: &&Vec<u8>| self.opened(frame).is_some_and(|(_, h)| is_hello(&h));
        let Some(hello) = self.seen.iter().find(hello).cloned() else { return };
        for n in 0..count {
            self.made_up = self.made_up.wrapping_add(1);
            let [a, b, c, d] = self.made_up.to_be_bytes();
            let name = MacAddr([2, 0xcc, a, b, c, d]);
            self.forge(&hello, Some(name), VERSION, |_| ());
            if n % BURST == BURST - 1 {
                self.exchange();
            }
        }
        self.exchange();
    }

    /// Frames that passed, with this and that changed, in their sender's name or another's.
    fn say_again(&mut self, edit: &[u8], count: usize) {
        let [which, kind, name, ahead, swap, credit] =
            [0, 1, 2, 3, 4, 5].map(|n| edit.get(n).copied().unwrap_or(0));
        const KINDS: [Kind; 9] = [
            Kind::Hello,
            Kind::HelloAck,
            Kind::Ack,
            Kind::Data,
            Kind::Op,
            Kind::Batch,
            Kind::Reset,
            Kind::Probe,
            Kind::Echo,
        ];
        for n in 0..count {
            if self.seen.is_empty() {
                return;
            }
            let frame = self.seen[(usize::from(which) + n) % self.seen.len()].clone();
            let name = match name % 4 {
                0 | 1 => None,
                2 => Some(self.honest.link().mac),
                _ => Some(MacAddr([2, 0, 0xbb, 0, 0, 1 + name % 3])),
            };
            let version = if swap & 4 > 0 { swap >> 4 } else { VERSION };
            self.forge(&frame, name, version, |header| {
                if kind < 128 {
                    header.kind = KINDS[usize::from(kind) % KINDS.len()];
                }
                header.seq += u32::from(ahead & 15) * (1 + n as u32 % 8);
                header.ack += u32::from(ahead >> 4);
                if swap & 1 > 0 {
                    std::mem::swap(&mut header.src_epoch, &mut header.dst_epoch);
                }
                if swap & 2 > 0 {
                    header.credit = u16::from(credit) * 257;
                }
            });
            if n % BURST == BURST - 1 {
                self.exchange();
            }
        }
        self.exchange();
    }

    /// Sends a frame that was seen to the victim, changed and sealed again.
    fn forge(
        &mut self,
        frame: &[u8],
        name: Option<MacAddr>,
        version: u8,
        change: impl FnOnce(&mut Header),
    ) {
        let Some((from, mut header)) = self.opened(frame) else { return };
        change(&mut header);
        let from = name.map_or(from, |mac| Speaker::address(self.envelope, mac));
        let to = Speaker::address(self.envelope, self.victim.link().mac);
        // Whatever its port ids have become.
        let port = if let Envelope::Udp { port } = self.envelope { port } else { 0 };
        let Some(route) = Route::to_port(self.envelope, from, to, port) else { return };
        let (_, inner) = self.envelope.open(frame).expect("it was opened before");
        let mut forged = vec![0; route.len()];
        forged.extend_from_slice(inner);
        header.seal(&mut forged[route.len()..]);
        if version != VERSION {
            // Whatever else such a frame has; nothing of it is looked at.
            let at = route.len() + VERSION_AT;
            forged[at] = forged[at] & 15 | version << 4;
        }
        route.write(&mut forged);
        self.net.send(self.spy, &forged);
        self.sent += 1;
    }

    /// Who sent a frame, and its header.
    fn opened(&self, frame: &[u8]) -> Option<(NodeAddr, Header)> {
        let (from, inner) = self.envelope.open(frame).ok()?;
        Some((from, Header::parse(inner).ok()?.0))
    }

    // -----------------------------------------------------------------------------------------
    // Everybody

    fn small_talk(&mut self) {
        let _ = self.victim.try_send(self.to_honest, b"small talk");
    }

    fn program(&mut self, script: &mut Script<'_>) {
        match script.byte() % 4 {
            0 => self.reads ^= true,
            1 => self.takes ^= true,
            _ if self.receives < 200 => {
                self.receives += 1;
                let kind = script.byte();
                let (tag, untagged) = (u64::from(kind % 4), kind & 16 > 0);
                let wanted = Wanted { from: None, tag, ignore: 0, untagged };
                self.victim.start_recv(wanted, vec![0; 256]).expect("there is room");
            }
            _ => {}
        }
    }

    /// What all have to send goes, and arrives.
    fn exchange(&mut self) {
        for attacker in &mut self.attackers {
            self.sent += attacker.transmit(&self.net, self.spy);
        }
        self.net.advance_to(self.net.now() + 6_000);
        self.look();
        self.net.advance_to(self.net.now() + 6_000);
        self.listen();
    }

    fn look(&mut self) {
        let (mut done, before) = (0, allocated());
        (self.measured)(&mut || done = look(&self.victim, self.reads, self.takes));
        self.allocated += allocated() - before;
        self.receives = self.receives.saturating_sub(done);
        look(&self.honest, true, false);
    }

    /// Attackers receive what is for them; the spy receives all that passes.
    fn listen(&mut self) {
        let now = self.net.now();
        while let Some(frame) = self.net.receive(self.spy) {
            for attacker in &mut self.attackers {
                attacker.receive(&frame);
            }
            // What he says himself he knows.
            let own = matches!(frame[6..9], [2, 0, 0xbb] | [2, 0xcc, _]);
            if !own && frame.len() <= 256 {
                if self.seen.len() == SEEN {
                    self.seen.remove(1);
                }
                self.seen.push(frame);
            }
        }
        self.attackers.iter_mut().for_each(|attacker| attacker.advance(now));
    }

    fn run(&mut self, time: Duration) {
        let until = self.net.now() + time.as_nanos() as u64;
        let step = (time.as_nanos() as u64 / 100).max(10_000);
        while self.net.now() < until {
            self.exchange();
            self.net.advance_to((self.net.now() + step).min(until));
        }
        self.count();
    }
}

/// What a program does at one look. Returns how many operations ended.
fn look(end: &Endpoint, reads: bool, takes: bool) -> u32 {
    end.progress().expect("no link fails");
    loop {
        match end.try_recv() {
            Ok(Some(_)) if reads => {}
            Ok(Some(message)) => {
                // It is handed out once; a program that does not look again keeps nothing.
                drop(message);
                break;
            }
            Ok(None) => break,
            Err(_) => while end.take_failure().is_some() {},
        }
    }
    let mut done = 0;
    while end.try_completion().expect("no link fails").is_some() {
        done += 1;
    }
    while takes && end.try_notice().expect("no link fails").is_some() {}
    done
}

fn named(envelope: Envelope, mac: MacAddr) -> Address {
    match Speaker::address(envelope, mac) {
        NodeAddr::Ip { ip, .. } => Address::from(ip),
        NodeAddr::Ethernet(mac) => Address::from(mac),
    }
}

/// One operation as the template says, with the number `n` where it has a number. Lengths and
/// places are mostly such that they just fit, or just do not.
fn operation(template: &[u8], n: u32, key: RegionKey, payload: &mut Vec<u8>) {
    let byte = |at: usize| template.get(at).copied().unwrap_or(0);
    let (code, kind) = (byte(0) % 14, byte(1));
    let id = if kind & 128 > 0 { n } else { u32::from(byte(2)) };
    let key = if kind & 64 > 0 { !key.0 } else { key.0 };
    let total =
        [0, 1, u32::from(byte(3)), u32::from(byte(3)) * 256, LEN, LEN + 1, 1 << 30, u32::MAX]
            [usize::from(byte(4) % 8)];
    let at = [0, 0, total, total.wrapping_sub(1), total / 2, u32::from(byte(5)), n, u32::MAX]
        [usize::from(byte(6) % 8)];
    let offset =
        [0, 0, 0, u64::from(LEN), u64::from(LEN - 8), u64::from(n) * 8 % 4096, 1, u64::MAX]
            [usize::from(byte(7) % 8)];
    let len = [0, 1, usize::from(byte(8)), 1000, total as usize, (total - at.min(total)) as usize]
        [usize::from(byte(9) % 6)];
    let tag = if kind & 32 > 0 { n.into() } else { u64::from(kind % 4) };
    let data = (kind & 8 > 0).then_some(n.into());
    let label = Label { tag, untagged: kind & 16 > 0, data };
    let op = match code {
        0 | 1 => Op::Eager { label },
        2 => Op::First { label, total },
        3 => Op::More,
        4 => Op::Offer { id, label, total },
        5 => Op::Pull { id, offer: at, len: total },
        6 => Op::Read { id, key, offset, len: total },
        7 => Op::Reply { id, at },
        8 => Op::Write { id, key, offset, total, at, notice: None },
        9 | 10 => Op::Write { id, key, offset, total, at, notice: Some(tag) },
        11 => {
            let (action, number) = (Action::ALL[0], Number::ALL[0]);
            let change = Change::new(action, number, 1, kind & 4 > 0).expect("one is allowed");
            Op::Atomic { id, key, offset, change }
        }
        12 => Op::Done { id, status: Status::Ok },
        13 if kind % 4 == 1 => Op::OfferAt { id, label, total, at: offset },
        13 if kind % 4 == 2 => Op::Taken { id, offer: at, len: total },
        _ => Op::Limit { until: total, entries: at },
    };
    let len = len.min(1400);
    let mut header = [0; MAX_OP_HEADER];
    let written = op.write(len as u16, &mut header);
    payload.extend_from_slice(&header[..written]);
    payload.resize(payload.len() + len, n as u8);
}
