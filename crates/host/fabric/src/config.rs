//! What a fabric is asked to be: nodes, link rate, MTU, buffers and impairments.
//!
//! Does not touch the system; [`FabricConfig::check`] refuses what cannot be built.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::FabricError;

/// Bytes that every frame occupies on an Ethernet wire beyond what the kernel counts of it:
/// preamble and start delimiter (8), frame check sequence (4), interframe gap (12); IEEE 802.3
/// clauses 3.1.1 and 4.4.2.
pub(crate) const WIRE_OVERHEAD: u32 = 24;

/// Bytes of wire time that the shortest Ethernet frame takes: 60 bytes padded, plus
/// [`WIRE_OVERHEAD`].
pub(crate) const WIRE_MINIMUM: u32 = 84;

/// The header in front of a payload that is not part of the MTU: two addresses and an EtherType.
pub(crate) const ETHERNET_HEADER: u32 = 14;

/// A link's rate in bits per second.
///
/// Written and read as `tc` does: `1gbit`, `100mbit`, `2500kbit`, `64000bit`; powers of ten.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Rate(u64);

impl Rate {
    /// Gigabit Ethernet.
    pub const GIGABIT: Rate = Rate(1_000_000_000);

    /// A rate of `bits` per second. [`FabricConfig::check`] says which rates can be built.
    pub const fn bits_per_second(bits: u64) -> Rate {
        Rate(bits)
    }

    /// The rate in bits per second.
    pub const fn bits(self) -> u64 {
        self.0
    }

    /// The rate in bytes per second.
    pub fn bytes(self) -> f64 {
        self.0 as f64 / 8.0
    }
}

impl fmt::Display for Rate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let units = [(1_000_000_000, "gbit"), (1_000_000, "mbit"), (1_000, "kbit")];
        for (size, unit) in units {
            if self.0 >= size && self.0.is_multiple_of(size) {
                return write!(f, "{}{unit}", self.0 / size);
            }
        }
        write!(f, "{}bit", self.0)
    }
}

impl FromStr for Rate {
    type Err = FabricError;

    fn from_str(text: &str) -> Result<Rate, FabricError> {
        let refuse = || {
            FabricError::config(format!(
                "{text:?} is not a rate; write for example 1gbit, 100mbit, 2500kbit or 64000bit"
            ))
        };
        let lower = text.trim().to_ascii_lowercase();
        let digits = lower.find(|c: char| !c.is_ascii_digit()).ok_or_else(refuse)?;
        let (number, unit) = lower.split_at(digits);
        let scale: u64 = match unit.trim() {
            "gbit" => 1_000_000_000,
            "mbit" => 1_000_000,
            "kbit" => 1_000,
            "bit" => 1,
            _ => return Err(refuse()),
        };
        let number: u64 = number.parse().map_err(|_| refuse())?;
        number.checked_mul(scale).map(Rate).ok_or_else(refuse)
    }
}

impl TryFrom<String> for Rate {
    type Error = FabricError;

    fn try_from(text: String) -> Result<Rate, FabricError> {
        text.parse()
    }
}

impl From<Rate> for String {
    fn from(rate: Rate) -> String {
        rate.to_string()
    }
}

/// How much longer a frame takes from a node to another one than without it.
///
/// Written and read as `200us`, `1ms` or `2s`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Delay(Duration);

impl Delay {
    /// The delay in microseconds.
    pub fn micros(self) -> u64 {
        u64::try_from(self.0.as_micros()).unwrap_or(u64::MAX)
    }
}

impl fmt::Display for Delay {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let micros = self.micros();
        for (size, unit) in [(1_000_000, "s"), (1_000, "ms")] {
            if micros >= size && micros.is_multiple_of(size) {
                return write!(f, "{}{unit}", micros / size);
            }
        }
        write!(f, "{micros}us")
    }
}

impl FromStr for Delay {
    type Err = FabricError;

    fn from_str(text: &str) -> Result<Delay, FabricError> {
        let refuse = || {
            FabricError::config(format!(
                "{text:?} is not a delay; write for example 200us, 1ms or 2s"
            ))
        };
        let text = text.trim();
        let digits = text.find(|c: char| !c.is_ascii_digit()).ok_or_else(refuse)?;
        let (number, unit) = text.split_at(digits);
        let scale: u64 = match unit.trim() {
            "s" => 1_000_000,
            "ms" => 1_000,
            "us" => 1,
            _ => return Err(refuse()),
        };
        let number: u64 = number.parse().map_err(|_| refuse())?;
        let micros = number.checked_mul(scale).ok_or_else(refuse)?;
        Ok(Delay(Duration::from_micros(micros)))
    }
}

impl TryFrom<String> for Delay {
    type Error = FabricError;

    fn try_from(text: String) -> Result<Delay, FabricError> {
        text.parse()
    }
}

impl From<Delay> for String {
    fn from(delay: Delay) -> String {
        delay.to_string()
    }
}

impl From<Duration> for Delay {
    /// Parts of a microsecond are left out.
    fn from(duration: Duration) -> Delay {
        Delay(Duration::from_micros(u64::try_from(duration.as_micros()).unwrap_or(u64::MAX)))
    }
}

impl From<Delay> for Duration {
    fn from(delay: Delay) -> Duration {
        delay.0
    }
}

/// What the switch does to the unicast frames it sends, each a probability per frame from 0 to 1.
///
/// Every choice is a function of the seed, the port and the number of the frame on that port
/// (counted from the moment at which the impairments were set), so the same traffic meets the same
/// fate. Broadcast and multicast frames pass untouched and uncounted: the kernel's own background
/// traffic must not shift the sequence.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Impairments {
    /// The frame is dropped.
    pub loss: f64,
    /// A frame that was not dropped is sent twice.
    pub duplicate: f64,
    /// One bit behind the two Ethernet addresses of a frame that was not dropped is flipped. Of a
    /// duplicated frame the second copy is the corrupted one.
    pub corrupt: f64,
    /// Selects the sequence of choices.
    pub seed: u64,
}

impl Impairments {
    /// True when no frame would be touched.
    pub fn is_none(&self) -> bool {
        self.loss == 0.0 && self.duplicate == 0.0 && self.corrupt == 0.0
    }

    /// Refuses probabilities outside 0 to 1.
    pub fn check(&self) -> Result<(), FabricError> {
        for (name, value) in
            [("loss", self.loss), ("duplicate", self.duplicate), ("corrupt", self.corrupt)]
        {
            if !(0.0..=1.0).contains(&value) {
                return Err(FabricError::config(format!(
                    "{name} {value} is not a probability; give a number from 0 to 1"
                )));
            }
        }
        Ok(())
    }
}

/// What a fabric is to be.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct FabricConfig {
    /// First part of every namespace's name, so that several fabrics coexist: 1 to 32 of
    /// `a-z A-Z 0-9 _ -`, beginning with a letter or digit.
    pub prefix: String,
    /// Number of nodes, 2 to 64.
    pub nodes: u16,
    /// Two nodes back to back, as GigaE PM II was measured, without the switch and its cost:
    /// nothing can be shaped or impaired then.
    pub cable: bool,
    /// Ethernets, each with its own switch (or cable), to which every node has an interface:
    /// `eth0`, `eth1` and so on, 1 to 8. Only the first has IP addresses, and only there can frames
    /// be impaired.
    pub networks: u16,
    /// Receive and transmit queues of every link, 1 to 64. By a veth, what leaves by a queue
    /// arrives at the queue of the same number, if the receiver's XDP program is in native mode.
    pub queues: u16,
    /// Rates of the second network and those after it, where they differ from `rate`.
    pub network_rates: Vec<Rate>,
    /// Rates of the first network's links between the switch and the first nodes, node 1's first,
    /// where nodes differ; the rest have `rate`. So a server can have a faster link than its
    /// clients. These nodes' links are shaped in both directions.
    pub node_rates: Vec<Rate>,
    /// Rate of the link from the switch to each node; `None` leaves it unshaped. 64 kbit/s to
    /// 400 Gbit/s.
    pub rate: Option<Rate>,
    /// How much longer frames take from a node to another one, at most 10 s. `None`: the kernel's
    /// bridge is the switch, as fast as it can. With zero the frames take the same way as with any
    /// other delay.
    pub delay: Option<Delay>,
    /// Bytes that wait for their time at most, 64 for each frame beside its own; what finds no room
    /// is dropped and counted. Only with a delay.
    pub delay_buffer: u32,
    /// MTU of every link in bytes, 68 (1280 where IPv6 is to work) to 65,535.
    pub mtu: u32,
    /// MTUs of the first nodes' links, node 1's first, where nodes differ; the rest have `mtu`.
    /// What is longer than a link carries is dropped in front of it.
    pub node_mtus: Vec<u32>,
    /// MTU of the switch if it carries less than the nodes believe: a black hole, into which longer
    /// frames vanish without a word. (The kernel lets four bytes more pass, for a VLAN tag.)
    pub switch_mtu: Option<u32>,
    /// Probability that a frame is lost, 0 to 1; see [`Impairments`].
    pub loss: f64,
    /// Probability that a frame is sent twice, 0 to 1.
    pub duplicate: f64,
    /// Probability that one bit of a frame is flipped, 0 to 1.
    pub corrupt: f64,
    /// Selects the sequence of losses, duplicates and corruptions.
    pub seed: u64,
    /// Bytes that a port of the switch queues before it drops, only when shaped.
    pub buffer: u32,
    /// Bytes that a port may send back to back, only when shaped; at least one frame.
    pub burst: u32,
}

impl FabricConfig {
    /// Default of [`FabricConfig::buffer`]. Small gigabit switches share 0.5 to 2 MB of packet
    /// memory between all their ports, so half a megabyte is what one busy port of such a switch
    /// gets; it is 4.2 ms at 1 Gbit/s.
    pub const DEFAULT_BUFFER: u32 = 512 * 1024;

    /// Default of [`FabricConfig::burst`]. 262 us at 1 Gbit/s: many times the lateness of a kernel
    /// timer, so that the link never idles for lack of tokens, and below the smallest TCP buffer
    /// in use. With 4 KB a bulk TCP stream reaches only 63 % of the link.
    pub const DEFAULT_BURST: u32 = 32 * 1024;

    /// Default of [`FabricConfig::delay_buffer`]: what a link of 10 Gbit/s carries in 13 ms.
    pub const DEFAULT_DELAY_BUFFER: u32 = 16 << 20;

    /// MTU of a node's link in bytes; nodes are counted from 1.
    pub fn mtu_of(&self, node: u16) -> u32 {
        let place = usize::from(node).checked_sub(1);
        place.and_then(|place| self.node_mtus.get(place)).copied().unwrap_or(self.mtu)
    }

    /// MTU of the switch's end of a node's link.
    pub(crate) fn port_mtu_of(&self, node: u16) -> u32 {
        let mtu = self.mtu_of(node);
        self.switch_mtu.map_or(mtu, |switch| switch.min(mtu))
    }

    /// MTU of the switch itself: that of its longest link.
    pub(crate) fn longest_mtu(&self) -> u32 {
        (1..=self.nodes).map(|node| self.mtu_of(node)).max().unwrap_or(self.mtu)
    }

    /// Rate of the link from the switch of a network, counted from 0, to a node, counted from 1;
    /// `None` leaves it unshaped.
    pub fn rate_of(&self, network: u16, node: u16) -> Option<Rate> {
        let (rates, number) = match network {
            0 => (&self.node_rates, node),
            further => (&self.network_rates, further),
        };
        let place = usize::from(number).checked_sub(1);
        place.and_then(|place| rates.get(place)).copied().or(self.rate)
    }

    /// Whether any link is shaped.
    pub(crate) fn is_shaped(&self) -> bool {
        self.rates().next().is_some()
    }

    /// All rates that links have.
    fn rates(&self) -> impl Iterator<Item = &Rate> {
        self.rate.iter().chain(&self.network_rates).chain(&self.node_rates)
    }

    /// The impairments among these settings.
    pub fn impairments(&self) -> Impairments {
        Impairments {
            loss: self.loss,
            duplicate: self.duplicate,
            corrupt: self.corrupt,
            seed: self.seed,
        }
    }

    /// Sets the impairments among these settings.
    pub fn set_impairments(&mut self, impairments: &Impairments) {
        self.loss = impairments.loss;
        self.duplicate = impairments.duplicate;
        self.corrupt = impairments.corrupt;
        self.seed = impairments.seed;
    }

    /// The most payload, in bytes per second, that the shaped links let through from a node to
    /// another one: frames of `payload` bytes behind (and in front of) `header` other bytes,
    /// Ethernet's 14 included, the frame check sequence not. `None` when the link is not shaped.
    ///
    /// Every frame is charged its length plus 24 bytes, and 84 bytes at least, as on the wire of a
    /// real Ethernet.
    pub fn payload_limit(&self, [from, to]: [u16; 2], payload: u32, header: u32) -> Option<f64> {
        let wire = (f64::from(payload) + f64::from(header) + f64::from(WIRE_OVERHEAD))
            .max(f64::from(WIRE_MINIMUM));
        let sent = self.node_rates.get(usize::from(from).wrapping_sub(1)).copied();
        let rates = self.rate_of(0, to).into_iter().chain(sent);
        let rate = rates.map(|rate| rate.bytes()).reduce(f64::min)?;
        Some(rate * f64::from(payload) / wire)
    }

    /// Refuses, with one line that says what to change, what cannot be built.
    pub fn check(&self) -> Result<(), FabricError> {
        check_prefix(&self.prefix)?;
        self.impairments().check()?;
        within("nodes", u64::from(self.nodes), 2, 64)?;
        within("networks", u64::from(self.networks), 1, 8)?;
        if self.network_rates.len() + 1 > usize::from(self.networks) {
            let (rates, networks) = (self.network_rates.len(), self.networks);
            return Err(FabricError::config(format!(
                "network_rates names {rates} networks beyond the first of {networks}; give fewer"
            )));
        }
        within("queues", self.queues.into(), 1, 64)?;
        for mtu in self.node_mtus.iter().chain(&self.switch_mtu).chain([&self.mtu]) {
            within("mtu", u64::from(*mtu), 68, 65_535)?;
        }
        if self.node_mtus.len() > usize::from(self.nodes) {
            let (mtus, nodes) = (self.node_mtus.len(), self.nodes);
            return Err(FabricError::config(format!(
                "node_mtus names {mtus} nodes of {nodes}; give an MTU for each node at most"
            )));
        }
        if self.node_rates.len() > usize::from(self.nodes) {
            let (rates, nodes) = (self.node_rates.len(), self.nodes);
            return Err(FabricError::config(format!(
                "node_rates names {rates} nodes of {nodes}; give a rate for each node at most"
            )));
        }
        let changed = self.is_shaped() || self.switch_mtu.is_some() || self.delay.is_some();
        if self.cable && (self.nodes != 2 || changed || !self.impairments().is_none()) {
            return Err(FabricError::config(
                "a cable joins two nodes and is neither shaped nor impaired nor delayed; leave out 'cable'",
            ));
        }
        if let Some(delay) = self.delay {
            within("delay (us)", delay.micros(), 0, 10_000_000)?;
            within("delay_buffer", self.delay_buffer.into(), 128 << 10, 1 << 30)?;
            if self.queues > 1 {
                return Err(FabricError::config(
                    "frames that wait do not keep their queue; leave out 'delay', or have queues = 1",
                ));
            }
        }
        for rate in self.rates() {
            within("rate", rate.bits(), 64_000, 400_000_000_000)?;
            let frame = u64::from(self.longest_mtu() + ETHERNET_HEADER + WIRE_OVERHEAD);
            within("burst", u64::from(self.burst), frame, 16 << 20)?;
            within("buffer", u64::from(self.buffer), frame, 1 << 30)?;
        }
        Ok(())
    }
}

impl Default for FabricConfig {
    fn default() -> FabricConfig {
        FabricConfig {
            prefix: "gigae".to_owned(),
            nodes: 2,
            cable: false,
            networks: 1,
            queues: 1,
            network_rates: Vec::new(),
            node_rates: Vec::new(),
            rate: None,
            delay: None,
            delay_buffer: FabricConfig::DEFAULT_DELAY_BUFFER,
            mtu: 1500,
            node_mtus: Vec::new(),
            switch_mtu: None,
            loss: 0.0,
            duplicate: 0.0,
            corrupt: 0.0,
            seed: 0,
            buffer: FabricConfig::DEFAULT_BUFFER,
            burst: FabricConfig::DEFAULT_BURST,
        }
    }
}

/// A prefix becomes part of file names, so it may hold no separators.
pub(crate) fn check_prefix(prefix: &str) -> Result<(), FabricError> {
    let good = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
    let first = prefix.chars().next().is_some_and(|c| c.is_ascii_alphanumeric());
    if first && prefix.len() <= 32 && prefix.chars().all(good) {
        return Ok(());
    }
    Err(FabricError::config(format!(
        "{prefix:?} cannot be a prefix; use 1 to 32 of a-z A-Z 0-9 _ - beginning with a letter or digit"
    )))
}

fn within(name: &str, value: u64, low: u64, high: u64) -> Result<(), FabricError> {
    if (low..=high).contains(&value) {
        return Ok(());
    }
    Err(FabricError::config(format!("{name} {value} is out of range; give {low} to {high}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rate_reads_back_what_it_wrote() {
        for text in ["1gbit", "100mbit", "2500kbit", "64001bit"] {
            assert_eq!(text.parse::<Rate>().unwrap().to_string(), text);
        }
        assert_eq!("1000Mbit".parse::<Rate>().unwrap(), Rate::GIGABIT);
    }

    #[test]
    fn a_delay_reads_back_what_it_wrote_and_nothing_else_is_one() {
        for text in ["200us", "1ms", "2s", "0us", "1500us"] {
            assert_eq!(text.parse::<Delay>().unwrap().to_string(), text);
        }
        assert_eq!("1000us".parse::<Delay>().unwrap().to_string(), "1ms");
        for text in ["", "1", "us", "-1ms", "1.5ms", "1h", "99999999999999999999us"] {
            let message = text.parse::<Delay>().unwrap_err().to_string();
            assert!(message.contains("not a delay") && !message.contains('\n'), "{message}");
        }
    }

    #[test]
    fn what_is_not_a_rate_is_refused_in_one_line() {
        for text in [
            "",
            "1",
            "gbit",
            "-1gbit",
            "1.5gbit",
            "1gib",
            "99999999999999999999bit",
            "99999999999gbit",
        ] {
            let message = text.parse::<Rate>().unwrap_err().to_string();
            assert!(message.contains("not a rate") && !message.contains('\n'), "{message}");
        }
    }

    #[test]
    fn what_cannot_be_built_is_refused_by_name() {
        type Spoil = fn(&mut FabricConfig);
        let cases: [(&str, Spoil); 22] = [
            ("node_rates", |c| c.node_rates = vec![Rate::GIGABIT; 3]),
            ("cable", |c| (c.cable, c.node_rates) = (true, vec![Rate::GIGABIT])),
            ("networks", |c| c.networks = 9),
            ("network_rates", |c| c.network_rates = vec![Rate::GIGABIT]),
            ("cable", |c| (c.cable, c.networks, c.network_rates) = (true, 2, vec![Rate::GIGABIT])),
            ("nodes", |c| c.nodes = 1),
            ("nodes", |c| c.nodes = 65),
            ("mtu", |c| c.mtu = 67),
            ("mtu", |c| c.node_mtus = vec![1500, 67]),
            ("mtu", |c| c.switch_mtu = Some(67)),
            ("node_mtus", |c| c.node_mtus = vec![1500; 3]),
            ("burst", |c| (c.rate, c.node_mtus) = (Some(Rate::GIGABIT), vec![40_000])),
            ("loss", |c| c.loss = 1.1),
            ("corrupt", |c| c.corrupt = f64::NAN),
            ("rate", |c| c.rate = Some(Rate::bits_per_second(1))),
            ("burst", |c| (c.rate, c.burst) = (Some(Rate::GIGABIT), 1500)),
            ("delay (us)", |c| c.delay = "11s".parse().ok()),
            ("delay_buffer", |c| (c.delay, c.delay_buffer) = ("1ms".parse().ok(), 1000)),
            ("queues", |c| (c.delay, c.queues) = ("1ms".parse().ok(), 2)),
            ("cable", |c| (c.delay, c.cable) = ("1ms".parse().ok(), true)),
            ("prefix", |c| c.prefix = "a/b".into()),
            ("prefix", |c| c.prefix = "..".into()),
        ];
        for (word, spoil) in cases {
            let mut config = FabricConfig::default();
            spoil(&mut config);
            let message = config.check().unwrap_err().to_string();
            assert!(message.contains(word), "{message} should name {word}");
        }
        FabricConfig::default().check().unwrap();
    }

    #[test]
    fn the_payload_limit_is_that_of_a_real_gigabit_ethernet() {
        let config = FabricConfig { rate: Some(Rate::GIGABIT), ..FabricConfig::default() };
        // TCP over IPv4 with timestamps: 1448 bytes in a frame of 1514, 1538 on the wire.
        let tcp = config.payload_limit([1, 2], 1448, 66).unwrap();
        assert!((tcp - 125e6 * 1448.0 / 1538.0).abs() < 1.0);
        // A short frame occupies 84 bytes.
        assert!((config.payload_limit([1, 2], 8, 42).unwrap() - 125e6 * 8.0 / 84.0).abs() < 1.0);
        assert_eq!(FabricConfig::default().payload_limit([1, 2], 8, 42), None);
        let slower = Rate::bits_per_second(100_000_000);
        let config = FabricConfig { node_rates: vec![Rate::GIGABIT, slower], ..config };
        for way in [[1, 2], [2, 1], [2, 3]] {
            assert!((config.payload_limit(way, 1448, 66).unwrap() - tcp / 10.0).abs() < 1.0);
        }
        assert_eq!(config.payload_limit([3, 1], 1448, 66), Some(tcp));
    }
}
