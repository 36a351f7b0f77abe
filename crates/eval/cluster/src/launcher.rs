//! What a process learns from the launcher that started it: its rank, how many ranks there are,
//! and what the other ranks say of themselves.
//!
//! | the environment has | this is | it speaks |
//! |---|---|---|
//! | `PMI_FD`, an open socket, and Slurm's `PMI_JOBID` | `srun --mpi=pmi2` | [PMI-2](pmi2) |
//! | `PMI_FD`, an open socket | `mpiexec` of MPICH (Hydra) | [PMI-1](pmi1) |
//! | `PMIX_NAMESPACE` and `PMIX_RANK` | `mpirun` of Open MPI, `srun --mpi=pmix` | [PMIx](pmix) |
//!
//! A launcher may have been started by another one, whose variables are still there. `PMI_FD` of
//! another process is no open socket here. So the first line that holds counts.

mod contract;
pub mod pmi1;
pub mod pmi2;
pub mod pmix;
mod stream;

pub use contract::{Launcher, LauncherError, MOST_VALUE};
pub use stream::PmiStream;

/// The environment, as far as it names a launcher.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Surroundings {
    /// `PMI_FD`, and whether it is an open socket.
    pub pmi_fd: Option<(String, bool)>,
    /// Whether `PMI_JOBID` and a variable of a Slurm step are there.
    pub slurm_pmi: bool,
    /// Whether `PMIX_NAMESPACE` and `PMIX_RANK` are there.
    pub pmix: bool,
    /// Whether a Slurm step started this process.
    pub slurm: bool,
}

/// Which protocol is spoken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Protocol {
    /// MPICH's `mpiexec`.
    Pmi1(i32),
    /// `srun --mpi=pmi2`.
    Pmi2(i32),
    /// Open MPI's `mpirun`, `srun --mpi=pmix`.
    Pmix,
}

impl Surroundings {
    /// Those of this process.
    pub fn read() -> Self {
        let has = |name: &str| std::env::var_os(name).is_some();
        let slurm = has("SLURM_STEP_ID") && has("SLURM_PROCID");
        let pmi_fd = std::env::var("PMI_FD").ok().map(|text| {
            let open = text.parse().is_ok_and(stream::is_socket);
            (text, open)
        });
        Self {
            pmi_fd,
            slurm_pmi: slurm && has("PMI_JOBID"),
            pmix: has("PMIX_NAMESPACE") && has("PMIX_RANK"),
            slurm,
        }
    }

    /// What to speak.
    pub fn protocol(&self) -> Result<Protocol, LauncherError> {
        match &self.pmi_fd {
            Some((text, true)) => {
                let fd = text
                    .parse()
                    .map_err(|_| LauncherError::Variable { name: "PMI_FD", value: text.clone() })?;
                Ok(if self.slurm_pmi { Protocol::Pmi2(fd) } else { Protocol::Pmi1(fd) })
            }
            _ if self.pmix => Ok(Protocol::Pmix),
            _ if self.slurm => Err(LauncherError::SlurmWithoutPmi),
            _ => Err(LauncherError::None),
        }
    }
}

/// Reaches the launcher that started this process.
pub fn connect() -> Result<Box<dyn Launcher>, LauncherError> {
    match Surroundings::read().protocol()? {
        Protocol::Pmi1(fd) => {
            let (rank, size) = (number("PMI_RANK")?, number("PMI_SIZE")?);
            Ok(Box::new(pmi1::Pmi1::begin(PmiStream::of(fd)?, rank, size)?))
        }
        Protocol::Pmi2(fd) => {
            let rank = number("PMI_RANK")?;
            let job = std::env::var("PMI_JOBID").unwrap_or_default();
            Ok(Box::new(pmi2::Pmi2::begin(PmiStream::of(fd)?, &job, rank)?))
        }
        Protocol::Pmix => Ok(Box::new(pmix::Pmix::begin()?)),
    }
}

fn number(name: &'static str) -> Result<u32, LauncherError> {
    let value = std::env::var(name).unwrap_or_default();
    value.parse().map_err(|_| LauncherError::Variable { name, value })
}

#[cfg(test)]
pub(crate) mod testing {
    //! A launcher that follows a script.

    use std::collections::VecDeque;
    use std::io::{self, Read, Write};

    /// What is expected, and what is answered to it.
    #[derive(Debug)]
    pub(crate) struct Script {
        steps: VecDeque<(Vec<u8>, Vec<u8>)>,
        came: Vec<u8>,
        answer: VecDeque<u8>,
    }

    impl Script {
        pub(crate) fn new(steps: &[(&str, &str)]) -> Self {
            let bytes = |text: &str| text.as_bytes().to_vec();
            let steps = steps.iter().map(|(ask, answer)| (bytes(ask), bytes(answer))).collect();
            Self { steps, came: Vec::new(), answer: VecDeque::new() }
        }

        pub(crate) fn done(&self) {
            assert!(self.steps.is_empty() && self.answer.is_empty(), "{self:?}");
        }
    }

    impl Write for Script {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.came.extend(bytes);
            let expected = &self.steps.front().expect("another request is expected").0;
            let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
            assert!(expected.starts_with(&self.came), "{} {}", text(&self.came), text(expected));
            if *expected == self.came {
                self.came.clear();
                self.answer.extend(self.steps.pop_front().unwrap_or_default().1);
            }
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    impl Read for Script {
        fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
            self.answer.read(buffer)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_launcher_that_started_this_very_process_counts() {
        let mpich = Surroundings { pmi_fd: Some(("7".into(), true)), ..Surroundings::default() };
        assert_eq!(mpich.protocol().unwrap(), Protocol::Pmi1(7));
        // mpiexec of MPICH in a job of srun --mpi=pmix.
        let within = Surroundings { pmix: true, slurm: true, ..mpich.clone() };
        assert_eq!(within.protocol().unwrap(), Protocol::Pmi1(7));
        let pmi2 = Surroundings { slurm: true, slurm_pmi: true, ..mpich };
        assert_eq!(pmi2.protocol().unwrap(), Protocol::Pmi2(7));
        // mpirun of Open MPI in a job of srun --mpi=pmi2: the descriptor is srun's child's.
        let stale = Surroundings { pmi_fd: Some(("7".into(), false)), pmix: true, ..pmi2 };
        assert_eq!(stale.protocol().unwrap(), Protocol::Pmix);
    }

    #[test]
    fn without_a_launcher_the_error_says_how_to_start_one() {
        let none = Surroundings::default().protocol().unwrap_err().to_string();
        assert!(none.contains("mpirun -n N") && none.contains("srun --mpi=pmi2"), "{none}");
        let alone = Surroundings { slurm: true, ..Surroundings::default() };
        let alone = alone.protocol().unwrap_err().to_string();
        assert!(alone.contains("add --mpi=pmix or --mpi=pmi2"), "{alone}");
        for text in [none, alone, LauncherError::Static.to_string()] {
            assert_eq!(text.lines().count(), 1, "{text}");
        }
    }
}
