//! Cells: a plan multiplied out into single things to measure.

use super::condition::{Condition, Cpus};
use super::form::{ExperimentPlan, Plan, ethernet_mtu};
use super::label::conditional;
use super::metadata::MetadataPlan;
use super::settings::Setting;
use super::tune::TunePlan;
use crate::experiment::{ACCESS_METHODS, Experiment};
use crate::metadata::MetadataCell;
use crate::size::Size;
use crate::transport;
use crate::wait::Wait;
use std::time::Duration;

/// One thing to measure: a point of a curve.
#[derive(Clone, Debug, PartialEq)]
pub struct Cell {
    /// What is measured.
    pub experiment: Experiment,
    /// Name of the transport; for [`Experiment::Memory`] of the method of access.
    pub transport: String,
    /// Name of the setting, where it has one.
    pub variant: Option<String>,
    /// The setting itself.
    pub setting: Setting,
    /// What else is unusual.
    pub condition: Condition,
    /// How both ends wait; of a paced experiment the answering one, for the other spins.
    pub wait: Wait,
    /// Payload in bytes.
    pub size: usize,
    /// Measured part of a repetition.
    pub measure: Duration,
    /// Discarded part before it.
    pub warmup: Duration,
    /// Whether it is measured under every setting of `[tune]`.
    pub tune: bool,
}

impl Cell {
    /// The transport, its variant and what else is unusual, for people.
    pub fn label(&self) -> String {
        conditional(&self.transport, self.variant.as_deref(), &self.condition)
    }

    /// Whether this is the same point of the same curve, whatever its times are.
    fn is(&self, other: &Self) -> bool {
        (self.experiment, &self.transport, &self.variant, self.wait, self.size)
            == (other.experiment, &other.transport, &other.variant, other.wait, other.size)
            && self.condition == other.condition
    }
}

/// A way to set up a transport.
#[derive(Clone)]
struct NamedSetting {
    /// As the plan calls it, if it has named settings for the transport.
    name: Option<String>,
    setting: Setting,
}

impl NamedSetting {
    /// The transport at its defaults.
    const PLAIN: Self = Self { name: None, setting: Setting::Default };
}

impl Plan {
    /// The operations on names that are measured on a link, with the repetitions of each, in the
    /// plan's order; `link` is `None` between two machines.
    pub fn metadata_cells(&self, link: Option<&str>) -> Vec<(MetadataCell, u32)> {
        let here =
            |one: &&MetadataPlan| link.is_none_or(|link| one.links.iter().any(|name| name == link));
        let mut all: Vec<(MetadataCell, u32)> = Vec::new();
        for metadata in self.metadata.iter().filter(here) {
            for cell in metadata.cells() {
                if !all.iter().any(|(other, _)| *other == cell) {
                    all.push((cell, metadata.repetitions.unwrap_or(self.repetitions)));
                }
            }
        }
        all
    }

    /// The named settings that the plan has for a transport.
    pub(super) fn settings(&self, transport: &str) -> Vec<(&str, Setting)> {
        match transport {
            "tcp" => self.tcp.iter().map(|(name, own)| (&name[..], Setting::Tcp(*own))).collect(),
            "gigae" => {
                self.gigae.iter().map(|(name, own)| (&name[..], Setting::Gigae(*own))).collect()
            }
            "xdp" => self.xdp.iter().map(|(name, own)| (&name[..], Setting::Xdp(*own))).collect(),
            _ => Vec::new(),
        }
    }

    /// Whether the plan has named settings for a transport.
    pub fn has_settings(&self, transport: &str) -> bool {
        !self.settings(transport).is_empty()
    }

    /// The variants of a transport that an experiment measures: those it names; without a list all
    /// that the plan has; without any, the transport at its defaults, without a name.
    fn variants(&self, experiment: &ExperimentPlan, transport: &str) -> Vec<NamedSetting> {
        let settings = self.settings(transport);
        let named = |(name, setting): &(&str, Setting)| NamedSetting {
            name: Some((*name).to_owned()),
            setting: *setting,
        };
        match experiment.selected(transport) {
            None if settings.is_empty() => vec![NamedSetting::PLAIN],
            None => settings.iter().map(named).collect(),
            Some(names) => {
                let find = |name: &String| match settings.iter().find(|(known, _)| known == name) {
                    Some(setting) => named(setting),
                    None => NamedSetting::PLAIN,
                };
                names.iter().map(find).collect()
            }
        }
    }

    /// All that is to be measured on a link of this MTU; `link` is `None` between two machines,
    /// where every experiment of the plan runs on the link there is.
    pub fn cells(&self, link: Option<&str>, mtu: usize) -> Vec<Cell> {
        let mut cells = Vec::new();
        for experiment in self.experiment.iter().filter(|one| !one.kind.needs_no_link()) {
            let here = match link {
                Some(link) => experiment.links.iter().any(|name| name == link),
                // What is of a loopback only stays there.
                None => experiment.links.iter().any(|name| !self.is_loopback(name)),
            };
            if here {
                for name in &experiment.transports {
                    self.transport_cells(experiment, name, mtu, &mut cells);
                }
            }
        }
        cells
    }

    /// Whether the link of this name is the machine's own.
    pub fn is_loopback(&self, link: &str) -> bool {
        self.link.get(link).is_some_and(|link| link.loopback)
    }

    /// What is to be measured in this machine's memory, without any link.
    pub fn memory_cells(&self) -> Vec<Cell> {
        let mut cells = Vec::new();
        for plan in self.experiment.iter().filter(|one| one.kind == Experiment::Ceiling) {
            for name in &plan.transports {
                self.transport_cells(plan, name, ethernet_mtu() as usize, &mut cells);
            }
        }
        for plan in self.experiment.iter().filter(|one| one.kind == Experiment::Memory) {
            for method in ACCESS_METHODS {
                for size in &plan.sizes {
                    if let Size::Bytes(size) = *size {
                        let (method, condition) = (method.name(), Condition::default());
                        let cell =
                            plan.cell(method, NamedSetting::PLAIN, condition, Wait::Spin, size);
                        add(&mut cells, cell);
                    }
                }
            }
        }
        cells
    }

    fn transport_cells(
        &self,
        plan: &ExperimentPlan,
        name: &str,
        mtu: usize,
        cells: &mut Vec<Cell>,
    ) {
        let transport = transport::by_name(name).expect("checked when the plan was parsed");
        if !transport.offers(plan.kind) && plan.kind != Experiment::Ceiling {
            return;
        }
        // A link in memory carries single frames.
        let largest = match plan.kind {
            Experiment::Ceiling => transport.frame_payload(mtu),
            _ => transport.largest(mtu),
        };
        for variant in self.variants(plan, name) {
            for condition in plan.conditions() {
                for &wait in plan.waits.iter().filter(|wait| transport.waits.contains(wait)) {
                    let sizes = plan.sizes.iter().map(|size| size.bytes(transport, mtu));
                    for size in sizes.filter(|&size| size <= largest) {
                        add(cells, plan.cell(name, variant.clone(), condition, wait, size));
                    }
                }
            }
        }
    }
}

impl ExperimentPlan {
    /// The list of variants that it has for a transport.
    pub(super) fn selected(&self, transport: &str) -> Option<&[String]> {
        match transport {
            "tcp" => self.tcp.as_deref(),
            "gigae" => self.gigae.as_deref(),
            "xdp" => self.xdp.as_deref(),
            _ => None,
        }
    }

    fn cell(
        &self,
        transport: &str,
        variant: NamedSetting,
        condition: Condition,
        wait: Wait,
        size: usize,
    ) -> Cell {
        Cell {
            experiment: self.kind,
            transport: transport.to_owned(),
            variant: variant.name,
            setting: variant.setting,
            condition,
            wait,
            size,
            measure: Duration::from_secs_f64(self.seconds),
            warmup: Duration::from_secs_f64(self.warmup),
            tune: self.tune,
        }
    }
}

/// A size may be named twice ("frame" and its number), an experiment twice between machines.
fn add(cells: &mut Vec<Cell>, cell: Cell) {
    if !cells.iter().any(|other| other.is(&cell)) {
        cells.push(cell);
    }
}

impl ExperimentPlan {
    /// The product of its lists; what a list leaves out is as usual.
    pub(super) fn conditions(&self) -> Vec<Condition> {
        let rates: Vec<Option<f64>> = match &self.rates[..] {
            [] => vec![None],
            rates => rates.iter().copied().map(Some).collect(),
        };
        let cpus = if self.cpus.is_empty() { &[Cpus::Two][..] } else { &self.cpus };
        let bulks = if self.bulk.is_empty() { &[0][..] } else { &self.bulk };
        let senders = if self.senders.is_empty() { &[0][..] } else { &self.senders };
        let threads = if self.threads.is_empty() { &[0][..] } else { &self.threads };
        let mut all = Vec::new();
        for &rate in &rates {
            for &cpus in cpus {
                for &bulk in bulks {
                    for &senders in senders {
                        let one = |&threads| Condition { rate, cpus, bulk, senders, threads };
                        all.extend(threads.iter().map(one));
                    }
                }
            }
        }
        all
    }
}

impl Plan {
    /// The settings to try on a link; between two machines on the one there is.
    pub fn tune_on(&self, link: Option<&str>) -> Option<&TunePlan> {
        self.tune.as_ref().filter(|tune| match (link, &tune.links) {
            (Some(link), _) if self.is_loopback(link) => false,
            (Some(link), Some(links)) => links.iter().any(|name| name == link),
            (None, _) | (_, None) => true,
        })
    }

    /// The cells of a link in two: those that are measured once, and those under every setting.
    pub fn split_cells(&self, link: Option<&str>, mtu: usize) -> (Vec<Cell>, Vec<Cell>) {
        let tuned = self.tune_on(link).is_some();
        self.cells(link, mtu).into_iter().partition(|cell| !(tuned && cell.tune))
    }

    /// How often the cells of a link are measured in each round, at most: those under every setting
    /// count as often as there are settings, and once more beside the best ones together.
    pub fn most_measured(
        &self,
        link: Option<&str>,
        mtu: usize,
    ) -> impl Iterator<Item = (Cell, u32)> {
        let (once, tuned) = self.split_cells(link, mtu);
        let times = self.tune_on(link).map_or(1, |tune| tune.most_trials() + 2);
        let times = u32::try_from(times).unwrap_or(u32::MAX);
        let once = once.into_iter().map(|cell| (cell, 1));
        once.chain(tuned.into_iter().map(move |cell| (cell, times)))
    }
}
