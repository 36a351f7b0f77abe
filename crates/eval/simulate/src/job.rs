//! One run: a workload on a network, with a seed.

use crate::plan::{NetworkPlan, Plan};
use crate::port::{PortName, Shape};
use crate::workload::Workload;
use gigae_network::{Buffer, Forwarding, LeafSpine, Link, Rate, Switch, Time, Topology};
use std::fs::{self, File};
use std::io::{self, BufWriter};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

/// A run.
pub(crate) struct Job<'a> {
    pub(crate) plan: &'a Plan,
    pub(crate) workload: &'a Workload,
    pub(crate) seed: u64,
    /// The files that it writes, if any.
    pub(crate) files: Option<JobFiles<'a>>,
    /// Set to end early.
    pub(crate) interrupted: &'a AtomicBool,
    /// Thousandths that are done.
    pub(crate) done: &'a AtomicU32,
}

/// Files of a run.
pub(crate) struct JobFiles<'a> {
    /// Ports whose frames are written, and the file.
    pub(crate) trace: Option<(&'a [PortName], &'a DraftFile)>,
    /// Ports whose queue lengths are written, how often they are looked at, and the file.
    pub(crate) queues: Option<(&'a [PortName], Time, &'a DraftFile)>,
}

impl Job<'_> {
    /// Whether it is to end.
    pub(crate) fn is_interrupted(&self) -> bool {
        self.interrupted.load(Ordering::Relaxed)
    }

    /// The number of hosts.
    pub(crate) fn hosts(&self) -> u32 {
        self.workload.hosts(self.plan.network.fixed_hosts())
    }

    /// The network's leaves and spines.
    pub(crate) fn shape(&self) -> Shape {
        Shape::new(&self.plan.network, self.hosts())
    }

    /// The network.
    pub(crate) fn topology(&self) -> Topology {
        topology(&self.plan.network, self.hosts())
    }
}

impl NetworkPlan {
    /// Whether frames can be lost.
    pub(crate) fn can_lose(&self) -> bool {
        self.loss > 0.0 || self.buffer.is_some() || self.shared_buffer.is_some()
    }
}

/// A plan's network with so many hosts.
pub(crate) fn topology(plan: &NetworkPlan, hosts: u32) -> Topology {
    let link =
        |mbit| Link { loss: plan.loss, ..Link::new(Rate::mbit(mbit), Time::ns(plan.delay_ns)) };
    let buffer = match (plan.buffer, plan.shared_buffer) {
        (Some(bytes), _) => Buffer::PerPort(bytes),
        (_, Some(bytes)) => Buffer::Shared { bytes, alpha: ((plan.alpha * 64.0) as u64, 64) },
        _ => Buffer::Unlimited,
    };
    let forwarding = match plan.cut_through {
        true => Forwarding::CutThrough,
        false => Forwarding::StoreAndForward,
    };
    let latency = Time::ns(plan.switch_ns);
    let Shape { leaves, hosts_per_leaf, spines } = Shape::new(plan, hosts);
    let tiers = LeafSpine {
        leaves,
        hosts_per_leaf,
        spines,
        host_link: link(plan.rate_mbit),
        core_link: link(plan.core_rate_mbit.unwrap_or(plan.rate_mbit)),
        switch: Switch { latency, forwarding, buffer, mark_above: plan.mark_above },
    };
    Topology::leaf_spine(tiers, Time::ns(plan.turnaround_ns))
}

/// A file that has its name only when it is kept. Dropping it removes it.
pub(crate) struct DraftFile {
    draft: PathBuf,
    place: PathBuf,
}

impl DraftFile {
    /// A file that is not there yet.
    pub(crate) fn new(directory: &Path, name: &str) -> Self {
        let draft = directory.join(format!(".{name}.{}", std::process::id()));
        Self { draft, place: directory.join(name) }
    }

    /// Begins it.
    pub(crate) fn create(&self) -> io::Result<BufWriter<File>> {
        fs::create_dir_all(self.draft.parent().unwrap_or(Path::new(".")))?;
        File::create(&self.draft).map(BufWriter::new)
    }

    /// Its path when it is kept.
    pub(crate) fn place(&self) -> &Path {
        &self.place
    }

    /// Gives it its name.
    pub(crate) fn keep(self) -> io::Result<PathBuf> {
        fs::rename(&self.draft, &self.place)?;
        Ok(self.place.clone())
    }
}

impl Drop for DraftFile {
    fn drop(&mut self) {
        // A file that was kept has another name by now.
        let _ = fs::remove_file(&self.draft);
    }
}
