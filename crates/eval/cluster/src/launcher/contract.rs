//! What every launcher does for its ranks, and how it may fail.

use std::io;

/// What the ranks of a job exchange, by way of their launcher.
pub trait Launcher {
    /// What it speaks.
    fn protocol(&self) -> &'static str;
    /// The number of this process, from 0.
    fn rank(&self) -> u32;
    /// How many processes there are.
    fn size(&self) -> u32;
    /// Says something of this rank. The value has no white space and at most [`MOST_VALUE`] bytes.
    fn put(&mut self, value: &str) -> Result<(), LauncherError>;
    /// Waits until all ranks have come here. What each one has put is known to all others then.
    fn fence(&mut self) -> Result<(), LauncherError>;
    /// What a rank has put.
    fn get(&mut self, rank: u32) -> Result<String, LauncherError>;
    /// Says that this process needs the launcher no longer.
    fn finish(&mut self) -> Result<(), LauncherError>;
}

/// Bytes of a value that every launcher passes on.
pub const MOST_VALUE: usize = 1000;

/// What a rank says of itself is kept under this name.
pub(super) const KEY: &str = "gigae-cluster";

/// There is no launcher, or it fails. The text is one line and says what to do.
#[derive(Debug, thiserror::Error)]
pub enum LauncherError {
    /// Nothing in the environment names a launcher.
    #[error(
        "no launcher started this process; run: mpirun -n N --map-by node gigae eval --cluster-run, or: srun --mpi=pmi2 -N N --ntasks-per-node=1 gigae eval --cluster-run"
    )]
    None,
    /// Slurm started the process without an exchange between ranks.
    #[error(
        "srun started this process without a way to reach the other ranks; add --mpi=pmix or --mpi=pmi2 ('srun --mpi=list' says which there are)"
    )]
    SlurmWithoutPmi,
    /// The library of PMIx cannot be loaded.
    #[error(
        "libpmix.so.2 cannot be loaded: {0}; install it on every node (on Debian: apt-get install libpmix2), put its directory into LD_LIBRARY_PATH, or use a launcher with PMI: mpiexec of MPICH, or srun --mpi=pmi2"
    )]
    NoLibrary(String),
    /// This program is linked statically.
    #[error(
        "this gigae is linked statically and cannot load libpmix.so.2; use one that 'make install' built, or a launcher with PMI: mpiexec of MPICH, or srun --mpi=pmi2"
    )]
    Static,
    /// A variable of the environment is wrong.
    #[error("the launcher set {name} to '{value}', which is no number; start the job again")]
    Variable {
        /// The variable.
        name: &'static str,
        /// What it is.
        value: String,
    },
    /// The launcher said something else than its protocol allows.
    #[error(
        "the launcher answered '{answer}' to {request}; see that it speaks {protocol}, and that all nodes have the same version of it"
    )]
    Answer {
        /// What was spoken.
        protocol: &'static str,
        /// What was asked.
        request: &'static str,
        /// The answer, shortened.
        answer: String,
    },
    /// A call of PMIx failed.
    #[error("{call} failed with status {status}; look at the launcher's messages and try again")]
    Pmix {
        /// The call.
        call: &'static str,
        /// PMIx's number.
        status: i32,
    },
    /// The connection to the launcher failed.
    #[error(
        "the launcher cannot be reached: {0}; look at its messages and see that all ranks started"
    )]
    Io(#[from] io::Error),
}

/// The beginning of what a launcher said, for an error.
pub(super) fn shortened(text: &str) -> String {
    text.trim_end().chars().map(|c| if c.is_control() { ' ' } else { c }).take(120).collect()
}
