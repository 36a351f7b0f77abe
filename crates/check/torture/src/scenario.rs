//! What a run is made of, drawn from its seed.

use gigae::{Address, Envelope, MacAddr, Options};
use gigae_sim::Faults;
use oorandom::Rand64;
use std::time::Duration;

/// What one link of each node is.
#[derive(Clone, Copy, Debug)]
pub struct LinkKind {
    /// Bytes per second towards each port; zero is without limit.
    pub rate: u64,
    /// One way.
    pub delay: Duration,
    /// Longest frame in bytes that it carries; longer ones vanish without an error; zero is without
    /// limit.
    pub black_hole: usize,
}

impl LinkKind {
    /// A link of `rate` bytes per second and `micros` microseconds one way.
    pub const fn new(rate: u64, micros: u64) -> Self {
        Self { rate, delay: Duration::from_micros(micros), black_hole: 0 }
    }
}

/// Versions of the Internet Protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ip {
    /// Version 4.
    V4,
    /// Version 6.
    V6,
}

/// Everything about a run that is settled before it begins.
#[derive(Clone, Debug)]
pub struct Scenario {
    /// From which all follows.
    pub seed: u64,
    /// Nodes, each with one endpoint.
    pub nodes: u16,
    /// Links per node, given to the nodes in turn. Two nodes use as many as the one with fewer has.
    pub links: Vec<u8>,
    /// What the links are, by number; the last holds for all further ones.
    pub kinds: Vec<LinkKind>,
    /// Frames lie in UDP over this version of IP, if any.
    pub udp: Option<Ip>,
    /// Nodes with one link have a socket for bulk data beside it. Faults treat it as a second link.
    pub bulk: bool,
    /// Datagrams come to those sockets one by one.
    pub uncoalesced: bool,
    /// To how many others each node speaks by itself.
    pub partners: u16,
    /// MTUs, given to the nodes in turn.
    pub mtus: Vec<usize>,
    /// Frames of memory per link, each way.
    pub frames: usize,
    /// Windows in frames: sending, receiving, reordering (zero: go-back-N).
    pub windows: (u16, u16, u16),
    /// Whether small messages share frames.
    pub aggregate: bool,
    /// Whether the checksum covers the payload; if not, no frame is corrupted, for nothing would
    /// notice.
    pub checksum: bool,
    /// After which a peer is lost.
    pub peer_timeout: Duration,
    /// Bytes that wait for a busy port; zero is without limit.
    pub buffer: u64,
    /// The worst probabilities: loss, duplication, corruption, disorder.
    pub worst: [f64; 4],
    /// Mean time between two changes of the links' faults, partitions, crashes and the like.
    pub change_every: Duration,
    /// Mean time between what a node does by itself, and how many messages it sends then.
    pub act_every: Duration,
    /// See `act_every`.
    pub burst: u32,
    /// Longest tagged message in bytes.
    pub longest: usize,
    /// Of a hundred actions, this many are operations.
    pub operations: u64,
    /// Whether operations have a channel of their own.
    pub own_channel: bool,
    /// Bytes of each node's area in each other's registered memory.
    pub area: usize,
    /// Whether nodes sleep between arrivals, or look again and again; by node in turn.
    pub sleepers: Vec<bool>,
    /// Of a hundred messages, the program that received them keeps this many, and gives them back
    /// later in another order; and most that it keeps at once.
    pub keep: u64,
    /// See `keep`.
    pub keep_most: usize,
    /// The faults end after this many frames, or this much time.
    pub until_frames: u64,
    /// See `until_frames`.
    pub until: Duration,
}

/// One of several, all alike.
pub(crate) fn pick<T: Copy>(random: &mut Rand64, from: &[T]) -> T {
    from[random.rand_range(0..from.len() as u64) as usize]
}

/// True in `of_hundred` cases of a hundred.
pub(crate) fn percent(random: &mut Rand64, of_hundred: u64) -> bool {
    random.rand_range(0..100) < of_hundred
}

/// A number of which each power of two is as likely as the next.
pub(crate) fn steep(random: &mut Rand64, least: u64, most: u64) -> u64 {
    let (low, high) = ((least as f64).ln(), (most as f64).ln());
    let x = (low + random.rand_float() * (high - low)).exp();
    (x as u64).clamp(least, most)
}

/// How many links nodes have, and what they are. Mostly one; many nodes never have more.
fn links(
    r: &mut Rand64,
    many: bool,
    kind: impl Fn(&mut Rand64) -> LinkKind,
) -> (Vec<u8>, Vec<LinkKind>) {
    let first = kind(r);
    if many || percent(r, 65) {
        return (vec![1], vec![first]);
    }
    let links = match r.rand_range(0..10) {
        0 => vec![2, 1],
        1 => vec![4, 2, 3],
        2..=6 => vec![2],
        7 => vec![3],
        _ => vec![4],
    };
    // Often all alike, as they are bought.
    let alike = percent(r, 40);
    let mut kinds = vec![first; 4];
    for other in kinds[1..].iter_mut().filter(|_| !alike) {
        *other = kind(r);
    }
    // A link that does not carry what it should shows with long frames only.
    if percent(r, 15) {
        kinds[r.rand_range(0..4) as usize].black_hole = 1514;
    }
    (links, kinds)
}

impl Scenario {
    /// A Gigabit Ethernet 10 us away between `nodes` nodes with one link, without faults and with
    /// ordinary settings. A test changes only what it is about.
    pub fn plain(seed: u64, nodes: u16) -> Self {
        Self {
            seed,
            nodes,
            links: vec![1],
            kinds: vec![LinkKind::new(125_000_000, 10)],
            udp: None,
            bulk: false,
            uncoalesced: false,
            partners: nodes - 1,
            mtus: vec![1500],
            frames: 1024,
            windows: (256, 256, 256),
            aggregate: true,
            checksum: true,
            peer_timeout: Duration::from_millis(200),
            buffer: 128 << 10,
            worst: [0.0; 4],
            change_every: Duration::from_millis(5),
            act_every: Duration::from_micros(100),
            burst: 16,
            longest: 100_000,
            operations: 20,
            own_channel: true,
            area: 4096,
            sleepers: vec![true, false],
            keep: 0,
            keep_most: 0,
            until_frames: 20_000,
            until: Duration::from_secs(1),
        }
    }

    /// The scenario of a seed.
    pub fn draw(seed: u64) -> Self {
        let mut r = Rand64::new(u128::from(crate::body::mix(seed)));
        let r = &mut r;
        // Now and then many: one seed of fifty.
        let nodes = match r.rand_range(0..50) {
            0 => steep(r, 50, 1000),
            1..=3 => r.rand_range(9..33),
            _ => r.rand_range(2..9),
        } as u16;
        let many = nodes > 32;
        let mtus = match r.rand_range(0..10) {
            0 => vec![9000],
            1 => vec![1500, 9000],
            2 => vec![1500, 576, 3000],
            3 => vec![pick(r, &[256, 576, 1000])],
            _ => vec![1500],
        };
        let window = |r: &mut Rand64| pick(r, &[4, 16, 64, 256, 256, 256, 1024]);
        let reorder = pick(r, &[0, 0, 1, 16, 64, 256, 256, 256, 1024]);
        let checksum = percent(r, 90);
        let calm = percent(r, 10);
        let mut worst = [0.30, 0.20, 0.10, 0.30];
        for chance in &mut worst {
            // Often one of them is missing, and often it is mild.
            *chance *= pick(r, &[0.0, 0.03, 0.1, 0.3, 1.0]) * f64::from(!calm);
        }
        worst[2] *= f64::from(checksum);
        let longest = if percent(r, 5) { 4 << 20 } else { 300_000 };
        let rate =
            |r: &mut Rand64| pick(r, &[0, 12_500_000, 125_000_000, 125_000_000, 1_250_000_000]);
        let kind = |r: &mut Rand64| LinkKind {
            rate: rate(r),
            delay: Duration::from_nanos(steep(r, 500, 500_000)),
            black_hole: 0,
        };
        let (links, kinds) = links(r, many, kind);
        let one = links == [1];
        Self {
            seed,
            nodes,
            udp: match r.rand_range(0..20) {
                _ if links != [1] => None,
                0..=1 => Some(Ip::V4),
                2 => Some(Ip::V6),
                _ => None,
            },
            links,
            kinds,
            partners: if many { r.rand_range(1..5) as u16 } else { nodes - 1 },
            mtus,
            frames: if many { 128 } else { pick(r, &[128, 256, 1024]) },
            windows: (window(r), r.rand_range(1..257) as u16, reorder),
            aggregate: percent(r, 80),
            checksum,
            peer_timeout: Duration::from_millis(steep(r, 20, 1000)),
            buffer: if percent(r, 70) { steep(r, 16 << 10, 1 << 20) } else { 0 },
            worst,
            change_every: Duration::from_micros(steep(r, 500, 100_000)),
            act_every: Duration::from_micros(steep(r, 5, 2000)),
            burst: steep(r, 1, 64) as u32,
            longest: steep(r, 1000, longest) as usize,
            operations: if many { 10 } else { pick(r, &[0, 5, 20, 50, 100]) },
            own_channel: percent(r, 70),
            area: if many { 64 } else { steep(r, 64, 64 << 10) as usize },
            sleepers: pick(r, &[&[true][..], &[false], &[true, false]]).to_vec(),
            keep: pick(r, &[0, 0, 5, 30, 90]),
            keep_most: steep(r, 1, 2000) as usize,
            until_frames: steep(r, 2000, if many { 100_000 } else { 50_000 }),
            until: Duration::from_millis(steep(r, 200, 5000)),
            bulk: percent(r, 30) && one,
            uncoalesced: percent(r, 50),
        }
    }

    /// Ports of the nodes that have most.
    pub(crate) fn most_ports(&self) -> usize {
        (0..self.links.len() as u16).map(|node| self.ports_of(node)).max().map_or(1, usize::from)
    }

    /// Ports of a node: one for each link, and one for the socket.
    pub(crate) fn ports_of(&self, node: u16) -> u8 {
        let links = self.links_of(node);
        links + u8::from(self.bulk && links == 1)
    }

    fn links_of(&self, node: u16) -> u8 {
        self.links[usize::from(node) % self.links.len()]
    }

    /// Where a node is, by the address of its first link.
    pub(crate) fn address(&self, mac: MacAddr) -> Address {
        match self.udp {
            None => mac.into(),
            Some(version) => gigae::simulated_ip(mac, version == Ip::V6).into(),
        }
    }

    /// The faults of a link while nothing goes wrong.
    pub(crate) fn quiet(&self, link: usize) -> Faults {
        let LinkKind { rate, delay, black_hole } = self.kinds[link.min(self.kinds.len() - 1)];
        // A buffer that holds less than a few of the longest frames would be a fault.
        let uncoalesced = self.uncoalesced && self.bulk && link == 1;
        Faults { delay, rate, buffer: self.buffer, black_hole, uncoalesced, ..Faults::default() }
    }

    /// Random faults of a link, within the worst.
    pub(crate) fn random_faults(&self, link: usize, r: &mut Rand64) -> Faults {
        let mut chance = |worst: f64| if percent(r, 40) { worst * r.rand_float() } else { 0.0 };
        let [loss, duplication, corruption, disorder] = self.worst.map(&mut chance);
        let disorder_by = Duration::from_nanos(steep(r, 1000, 2_000_000));
        Faults { loss, duplication, corruption, disorder, disorder_by, ..self.quiet(link) }
    }

    /// How a node's endpoint is opened.
    pub(crate) fn options(&self, node: u16) -> Options {
        let (send, receive, reorder) = self.windows;
        let envelope = match self.udp {
            None => Envelope::DEFAULT,
            Some(_) => Envelope::Udp { port: 4791 },
        };
        let names = (0..self.links_of(node)).map(|link| format!("simulated{link}"));
        Options::trunk(names)
            .bulk(self.ports_of(node) > self.links_of(node))
            .envelope(envelope)
            .channels([0, 1])
            .aggregate(self.aggregate)
            .payload_checksum(self.checksum)
            .peer_timeout(self.peer_timeout)
            .linger(Duration::ZERO)
            .wait(gigae::Wait::Sleep)
            .tuned(self.frames, |config| {
                config.send_window = send;
                config.receive_window = receive;
                config.reorder_window = reorder;
            })
    }
}
