//! `--only`: a part of a plan, such as one curve, as a separate plan.
//!
//! What a plan's experiments list is narrowed to what is named. Figures and rows of the plan
//! compare curves with one another, so a part has none; it keeps what papers printed of the curves
//! that it has.

use super::access::AccessPlan;
use super::cell::Cell;
use super::condition::{Condition, Cpus};
use super::error::PlanError;
use super::files::FilesPlan;
use super::form::{ExperimentPlan, LinkPlan, Plan};
use super::metadata::MetadataPlan;
use super::mount::MountPlan;
use super::shares::SharesPlan;
use crate::experiment::Experiment;
use crate::size::Size;
use std::fmt;
use std::str::FromStr;

/// What can be named, in the order in which errors list it.
const KEYS: [&str; 10] = [
    "link",
    "experiment",
    "transport",
    "wait",
    "size",
    "rate",
    "senders",
    "threads",
    "cpus",
    "bulk",
];

/// A key with a value: one of the pairs that `gigae eval --only` takes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CellFilterPair {
    /// What is named, such as `link`.
    pub key: &'static str,
    /// Which one.
    pub value: String,
}

impl CellFilterPair {
    /// Puts the two together.
    pub fn new(key: &'static str, value: impl Into<String>) -> Self {
        Self { key, value: value.into() }
    }
}

impl fmt::Display for CellFilterPair {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}={}", self.key, self.value)
    }
}

/// Which part: keys with values, of which those of one key are alternatives and all keys must fit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CellFilter(Vec<CellFilterPair>);

impl FromStr for CellFilter {
    type Err = String;

    /// Reads `KEY=VALUE,KEY=VALUE...`; the error is one line and names what would do.
    fn from_str(text: &str) -> Result<Self, String> {
        let pair = |part: &str| {
            let (name, value) = part.split_once('=').unwrap_or((part, ""));
            match KEYS.into_iter().find(|key| *key == name) {
                Some(_) if value.is_empty() => Err(format!("'{name}' needs a value: {name}=...")),
                Some(key) => Ok(CellFilterPair::new(key, value)),
                None => Err(format!("'{name}' is none of {}", KEYS.join(", "))),
            }
        };
        text.split(',').map(pair).collect::<Result<_, _>>().map(Self)
    }
}

impl fmt::Display for CellFilter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let pairs: Vec<String> = self.0.iter().map(CellFilterPair::to_string).collect();
        f.write_str(&pairs.join(","))
    }
}

impl CellFilter {
    /// The values of a key; none if it is not named.
    fn of(&self, key: &str) -> Vec<&str> {
        self.0.iter().filter(|pair| pair.key == key).map(|pair| &pair.value[..]).collect()
    }

    /// Whether a value is among those of its key, or the key is not named.
    fn fits(&self, key: &str, value: &str) -> bool {
        let named = self.of(key);
        named.is_empty() || named.contains(&value)
    }

    /// Keeps of a list what fits.
    fn narrow<T>(&self, key: &str, list: &mut Vec<T>, say: impl Fn(&T) -> String) {
        list.retain(|one| self.fits(key, &say(one)));
    }
}

impl Plan {
    /// The part of it that is named; the error names what the plan does not have, and what it has.
    pub fn only(&self, only: &CellFilter) -> Result<Self, PlanError> {
        let refuse = |reason: String| PlanError::NoPart { plan: self.name.clone(), reason };
        for CellFilterPair { key, value } in &only.0 {
            let known = self.choices(key);
            if !known.contains(value) {
                let known = if known.is_empty() { "none".into() } else { known.join(", ") };
                return Err(refuse(format!("has no {key} '{value}'; it has {known}")));
            }
        }
        let mut part = Self {
            experiment: self.experiment.iter().filter_map(|one| one.only(self, only)).collect(),
            files: self.files.iter().filter_map(|files| files.only(only)).collect(),
            access: self.access.iter().filter_map(|access| access.only(only)).collect(),
            metadata: self.metadata.iter().filter_map(|one| one.only(only)).collect(),
            shares: self.shares.iter().filter_map(|one| one.only(only)).collect(),
            mount: self.mount.iter().filter_map(|mount| mount.only(only)).collect(),
            figure: Vec::new(),
            row: Vec::new(),
            takes: String::new(),
            ..self.clone()
        };
        part.leave_settings();
        let cells = part.all_cells();
        // What was printed of curves that are left out would only be said to be missing.
        part.paper.retain(|paper| {
            cells.iter().any(|(link, cell)| {
                (cell.experiment, &cell.transport, &cell.variant)
                    == (paper.kind, &paper.of.transport, &paper.of.variant)
                    && paper.of.wait.is_none_or(|wait| wait == cell.wait)
                    && paper.of.link.as_ref().is_none_or(|name| name == link)
            })
        });
        part.leave_file_papers();
        part.leave_mount_papers();
        if cells.is_empty() && part.memory_cells().is_empty() {
            return Err(refuse(format!(
                "measures nothing that is all of {only}; leave one of them out"
            )));
        }
        if cells.is_empty() {
            let advice = "measures memory only beside a link; name an experiment that has one, too";
            return Err(refuse(advice.to_owned()));
        }
        Ok(part)
    }

    /// Tries no settings any more if nothing is left by which they are judged.
    fn leave_settings(&mut self) {
        let judged =
            |by: &String| self.experiment.iter().any(|one| one.tune && one.transports.contains(by));
        if !self.tune.as_ref().is_some_and(|tune| judged(&tune.by)) {
            self.tune = None;
            self.experiment.iter_mut().for_each(|one| one.tune = false);
        }
    }

    /// Leaves out what was printed of file services that it does not measure any more.
    fn leave_file_papers(&mut self) {
        let files = &self.files;
        self.file_paper.retain(|paper| files.iter().any(|one| one.measures(&paper.of)));
        let access = &self.access;
        self.access_paper.retain(|paper| access.iter().any(|one| one.measures(&paper.of)));
    }

    /// Its cells on its own links, each with the link's name.
    fn all_cells(&self) -> Vec<(String, Cell)> {
        let of = |(name, link): (&String, &LinkPlan)| {
            let cells = self.cells(Some(name), link.mtu as usize);
            cells.into_iter().map(|cell| (name.clone(), cell)).collect::<Vec<_>>()
        };
        self.link.iter().flat_map(of).collect()
    }

    /// The values that a key can have here.
    fn choices(&self, key: &str) -> Vec<String> {
        let mut all: Vec<String> = Vec::new();
        for experiment in &self.experiment {
            for value in experiment.choices(self, key) {
                if !all.contains(&value) {
                    all.push(value);
                }
            }
        }
        all
    }
}

impl FilesPlan {
    fn only(&self, only: &CellFilter) -> Option<Self> {
        let links = only.links_alone(&self.links)?;
        Some(Self { links, ..self.clone() })
    }
}

impl AccessPlan {
    fn only(&self, only: &CellFilter) -> Option<Self> {
        let links = only.links_alone(&self.links)?;
        Some(Self { links, ..self.clone() })
    }
}

impl MetadataPlan {
    fn only(&self, only: &CellFilter) -> Option<Self> {
        let links = only.links_alone(&self.links)?;
        Some(Self { links, ..self.clone() })
    }
}

impl SharesPlan {
    fn only(&self, only: &CellFilter) -> Option<Self> {
        let links = only.links_alone(&self.links)?;
        Some(Self { links, ..self.clone() })
    }
}

impl CellFilter {
    /// Those of a file service's links that are named; `None` if none is, or if something else is
    /// named, which file services do not have.
    fn links_alone(&self, links: &[String]) -> Option<Vec<String>> {
        let mut links = links.to_vec();
        self.narrow("link", &mut links, Clone::clone);
        let alone = self.0.iter().all(|pair| pair.key == "link");
        (alone && !links.is_empty()).then_some(links)
    }
}

impl MountPlan {
    /// The same of mounts.
    fn only(&self, only: &CellFilter) -> Option<Self> {
        let mut part = self.clone();
        only.narrow("link", &mut part.links, Clone::clone);
        let links_alone = only.0.iter().all(|pair| pair.key == "link");
        (links_alone && !part.links.is_empty()).then_some(part)
    }
}

impl ExperimentPlan {
    fn choices(&self, plan: &Plan, key: &str) -> Vec<String> {
        let transports = || -> Vec<String> {
            let of = |name: &String| {
                let variants = self.variant_names(plan, name);
                let named = variants.into_iter().map(move |variant| format!("{name}/{variant}"));
                std::iter::once(name.clone()).chain(named).collect::<Vec<_>>()
            };
            self.transports.iter().flat_map(of).collect()
        };
        match key {
            "link" => self.links.clone(),
            "experiment" => vec![self.kind.name().to_owned()],
            "transport" => transports(),
            "wait" => self.waits.iter().map(|wait| wait.name().to_owned()).collect(),
            "size" => self.sizes.iter().map(size_word).collect(),
            "rate" => self.rates.iter().map(f64::to_string).collect(),
            "senders" => self.senders.iter().map(u32::to_string).collect(),
            "threads" => self.threads.iter().map(u32::to_string).collect(),
            "cpus" => self.conditions().iter().map(|one| cpus_word(&one.cpus)).collect(),
            _ => self.conditions().iter().map(|one| one.bulk.to_string()).collect(),
        }
    }

    /// Names of the settings that it measures of a transport, the defaults' among them where it
    /// lists them; none where the plan has no settings for it.
    fn variant_names(&self, plan: &Plan, transport: &str) -> Vec<String> {
        let settings = plan.settings(transport);
        match self.selected(transport) {
            Some(names) => names.to_vec(),
            None => settings.iter().map(|(name, _)| (*name).to_owned()).collect(),
        }
    }

    /// What of it is named; `None` if nothing is.
    fn only(&self, plan: &Plan, only: &CellFilter) -> Option<Self> {
        let mut part = self.clone();
        only.narrow("link", &mut part.links, Clone::clone);
        only.narrow("wait", &mut part.waits, |wait| wait.name().to_owned());
        only.narrow("size", &mut part.sizes, size_word);
        only.narrow("rate", &mut part.rates, f64::to_string);
        only.narrow("senders", &mut part.senders, u32::to_string);
        only.narrow("threads", &mut part.threads, u32::to_string);
        let mut transports = std::mem::take(&mut part.transports);
        transports.retain(|name| {
            let variants = self.variant_names(plan, name);
            let fits = |variant: &String| {
                only.fits("transport", name) || only.fits("transport", &format!("{name}/{variant}"))
            };
            let left: Vec<String> = variants.iter().filter(|one| fits(one)).cloned().collect();
            match variants.is_empty() {
                true => only.fits("transport", name),
                false => part.select(name, &left),
            }
        });
        part.transports = transports;
        let mut conditions = self.conditions();
        only.narrow("cpus", &mut conditions, |one: &Condition| cpus_word(&one.cpus));
        only.narrow("bulk", &mut conditions, |one: &Condition| one.bulk.to_string());
        part.cpus.retain(|cpus| conditions.iter().any(|one| one.cpus == *cpus));
        part.bulk.retain(|bulk| conditions.iter().any(|one| one.bulk == *bulk));
        // What is of no link is not among what is named by one.
        let named = |key| !only.of(key).is_empty();
        let carried = !(part.transports.is_empty() || part.waits.is_empty());
        let left = match self.kind {
            Experiment::Memory => !["link", "transport", "wait"].into_iter().any(named),
            Experiment::Ceiling => carried && !named("link"),
            _ => carried && !part.links.is_empty(),
        };
        let rates = self.rates.is_empty() && !named("rate") || !part.rates.is_empty();
        let senders = self.senders.is_empty() && !named("senders") || !part.senders.is_empty();
        let threads = self.threads.is_empty() && !named("threads") || !part.threads.is_empty();
        let whole =
            left && rates && senders && threads && !part.sizes.is_empty() && !conditions.is_empty();
        (whole && only.fits("experiment", self.kind.name())).then_some(part)
    }

    /// Measures these settings of a transport; says whether there are any.
    fn select(&mut self, transport: &str, names: &[String]) -> bool {
        let list = match transport {
            "tcp" => &mut self.tcp,
            "gigae" => &mut self.gigae,
            _ => &mut self.xdp,
        };
        *list = Some(names.to_vec());
        !names.is_empty()
    }
}

fn size_word(size: &Size) -> String {
    match size {
        Size::Bytes(bytes) => bytes.to_string(),
        Size::Frame => "frame".to_owned(),
    }
}

fn cpus_word(cpus: &Cpus) -> String {
    match cpus {
        Cpus::One => "one".to_owned(),
        Cpus::Two => "two".to_owned(),
    }
}

/// A word of a command line, as a shell must be given it.
pub fn shell_word(text: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "=,/._:+-@%".contains(c);
    match !text.is_empty() && text.chars().all(plain) {
        true => text.to_owned(),
        false => format!("'{}'", text.replace('\'', "'\\''")),
    }
}

#[cfg(test)]
mod tests {
    use super::super::SHIPPED;
    use super::*;
    use std::collections::BTreeSet;

    fn part(plan: &str, only: &str) -> Result<Plan, String> {
        let only: CellFilter = only.parse()?;
        Plan::load(plan).unwrap().only(&only).map_err(|error| error.to_string())
    }

    /// What is measured, a line each.
    fn cells(plan: &Plan) -> Vec<String> {
        let all = plan.all_cells();
        let all = all.iter().map(|(link, cell)| {
            let (kind, wait) = (cell.experiment.name(), cell.wait.name());
            format!("{link} {kind} {} {wait} {}", cell.label(), cell.size)
        });
        all.collect()
    }

    #[test]
    fn a_curve_of_every_shipped_plan_can_be_named_and_nothing_else_comes_with_it() {
        for (name, _) in SHIPPED {
            let (whole, mut seen) = (Plan::load(name).unwrap(), BTreeSet::new());
            for (link, cell) in whole.all_cells() {
                let transport = match (&cell.variant, whole.has_settings(&cell.transport)) {
                    (Some(variant), _) => format!("{}/{variant}", cell.transport),
                    (None, true) => format!("{}/default", cell.transport),
                    (None, false) => cell.transport.clone(),
                };
                let only = format!(
                    "link={link},experiment={},transport={transport},wait={},cpus={},bulk={}",
                    cell.experiment.name(),
                    cell.wait.name(),
                    cpus_word(&cell.condition.cpus),
                    cell.condition.bulk
                );
                if !seen.insert(only.clone()) {
                    continue;
                }
                let part = whole.only(&only.parse().unwrap()).unwrap();
                // What is left can be measured as a separate plan.
                part.check().unwrap();
                let of_curve = |(other, one): &(String, super::Cell)| {
                    (other, one.experiment, &one.transport, &one.variant, one.wait)
                        == (&link, cell.experiment, &cell.transport, &cell.variant, cell.wait)
                        && (one.condition.cpus, one.condition.bulk)
                            == (cell.condition.cpus, cell.condition.bulk)
                };
                // Settings may be judged by another curve.
                let plain = |(link, cell)| (link, super::Cell { tune: false, ..cell });
                let expected = whole.all_cells().into_iter().filter(of_curve).map(plain);
                let measured = part.all_cells().into_iter().map(plain);
                assert!(measured.eq(expected), "{name}: {only}");
            }
        }
    }

    #[test]
    fn values_of_a_key_are_alternatives_and_keys_narrow_each_other() {
        let both = part(
            "quick",
            "link=cable,experiment=rtt,wait=spin,size=8,transport=udp,transport=icmp",
        );
        assert_eq!(cells(&both.unwrap()), ["cable rtt udp spin 8", "cable rtt icmp spin 8"]);
        let first = part("quick", "transport=tcp").unwrap();
        let again = first.only(&"transport=tcp/nodelay,wait=sleep".parse().unwrap()).unwrap();
        assert_eq!(
            cells(&again),
            [
                "cable rtt tcp nodelay sleep 8",
                "cable rtt tcp nodelay sleep 1400",
                "cable rtt tcp nodelay sleep 65536"
            ]
        );
        let full = cells(&part("large", "link=cable,size=frame").unwrap());
        assert!(matches!(&full[..], [cell] if cell.starts_with("cable stream xdp")), "{full:?}");
        let many = part("load", "experiment=incast,senders=4,transport=udp").unwrap().all_cells();
        assert!(
            matches!(&many[..], [(link, cell)] if link == "many" && cell.condition.senders == 4)
        );
        let by_tcp = part("cpus", "link=cable,experiment=rtt").unwrap();
        assert!(by_tcp.tune.is_some() && part("cpus", "transport=udp").unwrap().tune.is_none());
        let load = part("load", "rate=1000,bulk=4,transport=udp").unwrap();
        assert_eq!(cells(&load), ["gigabit paced udp 1000/s beside 4 streams sleep 64"]);
    }

    #[test]
    fn a_part_has_no_bounds_and_the_papers_of_its_own_curves() {
        let tcp = part("latency", "transport=tcp,link=cable").unwrap();
        assert!(tcp.figure.is_empty() && tcp.row.is_empty() && tcp.takes.is_empty());
        let of: Vec<_> =
            tcp.paper.iter().map(|paper| (&paper.of.transport[..], &paper.at[..])).collect();
        assert_eq!(of, [("tcp", "figure 3")]);
        assert!(!Plan::load("bench").unwrap().figure.is_empty());
        assert!(part("bench", "link=cable").unwrap().figure.is_empty());
    }

    #[test]
    fn what_a_plan_does_not_have_is_refused_with_what_it_has() {
        for (only, words) in [
            ("link=lan", &["quick", "link 'lan'", "cable, gigabit"][..]),
            ("transport=tcp/fast", &["tcp/nodelay", "tcp/buffered", "udp-gso"]),
            ("rate=5", &["has no rate '5'", "none"]),
            ("senders=2", &["has no senders '2'", "none"]),
            ("colour=red", &["colour", "link, experiment, transport"]),
            ("wait", &["wait=..."]),
            ("wait=", &["wait=..."]),
            ("", &["none of link"]),
            ("transport=icmp,experiment=stream", &["nothing", "leave one"]),
        ] {
            let error = part("quick", only).unwrap_err();
            assert!(!error.contains('\n'), "{error}");
            assert!(words.iter().all(|word| error.contains(word)), "{only}: {error}");
        }
        let error = part("inventory", "experiment=memory").unwrap_err();
        assert!(error.contains("beside a link"), "{error}");
    }

    #[test]
    fn a_shell_reads_a_word_as_it_was() {
        assert_eq!(
            shell_word("link=cable,transport=tcp/4k-nodelay"),
            "link=cable,transport=tcp/4k-nodelay"
        );
        for text in ["", "a b", "it's", "$(reboot)", "a;b"] {
            let script = format!("printf %s {}", shell_word(text));
            let said = std::process::Command::new("sh").args(["-c", &script]).output().unwrap();
            assert_eq!(said.stdout, text.as_bytes());
        }
    }
}
