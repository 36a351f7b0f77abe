//! `soak.json`: all that a soak knows, so that it survives its own end and the report follows from
//! it.

use gigae_eval_model::soak::Sample;
use gigae_eval_model::soak::{Amount, DeviationKind};
use gigae_eval_model::traffic::STREAMS;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// What the file calls itself.
pub const SCHEMA: &str = "gigae.soak.1";

/// Its name.
pub const FILE: &str = "soak.json";

/// Deviations that are kept; more are counted.
const MOST_DEVIATIONS: usize = 200;
/// Gaps and remarks that are kept.
const MOST_REMARKS: usize = 100;
/// Points that are kept; beyond, each two become one.
const MOST_POINTS: usize = 480;

/// The verdict on a soak.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SoakVerdict {
    /// It goes on, or was killed.
    Running,
    /// All of the time without a deviation.
    Passed,
    /// All of the time, with deviations.
    Deviated,
    /// Ended by a person before its time.
    Interrupted,
}

impl SoakVerdict {
    /// Goes on, and notes the time since the state was written, in which the soak did not run.
    /// Both times are UTC, and seconds since 1970. An error if the soak is over.
    pub(crate) fn resume(
        &mut self,
        gaps: &mut Vec<Gap>,
        saved: (&str, u64),
        now: (&str, u64),
    ) -> Result<(), String> {
        // One that was killed when its time was up has no verdict yet, and gets it now.
        if matches!(self, Self::Passed | Self::Deviated) {
            return Err("this soak is over; begin another one without --resume".into());
        }
        // A clock that was set back makes no negative gap.
        let seconds = now.1.saturating_sub(saved.1) as f64;
        if gaps.len() < MOST_REMARKS {
            gaps.push(Gap { from: saved.0.to_owned(), to: now.0.to_owned(), seconds });
        }
        *self = Self::Running;
        Ok(())
    }
}

/// What was asked for.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Settings {
    /// How many others have traffic with this end.
    pub clients: u8,
    /// Control connections of other machines; empty on a virtual network.
    pub peers: Vec<String>,
    /// This machine's interface towards them, or several as one with commas between them.
    pub nic: String,
    /// File with the key.
    pub key: Option<std::path::PathBuf>,
    /// Seconds in all.
    pub duration: f64,
    /// Bytes per second of this end in each direction, all others together.
    pub rate: f64,
    /// Seed of everything that changes.
    pub seed: u64,
    /// Seconds without progress that are a stall.
    pub stall: f64,
}

/// Under which conditions.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Conditions {
    /// Version of this program, and of its source.
    pub gigae: String,
    /// Kernel, CPU, number of CPUs.
    pub machine: String,
    /// Interface, driver, MTU.
    pub nic: String,
    /// How this end's endpoint reaches it.
    pub link: String,
    /// What is between the ends.
    pub network: String,
}

/// Time in which it did not run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Gap {
    /// Since when, UTC.
    pub from: String,
    /// Until when.
    pub to: String,
    /// How long, by the clock of the wall.
    pub seconds: f64,
}

/// Something that should not be.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Deviation {
    /// When, UTC.
    pub utc: String,
    /// Seconds since the beginning, without gaps.
    pub at: f64,
    /// At which end.
    pub end: String,
    /// Its kind.
    pub kind: DeviationKind,
    /// One sentence.
    pub what: String,
}

/// A stretch of time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SoakPoint {
    /// Its end, in seconds since the beginning.
    pub at: f64,
    /// How long it is.
    pub seconds: f64,
    /// Messages, tagged messages and writes verified at all ends.
    pub messages: u64,
    /// Their bytes.
    pub gigae_bytes: u64,
    /// Bytes of TCP verified at all ends.
    pub tcp_bytes: u64,
    /// GigaE frames sent again.
    pub retransmissions: u64,
    /// TCP segments sent again.
    pub tcp_retransmissions: u64,
    /// Frames for which a switch, an interface or a socket had no room.
    pub drops: u64,
    /// Largest resident memory of a process, in bytes.
    pub rss: u64,
}

impl SoakPoint {
    fn merge(&mut self, next: &SoakPoint) {
        self.at = next.at;
        self.seconds += next.seconds;
        self.messages += next.messages;
        self.gigae_bytes += next.gigae_bytes;
        self.tcp_bytes += next.tcp_bytes;
        self.retransmissions += next.retransmissions;
        self.tcp_retransmissions += next.tcp_retransmissions;
        self.drops += next.drops;
        self.rss = self.rss.max(next.rss);
    }
}

/// Figures summed over all ends and rounds.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Sums {
    /// GigaE frames sent.
    pub frames: u64,
    /// Of them again.
    pub retransmissions: u64,
    /// Retransmission timeouts.
    pub timeouts: u64,
    /// STOPs obeyed.
    pub stops: u64,
    /// Duplicates and frames out of their window, discarded.
    pub discarded: u64,
    /// GigaE frames for which the kernel had no room.
    pub dropped: u64,
    /// TCP segments sent again.
    pub tcp_retransmissions: u64,
    /// Frames dropped by the interfaces.
    pub interface_drops: u64,
    /// Frames dropped by full queues of the virtual switch.
    pub switch_drops: u64,
    /// Kernel messages of warning level about something else.
    pub kernel_others: u64,
}

/// An end, as it was last.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SoakEnd {
    /// Its name.
    pub name: String,
    /// Verified there, by stream, over all rounds.
    pub verified: [Amount; STREAMS.len()],
    /// Most resident memory in bytes.
    pub rss: u64,
    /// Most descriptors.
    pub descriptors: u64,
    /// Its last sample.
    pub last: Sample,
}

/// All of it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SoakState {
    /// [`SCHEMA`].
    pub schema: String,
    /// Its verdict so far.
    pub verdict: SoakVerdict,
    /// Command line that repeats it.
    pub command: String,
    /// What was asked for.
    pub settings: Settings,
    /// Under which conditions.
    pub conditions: Conditions,
    /// When it began, UTC.
    pub started: String,
    /// When this was written, UTC.
    pub saved: String,
    /// The same in seconds since 1970.
    pub saved_unix: u64,
    /// Seconds that it has run, without gaps.
    pub elapsed: f64,
    /// Rounds begun.
    pub rounds: u32,
    /// Rounds that ended with everything compared.
    pub complete_rounds: u32,
    /// Time in which it did not run.
    pub gaps: Vec<Gap>,
    /// The ends, this one first.
    pub ends: Vec<SoakEnd>,
    /// Figures.
    pub sums: Sums,
    /// Over time.
    pub points: Vec<SoakPoint>,
    /// Seconds of a point at least.
    pub span: f64,
    /// The first deviations.
    pub deviations: Vec<Deviation>,
    /// How many there were of each kind.
    pub counts: BTreeMap<DeviationKind, u64>,
    /// What else is worth knowing.
    pub remarks: Vec<String>,
    /// Part of the CPUs' time that the host took away, on average.
    pub steal: f64,
    /// Part in which they worked, for this program or others.
    pub work: f64,
}

impl SoakState {
    /// The beginning of a soak.
    pub fn new(settings: Settings, command: String, now: &str) -> Self {
        Self {
            schema: SCHEMA.to_owned(),
            verdict: SoakVerdict::Running,
            command,
            settings,
            conditions: Conditions::default(),
            started: now.to_owned(),
            saved: now.to_owned(),
            saved_unix: 0,
            elapsed: 0.0,
            rounds: 0,
            complete_rounds: 0,
            gaps: Vec::new(),
            ends: Vec::new(),
            sums: Sums::default(),
            points: Vec::new(),
            span: 0.0,
            deviations: Vec::new(),
            counts: BTreeMap::new(),
            remarks: Vec::new(),
            steal: 0.0,
            work: 0.0,
        }
    }

    /// Reads its text.
    pub fn parse(text: &str) -> Result<Self, String> {
        let state: Self = serde_json::from_str(text).map_err(|error| error.to_string())?;
        if state.schema == SCHEMA {
            Ok(state)
        } else {
            Err(format!("it is a '{}' and not a '{SCHEMA}'", state.schema))
        }
    }

    /// Its text.
    pub fn to_json(&self) -> String {
        serde_json::to_string_pretty(self).expect("a state is plain data") + "\n"
    }

    /// Seconds that remain.
    pub fn left(&self) -> f64 {
        (self.settings.duration - self.elapsed).max(0.0)
    }

    /// Goes on after it was interrupted or killed, at this time.
    pub fn resume(&mut self, now: &str, now_unix: u64) -> Result<(), String> {
        let saved = (&self.saved[..], self.saved_unix);
        self.verdict.resume(&mut self.gaps, saved, (now, now_unix))
    }

    /// How many deviations there were.
    pub fn deviated(&self) -> u64 {
        self.counts.values().sum()
    }

    /// Keeps a deviation, or counts it.
    pub fn deviate(&mut self, deviation: Deviation) {
        *self.counts.entry(deviation.kind).or_default() += 1;
        if self.deviations.len() < MOST_DEVIATIONS {
            self.deviations.push(deviation);
        }
    }

    /// Keeps a remark, once.
    pub fn remark(&mut self, remark: String) {
        if self.remarks.len() < MOST_REMARKS && !self.remarks.contains(&remark) {
            self.remarks.push(remark);
        }
    }

    /// Adds a stretch of time; the number of points stays bounded.
    pub fn point(&mut self, point: SoakPoint) {
        match self.points.last_mut() {
            Some(last) if last.seconds < self.span => last.merge(&point),
            _ => self.points.push(point),
        }
        if self.points.len() > MOST_POINTS {
            self.span = self.span.max(f64::MIN_POSITIVE) * 2.0;
            let halves = self.points.chunks(2).map(|pair| {
                let mut first = pair[0];
                pair.iter().skip(1).for_each(|second| first.merge(second));
                first
            });
            self.points = halves.collect();
        }
    }

    /// Decides how it ends.
    pub fn end(&mut self, interrupted: bool) {
        self.verdict = match (interrupted, self.deviated()) {
            (true, _) => SoakVerdict::Interrupted,
            (false, 0) => SoakVerdict::Passed,
            _ => SoakVerdict::Deviated,
        };
    }

    /// The verdict as a sentence.
    pub fn say(&self) -> String {
        let ran = gigae_eval_model::duration::say(self.elapsed);
        let deviations = match self.deviated() {
            0 => "no deviation".to_owned(),
            1 => "1 deviation".to_owned(),
            more => format!("{more} deviations"),
        };
        match self.verdict {
            SoakVerdict::Running => format!("running for {ran}, {deviations} so far"),
            SoakVerdict::Passed => format!("passed: {ran}, {deviations}"),
            SoakVerdict::Deviated => format!("deviated: {deviations} in {ran}"),
            SoakVerdict::Interrupted => format!("interrupted after {ran}, {deviations}"),
        }
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    pub(in super::super) fn settings() -> Settings {
        Settings {
            clients: 2,
            peers: Vec::new(),
            nic: String::new(),
            key: None,
            duration: 600.0,
            rate: 1e6,
            seed: 1,
            stall: 30.0,
        }
    }

    fn state() -> SoakState {
        SoakState::new(settings(), "gigae soak".into(), "2026-01-01T00:00:00Z")
    }

    fn deviation(kind: DeviationKind) -> Deviation {
        let text = |text: &str| text.to_owned();
        Deviation { utc: text("u"), at: 1.5, end: text("n2"), kind, what: text("w") }
    }

    #[test]
    fn a_state_survives_its_text() {
        let mut state = state();
        state.deviate(deviation(DeviationKind::Link));
        state.point(SoakPoint { at: 5.0, seconds: 5.0, messages: 7, ..SoakPoint::default() });
        state.ends.push(SoakEnd { name: "hub".into(), ..SoakEnd::default() });
        assert_eq!(SoakState::parse(&state.to_json()), Ok(state));
    }

    #[test]
    fn another_schema_is_refused() {
        let text = state().to_json().replace(SCHEMA, "gigae.soak.9");
        assert!(SoakState::parse(&text).unwrap_err().contains("gigae.soak.9"));
    }

    #[test]
    fn resuming_keeps_what_was_and_notes_the_gap() {
        let mut state = state();
        (state.elapsed, state.saved_unix) = (100.0, 1000);
        state.deviate(deviation(DeviationKind::Lost));
        state.resume("later", 1250).unwrap();
        assert_eq!((state.left(), state.deviated()), (500.0, 1));
        assert_eq!(state.gaps[0].seconds, 250.0);
        // A clock that was set back makes no negative gap.
        state.resume("earlier", 10).unwrap();
        assert_eq!(state.gaps[1].seconds, 0.0);
    }

    #[test]
    fn what_is_over_cannot_be_resumed_and_what_was_interrupted_can() {
        let mut state = state();
        state.end(true);
        assert_eq!(state.verdict, SoakVerdict::Interrupted);
        state.resume("now", 0).unwrap();
        assert_eq!(state.verdict, SoakVerdict::Running);
        state.end(false);
        assert_eq!(state.verdict, SoakVerdict::Passed);
        assert!(state.resume("now", 0).is_err());
    }

    /// It has no more to measure, but gets its verdict.
    #[test]
    fn a_soak_that_was_killed_when_its_time_was_up_can_be_resumed() {
        let mut state = state();
        state.elapsed = state.settings.duration;
        state.resume("later", 0).unwrap();
        assert_eq!((state.left(), state.verdict), (0.0, SoakVerdict::Running));
        state.end(false);
        assert_eq!(state.verdict, SoakVerdict::Passed);
    }

    #[test]
    fn a_deviation_decides_the_verdict() {
        let mut state = state();
        state.deviate(deviation(DeviationKind::Stall));
        state.end(false);
        assert_eq!(state.verdict, SoakVerdict::Deviated);
        assert!(state.say().contains("1 deviation in"), "{}", state.say());
    }

    #[test]
    fn points_and_deviations_stay_bounded_and_sums_stay_right() {
        let mut state = state();
        for step in 1..=10_000 {
            state.point(SoakPoint {
                at: f64::from(step),
                seconds: 1.0,
                messages: 3,
                ..SoakPoint::default()
            });
            state.deviate(deviation(DeviationKind::Torn));
        }
        assert!((100..=MOST_POINTS).contains(&state.points.len()), "{}", state.points.len());
        assert_eq!(state.points.iter().map(|point| point.messages).sum::<u64>(), 30_000);
        assert_eq!(state.points.last().unwrap().at, 10_000.0);
        assert_eq!((state.deviations.len(), state.deviated()), (MOST_DEVIATIONS, 10_000));
    }
}
