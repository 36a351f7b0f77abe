//! What an end is like at a moment: its links, its counters, its process, what its workers found.
//!
//! Only reading: `/proc`, netlink, ethtool, `/dev/kmsg`. Rules ([`super::rules`]) judge it
//! elsewhere.

use super::interface;
use super::kernel::KernelLog;
use super::round_state::RoundState;
use gigae_eval_measure::site::Site;
use gigae_eval_model::soak::{Sample, TcpCounters};
use gigae_host::proc::{self, net};
use std::fs;

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
    pub fn take(&mut self, round_state: &RoundState) -> Sample {
        let (found, more) = round_state.take_found();
        let (kernel, kernel_others) = self.log.as_mut().map(KernelLog::take).unwrap_or_default();
        Sample {
            pid: std::process::id(),
            rss: rss(),
            descriptors: fs::read_dir("/proc/self/fd").map_or(0, |all| all.count() as u64),
            interfaces: interface::read(&self.interfaces),
            tcp: tcp(&proc::read(net::SNMP)),
            gigae: round_state.gigae(),
            passed: round_state.passed(),
            found,
            more,
            kernel,
            kernel_others,
            kernel_unreadable: self.log.as_ref().and_then(KernelLog::unreadable),
            ended: round_state.ended(),
        }
    }
}

/// Resident memory in bytes (proc_pid_statm(5)).
fn rss() -> u64 {
    let text = proc::read("/proc/self/statm");
    let pages = text.split(' ').nth(1).and_then(|word| word.parse::<u64>().ok()).unwrap_or(0);
    pages * rustix::param::page_size() as u64
}

fn tcp(snmp: &str) -> TcpCounters {
    let counter = |name: &str| net::tcp_counter(snmp, name).unwrap_or(0);
    TcpCounters { retransmissions: counter(net::TCP_REPEATED), errors: counter("InErrs") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_has_memory_and_descriptors() {
        let site = Site::find("lo").unwrap();
        let sample = Sampler::new(&site, false).take(&RoundState::new(1));
        assert!(sample.rss > 100_000 && sample.descriptors > 2, "{sample:?}");
        assert_eq!(sample.interfaces.len(), 1);
        assert!(sample.interfaces[0].counters.contains_key("rx_errors"), "{sample:?}");
    }
}
