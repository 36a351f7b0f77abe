//! `gigae simulate`: arguments, progress, and what is said to a person. The work is done by
//! `gigae-eval-simulate`.

use crate::outcome::{CommandError, EXIT_CODES, finish, say};
use crate::terminal::{Bar, emphasised};
use clap::Args;
use gigae_eval_model::plan::shell_word;
use gigae_eval_page::files::{self, TextFile};
use gigae_eval_run::RunProgress;
use gigae_eval_simulate::{
    Config, Finished, Plan, PortName, Recording, Results, SHIPPED, report, run, text,
};
use gigae_network::Time;
use std::fmt::Write as _;
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::atomic::AtomicBool;

/// Simulate a network of many hosts.
///
/// A plan says which hosts, switches and links there are, what the hosts send, and with which
/// protocols. Everything happens in virtual time on this machine, and needs no privileges. The same
/// command gives the same figures.
#[derive(Args, Clone, Debug)]
#[command(after_help = EXIT_CODES)]
pub struct SimulateArgs {
    /// Name of a shipped plan, or a TOML file
    #[arg(default_value = "incast", value_name = "NAME|FILE")]
    pub plan: String,
    /// List the shipped plans, then exit
    #[arg(long)]
    pub list: bool,
    /// Print the plan's text, as a start for your own, then exit
    #[arg(long, conflicts_with = "list")]
    pub print: bool,
    /// Simulate only these protocols of the plan, by their names
    #[arg(long, value_name = "NAME,...", value_delimiter = ',')]
    pub protocols: Vec<String>,
    /// Runs of each workload with each protocol, where something is random [default: the plan's]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=10_000))]
    pub seeds: Option<u64>,
    /// First seed [default: the plan's]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(0..=0xFFFF_FFFF))]
    pub seed: Option<u64>,
    /// Runs at once [default: one for each core]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1_024))]
    pub threads: Option<u32>,
    /// Directory for simulation.json, simulation.html and simulation.md, and for what --trace and
    /// --queues write. Files that are there with these names are replaced
    #[arg(long, value_name = "DIR")]
    pub out: Option<PathBuf>,
    /// Write all figures as JSON to this file, which is replaced; '-' prints them instead of tables
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,
    /// Write the frames that these ports send to capture files (pcapng), of the first run of each
    /// workload with each protocol. Ports: host-0 (its NIC), to-host-0, leaf-0-spine-0,
    /// spine-0-leaf-0
    #[arg(long, value_name = "PORT,...", value_delimiter = ',', requires = "out")]
    pub trace: Vec<PortName>,
    /// Write the lengths of these ports' queues to CSV files, of the same runs
    #[arg(long, value_name = "PORT,...", value_delimiter = ',', requires = "out")]
    pub queues: Vec<PortName>,
    /// Microseconds of virtual time between two looks at these queues
    #[arg(long, value_name = "N", default_value_t = 10, value_parser = clap::value_parser!(u64).range(1..=1_000_000), requires = "queues")]
    pub every_us: u64,
}

/// Runs `gigae simulate`. `interrupted` is set by the caller's signal handler.
pub fn simulate(args: &SimulateArgs, interrupted: &AtomicBool) -> ExitCode {
    finish(try_simulate(args, interrupted))
}

fn try_simulate(args: &SimulateArgs, interrupted: &AtomicBool) -> Result<(), CommandError> {
    if args.list {
        return say(&list()?);
    }
    if args.print {
        return say(&text(&args.plan)?);
    }
    let config = config(args)?;
    let json = args.json.as_deref().filter(|file| *file != Path::new("-"));
    let json = json.map(|file| JsonFile::new(file, args.out.as_deref())).transpose()?;
    let mut existed = true;
    if let Some(out) = &args.out {
        files::prepare(out)?;
        existed = out.exists();
    }
    let mut bar = Bar::new();
    let outcome = run(&config, interrupted, &mut |done, total, next| bar.step(done, total, next));
    bar.clear();
    if let Some(out) = args.out.as_ref().filter(|_| !existed && !is_finished(&outcome)) {
        // Only ours if empty: nothing is left behind by a run that fails.
        let _ = std::fs::remove_dir(out);
    }
    let Finished { results, files: mut written, missing } = outcome?;
    let prints_json = args.json.as_deref() == Some(Path::new("-"));
    if results.interrupted {
        if !prints_json {
            say(&report::text(&results, emphasised()))?;
        }
        let (done, wanted) = results.finished();
        return Err(CommandError::Interrupted(format!(
            "interrupted: {done} of {wanted} runs are finished, and no file was written"
        )));
    }
    // A person sees the figures also if files cannot be written, and the other way round.
    let said = match prints_json {
        true => say(&results.to_json()),
        false => say(&report::text(&results, emphasised())),
    };
    if let Some(out) = &args.out {
        written.extend(write(out, &results)?);
    }
    if let Some(json) = json {
        json.write(&results.to_json())?;
        written.push(json.named);
    }
    said?;
    let mut text = String::new();
    for file in written.iter().filter(|_| !prints_json) {
        let _ = writeln!(text, "{}", file.display());
    }
    if !text.is_empty() {
        say(&text)?;
    }
    // Everything else is there.
    missing.map_or(Ok(()), |error| Err(error.into()))
}

/// The file of `--json`.
struct JsonFile {
    /// As it was named.
    named: PathBuf,
    /// What is written, and the file that it then replaces. The same for a pipe or a device.
    draft: PathBuf,
    place: PathBuf,
}

impl JsonFile {
    /// Says now rather than after the run whether it can be written. In the directory of `--out`,
    /// that is found out there.
    fn new(named: &Path, out: Option<&Path>) -> Result<Self, CommandError> {
        let place = named.canonicalize().unwrap_or_else(|_| named.to_owned());
        let is_replaced = !place.exists() || place.is_file();
        let draft = match place.file_name().filter(|_| is_replaced) {
            Some(name) => {
                let name = format!(".{}.{}", name.to_string_lossy(), std::process::id());
                place.with_file_name(name)
            }
            None => place.clone(),
        };
        let file = Self { named: named.to_owned(), draft, place };
        if out.is_some_and(|out| named.parent() == Some(out) && !out.exists()) {
            return Ok(file);
        }
        let probed = File::options().write(true).create(is_replaced).open(&file.draft);
        probed.map_err(|error| file.error(&error))?;
        if is_replaced {
            let _ = std::fs::remove_file(&file.draft);
        }
        Ok(file)
    }

    fn write(&self, text: &str) -> Result<(), CommandError> {
        let mut written = std::fs::write(&self.draft, text);
        if self.draft != self.place {
            written = written.and_then(|()| std::fs::rename(&self.draft, &self.place));
            if written.is_err() {
                let _ = std::fs::remove_file(&self.draft);
            }
        }
        written.map_err(|error| self.error(&error))
    }

    fn error(&self, error: &io::Error) -> CommandError {
        CommandError::Error(format!(
            "cannot write '{}': {error}; choose a writable file with --json",
            self.named.display()
        ))
    }
}

fn is_finished<E>(outcome: &Result<Finished, E>) -> bool {
    outcome.as_ref().is_ok_and(|finished| !finished.results.interrupted)
}

/// What is to be simulated.
fn config(args: &SimulateArgs) -> Result<Config, CommandError> {
    let mut plan = Plan::load(&args.plan)?;
    let mut command = format!("gigae simulate {}", shell_word(&args.plan));
    if !args.protocols.is_empty() {
        plan.keep_protocols(&args.protocols)?;
        let names = args.protocols.join(",");
        let _ = write!(command, " --protocols {}", shell_word(&names));
    }
    if let Some(seeds) = args.seeds {
        plan.seeds = seeds;
        let _ = write!(command, " --seeds {seeds}");
    }
    if let Some(seed) = args.seed {
        plan.seed = seed;
        let _ = write!(command, " --seed {seed}");
    }
    let cores = || std::thread::available_parallelism().map_or(1, usize::from);
    let threads = args.threads.map_or_else(cores, |threads| threads as usize);
    let recording = args.out.as_ref().map(|directory| Recording {
        directory: directory.clone(),
        trace: args.trace.clone(),
        queues: args.queues.clone(),
        every: Time::us(args.every_us),
    });
    Ok(Config { plan, command, threads, recording })
}

/// Writes results and reports; gives the files' names.
fn write(directory: &Path, results: &Results) -> Result<Vec<PathBuf>, CommandError> {
    let json = results.to_json();
    let (page, text) = (report::html(results), report::markdown(results));
    let files = [
        TextFile { name: "simulation.json", text: &json },
        TextFile { name: "simulation.html", text: &page },
        TextFile { name: "simulation.md", text: &text },
    ];
    files::write_all(directory, &files)?;
    Ok(files.iter().map(|file| directory.join(file.name)).collect())
}

fn list() -> Result<String, CommandError> {
    let mut text = String::new();
    for (name, _) in SHIPPED {
        let plan = Plan::load(name)?;
        let _ = writeln!(text, "{name:14}  {}", plan.about);
        if !plan.takes.is_empty() {
            let _ = writeln!(text, "{:14}  takes {} on two cores", "", plan.takes);
        }
    }
    text.push_str(
        "\nCarry one out with: gigae simulate NAME\nPrint one with: gigae simulate NAME --print\n",
    );
    Ok(text)
}
