//! All rounds of a soak, until its time is over.

use super::environment::{SoakEnvironment, conditions};
use super::round::{HERE, RoundResult, round};
use super::state::SoakState;
use super::watch::{ProgressSink, Watcher};
use gigae_eval_model::soak::{DeviationKind, FoundDeviation};
use gigae_eval_page::files::WriteError;
use gigae_eval_services::ServiceError;
use gigae_eval_session::stage::StageError;
use std::ffi::OsString;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Longest round: endpoints and connections live so long.
const ROUND: Duration = Duration::from_secs(3600);

/// Pause after a round that could not go on, before the next attempt.
const PAUSE: Duration = Duration::from_secs(5);

/// A soak could not begin or be recorded. The text is one line and says what to do.
#[derive(Debug, thiserror::Error)]
pub enum SoakError {
    /// No place to soak.
    #[error(transparent)]
    Stage(#[from] StageError),
    /// Nothing ever passed.
    #[error("the soak did not begin: {0}")]
    Begin(String),
    /// A file service cannot be soaked.
    #[error(transparent)]
    Service(#[from] ServiceError),
    /// The state cannot be written.
    #[error(transparent)]
    Write(#[from] WriteError),
}

/// Soaks from where the state is until its time is over or `interrupted` is set, writes state and
/// reports to `out`, and gives the last state. A virtual network is gone when this returns.
pub fn run(
    state: SoakState,
    serve: &[OsString],
    out: &Path,
    interrupted: &AtomicBool,
    sink: &mut dyn ProgressSink,
) -> Result<SoakState, SoakError> {
    let mut environment = SoakEnvironment::set_up(&state.settings, serve)?;
    let mut before = 0;
    environment.connect(&mut |waiting| {
        if before != waiting.before {
            sink.line(&waiting.to_string());
        }
        before = waiting.before;
        !interrupted.load(Ordering::Relaxed)
    })?;
    let mut watcher = Watcher::new(state, out, sink);
    if watcher.state.span == 0.0 {
        watcher.state.span = watcher.interval().as_secs_f64();
    }
    let clients = watcher.state.settings.clients;
    watcher.state.conditions = conditions(&environment.site, environment.fabric.as_ref(), clients);
    watcher.place(&environment.site);
    let others: Vec<String> =
        environment.clients.iter().map(|client| client.name.clone()).collect();
    watcher.name_ends(std::iter::once(HERE.to_owned()).chain(others));
    let stop = || interrupted.load(Ordering::Relaxed);
    while watcher.left() >= 1.0 && !stop() {
        watcher.state.rounds += 1;
        watcher.save()?;
        let length = ROUND.min(Duration::from_secs_f64(watcher.left()));
        match round(&mut environment, &mut watcher, length, interrupted) {
            RoundResult::Complete => watcher.state.complete_rounds += 1,
            RoundResult::Broken(why) if watcher.state.points.is_empty() => {
                return Err(SoakError::Begin(why));
            }
            RoundResult::Broken(_) => again(&mut environment, &mut watcher, interrupted),
        }
    }
    watcher.state.end(stop() && watcher.left() >= 1.0);
    watcher.save()?;
    Ok(watcher.state)
}

/// Connects to the others again, as often as it takes while there is time.
fn again(environment: &mut SoakEnvironment, watcher: &mut Watcher<'_>, interrupted: &AtomicBool) {
    while watcher.left() >= 1.0 && !interrupted.load(Ordering::Relaxed) {
        let until = Instant::now() + PAUSE;
        while Instant::now() < until && watcher.left() >= 1.0 {
            if interrupted.load(Ordering::Relaxed) {
                return;
            }
            std::thread::sleep(Duration::from_millis(100));
        }
        match environment.connect(&mut |_| !interrupted.load(Ordering::Relaxed)) {
            Ok(()) => return,
            Err(error) => {
                watcher.deviate(HERE, FoundDeviation::new(DeviationKind::Failed, error.to_string()))
            }
        }
        watcher.save_when_due();
    }
}
