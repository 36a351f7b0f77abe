//! From repetitions to figures: collects what the ends measured and says what to doubt about it.

use crate::progress::ViewCost;
use gigae_eval_measure::experiment;
use gigae_eval_measure::experiment::incast::IncastTotals;
use gigae_eval_measure::probe::{Answered, Asked};
use gigae_eval_model::cost::Cost;
use gigae_eval_model::demand::Demand;
use gigae_eval_model::doubt;
use gigae_eval_model::doubt::Doubt;
use gigae_eval_model::duration::nanoseconds;
use gigae_eval_model::environment::Environment;
use gigae_eval_model::environment::NETWORK;
use gigae_eval_model::environment::Overhead;
use gigae_eval_model::experiment::Experiment;
use gigae_eval_model::experiment::SCALE;
use gigae_eval_model::note::Note;
use gigae_eval_model::number::{hundredths, percent, tenths};
use gigae_eval_model::plan::{Cell, Cpus};
use gigae_eval_model::results::{Estimate, Series, Warmup};
use gigae_eval_model::stats;
use gigae_eval_model::stats::{CONFIDENCE, Distribution, Interval};
use gigae_eval_model::transport;
use gigae_fabric::DelayCounters;
use gigae_host::affinity;

/// A figure's run has settled if its last quarter differs from its first by less.
const SETTLED: f64 = 0.10;
/// Steal above this share of the time is worth a doubt.
const STEAL: f64 = 0.01;
/// Other threads' share of a measuring CPU that is worth a doubt.
const OTHERS: f64 = 0.05;
/// Ticks of `/proc/stat` are 10 ms; this many seconds of other threads may be mere rounding.
const ROUNDING: f64 = 0.05;
/// A cache line between the CPUs of both ends takes a few times as long if they have no cache in
/// common. On a machine that is left alone, the same two CPUs differ by less than this.
const MOVED: f64 = 2.0;
/// Share of a figure that measuring itself may have.
const OVERHEAD: f64 = 0.01;
/// Share of a link's delay by which frames may be late on average.
const LATE: f64 = 0.10;
/// Fewest samples for which a 99.9th percentile is more than the largest sample.
const ENOUGH: u64 = 1000;

/// All repetitions of one cell.
#[derive(Debug)]
pub struct CellRepetitions {
    /// What is measured.
    pub cell: Cell,
    /// Whether messages can be lost.
    pub reliable: bool,
    /// Goodput that the link allows, in the figure's unit.
    pub limit: Option<f64>,
    /// Repetitions that failed, with the last reason.
    pub failures: u32,
    values: Vec<f64>,
    samples: Distribution,
    warmup: Distribution,
    drifts: Vec<f64>,
    demands: Vec<f64>,
    local: Cost,
    remote: Cost,
    sent: u64,
    lost: u64,
    crowds: IncastTotals,
    core_to_core: Vec<f64>,
    note: Option<Note>,
}

/// A cell's figure while more repetitions may come.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SoFar {
    /// Of the last repetition.
    pub last: f64,
    /// The median over the repetitions.
    pub median: f64,
    /// Its interval, as far as it goes.
    pub interval: [f64; 2],
    /// How many repetitions there are.
    pub repetitions: u32,
    /// CPU seconds per second of the measuring and of the answering end.
    pub cpu: [f64; 2],
}

impl CellRepetitions {
    /// Nothing yet.
    pub fn new(cell: Cell, reliable: bool, limit: Option<f64>) -> Self {
        Self {
            cell,
            reliable,
            limit,
            failures: 0,
            values: Vec::new(),
            samples: Distribution::default(),
            warmup: Distribution::default(),
            drifts: Vec::new(),
            demands: Vec::new(),
            local: Cost::default(),
            remote: Cost::default(),
            sent: 0,
            lost: 0,
            crowds: IncastTotals::default(),
            core_to_core: Vec::new(),
            note: None,
        }
    }

    /// Repetitions so far.
    pub fn repetitions(&self) -> u32 {
        u32::try_from(self.values.len()).unwrap_or(u32::MAX)
    }

    /// Adds a repetition.
    pub fn add(&mut self, asked: &Asked, answered: &Answered) {
        let method = experiment::method(self.cell.experiment);
        let (samples, warmup) = (method.samples)(asked, answered);
        samples.iter().for_each(|&value| self.samples.record(value.into()));
        warmup.iter().for_each(|&value| self.warmup.record(value.into()));
        self.drifts.extend(stats::drift(samples));
        self.values.push((method.figure)(asked, answered));
        self.local.add(&asked.cost);
        self.remote.add(&answered.cost);
        self.sent += asked.sent;
        // A reliable stream arrives, though perhaps in other pieces than it was sent in.
        let arrives = self.reliable && self.cell.experiment.is_goodput();
        let lost = if arrives { 0 } else { (method.lost)(asked, answered) };
        self.lost += lost;
        let arrived = asked.sent.saturating_sub(lost) as f64 * self.cell.size as f64;
        self.demands.extend(self.demand([&asked.cost, &answered.cost], arrived));
        self.crowds.add(asked);
        self.core_to_core.extend(asked.core_to_core);
        self.note = asked.note.clone().or_else(|| self.note.take());
    }

    /// Microseconds of CPU per KB of a stream in one repetition, at both ends together, their
    /// warm-up included.
    fn demand(&self, ends: [&Cost; 2], arrived: f64) -> Option<f64> {
        let demand = Demand::of(self.cell.condition.cpus, ends, arrived)?;
        (self.cell.experiment == Experiment::Stream).then(|| demand.sum())
    }

    /// The figure so far; `None` before the first repetition.
    pub fn so_far(&self) -> Option<SoFar> {
        let interval = stats::median_interval(&self.values)?;
        Some(SoFar {
            last: *self.values.last()?,
            median: stats::median(&self.values)?,
            interval: [interval.low, interval.high],
            repetitions: self.repetitions(),
            cpu: [self.local.cpu(), self.remote.cpu()],
        })
    }

    /// Whether another repetition would hardly change the figure.
    pub fn precise(&self, precision: f64) -> bool {
        match (stats::median(&self.values), stats::median_interval(&self.values)) {
            (Some(median), Some(interval)) => {
                interval.coverage >= CONFIDENCE && interval.relative_half_width(median) <= precision
            }
            _ => false,
        }
    }

    /// The figures; `None` if no repetition gave any sample.
    pub fn series(&self, link: &str, precision: f64, overhead: &Overhead) -> Option<Series> {
        let median = stats::median(&self.values)?;
        let interval = stats::median_interval(&self.values)?;
        let summary = self.samples.summary(SCALE)?;
        let warmup = self.warmup.summary(SCALE);
        let mut series = Series {
            experiment: self.cell.experiment,
            transport: self.cell.transport.clone(),
            variant: self.cell.variant.clone(),
            condition: self.cell.condition,
            link: link.to_owned(),
            wait: self.cell.wait,
            size: self.cell.size,
            unit: self.cell.experiment.unit().to_owned(),
            median,
            ci95: [interval.low, interval.high],
            coverage: interval.coverage,
            repetitions: self.values.clone(),
            p50: summary.p50,
            p90: summary.p90,
            p99: summary.p99,
            p999: summary.p999,
            min: summary.min,
            max: summary.max,
            mean: summary.mean,
            n: summary.n,
            warmup: Warmup {
                n: warmup.map_or(0, |warmup| warmup.n),
                p50: warmup.map(|warmup| warmup.p50),
                drift: stats::median(&self.drifts),
            },
            cpu_local: self.local.cpu(),
            cpu_remote: self.remote.cpu(),
            frames: self.local.tx_frames,
            syscalls: self.local.syscalls,
            interrupts: self.local.interrupts,
            sent: self.sent,
            lost: self.lost,
            limit: self.limit,
            local: self.local,
            remote: self.remote,
            shares: self.crowds.shares(),
            cpu_per_kb: stats::median(&self.demands)
                .zip(stats::median_interval(&self.demands))
                .map(|(median, interval)| Estimate { median, ci95: [interval.low, interval.high] }),
            core_to_core: stats::range(self.core_to_core.iter().map(|&trip| [trip, trip])),
            note: self.note.clone(),
            doubts: Vec::new(),
        };
        series.doubts = self.doubts(&series, &interval, precision, overhead);
        Some(series)
    }

    fn doubts(
        &self,
        series: &Series,
        interval: &Interval,
        precision: f64,
        overhead: &Overhead,
    ) -> Vec<Doubt> {
        let mut doubts = Vec::new();
        let width = interval.relative_half_width(series.median);
        if interval.coverage < CONFIDENCE {
            doubts.push(few_repetitions(interval.coverage));
        } else if width > precision {
            doubts.push(doubt!(
                WideInterval,
                "+-{} after {} repetitions; repeat on a quieter machine or raise max_repetitions",
                percent(width),
                self.values.len()
            ));
        }
        for (end, cost) in [("measuring", &self.local), ("answering", &self.remote)] {
            // The other end is not a disturbance where it is meant to be on the same CPU.
            cpu_doubts(end, cost, self.cell.condition.cpus == Cpus::One, &mut doubts);
        }
        if let Some([low, high]) = series.core_to_core.filter(|[low, high]| high / low > MOVED) {
            doubts.push(doubt!(CpusMoved, "a cache line took {} to {} between the CPUs of both ends and back: a hypervisor moved them apart or together, which changes every figure; compare medians of several runs (--runs), or repeat where virtual CPUs stay",
                nanoseconds(low),
                nanoseconds(high)));
        }
        let zerocopy = self.note.as_ref().and_then(Note::zerocopy);
        if let Some(zerocopy) = zerocopy.filter(|zerocopy| zerocopy.copied > 0) {
            doubts.push(doubt!(
                Copied,
                "with MSG_ZEROCOPY the kernel copied {} of the writes after all, as on every virtual link; measure on a NIC what it saves",
                percent(zerocopy.copied as f64 / zerocopy.writes as f64)
            ));
        }
        if series.lost > 0 {
            doubts.push(doubt!(
                Loss,
                "{} of the messages did not arrive; the figure counts those that did",
                hundredths(series.loss())
            ));
        }
        if let Some(drift) = series.warmup.drift.filter(|drift| *drift > SETTLED) {
            doubts.push(doubt!(
                Unsettled,
                "within a repetition the figure moved by {}; plan a longer warmup",
                percent(drift)
            ));
        }
        if let Some(share) = own_share(series, overhead).filter(|share| *share > OVERHEAD) {
            doubts.push(doubt!(Overhead, "the evaluator's own loop and clock are {} of this figure, not subtracted; compare with figures of this run only",
                tenths(share)));
        }
        if self.cell.experiment.is_trip() && series.n < ENOUGH {
            doubts.push(doubt!(
                FewSamples,
                "p99.9 of {} samples is their largest; plan longer repetitions",
                series.n
            ));
        }
        if self.failures > 0 {
            doubts.push(doubt!(
                Failed,
                "{} repetitions failed and were left out; repeat the run",
                self.failures
            ));
        }
        doubts
    }
}

pub(crate) fn few_repetitions(coverage: f64) -> Doubt {
    doubt!(
        FewRepetitions,
        "the interval covers only {}; plan at least 6 repetitions",
        percent(coverage)
    )
}

/// Doubts about an end's CPU; `shared` with the other end.
pub(crate) fn cpu_doubts(end: &str, cost: &Cost, shared: bool, doubts: &mut Vec<Doubt>) {
    if cost.seconds > 0.0 && cost.steal / cost.seconds > STEAL && cost.steal > ROUNDING {
        doubts.push(doubt!(
            Steal,
            "a hypervisor withheld {} of the {end} CPU; repeat on a less loaded host",
            tenths(cost.steal / cost.seconds)
        ));
    }
    if !shared && cost.cpu_others > cost.seconds * OTHERS + ROUNDING {
        doubts.push(doubt!(
            Interference,
            "other threads took {} of the {end} CPU; stop other work and repeat",
            percent(cost.cpu_others / cost.seconds.max(f64::MIN_POSITIVE))
        ));
    }
}

/// Doubts about the run as a whole.
pub(crate) fn run_doubts(environment: &Environment) -> Vec<Doubt> {
    let mut doubts = Vec::new();
    let same_machine = environment.link.iter().any(|link| link.kind != NETWORK);
    if same_machine && affinity::allowed().len() < 2 {
        doubts.push(doubt!(
            OneCpu,
            "both ends share one CPU, so spinning ends starve each other; use two CPUs"
        ));
    }
    if cfg!(debug_assertions) {
        doubts.push(doubt!(
            DebugBuild,
            "a debug build, which checks and optimises less; build with --release"
        ));
    }
    let control = environment.congestion_control.as_str();
    if control != "unknown" && control != transport::CONGESTION_CONTROL {
        doubts.push(doubt!(
            CongestionControl,
            "TCP ran with '{control}', which may not be '{}'; permit that one and repeat",
            transport::CONGESTION_CONTROL
        ));
    }
    let governor = &environment.link[0].local.governor;
    if !matches!(governor.as_str(), "none" | "performance") {
        doubts.push(doubt!(
            Governor,
            "the CPU frequency follows '{governor}'; set 'performance' and repeat"
        ));
    }
    if environment.link.iter().any(|link| link.idle_local.work > 0.10) {
        doubts.push(doubt!(
            Busy,
            "the machine was not idle before the run; stop other work and repeat"
        ));
    }
    doubts
}

/// What the virtual switch did to the frames of a link with a delay that it was not asked for.
pub(crate) fn delay_doubt(link: &str, micros: u64, counters: &DelayCounters) -> Option<Doubt> {
    let DelayCounters { frames, dropped, failed, .. } = *counters;
    if dropped + failed > 0 {
        let lost = dropped + failed;
        return Some(doubt!(
            Delay,
            "the delay of {link} dropped {lost} of {frames} frames, which its link would not; give it a lower rate or a shorter delay"
        ));
    }
    let late = counters.late_us();
    (micros > 0 && late > micros as f64 * LATE).then(|| {
        doubt!(
            Delay,
            "frames left the delay of {link} {late:.0} us late on average, with {micros} us asked for; stop other work, or take a longer delay"
        )
    })
}

/// What a live view does to the figures, where it may have run on the CPUs of the ends.
pub(crate) fn view_doubt(view: ViewCost) -> Option<Doubt> {
    (!view.separate_cpus).then(|| {
        doubt!(LiveView, "--tui had no CPU of its own and took {} of one that an end was on, its terminal not counted; leave it out for figures to quote",
            hundredths(view.share))
    })
}

/// How much of a figure is the measuring itself; `None` where no message is measured.
fn own_share(series: &Series, overhead: &Overhead) -> Option<f64> {
    if series.experiment.is_trip() {
        return Some(overhead.round_trip_ns * SCALE / series.p50);
    }
    Some(overhead.message_ns * 1e-9 * series.messages_per_second()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_delay_that_drops_frames_or_is_late_is_a_doubt() {
        let doubt = |dropped, failed, late_ns| {
            let counters = DelayCounters { frames: 10, late_ns, dropped, failed, peak: 1 };
            let doubt = delay_doubt("far", 100, &counters)?;
            assert_eq!(doubt.code, Some(Code::Delay));
            assert!(!doubt.detail().is_empty() && !doubt.advice().is_empty(), "{doubt}");
            Some(doubt.to_string())
        };
        assert_eq!(doubt(0, 0, 100_000), None);
        assert!(doubt(0, 0, 101_000).unwrap().contains("10 us late"));
        assert!(doubt(1, 2, 0).unwrap().contains("dropped 3 of 10"));
        assert_eq!(delay_doubt("near", 0, &DelayCounters::default()), None);
    }
    use gigae_eval_model::doubt::Code;
    use gigae_eval_model::note::Zerocopy;
    use gigae_eval_model::plan::{Condition, Setting, Wait};
    use std::time::Duration;

    fn cell(experiment: Experiment) -> Cell {
        Cell {
            experiment,
            transport: "udp".into(),
            variant: None,
            setting: Setting::Default,
            condition: Condition::default(),
            wait: Wait::Spin,
            size: 8,
            measure: Duration::from_secs(1),
            warmup: Duration::ZERO,
            tune: false,
        }
    }

    const OWN: Overhead = Overhead { round_trip_ns: 20.0, message_ns: 1.0 };

    #[test]
    fn a_quiet_run_of_six_equal_repetitions_raises_no_doubt() {
        let mut gathered = CellRepetitions::new(cell(Experiment::Rtt), false, None);
        for _ in 0..6 {
            let asked = Asked { samples: vec![5000; 1000], sent: 1000, ..Asked::default() };
            gathered.add(&asked, &Answered::default());
        }
        let series = gathered.series("here", 0.05, &OWN).unwrap();
        assert_eq!((series.median, series.p50, series.n), (5.0, 5.0, 6000));
        assert_eq!(series.doubts, []);
        assert!(gathered.precise(0.05));
    }

    #[test]
    fn the_goodput_is_the_receivers_and_missing_messages_are_loss() {
        let mut gathered = CellRepetitions::new(cell(Experiment::Stream), false, None);
        let asked = Asked { sent: 100, ..Asked::default() };
        let answered = Answered {
            messages: 90,
            measured_bytes: 2_000_000,
            measured_seconds: 0.5,
            slices: vec![4000; 10],
            ..Answered::default()
        };
        gathered.add(&asked, &answered);
        let series = gathered.series("here", 0.05, &OWN).unwrap();
        assert_eq!((series.median, series.p50, series.lost), (4.0, 4.0, 10));
        let codes: Vec<_> = series.doubts.into_iter().filter_map(|doubt| doubt.code).collect();
        assert_eq!(codes, [Code::FewRepetitions, Code::Loss]);
    }

    #[test]
    fn what_a_stream_costs_is_shared_by_what_arrived() {
        let series = |messages| {
            let cost = Cost { seconds: 1.0, cpu_thread: 0.5, ..Cost::default() };
            let mut gathered = CellRepetitions::new(cell(Experiment::Stream), false, None);
            let answered =
                Answered { messages, slices: vec![4000; 10], cost, ..Answered::default() };
            gathered.add(&Asked { sent: 100, cost, ..Asked::default() }, &answered);
            gathered.series("here", 0.05, &OWN).unwrap()
        };
        let (all, some) = (series(100), series(36));
        assert_eq!(some.lost, 64);
        let per_kb = |series: &Series| series.cpu_per_kb.unwrap().median;
        assert!((per_kb(&some) / per_kb(&all) - 100.0 / 36.0).abs() < 1e-9);
        let per_gb = |series: &Series| series.cpu_per_gigabyte().unwrap();
        assert!((per_gb(&some) / per_gb(&all) - 100.0 / 36.0).abs() < 1e-9);
        assert_eq!(series(0).cpu_per_kb, None);
    }

    #[test]
    fn a_kernel_that_copied_although_it_was_asked_not_to_is_a_doubt() {
        let code = |copied| {
            let zerocopy = Some(Zerocopy { writes: 8, copied });
            let (congestion_control, buffers) = ("cubic".to_owned(), [1, 2]);
            let note = Some(Note::Tcp { congestion_control, buffers, zerocopy });
            let mut gathered = CellRepetitions::new(cell(Experiment::Stream), true, None);
            for _ in 0..6 {
                let answered = Answered { slices: vec![4000; 10], ..Answered::default() };
                gathered.add(&Asked { note: note.clone(), ..Asked::default() }, &answered);
            }
            let series = gathered.series("here", 0.05, &OWN).unwrap();
            series.doubts.into_iter().find(|doubt| doubt.code == Some(Code::Copied))
        };
        assert_eq!(code(0), None);
        assert!(code(2).unwrap().to_string().contains("25 % of the writes"));
    }

    #[test]
    fn a_doubt_says_what_measuring_costs_if_it_is_more_than_a_hundredth() {
        let own = |experiment, median: f64, overhead: &Overhead| {
            let mut gathered = CellRepetitions::new(cell(experiment), true, None);
            for _ in 0..6 {
                let asked =
                    Asked { samples: vec![(median * 1e3) as u32; 1000], ..Asked::default() };
                let answered = Answered {
                    measured_bytes: (median * 1e6) as u64,
                    measured_seconds: 1.0,
                    slices: vec![(median * 1e3) as u32; 10],
                    ..Answered::default()
                };
                gathered.add(&asked, &answered);
            }
            let series = gathered.series("here", 0.05, overhead).unwrap();
            series.doubts.iter().any(|doubt| doubt.code == Some(Code::Overhead))
        };
        let overhead = Overhead { round_trip_ns: 40.0, message_ns: 0.5 };
        // 40 ns of 5 us are 0.8 %, of 3 us 1.3 %; at 8 B, 80 MB/s are 10 M/s, or 0.5 %.
        assert!(!own(Experiment::Rtt, 5.0, &overhead) && own(Experiment::Rtt, 3.0, &overhead));
        assert!(
            !own(Experiment::Stream, 80.0, &overhead) && own(Experiment::Stream, 240.0, &overhead)
        );
    }

    #[test]
    fn cpus_that_a_hypervisor_moved_are_a_doubt() {
        let series = |trips: [Option<f64>; 3]| {
            let mut gathered = CellRepetitions::new(cell(Experiment::Rtt), true, None);
            for core_to_core in trips {
                let asked = Asked { samples: vec![5000; 9], core_to_core, ..Asked::default() };
                gathered.add(&asked, &Answered::default());
            }
            gathered.series("here", 0.05, &OWN).unwrap()
        };
        let moved = |series: &Series| {
            series.doubts.iter().find(|doubt| doubt.code == Some(Code::CpusMoved)).cloned()
        };
        let near = series([Some(53.0), None, Some(99.0)]);
        assert_eq!((near.core_to_core, moved(&near)), (Some([53.0, 99.0]), None));
        let far = series([Some(370.0), Some(53.0), Some(99.0)]);
        let text = moved(&far).unwrap().to_string();
        assert!(text.contains("53.0 ns to 370 ns"), "{text}");
        assert_eq!(series([None; 3]).core_to_core, None);
    }

    #[test]
    fn a_live_view_is_a_doubt_where_it_shared_a_cpu_with_an_end() {
        assert_eq!(view_doubt(ViewCost { share: 0.002, separate_cpus: true }), None);
        let doubt = view_doubt(ViewCost { share: 0.002, separate_cpus: false }).unwrap();
        assert_eq!(doubt.code, Some(Code::LiveView));
        assert!(doubt.to_string().contains("0.20 %"), "{doubt}");
    }

    #[test]
    fn the_figure_so_far_is_that_of_the_repetitions_so_far() {
        let mut gathered = CellRepetitions::new(cell(Experiment::Rtt), false, None);
        assert_eq!(gathered.so_far(), None);
        for value in [4000, 6000, 5000] {
            let asked = Asked { samples: vec![value; 9], ..Asked::default() };
            gathered.add(&asked, &Answered::default());
        }
        let so_far = gathered.so_far().unwrap();
        assert_eq!((so_far.last, so_far.median, so_far.repetitions), (5.0, 5.0, 3));
        assert_eq!(so_far.interval, [4.0, 6.0]);
    }

    #[test]
    fn every_disturbance_has_its_code() {
        let mut gathered = CellRepetitions::new(cell(Experiment::Rtt), false, None);
        let disturbed = Cost { seconds: 1.0, steal: 0.3, cpu_others: 0.5, ..Cost::default() };
        for value in [900, 900, 900, 1800, 1800, 1800] {
            let samples = [vec![value; 8], vec![value * 2; 8]].concat();
            let asked = Asked { samples, cost: disturbed, ..Asked::default() };
            gathered.add(&asked, &Answered::default());
        }
        gathered.failures = 1;
        let series = gathered.series("here", 0.05, &OWN).unwrap();
        let codes: Vec<_> = series.doubts.into_iter().filter_map(|doubt| doubt.code).collect();
        assert_eq!(
            codes,
            [
                Code::WideInterval,
                Code::Steal,
                Code::Interference,
                Code::Unsettled,
                Code::Overhead,
                Code::FewSamples,
                Code::Failed
            ]
        );
    }
}
