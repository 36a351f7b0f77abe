//! What came of the lab: plain data, written as `niclab.json`, from which the reports are made.

use super::file_row::FileRow;
use super::machine::MachineEnd;
use super::{LabError, file};
use crate::job::{Booted, Exchange, Failed, Interrupts, Opened, Report, Step, Test};
use crate::model::MODELS;
use gigae_eval_model::number::exact;
use gigae_eval_model::plan::{Experiment, Wait};
use gigae_eval_model::results::{Bound, Results, Series, Skipped};
use serde::{Deserialize, Serialize};
use std::fs;
use std::path::Path;

/// tcp / gigae of round trips with waiting style spin, at least.
pub const ASKED: f64 = 1.5;

/// All runs of the lab.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct LabRecord {
    /// When the last part of it began, in UTC (RFC 3339).
    pub date: String,
    /// QEMU's version.
    pub qemu: String,
    /// The version of this program.
    pub gigae: String,
    /// What of it was run, one guest each.
    pub runs: Vec<Run>,
}

/// One guest.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Run {
    /// When it began, in UTC (RFC 3339).
    pub date: String,
    /// The card.
    pub model: String,
    /// What it is.
    pub about: String,
    /// The suite of the kernel, or its package's file, as asked for.
    pub suite: String,
    /// Debian's version of the kernel.
    pub package: String,
    /// Processors.
    pub cpus: u32,
    /// Memory in MiB that the machine has.
    pub memory: u32,
    /// Who served the interrupts.
    pub interrupts: Interrupts,
    /// Messages that each end was to send.
    pub messages: u32,
    /// Why the conformance suite was left out, if it was.
    #[serde(default)]
    pub left_out: Option<String>,
    /// The plan that was measured in place of the lab's own. Its figures are in a report of its
    /// own.
    #[serde(default)]
    pub plan: Option<String>,
    /// How long it took, in seconds of the host's clock.
    pub seconds: f64,
    /// What booted.
    pub booted: Option<Booted>,
    /// What opened.
    pub opened: Vec<Opened>,
    /// Tests that passed, by suite.
    pub passed: Vec<(String, u32)>,
    /// Tests that failed.
    pub failed: Vec<Test>,
    /// Exchanges of messages.
    pub exchanges: Vec<Exchange>,
    /// The inventory.
    pub inventory: String,
    /// What was measured.
    pub figures: Vec<Figure>,
    /// The steps that were done. Older records do not say it.
    #[serde(default)]
    pub steps: Vec<Step>,
    /// What file services gave.
    #[serde(default)]
    pub files: Vec<FileRow>,
    /// TCP's own stream beside them, in Mbit/s.
    #[serde(default)]
    pub files_tcp: Option<f64>,
    /// What of file services could not be done.
    #[serde(default)]
    pub files_troubles: Vec<Failed>,
    /// Interrupts of the device by which the guest read the machine's files, while file services
    /// were measured.
    #[serde(default)]
    pub machine_reads: Option<u64>,
    /// Whether the guest is at its file services.
    #[serde(skip)]
    pub at_files: bool,
    /// The kernel's warnings.
    pub kernel: Vec<String>,
    /// Steps that could not be done.
    pub troubles: Vec<Failed>,
    /// The end of the console of a guest that broke.
    pub console: Vec<String>,
}

/// A point of the plan's results.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Figure {
    /// What was measured.
    pub experiment: Experiment,
    /// The transport.
    pub transport: String,
    /// How both ends waited.
    pub wait: Wait,
    /// Bytes of a message.
    pub size: usize,
    /// Median: microseconds of a round trip, MB per second of a stream, by the guest's clock.
    pub median: f64,
    /// Smallest and largest of the repetitions.
    pub range: [f64; 2],
    /// Messages of the measuring end.
    pub sent: u64,
    /// Frames that it sent.
    pub frames: u64,
    /// Interrupts of its card; 0 where the driver's carry no name of the interface.
    pub interrupts: u64,
    /// System calls.
    pub calls: u64,
}

/// All results of a plan, for the evaluator's own report.
pub struct FullResults {
    /// What the names of its files begin with.
    pub of: &'static str,
    /// The results.
    pub results: Box<Results>,
}

impl Figure {
    fn of(series: &Series) -> Self {
        let least = series.repetitions.iter().copied().fold(f64::INFINITY, f64::min);
        let most = series.repetitions.iter().copied().fold(0.0, f64::max);
        Self {
            experiment: series.experiment,
            transport: series.transport.clone(),
            wait: series.wait,
            size: series.size,
            median: series.median,
            range: [least, most],
            sent: series.sent,
            frames: series.frames,
            interrupts: series.interrupts,
            calls: series.syscalls,
        }
    }

    /// `count` divided by the messages sent; `None` without messages.
    pub fn per_message(&self, count: u64) -> Option<f64> {
        (self.sent > 0).then(|| count as f64 / self.sent as f64)
    }
}

impl LabRecord {
    /// Reads a niclab.json.
    pub fn read(path: &Path) -> Result<Self, LabError> {
        let text = fs::read_to_string(path).map_err(file("reading", path))?;
        serde_json::from_str(&text).map_err(|error| {
            LabError::Package(format!("{} is not a record of this lab ({error})", path.display()))
        })
    }

    /// Adds a guest, in the place of the same one if there is one. File services and all other
    /// steps take the place of their own results only, if the kernel is the same. Cards stand in
    /// the order of [`MODELS`].
    pub fn put(&mut self, mut run: Run) {
        match self.runs.iter_mut().find(|former| former.is_same(&run)) {
            Some(former) if former.package == run.package && run.has_only_files() => {
                former.take_files(run);
            }
            Some(former) => {
                if former.package == run.package && !run.steps.contains(&Step::Files) {
                    run.keep_files(former);
                }
                *former = run;
            }
            None => self.runs.push(run),
        }
        self.runs.sort_by_key(|run| MODELS.iter().position(|model| model.name == run.model));
    }
}

/// Frames by which the count of lost ones is uncertain: one for each end. It is repetitions less
/// duplicates. In a run that counted one as lost, every frame that either end had sent had arrived;
/// in another, the last one came when the other end had gone.
const UNCERTAIN: u64 = 2;

impl Run {
    /// Whether both are of the same machine.
    fn is_same(&self, other: &Self) -> bool {
        let machine = |run: &Self| (run.cpus, run.memory, run.interrupts);
        (&self.model, &self.suite, &self.plan) == (&other.model, &other.suite, &other.plan)
            && machine(self) == machine(other)
    }

    /// Whether nothing else was done.
    fn has_only_files(&self) -> bool {
        self.steps == [Step::Files]
    }

    /// Takes the results of file services from a guest that did nothing else.
    fn take_files(&mut self, mut other: Self) {
        other.files_troubles.append(&mut other.troubles);
        self.keep_files(&other);
        self.booted = self.booted.take().or(other.booted);
        other.kernel.retain(|line| !self.kernel.contains(line));
        self.kernel.append(&mut other.kernel);
        if !other.console.is_empty() {
            self.console = other.console;
        }
    }

    /// Has the results of file services that another run has.
    fn keep_files(&mut self, other: &Self) {
        self.files.clone_from(&other.files);
        self.files_tcp = other.files_tcp;
        self.files_troubles.clone_from(&other.files_troubles);
        self.machine_reads = other.machine_reads;
        if other.steps.contains(&Step::Files) && !self.steps.contains(&Step::Files) {
            self.steps.push(Step::Files);
        }
    }

    /// Where what could not be done is noted.
    fn noted(&mut self) -> &mut Vec<Failed> {
        if self.at_files { &mut self.files_troubles } else { &mut self.troubles }
    }

    /// Takes in a report of the guest. The full results of a plan come back.
    pub fn take(&mut self, report: Report) -> Option<FullResults> {
        match report {
            Report::Booted(booted) => self.booted = Some(booted),
            Report::Opened(opened) => self.opened.push(opened),
            Report::Test(test) if test.failure.is_some() => self.failed.push(test),
            Report::Test(test) => match self.passed.iter_mut().find(|(of, _)| *of == test.of) {
                Some((_, count)) => *count += 1,
                None => self.passed.push((test.of, 1)),
            },
            Report::Exchange(exchange) => self.exchanges.push(exchange),
            Report::Inventory(text) => self.inventory = text,
            Report::Kernel(lines) => self.kernel = lines,
            Report::Failed(failed) => self.noted().push(failed),
            Report::Figures(results) if self.plan.is_some() => {
                return Some(FullResults { of: "", results });
            }
            Report::Figures(results) => {
                self.figures = results.series.iter().map(Figure::of).collect();
                self.left_out_of(&results);
                return Some(FullResults { of: "", results });
            }
            Report::Files(results) => {
                let row = |figure| FileRow::of(figure, &results.plan);
                self.files = results.files.iter().filter_map(row).collect();
                let stream = results.series.iter().find(|one| one.experiment == Experiment::Stream);
                self.files_tcp = stream.map(|stream| stream.median * 8.0);
                self.left_out_of(&results);
                return Some(FullResults { of: "files-", results });
            }
            Report::MachineReads(count) => self.machine_reads = Some(count),
            Report::Begins(step) if Step::find(&step).is_some() => {
                self.at_files = Step::find(&step) == Some(Step::Files);
            }
            Report::Begins(_) | Report::Done => {}
        }
        None
    }

    /// What the lab's own plans measure has to be there.
    fn left_out_of(&mut self, results: &Results) {
        let skipped = |skipped: &Skipped| Failed {
            what: format!("measuring {}", skipped.transport),
            why: skipped.reason.clone(),
        };
        self.noted().extend(results.skipped.iter().map(skipped));
    }

    /// How the guest ended.
    pub fn ended(&mut self, end: MachineEnd) {
        if let MachineEnd::Broken(why, console) = end {
            self.noted().push(Failed { what: "the guest".into(), why });
            self.console = console;
        }
    }

    /// The mode that the self-test chose at the usual MTU, and why.
    pub fn chosen(&self) -> Option<&Opened> {
        self.opened.iter().find(|opened| opened.asked == "auto" && opened.mtu == 1500)
    }

    /// The median of a point.
    pub fn median(
        &self,
        experiment: Experiment,
        transport: &str,
        wait: Wait,
        size: usize,
    ) -> Option<f64> {
        self.figure(experiment, transport, wait, size).map(|figure| figure.median)
    }

    /// A point.
    pub fn figure(
        &self,
        experiment: Experiment,
        transport: &str,
        wait: Wait,
        size: usize,
    ) -> Option<&Figure> {
        self.figures.iter().find(|figure| {
            (figure.experiment, &figure.transport[..], figure.wait, figure.size)
                == (experiment, transport, wait, size)
        })
    }

    /// tcp / gigae of a round trip.
    pub fn ratio(&self, wait: Wait, size: usize) -> Option<f64> {
        let of = |transport| self.median(Experiment::Rtt, transport, wait, size);
        Some(of("tcp")? / of("gigae")?)
    }

    /// All that is not as it must be, a line each.
    pub fn faults(&self) -> Vec<String> {
        let mut faults: Vec<String> = self
            .troubles
            .iter()
            .chain(&self.files_troubles)
            .map(|trouble| format!("{}: {}", trouble.what, trouble.why))
            .collect();
        if let Some(booted) =
            self.booted.as_ref().filter(|booted| booted.cpus != self.cpus as usize)
        {
            faults.push(format!("{} of {} processors were started", booted.cpus, self.cpus));
        }
        faults.extend(self.failed.iter().map(|test| {
            let why = brief(test.failure.as_deref().unwrap_or_default());
            format!("{}: {}: {why}", test.of, test.name)
        }));
        for exchange in &self.exchanges {
            faults.extend(exchange.failure.iter().map(|why| format!("{}: {why}", exchange.of)));
        }
        faults.extend(self.files.iter().flat_map(FileRow::faults));
        if let (Some(ours), Some(packet)) = (self.lost("auto"), self.lost("packet"))
            && ours > packet + UNCERTAIN
            && self.left_out.is_none()
        {
            faults.push(format!("{ours} frames were lost where AF_PACKET lost {packet}"));
        }
        if let Some(ratio) =
            self.ratio(Wait::Spin, 8).filter(|&ratio| !Bound::AtLeast(ASKED).holds(ratio))
        {
            let ratio = exact(ratio);
            faults.push(format!("TCP's round trip is {ratio} of gigae's; {ASKED} was asked"));
        }
        faults
    }

    /// Data frames that were lost in the exchange over a backend at the usual MTU: repeated, and
    /// not because a busy host kept the guest from acknowledging in time, which shows as a
    /// duplicate.
    pub fn lost(&self, backend: &str) -> Option<u64> {
        let of = format!("{backend}, MTU 1500");
        self.exchanges.iter().find(|exchange| exchange.of == of).map(Exchange::lost)
    }
}

/// The beginning of a long text: a test that compares frames says both whole.
fn brief(text: &str) -> String {
    const LONGEST: usize = 150;
    match text.char_indices().nth(LONGEST) {
        Some((end, _)) => format!("{} ...", &text[..end]),
        None => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use gigae_eval_model::cost::Cost;
    use gigae_eval_model::file_figure::FileFigure;
    use gigae_eval_model::plan::Plan;
    use gigae_eval_model::service::Direction;

    #[test]
    fn of_a_long_text_the_beginning_is_shown() {
        assert_eq!(brief("short"), "short");
        assert_eq!(brief(&"ä".repeat(200)), format!("{} ...", "ä".repeat(150)));
    }

    fn exchange(of: &str, repeated: u64) -> Report {
        Report::Exchange(Exchange { of: of.into(), repeated, ..Exchange::default() })
    }

    #[test]
    fn a_guest_takes_the_place_of_the_same_one_and_of_no_other() {
        let of = |cpus, seconds| Run { model: "e1000".into(), cpus, seconds, ..Run::default() };
        let mut record = LabRecord::default();
        [of(2, 1.0), of(1, 2.0), of(2, 3.0)].into_iter().for_each(|run| record.put(run));
        let seconds: Vec<f64> = record.runs.iter().map(|run| run.seconds).collect();
        assert_eq!(seconds, [3.0, 2.0]);
    }

    #[test]
    fn a_run_without_a_fault_has_none_and_each_kind_is_named() {
        let mut run = Run::default();
        run.take(exchange("auto, MTU 1500", 0));
        run.take(exchange("packet, MTU 1500", 0));
        let test = Test { of: "generic, MTU 1500".into(), name: "a".into(), failure: None };
        run.take(Report::Test(test.clone()));
        run.take(Report::Test(test.clone()));
        assert_eq!(run.passed, [("generic, MTU 1500".to_owned(), 2)]);
        assert!(run.faults().is_empty());
        run.take(Report::Test(Test { failure: Some("other bytes".into()), ..test }));
        run.exchanges[0].repeated = 3;
        run.cpus = 2;
        run.take(Report::Booted(Booted {
            kernel: "6.1".into(),
            cpus: 1,
            memory: 500,
            driver: "e1000".into(),
        }));
        run.ended(MachineEnd::Broken("it hung".into(), vec!["panic".into()]));
        let faults = run.faults().join("\n");
        for word in [
            "the guest: it hung",
            "a: other bytes",
            "1 of 2 processors",
            "3 frames were lost where AF_PACKET lost 0",
        ] {
            assert!(faults.contains(word), "{faults}");
        }
    }

    #[test]
    fn a_round_trip_that_is_too_near_to_tcps_is_a_fault() {
        let figure = |transport: &str, median| Figure {
            experiment: Experiment::Rtt,
            transport: transport.into(),
            wait: Wait::Spin,
            size: 8,
            median,
            range: [median; 2],
            sent: 10,
            frames: 20,
            interrupts: 0,
            calls: 30,
        };
        let mut run =
            Run { figures: vec![figure("gigae", 10.0), figure("tcp", 15.0)], ..Run::default() };
        assert_eq!((run.ratio(Wait::Spin, 8), run.faults().len()), (Some(1.5), 0));
        run.figures[1].median = 14.0;
        assert_eq!(run.faults().len(), 1);
        assert_eq!(run.figures[0].per_message(run.figures[0].frames), Some(2.0));
    }

    /// A figure of a fetched file of 4 MB, of so many copies.
    fn file_figure(copies: usize, verified: u64) -> FileFigure {
        let figure = serde_json::json!({
            "ground": "lab", "link": "network", "unit": "MB/s", "median": 10.0, "coverage": 0.75,
            "cell": {
                "service": "ftp", "size": 4_000_000, "to": "disk", "connection": "new", "clients": 1
            },
            "repetitions": vec![400.0; copies], "whole_ms": 450.0, "transfer_ms": 400.0,
            "shares": [], "limit": null, "verified": verified, "version": "vsftpd", "command": "",
            "server": Cost { tx_frames: 9000, rx_frames: 300, interrupts: 600, ..Cost::default() },
            "client": Cost { interrupts: 900, ..Cost::default() },
        });
        serde_json::from_value(figure).unwrap()
    }

    /// Results of the lab's plan with these figures.
    fn file_results(files: Vec<FileFigure>) -> Box<Results> {
        let text = include_str!("../../../../eval/model/fixtures/results.json");
        let mut results = Results::parse(text).unwrap();
        results.plan = Plan::parse("files", crate::host::files::PLAN).unwrap();
        results.series.retain(|one| one.experiment == Experiment::Stream);
        results.series.truncate(1);
        results.series[0].median = 35.0;
        results.skipped.clear();
        Box::new(Results { files, ..results })
    }

    #[test]
    fn of_file_services_a_run_has_rows_tcps_own_stream_and_what_was_left_out() {
        let mut run = Run { steps: vec![Step::Files], ..Run::default() };
        run.take(Report::Begins("files".into()));
        run.take(Report::Begins("files: programs are read".into()));
        run.take(Report::MachineReads(7));
        let full = run.take(Report::Files(file_results(vec![file_figure(3, 3)]))).unwrap();
        assert_eq!((full.of, run.files_tcp, run.machine_reads), ("files-", Some(280.0), Some(7)));
        let [row] = &run.files[..] else { panic!("{:?}", run.files) };
        assert_eq!((row.transfer(), row.seconds), (("4 MB", Direction::Get), 0.45));
        assert_eq!((row.mbit, row.planned, row.copies, row.verified), (Some(80.0), 3, 3, 3));
        assert_eq!((row.frames, row.receive_softirqs), ([3000.0, 100.0], [200.0, 300.0]));
        assert_eq!(run.faults(), Vec::<String>::new());
        let mut results = file_results(Vec::new());
        results.skipped.push(Skipped {
            link: "network".into(),
            transport: "smb".into(),
            what: None,
            reason: "smbd ended".into(),
        });
        run.take(Report::Files(results));
        assert_eq!(run.faults(), ["measuring smb: smbd ended"]);
        let untimed = FileFigure { whole_ms: None, ..file_figure(3, 3) };
        run.take(Report::Files(file_results(vec![untimed])));
        assert!(run.files.is_empty(), "the time of the transfer is another one");
    }

    #[test]
    fn copies_that_are_missing_or_were_not_compared_are_faults() {
        let mut run = Run::default();
        run.take(Report::Files(file_results(vec![file_figure(2, 2)])));
        assert_eq!(run.faults(), ["ftp, 4 MB fetched: 2 of 3 copies"]);
        run.take(Report::Files(file_results(vec![file_figure(3, 0)])));
        assert_eq!(run.faults(), ["ftp, 4 MB fetched: no copy was compared with the file"]);
    }

    #[test]
    fn file_services_and_other_steps_take_the_place_of_their_own_results_only() {
        let others = Run { steps: vec![Step::Modes], inventory: "both".into(), ..Run::default() };
        let failed = || vec![Failed { what: "files".into(), why: "it hung".into() }];
        let row = || FileRow::of(&file_figure(3, 3), &file_results(Vec::new()).plan);
        let files = Run {
            steps: vec![Step::Files],
            files: row().into_iter().collect(),
            files_tcp: Some(280.0),
            files_troubles: failed(),
            ..Run::default()
        };
        let put = |runs: [&Run; 2]| {
            let mut record = LabRecord::default();
            runs.into_iter().for_each(|run| record.put(run.clone()));
            assert_eq!(record.runs.len(), 1);
            record.runs.remove(0)
        };
        for order in [[&others, &files], [&files, &others]] {
            let run = put(order);
            assert_eq!(
                (&run.inventory[..], run.files.len(), run.files_tcp),
                ("both", 1, Some(280.0))
            );
            assert_eq!(run.steps, [Step::Modes, Step::Files]);
            assert_eq!(run.faults(), ["files: it hung"]);
        }
        let mended = Run { files_troubles: Vec::new(), ..files.clone() };
        assert_eq!(put([&put([&others, &files]), &mended]).faults(), Vec::<String>::new());
        let newer = Run { package: "6.1.999".into(), ..files.clone() };
        assert_eq!(put([&others, &newer]), newer, "figures of another kernel are not beside these");
    }
}
