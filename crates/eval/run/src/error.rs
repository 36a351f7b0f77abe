//! Why a run or a repetition gave nothing.

use gigae_eval_measure::probe::ProbeError;
use gigae_eval_measure::transport::TransportError;
use gigae_eval_services::ServiceError;
use gigae_eval_session::control::{ControlError, Reply};
use gigae_eval_session::programs::ProgramError;
use gigae_eval_session::stage::StageError;
use gigae_eval_session::tune::TuneError;

/// A run ended without results. The text is one line and says what to do.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// No place to measure.
    #[error(transparent)]
    Stage(#[from] StageError),
    /// The control connection failed.
    #[error(transparent)]
    Control(#[from] ControlError),
    /// The serving end answered something unexpected.
    #[error("the answering end refused: {0}")]
    Refused(String),
    /// The counters of the kernel could not be read.
    #[error("cannot read the counters below /proc: {0}; mount /proc")]
    Counters(std::io::Error),
    /// Another program cannot be run beside.
    #[error(transparent)]
    Program(ProgramError),
    /// File services cannot be measured.
    #[error(transparent)]
    Service(ServiceError),
    /// Settings cannot be changed safely here.
    #[error(transparent)]
    Tuning(TuneError),
    /// The plan holds nothing that can be measured here.
    #[error("nothing was measured: {0}")]
    Nothing(String),
    /// The user interrupted it.
    #[error("interrupted; nothing was written and nothing is left behind")]
    Interrupted,
}

/// Why a repetition gave nothing.
pub(crate) enum RepetitionError {
    /// The whole run ends.
    Fatal(RunError),
    /// This transport does not work on this link at all.
    Unavailable(String),
    /// This repetition did not work.
    Repetition(String),
}

impl From<ControlError> for RepetitionError {
    fn from(error: ControlError) -> Self {
        Self::Fatal(error.into())
    }
}

impl From<ProbeError> for RepetitionError {
    fn from(error: ProbeError) -> Self {
        match error {
            ProbeError::Interrupted => Self::Fatal(RunError::Interrupted),
            ProbeError::Counters(error) => Self::Fatal(RunError::Counters(error)),
            ProbeError::Transport(error) => error.into(),
            ProbeError::Silent(_) => Self::Repetition(error.to_string()),
        }
    }
}

impl From<TransportError> for RepetitionError {
    fn from(error: TransportError) -> Self {
        match error {
            TransportError::Unavailable(reason) => Self::Unavailable(reason),
            other => Self::Repetition(other.to_string()),
        }
    }
}

pub(crate) fn reply_failure(reply: &Reply) -> RepetitionError {
    match reply {
        Reply::Failed { reason, unavailable: true } => {
            RepetitionError::Unavailable(format!("at the answering end: {reason}"))
        }
        Reply::Failed { reason, .. } => {
            RepetitionError::Repetition(format!("at the answering end: {reason}"))
        }
        other => RepetitionError::Fatal(unexpected(other)),
    }
}

pub(crate) fn unexpected(reply: &Reply) -> RunError {
    match reply {
        Reply::Failed { reason, .. } | Reply::Over { reason } => RunError::Refused(reason.clone()),
        _ => RunError::Control(ControlError::Garbled("an answer to another question")),
    }
}
