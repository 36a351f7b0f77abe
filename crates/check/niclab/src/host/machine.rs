//! One guest: started, listened to, and ended on every way out.

use super::emulator::Emulator;
use super::{LabError, file};
use crate::job::{Interrupts, Job, MACHINE, Report};
use crate::model::Cards;
use gigae_host::proc::process::Stat;
use std::fs::{self, File};
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Between two looks at a guest's reports.
const LOOK: Duration = Duration::from_millis(50);

/// A guest that says nothing for so long hangs; by the processor time that it was given, since a
/// busy host gives it little. Longer than an exchange of messages takes until it says that it is
/// stuck.
const SILENCE: Duration = Duration::from_secs(300);

/// How much longer than that it may take by the host's clock.
const BUSY: u32 = 8;

/// What a guest that is done may take to switch itself off.
const LAST_MOMENTS: Duration = Duration::from_secs(3);

/// Lines of the console that are shown of a guest that hangs.
const SHOWN: usize = 25;

/// What a machine is made of.
#[derive(Clone, Debug)]
pub struct Setup<'a> {
    /// What runs it.
    pub emulator: &'a Emulator,
    /// The card.
    pub cards: Cards,
    /// The kernel's file.
    pub kernel: &'a Path,
    /// Processors.
    pub cpus: u32,
    /// Memory in MiB.
    pub memory: u32,
    /// Who serves the interrupts.
    pub interrupts: Interrupts,
    /// Whether it sees the files of this machine, read-only.
    pub machine: bool,
    /// Longest processor time that it may take; by the host's clock, several times that.
    pub limit: Duration,
}

/// How a guest ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MachineEnd {
    /// It said that all is done.
    Done,
    /// It hung, or ended before it was done: why, and the last lines of its console.
    Broken(String, Vec<String>),
}

/// QEMU's process. Ends with this value, and with this process.
struct Guest(Child);

impl Drop for Guest {
    fn drop(&mut self) {
        // Already gone is as good.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Boots a guest with this initial file system, hands its reports to `take_report`, and ends it.
pub fn run(
    setup: &Setup<'_>,
    initrd: &Path,
    directory: &Path,
    interrupted: &AtomicBool,
    take_report: &mut dyn FnMut(Report),
) -> Result<MachineEnd, LabError> {
    let (console, report) = (directory.join("console"), directory.join("reports"));
    for path in [&console, &report] {
        File::create(path).map_err(file("making", path))?;
    }
    let mut command = command(setup, initrd, [&console, &report]);
    let stderr = directory.join("qemu");
    let said = File::create(&stderr).map_err(file("making", &stderr))?;
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(said);
    let child = command.spawn().map_err(|error| LabError::Program {
        program: "setpriv".into(),
        said: error.to_string(),
    })?;
    let mut guest = Guest(child);
    let mut reader = ReportReader::open(&report)?;
    let begin = Instant::now();
    let mut last_report = Duration::ZERO;
    loop {
        if interrupted.load(Ordering::Relaxed) {
            return Err(LabError::Interrupted);
        }
        let ended = guest.0.try_wait().ok().flatten().is_some();
        let (lines, done) = reader.read(take_report).map_err(file("reading", &report))?;
        if done {
            let deadline = Instant::now() + LAST_MOMENTS;
            while Instant::now() < deadline && guest.0.try_wait().ok().flatten().is_none() {
                std::thread::sleep(LOOK);
            }
            return Ok(MachineEnd::Done);
        }
        let worked = guest.worked();
        if lines > 0 {
            last_report = worked;
        }
        let (limit, silent) = (setup.limit, worked.saturating_sub(last_report));
        let why = match () {
            () if ended => "it ended before it was done".to_owned(),
            () if worked > limit || begin.elapsed() > limit * BUSY => {
                format!("it took more than {} s; give it more with --limit", limit.as_secs())
            }
            () if silent > SILENCE => format!("it said nothing for {} s", SILENCE.as_secs()),
            () => {
                std::thread::sleep(LOOK);
                continue;
            }
        };
        drop(guest);
        return Ok(MachineEnd::Broken(why, last_lines(&[&stderr, &console])));
    }
}

impl Guest {
    /// Processor time that it was given ; none once it has ended.
    fn worked(&self) -> Duration {
        Stat::of(self.0.id()).map_or(Duration::ZERO, |stat| stat.cpu_time)
    }
}

/// Reads a guest's reports, line by line.
struct ReportReader {
    file: File,
    rest: Vec<u8>,
}

impl ReportReader {
    fn open(path: &Path) -> Result<Self, LabError> {
        Ok(Self { file: File::open(path).map_err(file("opening", path))?, rest: Vec::new() })
    }

    /// How many lines there were, and whether the last thing was said.
    fn read(&mut self, take_report: &mut dyn FnMut(Report)) -> std::io::Result<(usize, bool)> {
        self.file.read_to_end(&mut self.rest)?;
        let mut lines = 0;
        while let Some(at) = self.rest.iter().position(|&byte| byte == b'\n') {
            let line: Vec<u8> = self.rest.drain(..=at).collect();
            lines += 1;
            match serde_json::from_slice(&line) {
                Ok(Report::Done) => return Ok((lines, true)),
                Ok(report) => take_report(report),
                // A kernel may write to any port while it dies; the console shows it.
                Err(_) => {}
            }
        }
        Ok((lines, false))
    }
}

fn last_lines(files: &[&Path]) -> Vec<String> {
    let mut lines = Vec::new();
    for path in files {
        let text = fs::read(path).unwrap_or_default();
        let text = String::from_utf8_lossy(&text).into_owned();
        lines.extend(
            text.lines().map(|line| line.trim_end().to_owned()).filter(|line| !line.is_empty()),
        );
    }
    lines.split_off(lines.len().saturating_sub(SHOWN))
}

/// Memory in MiB of a guest that opens every link: over AF_PACKET one for MTU 9000 takes 64.
pub const ENOUGH: u32 = 192;

/// What every card has.
const USUAL_MTU: u32 = 1500;

/// Time per instruction, as a power of two in nanoseconds: 8, as in the papers' PCs. With less, all
/// that a driver spends in waiting for its card, reading its EEPROM bit by bit say, takes the host
/// as many more turns.
const SHIFT: u32 = 3;

/// Emulation in one thread, whose clock counts the instructions of all processors and passes over
/// the time in which all sleep: what a guest measures depends on nothing of the host. A processor
/// that spins (`pause`) leaves the rest of its share to the next.
fn command(setup: &Setup<'_>, initrd: &Path, serials: [&PathBuf; 2]) -> Command {
    let mut command = setup.emulator.command();
    command.args(["-nodefaults", "-no-user-config", "-no-reboot", "-display", "none"]);
    command.args(["-machine", "pc,hpet=off", "-accel", "tcg,thread=single"]);
    command.args([
        "-icount",
        &format!("shift={SHIFT},sleep=off"),
        "-rtc",
        "base=2026-01-01,clock=vm",
    ]);
    // What the emulation has of processor features, without a fifth level of page tables and
    // without string instructions that are quick: where instructions are counted, filling or
    // copying by one of them counts, and takes, one for each byte or word.
    let cpu = "max,la57=off,erms=off,fsrm=off,fzrm=off,fsrs=off,fsrc=off";
    command.args(["-cpu", cpu, "-smp", &setup.cpus.to_string()]);
    command.args(["-m", &setup.memory.to_string()]);
    command.arg("-kernel").arg(setup.kernel).arg("-initrd").arg(initrd);
    command.args([
        "-append",
        // The kernel takes string instructions for quick (REP_GOOD, 112) on many processors all the
        // same. The rest is for a quick start.
        "console=ttyS0 quiet loglevel=4 panic=-1 tsc=reliable edd=off no_timer_check \
         cryptomgr.notests audit=0 apparmor=0 nokaslr mitigations=off clearcpuid=112 rdinit=/init",
    ]);
    for serial in serials {
        command.arg("-serial").arg(format!("file:{}", serial.display()));
    }
    // A slot apart: an igb's virtual functions take some of those sixteen beyond its own.
    for (end, model) in setup.cards.0.iter().enumerate() {
        command.args(["-netdev", &format!("hubport,id=n{end},hubid=0")]);
        let device = model.device;
        command.args([
            "-device",
            &format!(
                "{device},netdev=n{end},mac=02:00:00:00:00:0{},addr={},romfile=",
                end + 1,
                2 * end + 4
            ),
        ]);
    }
    if setup.machine {
        command.args(["-fsdev", SEEN, "-device", &format!("{SEEN_BY},mount_tag={MACHINE}")]);
    }
    command
}

/// All files of this machine as QEMU's user can read them. QEMU refuses every change.
const SEEN: &str = "local,id=machine,path=/,security_model=none,readonly=on,multidevs=remap";

/// The device by which a guest reads them, behind the cards' slots.
const SEEN_BY: &str = "virtio-9p-pci,fsdev=machine,ioeventfd=off,addr=8";

/// What a guest is asked to do on this machine.
pub fn job(
    setup: &Setup<'_>,
    steps: &[crate::job::Step],
    messages: u32,
    modules: Vec<String>,
    [plan, files]: [&str; 2],
) -> Job {
    Job {
        modules,
        steps: steps.to_vec(),
        messages,
        mtu: if setup.memory < ENOUGH { USUAL_MTU } else { setup.cards.mtu() },
        held: setup.cards.held(),
        interrupts: setup.interrupts,
        plan: plan.to_owned(),
        files: files.to_owned(),
        machine: setup.machine,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    #[test]
    fn reports_are_read_line_by_line_and_noise_is_ignored() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("reports");
        let mut port = File::create(&path).unwrap();
        let mut reader = ReportReader::open(&path).unwrap();
        let mut reports = Vec::new();
        port.write_all(b"{\"begins\":\"a\"}\nKernel pan").unwrap();
        assert_eq!(reader.read(&mut |report| reports.push(report)).unwrap(), (1, false));
        port.write_all(b"ic\n\"done\"\n").unwrap();
        assert_eq!(reader.read(&mut |report| reports.push(report)).unwrap(), (2, true));
        assert!(matches!(&reports[..], [Report::Begins(what)] if what == "a"));
    }

    #[test]
    fn a_guest_sees_the_files_of_the_machine_only_if_asked_and_read_only() {
        let emulator =
            Emulator { version: "10.0.2".into(), program: "qemu".into(), firmware: Vec::new() };
        let line = |machine| {
            let setup = Setup {
                emulator: &emulator,
                cards: Cards::find("e1000").unwrap(),
                kernel: Path::new("kernel"),
                cpus: 2,
                memory: ENOUGH,
                interrupts: Interrupts::Own,
                machine,
                limit: SILENCE,
            };
            let serials = [&PathBuf::from("console"), &PathBuf::from("reports")];
            let command = command(&setup, Path::new("initrd"), serials);
            let words: Vec<_> = command.get_args().map(|word| word.to_string_lossy()).collect();
            words.join(" ")
        };
        let (seen, unseen) = (line(true), line(false));
        assert!(seen.contains("path=/,") && seen.contains(",readonly=on,"), "{seen}");
        assert!(!unseen.contains("fsdev") && !unseen.contains("path=/"), "{unseen}");
        for line in [&seen, &unseen] {
            // The cards' only link is QEMU's hub, which has no port to the machine.
            assert!(line.contains("-nodefaults") && line.matches("-netdev hubport").count() == 2);
            assert_eq!(line.matches("-netdev").count(), 2);
        }
    }

    #[test]
    fn of_a_guest_that_hangs_the_last_lines_of_the_console_are_shown() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("console");
        let text: String = (0..100).map(|i| format!("line {i}\r\n\n")).collect();
        fs::write(&path, text).unwrap();
        let lines = last_lines(&[&path]);
        assert_eq!((lines.len(), lines[SHOWN - 1].as_str()), (SHOWN, "line 99"));
    }
}
