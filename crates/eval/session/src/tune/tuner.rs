//! The knobs of one end, turned and put back.

use super::guardian::Guardian;
use super::interface::TunedInterface;
use super::journal::{Journal, JournalEntry, RestoreResult};
use super::knob::{Absent, Knob};
use super::list::by_name;
use crate::remark::remark;
use gigae_eval_measure::site::Site;
use gigae_eval_model::knobs::{KnobOwner, KnobState, Set, ValueState, WantedKnob};
use std::io;
use std::time::{Duration, Instant};

/// A driver that changed its rings takes its link down for seconds; longer only if something is
/// wrong.
const LINK_WITHIN: Duration = Duration::from_secs(15);

/// What is in flight arrives within this time after a change.
const SETTLE: Duration = Duration::from_millis(20);

/// A setting could not be made. The text is one line.
#[derive(Debug, thiserror::Error)]
pub enum TuneError {
    /// What must be there for settings to be put back could not be made; nothing was changed.
    #[error("nothing was changed, because the former settings cannot be saved in {directory}: {0}; run as root", directory = super::journal::DIRECTORY)]
    Safety(io::Error),
    /// A knob refused.
    #[error("{knob} cannot be made {value}: {why}")]
    Refused {
        /// The knob.
        knob: &'static str,
        /// The value.
        value: String,
        /// Why.
        why: String,
    },
    /// The link did not come back.
    #[error("the link of {0} did not come up within {within} s after the change", within = LINK_WITHIN.as_secs())]
    Down(String),
}

/// A knob of one interface that may be turned.
struct InterfaceSetting {
    knob: &'static dyn Knob,
    /// Which interface.
    nic: usize,
    /// As in the journal, if there will be one.
    entry: JournalEntry,
    /// Whether another program changed it, so that it is left alone from now on.
    lost: bool,
}

/// The knobs of one end that a plan names. What it changes, it puts back when it is dropped, in the
/// thread's namespace of then, which must be that in which it was made.
pub struct Tuner {
    nics: Vec<TunedInterface>,
    settings: Vec<InterfaceSetting>,
    journal: Option<Journal>,
    guardian: Option<Guardian>,
}

impl Tuner {
    /// Looks at the knobs that a plan names with their values; changes nothing.
    pub fn new(site: &Site, wanted: &[WantedKnob]) -> io::Result<(Self, Vec<KnobState>)> {
        let mut tuner = Self {
            nics: TunedInterface::of(site)?,
            settings: Vec::new(),
            journal: None,
            guardian: None,
        };
        let states = wanted.iter().map(|one| tuner.look(&one.knob, &one.values)).collect();
        Ok((tuner, states))
    }

    /// Takes a knob into its hands at every interface that has it, and says what there is.
    fn look(&mut self, name: &str, values: &[String]) -> KnobState {
        let mut state = KnobState {
            knob: name.to_owned(),
            belongs: KnobOwner::Machine,
            present: None,
            absent: None,
            note: None,
            values: Vec::new(),
        };
        let Some(knob) = by_name(name) else {
            state.absent = Some("this version does not know it".into());
            return state;
        };
        state.belongs = knob.form().belongs;
        if knob.form().belongs == KnobOwner::Machine && self.nics[0].virtual_link {
            state.absent =
                Some("it is the whole machine's, and not changed for a virtual network".into());
            return state;
        }
        let first = self.settings.len();
        // What is the program's own it has once, and not once for each interface.
        let nics = if knob.form().belongs == KnobOwner::Program { 1 } else { self.nics.len() };
        for (number, nic) in self.nics.iter().enumerate().take(nics) {
            match knob.read(nic) {
                Ok(before) => self.settings.push(InterfaceSetting {
                    knob,
                    nic: number,
                    entry: JournalEntry {
                        knob: name.to_owned(),
                        interface: nic.interface.clone(),
                        index: nic.index,
                        before,
                        set: None,
                        pending: false,
                    },
                    lost: false,
                }),
                Err(why) => state.absent = state.absent.or(Some(why.0)),
            }
        }
        let mine = &self.settings[first..];
        let Some(leader) = mine.first() else { return state };
        state.absent = None;
        state.present = Some(knob.say(&leader.entry.before));
        state.note = knob.note(&self.nics[leader.nic]);
        state.values = values.iter().map(|value| self.value(mine, value)).collect();
        state
    }

    fn value(&self, of: &[InterfaceSetting], value: &str) -> ValueState {
        let mut state =
            ValueState { value: value.to_owned(), same: true, absent: None, commands: Vec::new() };
        for setting in of {
            let nic = &self.nics[setting.nic];
            match exact(setting.knob, nic, value) {
                Ok(exact) => {
                    state.same &= exact == setting.entry.before;
                    state.commands.extend(setting.knob.commands(nic, &exact));
                }
                Err(why) => state.absent = Some(why.0),
            }
        }
        state.same &= state.absent.is_none();
        state
    }

    /// Sets what is named, makes everything else as it was before, and waits until the links are
    /// up. What this end does not have is left out. After an error, all is as before as far as that
    /// can be.
    pub fn apply(&mut self, sets: &[Set]) -> Result<(), TuneError> {
        let outcome = self.turn_all(sets).and_then(|()| self.await_links());
        if outcome.is_err() {
            self.turn_back_all();
        }
        outcome
    }

    fn turn_all(&mut self, sets: &[Set]) -> Result<(), TuneError> {
        for number in (0..self.settings.len()).rev() {
            let name = self.settings[number].knob.name();
            if !sets.iter().any(|set| set.knob == name) {
                self.turn_back(number).map_err(|why| refused(&self.settings[number], None, why))?;
            }
        }
        for set in sets {
            for number in 0..self.settings.len() {
                let setting = &self.settings[number];
                if setting.knob.name() != set.knob || setting.lost {
                    continue;
                }
                let Ok(exact) = exact(setting.knob, &self.nics[setting.nic], &set.value) else {
                    continue;
                };
                let now = setting.entry.set.as_ref().unwrap_or(&setting.entry.before);
                if *now != exact {
                    self.turn(number, &exact)?;
                }
            }
        }
        Ok(())
    }

    /// Changes one value, with what was before on record.
    fn turn(&mut self, number: usize, exact: &str) -> Result<(), TuneError> {
        let entry = &mut self.settings[number].entry;
        (entry.set, entry.pending) = (Some(exact.to_owned()), true);
        self.record(number).map_err(TuneError::Safety)?;
        let setting = &mut self.settings[number];
        let nic = &mut self.nics[setting.nic];
        let written = setting.knob.write(nic, exact);
        let now = setting.knob.read(nic).map_err(|why| io::Error::other(why.0));
        let now = written.and(now).map_err(|error| {
            let why = match error.raw_os_error() {
                Some(libc::EOPNOTSUPP) => "the driver does not have it".to_owned(),
                _ => error.to_string(),
            };
            refused(&self.settings[number], Some(exact), why)
        })?;
        let setting = &mut self.settings[number];
        let before = setting.entry.before.clone();
        if now == before && exact != before {
            let why = format!("the driver keeps {}", setting.knob.say(&before));
            return Err(refused(setting, Some(exact), why));
        }
        (setting.entry.set, setting.entry.pending) = (Some(now), false);
        self.record(number).map_err(TuneError::Safety)
    }

    /// Writes the journal, and has a guardian for it, before anything that lasts is changed.
    fn record(&mut self, number: usize) -> io::Result<()> {
        let lasts = |setting: &InterfaceSetting| setting.knob.form().belongs != KnobOwner::Program;
        let matters =
            |setting: &InterfaceSetting| lasts(setting) || setting.knob.leaves_something();
        if !matters(&self.settings[number]) {
            return Ok(());
        }
        let must = lasts(&self.settings[number]);
        let entries = self.settings.iter().filter(|setting| matters(setting) && !setting.lost);
        let entries = entries.map(|setting| setting.entry.clone()).collect();
        match &mut self.journal {
            Some(journal) => {
                journal.record.entries = entries;
                journal.write()
            }
            None => {
                let journal = match Journal::create(entries) {
                    // A user without rights there: the next start removes what is left.
                    Err(_) if !must => return Ok(()),
                    other => other?,
                };
                self.guardian = Some(Guardian::start(&journal.path).inspect_err(|_| {
                    let _ = journal.remove();
                })?);
                self.journal = Some(journal);
                Ok(())
            }
        }
    }

    /// Makes one value as it was before; an error is one line.
    fn turn_back(&mut self, number: usize) -> Result<(), String> {
        let setting = &mut self.settings[number];
        if setting.lost || setting.entry.set.is_none() {
            return Ok(());
        }
        let outcome = setting.entry.put_back(setting.knob, &mut self.nics[setting.nic]);
        if let Some(said) = setting.entry.say(&outcome) {
            remark(&said);
        }
        match outcome {
            RestoreResult::Failed(why) => return Err(why),
            RestoreResult::Left(_) => setting.lost = true,
            RestoreResult::Back => {}
        }
        (setting.entry.set, setting.entry.pending) = (None, false);
        // If this fails, the journal says more than is true: that a value may be ours that is as
        // before.
        let _ = self.record(number);
        Ok(())
    }

    fn turn_back_all(&mut self) -> bool {
        let mut all = true;
        for number in (0..self.settings.len()).rev() {
            all &= self.turn_back(number).is_ok();
        }
        all
    }

    /// Puts everything back. What could not be stays in the journal and was said on standard error.
    pub fn restore(&mut self) {
        if self.turn_back_all()
            && let Some(journal) = self.journal.take()
        {
            let _ = journal.remove();
        }
        // It looks into the journal once more.
        self.guardian = None;
    }

    /// What the settings mean for measuring at this end: the MTU, and the program's own sockets.
    pub fn adapt(&self, site: &mut Site) {
        let mtus = self.nics.iter().filter_map(|nic| nic.ethtool.mtu(&nic.interface));
        site.mtu = mtus.min().map_or(site.mtu, |mtu| mtu as usize);
        site.congestion = self.nics[0].congestion.clone();
    }

    /// Some changes take the link down for a moment.
    fn await_links(&self) -> Result<(), TuneError> {
        let deadline = Instant::now() + LINK_WITHIN;
        for nic in &self.nics {
            while !nic.ethtool.is_running(&nic.interface) {
                if Instant::now() > deadline {
                    return Err(TuneError::Down(nic.interface.clone()));
                }
                std::thread::sleep(SETTLE);
            }
        }
        std::thread::sleep(SETTLE);
        Ok(())
    }
}

impl Drop for Tuner {
    fn drop(&mut self) {
        self.restore();
    }
}

/// A plan's value as it would be here. Who asks may be another machine.
fn exact(knob: &dyn Knob, nic: &TunedInterface, value: &str) -> Result<String, Absent> {
    if !knob.accepts(value) {
        return Err(Absent(format!("it takes {}", knob.form().values)));
    }
    knob.exact(nic, value)
}

fn refused(setting: &InterfaceSetting, exact: Option<&str>, why: String) -> TuneError {
    let value = setting.knob.say(exact.unwrap_or(&setting.entry.before));
    TuneError::Refused { knob: setting.knob.name(), value, why }
}
