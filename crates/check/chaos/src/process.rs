//! A workload's process, from outside: what it said so far, and commands to it.

use crate::event::{Event, EventKind, now};
use crate::system;
use gigae_fabric::Node;
use std::collections::VecDeque;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStderr, ChildStdin, ChildStdout, Stdio};
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Lines of a node's log that an error shows.
const LINES: usize = 60;

/// What a node's processes have said, one after the other.
#[derive(Default)]
pub struct Log {
    history: Mutex<History>,
    changed: Condvar,
    /// The last lines that went to standard error: the library's log, and panics.
    lines: Mutex<VecDeque<String>>,
}

/// Everything said so far, and what one mostly asks of it.
#[derive(Clone, Debug, Default)]
pub struct History {
    /// All of it.
    pub events: Vec<Event>,
    /// Endpoints opened so far.
    pub opened: u16,
    /// Messages that arrived.
    pub received: u64,
    /// Messages that were handed back.
    pub failed: u64,
    /// Errors of calls: when, kind, text.
    pub errors: Vec<(u64, String, String)>,
    /// The last error is over.
    pub recovered: bool,
    /// What the present endpoint accepted is all acknowledged or failed.
    pub drained: bool,
    /// Jumps of the wall clock that were seen.
    pub jumps: u64,
    /// Frames sent, received, repeated, dropped, of endpoints that were closed.
    pub frames: [u64; 4],
    /// How often links of the present endpoint were given up and came back.
    pub paths: [u64; 2],
}

impl History {
    fn add(&mut self, event: Event) {
        match &event.what {
            EventKind::Opened(_) => {
                self.opened += 1;
                (self.drained, self.recovered, self.paths) = (false, true, [0; 2]);
            }
            EventKind::Received(_) => self.received += 1,
            EventKind::Failed(_, messages) => self.failed += messages.len() as u64,
            EventKind::Drained => self.drained = true,
            EventKind::Error(kind, text) => {
                self.errors.push((event.at, kind.clone(), text.clone()));
                self.recovered = false;
            }
            EventKind::Recovered => self.recovered = true,
            EventKind::Jumped(times) => self.jumps = *times,
            EventKind::Paths(deaths, returns) => self.paths = [*deaths, *returns],
            EventKind::Counted(sent, received, repeated, dropped) => {
                for (sum, more) in self.frames.iter_mut().zip([sent, received, repeated, dropped]) {
                    *sum += more;
                }
            }
            EventKind::Intent(..)
            | EventKind::Accepted(_)
            | EventKind::Torn(_)
            | EventKind::Gone => {}
            EventKind::Started(..) | EventKind::Ended(..) | EventKind::Tagged(_) => {}
            EventKind::Began(..) | EventKind::Done(..) | EventKind::Broken(..) => {}
            EventKind::Noticed(..) | EventKind::Memory(_) => {}
        }
        self.events.push(event);
    }

    /// The longest time without a message since this one, in nanoseconds of the monotonic clock.
    pub fn longest_pause(&self, since: u64) -> Duration {
        let received =
            self.events.iter().filter(|event| matches!(event.what, EventKind::Received(..)));
        let times: Vec<u64> = received.map(|event| event.at).collect();
        // Together with the last one before.
        let first = times.partition_point(|&at| at <= since).saturating_sub(1);
        let pauses = times[first..].windows(2).map(|pair| pair[1] - pair[0]);
        Duration::from_nanos(pauses.max().unwrap_or(0))
    }

    /// Errors of a kind.
    pub fn errors_of(&self, kind: &str) -> usize {
        self.errors.iter().filter(|error| error.1 == kind).count()
    }
}

impl Log {
    /// What was said so far.
    pub fn history(&self) -> MutexGuard<'_, History> {
        self.history.lock().expect("no thread panics while it is locked")
    }

    fn add(&self, event: Event) {
        self.history().add(event);
        self.changed.notify_all();
    }

    fn add_line(&self, line: String) {
        let mut lines = self.lines.lock().expect("no thread panics while it is locked");
        if lines.len() == LINES {
            lines.pop_front();
        }
        lines.push_back(line);
    }

    /// The last lines that went to standard error.
    pub fn last_lines(&self) -> String {
        let lines = self.lines.lock().expect("no thread panics while it is locked");
        lines.iter().map(|line| format!("\n    {line}")).collect()
    }

    /// Waits until what was said is so, at most for `bound`; whether it came to that.
    pub fn wait(&self, bound: Duration, mut so: impl FnMut(&History) -> bool) -> bool {
        let end = Instant::now() + bound;
        let mut history = self.history();
        loop {
            if so(&history) {
                return true;
            }
            let left = end.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return false;
            }
            history = self.changed.wait_timeout(history, left).expect("no thread panics with it").0;
        }
    }
}

/// A process that runs the workload.
pub struct Process {
    child: Child,
    commands: ChildStdin,
    readers: Vec<JoinHandle<()>>,
    log: Arc<Log>,
    ended: bool,
}

impl Process {
    /// Starts one in a node; `preload` steps its clock.
    pub fn start(
        program: &Path,
        node: &Node,
        arguments: &[String],
        preload: Option<&Path>,
        log: &Arc<Log>,
    ) -> Result<Self, String> {
        let mut command = node.command(program).map_err(|error| error.to_string())?;
        command.arg("work").args(arguments).env("GIGAE_LOG", "debug");
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        if let Some(library) = preload {
            command.env("LD_PRELOAD", library);
        }
        system::tie(&mut command);
        let mut child = command.spawn().map_err(|error| format!("the workload: {error}"))?;
        let (Some(commands), Some(out), Some(errors)) =
            (child.stdin.take(), child.stdout.take(), child.stderr.take())
        else {
            unreachable!("all were asked for")
        };
        let readers = [read_events(out, log), read_lines(errors, log)];
        Ok(Self { child, commands, readers: readers.into(), log: Arc::clone(log), ended: false })
    }

    /// Its number.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Says a command to it.
    pub fn command(&mut self, command: &str) -> Result<(), String> {
        writeln!(self.commands, "{command}").map_err(|_| "the workload has ended by itself".into())
    }

    /// Stops it, or lets it go on.
    pub fn halt(&self, stop: bool) -> Result<(), String> {
        use rustix::process::{Pid, Signal, kill_process};
        let signal = if stop { Signal::STOP } else { Signal::CONT };
        kill_process(Pid::from_child(&self.child), signal)
            .map_err(|error| format!("stopping the workload: {error}"))
    }

    /// Kills it, and notes its end.
    pub fn kill(mut self) -> Result<(), String> {
        self.end()
    }

    fn end(&mut self) -> Result<(), String> {
        self.ended = true;
        let text = |error: std::io::Error| format!("killing the workload: {error}");
        self.child.kill().map_err(text)?;
        self.child.wait().map_err(text)?;
        self.join_readers();
        self.log.add(Event { at: now(), what: EventKind::Gone });
        Ok(())
    }

    /// Waits for its end, which must come soon and be one without an error.
    pub fn quit(mut self, bound: Duration) -> Result<(), String> {
        // It may have got the command before, and be gone.
        let _ = self.command("quit");
        let end = Instant::now() + bound;
        loop {
            match self.child.try_wait().map_err(|error| error.to_string())? {
                Some(status) => {
                    self.ended = true;
                    self.join_readers();
                    return match status.success() {
                        true => Ok(()),
                        false => {
                            let lines = self.log.last_lines();
                            Err(format!("the workload ended with {status}; its log:{lines}"))
                        }
                    };
                }
                None if Instant::now() > end => {
                    return Err(format!("the workload did not end within {bound:?}"));
                }
                None => std::thread::sleep(Duration::from_millis(1)),
            }
        }
    }

    fn join_readers(&mut self) {
        for reader in self.readers.drain(..) {
            let _ = reader.join();
        }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        if !self.ended {
            let _ = self.end();
        }
    }
}

/// Takes what a process says into the history.
fn read_events(out: ChildStdout, log: &Arc<Log>) -> JoinHandle<()> {
    let log = Arc::clone(log);
    std::thread::spawn(move || {
        // SIGKILL may cut the last line short. It has no newline then.
        let mut lines = BufReader::new(out);
        let mut line = String::new();
        while lines.read_line(&mut line).is_ok_and(|count| count > 0) {
            match line.strip_suffix('\n').map(serde_json::from_str) {
                Some(Ok(event)) => log.add(event),
                Some(Err(error)) => eprintln!("gigae-chaos: {line:?} is not an event: {error}"),
                None => {}
            }
            line.clear();
        }
    })
}

/// Keeps the last lines that a process writes to standard error.
fn read_lines(errors: ChildStderr, log: &Arc<Log>) -> JoinHandle<()> {
    let log = Arc::clone(log);
    std::thread::spawn(move || {
        BufReader::new(errors).lines().map_while(Result::ok).for_each(|line| log.add_line(line));
    })
}
