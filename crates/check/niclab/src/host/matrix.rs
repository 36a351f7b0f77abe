//! Which guests are run, several at once, and what is printed while they run.

use super::emulator::Emulator;
use super::image::Image;
use super::machine::{self, Setup};
use super::packages::{self, Kernel};
use super::record::{FullResults, LabRecord, Run};
use super::{LabError, file, files as file_services, html, markdown};
use crate::job::{Interrupts, Report, Step};
use crate::model::{Cards, MODELS, Model};
use gigae_eval_measure::environment;
use gigae_eval_model::plan::{self, Plan, PlanError};
use gigae_eval_page::files::{self, TextFile};
use std::num::NonZero;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

/// The plan of a machine with two processors or more.
const PLAN: &str = include_str!("../../plan.toml");

/// Whose conditions are varied: the papers' two cards, and the one that guests have today.
const VARIED: [&str; 3] = ["e1000", "i82557b", "virtio-net-pci"];

/// Memory in MiB with which gigae is measured: Linux and the image take 60.
const FOR_GIGAE: u32 = 160;

/// Memory in MiB of a guest that measures file services: a tmpfs has room for half of it, where the
/// files, their copies and what servers write are; the rest is for programs as they are read.
const FOR_FILES: u32 = 512;

/// What the varied ones vary: processors, memory, interrupts.
const CONDITIONS: [(u32, u32, Interrupts); 6] = [
    (2, 512, Interrupts::Other),
    (2, 512, Interrupts::First),
    (1, 512, Interrupts::Own),
    (1, 128, Interrupts::Own),
    (1, 160, Interrupts::Own),
    (1, 192, Interrupts::Own),
];

/// What to run.
#[derive(Clone, Debug, clap::Args)]
pub struct RunArgs {
    /// Cards, with commas between them; 'all' for all of them. Both ends of the link have such a
    /// card; 'e1000+igb' has an e1000 at the measuring end and an igb at the answering one
    #[arg(long, default_value = "all", value_delimiter = ',')]
    pub models: Vec<String>,
    /// Kernels, with commas between them: suites of Debian, or files of packages
    #[arg(long, default_value = "bookworm", value_delimiter = ',')]
    pub kernels: Vec<String>,
    /// Processors of a guest. With one, no ends that spin are measured
    #[arg(long, default_value_t = 2)]
    pub cpus: u32,
    /// Memory of a guest in MiB. With less than 192 AF_PACKET is not measured and no long MTU
    /// tried, with less than 160 gigae is not measured; messages over AF_PACKET at MTU 9000 take
    /// more than 256
    #[arg(long, default_value_t = 512)]
    pub memory: u32,
    /// Which processors serve the cards' interrupts
    #[arg(long, value_enum, default_value = "own")]
    pub interrupts: Interrupts,
    /// Only measure, and only e1000, i82557b and virtio-net-pci: with one processor, other
    /// interrupts, less memory
    #[arg(long)]
    pub conditions: bool,
    /// Measure this plan of the evaluator in place of the lab's own: the name of a shipped one,
    /// such as tuning, or a file. Its report is beside the lab's
    #[arg(long, value_name = "PLAN", conflicts_with = "conditions")]
    pub plan: Option<String>,
    /// Only these steps: modes, inventory, conformance, messages, events, figures. One more is done
    /// only if it is named: files, which measures this machine's file servers and clients in guests
    /// that see its files
    #[arg(long, value_delimiter = ',')]
    pub steps: Vec<String>,
    /// Messages that each end sends
    #[arg(long, default_value_t = 50_000)]
    pub messages: u32,
    /// Guests that run at once, each of which fills a processor and its memory; as many as this
    /// machine has, unless given
    #[arg(long)]
    pub at_once: Option<NonZero<usize>>,
    /// Longest processor time of a guest in seconds
    #[arg(long, default_value_t = 1800)]
    pub limit: u64,
    /// Keep the guests that DIR's niclab.json has; those that are run again take the place of the
    /// same ones there
    #[arg(long)]
    pub add: bool,
    /// Directory for niclab.json, niclab.html, niclab.md and each guest's results
    #[arg(long, default_value = "results/niclab", value_name = "DIR")]
    pub out: PathBuf,
    /// Directory for packages and images
    #[arg(long, default_value = "target/niclab", value_name = "DIR")]
    pub cache: PathBuf,
}

/// One guest to run.
#[derive(Clone, Debug)]
struct GuestRun {
    cards: Cards,
    cpus: u32,
    memory: u32,
    interrupts: Interrupts,
    steps: Vec<Step>,
    /// Whether it runs programs of this machine.
    machine: bool,
    /// Why the conformance suite is left out.
    left_out: Option<&'static str>,
}

/// A kernel with all that its guests need.
struct GuestKernel {
    kernel: Kernel,
    image: Image,
    entries: Vec<GuestRun>,
}

/// The text of the plan that is measured, and the plan.
fn plan_text(args: &RunArgs) -> Result<Option<(String, Plan)>, LabError> {
    let failed = |error: PlanError| LabError::Package(error.to_string());
    // What is wrong with it is said before guests run.
    let text = |name: &String| {
        let plan = Plan::load(name).map_err(failed)?;
        Ok((plan::text(name).map_err(failed)?, plan))
    };
    args.plan.as_ref().map(text).transpose()
}

/// The services that guests measure: of the lab's own plan, and of the one that was given.
fn services<'a>(entries: &[GuestRun], own: &'a Plan, given: Option<&'a Plan>) -> Vec<&'a str> {
    let does = |step| entries.iter().any(|entry| entry.steps.contains(&step));
    let own = does(Step::Files).then_some(own);
    let given = given.filter(|_| does(Step::Figures));
    let files = own.into_iter().chain(given).flat_map(|plan| &plan.files);
    files.map(|files| &files.service[..]).collect()
}

/// Runs everything, and writes after each guest what there is until then. Whether all was as it
/// must be.
pub fn run(args: &RunArgs, interrupted: &AtomicBool) -> Result<bool, LabError> {
    let plan = plan_text(args)?;
    let given = plan.as_ref().map(|(_, plan)| plan);
    let entries = entries(args, given.is_some_and(|plan| !plan.files.is_empty()))?;
    let own = Plan::parse("files", file_services::PLAN);
    let own = own.map_err(|error| LabError::Package(error.to_string()))?;
    let services = services(&entries, &own, given);
    gigae_eval_services::services_installed(services.into_iter())
        .map_err(|error| LabError::Package(error.to_string()))?;
    let plan = plan.map(|(text, _)| text);
    std::fs::create_dir_all(&args.cache).map_err(file("making", &args.cache))?;
    let emulator = Emulator::find(&args.cache)?;
    let record = begin(args, &emulator)?;
    let kernels = args.kernels.iter().map(|asked| equip(args, asked, &entries));
    let kernels = kernels.collect::<Result<Vec<_>, _>>()?;
    let jobs: Vec<(&GuestKernel, &GuestRun)> = kernels
        .iter()
        .flat_map(|with| with.entries.iter().map(move |entry| (with, entry)))
        .collect();
    let (next, outcome) =
        (AtomicUsize::new(0), Mutex::new(MatrixResults { record, faults: 0, error: None }));
    std::thread::scope(|scope| {
        for _ in 0..at_once(args).min(jobs.len()) {
            scope.spawn(|| {
                while let Some((i, (with, entry))) = take(&next, &jobs, &outcome) {
                    println!("[{}/{}] {}", i + 1, jobs.len(), entry.title(&with.kernel));
                    let run = guest((args, plan.as_deref()), entry, &emulator, with, interrupted);
                    lock(&outcome).add(run, &args.out);
                }
            });
        }
    });
    let MatrixResults { record, faults, error } =
        outcome.into_inner().unwrap_or_else(|poisoned| poisoned.into_inner());
    error.map_or(Ok(()), Err)?;
    println!("{}", markdown::table(&record));
    println!("{} guests, {faults} faults; {}", jobs.len(), args.out.join("niclab.html").display());
    Ok(faults == 0)
}

/// A kernel with the entries that it can serve.
fn equip(args: &RunArgs, asked: &str, entries: &[GuestRun]) -> Result<GuestKernel, LabError> {
    let kernel = packages::fetch(asked, &args.cache)?;
    println!("kernel {} ({asked}, {})", kernel.release, kernel.version);
    let possible = |entry: &&GuestRun| is_possible(args, entry, &kernel);
    let entries: Vec<GuestRun> = entries.iter().filter(possible).cloned().collect();
    let mut models: Vec<Model> = Vec::new();
    for model in entries.iter().flat_map(|entry| entry.cards.models()) {
        if !models.contains(model) {
            models.push(*model);
        }
    }
    let machine = entries.iter().any(|entry| entry.machine);
    let image = Image::make(&kernel, &models, machine, &args.cache)?;
    Ok(GuestKernel { kernel, image, entries })
}

fn at_once(args: &RunArgs) -> usize {
    let processors = || std::thread::available_parallelism().ok();
    args.at_once.or_else(processors).map_or(1, NonZero::get)
}

/// What came of all guests until now.
struct MatrixResults {
    record: LabRecord,
    faults: usize,
    /// Why there will be no more.
    error: Option<LabError>,
}

impl MatrixResults {
    fn add(&mut self, run: Result<Run, LabError>, out: &Path) {
        let added = run.and_then(|run| {
            run.faults().iter().for_each(|fault| println!("    WRONG {}: {fault}", run.model));
            run.console.iter().for_each(|line| println!("    | {line}"));
            self.faults += run.faults().len();
            self.record.put(run);
            write(out, &self.record)
        });
        if let Err(error) = added {
            self.error.get_or_insert(error);
        }
    }
}

fn lock(outcome: &Mutex<MatrixResults>) -> std::sync::MutexGuard<'_, MatrixResults> {
    outcome.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
}

/// The next one with its number, unless there will be no more.
fn take<T: Copy>(
    next: &AtomicUsize,
    jobs: &[T],
    outcome: &Mutex<MatrixResults>,
) -> Option<(usize, T)> {
    if lock(outcome).error.is_some() {
        return None;
    }
    let i = next.fetch_add(1, Ordering::Relaxed);
    jobs.get(i).map(|&job| (i, job))
}

/// An empty record, or the one that is there already.
fn begin(args: &RunArgs, emulator: &Emulator) -> Result<LabRecord, LabError> {
    let (date, gigae) = (environment::now(), env!("CARGO_PKG_VERSION").to_owned());
    let new = LabRecord { date, gigae, qemu: emulator.version.clone(), runs: Vec::new() };
    let path = args.out.join("niclab.json");
    if !args.add || !path.exists() {
        return Ok(new);
    }
    let former = LabRecord::read(&path)?;
    let differs = |what: &str, there: &str, here: &str| {
        LabError::Package(format!(
            "{} was made with {what} {there}, and this is {here}; leave --add out, or name another --out",
            path.display()
        ))
    };
    match () {
        () if former.qemu != new.qemu => Err(differs("QEMU", &former.qemu, &new.qemu)),
        () if former.gigae != new.gigae => Err(differs("gigae", &former.gigae, &new.gigae)),
        () => Ok(LabRecord { runs: former.runs, ..new }),
    }
}

/// Whether a kernel has what a card needs. Of all cards, those for which it has not are left out;
/// one that was asked for is an error, which making the image says.
fn is_possible(args: &RunArgs, entry: &GuestRun, kernel: &Kernel) -> bool {
    let mut modules = entry.cards.models().iter().flat_map(|model| model.modules);
    let missing = modules.find(|module| !kernel.modules.has(module));
    let Some(module) = missing.filter(|_| is_all(args)) else { return true };
    println!("{} is left out: {} has no module '{module}'", entry.cards.name(), kernel.release);
    false
}

fn is_all(args: &RunArgs) -> bool {
    args.models.iter().any(|name| name == "all")
}

/// Writes the reports of a record.
pub fn write(out: &Path, record: &LabRecord) -> Result<(), LabError> {
    let mut json = serde_json::to_string_pretty(record).expect("a record is plain data");
    json.push('\n');
    let (page, text) = (html::page(record), markdown::page(record));
    std::fs::create_dir_all(out).map_err(file("making", out))?;
    let all = [
        TextFile { name: "niclab.json", text: &json },
        TextFile { name: "niclab.html", text: &page },
        TextFile { name: "niclab.md", text: &text },
    ];
    write_all(out, &all)
}

fn write_all(out: &Path, all: &[TextFile<'_>]) -> Result<(), LabError> {
    files::write_all(out, all).map_err(|error| LabError::Package(error.to_string()))
}

/// The guests; `files`: their plan has file services.
fn entries(args: &RunArgs, files: bool) -> Result<Vec<GuestRun>, LabError> {
    let cards = match is_all(args) {
        true => MODELS.iter().map(|model| Cards::alike(*model)).collect(),
        false => args.models.iter().map(|name| named(name)).collect::<Result<Vec<_>, _>>()?,
    };
    let steps = steps(args)?;
    let entry = |cards: Cards| {
        // Who asks for steps gets them.
        let left_out = cards.defect().filter(|_| args.steps.is_empty());
        let wanted = |step: &&Step| left_out.is_none() || **step != Step::Conformance;
        let steps: Vec<Step> = steps.iter().filter(wanted).copied().collect();
        let (cpus, memory, interrupts) = (args.cpus, args.memory, args.interrupts);
        GuestRun { cards, cpus, memory, interrupts, steps, machine: false, left_out }
    };
    let all = if args.conditions {
        varied(cards, &entry)
    } else {
        cards.into_iter().map(entry).collect()
    };
    let needs = |entry: GuestRun| {
        let mut steps = entry.steps.iter();
        let machine = steps.any(|&step| step == Step::Files || (files && step == Step::Figures));
        if machine && entry.memory < FOR_FILES {
            let why = format!(
                "file services need {FOR_FILES} MiB in a guest; give --memory {FOR_FILES} or more"
            );
            return Err(LabError::Package(why));
        }
        Ok(GuestRun { machine, ..entry })
    };
    all.into_iter().map(needs).collect()
}

/// Some cards under all conditions.
fn varied(cards: Vec<Cards>, entry: &dyn Fn(Cards) -> GuestRun) -> Vec<GuestRun> {
    let varied = cards.into_iter().filter(|cards| VARIED.contains(&&*cards.name()));
    let conditions = |cards| {
        CONDITIONS.map(|(cpus, memory, interrupts)| {
            let steps = vec![Step::Modes, Step::Figures];
            GuestRun { cpus, memory, interrupts, steps, ..entry(cards) }
        })
    };
    varied.flat_map(conditions).collect()
}

fn named(name: &str) -> Result<Cards, LabError> {
    let names = || MODELS.iter().map(|model| model.name).collect::<Vec<_>>().join(", ");
    Cards::find(name)
        .ok_or_else(|| LabError::Package(format!("no model '{name}'; choose of: {}", names())))
}

fn steps(args: &RunArgs) -> Result<Vec<Step>, LabError> {
    let step = |name: &String| {
        let unknown = || LabError::Package(format!("no step '{name}'; see --help"));
        Step::find(name).ok_or_else(unknown)
    };
    match args.steps.is_empty() {
        true => Ok(Step::USUAL.to_vec()),
        false => args.steps.iter().map(step).collect(),
    }
}

impl GuestRun {
    fn title(&self, kernel: &Kernel) -> String {
        let Self { cards, cpus, memory, interrupts, .. } = self;
        let (name, release) = (cards.name(), &kernel.release);
        format!("{name}: {release}, {cpus} CPUs, {memory} MiB, interrupts {interrupts:?}")
    }

    /// What is measured: ends on one processor must sleep, or neither lets the other run. Where
    /// there is little memory, AF_PACKET's rings and frames, 50 MiB for both ends, have no room;
    /// where there is less, gigae's have none, 40.
    fn plan(&self) -> String {
        let waits = if self.cpus == 1 { "[\"sleep\"]" } else { "[\"spin\", \"sleep\"]" };
        let transports = match self.memory {
            0..FOR_GIGAE => "[\"tcp\"]",
            FOR_GIGAE..machine::ENOUGH => "[\"gigae\", \"tcp\"]",
            machine::ENOUGH.. => "[\"gigae\", \"packet\", \"tcp\"]",
        };
        PLAN.replace("[\"spin\", \"sleep\"]", waits)
            .replace("[\"gigae\", \"packet\", \"tcp\"]", transports)
    }
}

fn guest(
    (args, plan): (&RunArgs, Option<&str>),
    entry: &GuestRun,
    emulator: &Emulator,
    with: &GuestKernel,
    interrupted: &AtomicBool,
) -> Result<Run, LabError> {
    let GuestKernel { kernel, image, .. } = with;
    let temporary = |source| LabError::File { what: "making a temporary directory".into(), source };
    let directory = tempfile::tempdir().map_err(temporary)?;
    let setup = Setup {
        emulator,
        cards: entry.cards,
        kernel: &kernel.image,
        cpus: entry.cpus,
        memory: entry.memory,
        interrupts: entry.interrupts,
        machine: entry.machine,
        limit: Duration::from_secs(args.limit),
    };
    let modules = image.modules_of(&entry.cards);
    let own = entry.plan();
    let plans = [plan.unwrap_or(&own), file_services::PLAN];
    let job = machine::job(&setup, &entry.steps, args.messages, modules, plans);
    let initrd = image.with_job(&job, directory.path())?;
    let mut run = Run {
        date: environment::now(),
        model: entry.cards.name(),
        about: entry.cards.about(),
        suite: kernel.asked.clone(),
        package: kernel.version.clone(),
        cpus: entry.cpus,
        memory: entry.memory,
        interrupts: entry.interrupts,
        messages: args.messages,
        left_out: entry.left_out.map(str::to_owned),
        plan: args.plan.clone(),
        steps: entry.steps.clone(),
        ..Run::default()
    };
    let (begin, mut full) = (Instant::now(), Vec::new());
    let end = machine::run(&setup, &initrd, directory.path(), interrupted, &mut |report| {
        say(&run.model, begin, &report);
        full.extend(run.take(report));
    })?;
    run.ended(end);
    run.seconds = begin.elapsed().as_secs_f64();
    for FullResults { of, results } in full {
        let name = format!(
            "{}-{}-{}cpu-{}m-{:?}",
            entry.cards.name(),
            kernel.release,
            entry.cpus,
            entry.memory,
            entry.interrupts
        );
        let out = args.out.join(name.to_lowercase());
        std::fs::create_dir_all(&out).map_err(file("making", &out))?;
        let (json, page) = (results.to_json(), gigae_eval_report::html::page(&results));
        let all = [
            TextFile { name: &format!("{of}results.json"), text: &json },
            TextFile { name: &format!("{of}report.html"), text: &page },
        ];
        write_all(&out, &all)?;
    }
    Ok(run)
}

/// One line for the terminal.
fn say(model: &str, begin: Instant, report: &Report) {
    let line = match report {
        Report::Begins(what) => what.clone(),
        Report::Booted(booted) => format!("booted {}, driver {}", booted.kernel, booted.driver),
        Report::Exchange(exchange) => {
            let verdict = exchange.failure.as_deref().unwrap_or("all well");
            format!(
                "{}: {} messages, {} repeated: {verdict}",
                exchange.of, exchange.messages, exchange.repeated
            )
        }
        Report::Test(test) => match &test.failure {
            Some(why) => format!("FAILED {}: {}: {why}", test.of, test.name),
            None => return,
        },
        Report::Failed(failed) => format!("FAILED {}: {}", failed.what, failed.why),
        _ => return,
    };
    println!("    {:5.1} s  {model}: {line}", begin.elapsed().as_secs_f64());
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Parser)]
    struct RunLine {
        #[command(flatten)]
        run: RunArgs,
    }

    fn args(words: &[&str]) -> RunArgs {
        RunLine::parse_from([&["run"], words].concat()).run
    }

    #[test]
    fn every_card_is_one_guest_of_two_processors_that_does_all_steps() {
        let entries = entries(&args(&[]), false).unwrap();
        assert_eq!(entries.len(), MODELS.len());
        let all = |entry: &GuestRun| entry.cpus == 2 && entry.steps == Step::USUAL;
        let (known, good): (Vec<_>, Vec<_>) =
            entries.iter().partition(|entry| entry.cards.defect().is_some());
        assert!(good.into_iter().all(all));
        assert!(known.iter().all(|entry| entry.steps.len() == Step::USUAL.len() - 1));
        assert!(known.iter().all(|entry| entry.left_out.is_some()));
        assert!(entries[0].plan().contains("\"spin\""));
    }

    #[test]
    fn conditions_are_those_of_three_cards_and_one_processor_does_not_spin() {
        let entries = entries(&args(&["--conditions"]), false).unwrap();
        assert_eq!(entries.len(), VARIED.len() * CONDITIONS.len());
        let of = |cpus| entries.iter().filter(move |entry| entry.cpus == cpus);
        assert!(of(1).all(|entry| !entry.plan().contains("\"spin\"")));
        assert!(of(1).any(|entry| entry.memory == 512) && of(2).count() > 0);
        let packet = |entry: &GuestRun| entry.plan().contains("\"packet\"");
        assert!(entries.iter().all(|entry| packet(entry) == (entry.memory >= machine::ENOUGH)));
        let gigae = |entry: &GuestRun| entry.plan().contains("\"gigae\"");
        assert!(entries.iter().all(|entry| gigae(entry) == (entry.memory >= FOR_GIGAE)));
        assert!(super::entries(&args(&["--models", "ne2000"]), false).is_err());
        assert!(super::entries(&args(&["--models", "e1000+ne2000"]), false).is_err());
    }

    #[test]
    fn a_step_that_is_asked_for_is_done_also_where_the_card_is_known_to_fail_it() {
        let asked = args(&["--models", "i82559c", "--steps", "conformance"]);
        assert!(matches!(&entries(&asked, false).unwrap()[..], [entry]
            if entry.steps == [Step::Conformance] && entry.left_out.is_none()));
    }

    #[test]
    fn a_guest_sees_the_files_of_the_machine_only_for_file_services() {
        let sees = |words: &[&str], files| {
            let all = entries(&args(&[&["--models", "e1000"], words].concat()), files).unwrap();
            all.iter().any(|entry| entry.machine)
        };
        assert!(sees(&["--steps", "files"], false));
        assert!(sees(&["--steps", "modes,figures"], true) && sees(&[], true));
        assert!(!sees(&[], false) && !sees(&["--steps", "modes"], true));
        // Conditions replace the steps.
        assert!(!sees(&["--conditions", "--steps", "files"], false));
        let error = entries(&args(&["--steps", "files", "--memory", "256"]), false).unwrap_err();
        assert!(error.to_string().contains("give --memory 512"), "{error}");
        assert!(entries(&args(&["--memory", "256"]), false).is_ok());
    }

    #[test]
    fn only_the_services_that_guests_measure_need_programs() {
        let (ftp, nfs) = (Plan::load("ftp").unwrap(), Plan::load("nfs").unwrap());
        assert!(!nfs.access.is_empty());
        let given = Plan { access: nfs.access, ..ftp };
        let own = Plan::parse("files", file_services::PLAN).unwrap();
        let of = |words: &[&str]| {
            let mut all = services(&entries(&args(words), true).unwrap(), &own, Some(&given));
            all.dedup();
            all.join(" ")
        };
        assert_eq!(of(&["--steps", "modes"]), "", "nothing is measured");
        assert_eq!(of(&["--steps", "figures"]), "ftp", "nothing reads within files in a guest");
        assert!(of(&["--steps", "files"]).contains("smb"));
    }

    #[test]
    fn guests_are_added_to_a_record_of_the_same_qemu_only() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().to_str().unwrap();
        let (new, added) = (args(&["--out", path]), args(&["--add", "--out", path]));
        let of = |version: &str| Emulator {
            version: version.into(),
            program: "qemu".into(),
            firmware: Vec::new(),
        };
        assert_eq!(begin(&added, &of("10.0.2")).unwrap().runs, []);
        let mut record = begin(&new, &of("10.0.2")).unwrap();
        record.put(Run::default());
        write(directory.path(), &record).unwrap();
        assert_eq!(begin(&new, &of("10.0.2")).unwrap().runs, []);
        assert_eq!(begin(&added, &of("10.0.2")).unwrap().runs.len(), 1);
        let error = begin(&added, &of("10.0.3")).unwrap_err().to_string();
        assert!(error.contains("made with QEMU 10.0.2"), "{error}");
    }
}
