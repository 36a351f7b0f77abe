//! What TOML cannot say: values that fit each other and the simulator.

use super::error::{Mistake, PlanError};
use super::form::{NetworkPlan, Plan, RandomPlan};
use crate::protocol::Protocol;
use crate::slug::slug;
use crate::workload::Workload;
use gigae_network::workload::{Lengths, SlowdownTable};
use std::collections::BTreeSet;
use std::ops::RangeInclusive;

/// Hosts of a network: more would take days.
const MOST_HOSTS: u32 = 100_000;
/// Bytes of the longest message of the library.
const LONGEST: u32 = 1 << 30;
/// Hosts that are the library's own endpoints: 4.2 MB each.
const MOST_ENDPOINTS: u32 = 2_048;
/// Messages of a run, with their responses. A run keeps 72 bytes of each: 7 GB.
const MOST_MESSAGES: u32 = 100_000_000;
/// Routes from switches to leaves: 8 bytes each.
const MOST_ROUTES: u64 = 10_000_000;
/// Runs of a cell.
const MOST_SEEDS: u64 = 10_000;
/// An hour of virtual time.
const LONGEST_MS: u64 = 3_600_000;
/// Buffers, in bytes: more than any switch has.
const LARGEST_BUFFER: u64 = 1 << 40;
/// Times in nanoseconds: a second.
const LONGEST_NS: u64 = 1_000_000_000;

/// A table of a plan, to say what is wrong in it.
struct Table(&'static str, usize);

impl Table {
    fn wrong<T>(&self, key: &'static str, advice: impl Into<String>) -> Result<T, Mistake> {
        Err(Mistake { table: self.0, number: self.1, key, advice: advice.into() })
    }

    fn within<T: PartialOrd + std::fmt::Display>(
        &self,
        key: &'static str,
        value: &T,
        range: RangeInclusive<T>,
    ) -> Result<(), Mistake> {
        match range.contains(value) {
            true => Ok(()),
            false => self.wrong(key, format!("write {} to {}", range.start(), range.end())),
        }
    }
}

impl Plan {
    /// Whether all of it can be simulated.
    pub(super) fn check(&self) -> Result<(), Mistake> {
        let top = Table("", 0);
        top.within("seeds", &self.seeds, 1..=MOST_SEEDS)?;
        top.within("seed", &self.seed, 0..=u64::from(u32::MAX))?;
        top.within("limit_ms", &self.limit_ms, 1..=LONGEST_MS)?;
        if self.name.is_empty() {
            return top.wrong("name", "write a name");
        }
        self.network.check()?;
        for (number, random) in self.random.iter().enumerate() {
            random.check(&Table("random", number))?;
        }
        self.check_patterns()?;
        self.check_protocols()?;
        let workloads = self.workloads();
        let without = self.network.fixed_hosts().is_none();
        if without && workloads.iter().any(|workload| !matches!(workload, Workload::Incast { .. }))
        {
            return Table("network", 0).wrong("hosts", "write how many hosts there are");
        }
        if workloads.is_empty() {
            return top.wrong("random", "add [[random]], [[incast]], [[all_to_all]] or [[ring]]");
        }
        for protocol in self.protocols() {
            for workload in &workloads {
                let table = Table(protocol.table(), 0);
                if matches!(protocol, Protocol::Gigae(_)) && workload.bytes() > LONGEST {
                    let advice = format!(
                        "messages of the library have at most 1 GiB, and those of '{}' have more: \
                         write fewer bytes, or leave out [[gigae]]",
                        workload.label()
                    );
                    return table.wrong("", advice);
                }
                let hosts = workload.hosts(self.network.fixed_hosts());
                if matches!(protocol, Protocol::Gigae(_)) && hosts > MOST_ENDPOINTS {
                    let advice = format!(
                        "endpoints of the library need 4.2 MB each, so it has at most \
                         {MOST_ENDPOINTS} hosts, and '{}' has {hosts}: use fewer, or leave out \
                         [[gigae]]",
                        workload.label()
                    );
                    return table.wrong("", advice);
                }
            }
        }
        self.check_names()
    }

    /// Each workload with each protocol has a name, and its files have one, too.
    fn check_names(&self) -> Result<(), Mistake> {
        let protocols = self.protocols();
        let (mut labels, mut slugs) = (BTreeSet::new(), BTreeSet::new());
        for (workload, (table, number)) in self.workloads().iter().zip(self.tables()) {
            let label = workload.label();
            if !labels.insert(label.clone()) {
                let advice = format!("'{label}' is there twice: leave out one of them");
                return Table(table, number).wrong("", advice);
            }
            for protocol in &protocols {
                let slug = slug(&format!("{label} {}", protocol.name()));
                if !slugs.insert(slug.clone()) {
                    let advice = format!("two files would be '{slug}.pcapng': write another name");
                    return Table(protocol.table(), 0).wrong("", advice);
                }
            }
        }
        Ok(())
    }

    /// The table of each workload, and its number among those of its kind.
    fn tables(&self) -> Vec<(&'static str, usize)> {
        let of = |table: &'static str, count| (0..count).map(move |number| (table, number));
        let incasts = self.incast.iter().enumerate();
        let incasts = incasts.flat_map(|(number, plan)| plan.senders.iter().map(move |_| number));
        let random = of("random", self.random.len());
        let all = of("all_to_all", self.all_to_all.len());
        let incasts = incasts.map(|number| ("incast", number));
        random.chain(incasts).chain(all).chain(of("ring", self.ring.len())).collect()
    }

    fn check_patterns(&self) -> Result<(), Mistake> {
        let hosts = self.network.fixed_hosts();
        for (number, incast) in self.incast.iter().enumerate() {
            let table = Table("incast", number);
            if incast.senders.is_empty() {
                return table.wrong("senders", "write a list of numbers, for example [20, 100]");
            }
            for senders in &incast.senders {
                table.within("senders", senders, 1..=hosts.unwrap_or(MOST_HOSTS) - 1)?;
            }
            table.within("bytes", &incast.bytes, 1..=u32::MAX)?;
            table.within("spread_us", &incast.spread_us, 0..=LONGEST_MS * 1_000)?;
        }
        for (name, patterns) in [("all_to_all", &self.all_to_all), ("ring", &self.ring)] {
            for (number, pattern) in patterns.iter().enumerate() {
                let table = Table(name, number);
                table.within("bytes", &pattern.bytes, 1..=u32::MAX)?;
                // Without hosts, it is refused below.
                let hosts = u64::from(hosts.unwrap_or(2));
                let messages = hosts * (hosts - 1) * if name == "ring" { 2 } else { 1 };
                if messages > u64::from(MOST_MESSAGES) {
                    let advice = format!(
                        "it has {messages} messages with {hosts} hosts, and a run has at most \
                         {MOST_MESSAGES}: use fewer hosts"
                    );
                    return table.wrong("", advice);
                }
            }
        }
        Ok(())
    }

    fn check_protocols(&self) -> Result<(), Mistake> {
        let protocols = self.protocols();
        if protocols.is_empty() {
            return Table("", 0).wrong("gigae", "add [[gigae]], [[homa]], [[dctcp]] or [[swift]]");
        }
        let mut names = BTreeSet::new();
        for (number, gigae) in self.gigae.iter().enumerate() {
            let priority = gigae.priority.unwrap_or(1);
            Table("gigae", number).within("priority", &priority, 1..=7)?;
        }
        for (number, homa) in self.homa.iter().enumerate() {
            let table = Table("homa", number);
            table.within("unscheduled", &homa.unscheduled, 1..=u32::MAX)?;
            table.within("ahead", &homa.ahead, 1..=u32::MAX)?;
            table.within("degree", &homa.degree, 1..=u32::MAX)?;
            table.within("retry_us", &homa.retry_us.unwrap_or(1), 1..=LONGEST_MS * 1_000)?;
        }
        for (number, dctcp) in self.dctcp.iter().enumerate() {
            let longest = LONGEST_MS * 1_000;
            Table("dctcp", number).within("timeout_us", &dctcp.timeout_us, 1..=longest)?;
        }
        for (number, swift) in self.swift.iter().enumerate() {
            let table = Table("swift", number);
            table.within("base_us", &swift.base_us, 1..=LONGEST_MS * 1_000)?;
            table.within("range_us", &swift.range_us, 0..=LONGEST_MS * 1_000)?;
            table.within("window", &swift.window, 0.001..=1_000.0)?;
            table.within("timeout_us", &swift.timeout_us, 1..=LONGEST_MS * 1_000)?;
        }
        for (at, protocol) in protocols.iter().enumerate() {
            let before = &protocols[..at];
            let number = before.iter().filter(|other| other.table() == protocol.table()).count();
            let table = Table(protocol.table(), number);
            // Names of files have no capitals.
            let file = slug(protocol.name());
            if protocol.name().is_empty() || protocol.name().contains(',') {
                return table.wrong("name", "write a name without a comma");
            }
            if !names.insert(file) {
                let advice = format!(
                    "'{}' is there twice, or differs only in its case or signs: write another name",
                    protocol.name()
                );
                return table.wrong("name", advice);
            }
        }
        Ok(())
    }
}

impl NetworkPlan {
    /// The number of hosts, if the plan says it.
    pub(crate) fn fixed_hosts(&self) -> Option<u32> {
        match (self.leaves, self.hosts_per_leaf) {
            (Some(leaves), Some(hosts)) => leaves.checked_mul(hosts),
            _ => self.hosts,
        }
    }

    fn check(&self) -> Result<(), Mistake> {
        let table = Table("network", 0);
        let tiers = [self.leaves, self.hosts_per_leaf, self.spines];
        if tiers.iter().any(Option::is_some) {
            if tiers.iter().any(Option::is_none) || self.hosts.is_some() {
                let advice = "two tiers have leaves, hosts_per_leaf and spines, and one switch \
                              has hosts";
                return table.wrong("leaves", advice);
            }
            table.within("leaves", &self.leaves.unwrap_or(0), 2..=MOST_HOSTS)?;
            table.within("hosts_per_leaf", &self.hosts_per_leaf.unwrap_or(0), 1..=MOST_HOSTS)?;
            table.within("spines", &self.spines.unwrap_or(0), 1..=1_000)?;
        } else if self.core_rate_mbit.is_some() {
            return table.wrong("core_rate_mbit", "only two tiers have a core: write leaves");
        }
        let too_many = tiers[0].is_some() && self.fixed_hosts().is_none();
        let hosts = if too_many { u32::MAX } else { self.fixed_hosts().unwrap_or(2) };
        let key = if tiers[0].is_some() { "leaves" } else { "hosts" };
        if !(2..=MOST_HOSTS).contains(&hosts) {
            return table.wrong(key, format!("a network has 2 to {MOST_HOSTS} hosts"));
        }
        let (leaves, spines) = (self.leaves.unwrap_or(1), self.spines.unwrap_or(0));
        if u64::from(leaves) * (u64::from(leaves) + u64::from(spines)) > MOST_ROUTES {
            let advice = format!(
                "each leaf and each spine has a route to each leaf, and a network has at most \
                 {MOST_ROUTES} of them: write fewer leaves"
            );
            return table.wrong("leaves", advice);
        }
        let core = self.core_rate_mbit.unwrap_or(self.rate_mbit);
        for (key, rate) in [("rate_mbit", self.rate_mbit), ("core_rate_mbit", core)] {
            // A byte takes a whole number of picoseconds, and a frame less than a second.
            if !(1..=8_000_000).contains(&rate) || 8_000_000 % rate != 0 {
                let advice = "write a rate that divides 8,000,000 Mbit/s: 100, 1000, 10000, \
                              25000, 40000, 100000";
                return table.wrong(key, advice);
            }
        }
        table.within("loss", &self.loss, 0.0..=0.5)?;
        table.within("delay_ns", &self.delay_ns, 0..=LONGEST_NS)?;
        table.within("switch_ns", &self.switch_ns, 0..=LONGEST_NS)?;
        table.within("turnaround_ns", &self.turnaround_ns, 0..=LONGEST_NS)?;
        if self.buffer.is_some() && self.shared_buffer.is_some() {
            return table.wrong("shared_buffer", "write buffer or shared_buffer, not both");
        }
        for (key, bytes) in [("buffer", self.buffer), ("shared_buffer", self.shared_buffer)] {
            table.within(key, &bytes.unwrap_or(LARGEST_BUFFER), 1_518..=LARGEST_BUFFER)?;
        }
        table.within("alpha", &self.alpha, 1.0 / 64.0..=16.0)?;
        if (self.alpha * 64.0).fract() != 0.0 {
            return table.wrong("alpha", "write a multiple of 1/64, for example 0.5");
        }
        Ok(())
    }
}

impl RandomPlan {
    fn check(&self, table: &Table) -> Result<(), Mistake> {
        match (&self.lengths, self.bytes) {
            (Some(name), None) => {
                if Lengths::named(&name.to_lowercase()).is_none() {
                    let names = Lengths::NAMES.join(", ");
                    return table.wrong("lengths", format!("write one of {names}"));
                }
            }
            (None, Some(bytes)) => table.within("bytes", &bytes, 1..=u32::MAX)?,
            _ => return table.wrong("lengths", "write lengths or bytes, one of them"),
        }
        table.within("load", &self.load, 0.001..=1.0)?;
        // Responses are messages, too.
        let most = if self.responses { MOST_MESSAGES / 2 } else { MOST_MESSAGES };
        table.within("messages", &self.messages, 100..=most)?;
        let bounds = SlowdownTable::BOUNDS;
        if self.short.is_some_and(|short| !bounds.contains(&short)) {
            return table.wrong("short", format!("write one of {bounds:?}"));
        }
        for published in &self.published {
            let figures = published.p99.into_iter().flatten().chain(published.short_p99);
            for figure in figures {
                table.within("published", &figure, 0.001..=1e9)?;
            }
        }
        if self.published.iter().any(|published| published.short_p99.is_some())
            && self.short.is_none()
        {
            return table.wrong("short", "short_p99 needs short: write which messages are short");
        }
        Ok(())
    }
}

/// The protocols and workloads of a plan, in the order of reports.
impl Plan {
    /// Its protocols.
    pub(crate) fn protocols(&self) -> Vec<Protocol> {
        let gigae = self.gigae.iter().cloned().map(Protocol::Gigae);
        let homa = self.homa.iter().cloned().map(Protocol::Homa);
        let dctcp = self.dctcp.iter().cloned().map(Protocol::Dctcp);
        let swift = self.swift.iter().cloned().map(Protocol::Swift);
        gigae.chain(homa).chain(dctcp).chain(swift).collect()
    }

    /// Leaves out all protocols but these.
    pub fn keep_protocols(&mut self, names: &[String]) -> Result<(), PlanError> {
        let protocols = self.protocols();
        let own: Vec<&str> = protocols.iter().map(Protocol::name).collect();
        if let Some(unknown) = names.iter().find(|name| !own.contains(&name.as_str())) {
            let (plan, unknown, own) = (self.name.clone(), unknown.clone(), own.join(", "));
            return Err(PlanError::NoProtocol { plan, unknown, own });
        }
        self.gigae.retain(|plan| names.contains(&plan.name));
        self.homa.retain(|plan| names.contains(&plan.name));
        self.dctcp.retain(|plan| names.contains(&plan.name));
        self.swift.retain(|plan| names.contains(&plan.name));
        Ok(())
    }

    /// Its workloads.
    pub(crate) fn workloads(&self) -> Vec<Workload> {
        let random = self.random.iter().cloned().map(Workload::Random);
        let incast = self.incast.iter().flat_map(|plan| {
            let one = |&senders| Workload::Incast {
                senders,
                bytes: plan.bytes,
                spread_us: plan.spread_us,
            };
            plan.senders.iter().map(one)
        });
        let all = self.all_to_all.iter().map(|plan| Workload::AllToAll { bytes: plan.bytes });
        let ring = self.ring.iter().map(|plan| Workload::Ring { bytes: plan.bytes });
        random.chain(incast).chain(all).chain(ring).collect()
    }
}
