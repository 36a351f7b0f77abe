//! `soak.json` of file services: all that a soak of file services knows.

use crate::state::{Conditions, Deviation, Gap, SoakVerdict};
use gigae_eval_model::soak::{Amount, DeviationKind};
use serde::{Deserialize, Serialize};

/// What the file calls itself.
pub const SCHEMA: &str = "gigae.soak.services.1";

/// Deviations that are kept; more are counted.
const MOST_DEVIATIONS: usize = 200;

/// A part of the time over which sums are kept, in seconds: at least this, and so much that there
/// are at most [`MOST_PARTS`].
const PART: f64 = 600.0;

/// At most so many parts.
const MOST_PARTS: f64 = 48.0;

/// What was asked for.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ServiceSettings {
    /// The services.
    pub services: Vec<String>,
    /// How many clients.
    pub clients: u8,
    /// Seconds in all.
    pub duration: f64,
    /// Bytes per second of all services together at most.
    pub rate: f64,
    /// Seed of sizes, ways and clients.
    pub seed: u64,
}

/// What a service has done.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ServiceRecord {
    /// Its name.
    pub service: String,
    /// What the programs say of their versions.
    pub version: String,
    /// The client's, if it is another program.
    pub client_version: Option<String>,
    /// How often its server was started.
    pub starts: u64,
    /// Turns: one or several clients at once.
    pub turns: u64,
    /// Copies of files and trees that were compared, and found equal, and their bytes.
    pub copies: Amount,
    /// The same for each part of the time.
    pub parts: Vec<Amount>,
    /// The longest turn in seconds, from the start of the client that ran longest to its end.
    pub longest: f64,
    /// What it transferred.
    pub longest_of: String,
    /// Resident memory of the server's processes in bytes: last, and most. What they share counts
    /// for each.
    pub memory: [u64; 2],
    /// Deviations.
    pub deviated: u64,
}

/// A turn that went well.
#[derive(Clone, Debug)]
pub struct Seen {
    /// Seconds since the beginning, without gaps.
    pub at: f64,
    /// Copies that were compared.
    pub copies: u64,
    /// Their bytes.
    pub bytes: u64,
    /// How long it took.
    pub seconds: f64,
    /// What was transferred.
    pub what: String,
}

/// All of it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ServiceSoak {
    /// [`SCHEMA`].
    pub schema: String,
    /// Its verdict so far.
    pub verdict: SoakVerdict,
    /// Command line that repeats it.
    pub command: String,
    /// What was asked for.
    pub settings: ServiceSettings,
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
    /// Time in which it did not run.
    pub gaps: Vec<Gap>,
    /// Seconds of a part of the time.
    pub part: f64,
    /// The services, in the order of the settings.
    pub services: Vec<ServiceRecord>,
    /// The first deviations; the end is the service.
    pub deviations: Vec<Deviation>,
    /// How many there were.
    pub deviated: u64,
}

impl ServiceSoak {
    /// The beginning of a soak.
    pub fn new(settings: ServiceSettings, command: String, now: &str) -> Self {
        let part = PART.max(settings.duration / MOST_PARTS);
        let record = |name: &String| ServiceRecord {
            service: name.clone(),
            parts: vec![Amount::default(); (settings.duration / part).ceil() as usize],
            ..ServiceRecord::default()
        };
        Self {
            schema: SCHEMA.to_owned(),
            verdict: SoakVerdict::Running,
            command,
            services: settings.services.iter().map(record).collect(),
            settings,
            conditions: Conditions::default(),
            started: now.to_owned(),
            saved: now.to_owned(),
            saved_unix: 0,
            elapsed: 0.0,
            gaps: Vec::new(),
            part,
            deviations: Vec::new(),
            deviated: 0,
        }
    }

    /// Reads its text.
    pub fn parse(text: &str) -> Result<Self, String> {
        let state: Self = serde_json::from_str(text).map_err(|error| error.to_string())?;
        let parts = (state.settings.duration / state.part).ceil();
        let fits = |record: &ServiceRecord| record.parts.len() as f64 == parts;
        let names = state.services.iter().map(|record| &record.service);
        match state.services.iter().all(fits) && names.eq(&state.settings.services) {
            true => Ok(state),
            false => Err("its services or parts are not those of its settings".into()),
        }
    }

    /// Goes on after it was interrupted or killed, at this time.
    pub fn resume(&mut self, now: &str, now_unix: u64) -> Result<(), String> {
        let saved = (&self.saved[..], self.saved_unix);
        self.verdict.resume(&mut self.gaps, saved, (now, now_unix))
    }

    /// Its text.
    pub fn to_json(&self) -> String {
        serde_json::to_string_pretty(self).expect("a state is plain data") + "\n"
    }

    /// Counts a turn that went well.
    pub fn saw(&mut self, place: usize, seen: Seen) {
        let Seen { at, copies, bytes, seconds, what } = seen;
        let part = (at / self.part) as usize;
        let record = &mut self.services[place];
        let amount = Amount { count: copies, bytes };
        record.turns += 1;
        record.copies += amount;
        // The last turn may end after the time.
        let last = record.parts.len().saturating_sub(1);
        if let Some(part) = record.parts.get_mut(part.min(last)) {
            *part += amount;
        }
        if seconds > record.longest {
            (record.longest, record.longest_of) = (seconds, what);
        }
    }

    /// Notes the memory of a service's server, in bytes.
    pub fn saw_memory(&mut self, place: usize, bytes: u64) {
        let [last, most] = &mut self.services[place].memory;
        (*last, *most) = (bytes, bytes.max(*most));
    }

    /// Keeps a deviation of a service, or counts it.
    pub fn deviate(
        &mut self,
        place: usize,
        at: f64,
        utc: String,
        kind: DeviationKind,
        what: String,
    ) {
        let record = &mut self.services[place];
        record.deviated += 1;
        self.deviated += 1;
        if self.deviations.len() < MOST_DEVIATIONS {
            let end = record.service.clone();
            self.deviations.push(Deviation { utc, at, end, kind, what });
        }
    }

    /// Decides how it ends after so many seconds, at this time. A service of which nothing was
    /// verified has not passed.
    pub fn end(&mut self, seconds: f64, utc: String) {
        self.elapsed = seconds.min(self.settings.duration);
        if self.elapsed < self.settings.duration {
            self.verdict = SoakVerdict::Interrupted;
            return;
        }
        for place in 0..self.services.len() {
            if self.services[place].copies.count == 0 {
                let what = "no copy was verified; soak for longer".to_owned();
                self.deviate(place, self.elapsed, utc.clone(), DeviationKind::Stall, what);
            }
        }
        self.verdict = match self.deviated {
            0 => SoakVerdict::Passed,
            _ => SoakVerdict::Deviated,
        };
    }

    /// Copies of all services.
    pub fn copies(&self) -> Amount {
        let mut all = Amount::default();
        self.services.iter().for_each(|record| all += record.copies);
        all
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    pub(crate) fn state() -> ServiceSoak {
        let settings = ServiceSettings {
            services: vec!["ftp".into(), "nfs".into()],
            clients: 7,
            duration: 1500.0,
            rate: 1e6,
            seed: 1,
        };
        ServiceSoak::new(settings, "gigae soak --services ftp,nfs".into(), "2026-01-01T00:00:00Z")
    }

    pub(crate) fn seen(at: f64, seconds: f64) -> Seen {
        Seen { at, copies: 2, bytes: 4000, seconds, what: format!("{at}") }
    }

    #[test]
    fn turns_count_in_their_part_and_the_longest_is_kept() {
        let mut state = state();
        for (at, seconds) in [(1.0, 0.5), (700.0, 3.0), (1600.0, 1.0)] {
            state.saw(1, seen(at, seconds));
        }
        let record = &state.services[1];
        assert_eq!((record.turns, record.copies.count, record.copies.bytes), (3, 6, 12_000));
        assert_eq!(record.parts.iter().map(|part| part.count).collect::<Vec<_>>(), [2, 2, 2]);
        assert_eq!((record.longest, &record.longest_of[..]), (3.0, "700"));
        assert_eq!(state.copies().count, 6);
        state.saw_memory(0, 10);
        state.saw_memory(0, 5);
        assert_eq!(state.services[0].memory, [5, 10]);
    }

    #[test]
    fn a_service_of_which_nothing_was_verified_has_not_passed() {
        let mut some = state();
        some.saw(0, seen(1.0, 0.5));
        let mut all = some.clone();
        some.end(1501.0, "u".into());
        assert_eq!((some.verdict, some.deviated), (SoakVerdict::Deviated, 1));
        assert_eq!(some.deviations[0].end, "nfs");
        all.saw(1, seen(1.0, 0.5));
        let mut early = all.clone();
        all.end(1501.0, "u".into());
        assert_eq!((all.verdict, all.elapsed), (SoakVerdict::Passed, 1500.0));
        early.end(100.0, "u".into());
        assert_eq!(early.verdict, SoakVerdict::Interrupted);
    }

    #[test]
    fn what_was_interrupted_goes_on_and_notes_the_gap() {
        let mut state = state();
        state.saw(0, seen(1.0, 0.5));
        state.end(100.0, "u".into());
        (state.saved, state.saved_unix) = ("before".into(), 1000);
        let mut state = ServiceSoak::parse(&state.to_json()).unwrap();
        state.resume("later", 1250).unwrap();
        assert_eq!((state.verdict, state.elapsed), (SoakVerdict::Running, 100.0));
        assert_eq!((&state.gaps[0].from[..], state.gaps[0].seconds), ("before", 250.0));
        assert_eq!(state.services[0].copies.count, 2);
        state.end(1501.0, "u".into());
        assert!(state.resume("later", 1250).unwrap_err().contains("over"));
    }

    #[test]
    fn a_state_that_does_not_fit_its_settings_is_refused() {
        let changes: [fn(&mut ServiceSoak); 4] = [
            |state| state.services.truncate(1),
            |state| state.services[0].parts.truncate(1),
            |state| state.services[1].service = "smb".into(),
            |state| state.part = 0.0,
        ];
        for change in changes {
            let mut state = state();
            change(&mut state);
            assert!(ServiceSoak::parse(&state.to_json()).is_err());
        }
    }

    #[test]
    fn deviations_are_counted_beyond_those_that_are_kept() {
        let mut state = state();
        for _ in 0..1000 {
            state.deviate(0, 1.0, "u".into(), DeviationKind::Failed, "w".into());
        }
        assert_eq!((state.deviated, state.services[0].deviated), (1000, 1000));
        assert_eq!(state.deviations.len(), MOST_DEVIATIONS);
    }
}
