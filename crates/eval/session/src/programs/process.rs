//! Running another project's program: bounded in time and output, and gone with this process.
//!
//! A program runs in its own process group with a guard, which does nothing but wait for the end of
//! a pipe that this process holds: however this one ends, the pipe ends with it, and the guard
//! kills the group, itself included. So what the program has started goes, too. A program that
//! leaves its group is killed by the kernel when the thread that started it ends (prctl(2)
//! `PR_SET_PDEATHSIG`); what such a one has started would stay.

use crate::stage::ends_with_parent;
use rustix::process::{Pid, Signal, kill_process_group};
use std::io::{self, Read};
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

/// What is kept of what a program says; one that says more is cut off, and mostly ends by that.
/// Some say a line for each file.
const MOST_SAID: u64 = 16 << 20;

/// How often a program is looked at. Seldom enough to disturb nothing.
const LOOK: Duration = Duration::from_millis(20);

/// Time for an answering end to wait at its port.
pub const LISTEN: Duration = Duration::from_secs(5);

/// Time to read what a killed program has printed. Its pipes end with it, and so does the wait,
/// unless something of it escaped. The threads that read may be late on a busy machine.
const READ_TIMEOUT: Duration = Duration::from_secs(30);

/// Of a program's last line, at most this many characters are shown.
const LINE: usize = 160;

/// Why there is no figure of a program. The text is one line and says what to do.
#[derive(Debug, thiserror::Error)]
pub enum ProgramError {
    /// Not installed.
    #[error("not installed {place}: {programs}; try 'apt install {packages}'")]
    Missing {
        /// The programs.
        programs: String,
        /// Debian's packages.
        packages: String,
        /// At which end.
        place: &'static str,
    },
    /// It could not be started.
    #[error("{program} could not be started: {source}; check its installation")]
    Start {
        /// The program.
        program: &'static str,
        /// Why.
        source: io::Error,
    },
    /// It did not do in time what it should.
    #[error("{program} {what} in time and was ended; its last line: {last}")]
    Late {
        /// The program.
        program: &'static str,
        /// What.
        what: &'static str,
        /// Its last line.
        last: String,
    },
    /// It ended by itself, with a failure or too early.
    #[error("{program} ended with {status}; its last line: {last}")]
    Ended {
        /// The program.
        program: &'static str,
        /// Its status.
        status: ExitStatus,
        /// Its last line.
        last: String,
    },
    /// What it said has no figure.
    #[error("{program} printed no figure that gigae can read; its last line: {last}")]
    Garbled {
        /// The program.
        program: &'static str,
        /// Its last line.
        last: String,
    },
    /// It may not or cannot do that.
    #[error("{0}")]
    Refused(String),
    /// The run was interrupted.
    #[error("interrupted")]
    Interrupted,
}

/// The executable of this name where programs are looked for, if there is one.
pub fn find(file: &str) -> Option<PathBuf> {
    gigae_host::path::find(file, &[])
}

/// A program that runs; it and all that it has started end with this value, and with this process.
#[derive(Debug)]
pub struct ProgramProcess {
    name: &'static str,
    child: Child,
    begun: Instant,
    group: Group,
    said: [Receiver<Vec<u8>>; 2],
}

/// A process group and the guard that leads it.
#[derive(Debug)]
struct Group(Child);

impl Drop for Group {
    fn drop(&mut self) {
        // No other process has the guard's number before it is waited for, so it is still its
        // group's.
        let group = i32::try_from(self.0.id()).ok().and_then(Pid::from_raw);
        let _ = group.map(|group| kill_process_group(group, Signal::KILL));
        let _ = self.0.wait();
    }
}

impl Group {
    fn new() -> io::Result<Self> {
        let mut guard = Command::new("sh");
        guard.args(["-c", "read -r end; kill -KILL 0"]).process_group(0);
        guard.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
        guard.spawn().map(Self)
    }
}

impl Drop for ProgramProcess {
    fn drop(&mut self) {
        // The group has all that has not left it.
        let _ = self.child.kill();
        let group = i32::try_from(self.group.0.id()).ok().and_then(Pid::from_raw);
        let _ = group.map(|group| kill_process_group(group, Signal::KILL));
        let _ = self.child.wait();
    }
}

impl ProgramProcess {
    /// Starts a program, on the CPUs and in the network of the calling thread, which must live as
    /// long.
    pub fn start(
        name: &'static str,
        file: &str,
        arguments: &[String],
    ) -> Result<Self, ProgramError> {
        Self::start_with(name, file, arguments, &[])
    }

    /// The same, with more in its environment.
    pub fn start_with(
        name: &'static str,
        file: &str,
        arguments: &[String],
        environment: &[(&'static str, String)],
    ) -> Result<Self, ProgramError> {
        let mut command = Command::new(file);
        command.args(arguments).envs(environment.iter().map(|(name, value)| (name, value)));
        Self::start_command(name, command)
    }

    /// The same, of a command with words and environment. Its streams and its group are set here.
    pub fn start_command(name: &'static str, mut command: Command) -> Result<Self, ProgramError> {
        let failed = |source| ProgramError::Start { program: name, source };
        let group = Group::new().map_err(failed)?;
        command.env("LC_ALL", "C");
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command.process_group(i32::try_from(group.0.id()).unwrap_or(0));
        ends_with_parent(&mut command);
        let begun = Instant::now();
        let mut child = command.spawn().map_err(failed)?;
        let said = [read_all(child.stdout.take()), read_all(child.stderr.take())];
        Ok(Self { name, child, begun, group, said })
    }

    /// The number of its first process.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// When it was started, its guard being there.
    pub fn begun(&self) -> Instant {
        self.begun
    }

    /// Whether it has ended by itself.
    pub fn ended(&mut self) -> Option<ExitStatus> {
        self.child.try_wait().ok().flatten()
    }

    /// Waits for its end, for so long at most; what it said on standard output then.
    pub fn finish(self, most: Duration, interrupted: &AtomicBool) -> Result<String, ProgramError> {
        self.finish_unless(most, interrupted, || false)
    }

    /// The same, but gives up as soon as `hopeless` says so.
    pub fn finish_unless(
        mut self,
        most: Duration,
        interrupted: &AtomicBool,
        mut hopeless: impl FnMut() -> bool,
    ) -> Result<String, ProgramError> {
        let deadline = Instant::now() + most;
        let status = loop {
            if let Some(status) = self.ended() {
                break status;
            }
            if interrupted.load(Ordering::Relaxed) {
                return Err(ProgramError::Interrupted);
            }
            if Instant::now() > deadline || hopeless() {
                return Err(self.late("did not end"));
            }
            std::thread::sleep(LOOK);
        };
        let program = self.name;
        let [out, err] = self.end();
        match status.success() {
            true => Ok(out),
            false => Err(ProgramError::Ended { program, status, last: last_line(&err, &out) }),
        }
    }

    /// Ends it, because it did not do something in time.
    pub fn late(self, what: &'static str) -> ProgramError {
        let program = self.name;
        let [out, err] = self.end();
        ProgramError::Late { program, what, last: last_line(&err, &out) }
    }

    /// What is to be said of one that has ended with this status although it was needed.
    pub fn gone(self, status: ExitStatus) -> ProgramError {
        let program = self.name;
        let [out, err] = self.end();
        ProgramError::Ended { program, status, last: last_line(&err, &out) }
    }

    /// Ends it and all of its group; what it said on standard output and standard error.
    pub fn end(mut self) -> [String; 2] {
        let said = std::mem::replace(&mut self.said, [channel().1, channel().1]);
        drop(self);
        let end = Instant::now() + READ_TIMEOUT;
        said.map(|said| {
            let left = end.saturating_duration_since(Instant::now());
            let bytes: Vec<u8> = said.recv_timeout(left).unwrap_or_default();
            String::from_utf8_lossy(&bytes).into_owned()
        })
    }
}

/// Reads all that comes, in a thread that ends with the pipe.
fn read_all(pipe: Option<impl Read + Send + 'static>) -> Receiver<Vec<u8>> {
    let (sender, receiver) = channel();
    if let Some(pipe) = pipe {
        std::thread::spawn(move || {
            let mut said = Vec::new();
            let _ = pipe.take(MOST_SAID).read_to_end(&mut said);
            let _ = sender.send(said);
        });
    }
    receiver
}

/// The last line of these in which there is something, in quotation marks and fit to be shown.
pub fn last_line(first: &str, second: &str) -> String {
    let last = |text: &str| {
        let mut lines = text.lines().rev().map(shown);
        lines.find(|line| !line.is_empty())
    };
    match last(first).or_else(|| last(second)) {
        Some(line) => format!("'{line}'"),
        None => "(it said nothing)".to_owned(),
    }
}

fn shown(line: &str) -> String {
    let plain = line.chars().filter(|c| !c.is_control()).collect::<String>();
    plain.trim().chars().take(LINE).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use gigae_host::proc::process::is_alive;

    fn shell(script: &str) -> ProgramProcess {
        ProgramProcess::start("fake", "sh", &["-c".into(), script.into()]).unwrap()
    }

    const PATIENCE: Duration = Duration::from_secs(60);

    #[test]
    fn what_a_program_prints_is_read_and_its_failure_shows_its_last_line() {
        let never = AtomicBool::new(false);
        let said = shell("echo one; echo two").finish(PATIENCE, &never).unwrap();
        assert_eq!(said, "one\ntwo\n");
        let failed = shell("echo out; echo 'no way' >&2; exit 3").finish(PATIENCE, &never);
        let text = failed.unwrap_err().to_string();
        assert!(text.contains("fake ended with") && text.contains("'no way'"), "{text}");
        assert_eq!(text.lines().count(), 1);
    }

    #[test]
    fn a_program_that_hangs_is_ended_with_all_that_it_started() {
        let (never, place) = (AtomicBool::new(false), tempfile::tempdir().unwrap());
        let printed = place.path().join("printed");
        let hung = shell(&format!("sleep 1000 & echo $!; : > '{}'; wait", printed.display()));
        let begin = Instant::now();
        while !printed.exists() {
            assert!(begin.elapsed() < PATIENCE, "the program printed nothing");
            std::thread::sleep(LOOK);
        }
        let text = hung.finish(Duration::ZERO, &never).unwrap_err().to_string();
        assert!(text.contains("did not end in time"), "{text}");
        let pid = text.split('\'').nth(1).unwrap().parse().unwrap();
        let begin = Instant::now();
        while is_alive(pid) {
            assert!(begin.elapsed() < PATIENCE, "{pid} lives on");
            std::thread::sleep(LOOK);
        }
        let now = AtomicBool::new(true);
        assert!(matches!(
            shell("sleep 1000").finish(PATIENCE, &now),
            Err(ProgramError::Interrupted)
        ));
    }

    #[test]
    fn a_program_that_says_too_much_fills_no_memory() {
        let never = AtomicBool::new(false);
        // It ends by the closed pipe.
        let ended = shell("yes").finish(PATIENCE, &never);
        assert!(matches!(ended, Err(ProgramError::Ended { .. })), "{ended:?}");
    }

    #[test]
    fn what_is_shown_of_a_program_is_one_short_line_without_control_characters() {
        assert_eq!(last_line("", "a\n\x1b[1mb\x07\n\n"), "'[1mb'");
        assert_eq!(last_line("err", "out"), "'err'");
        assert_eq!(last_line(" \n", ""), "(it said nothing)");
        assert_eq!(last_line(&"x".repeat(1000), "").len(), LINE + 2);
    }

    #[test]
    fn what_is_not_there_is_said() {
        assert!(find("sh").is_some() && find("no-such-program-here").is_none());
        let error = ProgramProcess::start("fake", "no-such-program-here", &[]).unwrap_err();
        assert!(error.to_string().contains("could not be started"), "{error}");
    }
}
