//! Why a file service gave nothing.

use gigae_eval_session::ControlError;
use gigae_eval_session::programs::ProgramError;
use gigae_fabric::FabricError;
use gigae_uml::GuestError;
use std::io;

/// A service could not be measured. The text is one line and says what to do.
#[derive(Debug, thiserror::Error)]
pub enum ServiceError {
    /// Programs are not installed.
    #[error(
        "not installed here: {programs}; try 'apt install {packages}', which also starts servers at boot"
    )]
    Missing {
        /// The programs.
        programs: String,
        /// Debian's packages.
        packages: String,
    },
    /// The temporary directory cannot be used.
    #[error("cannot {what} in {directory}: {source}; {advice}")]
    Store {
        /// What failed.
        what: &'static str,
        /// Where.
        directory: String,
        /// Why.
        source: io::Error,
        /// What to do.
        advice: &'static str,
    },
    /// There is too little room for the files.
    #[error(
        "{directory} has room for {free} MB and the files need {needed}; make room, or {advice}"
    )]
    Full {
        /// Where.
        directory: String,
        /// What there is, in 10^6 bytes.
        free: u64,
        /// What is needed.
        needed: u64,
        /// What else to do.
        advice: &'static str,
    },
    /// There is no room for names of files.
    #[error("{directory} has too little room for new files (inodes); remove some, or {advice}")]
    ManyFiles {
        /// Where.
        directory: String,
        /// What else to do.
        advice: &'static str,
    },
    /// The server ended although it was needed.
    #[error("{program} ended with {status}; its last lines: {last}")]
    Died {
        /// The server's program.
        program: &'static str,
        /// How it ended.
        status: String,
        /// The end of its log.
        last: String,
    },
    /// The server did not open its port.
    #[error("{program} was not ready in time and was ended; its last lines: {last}")]
    Late {
        /// The server's program.
        program: &'static str,
        /// The end of its log.
        last: String,
    },
    /// The end that serves on another machine cannot be used any longer.
    #[error(transparent)]
    Control(#[from] ControlError),
    /// Server or client could not be run, or did not do what they should.
    #[error(transparent)]
    Program(#[from] ProgramError),
    /// A guest could not be started, or a program in it failed.
    #[error(transparent)]
    Guest(#[from] GuestError),
    /// A test in a guest did not end in time.
    #[error(
        "'{test}' was given up, and with it the rest of the link; give smaller files in the plan; {source}"
    )]
    TestLate {
        /// Its title.
        test: String,
        /// What its guest did not do.
        source: Box<GuestError>,
    },
    /// A guest could not unmount files, and was ended.
    #[error("the rest of the link was given up; repeat the run; {0}")]
    StaysMounted(GuestError),
    /// The second client of a test could not be used. The other guests can.
    #[error("the second client was given up: {0}")]
    SecondClient(GuestError),
    /// A program in a guest printed no figure.
    #[error("{program} printed no figure that gigae can read; it said: {said}")]
    NoFigure {
        /// The program.
        program: &'static str,
        /// The end of what it said.
        said: String,
    },
    /// A program had done its work too soon for a figure.
    #[error("{0} gives no figure of what is over in less than half a second; plan more files")]
    TooSoon(&'static str),
    /// A file is another one at the other end of a mount.
    #[error("{system}: {what} differs at the other end; check memory and disk, then repeat")]
    Differs {
        /// What mounts it.
        system: &'static str,
        /// Which file.
        what: &'static str,
    },
    /// A copy is not the file.
    #[error("{service}: a copy of '{name}' differs from it; check memory and disk, then repeat")]
    Wrong {
        /// The service.
        service: &'static str,
        /// The name of the file, which is its size, or of the tree.
        name: String,
    },
    /// A port of the virtual network cannot be taken down, or does not come up again.
    #[error("a link that should go down and up again did not: {0}; repeat the run")]
    Outage(FabricError),
    /// This host cannot do what the plan wants.
    #[error("{0}")]
    Unavailable(String),
}

/// Characters of what a program said that an error shows.
const SHOWN: usize = 160;

impl ServiceError {
    /// No figure in what a program said. Programs say why at their end.
    pub(crate) fn no_figure(program: &'static str, said: &str) -> Self {
        let words: String = said
            .chars()
            .map(|c| if c.is_whitespace() { ' ' } else { c })
            .filter(|c| !c.is_control())
            .collect();
        let words = words.trim();
        let end = words.char_indices().rev().nth(SHOWN - 1).map_or(0, |(at, _)| at);
        Self::NoFigure { program, said: words[end..].to_owned() }
    }

    /// Whether the run was interrupted.
    pub fn is_interruption(&self) -> bool {
        matches!(
            self,
            Self::Program(ProgramError::Interrupted) | Self::Guest(GuestError::Interrupted)
        )
    }

    /// Whether the other machine serves this run no longer.
    pub fn is_lost(&self) -> bool {
        matches!(self, Self::Control(_))
    }

    /// Whether the whole run has to end: the same would happen to every service, or the figures of
    /// the others could not be trusted.
    pub fn is_fatal(&self) -> bool {
        matches!(
            self,
            Self::Control(_)
                | Self::Missing { .. }
                | Self::Store { .. }
                | Self::Full { .. }
                | Self::ManyFiles { .. }
                | Self::Wrong { .. }
                | Self::Differs { .. }
        )
    }
}
