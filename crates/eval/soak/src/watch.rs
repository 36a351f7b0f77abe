//! Samples become state: deviations, sums, points; written to disk now and then.

use super::report;
use super::rules::{SoakRules, is_drop};
use super::state::{Deviation, FILE, SoakEnd, SoakPoint, SoakState};
use gigae_eval_measure::site::Site;
use gigae_eval_measure::{cost, environment};
use gigae_eval_model::soak::Sample;
use gigae_eval_model::soak::{Amount, FoundDeviation};
use gigae_eval_model::traffic::STREAMS;
use gigae_eval_page::files::{self, TextFile};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// The state is written at least so often.
const SAVE: Duration = Duration::from_secs(60);

/// Samples are taken so often, unless the soak is short.
const SAMPLE: Duration = Duration::from_secs(5);

/// The clock of the wall against the monotonic one: more is a step.
const STEP: f64 = 1.0;

/// Shows a person how a soak goes.
pub trait ProgressSink {
    /// A line that must be seen.
    fn line(&mut self, text: &str);
    /// How far it is: may be shown or not.
    fn progress(&mut self, state: &SoakState);
    /// Where it takes place. The end that leads calls it before anything passes.
    fn place(&mut self, site: &Site, about: &str) {
        let _ = (site, about);
    }
}

/// Seconds since 1970 by the clock of the wall.
pub fn unix() -> f64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0.0, |since| since.as_secs_f64())
}

/// Watches a soak.
pub struct Watcher<'a> {
    /// All that is known.
    pub state: SoakState,
    rules: SoakRules,
    sink: &'a mut dyn ProgressSink,
    out: PathBuf,
    begin: Instant,
    /// Elapsed time before this process.
    before: f64,
    saved: Instant,
    sampled: f64,
    /// Last samples of this round, in the order of the ends.
    last: Vec<Option<Sample>>,
    switch_drops: Option<u64>,
    /// The clock of the wall less the monotonic one.
    wall: f64,
    cpu: Option<[f64; 3]>,
}

impl<'a> Watcher<'a> {
    /// Goes on from a state; the reports are written to `out`.
    pub fn new(state: SoakState, out: &Path, sink: &'a mut dyn ProgressSink) -> Self {
        let begin = Instant::now();
        Self {
            rules: SoakRules::new(Duration::from_secs_f64(state.settings.stall)),
            before: state.elapsed,
            sampled: state.elapsed,
            state,
            sink,
            out: out.to_owned(),
            begin,
            saved: begin,
            last: Vec::new(),
            switch_drops: None,
            wall: unix(),
            cpu: cost::machine().ok(),
        }
    }

    /// Time between two samples.
    pub fn interval(&self) -> Duration {
        SAMPLE.min(Duration::from_secs_f64(self.state.settings.duration / 20.0))
    }

    /// Seconds since the beginning, without gaps.
    pub fn elapsed(&self) -> f64 {
        self.before + self.begin.elapsed().as_secs_f64()
    }

    /// Seconds that remain.
    pub fn left(&self) -> f64 {
        (self.state.settings.duration - self.elapsed()).max(0.0)
    }

    /// A round begins: counters of endpoints and connections begin at zero.
    pub fn begin_round(&mut self) {
        self.rules.begin_round();
        self.last.clear();
        self.switch_drops = None;
        self.sampled = self.elapsed();
    }

    /// Keeps a deviation, and reports the first one.
    pub fn deviate(&mut self, end: &str, found: FoundDeviation) {
        let FoundDeviation { kind, what } = found;
        let deviation = Deviation {
            utc: environment::now(),
            at: self.elapsed(),
            end: end.to_owned(),
            kind,
            what,
        };
        if self.state.deviated() == 0 {
            self.sink.line(&format!(
                "first deviation, {}, {} after the beginning, {}: {}: {}",
                deviation.utc,
                gigae_eval_model::duration::say(deviation.at),
                deviation.end,
                kind.name(),
                deviation.what
            ));
        }
        self.state.deviate(deviation);
    }

    /// Takes in samples of the ends, in their order, and what the switch's queues have dropped.
    pub fn observe(&mut self, samples: Vec<Sample>, switch_drops: Option<u64>) {
        let now = self.elapsed();
        let mut point = SoakPoint { at: now, seconds: now - self.sampled, ..SoakPoint::default() };
        self.sampled = now;
        for (place, sample) in samples.into_iter().enumerate() {
            let name = self.state.ends[place].name.clone();
            for found in self.rules.judge(&name, Duration::from_secs_f64(now), &sample) {
                self.deviate(&name, found);
            }
            self.sum(place, &sample, &mut point);
            if let Some(why) = &sample.kernel_unreadable {
                let what = "kernel messages are not watched at";
                self.state.remark(format!("{what} {name}: {why}; run as root to have them"));
            }
            self.last.resize(self.last.len().max(place + 1), None);
            self.last[place] = Some(sample.clone());
            self.state.ends[place].last = sample;
        }
        if let Some(drops) = switch_drops {
            let more = drops.saturating_sub(self.switch_drops.unwrap_or(0));
            self.state.sums.switch_drops += more;
            point.drops += more;
            self.switch_drops = Some(drops);
        }
        self.clocks(point.seconds);
        self.state.point(point);
        self.state.elapsed = now;
        self.sink.progress(&self.state);
    }

    /// Adds what an end's counters have gained since its last sample of this round.
    fn sum(&mut self, place: usize, sample: &Sample, point: &mut SoakPoint) {
        let first = Sample {
            // What is not the round's own counts from its first sample on.
            tcp: sample.tcp.clone(),
            interfaces: sample.interfaces.clone(),
            ..Sample::default()
        };
        let last = self.last.get(place).and_then(Option::as_ref).unwrap_or(&first);
        let more = |now: u64, before: u64| now.saturating_sub(before);
        let (now, before, sums) = (&sample.gigae, &last.gigae, &mut self.state.sums);
        let retransmissions = more(now.retransmissions, before.retransmissions);
        let tcp = more(sample.tcp.retransmissions, last.tcp.retransmissions);
        let interface_drops = more(drops(sample), drops(last));
        let dropped = more(now.dropped, before.dropped);
        sums.frames += more(now.frames_sent, before.frames_sent);
        sums.retransmissions += retransmissions;
        sums.timeouts += more(now.timeouts, before.timeouts);
        sums.stops += more(now.stops, before.stops);
        sums.discarded += more(now.discarded, before.discarded);
        sums.dropped += dropped;
        sums.tcp_retransmissions += tcp;
        sums.interface_drops += interface_drops;
        sums.kernel_others += sample.kernel_others;
        point.retransmissions += retransmissions;
        point.tcp_retransmissions += tcp;
        point.drops += interface_drops + dropped;
        point.rss = point.rss.max(sample.rss);
        let end = &mut self.state.ends[place];
        end.rss = end.rss.max(sample.rss);
        end.descriptors = end.descriptors.max(sample.descriptors);
        for stream in STREAMS {
            let (now, before) =
                (received(sample, stream as usize), received(last, stream as usize));
            let gained = Amount {
                count: more(now.count, before.count),
                bytes: more(now.bytes, before.bytes),
            };
            end.verified[stream as usize] += gained;
            if stream.is_tcp() {
                point.tcp_bytes += gained.bytes;
            } else {
                point.messages += gained.count;
                point.gigae_bytes += gained.bytes;
            }
        }
    }

    /// Notices steps of the clock, which harm nothing here, and how busy the machine is.
    fn clocks(&mut self, seconds: f64) {
        let wall = unix() - self.begin.elapsed().as_secs_f64();
        let step = wall - self.wall;
        self.wall = wall;
        if step.abs() > STEP {
            let now = environment::now();
            self.state.remark(format!(
                "{now}: the clock of the wall was stepped by {step:+.1} s (or the machine slept)"
            ));
        }
        let (Some(before), Ok(after)) = (self.cpu, cost::machine()) else { return };
        self.cpu = Some(after);
        let total = (after[0] - before[0]).max(f64::MIN_POSITIVE);
        // The average over all time, each stretch by its length.
        let weight = seconds / (self.state.elapsed + seconds).max(f64::MIN_POSITIVE);
        let SoakState { work, steal, .. } = &mut self.state;
        for (average, index) in [(work, 1), (steal, 2)] {
            *average += ((after[index] - before[index]) / total - *average) * weight;
        }
    }

    /// Writes state and reports if it is time. A disk that is full for a while ends no soak: the
    /// error is reported, and the next save tries again.
    pub fn save_when_due(&mut self) {
        let due = SAVE.min(Duration::from_secs_f64(self.state.settings.duration / 10.0));
        if self.saved.elapsed() < due {
            return;
        }
        if let Err(error) = self.save() {
            self.sink.line(&format!("the state was not saved: {error}"));
            self.state.remark(format!("at times the state could not be saved: {error}"));
        }
    }

    /// Writes state and reports: all or none, and a reader finds whole files at any time.
    pub fn save(&mut self) -> Result<(), files::WriteError> {
        self.saved = Instant::now();
        let state = &mut self.state;
        (state.saved, state.saved_unix) = (environment::now(), unix() as u64);
        state.elapsed = self.before + self.begin.elapsed().as_secs_f64();
        let (page, text) = (report::html(state), report::markdown(state));
        let json = state.to_json();
        let files = [
            TextFile { name: FILE, text: &json },
            TextFile { name: "report.html", text: &page },
            TextFile { name: "report.md", text: &text },
        ];
        files::write_all(&self.out, &files)
    }

    /// Reports where it takes place.
    pub fn place(&mut self, site: &Site) {
        let conditions = &self.state.conditions;
        self.sink.place(site, &format!("{}, {}", conditions.network, conditions.nic));
    }

    /// Names the ends, this one first; those of a resumed soak keep their sums.
    pub fn name_ends(&mut self, names: impl Iterator<Item = String>) {
        for (place, name) in names.enumerate() {
            match self.state.ends.get_mut(place) {
                Some(end) => end.name = name,
                None => self.state.ends.push(SoakEnd { name, ..SoakEnd::default() }),
            }
        }
    }
}

/// Of all peers of an end.
fn received(sample: &Sample, stream: usize) -> Amount {
    let mut all = Amount::default();
    sample.passed.iter().for_each(|passed| all += passed[stream].received);
    all
}

/// Frames for which the interfaces of an end had no room. A driver counts again, in parts, what the
/// kernel counts in sum.
fn drops(sample: &Sample) -> u64 {
    let counters = sample.interfaces.iter().flat_map(|interface| &interface.counters);
    let kernel = counters.filter(|(name, _)| is_drop(name) && !name.starts_with("driver:"));
    kernel.map(|(_, value)| value).sum()
}
