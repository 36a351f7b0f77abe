//! What must hold of a plan before anything is measured. The error is one line and names what is
//! wrong.

use super::cell::Cell;
use super::condition::{Condition, Cpus};
use super::figure::{FigurePlan, ResolvedCell, RowPlan, Value};
use super::form::{ExperimentPlan, LinkPlan, Plan, ethernet_mtu, one_link, one_queue, two_nodes};
use super::metadata::MetadataPlan;
use super::paper::PaperPlan;
use super::settings::DEFAULT;
use super::tune::TunePlan;
use crate::experiment::Experiment;
use crate::size::Size;
use crate::transport::{self, LARGEST_MESSAGE};
use crate::wait::Wait;

/// A repetition never measures longer than this many seconds, so that no load is unbounded.
pub const LONGEST_REPETITION: f64 = 60.0;

/// Longest delay of a link in microseconds: more than the way around the world.
const MOST_DELAY_US: u64 = 200_000;

/// Longest time in milliseconds that a link is down: clients wait longer before they give up.
const MOST_DOWN_MS: u64 = 10_000;

/// Beyond this a link is not one: control connections would break, too.
const MOST_LOSS: f64 = 0.2;

/// Most settings that are tried on a link.
const MOST_TRIALS: usize = 64;

impl Plan {
    pub(super) fn check(&self) -> Result<(), String> {
        if self.repetitions == 0 || self.max_repetitions < self.repetitions {
            return Err("repetitions must be at least 1 and at most max_repetitions".into());
        }
        if self.max_repetitions > 1000 {
            return Err("max_repetitions must be at most 1000".into());
        }
        if !(0.001..=1.0).contains(&self.precision) {
            return Err("precision must be from 0.001 to 1".into());
        }
        if self.link.is_empty() || self.experiment.is_empty() {
            return Err("at least one [link.NAME] and one [[experiment]] are needed".into());
        }
        for (name, link) in &self.link {
            link.check().map_err(|why| format!("link '{name}': {why}"))?;
        }
        self.check_settings()?;
        self.experiment.iter().try_for_each(|experiment| self.check_experiment(experiment))?;
        if self.experiment.iter().all(|experiment| experiment.kind.needs_no_link()) {
            return Err("at least one experiment must use a link".into());
        }
        self.check_figures()?;
        self.check_tuning()?;
        self.check_files()?;
        self.check_access()?;
        self.check_metadata()?;
        self.check_shares()?;
        self.check_mounts()?;
        self.check_papers()
    }

    fn check_settings(&self) -> Result<(), String> {
        for transport in transport::TRANSPORTS {
            let transport = transport.name;
            for (name, setting) in self.settings(transport) {
                if name == DEFAULT {
                    return Err(format!(
                        "[{transport}.{DEFAULT}]: that name means no setting; choose another"
                    ));
                }
                setting.check().map_err(|why| format!("[{transport}.{name}]: {why}"))?;
            }
        }
        Ok(())
    }

    fn check_experiment(&self, experiment: &ExperimentPlan) -> Result<(), String> {
        for name in &experiment.transports {
            if transport::by_name(name).is_none() {
                return Err(format!("unknown transport '{name}', known: {}", transport::names()));
            }
        }
        for name in &experiment.links {
            if !self.link.contains_key(name) {
                return Err(format!("an experiment names the unknown link '{name}'"));
            }
        }
        for transport in transport::TRANSPORTS {
            let transport = transport.name;
            for name in experiment.selected(transport).unwrap_or_default() {
                if !is_variant(self, transport, name) {
                    return Err(format!(
                        "an experiment names the unknown {transport} setting '{name}'"
                    ));
                }
            }
        }
        if !(0.01..=LONGEST_REPETITION).contains(&experiment.seconds)
            || !(0.0..=LONGEST_REPETITION).contains(&experiment.warmup)
        {
            return Err(format!(
                "seconds must be from 0.01 to {LONGEST_REPETITION}, warmup from 0"
            ));
        }
        experiment.check_lists()
    }

    /// Checks all figures and rows of a plan; the error names the one that is wrong.
    fn check_figures(&self) -> Result<(), String> {
        for figure in &self.figure {
            figure.check(self).map_err(|why| format!("figure '{}': {why}", figure.name))?;
        }
        for row in &self.row {
            row.check(self).map_err(|why| format!("row '{}': {why}", row.name))?;
        }
        Ok(())
    }

    /// Checks sources, figures and sentences; the error names the one that is wrong.
    fn check_papers(&self) -> Result<(), String> {
        let known = |source: &String| {
            if self.source.contains_key(source) { Ok(()) } else { Err("unknown source".to_owned()) }
        };
        for paper in &self.paper {
            let checked = known(&paper.source).and_then(|()| paper.check(self));
            checked.map_err(|why| format!("paper '{} {}': {why}", paper.source, paper.at))?;
        }
        for said in &self.said {
            known(&said.source).map_err(|why| format!("said '{}': {why}", said.source))?;
        }
        for nic in &self.nic {
            known(&nic.source).map_err(|why| format!("nic '{}': {why}", nic.name))?;
        }
        Ok(())
    }

    /// Checks `[[metadata]]`; the error names the one that is wrong.
    fn check_metadata(&self) -> Result<(), String> {
        let loopback = |name: &str| self.link.get(name).map(|link| link.loopback);
        let of = |one: &MetadataPlan| {
            one.check(loopback).map_err(|why| format!("metadata '{}': {why}", one.service))
        };
        self.metadata.iter().try_for_each(of)
    }

    /// Checks `[tune]`; the error says so.
    fn check_tuning(&self) -> Result<(), String> {
        let tuned = self.experiment.iter().any(|one| one.tune);
        match &self.tune {
            Some(tune) => tune.check(self).map_err(|why| format!("[tune]: {why}")),
            None if tuned => Err("tune = true needs a [tune] that says which settings".into()),
            None => Ok(()),
        }
    }
}

impl LinkPlan {
    fn check(&self) -> Result<(), String> {
        if !(576..=9000).contains(&self.mtu) || self.rate_mbit == Some(0) {
            return Err("mtu must be from 576 to 9000, rate_mbit above 0".into());
        }
        if !(0.0..=MOST_LOSS).contains(&self.loss) {
            return Err(format!("loss must be from 0 to {MOST_LOSS}"));
        }
        if !(1..=8).contains(&self.links) || self.links > 1 && self.loss > 0.0 {
            return Err("links must be from 1 to 8, and 1 where there is a loss".into());
        }
        if !(2..=17).contains(&self.nodes) || self.nodes > 2 && self.cable {
            return Err("nodes must be from 2 to 17, and 2 of a cable".into());
        }
        if !(1..=16).contains(&self.queues) {
            return Err("queues must be from 1 to 16".into());
        }
        if self.loopback && !self.is_plain() {
            return Err("a loopback has no other keys; leave them out".into());
        }
        if self.server_rate_mbit.is_some() && (self.rate_mbit.is_none() || self.links > 1) {
            return Err("server_rate_mbit needs rate_mbit, and one link".into());
        }
        if self.server_rate_mbit == Some(0) {
            return Err("server_rate_mbit must be above 0".into());
        }
        if self.cable && (self.rate_mbit.is_some() || self.loss > 0.0 || self.delay_us.is_some()) {
            return Err(
                "a cable has neither rate_mbit nor loss nor delay_us; leave out cable".into()
            );
        }
        if self.delay_us.is_some_and(|delay| delay > MOST_DELAY_US) {
            return Err(format!("delay_us must be at most {MOST_DELAY_US}"));
        }
        if self.delay_us.is_some() && self.queues > 1 {
            return Err("delay_us needs one queue; leave out queues".into());
        }
        let single = !self.cable && self.delay_us.is_none() && self.links == 1;
        match self.down_ms {
            Some(_) if !single => Err(
                "down_ms needs one link with the kernel's switch; leave out cable, delay_us and links"
                    .into(),
            ),
            Some(down) if !(1..=MOST_DOWN_MS).contains(&down) => {
                Err(format!("down_ms must be from 1 to {MOST_DOWN_MS}"))
            }
            _ => Ok(()),
        }
    }
}

impl LinkPlan {
    /// Whether it loses frames, delays them, or goes down.
    pub fn is_disturbed(&self) -> bool {
        self.loss > 0.0 || self.delay_us.is_some() || self.goes_down()
    }

    /// Whether it goes down in the middle of copies.
    pub fn goes_down(&self) -> bool {
        self.down_ms.is_some()
    }

    /// Whether all but `loopback` is left out.
    fn is_plain(&self) -> bool {
        let shaped = self.rate_mbit.is_some() || self.buffer.is_some();
        !(self.cable || shaped || self.is_disturbed())
            && (self.links, self.nodes, self.mtu, self.queues)
                == (one_link(), two_nodes(), ethernet_mtu(), one_queue())
    }
}

impl ExperimentPlan {
    /// What must be there for its kind, and what makes no sense with it.
    fn check_lists(&self) -> Result<(), String> {
        for size in &self.sizes {
            // Every message carries a number of four bytes, by which an echo is recognised.
            if matches!(size, Size::Bytes(bytes) if !(4..=LARGEST_MESSAGE).contains(bytes)) {
                return Err(format!(
                    "sizes must be from 4 to {LARGEST_MESSAGE} bytes or \"frame\""
                ));
            }
        }
        for condition in self.conditions() {
            condition.check(self.kind)?;
        }
        if self.tune && self.kind.needs_no_link() {
            return Err("this experiment has no interface to tune".into());
        }
        let spins = self.kind == Experiment::Paced || self.waits != [Wait::Sleep];
        if self.kind == Experiment::Incast && self.waits != [Wait::Sleep] {
            return Err("many senders share a CPU, so an incast experiment sleeps".into());
        }
        if spins && self.cpus.contains(&Cpus::One) {
            return Err("ends on one CPU must sleep, or neither lets the other run".into());
        }
        let network =
            !(self.links.is_empty() && self.transports.is_empty() && self.waits.is_empty());
        match self.kind {
            Experiment::Memory if network || self.sizes.contains(&Size::Frame) => {
                Err("a memory experiment has sizes in bytes and no links, transports or waits"
                    .into())
            }
            Experiment::Memory if self.sizes.is_empty() => Err("an experiment needs sizes".into()),
            Experiment::Memory => Ok(()),
            Experiment::Ceiling
                if !self.links.is_empty()
                    || self.transports != ["gigae"]
                    || self.waits != [Wait::Spin] =>
            {
                Err("a ceiling experiment has transports = [\"gigae\"], waits = [\"spin\"] and no \
                     links"
                    .into())
            }
            Experiment::Ceiling if self.sizes.is_empty() => Err("an experiment needs sizes".into()),
            Experiment::Ceiling => Ok(()),
            _ if self.links.is_empty() || self.sizes.is_empty() || self.waits.is_empty() => {
                Err("an experiment needs links, sizes and waits".into())
            }
            _ => Ok(()),
        }
    }
}

impl FigurePlan {
    fn check(&self, plan: &Plan) -> Result<(), String> {
        let fits = match self.value {
            Value::Median => self.kind != Experiment::Memory,
            Value::P99 => self.kind == Experiment::Rtt,
            Value::Messages | Value::Share | Value::PerLink | Value::Cpu | Value::Calls => {
                self.kind == Experiment::Stream
            }
        };
        if !fits {
            return Err("this value does not exist for experiments of this kind".into());
        }
        if self.link.is_some() && !self.links.is_empty() {
            return Err("give link or links, not both".into());
        }
        let bounds = [self.at_most, self.at_least];
        if bounds.iter().flatten().any(|bound| !bound.is_finite() || *bound <= 0.0) {
            return Err("a bound must be above 0".into());
        }
        match bounds.iter().flatten().count() {
            2 => return Err("give at_most or at_least, not both".into()),
            0 if self.sizes.len() > 1 => {
                return Err("with several sizes it needs at_most or at_least".into());
            }
            _ => {}
        }
        for (of, over) in self.targets()? {
            of.iter().chain(over.iter().flatten()).try_for_each(|one| check_target(plan, one))?;
        }
        Ok(())
    }
}

impl RowPlan {
    /// Some experiment must measure something of it.
    fn check(&self, plan: &Plan) -> Result<(), String> {
        let target = self.target(Experiment::Stream, Size::Frame);
        let mtu = known(plan, &target)?;
        let cells = plan.cells(Some(&self.link), mtu);
        let mine = |cell: &Cell| {
            (cell.transport.as_str(), cell.variant.as_deref(), cell.wait)
                == (target.transport, target.variant, target.wait)
        };
        if cells.iter().any(mine) { Ok(()) } else { Err("no experiment measures it".into()) }
    }
}

/// The MTU of the target's link; refuses unknown names.
fn known(plan: &Plan, target: &ResolvedCell<'_>) -> Result<usize, String> {
    if transport::by_name(target.transport).is_none() {
        return Err(format!("unknown transport '{}'", target.transport));
    }
    if let Some(name) = target.variant.filter(|name| !is_variant(plan, target.transport, name)) {
        return Err(format!("unknown {} setting '{name}'", target.transport));
    }
    match plan.link.get(target.link) {
        Some(link) => Ok(link.mtu as usize),
        None => Err(format!("unknown link '{}'", target.link)),
    }
}

fn check_target(plan: &Plan, target: &ResolvedCell<'_>) -> Result<(), String> {
    let mtu = known(plan, target)?;
    let carrier = transport::by_name(target.transport).expect("known");
    let size = target.size.bytes(carrier, mtu);
    let cells = plan.cells(Some(target.link), mtu);
    let found = cells.iter().any(|cell| {
        (cell.experiment, cell.transport.as_str(), cell.variant.as_deref(), cell.wait, cell.size)
            == (target.kind, target.transport, target.variant, target.wait, size)
            && cell.condition == Condition::default()
    });
    if found { Ok(()) } else { Err(format!("no experiment measures '{}'", target.say())) }
}

/// Whether a name of a variant means something: a table of the plan, or the defaults.
pub(super) fn is_variant(plan: &Plan, transport: &str, name: &str) -> bool {
    name == DEFAULT || plan.settings(transport).iter().any(|(known, _)| *known == name)
}

impl PaperPlan {
    fn check(&self, plan: &Plan) -> Result<(), String> {
        let (transport, variant) = (&self.of.transport, self.of.variant.as_deref());
        if transport::by_name(transport).is_none() {
            return Err(format!("unknown transport '{transport}'"));
        }
        if let Some(name) = variant.filter(|name| !is_variant(plan, transport, name)) {
            return Err(format!("unknown {transport} setting '{name}'"));
        }
        if self.of.size.is_some() {
            return Err("give sizes in the points only".into());
        }
        if self.points.is_empty() == self.best.is_none() {
            return Err("it needs either points or a best value".into());
        }
        Ok(())
    }
}

impl TunePlan {
    fn check(&self, plan: &Plan) -> Result<(), String> {
        if self.knobs.is_empty() {
            return Err("name knobs; 'gigae tuning knobs' lists them".into());
        }
        for (name, values) in &self.knobs {
            if values.is_empty() {
                return Err(format!("knob '{name}' has no values"));
            }
        }
        if self.most_trials() > MOST_TRIALS {
            return Err(format!("at most {MOST_TRIALS} settings; name fewer values"));
        }
        for name in self.links.iter().flatten() {
            match plan.link.get(name) {
                None => return Err(format!("unknown link '{name}'")),
                Some(link) if link.loopback => {
                    return Err(format!("link '{name}' is the machine's own, which is not tuned"));
                }
                Some(_) => {}
            }
        }
        let tuned = || plan.experiment.iter().filter(|one| one.tune);
        if transport::by_name(&self.by).is_none()
            || !tuned().any(|one| one.transports.contains(&self.by))
        {
            return Err(format!(
                "by = '{}' is not a transport of an experiment with tune = true",
                self.by
            ));
        }
        Ok(())
    }
}
