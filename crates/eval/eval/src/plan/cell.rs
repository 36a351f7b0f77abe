//! Cells: a plan multiplied out into single things to measure.

use super::{Condition, DEFAULT, Experiment, ExperimentPlan, Plan, Setting, Size, Wait};
use crate::experiment::memory;
use crate::transport;
use std::time::Duration;

/// One thing to measure: a point of a curve.
#[derive(Clone, Debug, PartialEq)]
pub struct Cell {
    /// What is measured.
    pub experiment: Experiment,
    /// Name of the transport; for [`Experiment::Memory`] of the way.
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

/// A transport's name with its variant.
pub fn label(transport: &str, variant: Option<&str>) -> String {
    variant.map_or_else(|| transport.to_owned(), |variant| format!("{transport} {variant}"))
}

/// The same with what is unusual about its conditions.
pub fn conditional(transport: &str, variant: Option<&str>, condition: &Condition) -> String {
    format!("{} {}", label(transport, variant), condition.words()).trim_end().to_owned()
}

impl Plan {
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
    pub(crate) fn has_settings(&self, transport: &str) -> bool {
        !self.settings(transport).is_empty()
    }

    /// The variants of a transport that an experiment measures: those it names; without a list all
    /// that the plan has; without any, the transport at its defaults, without a name.
    fn variants(
        &self,
        experiment: &ExperimentPlan,
        transport: &str,
    ) -> Vec<(Option<String>, Setting)> {
        let settings = self.settings(transport);
        let named = |(name, setting): &(&str, Setting)| (Some((*name).to_owned()), *setting);
        let plain = (None, Setting::Default);
        match experiment.selected(transport) {
            None if settings.is_empty() => vec![plain],
            None => settings.iter().map(named).collect(),
            Some(names) => {
                let find = |name: &String| match settings.iter().find(|(known, _)| known == name) {
                    Some(setting) => named(setting),
                    None => plain.clone(),
                };
                names.iter().map(find).collect()
            }
        }
    }

    /// All that is to be measured on a link of this MTU; `link` is `None` between two machines,
    /// where every experiment of the plan runs on the link there is.
    pub fn cells(&self, link: Option<&str>, mtu: usize) -> Vec<Cell> {
        let mut cells = Vec::new();
        for experiment in self.experiment.iter().filter(|one| one.kind != Experiment::Memory) {
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
    pub(crate) fn is_loopback(&self, link: &str) -> bool {
        self.link.get(link).is_some_and(|link| link.loopback)
    }

    /// What is to be measured in this machine's memory, without any link.
    pub fn memory_cells(&self) -> Vec<Cell> {
        let mut cells = Vec::new();
        for plan in self.experiment.iter().filter(|one| one.kind == Experiment::Memory) {
            for way in memory::WAYS {
                for size in &plan.sizes {
                    if let Size::Bytes(size) = *size {
                        let setting = (None, Setting::Default);
                        let condition = Condition::default();
                        let cell = plan.cell(way.name(), setting, condition, Wait::Spin, size);
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
        if !transport.experiments().contains(&plan.kind) {
            return;
        }
        for variant in self.variants(plan, name) {
            for condition in plan.conditions() {
                for &wait in plan.waits.iter().filter(|wait| transport.waits().contains(wait)) {
                    let sizes = plan.sizes.iter().map(|size| size.bytes(transport, mtu));
                    for size in sizes.filter(|&size| size <= transport.largest(mtu)) {
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
        (variant, setting): (Option<String>, Setting),
        condition: Condition,
        wait: Wait,
        size: usize,
    ) -> Cell {
        Cell {
            experiment: self.kind,
            transport: transport.to_owned(),
            variant,
            setting,
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

/// Whether a name of a variant means something: a table of the plan, or the defaults.
pub(super) fn is_variant(plan: &Plan, transport: &str, name: &str) -> bool {
    name == DEFAULT || plan.settings(transport).iter().any(|(known, _)| *known == name)
}
