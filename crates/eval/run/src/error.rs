//! Why a run or a repetition gave nothing.

use gigae_eval_measure::probe::ProbeError;
use gigae_eval_measure::transport::TransportError;
use gigae_eval_session::control::{ControlError, Reply};
use gigae_eval_session::programs::Trouble;
use gigae_eval_session::stage::StageError;
use gigae_eval_session::tune::TuneError;
use std::fmt;

/// A run ended without results. The text is one line and says what to do.
#[derive(Debug)]
pub enum RunError {
    /// No place to measure.
    Stage(StageError),
    /// The control connection failed.
    Control(ControlError),
    /// The serving end answered something unexpected.
    Refused(String),
    /// The counters of the kernel could not be read.
    Counters(std::io::Error),
    /// Another program cannot be run beside.
    Program(Trouble),
    /// Settings cannot be changed safely here.
    Tuning(TuneError),
    /// The plan holds nothing that can be measured here.
    Nothing(String),
    /// The user interrupted it.
    Interrupted,
}

impl fmt::Display for RunError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Stage(error) => error.fmt(f),
            Self::Control(error) => error.fmt(f),
            Self::Refused(reason) => write!(f, "the answering end refused: {reason}"),
            Self::Counters(error) => {
                write!(f, "cannot read the counters below /proc: {error}; mount /proc")
            }
            Self::Program(trouble) => trouble.fmt(f),
            Self::Tuning(error) => error.fmt(f),
            Self::Nothing(reason) => write!(f, "nothing was measured: {reason}"),
            Self::Interrupted => {
                f.write_str("interrupted; nothing was written and nothing is left behind")
            }
        }
    }
}

impl std::error::Error for RunError {}

impl From<StageError> for RunError {
    fn from(error: StageError) -> Self {
        Self::Stage(error)
    }
}

impl From<ControlError> for RunError {
    fn from(error: ControlError) -> Self {
        Self::Control(error)
    }
}

/// Why a repetition gave nothing.
pub(crate) enum Failure {
    /// The whole run ends.
    Fatal(RunError),
    /// This transport does not work on this link at all.
    Unavailable(String),
    /// This repetition did not work.
    Repetition(String),
}

impl From<ControlError> for Failure {
    fn from(error: ControlError) -> Self {
        Self::Fatal(error.into())
    }
}

impl From<ProbeError> for Failure {
    fn from(error: ProbeError) -> Self {
        match error {
            ProbeError::Interrupted => Self::Fatal(RunError::Interrupted),
            ProbeError::Counters(error) => Self::Fatal(RunError::Counters(error)),
            ProbeError::Transport(error) => error.into(),
            ProbeError::Silent(_) => Self::Repetition(error.to_string()),
        }
    }
}

impl From<TransportError> for Failure {
    fn from(error: TransportError) -> Self {
        match error {
            TransportError::Unavailable(reason) => Self::Unavailable(reason),
            other => Self::Repetition(other.to_string()),
        }
    }
}

pub(crate) fn reply_failure(reply: &Reply) -> Failure {
    match reply {
        Reply::Failed { reason, unavailable: true } => {
            Failure::Unavailable(format!("at the answering end: {reason}"))
        }
        Reply::Failed { reason, .. } => {
            Failure::Repetition(format!("at the answering end: {reason}"))
        }
        other => Failure::Fatal(unexpected(other)),
    }
}

pub(crate) fn unexpected(reply: &Reply) -> RunError {
    match reply {
        Reply::Failed { reason, .. } | Reply::Over { reason } => RunError::Refused(reason.clone()),
        _ => RunError::Control(ControlError::Garbled("an answer to another question")),
    }
}
