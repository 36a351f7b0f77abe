//! What a guest is asked, and what it reports: plain data, as JSON.

use gigae_eval_model::results::Results;
use serde::{Deserialize, Serialize};

/// Where the guest finds its job.
pub const JOB: &str = "/job.json";

/// What the guest is to do, in this order.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Job {
    /// Files of kernel modules in the image, in the order in which to load them.
    pub modules: Vec<String>,
    /// The steps.
    pub steps: Vec<Step>,
    /// Messages that each end sends to the other in [`Step::Messages`].
    pub messages: u32,
    /// Longest MTU to try in bytes.
    pub mtu: u32,
    /// Frames that a card holds while the driver does not run.
    pub held: usize,
    /// Who serves the cards' interrupts.
    pub interrupts: Interrupts,
    /// The evaluator's plan, as TOML.
    pub plan: String,
    /// The plan of [`Step::Files`], as TOML.
    pub files: String,
    /// Whether the root directory is that of the machine on which the guest runs.
    pub machine: bool,
}

/// The mount tag of the machine's root directory.
pub const MACHINE: &str = "machine";

/// One thing to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Step {
    /// Which modes open, and what refuses the others.
    Modes,
    /// The inventory, as `gigae nic` shows it.
    Inventory,
    /// The conformance suite in every mode that opens, and over AF_PACKET.
    Conformance,
    /// Messages both ways beside TCP, every byte looked at.
    Messages,
    /// The same while the interface is taken down, changed, and taken away.
    Events,
    /// The evaluator's plan.
    Figures,
    /// File services of the machine.
    Files,
}

impl Step {
    /// Those that are done unless others are asked for, in this order. Not file services, which
    /// need programs of this machine.
    pub const USUAL: [Self; 6] = [
        Self::Modes,
        Self::Inventory,
        Self::Conformance,
        Self::Messages,
        Self::Events,
        Self::Figures,
    ];

    /// The one of this name.
    pub fn find(name: &str) -> Option<Self> {
        Self::USUAL.into_iter().chain([Self::Files]).find(|step| step.name() == name)
    }

    /// Its name in arguments.
    pub fn name(self) -> &'static str {
        match self {
            Self::Modes => "modes",
            Self::Inventory => "inventory",
            Self::Conformance => "conformance",
            Self::Messages => "messages",
            Self::Events => "events",
            Self::Figures => "figures",
            Self::Files => "files",
        }
    }
}

/// Which processors serve the cards' interrupts. The measuring end runs on the last processor, the
/// answering end on the first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, clap::ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub enum Interrupts {
    /// Each card's the processor of its end.
    #[default]
    Own,
    /// Each card's the other processor.
    Other,
    /// All the first processor.
    First,
}

/// What a guest reports, one line each.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Report {
    /// It runs.
    Booted(Booted),
    /// What it is about to do, for the terminal.
    Begins(String),
    /// What opened at an MTU.
    Opened(Opened),
    /// One test of the conformance suite.
    Test(Test),
    /// An exchange of messages.
    Exchange(Exchange),
    /// The inventory.
    Inventory(String),
    /// What the plan gave.
    Figures(Box<Results>),
    /// What the plan of file services gave.
    Files(Box<Results>),
    /// Interrupts of the device by which the guest reads the machine's files, while a plan with
    /// file services was measured.
    MachineReads(u64),
    /// What the kernel said with a warning or more, since the modules were loaded.
    Kernel(Vec<String>),
    /// A step could not be done.
    Failed(Failed),
    /// All is done.
    Done,
}

/// A guest that runs.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Booted {
    /// The kernel's release.
    pub kernel: String,
    /// Processors.
    pub cpus: usize,
    /// Memory that the kernel has, in MiB.
    pub memory: u64,
    /// The driver, as the bus names it.
    pub driver: String,
}

/// What came of opening a link.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Opened {
    /// What was asked for: `auto`, a mode, or `packet`.
    pub asked: String,
    /// MTU in bytes.
    pub mtu: u32,
    /// The mode that was reached; `None` if it was refused.
    pub mode: Option<String>,
    /// Why this one, or what refused it.
    pub reason: String,
}

/// One test of the suite.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Test {
    /// Backend and MTU.
    pub of: String,
    /// The test.
    pub name: String,
    /// What it said when it failed.
    pub failure: Option<String>,
}

/// Messages that were exchanged.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Exchange {
    /// Backend, MTU, and what happened during the exchange.
    pub of: String,
    /// The mode.
    pub mode: String,
    /// Messages that arrived unchanged and in order, both ways.
    pub messages: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Bytes of TCP beside, that went and came back unchanged.
    pub tcp: u64,
    /// Frames posted by both ends.
    pub frames: u64,
    /// Data frames that were repeated.
    pub repeated: u64,
    /// Data frames that arrived more than once: of those repeated, the ones that had not been lost.
    pub duplicates: u64,
    /// Frames that the links of both ends had no room for, as they count it.
    pub dropped: u64,
    /// Frames with a bad checksum.
    pub corrupt: u64,
    /// Frames by both cards' counters, sent and received.
    pub device: [u64; 2],
    /// Calls that failed because the interface was down, gone or detached.
    #[serde(rename = "told")]
    pub link_errors: u64,
    /// Messages that came back as failed and were sent again.
    pub returned: u64,
    /// Virtual seconds.
    pub seconds: f64,
    /// What went wrong.
    pub failure: Option<String>,
}

impl Exchange {
    /// Data frames that were repeated although, as far as is known, they had to be.
    pub fn lost(&self) -> u64 {
        self.repeated.saturating_sub(self.duplicates)
    }
}

/// A step that could not be done.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Failed {
    /// What.
    pub what: String,
    /// Why.
    pub why: String,
}
