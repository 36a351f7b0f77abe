//! What `[[shares]]` of a plan measure on a link, and what must hold of them.

use super::check::LONGEST_REPETITION;
use super::form::{LinkPlan, Plan};
use super::settings::{DEFAULT, Setting};
use super::shares::{LONGEST, SharesPlan};
use crate::shares::{FlowGroup, SharesCell, Way};
use std::time::Duration;

/// What flows may be of: their settings are those of an end, and nothing beside.
const TRANSPORTS: [&str; 2] = ["gigae", "tcp"];

/// Bytes of the shortest message. Those of round trips are 8 bytes.
const SHORTEST: usize = 16;

/// The node that has the other ends of all flows, and the one that asks beside.
const NODES_BESIDE: u32 = 2;

/// A cell, and how it is measured.
#[derive(Clone, Debug, PartialEq)]
pub struct SharesJob {
    /// What is measured.
    pub cell: SharesCell,
    /// The setting of each group of flows.
    pub settings: Vec<Setting>,
    /// Measured part of a repetition.
    pub measure: Duration,
    /// Discarded part before it.
    pub warmup: Duration,
    /// How often.
    pub repetitions: u32,
}

impl Plan {
    /// The flows that are measured on a link, in the plan's order; `link` is `None` between two
    /// machines.
    pub fn shares_jobs(&self, link: Option<&str>) -> Vec<SharesJob> {
        let here =
            |one: &&SharesPlan| link.is_none_or(|link| one.links.iter().any(|name| name == link));
        self.shares.iter().filter(here).flat_map(|one| self.jobs_of(one)).collect()
    }

    fn jobs_of(&self, shares: &SharesPlan) -> Vec<SharesJob> {
        let settings: Vec<Setting> =
            shares.flows.iter().filter_map(|group| self.setting_of(group)).collect();
        let job = |&way: &Way| SharesJob {
            cell: SharesCell { way, flows: shares.flows.clone(), size: shares.size },
            settings: settings.clone(),
            measure: Duration::from_secs_f64(shares.seconds),
            warmup: Duration::from_secs_f64(shares.warmup),
            repetitions: shares.repetitions.unwrap_or(self.repetitions),
        };
        shares.ways.iter().map(job).collect()
    }

    /// `None` if the plan does not have it.
    fn setting_of(&self, group: &FlowGroup) -> Option<Setting> {
        match group.variant.as_deref() {
            None | Some(DEFAULT) => Some(Setting::Default),
            Some(name) => {
                let mut known = self.settings(&group.transport).into_iter();
                known.find(|(known, _)| *known == name).map(|(_, setting)| setting)
            }
        }
    }

    /// Checks `[[shares]]`; the error names the one that is wrong.
    pub(super) fn check_shares(&self) -> Result<(), String> {
        let of = |one: &SharesPlan| {
            let mix = SharesCell { way: Way::In, flows: one.flows.clone(), size: one.size }.mix();
            self.check_one(one).map_err(|why| format!("shares '{mix}': {why}"))
        };
        self.shares.iter().try_for_each(of)
    }

    fn check_one(&self, one: &SharesPlan) -> Result<(), String> {
        if one.links.is_empty() || one.ways.is_empty() || one.flows.is_empty() {
            return Err("no list may be empty".into());
        }
        one.flows.iter().try_for_each(|group| self.check_group(group))?;
        let nics = one.flows.iter().filter(|group| group.transport == "gigae").count();
        if nics > 1 {
            return Err("a node's interface has one endpoint, so gigae has one setting".into());
        }
        if !(SHORTEST..=LONGEST).contains(&one.size) {
            return Err(format!("size must be from {SHORTEST} to {LONGEST}"));
        }
        for name in &one.links {
            let link = self.link.get(name).ok_or_else(|| format!("unknown link '{name}'"))?;
            check_link(link, one).map_err(|why| format!("link '{name}': {why}"))?;
        }
        if !(0.01..=LONGEST_REPETITION).contains(&one.seconds)
            || !(0.0..=LONGEST_REPETITION).contains(&one.warmup)
        {
            return Err(format!(
                "seconds must be from 0.01 to {LONGEST_REPETITION}, warmup from 0"
            ));
        }
        if one.repetitions.is_some_and(|times| !(1..=1000).contains(&times)) {
            return Err("repetitions must be from 1 to 1000".into());
        }
        Ok(())
    }

    fn check_group(&self, group: &FlowGroup) -> Result<(), String> {
        if !TRANSPORTS.contains(&&group.transport[..]) {
            return Err(format!("flows are of one of: {}", TRANSPORTS.join(", ")));
        }
        let setting = self.setting_of(group).ok_or_else(|| {
            format!("unknown setting '{}'", group.variant.as_deref().unwrap_or_default())
        })?;
        let tcp = setting.tcp();
        if tcp.beside.is_some() || tcp.write.is_some() || tcp.zerocopy {
            return Err("flows of tcp have neither beside nor write nor zerocopy".into());
        }
        if group.count == 0 {
            return Err("a count must be at least 1".into());
        }
        Ok(())
    }
}

fn check_link(link: &LinkPlan, one: &SharesPlan) -> Result<(), String> {
    let flows: u32 = one.flows.iter().map(|group| group.count).sum();
    if link.loopback || link.cable || link.links > 1 {
        return Err("flows need a switch, and one network".into());
    }
    if u64::from(link.nodes) < u64::from(flows) + u64::from(NODES_BESIDE) {
        let nodes = u64::from(flows) + u64::from(NODES_BESIDE);
        return Err(format!("{flows} flows need {nodes} nodes"));
    }
    // The ports limit what each receives, so nothing else would limit what one node sends.
    if one.ways.contains(&Way::Out) && link.server_rate_mbit.is_none() {
        return Err("flows from one node need server_rate_mbit, the rate of that node".into());
    }
    Ok(())
}
