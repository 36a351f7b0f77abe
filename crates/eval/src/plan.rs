//! Plans: which transports are measured how, as data (TOML).
//!
//! A plan is parsed strictly: an unknown key, an unknown transport or a figure out of range is an
//! error that names it. What a plan does not do: it holds no results and no addresses; the same plan
//! runs on a virtual network and between two machines.

use crate::transport;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fmt;
use std::path::Path;
use std::time::Duration;

/// The plans that come with the program, by name.
pub const SHIPPED: &[(&str, &str)] = &[
    ("quick", include_str!("../plans/quick.toml")),
    ("gigabit", include_str!("../plans/gigabit.toml")),
    ("ratios", include_str!("../plans/ratios.toml")),
];

/// A repetition never measures longer than this many seconds, so that no load is unbounded.
pub const LONGEST_REPETITION: f64 = 60.0;

/// Largest message in bytes; larger ones say nothing new about a network.
pub const LARGEST_MESSAGE: usize = 1 << 20;

/// What to measure, on which links, how often.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Plan {
    /// Short name, for tables.
    pub name: String,
    /// One sentence on what the plan answers.
    pub about: String,
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
    pub tcp: BTreeMap<String, TcpOptions>,
    /// What to measure.
    pub experiment: Vec<ExperimentPlan>,
}

/// A virtual link.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LinkPlan {
    /// Both nodes back to back, without a switch, as in 003; cannot be shaped.
    #[serde(default)]
    pub cable: bool,
    /// Rate in Mbit/s that the switch's ports are shaped to; absent: as fast as the machine can.
    pub rate_mbit: Option<u64>,
    /// MTU in bytes.
    #[serde(default = "ethernet_mtu")]
    pub mtu: u32,
    /// Switch buffer per port in bytes; absent: the fabric's default.
    pub buffer: Option<u32>,
}

/// How TCP's sockets are set.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TcpOptions {
    /// `TCP_NODELAY`: no waiting for more to send (tcp(7)).
    #[serde(default)]
    pub nodelay: bool,
    /// `SO_SNDBUF` and `SO_RCVBUF` in bytes; absent: the kernel tunes them (tcp(7) `tcp_moderate_rcvbuf`).
    pub buffer: Option<u32>,
    /// Keep an idle GigaE endpoint open on both interfaces, to see what it costs TCP.
    pub beside: Option<Beside>,
}

/// Which kernel interface an idle endpoint uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Beside {
    /// The one that the self-test chooses.
    Chosen,
    /// AF_XDP, program above the driver.
    Generic,
    /// AF_XDP, program in the driver.
    Native,
    /// AF_PACKET.
    Packet,
}

/// One experiment of a plan: the product of its lists.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ExperimentPlan {
    /// Round trips or streams.
    pub kind: Experiment,
    /// Names of links of this plan. Between two machines every experiment runs once on the link there is.
    pub links: Vec<String>,
    /// Names of transports.
    pub transports: Vec<String>,
    /// Names of TCP settings that this experiment uses; absent: all.
    pub tcp: Option<Vec<String>>,
    /// Message sizes; those that a transport cannot carry are left out for it.
    pub sizes: Vec<Size>,
    /// Styles of waiting; those that a transport does not have are left out for it.
    pub waits: Vec<Wait>,
    /// Seconds measured per repetition.
    pub seconds: f64,
    /// Seconds before that, discarded.
    pub warmup: f64,
}

/// What is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Experiment {
    /// A message goes out, one of the same length comes back: microseconds.
    Rtt,
    /// Messages go one way as fast as they can: 10^6 bytes per second at the receiver.
    Stream,
}

impl Experiment {
    /// The unit of its figures.
    pub fn unit(self) -> &'static str {
        match self {
            Self::Rtt => "us",
            Self::Stream => "MB/s",
        }
    }

    /// The name in plans and results.
    pub fn name(self) -> &'static str {
        match self {
            Self::Rtt => "rtt",
            Self::Stream => "stream",
        }
    }
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
fn five_percent() -> f64 {
    0.05
}
fn ethernet_mtu() -> u32 {
    1500
}

/// One thing to measure: a point of a curve.
#[derive(Clone, Debug, PartialEq)]
pub struct Cell {
    /// Round trips or streams.
    pub experiment: Experiment,
    /// Name of the transport.
    pub transport: String,
    /// Name of the TCP setting, for TCP.
    pub variant: Option<String>,
    /// The TCP setting itself; without meaning for others.
    pub tcp: TcpOptions,
    /// How both ends wait.
    pub wait: Wait,
    /// Payload in bytes.
    pub size: usize,
    /// Measured part of a repetition.
    pub measure: Duration,
    /// Discarded part before it.
    pub warmup: Duration,
}

impl Cell {
    /// The transport, and its variant where it has one, for people.
    pub fn label(&self) -> String {
        label(&self.transport, self.variant.as_deref())
    }
}

/// A transport's name with its variant.
pub fn label(transport: &str, variant: Option<&str>) -> String {
    variant.map_or_else(|| transport.to_owned(), |variant| format!("{transport} {variant}"))
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
            if !(576..=9000).contains(&link.mtu) || link.rate_mbit == Some(0) {
                return Err(format!(
                    "link '{name}': mtu must be from 576 to 9000, rate_mbit above 0"
                ));
            }
        }
        self.experiment.iter().try_for_each(|experiment| self.check_experiment(experiment))
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
        for name in experiment.tcp.iter().flatten() {
            if !self.tcp.contains_key(name) {
                return Err(format!("an experiment names the unknown TCP setting '{name}'"));
            }
        }
        if experiment.links.is_empty() || experiment.sizes.is_empty() || experiment.waits.is_empty()
        {
            return Err("an experiment needs links, sizes and waits".into());
        }
        if !(0.01..=LONGEST_REPETITION).contains(&experiment.seconds)
            || !(0.0..=LONGEST_REPETITION).contains(&experiment.warmup)
        {
            return Err(format!(
                "seconds must be from 0.01 to {LONGEST_REPETITION}, warmup from 0"
            ));
        }
        for size in &experiment.sizes {
            // Every message carries a number of four bytes, by which an echo is recognised.
            if matches!(size, Size::Bytes(bytes) if !(4..=LARGEST_MESSAGE).contains(bytes)) {
                return Err(format!(
                    "sizes must be from 4 to {LARGEST_MESSAGE} bytes or \"frame\""
                ));
            }
        }
        Ok(())
    }

    /// All that is to be measured on a link of this MTU; `link` is `None` between two machines,
    /// where every experiment of the plan runs on the link there is.
    pub fn cells(&self, link: Option<&str>, mtu: usize) -> Vec<Cell> {
        let mut cells = Vec::new();
        for experiment in &self.experiment {
            if link.is_none_or(|link| experiment.links.iter().any(|name| name == link)) {
                for name in &experiment.transports {
                    self.transport_cells(experiment, name, mtu, &mut cells);
                }
            }
        }
        cells
    }

    fn transport_cells(
        &self,
        plan: &ExperimentPlan,
        name: &str,
        mtu: usize,
        cells: &mut Vec<Cell>,
    ) {
        let transport = transport::by_name(name).expect("checked when the plan was parsed");
        if !transport.experiments().contains(&plan.kind) {
            return;
        }
        let wanted =
            |variant: &str| plan.tcp.as_ref().is_none_or(|tcp| tcp.iter().any(|t| t == variant));
        let variants: Vec<(Option<String>, TcpOptions)> = if name == "tcp" {
            let named = self.tcp.iter().filter(|(variant, _)| wanted(variant));
            named.map(|(variant, options)| (Some(variant.clone()), *options)).collect()
        } else {
            vec![(None, TcpOptions::default())]
        };
        for (variant, tcp) in variants {
            for &wait in plan.waits.iter().filter(|wait| transport.waits().contains(wait)) {
                for &size in &plan.sizes {
                    let size = match size {
                        Size::Bytes(bytes) => bytes,
                        Size::Frame => transport.frame_payload(mtu),
                    };
                    let cell = Cell {
                        experiment: plan.kind,
                        transport: name.to_owned(),
                        variant: variant.clone(),
                        tcp,
                        wait,
                        size,
                        measure: Duration::from_secs_f64(plan.seconds),
                        warmup: Duration::from_secs_f64(plan.warmup),
                    };
                    // A size may be named twice ("frame" and its number), an experiment twice between machines.
                    let known = cells.iter().any(|other| {
                        (other.experiment, &other.transport, &other.variant, other.wait, other.size)
                            == (
                                cell.experiment,
                                &cell.transport,
                                &cell.variant,
                                cell.wait,
                                cell.size,
                            )
                    });
                    if size <= transport.largest(mtu) && !known {
                        cells.push(cell);
                    }
                }
            }
        }
    }
}
