//! Which guests are run, one after the other, and what is said meanwhile.

use super::image::Image;
use super::machine::{self, Setup};
use super::packages::{self, Kernel};
use super::record::{Record, Run};
use super::{LabError, file, html, markdown};
use crate::job::{Interrupts, Step, Told};
use crate::model::{self, MODELS, Model};
use gigae_eval::{environment, files, report};
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

/// The plan of a machine with two processors or more.
const PLAN: &str = include_str!("../../plan.toml");

/// Whose conditions are varied: the papers' two cards, and the one that guests have today.
const VARIED: [&str; 3] = ["e1000", "i82557b", "virtio-net-pci"];

/// What the varied ones vary.
const CONDITIONS: [(u32, u32, Interrupts); 5] = [
    (2, 512, Interrupts::Other),
    (2, 512, Interrupts::First),
    (1, 128, Interrupts::Own),
    (1, 160, Interrupts::Own),
    (1, 192, Interrupts::Own),
];

/// What to run.
#[derive(Clone, Debug, clap::Args)]
pub struct RunArgs {
    /// Cards, with commas between them; 'all' for all that this QEMU has
    #[arg(long, default_value = "all", value_delimiter = ',')]
    pub models: Vec<String>,
    /// Kernels, with commas between them: suites of Debian, or files of packages
    #[arg(long, default_value = "bookworm", value_delimiter = ',')]
    pub kernels: Vec<String>,
    /// Processors of a guest. With one, its clock counts instructions, and what it does repeats; a second guest with
    /// two then measures what spinning ends need
    #[arg(long, default_value_t = 1)]
    pub cpus: u32,
    /// No second guest
    #[arg(long)]
    pub one: bool,
    /// Memory of a guest in MiB; AF_PACKET at MTU 9000 needs more than 256 for both ends
    #[arg(long, default_value_t = 512)]
    pub memory: u32,
    /// Which processors serve the cards' interrupts
    #[arg(long, value_enum, default_value = "own")]
    pub interrupts: Interrupts,
    /// Measure some cards also with one processor, other interrupts and less memory
    #[arg(long)]
    pub conditions: bool,
    /// Only these steps: modes, inventory, conformance, messages, events, figures
    #[arg(long, value_delimiter = ',')]
    pub steps: Vec<String>,
    /// Messages that each end sends
    #[arg(long, default_value_t = 50_000)]
    pub messages: u32,
    /// Longest time of a guest in seconds
    #[arg(long, default_value_t = 900)]
    pub limit: u64,
    /// Directory for niclab.json, niclab.html, niclab.md and each guest's results
    #[arg(long, default_value = "results/niclab", value_name = "DIR")]
    pub out: PathBuf,
    /// Directory for packages and images
    #[arg(long, default_value = "target/niclab", value_name = "DIR")]
    pub cache: PathBuf,
}

/// One guest to run.
#[derive(Clone, Debug)]
struct Entry {
    model: Model,
    cpus: u32,
    memory: u32,
    interrupts: Interrupts,
    steps: Vec<Step>,
}

/// Runs everything, and writes after each guest what there is until then. Whether all was as it must be.
pub fn run(args: &RunArgs, interrupted: &AtomicBool) -> Result<bool, LabError> {
    let qemu = machine::version()?;
    let entries = entries(args, &qemu)?;
    std::fs::create_dir_all(&args.cache).map_err(file("making", &args.cache))?;
    let mut record = Record {
        date: environment::now(),
        gigae: env!("CARGO_PKG_VERSION").into(),
        qemu,
        runs: Vec::new(),
    };
    for asked in &args.kernels {
        let kernel = packages::fetch(asked, &args.cache)?;
        println!("kernel {} ({asked}, {})", kernel.release, kernel.version);
        let mut models: Vec<Model> = entries.iter().map(|entry| entry.model).collect();
        models.dedup();
        let image = Image::make(&kernel, &models, &args.cache)?;
        for (i, entry) in entries.iter().enumerate() {
            println!("[{}/{}] {}", i + 1, entries.len(), entry.title());
            let run = guest(args, entry, (&kernel, &image), interrupted)?;
            run.faults().iter().for_each(|fault| println!("    WRONG {fault}"));
            run.console.iter().for_each(|line| println!("    | {line}"));
            record.runs.push(run);
            write(&args.out, &record)?;
        }
    }
    let faults: usize = record.runs.iter().map(|run| run.faults().len()).sum();
    println!("{}", markdown::table(&record));
    println!(
        "{} guests, {faults} faults; {}",
        record.runs.len(),
        args.out.join("niclab.html").display()
    );
    Ok(faults == 0)
}

/// Writes the reports of a record.
pub fn write(out: &Path, record: &Record) -> Result<(), LabError> {
    let mut json = serde_json::to_string_pretty(record).expect("a record is plain data");
    json.push('\n');
    let (page, text) = (html::page(record), markdown::page(record));
    std::fs::create_dir_all(out).map_err(file("making", out))?;
    let all = [("niclab.json", &json[..]), ("niclab.html", &page), ("niclab.md", &text)];
    write_all(out, &all)
}

fn write_all(out: &Path, all: &[(&str, &str)]) -> Result<(), LabError> {
    files::write_all(out, all).map_err(|error| LabError::Package(error.to_string()))
}

fn entries(args: &RunArgs, qemu: &str) -> Result<Vec<Entry>, LabError> {
    let major: u32 = qemu.split('.').next().and_then(|word| word.parse().ok()).unwrap_or(0);
    let models = match args.models.iter().any(|name| name == "all") {
        true => MODELS.iter().copied().filter(|model| model.qemu <= major).collect(),
        false => args.models.iter().map(|name| named(name)).collect::<Result<Vec<_>, _>>()?,
    };
    let steps = steps(args)?;
    let entry = |model: Model| Entry {
        model,
        cpus: args.cpus,
        memory: args.memory,
        interrupts: args.interrupts,
        steps: steps.clone(),
    };
    let mut entries: Vec<Entry> = models.iter().map(|&model| entry(model)).collect();
    // Whether both ends can spin: two processors are needed, and the host's clock.
    if args.cpus == 1 && steps.contains(&Step::Figures) && !args.one {
        for &model in &models {
            let steps = vec![Step::Modes, Step::Figures];
            entries.push(Entry { cpus: 2, steps, ..entry(model) });
        }
    }
    for &model in models.iter().filter(|model| args.conditions && VARIED.contains(&model.name)) {
        for (cpus, memory, interrupts) in CONDITIONS {
            let steps = vec![Step::Modes, Step::Figures];
            entries.push(Entry { cpus, memory, interrupts, steps, ..entry(model) });
        }
    }
    Ok(entries)
}

fn named(name: &str) -> Result<Model, LabError> {
    let names = || MODELS.iter().map(|model| model.name).collect::<Vec<_>>().join(", ");
    model::find(name)
        .ok_or_else(|| LabError::Package(format!("no model '{name}'; choose of: {}", names())))
}

fn steps(args: &RunArgs) -> Result<Vec<Step>, LabError> {
    let step = |name: &String| {
        let unknown = || LabError::Package(format!("no step '{name}'; see --help"));
        Step::ALL.into_iter().find(|step| step.name() == name).ok_or_else(unknown)
    };
    match args.steps.is_empty() {
        true => Ok(Step::ALL.to_vec()),
        false => args.steps.iter().map(step).collect(),
    }
}

impl Entry {
    fn title(&self) -> String {
        let Self { model, cpus, memory, interrupts, .. } = self;
        format!("{}: {cpus} CPUs, {memory} MiB, interrupts {interrupts:?}", model.name)
    }

    /// What is measured: ends on one processor must sleep, or neither lets the other run.
    fn plan(&self) -> String {
        match self.cpus {
            1 => PLAN.replace("[\"spin\", \"sleep\"]", "[\"sleep\"]"),
            _ => PLAN.to_owned(),
        }
    }
}

fn guest(
    args: &RunArgs,
    entry: &Entry,
    (kernel, image): (&Kernel, &Image),
    interrupted: &AtomicBool,
) -> Result<Run, LabError> {
    let temporary = |source| LabError::File { what: "making a temporary directory".into(), source };
    let directory = tempfile::tempdir().map_err(temporary)?;
    let setup = Setup {
        model: entry.model,
        kernel: &kernel.image,
        cpus: entry.cpus,
        memory: entry.memory,
        interrupts: entry.interrupts,
        limit: Duration::from_secs(args.limit),
    };
    let modules = image.modules_of(&entry.model);
    let job = machine::job(&setup, &entry.steps, args.messages, modules, &entry.plan());
    let initrd = image.with_job(&job, directory.path())?;
    let mut run = Run {
        model: entry.model.name.into(),
        about: entry.model.about.into(),
        suite: kernel.asked.clone(),
        package: kernel.version.clone(),
        cpus: entry.cpus,
        memory: entry.memory,
        interrupts: entry.interrupts,
        messages: args.messages,
        ..Run::default()
    };
    let (begin, mut full) = (Instant::now(), None);
    let end = machine::run(&setup, &initrd, directory.path(), interrupted, &mut |told| {
        say(begin, &told);
        full = run.hear(told).or(full.take());
    })?;
    run.ended(end);
    run.seconds = begin.elapsed().as_secs_f64();
    if let Some(results) = full {
        let name = format!(
            "{}-{}-{}cpu-{}m-{:?}",
            entry.model.name, kernel.release, entry.cpus, entry.memory, entry.interrupts
        );
        let out = args.out.join(name.to_lowercase());
        std::fs::create_dir_all(&out).map_err(file("making", &out))?;
        let (json, page) = (results.to_json(), report::html::page(&results));
        write_all(&out, &[("results.json", &json), ("report.html", &page)])?;
    }
    Ok(run)
}

/// One line for whoever watches.
fn say(begin: Instant, told: &Told) {
    let line = match told {
        Told::Begins(what) => what.clone(),
        Told::Booted(booted) => format!("booted {}, driver {}", booted.kernel, booted.driver),
        Told::Exchange(exchange) => {
            let verdict = exchange.failure.as_deref().unwrap_or("all well");
            format!(
                "{}: {} messages, {} repeated: {verdict}",
                exchange.of, exchange.messages, exchange.repeated
            )
        }
        Told::Test(test) => match &test.failure {
            Some(why) => format!("FAILED {}: {}: {why}", test.of, test.name),
            None => return,
        },
        Told::Failed(failed) => format!("FAILED {}: {}", failed.what, failed.why),
        _ => return,
    };
    println!("    {:5.1} s  {line}", begin.elapsed().as_secs_f64());
}
