//! What an end is like at a moment: its links, its counters, its process, what its workers found.
//!
//! Only reading: `/proc`, netlink, ethtool, `/dev/kmsg`. Rules ([`super::rules`]) judge it elsewhere.

use super::interface::{self, Interface};
use super::kernel::{KernelLog, KernelMessage};
use super::tally::{Finding, Passed, Tally};
use crate::cost;
use crate::site::Site;
use serde::{Deserialize, Serialize};
use std::fs;

/// Counters of an endpoint since it was opened: what the rules look at and the report shows.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GigaeCounters {
    /// Frames sent.
    pub frames_sent: u64,
    /// Frames received.
    pub frames_received: u64,
    /// Frames sent again.
    pub retransmissions: u64,
    /// Retransmission timeouts.
    pub timeouts: u64,
    /// STOPs obeyed.
    pub stops: u64,
    /// Messages that failed.
    pub failed: u64,
    /// Sessions in which long frames vanish.
    pub black_holes: u64,
    /// Frames that were damaged: too short, of another version, malformed, with a bad CRC.
    pub damaged: u64,
    /// Frames discarded for any other reason.
    pub discarded: u64,
    /// Frames for which the kernel had no room.
    pub dropped: u64,
    /// Descriptors that the kernel refused.
    pub invalid: u64,
}

impl GigaeCounters {
    /// Those of an endpoint.
    pub fn of(all: &gigae::Counters) -> Self {
        let gigae::Counters { protocol, link, .. } = all;
        let damaged = protocol.short + protocol.version + protocol.checksum + protocol.malformed;
        Self {
            frames_sent: link.tx_frames,
            frames_received: link.rx_frames,
            retransmissions: protocol.retransmissions,
            timeouts: protocol.timeouts,
            stops: protocol.stops,
            failed: protocol.messages_failed,
            black_holes: protocol.black_holes,
            damaged,
            discarded: protocol.discarded() - damaged,
            dropped: link.rx_dropped,
            invalid: link.tx_invalid,
        }
    }
}

/// TCP counters of the network namespace (proc_pid_net(5), snmp).
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TcpCounters {
    /// Segments sent again.
    pub retransmissions: u64,
    /// Segments received with errors.
    pub errors: u64,
}

/// An end at a moment.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Sample {
    /// The process.
    pub pid: u32,
    /// Its resident memory in bytes.
    pub rss: u64,
    /// Its open descriptors.
    pub descriptors: u64,
    /// The interfaces that are soaked.
    pub interfaces: Vec<Interface>,
    /// TCP.
    pub tcp: TcpCounters,
    /// The endpoint.
    pub gigae: GigaeCounters,
    /// What passed, by peer.
    pub passed: Vec<Passed>,
    /// What was found since the last sample.
    pub found: Vec<Finding>,
    /// How many more.
    pub more: u64,
    /// Kernel messages since the last sample, on its device or grave.
    pub kernel: Vec<KernelMessage>,
    /// Other kernel messages of warning level or above.
    pub kernel_others: u64,
    /// Why kernel messages cannot be read.
    pub kernel_unreadable: Option<String>,
    /// Why a worker has ended.
    pub ended: Option<String>,
}

/// Takes samples of this end.
pub struct Sampler {
    interfaces: Vec<String>,
    /// `None` where another end watches the same kernel.
    log: Option<KernelLog>,
}

impl Sampler {
    /// For this end. On a virtual network the measuring end watches the kernel for all.
    pub fn new(site: &Site, watches_kernel: bool) -> Self {
        let interfaces: Vec<String> = site.interfaces().map(str::to_owned).collect();
        let log = watches_kernel.then(|| KernelLog::open(interface::names_in_log(&interfaces)));
        Self { interfaces, log }
    }

    /// How this end is now. Some tens of system calls.
    pub fn take(&mut self, tally: &Tally) -> Sample {
        let (found, more) = tally.take_found();
        let (kernel, kernel_others) = self.log.as_mut().map(KernelLog::take).unwrap_or_default();
        Sample {
            pid: std::process::id(),
            rss: rss(),
            descriptors: fs::read_dir("/proc/self/fd").map_or(0, |all| all.count() as u64),
            interfaces: interface::read(&self.interfaces),
            tcp: tcp(&fs::read_to_string("/proc/thread-self/net/snmp").unwrap_or_default()),
            gigae: tally.gigae(),
            passed: tally.passed(),
            found,
            more,
            kernel,
            kernel_others,
            kernel_unreadable: self.log.as_ref().and_then(KernelLog::unreadable),
            ended: tally.ended(),
        }
    }
}

/// Resident memory in bytes (proc_pid_statm(5)).
fn rss() -> u64 {
    let text = fs::read_to_string("/proc/self/statm").unwrap_or_default();
    let pages = text.split(' ').nth(1).and_then(|word| word.parse::<u64>().ok()).unwrap_or(0);
    pages * rustix::param::page_size() as u64
}

fn tcp(snmp: &str) -> TcpCounters {
    let counter = |name: &str| cost::tcp_counter(snmp, name).unwrap_or(0);
    TcpCounters { retransmissions: counter(cost::TCP_REPEATED), errors: counter("InErrs") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_has_memory_and_descriptors() {
        let site = Site::find("lo").unwrap();
        let sample = Sampler::new(&site, false).take(&Tally::new(1));
        assert!(sample.rss > 100_000 && sample.descriptors > 2, "{sample:?}");
        assert_eq!(sample.interfaces.len(), 1);
        assert!(sample.interfaces[0].counters.contains_key("rx_errors"), "{sample:?}");
    }
}
