//! Plans: which transports are measured how, as data (TOML).
//!
//! A plan is parsed strictly: an unknown key, an unknown transport or a figure out of range is an
//! error that names it. What a plan does not do: it holds no results and no addresses; the same plan
//! runs on a virtual network and between two machines.

mod cell;
mod condition;
mod figure;
mod only;
mod paper;
mod settings;
mod tune;

pub use cell::{Cell, conditional, label};
pub use condition::{Condition, Cpus};
pub use figure::{Choice, FigurePlan, PaperRow, RowPlan, Spot, Target, Value};
pub use only::{Only, shell_word};
pub use paper::{PaperPlan, SaidPlan};
pub use settings::{
    Backend, BusyPoll, BusyPollOn, DEFAULT, GigaeOptions, Recovery, Setting, TcpOptions, XdpMode,
    XdpOptions,
};
pub use tune::{KnobValue, Sweep, TuneEnds, TunePlan};

pub use crate::experiment::Experiment;
use crate::transport::{self, Transport};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fmt;
use std::path::Path;

/// The plans that come with the program, by name.
pub const SHIPPED: &[(&str, &str)] = &[
    ("quick", include_str!("../plans/quick.toml")),
    ("compare", include_str!("../plans/compare.toml")),
    ("latency", include_str!("../plans/latency.toml")),
    ("bandwidth", include_str!("../plans/bandwidth.toml")),
    ("icmp", include_str!("../plans/icmp.toml")),
    ("frames", include_str!("../plans/frames.toml")),
    ("baseline", include_str!("../plans/baseline.toml")),
    ("inventory", include_str!("../plans/inventory.toml")),
    ("buffers", include_str!("../plans/buffers.toml")),
    ("cpus", include_str!("../plans/cpus.toml")),
    ("tuning", include_str!("../plans/tuning.toml")),
    ("load", include_str!("../plans/load.toml")),
    ("gigabit", include_str!("../plans/gigabit.toml")),
    ("bench", include_str!("../plans/bench.toml")),
    ("ablation", include_str!("../plans/ablation.toml")),
    ("link", include_str!("../plans/link.toml")),
    ("large", include_str!("../plans/large.toml")),
];

/// A repetition never measures longer than this many seconds, so that no load is unbounded.
pub const LONGEST_REPETITION: f64 = 60.0;

/// Largest message in bytes; larger ones say nothing new about a network.
pub const LARGEST_MESSAGE: usize = 4 << 20;

/// Beyond this a link is not one: control connections would break, too.
const MOST_LOSS: f64 = 0.2;

/// What to measure, on which links, how often.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Plan {
    /// Short name, for tables.
    pub name: String,
    /// One sentence on what the plan answers.
    pub about: String,
    /// How long it takes on the virtual network, in words.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub takes: String,
    /// The tables and figures of papers that it repeats, in words.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub repeats: String,
    /// Seed of the random order of the repetitions.
    #[serde(default = "one")]
    pub seed: u64,
    /// Repetitions of every cell, at least. Six are the fewest that can give a 95 % interval.
    pub repetitions: u32,
    /// Cells whose interval is still too wide are repeated up to this often.
    pub max_repetitions: u32,
    /// An interval is narrow enough when its half width is at most this share of the median.
    #[serde(default = "five_percent")]
    pub precision: f64,
    /// The virtual links to lay, by name; unused between two machines.
    pub link: BTreeMap<String, LinkPlan>,
    /// TCP settings, by name; each is measured as a variant of its own.
    #[serde(default)]
    pub tcp: BTreeMap<String, TcpOptions>,
    /// Settings of GigaE endpoints, by name.
    #[serde(default)]
    pub gigae: BTreeMap<String, GigaeOptions>,
    /// Settings of the raw AF_XDP link, by name.
    #[serde(default)]
    pub xdp: BTreeMap<String, XdpOptions>,
    /// Settings of the interfaces and the kernel to try.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tune: Option<TunePlan>,
    /// What to measure.
    pub experiment: Vec<ExperimentPlan>,
    /// What to say about it, and what is asked of it.
    #[serde(default)]
    pub figure: Vec<FigurePlan>,
    /// Variants to set beside one another, and beside the paper.
    #[serde(default)]
    pub row: Vec<RowPlan>,
    /// The papers whose figures it carries, by a short name: authors, title and year.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub source: BTreeMap<String, String>,
    /// Figures that papers printed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub paper: Vec<PaperPlan>,
    /// Sentences that papers printed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub said: Vec<SaidPlan>,
}

/// A virtual link.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LinkPlan {
    /// Both nodes back to back, without a switch, as in 003; cannot be shaped.
    #[serde(default)]
    pub cable: bool,
    /// This machine's own loopback interface: no network at all, and the same between two machines.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub loopback: bool,
    /// So many cables, or switches of this rate, side by side, 1 to 8: those transports that can use
    /// them all as one, the others the first.
    #[serde(default = "one_link")]
    pub links: u16,
    /// Nodes of the network, 2 to 17: the receiver and those on which senders of an incast experiment are, in
    /// turn.
    #[serde(default = "two_nodes", skip_serializing_if = "are_two")]
    pub nodes: u16,
    /// Rate in Mbit/s that the switch's ports are shaped to; absent: as fast as the machine can.
    pub rate_mbit: Option<u64>,
    /// MTU in bytes.
    #[serde(default = "ethernet_mtu")]
    pub mtu: u32,
    /// Switch buffer per port in bytes; absent: the fabric's default.
    pub buffer: Option<u32>,
    /// Probability that the switch loses a frame, either way, drawn from the plan's seed.
    #[serde(default)]
    pub loss: f64,
}

impl Default for LinkPlan {
    fn default() -> Self {
        Self {
            cable: false,
            loopback: false,
            links: one_link(),
            nodes: two_nodes(),
            rate_mbit: None,
            mtu: ethernet_mtu(),
            buffer: None,
            loss: 0.0,
        }
    }
}

/// One experiment of a plan: the product of its lists.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ExperimentPlan {
    /// What to measure.
    pub kind: Experiment,
    /// Names of links of this plan. Between two machines every experiment runs once on the link there is.
    #[serde(default)]
    pub links: Vec<String>,
    /// Names of transports.
    #[serde(default)]
    pub transports: Vec<String>,
    /// Names of TCP settings that this experiment uses, [`DEFAULT`] among them for none; absent: all
    /// that the plan has.
    pub tcp: Option<Vec<String>>,
    /// The same of GigaE endpoints.
    pub gigae: Option<Vec<String>>,
    /// The same of the raw AF_XDP link.
    pub xdp: Option<Vec<String>>,
    /// Message sizes; those that a transport cannot carry are left out for it.
    pub sizes: Vec<Size>,
    /// Styles of waiting; those that a transport does not have are left out for it.
    #[serde(default)]
    pub waits: Vec<Wait>,
    /// Messages per second of a paced experiment; each is a cell of its own.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub rates: Vec<f64>,
    /// How many CPUs both ends have between them; absent: two.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub cpus: Vec<Cpus>,
    /// TCP streams beside what is measured; absent: none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub bulk: Vec<u32>,
    /// How many send to one, of an incast experiment; each is a cell of its own.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub senders: Vec<u32>,
    /// Whether it is measured under every setting of `[tune]`.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub tune: bool,
    /// Seconds measured per repetition.
    pub seconds: f64,
    /// Seconds before that, discarded.
    pub warmup: f64,
}

/// How an end waits for a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Wait {
    /// Looks again and again; never gives up the CPU.
    Spin,
    /// Sleeps in the kernel until something arrived.
    Sleep,
    /// Spins for a while, then sleeps.
    Adaptive,
}

impl Wait {
    /// The name in plans and results.
    pub fn name(self) -> &'static str {
        match self {
            Self::Spin => "spin",
            Self::Sleep => "sleep",
            Self::Adaptive => "adaptive",
        }
    }
}

/// A message size.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(untagged)]
pub enum Size {
    /// Bytes of payload.
    Bytes(usize),
    /// The largest payload that the transport fits into one frame (`"frame"` in a plan).
    #[serde(serialize_with = "frame_word")]
    Frame,
}

impl Size {
    /// The size in bytes for this transport on a link of this MTU.
    pub fn bytes(self, transport: &dyn Transport, mtu: usize) -> usize {
        match self {
            Self::Bytes(bytes) => bytes,
            Self::Frame => transport.frame_payload(mtu),
        }
    }
}

fn frame_word<S: serde::Serializer>(serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str("frame")
}

impl<'de> Deserialize<'de> for Size {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        #[serde(untagged)]
        enum Raw {
            Bytes(usize),
            Word(String),
        }
        match Raw::deserialize(deserializer) {
            Ok(Raw::Bytes(bytes)) => Ok(Self::Bytes(bytes)),
            Ok(Raw::Word(word)) if word == "frame" => Ok(Self::Frame),
            _ => Err(serde::de::Error::custom("a size is a number of bytes or \"frame\"")),
        }
    }
}

fn one() -> u64 {
    1
}
fn one_link() -> u16 {
    1
}
fn two_nodes() -> u16 {
    2
}
#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde calls it so")]
fn are_two(nodes: &u16) -> bool {
    *nodes == 2
}
fn five_percent() -> f64 {
    0.05
}
fn ethernet_mtu() -> u32 {
    1500
}

/// A plan could not be used. The text is one line and says what to do.
#[derive(Debug)]
pub enum PlanError {
    /// Neither a shipped plan nor a file.
    Unknown(String),
    /// The file could not be read.
    Unreadable {
        /// The file.
        file: String,
        /// Why.
        source: std::io::Error,
    },
    /// Not a plan.
    Malformed {
        /// The plan or file.
        plan: String,
        /// Where and why, in one line.
        reason: String,
    },
    /// It has not what `--only` names.
    NoPart {
        /// The plan.
        plan: String,
        /// What it lacks, and what it has.
        reason: String,
    },
}

impl fmt::Display for PlanError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unknown(name) => {
                let names: Vec<_> = SHIPPED.iter().map(|(name, _)| *name).collect();
                write!(
                    f,
                    "no plan or file '{name}'; choose one of {} or name a TOML file",
                    names.join(", ")
                )
            }
            Self::Unreadable { file, source } => {
                write!(f, "cannot read plan '{file}': {source}; name a readable TOML file")
            }
            Self::Malformed { plan, reason } => {
                write!(f, "plan '{plan}': {reason}; see the shipped plans for the form")
            }
            Self::NoPart { plan, reason } => write!(f, "--only: plan '{plan}' {reason}"),
        }
    }
}

impl std::error::Error for PlanError {}

impl Plan {
    /// Finds a plan by the name of a shipped one or the path of a file, and checks it.
    pub fn load(name: &str) -> Result<Self, PlanError> {
        if let Some((_, text)) = SHIPPED.iter().find(|(shipped, _)| *shipped == name) {
            return Self::parse(name, text);
        }
        if !Path::new(name).exists() {
            return Err(PlanError::Unknown(name.to_owned()));
        }
        let text = std::fs::read_to_string(name)
            .map_err(|source| PlanError::Unreadable { file: name.to_owned(), source })?;
        Self::parse(name, &text)
    }

    /// Parses and checks the text of a plan; `name` is for errors.
    pub fn parse(name: &str, text: &str) -> Result<Self, PlanError> {
        let malformed = |reason: String| PlanError::Malformed { plan: name.to_owned(), reason };
        let plan: Self = toml::from_str(text).map_err(|error| {
            let line = error
                .span()
                .map(|span| text[..span.start].matches('\n').count() + 1)
                .map_or(String::new(), |line| format!("line {line}: "));
            malformed(format!("{line}{}", error.message().replace('\n', " ")))
        })?;
        plan.check().map_err(malformed)?;
        Ok(plan)
    }

    fn check(&self) -> Result<(), String> {
        if self.repetitions == 0 || self.max_repetitions < self.repetitions {
            return Err("repetitions must be at least 1 and at most max_repetitions".into());
        }
        if self.max_repetitions > 1000 {
            return Err("max_repetitions must be at most 1000".into());
        }
        if !(0.001..=1.0).contains(&self.precision) {
            return Err("precision must be from 0.001 to 1".into());
        }
        if self.link.is_empty() || self.experiment.is_empty() {
            return Err("at least one [link.NAME] and one [[experiment]] are needed".into());
        }
        for (name, link) in &self.link {
            link.check().map_err(|why| format!("link '{name}': {why}"))?;
        }
        self.check_settings()?;
        self.experiment.iter().try_for_each(|experiment| self.check_experiment(experiment))?;
        if self.experiment.iter().all(|experiment| experiment.kind == Experiment::Memory) {
            return Err("at least one experiment must use a link".into());
        }
        figure::check(self)?;
        tune::check(self)?;
        paper::check(self)
    }

    fn check_settings(&self) -> Result<(), String> {
        for transport in transport::all() {
            let transport = transport.name();
            for (name, setting) in self.settings(transport) {
                if name == DEFAULT {
                    return Err(format!(
                        "[{transport}.{DEFAULT}]: that name means no setting; choose another"
                    ));
                }
                setting.check().map_err(|why| format!("[{transport}.{name}]: {why}"))?;
            }
        }
        Ok(())
    }

    fn check_experiment(&self, experiment: &ExperimentPlan) -> Result<(), String> {
        for name in &experiment.transports {
            if transport::by_name(name).is_none() {
                return Err(format!("unknown transport '{name}', known: {}", transport::names()));
            }
        }
        for name in &experiment.links {
            if !self.link.contains_key(name) {
                return Err(format!("an experiment names the unknown link '{name}'"));
            }
        }
        for transport in transport::all() {
            let transport = transport.name();
            for name in experiment.selected(transport).unwrap_or_default() {
                if !cell::is_variant(self, transport, name) {
                    return Err(format!(
                        "an experiment names the unknown {transport} setting '{name}'"
                    ));
                }
            }
        }
        if !(0.01..=LONGEST_REPETITION).contains(&experiment.seconds)
            || !(0.0..=LONGEST_REPETITION).contains(&experiment.warmup)
        {
            return Err(format!(
                "seconds must be from 0.01 to {LONGEST_REPETITION}, warmup from 0"
            ));
        }
        experiment.check_lists()
    }
}

impl LinkPlan {
    fn check(&self) -> Result<(), String> {
        if !(576..=9000).contains(&self.mtu) || self.rate_mbit == Some(0) {
            return Err("mtu must be from 576 to 9000, rate_mbit above 0".into());
        }
        if !(0.0..=MOST_LOSS).contains(&self.loss) {
            return Err(format!("loss must be from 0 to {MOST_LOSS}"));
        }
        if !(1..=8).contains(&self.links) || self.links > 1 && self.loss > 0.0 {
            return Err("links must be from 1 to 8, and 1 where there is a loss".into());
        }
        if !(2..=17).contains(&self.nodes) || self.nodes > 2 && self.cable {
            return Err("nodes must be from 2 to 17, and 2 of a cable".into());
        }
        if self.loopback && !self.is_plain() {
            return Err("a loopback is nothing else; leave out all other keys".into());
        }
        if self.cable && (self.rate_mbit.is_some() || self.loss > 0.0) {
            return Err("a cable has neither rate_mbit nor loss; leave out cable".into());
        }
        Ok(())
    }
}

impl LinkPlan {
    /// Whether all but `loopback` is left out.
    fn is_plain(&self) -> bool {
        let shaped = self.rate_mbit.is_some() || self.buffer.is_some() || self.loss > 0.0;
        !(self.cable || shaped)
            && (self.links, self.nodes, self.mtu) == (one_link(), two_nodes(), ethernet_mtu())
    }
}

impl ExperimentPlan {
    /// What must be there for its kind, and what makes no sense with it.
    fn check_lists(&self) -> Result<(), String> {
        for size in &self.sizes {
            // Every message carries a number of four bytes, by which an echo is recognised.
            if matches!(size, Size::Bytes(bytes) if !(4..=LARGEST_MESSAGE).contains(bytes)) {
                return Err(format!(
                    "sizes must be from 4 to {LARGEST_MESSAGE} bytes or \"frame\""
                ));
            }
        }
        for condition in self.conditions() {
            condition.check(self.kind)?;
        }
        if self.tune && self.kind == Experiment::Memory {
            return Err("a memory experiment has no interface to tune".into());
        }
        let spins = self.kind == Experiment::Paced || self.waits != [Wait::Sleep];
        if self.kind == Experiment::Incast && self.waits != [Wait::Sleep] {
            return Err("many senders share a CPU, so an incast experiment sleeps".into());
        }
        if spins && self.cpus.contains(&Cpus::One) {
            return Err("ends on one CPU must sleep, or neither lets the other run".into());
        }
        let network =
            !(self.links.is_empty() && self.transports.is_empty() && self.waits.is_empty());
        match self.kind {
            Experiment::Memory if network || self.sizes.contains(&Size::Frame) => {
                Err("a memory experiment has sizes in bytes and no links, transports or waits"
                    .into())
            }
            Experiment::Memory if self.sizes.is_empty() => Err("an experiment needs sizes".into()),
            Experiment::Memory => Ok(()),
            _ if self.links.is_empty() || self.sizes.is_empty() || self.waits.is_empty() => {
                Err("an experiment needs links, sizes and waits".into())
            }
            _ => Ok(()),
        }
    }
}
