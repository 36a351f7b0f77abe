//! The configuration of a run.

use gigae_eval_model::plan::Plan;
use gigae_eval_services::host::Host;
use gigae_eval_session::control::Key;
use std::ffi::OsString;

/// What to run and where.
pub struct Config {
    /// What to measure.
    pub plan: Plan,
    /// The other machine; `None` measures on virtual networks.
    pub peer: Option<RemoteEnd>,
    /// Where the other machine is if it is not one: in a guest of the NIC lab, a network namespace.
    /// File servers then are this process's, and the ground of their figures is *lab*.
    pub lab: Option<Host>,
    /// Command line of the serving end on a virtual network.
    pub serve: Vec<OsString>,
    /// Other programs to run beside.
    pub with: ProgramRuns,
    /// Command line of this run, for the record.
    pub command: String,
}

/// Other programs to run beside, and how often.
#[derive(Clone, Debug, Default)]
pub struct ProgramRuns {
    /// Their names, [`gigae_eval_session::programs::ALL`] among them for all that are installed;
    /// none if empty.
    pub names: Vec<String>,
    /// Pairs for each comparison.
    pub pairs: u32,
}

/// Another machine.
pub struct RemoteEnd {
    /// Host or address of its control connection.
    pub host: String,
    /// This end's interface towards it, or several with commas between them.
    pub nic: String,
    /// The shared key.
    pub key: Key,
}
