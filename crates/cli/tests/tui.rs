//! The live view on a real terminal (a pseudo-terminal of script(1)): what is on it, what keys and
//! signals do, and that it is as it was afterwards. Called as `panic`, this binary is a program
//! that panics under a view.
#![allow(missing_docs)]

use gigae_eval_model::doubt::Code;
use gigae_eval_model::results::Results;
use gigae_fabric::{Fabric, testing, tests};
use gigae_host::affinity;
use std::io::{Read, Write};
use std::num::NonZero;
use std::path::PathBuf;
use std::process::{Child, Command, ExitCode, ExitStatus, Stdio};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// Long enough for a loaded machine; nothing is concluded from how long it really takes.
const PATIENCE: Duration = Duration::from_secs(300);

/// The view's screen, and the first one again.
const ENTER: &str = "\x1b[?1049h";
const LEAVE: &str = "\x1b[?1049l";

fn main() -> ExitCode {
    if std::env::args().nth(1).is_some_and(|word| word == "panic") {
        let _view = gigae_cli::tui::View::of_run("a run that panics").unwrap();
        panic!("just so");
    }
    testing::for_users_except(&[]).run(tests![
        a_run_is_shown_and_its_keys_too,
        a_summary_is_on_the_first_screen,
        q_ends_a_run_and_nothing_is_left,
        signals_end_a_run_and_nothing_is_left,
        a_second_q_puts_the_terminal_back_too,
        results_go_to_a_file_while_the_view_stands,
        nothing_is_coloured_with_no_color,
        a_soak_is_shown,
        a_panic_is_said_on_the_first_screen,
        without_a_terminal_one_line_says_what_to_do
    ]);
}

const PLAN: &str = r#"
name = "tiny"
about = "a test: three cells"
repetitions = 3
max_repetitions = 3
[link.gigabit]
rate_mbit = 1000
[[experiment]]
kind = "rtt"
links = ["gigabit"]
transports = ["gigae", "udp"]
sizes = [8]
waits = ["sleep"]
seconds = 0.3
warmup = 0.01
[[experiment]]
kind = "stream"
links = ["gigabit"]
transports = ["gigae"]
sizes = [1400]
waits = ["sleep"]
seconds = 0.3
warmup = 0.01
"#;

/// A place for one test's files.
struct TestDirectory(tempfile::TempDir);

impl TestDirectory {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    /// The command line of a run of this plan.
    fn eval(&self, plan: &str, more: &str) -> String {
        let file = self.path("plan.toml");
        std::fs::write(&file, plan).unwrap();
        let (file, out) = (file.display(), self.path("out"));
        let gigae = env!("CARGO_BIN_EXE_gigae");
        format!("{gigae} eval --plan {file} --out {} --tui {more}", out.display())
    }
}

/// A command on its own terminal, 80 by 24.
struct TerminalCommand {
    child: Child,
    said: Arc<Mutex<TerminalOutput>>,
}

/// All that came, and what a terminal makes of it.
struct TerminalOutput {
    bytes: Vec<u8>,
    terminal: vt100::Parser,
}

impl TerminalCommand {
    /// Runs a line of a shell. The shell prints its process, and the terminal's modes before and
    /// after.
    fn start(line: &str, set: &[(&str, &str)]) -> Self {
        let line = format!(
            "stty rows 24 cols 80; stty -g; sh -c 'echo process $$; exec {line}'; code=$?; stty -g; exit $code"
        );
        let mut command = Command::new("script");
        command.args(["-qec", &line, "/dev/null"]).env("TERM", "xterm").env_remove("NO_COLOR");
        command.envs(set.iter().copied()).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let [rows, columns] = [24, 80].map(|n| NonZero::new(n).unwrap());
        let said =
            TerminalOutput { bytes: Vec::new(), terminal: vt100::Parser::new(rows, columns, 0) };
        let (said, mut out) = (Arc::new(Mutex::new(said)), child.stdout.take().unwrap());
        let kept = Arc::clone(&said);
        std::thread::spawn(move || {
            let mut bytes = [0; 4096];
            while let Ok(length @ 1..) = out.read(&mut bytes) {
                let mut said = kept.lock().unwrap();
                said.bytes.extend_from_slice(&bytes[..length]);
                said.terminal.process(&bytes[..length]);
            }
        });
        Self { child, said }
    }

    fn said(&self) -> String {
        String::from_utf8_lossy(&self.said.lock().unwrap().bytes).into_owned()
    }

    /// What is on the screen.
    fn screen(&self) -> String {
        self.said.lock().unwrap().terminal.screen().contents()
    }

    /// Waits until that is on the screen.
    fn until(&self, wanted: &str) {
        let deadline = Instant::now() + PATIENCE;
        while !self.screen().contains(wanted) {
            assert!(Instant::now() < deadline, "no '{wanted}' on {}", self.screen());
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    fn press(&mut self, keys: &str) {
        self.child.stdin.as_mut().unwrap().write_all(keys.as_bytes()).unwrap();
    }

    /// The process of the command.
    fn process(&self) -> u32 {
        let deadline = Instant::now() + PATIENCE;
        loop {
            // The screen may be the view's already.
            let said = self.said();
            let line = said.split_once("process ").and_then(|(_, rest)| rest.split_once('\r'));
            if let Some((number, _)) = line {
                return number.parse().unwrap();
            }
            assert!(Instant::now() < deadline, "{said}");
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    /// How it ended, and what it said after the view. The terminal is as it was.
    fn end(mut self) -> (ExitStatus, String) {
        let deadline = Instant::now() + PATIENCE;
        let status = loop {
            match self.child.try_wait().unwrap() {
                Some(status) => break status,
                None if Instant::now() > deadline => {
                    let _ = self.child.kill();
                    panic!("it did not end: {}", self.said());
                }
                None => std::thread::sleep(Duration::from_millis(20)),
            }
        };
        // The terminal's modes come last.
        let deadline = Instant::now() + PATIENCE;
        while !modes(self.said().rsplit(LEAVE).next().unwrap()).is_some_and(|modes| modes.1) {
            assert!(Instant::now() < deadline, "{}", self.said());
            std::thread::sleep(Duration::from_millis(20));
        }
        let said = self.said();
        let (before, rest) = said.split_once(ENTER).expect("no view came");
        let (_, after) = rest.rsplit_once(LEAVE).unwrap();
        assert_eq!(modes(before).unwrap().0, modes(after).unwrap().0, "the terminal's modes");
        let terminal = &self.said.lock().unwrap().terminal;
        assert!(!terminal.screen().alternate_screen() && !terminal.screen().hide_cursor());
        (status, after.to_owned())
    }
}

/// The modes that `stty -g` printed, and whether the line is whole.
fn modes(text: &str) -> Option<(&str, bool)> {
    let is_mode = |line: &&str| line.matches(':').count() > 10 && !line.contains(' ');
    let line = text.split('\n').find(|line| is_mode(&line.trim_end_matches('\r')))?;
    Some((line.trim_end(), line.ends_with('\r')))
}

/// Fabrics of the process with this id; their names carry it.
fn left_by(process: u32) -> Vec<String> {
    let own = format!("ge{process}-");
    Fabric::list().into_iter().filter(|prefix| prefix.starts_with(&own)).collect()
}

fn a_run_is_shown_and_its_keys_too() {
    let place = TestDirectory::new();
    // As long as it takes to see all that.
    let plan = PLAN.replace("= 3\n", "= 500\n");
    let mut shown = TerminalCommand::start(&place.eval(&plan, ""), &[]);
    for wanted in ["round trip", "goodput", "CPU here", "CPU there", "sent again", "q end"] {
        shown.until(wanted);
    }
    shown.until("gigabit rtt udp sleep 8 B");
    // A cell's first figures, and the time left.
    shown.until("/500");
    shown.until(" left");
    shown.press("?");
    shown.until("these keys");
    shown.press("?\x1b[B\x1b[6~");
    shown.until("/500");
    shown.press("q");
    assert_eq!(shown.end().0.code(), Some(130));
}

fn a_summary_is_on_the_first_screen() {
    let place = TestDirectory::new();
    let (status, after) = TerminalCommand::start(&place.eval(PLAN, ""), &[]).end();
    assert!(status.success(), "{after}");
    assert!(after.contains("results.json") && after.contains("Doubts"), "{after}");
    let text = std::fs::read_to_string(place.path("out/results.json")).unwrap();
    let results = Results::parse(&text).unwrap();
    assert!(results.environment.live_view.is_some_and(|share| share > 0.0 && share < 1.0));
    // Where there are CPUs beside those of both ends, it has kept to them.
    let crowded = affinity::allowed().len() <= 2;
    let doubted = results.doubts.iter().any(|doubt| doubt.code == Some(Code::LiveView));
    assert_eq!(doubted, crowded, "{:?}", results.doubts);
}

/// A run that is certainly still measuring when it is shown.
fn long() -> String {
    PLAN.replace("seconds = 0.3", "seconds = 20.0")
}

fn ends(shown: TerminalCommand, process: u32, place: &TestDirectory) {
    let (status, after) = shown.end();
    assert_eq!(status.code(), Some(130), "{after}");
    assert!(after.contains("gigae: interrupted; nothing was written"), "{after}");
    assert_eq!(left_by(process), Vec::<String>::new());
    assert!(!place.path("out").exists(), "results were begun");
}

fn q_ends_a_run_and_nothing_is_left() {
    for key in ["q", "\x03"] {
        let place = TestDirectory::new();
        let mut shown = TerminalCommand::start(&place.eval(&long(), ""), &[]);
        let process = shown.process();
        shown.until("repetition 1 of 9");
        shown.press(key);
        ends(shown, process, &place);
    }
}

fn signals_end_a_run_and_nothing_is_left() {
    for signal in [rustix::process::Signal::INT, rustix::process::Signal::TERM] {
        let place = TestDirectory::new();
        let shown = TerminalCommand::start(&place.eval(&long(), ""), &[]);
        let process = shown.process();
        shown.until("repetition 1 of 9");
        let pid = rustix::process::Pid::from_raw(process.cast_signed()).unwrap();
        rustix::process::kill_process(pid, signal).unwrap();
        ends(shown, process, &place);
    }
}

/// Whether the first or the second was quicker: the terminal is as it was.
fn a_second_q_puts_the_terminal_back_too() {
    let place = TestDirectory::new();
    let mut shown = TerminalCommand::start(&place.eval(&long(), ""), &[]);
    shown.until("repetition 1 of 9");
    shown.press("qq");
    let (status, _) = shown.end();
    assert_eq!(status.code(), Some(130));
    Fabric::down_abandoned().unwrap();
}

fn results_go_to_a_file_while_the_view_stands() {
    let place = TestDirectory::new();
    let file = place.path("json");
    let shown =
        TerminalCommand::start(&place.eval(PLAN, &format!("--json > {}", file.display())), &[]);
    shown.until("round trip");
    let (status, after) = shown.end();
    assert!(status.success(), "{after}");
    let json = std::fs::read_to_string(file).unwrap();
    assert_eq!(Results::parse(&json).unwrap().series.len(), 3);
}

fn nothing_is_coloured_with_no_color() {
    for (no_color, coloured) in [("", true), ("1", false)] {
        let place = TestDirectory::new();
        let mut shown = TerminalCommand::start(&place.eval(&long(), ""), &[("NO_COLOR", no_color)]);
        shown.until("repetition 1 of 9");
        shown.press("q");
        shown.until("interrupted");
        // Select Graphic Rendition with anything but 0, which puts letters back.
        let said = shown.said();
        let styles = said.split("\x1b[").skip(1).filter(|rest| {
            let end = rest.find(|c: char| c.is_ascii_alphabetic());
            end.is_some_and(|end| rest[end..].starts_with('m') && &rest[..end] != "0")
        });
        assert_eq!(styles.count() > 0, coloured, "NO_COLOR={no_color}");
        shown.end();
    }
}

fn a_soak_is_shown() {
    let place = TestDirectory::new();
    let (gigae, out) = (env!("CARGO_BIN_EXE_gigae"), place.path("soak"));
    let options = "--clients 2 --duration 8s --rate 50mbit";
    let shown = TerminalCommand::start(
        &format!("{gigae} soak {options} --out {} --tui", out.display()),
        &[],
    );
    for wanted in ["no deviation", "GigaE", "TCP", "sent again", "memory", "server", "client 2"] {
        shown.until(wanted);
    }
    let (status, after) = shown.end();
    assert!(status.success(), "{after}");
    assert!(after.contains("verified") && after.contains("soak.json"), "{after}");
}

fn a_panic_is_said_on_the_first_screen() {
    let this = std::env::current_exe().unwrap();
    let (status, after) = TerminalCommand::start(&format!("{} panic", this.display()), &[]).end();
    assert!(!status.success());
    assert!(after.contains("just so"), "{after}");
}

fn without_a_terminal_one_line_says_what_to_do() {
    let refused = |command: &mut Command, word: &str| {
        let output = command.output().unwrap();
        let text =
            String::from_utf8(output.stdout).unwrap() + &String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(1), "{text}");
        assert_eq!(text.lines().count(), 1, "{text}");
        assert!(text.contains("--tui") && text.contains(word), "{text}");
    };
    let gigae = env!("CARGO_BIN_EXE_gigae");
    refused(Command::new(gigae).args(["eval", "--tui"]), "standard error");
    refused(Command::new(gigae).args(["soak", "--tui"]), "standard error");
    let line = format!("{gigae} eval --tui");
    refused(Command::new("script").args(["-qec", &line, "/dev/null"]).env("TERM", "dumb"), "TERM");
}
