//! What the view knows, and what keys make of it: plain data, by events and the time of each.

use super::keys::KeyPress;
use super::live::{Rates, Source};
use gigae_eval_model::number::{many, megabytes, percent};
use std::collections::VecDeque;
use std::time::Duration;

/// So much of the past is drawn.
pub(super) const PAST: Duration = Duration::from_secs(60);

/// Repetitions can be short: at most this many values of the past are kept.
const MOST_VALUES: usize = 4096;

/// A line of figures.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Metric {
    /// Round trips, by repetition.
    Trip,
    /// Goodput, by repetition.
    Goodput,
    /// GigaE's bytes of a soak.
    Gigae,
    /// TCP's.
    Tcp,
    /// What the interface carries.
    Wire,
    /// The measuring end's CPU.
    CpuHere,
    /// The answering end's.
    CpuThere,
    /// The machine's CPUs.
    Cpu,
    /// Frames and segments sent again.
    Again,
    /// Memory of a process.
    Memory,
}

impl Metric {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Trip => "round trip",
            Self::Goodput => "goodput",
            Self::Gigae => "GigaE",
            Self::Tcp => "TCP",
            Self::Wire => "interface",
            Self::CpuHere => "CPU here",
            Self::CpuThere => "CPU there",
            Self::Cpu => "CPUs",
            Self::Again => "sent again",
            Self::Memory => "memory",
        }
    }

    /// Whether values of one moment are added up; else their mean counts.
    pub(super) fn adds(self) -> bool {
        self == Self::Again
    }
}

/// A figure with its past.
#[derive(Clone, Debug)]
pub(super) struct Line {
    pub(super) metric: Metric,
    /// The last value in words.
    pub(super) now: String,
    /// What there is room for on a wide screen only.
    pub(super) more: String,
    /// Values by their time.
    pub(super) past: VecDeque<(Duration, f64)>,
}

impl Line {
    fn push(&mut self, at: Duration, value: f64) {
        self.past.push_back((at, value));
        while self.past.len() > MOST_VALUES
            || self.past.front().is_some_and(|(then, _)| at.saturating_sub(*then) > PAST)
        {
            self.past.pop_front();
        }
    }

    /// The past in `parts` equal parts, the last one now; `None` where there was no value.
    pub(super) fn parts(&self, now: Duration, parts: usize) -> Vec<Option<f64>> {
        let mut found = vec![(0.0, 0u32); parts];
        let length = PAST.as_secs_f64() / parts.max(1) as f64;
        for (at, value) in &self.past {
            let back = (now.saturating_sub(*at).as_secs_f64() / length) as usize;
            if let Some(place) = (parts.checked_sub(1)).and_then(|last| last.checked_sub(back)) {
                found[place].0 += value;
                found[place].1 += 1;
            }
        }
        let one = |(sum, count): (f64, u32)| match count {
            0 => None,
            _ if self.metric.adds() => Some(sum),
            _ => Some(sum / f64::from(count)),
        };
        found.into_iter().map(one).collect()
    }
}

/// A row of the table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Row {
    /// What it is about, in the first column.
    pub(super) title: String,
    /// The other columns; empty until there is something.
    pub(super) cells: Vec<String>,
    /// Whether something is wrong with it.
    pub(super) bad: bool,
}

/// A new value of a figure.
#[derive(Clone, Debug)]
pub(super) struct NewValue {
    pub(super) metric: Metric,
    pub(super) value: f64,
    /// The same in words.
    pub(super) now: String,
    /// What there is room for on a wide screen only.
    pub(super) more: String,
}

/// What a run or a soak reports to the view.
#[derive(Clone, Debug)]
pub(super) enum Event {
    /// How far it is.
    Step {
        /// Of all, from 0 to 1.
        share: f64,
        /// The same in words.
        count: String,
        /// How long it will still take, where that can be said.
        left: Option<Duration>,
        /// What comes next.
        now: String,
    },
    /// It is somewhere else now: what that is, its rows, and what to read there.
    Link { about: String, rows: Vec<String>, source: Box<Source> },
    /// A figure.
    Value(NewValue),
    /// Frames of GigaE and segments of TCP that were sent again.
    Again { gigae: u64, tcp: u64 },
    /// A row has something new.
    Row(Row),
    /// What was done last, in a line.
    Last(String),
    /// A line that must be seen.
    Said(String),
}

/// What the thread that shows the view must do for a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum KeyAction {
    /// End the run.
    End,
}

/// All of it.
#[derive(Clone, Debug)]
pub(super) struct Model {
    pub(super) title: String,
    pub(super) place: String,
    pub(super) now: String,
    pub(super) last: String,
    pub(super) share: f64,
    pub(super) count: String,
    /// Time left, as of when.
    left: Option<(Duration, Duration)>,
    pub(super) lines: Vec<Line>,
    /// Of the table's columns, the first one's too.
    pub(super) header: Vec<&'static str>,
    pub(super) rows: Vec<Row>,
    pub(super) said: Vec<String>,
    /// GigaE's and TCP's.
    again: [u64; 2],
    /// First row that is shown.
    pub(super) top: usize,
    /// Rows that there was room for.
    pub(super) page: usize,
    /// Whether the user has not scrolled yet.
    follows: bool,
    pub(super) help: bool,
    pub(super) ending: bool,
    /// What the view itself takes, in words.
    pub(super) own: String,
}

impl Model {
    pub(super) fn new(title: String, lines: &[Metric], header: &[&'static str]) -> Self {
        let line = |metric: &Metric| Line {
            metric: *metric,
            now: "-".into(),
            more: String::new(),
            past: VecDeque::new(),
        };
        Self {
            title,
            place: String::new(),
            now: "beginning".into(),
            last: String::new(),
            share: 0.0,
            count: String::new(),
            left: None,
            lines: lines.iter().map(line).collect(),
            header: header.to_vec(),
            rows: Vec::new(),
            said: Vec::new(),
            again: [0, 0],
            top: 0,
            page: 1,
            follows: true,
            help: false,
            ending: false,
            own: String::new(),
        }
    }

    /// Takes in what happened.
    pub(super) fn update(&mut self, event: Event, at: Duration) {
        match event {
            Event::Step { share, count, left, now } => {
                (self.share, self.count, self.now) = (share.clamp(0.0, 1.0), count, now);
                self.left = left.map(|left| (left, at));
            }
            Event::Link { about, rows, .. } => {
                self.place = about;
                let first = rows.first().cloned();
                for title in rows {
                    if self.rows.iter().all(|row| row.title != title) {
                        self.rows.push(Row { title, cells: Vec::new(), bad: false });
                    }
                }
                let first = first.and_then(|title| self.row(&title));
                if let Some(first) = first.filter(|_| self.follows) {
                    self.top = first;
                }
            }
            Event::Value(new) => self.value(new, at),
            Event::Again { gigae, tcp } => self.sent_again(at, [gigae, tcp]),
            Event::Row(row) => match self.row(&row.title) {
                Some(place) => self.rows[place] = row,
                None => self.rows.push(row),
            },
            Event::Last(text) => self.last = text,
            Event::Said(text) => self.said.push(text),
        }
    }

    /// Takes in what was read beside the measurement.
    pub(super) fn look(&mut self, rates: &Rates, at: Duration) {
        if let Some([[sent, frames], [received, more_frames]]) = rates.wire {
            let now = format!("{} MB/s", megabytes(sent + received));
            let more = format!(
                "out {}, in {}, {} frames/s",
                megabytes(sent),
                megabytes(received),
                many(frames + more_frames)
            );
            let value = (sent + received) / 1e6;
            self.value(NewValue { metric: Metric::Wire, value, now, more }, at);
        }
        let places = if self.lines.iter().any(|line| line.metric == Metric::Cpu) {
            [Metric::Cpu, Metric::CpuThere]
        } else {
            [Metric::CpuHere, Metric::CpuThere]
        };
        for (metric, share) in places.into_iter().zip(rates.cpus) {
            if let Some(share) = share {
                let (value, now) = (share * 100.0, percent(share));
                self.value(NewValue { metric, value, now, more: String::new() }, at);
            }
        }
        if rates.repeated > 0 {
            self.sent_again(at, [0, rates.repeated]);
        }
    }

    fn value(&mut self, new: NewValue, at: Duration) {
        if let Some(line) = self.lines.iter_mut().find(|line| line.metric == new.metric) {
            (line.now, line.more) = (new.now, new.more);
            line.push(at, new.value);
        }
    }

    fn sent_again(&mut self, at: Duration, more: [u64; 2]) {
        self.again = [self.again[0] + more[0], self.again[1] + more[1]];
        let [gigae, tcp] = self.again;
        let new = NewValue {
            metric: Metric::Again,
            value: (more[0] + more[1]) as f64,
            now: (gigae + tcp).to_string(),
            more: format!("gigae {gigae}, TCP {tcp}"),
        };
        self.value(new, at);
    }

    pub(super) fn row(&self, title: &str) -> Option<usize> {
        self.rows.iter().position(|row| row.title == title)
    }

    /// Time left as of now.
    pub(super) fn left(&self, now: Duration) -> Option<Duration> {
        self.left.map(|(left, at)| left.saturating_sub(now.saturating_sub(at)))
    }

    /// What a key does.
    pub(super) fn press(&mut self, key: KeyPress) -> Option<KeyAction> {
        let last = self.rows.len().saturating_sub(self.page);
        let page = self.page.max(1);
        let top = match key {
            KeyPress::End => {
                self.ending = true;
                return Some(KeyAction::End);
            }
            KeyPress::Help => {
                self.help = !self.help;
                return None;
            }
            KeyPress::Up => self.top.saturating_sub(1),
            KeyPress::Down => self.top + 1,
            KeyPress::PageUp => self.top.saturating_sub(page),
            KeyPress::PageDown => self.top + page,
            KeyPress::First => 0,
            KeyPress::Last => last,
        };
        (self.help, self.follows) = (false, false);
        self.top = top.min(last);
        None
    }
}
