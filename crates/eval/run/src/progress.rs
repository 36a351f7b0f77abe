//! What a run reports while it goes on. The measuring thread reports between repetitions, never
//! during one.

use crate::gather::{CellRepetitions, SoFar};
use gigae_eval_measure::probe::{Answered, Asked};
use gigae_eval_measure::site::Site;
use gigae_eval_model::environment::LinkEnvironment;
use gigae_eval_model::number::mbit;
use gigae_eval_model::plan::Cell;
use gigae_eval_session::control::Waiting;

/// Gets reports on how far a run is.
pub trait RunProgress {
    /// There are `total` repetitions in all as far as is known, of which `done` are done; `next` is
    /// next.
    fn step(&mut self, done: u64, total: u64, next: &str);

    /// Others are before this run at the server.
    fn wait(&mut self, waiting: &Waiting) {
        let _ = waiting;
    }

    /// What comes next is measured here.
    fn link(&mut self, link: &MeasuredLink<'_>) {
        let _ = link;
    }

    /// A repetition is over, or failed.
    fn finished(&mut self, repetition: &FinishedRepetition<'_>) {
        let _ = repetition;
    }

    /// What a view took, if it also works during repetitions.
    fn took(&self) -> Option<ViewCost> {
        None
    }
}

/// A link that is about to be measured.
pub struct MeasuredLink<'a> {
    /// Its name, kind, MTU and interfaces, for people.
    pub about: String,
    /// This end; `None` where nothing goes over a link.
    pub site: Option<&'a Site>,
    /// The CPU of the answering end, if that is on this machine.
    pub answering_cpu: Option<usize>,
    /// Titles of its cells in the plan's order, as [`RunProgress::step`] and
    /// [`FinishedRepetition`] say them.
    pub cells: Vec<String>,
}

/// A repetition that is over.
pub struct FinishedRepetition<'a> {
    /// The cell's title.
    pub title: &'a str,
    /// The cell.
    pub cell: &'a Cell,
    /// What both ends measured, or why there is nothing.
    pub outcome: Result<(&'a Asked, &'a Answered), &'a str>,
    /// The cell's figure over its repetitions; `None` before the first one that brought something.
    pub so_far: Option<SoFar>,
    /// Repetitions that are planned for it at least.
    pub planned: u32,
}

/// What a live view took.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ViewCost {
    /// CPU seconds per second.
    pub share: f64,
    /// Whether it kept off the CPUs of both ends all the time.
    pub separate_cpus: bool,
}

/// A link in a line.
pub(super) fn about(link: &LinkEnvironment) -> String {
    let rate = link.rate.map_or(String::new(), |rate| format!(", {}", mbit(rate)));
    let (name, kind, interface) = (&link.name, &link.kind, &link.local.interface);
    let named = if name == kind { name.clone() } else { format!("{name} ({kind})") };
    format!("{named}{rate}, MTU {}, {interface}", link.mtu)
}

pub(super) fn titles(link: &str, cells: &[CellRepetitions]) -> Vec<String> {
    cells.iter().map(|gathered| title(link, &gathered.cell)).collect()
}

/// A cell in a line. No other cell of the run has the same line.
pub(super) fn title(link: &str, cell: &Cell) -> String {
    let (name, wait) = (cell.experiment.name(), cell.wait.name());
    format!("{link} {name} {} {wait} {} B", cell.label(), cell.size)
}
