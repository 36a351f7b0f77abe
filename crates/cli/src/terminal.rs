//! What a person sees on standard error while a run goes on, if there is no live view: a progress
//! bar.

use gigae_eval_run::RunProgress;
use gigae_eval_session::control::Waiting;
use gigae_eval_session::remark::remark;
use gigae_share::Progress;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use std::io::IsTerminal;
use std::time::{Duration, Instant};

/// Without a terminal, a line says how far a run is at most so often.
const SAY: Duration = Duration::from_secs(60);

/// A progress bar on standard error, if that is a terminal. Else a line now and then.
pub(crate) struct Bar {
    bar: ProgressBar,
    /// When the last line was written that stands for a bar.
    said: Instant,
    /// Clients before this one, as was said last.
    before: u32,
}

impl Bar {
    /// A bar that shows nothing yet.
    pub(crate) fn new() -> Self {
        let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::hidden());
        if std::io::stderr().is_terminal() {
            // Drawn between repetitions only: a separate timer would disturb the measurement.
            bar.set_draw_target(ProgressDrawTarget::stderr());
        }
        let style = ProgressStyle::with_template("{bar:30} {percent:>3} %  {eta} left  {wide_msg}");
        if let Ok(style) = style {
            bar.set_style(style);
        }
        Self { bar, said: Instant::now(), before: 0 }
    }

    /// Writes something while the bar is away.
    pub(crate) fn above(&self, write: impl FnOnce()) {
        self.bar.suspend(write);
    }

    /// Takes the bar away.
    pub(crate) fn clear(&self) {
        self.bar.finish_and_clear();
    }
}

impl Default for Bar {
    fn default() -> Self {
        Self::new()
    }
}

impl RunProgress for Bar {
    fn step(&mut self, done: u64, total: u64, next: &str) {
        self.bar.set_length(total);
        self.bar.set_message(next.to_owned());
        self.bar.set_position(done);
        if self.bar.is_hidden() && self.said.elapsed() >= SAY {
            self.said = Instant::now();
            remark(&format!("{} % done, next: {next}", done * 100 / total.max(1)));
        }
    }

    fn wait(&mut self, waiting: &Waiting) {
        self.bar.set_message(waiting.to_string());
        self.bar.tick();
        // Without a terminal, a line when the place changes.
        if self.bar.is_hidden() && self.before != waiting.before {
            remark(&waiting.to_string());
        }
        self.before = waiting.before;
    }
}

/// How far a copy is, on standard error, if that is a terminal.
pub(crate) struct FileBar {
    bar: ProgressBar,
    shown: Duration,
}

impl FileBar {
    /// Between two drawings.
    const EVERY: Duration = Duration::from_millis(100);

    /// A bar that shows nothing yet.
    pub(crate) fn new() -> Self {
        let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::hidden());
        if std::io::stderr().is_terminal() {
            bar.set_draw_target(ProgressDrawTarget::stderr());
        }
        let template = "{bar:30} {percent:>3} %  {bytes} of {total_bytes}  {bytes_per_sec}  \
                        {eta} left  {wide_msg}";
        if let Ok(style) = ProgressStyle::with_template(template) {
            bar.set_style(style);
        }
        Self { bar, shown: Duration::ZERO }
    }

    /// Shows how far it is at this time, and whether the node is silent.
    pub(crate) fn show(&mut self, now: Duration, copying: impl FnOnce() -> (Progress, bool)) {
        if self.bar.is_hidden() || now < self.shown + Self::EVERY {
            return;
        }
        self.shown = now;
        let (Progress { files, bytes, total, .. }, is_silent) = copying();
        self.bar.set_length(total);
        self.bar.set_position(bytes);
        self.bar.set_message(match is_silent {
            true => "waiting for the node".to_owned(),
            false => format!("{files} files"),
        });
    }

    /// Takes the bar away.
    pub(crate) fn clear(&self) {
        self.bar.finish_and_clear();
    }
}

/// Whether headings on standard output are to stand out: on a terminal, unless NO_COLOR is set.
pub(crate) fn emphasised() -> bool {
    std::io::stdout().is_terminal() && coloured()
}

/// Whether output to terminals may have colours.
pub(crate) fn coloured() -> bool {
    std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty())
}
