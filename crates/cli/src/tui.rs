//! `--tui`: a live view of a run or a soak on the terminal.
//!
//! It must not change what is measured. So it has its own thread, which draws four times a second,
//! yields to whatever else wants its CPU, and keeps off the CPUs of both ends where there are
//! others. What passes over the interface and what the CPUs do it reads from `/proc` itself
//! (`live`). What only a measuring loop knows comes when a repetition ends (`run`, `soak`). No
//! loop, channel or endpoint knows of it. What it takes is measured and goes into the results.
//!
//! | file | is |
//! |---|---|
//! | `model` | what is known and what keys do: plain data |
//! | `draw` | how that looks on a screen of any size |
//! | `keys`, `screen` | the terminal |
//! | `live` | what is read beside the measurement |
//! | `run`, `soak` | what a run and a soak report |

mod draw;
mod keys;
mod live;
mod model;
mod run;
mod screen;
mod soak;
#[cfg(test)]
mod tests;

pub use screen::{ViewError, ready, restore};

use gigae_eval_measure::cost;
use gigae_eval_model::number::hundredths;
use gigae_eval_run::ViewCost;
use gigae_host::affinity;
use live::{Live, Source};
use model::{Event, KeyAction, Model};
use ratatui_core::terminal::Terminal;
use rustix::event::{EventfdFlags, eventfd};
use rustix::fd::{AsFd, OwnedFd};
use rustix::process::{Signal, getpid, kill_process};
use screen::TakenTerminal;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Between two drawings: no one reads figures more often than this.
const EVERY: Duration = Duration::from_millis(250);

/// After a key sooner, but a key that is held down is not worth more.
const AFTER_KEY: Duration = Duration::from_millis(60);

/// The lowest priority that an ordinary thread can have (nice(2)).
const YIELDING: i32 = 19;

/// A view, which is there until it is dropped. Then the terminal is as it was.
pub struct View {
    events: Sender<Event>,
    shared: Arc<SharedView>,
    thread: Option<JoinHandle<()>>,
    run_state: run::RunState,
    /// What was sent again in a soak, as it was reported last: GigaE's and TCP's.
    reported: [u64; 2],
}

/// What the view's thread reports about itself, and the request to close it.
struct SharedView {
    begin: Instant,
    /// CPU time in nanoseconds.
    cpu: AtomicU64,
    /// Whether it has kept off the CPUs of the ends so far.
    separate_cpus: AtomicBool,
    closing: AtomicBool,
    /// Ends its wait for keys.
    wake: OwnedFd,
}

impl SharedView {
    fn share(&self) -> f64 {
        let seconds = self.begin.elapsed().as_secs_f64().max(f64::MIN_POSITIVE);
        self.cpu.load(Ordering::Relaxed) as f64 / 1e9 / seconds
    }
}

impl View {
    /// Takes the terminal for a run.
    pub fn of_run(title: &str) -> Result<Self, ViewError> {
        Self::open(Model::new(title.to_owned(), run::LINES, run::HEADER))
    }

    /// Takes the terminal for a soak.
    pub fn of_soak(title: &str) -> Result<Self, ViewError> {
        Self::open(Model::new(title.to_owned(), soak::LINES, soak::HEADER))
    }

    fn open(model: Model) -> Result<Self, ViewError> {
        let wake = eventfd(0, EventfdFlags::CLOEXEC).map_err(|e| ViewError::Io(e.into()))?;
        let shared = Arc::new(SharedView {
            begin: Instant::now(),
            cpu: AtomicU64::new(0),
            separate_cpus: AtomicBool::new(true),
            closing: AtomicBool::new(false),
            wake,
        });
        let terminal = screen::take()?;
        let (events, received) = channel();
        let own = Arc::clone(&shared);
        let thread = std::thread::Builder::new().name("view".into()).spawn(move || {
            // Whatever it is that fails, the run goes on without a view, on a terminal as it was.
            let _ = show(model, &received, terminal, &own);
            restore();
        });
        match thread {
            Ok(thread) => {
                let (thread, run_state) = (Some(thread), run::RunState::default());
                Ok(Self { events, shared, thread, run_state, reported: [0, 0] })
            }
            Err(error) => {
                restore();
                Err(ViewError::Io(error))
            }
        }
    }

    /// Sends the view's thread an event. The thread takes it when it draws next.
    fn report(&self, event: Event) {
        // If the thread has ended, the event is dropped.
        let _ = self.events.send(event);
    }

    fn took_so_far(&self) -> ViewCost {
        ViewCost {
            share: self.shared.share(),
            separate_cpus: self.shared.separate_cpus.load(Ordering::Relaxed),
        }
    }
}

impl Drop for View {
    fn drop(&mut self) {
        self.shared.closing.store(true, Ordering::Relaxed);
        let _ = rustix::io::write(&self.shared.wake, &1u64.to_ne_bytes());
        if let Some(thread) = self.thread.take() {
            // A panic there has been said.
            let _ = thread.join();
        }
        restore();
    }
}

/// The view's thread, until it has to close or the terminal fails.
fn show(
    mut model: Model,
    received: &Receiver<Event>,
    TakenTerminal { screen, mut keyboard }: TakenTerminal,
    own: &SharedView,
) -> io::Result<()> {
    // Where it may not yield, it still takes next to nothing.
    let _ = rustix::process::nice(YIELDING);
    let mut terminal = Terminal::new(screen)?;
    let (allowed, mut live) = (affinity::allowed(), None::<Live>);
    while !own.closing.load(Ordering::Relaxed) {
        let at = own.begin.elapsed();
        for event in received.try_iter() {
            if let Event::Link { source, .. } = &event {
                own.separate_cpus.fetch_and(keep_off(source, &allowed), Ordering::Relaxed);
                live = Some(Live::new((**source).clone()));
            }
            model.update(event, at);
        }
        if let Some(rates) = live.as_mut().and_then(Live::rates) {
            model.look(&rates, at);
        }
        model.own = format!("view {} of a CPU", hundredths(own.share()));
        terminal.draw(|frame| draw::draw(&mut model, at, frame.buffer_mut()))?;
        own.cpu.store((cost::thread_seconds() * 1e9) as u64, Ordering::Relaxed);
        let next = Instant::now() + EVERY;
        let pressed = screen::wait(&mut keyboard, own.wake.as_fd(), EVERY);
        for act in pressed.iter().filter_map(|key| model.press(*key)) {
            match act {
                // The way that Ctrl-C takes without a view.
                KeyAction::End => kill_process(getpid(), Signal::INT)?,
            }
        }
        if !pressed.is_empty() {
            std::thread::sleep(AFTER_KEY.min(next.saturating_duration_since(Instant::now())));
        }
    }
    Ok(())
}

/// Leaves the CPUs of the ends to them; false if there are no others.
fn keep_off(source: &Source, allowed: &[usize]) -> bool {
    let theirs = |cpu: &usize| source.cpus.contains(&Some(*cpu));
    let others: Vec<usize> = allowed.iter().copied().filter(|cpu| !theirs(cpu)).collect();
    let separate = !others.is_empty();
    // Without it the kernel chooses among all.
    affinity::keep_to(if separate { &others } else { allowed }).is_ok() && separate
}
