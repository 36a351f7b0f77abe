//! What the view reads by itself, beside the measurement: counters of the interfaces, of TCP and of
//! the CPUs. Three small files, some tens of microseconds; no lock or memory that a measuring loop
//! uses.

use gigae_eval_measure::site::Site;
use gigae_host::proc::net::{self, Device};
use gigae_host::proc::{self, CpuTimes};
use std::time::Instant;

/// A share of one CPU is taken over so long at least, in seconds: ticks of `/proc/stat` are 10 ms.
const LEAST: f64 = 0.2;

/// Where to read.
#[derive(Clone, Debug)]
pub(super) struct Source {
    /// The thread in whose network namespace the interfaces are: the measuring one.
    thread: i32,
    interfaces: Vec<String>,
    /// The CPUs of both ends, as far as they are this machine's.
    pub(super) cpus: [Option<usize>; 2],
    /// Whether the whole machine counts and not a CPU.
    machine: bool,
}

impl Source {
    /// Two ends, one of which the calling thread is; without a site, nothing goes over a link.
    pub(super) fn ends(site: Option<&Site>, answering_cpu: Option<usize>) -> Self {
        let interfaces =
            site.iter().flat_map(|site| site.interfaces()).map(str::to_owned).collect();
        let here = site
            .map_or_else(|| Some(gigae_eval_session::stage::measuring_cpus().0), |site| site.cpu);
        Self { cpus: [here, answering_cpu], ..Self::of(interfaces, false) }
    }

    /// Many ends: the whole machine, and the interfaces of the calling thread's end.
    pub(super) fn machine(site: &Site) -> Self {
        Self::of(site.interfaces().map(str::to_owned).collect(), true)
    }

    fn of(interfaces: Vec<String>, machine: bool) -> Self {
        let thread = rustix::thread::gettid().as_raw_nonzero().get();
        Self { thread, interfaces, cpus: [None, None], machine }
    }
}

/// What happened between two looks.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Rates {
    /// Bytes and frames per second that the interfaces sent, then received; `None` without a link.
    pub(super) wire: Option<[[f64; 2]; 2]>,
    /// Shares of the CPUs of [`Source::cpus`] that were at work, or of the machine in the first
    /// place.
    pub(super) cpus: [Option<f64>; 2],
    /// TCP segments that were sent again.
    pub(super) repeated: u64,
}

#[derive(Clone, Copy, Debug)]
struct Look {
    at: Instant,
    device: Option<Device>,
    cpus: [Option<CpuTimes>; 2],
    repeated: Option<u64>,
}

/// Looks again and again.
#[derive(Debug)]
pub(super) struct Live {
    source: Source,
    last: Look,
}

impl Live {
    pub(super) fn new(source: Source) -> Self {
        let last = look(&source);
        Self { source, last }
    }

    /// What happened since the last look; `None` if that is too short a time.
    pub(super) fn rates(&mut self) -> Option<Rates> {
        if self.last.at.elapsed().as_secs_f64() < LEAST {
            return None;
        }
        let now = look(&self.source);
        let rates = between(&self.last, &now);
        self.last = now;
        Some(rates)
    }
}

fn look(source: &Source) -> Look {
    let of_thread =
        |file: &str| proc::read(&format!("/proc/self/task/{}/net/{file}", source.thread));
    let stat = proc::read(proc::STAT);
    let one = |cpu: Option<usize>| cpu.map(|cpu| proc::cpu_times(&stat, Some(cpu)));
    let cpus = match source.machine {
        true => [Some(proc::cpu_times(&stat, None)), None],
        false => source.cpus.map(one),
    };
    let (mut device, mut repeated) = (None, None);
    if !source.interfaces.is_empty() {
        device = net::devices(&of_thread("dev"), &source.interfaces);
    }
    // In a soak the TCP of all ends is reported together.
    if device.is_some() && !source.machine {
        repeated = net::tcp_counter(&of_thread("snmp"), net::TCP_REPEATED);
    }
    Look { at: Instant::now(), device, cpus, repeated }
}

fn between(before: &Look, after: &Look) -> Rates {
    let seconds = (after.at - before.at).as_secs_f64().max(f64::MIN_POSITIVE);
    // A counter that begins again is that of another interface.
    let rate = |before: u64, after: u64| after.saturating_sub(before) as f64 / seconds;
    let wire = before.device.zip(after.device).map(|(before, after)| {
        [
            [rate(before.tx_bytes, after.tx_bytes), rate(before.tx_frames, after.tx_frames)],
            [rate(before.rx_bytes, after.rx_bytes), rate(before.rx_frames, after.rx_frames)],
        ]
    });
    let share = |place: usize| {
        let (before, after) = (before.cpus[place]?, after.cpus[place]?);
        let work = after.work + after.interrupts - before.work - before.interrupts;
        let total = after.total - before.total;
        (total > 0.0).then(|| (work / total).clamp(0.0, 1.0))
    };
    let repeated = before.repeated.zip(after.repeated);
    Rates {
        wire,
        cpus: [share(0), share(1)],
        repeated: repeated.map_or(0, |(before, after)| after.saturating_sub(before)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn rates_are_differences_over_the_time_between() {
        let at = Instant::now();
        let cpu = |work, interrupts, total| CpuTimes { work, interrupts, steal: 0.0, total };
        let before = Look {
            at,
            device: Some(Device { rx_bytes: 10, rx_frames: 1, tx_bytes: 0, tx_frames: 0 }),
            cpus: [Some(cpu(1.0, 0.5, 10.0)), None],
            repeated: Some(3),
        };
        let after = Look {
            at: at + Duration::from_millis(500),
            device: Some(Device { rx_bytes: 20, rx_frames: 3, tx_bytes: 1000, tx_frames: 5 }),
            cpus: [Some(cpu(1.25, 0.5, 10.5)), Some(cpu(1.0, 0.0, 1.0))],
            repeated: Some(7),
        };
        let rates = between(&before, &after);
        assert_eq!(rates.wire, Some([[2000.0, 10.0], [20.0, 4.0]]));
        assert_eq!(rates.cpus, [Some(0.5), None]);
        assert_eq!(rates.repeated, 4);
        // Another interface, which has counted less; no time at all on the CPU's account.
        let back = between(&after, &before.clone());
        assert_eq!((back.repeated, back.cpus[0]), (0, None));
    }

    #[test]
    fn the_loopback_interface_and_the_cpus_can_be_read() {
        let site = Site::find("lo").unwrap();
        let mut live = Live::new(Source::machine(&site));
        assert_eq!(live.rates(), None, "too soon");
        std::thread::sleep(Duration::from_secs_f64(LEAST * 1.5));
        let rates = live.rates().unwrap();
        assert!(rates.wire.is_some() && rates.cpus[0].is_some(), "{rates:?}");
    }
}
