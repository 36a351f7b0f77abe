//! Why a cluster could not be measured.

use crate::launcher::LauncherError;
use gigae_eval_measure::site::SiteError;
use gigae_eval_page::files::WriteError;
use gigae_eval_session::control::ControlError;
use std::io;

/// A cluster could not be measured. The text is one line and says what to do.
#[derive(Debug, thiserror::Error)]
pub enum ClusterError {
    /// There is no launcher, or it fails.
    #[error(transparent)]
    Launcher(#[from] LauncherError),
    /// The interface cannot be used.
    #[error(transparent)]
    Site(#[from] SiteError),
    /// Nobody says which interface is to be measured.
    #[error("{0}; choose the interface with --nic")]
    Interface(String),
    /// The interfaces could not be listed, or the control port not be opened.
    #[error("{what} failed: {source}; check the permissions")]
    Io {
        /// What was tried.
        what: &'static str,
        /// Why it failed.
        source: io::Error,
    },
    /// Another rank said something that is not its card.
    #[error(
        "rank {0} says of itself what this version does not understand; install the same gigae on all nodes"
    )]
    Card(u32),
    /// All ranks are on one host.
    #[error(
        "all {0} ranks are on one host; a cluster needs at least two, one rank each: mpirun -n N --map-by node, or srun -N N --ntasks-per-node=1"
    )]
    OneHost(u32),
    /// There are more hosts than results have room for.
    #[error("{0} hosts are too many; measure at most {1} at once")]
    TooMany(usize, usize),
    /// A rank went away, or is not there.
    #[error("rank {rank} on {host} {what}; look at its messages there and start the run again")]
    Rank {
        /// Its number.
        rank: u32,
        /// Its host's name.
        host: String,
        /// What became of it.
        what: String,
    },
    /// The results could not be written.
    #[error(transparent)]
    Write(#[from] WriteError),
    /// The control connection could not be secured.
    #[error(transparent)]
    Control(#[from] ControlError),
    /// Nothing was measured.
    #[error("nothing could be measured: {0}")]
    Nothing(String),
    /// Ctrl-C.
    #[error("interrupted; nothing was written")]
    Interrupted,
}
