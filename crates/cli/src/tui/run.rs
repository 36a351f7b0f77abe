//! What a run reports to its view, between repetitions.

use super::View;
use super::live::Source;
use super::model::{Event, Metric, NewValue, Row};
use gigae_eval_measure::probe::{Answered, Asked};
use gigae_eval_model::experiment::Experiment;
use gigae_eval_model::experiment::Kind;
use gigae_eval_model::number::{many, percent, short};
use gigae_eval_run::SoFar;
use gigae_eval_run::{FinishedRepetition, MeasuredLink, RunProgress, ViewCost};
use gigae_eval_session::control::Waiting;
use std::time::{Duration, Instant};

/// The figures of a run, the most important first.
pub(super) const LINES: &[Metric] = &[
    Metric::Trip,
    Metric::Goodput,
    Metric::Wire,
    Metric::CpuHere,
    Metric::CpuThere,
    Metric::Again,
];

/// The columns of its table, the most important first.
pub(super) const HEADER: &[&str] = &["figures so far", "median", "n", "95 %", "CPU", "there"];

/// What the view must remember of a run to say how long it still takes.
#[derive(Default)]
pub(super) struct RunState {
    /// When the first repetition began.
    begin: Option<Instant>,
    /// Whether the answering end's CPU is read live.
    reads_there: bool,
}

impl RunProgress for View {
    fn step(&mut self, done: u64, total: u64, next: &str) {
        let begin = *self.run_state.begin.get_or_insert_with(Instant::now);
        self.report(Event::Step {
            share: done as f64 / total.max(1) as f64,
            count: format!("repetition {} of {total}", done + 1),
            left: left(begin.elapsed(), done, total),
            now: next.to_owned(),
        });
    }

    fn wait(&mut self, waiting: &Waiting) {
        let now = waiting.to_string();
        self.report(Event::Step { share: 0.0, count: String::new(), left: None, now });
    }

    fn link(&mut self, link: &MeasuredLink<'_>) {
        self.run_state.reads_there = link.answering_cpu.is_some();
        self.report(Event::Link {
            about: link.about.clone(),
            rows: link.cells.clone(),
            source: Box::new(Source::ends(link.site, link.answering_cpu)),
        });
    }

    fn finished(&mut self, repetition: &FinishedRepetition<'_>) {
        let (asked, answered) = match repetition.outcome {
            Ok(both) => both,
            Err(why) => {
                self.report(Event::Last(format!("failed: {}: {why}", repetition.title)));
                let cells = repetition
                    .so_far
                    .map_or(vec!["failed".into()], |so_far| row(repetition, &so_far));
                return self.report(Event::Row(Row {
                    title: repetition.title.into(),
                    cells,
                    bad: true,
                }));
            }
        };
        let Some(so_far) = repetition.so_far else { return };
        let (experiment, figure) = (repetition.cell.experiment, so_far.last);
        let (metric, more) = match experiment.form().kind {
            Kind::Trip => (Some(Metric::Trip), trips(asked)),
            Kind::Goodput => (Some(Metric::Goodput), messages(figure, repetition.cell.size)),
            Kind::Other => (None, String::new()),
        };
        let now = with_unit(figure, experiment);
        if let Some(metric) = metric {
            self.report(Event::Value(NewValue { metric, value: figure, now: now.clone(), more }));
        }
        if !self.run_state.reads_there && answered.cost.seconds > 0.0 {
            let there = answered.cost.cpu();
            self.report(Event::Value(NewValue {
                metric: Metric::CpuThere,
                value: there * 100.0,
                now: percent(there),
                more: "in the last repetition".into(),
            }));
        }
        // TCP's are read live.
        if repetition.cell.transport.starts_with("gigae") && asked.repeated > 0 {
            self.report(Event::Again { gigae: asked.repeated, tcp: 0 });
        }
        let figure = format!("{}: {now}", repetition.title);
        self.report(Event::Last(last(&figure, experiment.is_trip(), asked, answered)));
        let cells = row(repetition, &so_far);
        self.report(Event::Row(Row { title: repetition.title.into(), cells, bad: false }));
    }

    fn took(&self) -> Option<ViewCost> {
        Some(self.took_so_far())
    }
}

/// As long for each repetition as for those that were made: they come in random order.
fn left(since: Duration, done: u64, total: u64) -> Option<Duration> {
    let each = since.as_secs_f64() / (done > 0).then_some(done as f64)?;
    Some(Duration::from_secs_f64(each * total.saturating_sub(done) as f64))
}

/// A row of the table, as [`HEADER`] has it.
fn row(repetition: &FinishedRepetition<'_>, so_far: &SoFar) -> Vec<String> {
    let [low, high] = so_far.interval.map(short);
    vec![
        with_unit(so_far.median, repetition.cell.experiment),
        format!("{}/{}", so_far.repetitions, repetition.planned.max(so_far.repetitions)),
        format!("{low} to {high}"),
        percent(so_far.cpu[0]),
        percent(so_far.cpu[1]),
    ]
}

fn with_unit(figure: f64, experiment: Experiment) -> String {
    format!("{} {}", short(figure), experiment.unit())
}

/// Round trips per second of the measured part.
fn trips(asked: &Asked) -> String {
    match asked.cost.seconds {
        seconds if seconds > 0.0 => format!("{}/s", many(asked.samples.len() as f64 / seconds)),
        _ => String::new(),
    }
}

/// Messages per second of a goodput in 10^6 bytes per second.
fn messages(goodput: f64, size: usize) -> String {
    if size == 0 {
        String::new()
    } else {
        format!("{} messages/s", many(goodput * 1e6 / size as f64))
    }
}

/// What the last repetition came to, in a line that begins with its figure.
fn last(figure: &str, trip: bool, asked: &Asked, answered: &Answered) -> String {
    let mut text = format!("last: {figure}");
    let cost = &asked.cost;
    // Costs of round trips are of the measured part, as the samples are.
    let messages = if trip { asked.samples.len() as u64 + asked.lost } else { asked.sent };
    if messages > 0 && cost.syscalls + cost.tx_frames > 0 {
        let each = |count: u64| short(count as f64 / messages as f64);
        text += &format!("; {} calls, {} frames each", each(cost.syscalls), each(cost.tx_frames));
    }
    if cost.seconds > 0.0 {
        text += &format!("; CPU {}, {}", percent(cost.cpu()), percent(answered.cost.cpu()));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_left_is_estimated_from_what_was_done() {
        assert_eq!(left(Duration::from_secs(5), 0, 100), None);
        assert_eq!(left(Duration::from_secs(5), 10, 100), Some(Duration::from_secs(45)));
        assert_eq!(
            left(Duration::from_secs(5), 100, 90),
            Some(Duration::ZERO),
            "more than planned"
        );
    }

    #[test]
    fn a_repetition_is_shown_with_its_costs() {
        let mut asked = Asked { sent: 1200, samples: vec![5000; 1000], ..Asked::default() };
        (asked.cost.seconds, asked.cost.cpu_thread) = (1.0, 0.5);
        (asked.cost.syscalls, asked.cost.tx_frames) = (2000, 1010);
        let text = last("cable rtt udp spin 8 B: 5.00 us", true, &asked, &Answered::default());
        let wanted =
            "last: cable rtt udp spin 8 B: 5.00 us; 2.00 calls, 1.01 frames each; CPU 50 %, 0 %";
        assert_eq!(text, wanted);
        assert_eq!(messages(80.0, 8), "10.0M messages/s");
        assert_eq!(many(999.0), "999");
    }
}
