//! The commands of the tutorial "First message", as a reader with root types them, and what the
//! tutorial says that they print. What builds is left out, and so is the way without root. Needs
//! what `cargo build --workspace --all-targets` builds.
#![allow(missing_docs)]

use gigae_fabric::{testing, tests};
use std::collections::VecDeque;
use std::io::{BufRead, BufReader, Read};
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStderr, ChildStdout, Command, Stdio};

fn main() {
    testing::run(tests![every_command_of_the_tutorial_does_what_it_says]);
}

/// Seconds of a command, long enough for a loaded machine.
const PATIENCE: &str = "300";

const ROOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");

/// The blocks of a page that are not followed yet: language and text.
struct Page(VecDeque<(String, String)>);

impl Page {
    /// Programs are not commands: their blocks are left out. The network has this prefix, and not
    /// `tut`.
    fn read(name: &str, prefix: &str) -> Self {
        let text = std::fs::read_to_string(Path::new(ROOT).join(name)).unwrap();
        let mut blocks = VecDeque::new();
        // Every second part is inside of a block.
        for block in text.split("\n```").skip(1).step_by(2) {
            let (language, lines) = block.split_once('\n').unwrap();
            if ["sh", "text"].contains(&language) {
                let lines = lines.replace("tut-", &format!("{prefix}-"));
                let lines = lines.replace("fabric tut:", &format!("fabric {prefix}:"));
                let lines = lines.replace("--prefix tut", &format!("--prefix {prefix}"));
                blocks.push_back((language.to_owned(), lines));
            }
        }
        Self(blocks)
    }

    fn next(&mut self, language: &str, with: &str) -> String {
        let (found, text) = self.0.pop_front().expect("the page has another block");
        assert!(found == language && text.contains(with), "not {language} with {with}:\n{text}");
        text
    }

    /// The next commands.
    fn commands(&mut self, with: &str) -> String {
        self.next("sh", with)
    }

    /// What the page says that is printed is what was printed, whatever is between the words.
    fn shows(&mut self, printed: &str) {
        let text = self.next("text", "");
        assert!(text.split_whitespace().eq(printed.split_whitespace()), "{text}\n---\n{printed}");
    }
}

/// A reader's directory: the sources, with this profile's programs where the page has its own.
struct Reader {
    place: tempfile::TempDir,
    /// What was exported so far.
    exported: String,
    prefix: String,
}

impl Reader {
    fn new() -> Self {
        let place = tempfile::tempdir().unwrap();
        let built = Path::new(env!("CARGO_BIN_EXE_gigae")).parent().unwrap();
        let hello = built.join("examples/hello");
        assert!(hello.exists(), "cargo build --workspace --all-targets builds {}", hello.display());
        std::fs::create_dir(place.path().join("target")).unwrap();
        symlink(built, place.path().join("target/release")).unwrap();
        for name in
            ["Cargo.toml", "LICENSE-APACHE", "LICENSE-MIT", "Makefile", "crates", "docs", "tools"]
        {
            let there = PathBuf::from(ROOT).canonicalize().unwrap().join(name);
            symlink(there, place.path().join(name)).unwrap();
        }
        Self { place, exported: String::new(), prefix: testing::prefix() }
    }

    fn shell(&mut self, commands: &str) -> Command {
        let mut shell = Command::new("timeout");
        shell
            .args([PATIENCE, "sh", "-ec"])
            .arg(self.exported.clone() + commands)
            .current_dir(self.place.path());
        // Nothing is built again.
        shell.env("MAKEFLAGS", "BUILD=").env_remove("CARGO_TARGET_DIR");
        let exports = commands.lines().filter(|line| line.starts_with("export "));
        self.exported.extend(exports.flat_map(|line| [line, "\n"]));
        shell.stdout(Stdio::piped()).stderr(Stdio::piped());
        shell
    }

    /// What they print.
    fn run(&mut self, commands: &str) -> String {
        let output = self.shell(commands).output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.success(), "{commands}: {said}");
        String::from_utf8(output.stdout).unwrap()
    }

    /// Commands whose last one waits.
    fn start(&mut self, commands: &str) -> Waiting {
        let (last, before) = (last(commands), before_last(commands));
        let mut child = self.shell(&format!("{before}echo $$\nexec {last}")).spawn().unwrap();
        let (out, err) = (child.stdout.take().unwrap(), child.stderr.take().unwrap());
        let (out, err) = (BufReader::new(out), BufReader::new(err));
        let mut waiting = Waiting { child, pid: String::new(), out, err };
        waiting.pid = waiting.line().trim().to_owned();
        waiting
    }
}

fn last(commands: &str) -> &str {
    commands.lines().last().unwrap()
}

fn before_last(commands: &str) -> &str {
    commands.strip_suffix(last(commands)).unwrap()
}

impl Drop for Reader {
    fn drop(&mut self) {
        // If a step failed. No other process has this prefix.
        let gigae = env!("CARGO_BIN_EXE_gigae");
        let _ = Command::new(gigae).args(["fabric", "down", "--prefix", &self.prefix]).output();
    }
}

/// A command in another terminal.
struct Waiting {
    child: Child,
    /// Of the last command.
    pid: String,
    out: BufReader<ChildStdout>,
    err: BufReader<ChildStderr>,
}

impl Waiting {
    fn line(&mut self) -> String {
        let mut line = String::new();
        self.out.read_line(&mut line).unwrap();
        line
    }

    fn error_line(&mut self) -> String {
        let mut line = String::new();
        self.err.read_line(&mut line).unwrap();
        line
    }

    /// What it prints until its end.
    fn end(mut self) -> String {
        let mut rest = String::new();
        self.out.read_to_string(&mut rest).unwrap();
        assert!(self.child.wait().unwrap().success(), "{rest}");
        rest
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        // `timeout` ends with its command.
        if matches!(self.child.try_wait(), Ok(None)) {
            let _ = Command::new("kill").arg(&self.pid).status();
        }
        let _ = self.child.wait();
    }
}

fn every_command_of_the_tutorial_does_what_it_says() {
    let mut reader = Reader::new();
    let mut page = Page::read("docs/tutorial/first-message.md", &reader.prefix);
    page.commands("git clone");
    page.commands("cargo build --release -p gigae --example hello");
    page.commands("sudo -s");
    let network = reader.run(&page.commands("gigae fabric up"));
    page.shows(&network);
    page.commands("gigae fabric run");

    // In Rust, then in C.
    let on_first = page.commands("n1 target/release/examples/hello");
    let mut first = reader.start(&on_first);
    let waiting = first.line();
    page.shows(&waiting);
    page.commands("sudo -s");
    let printed = reader.run(&page.commands("n2 target/release/examples/hello"));
    page.shows(&printed);
    let got = first.end();
    page.shows(&got);
    reader.run(&page.commands("make install"));
    let on_first = page.commands("n1 ./hello");
    let mut first = reader.start(&on_first);
    assert_eq!(first.line(), waiting);
    let on_second = page.commands("n2 ./hello");
    assert_eq!(reader.run(&on_second), printed);
    assert_eq!(first.end(), got);

    let mut first = reader.start(&on_first);
    assert_eq!(first.line(), waiting);
    // Other tests have endpoints, too.
    let alone = |commands: String, command: &str| {
        commands.replace(command, &format!("{command} --pid {}", first.pid))
    };
    let seen = reader.run(&alone(page.commands("gigae stat --once"), "gigae stat"));
    let line = seen.lines().next().unwrap_or_default();
    assert!(line.contains("hello") && line.contains("eth0"), "{seen}");
    let mut capture = reader.start(&alone(page.commands("gigae capture"), "gigae capture"));
    let capturing = capture.error_line();
    page.shows(&capturing);
    assert_eq!(reader.run(&on_second), printed);
    assert_eq!(first.end(), got);
    capture.end();
    let frames = std::fs::metadata(reader.place.path().join("hello.pcapng")).unwrap();
    assert!(frames.len() > 100);
    reader.run(&page.commands("gigae fabric down"));
    assert!(page.0.is_empty(), "{:?}", page.0);
}
