//! The pages in a real browser, as a person uses them: `browser/report.py`, driven by Playwright.
//! Called as `eval ...` or `serve ...` this test binary is the program, which makes its own page.
//!
//! Playwright, axe and a reader of PDF come from the Python package index into the target
//! directory; the first time that takes the network. Where they cannot be had the tests fail.

mod program;

use gigae_eval_cluster::results::testing::synthetic;
use gigae_eval_model::results::Results;
use gigae_eval_report::html;
use gigae_eval_soak::{report, state::SoakState};
use gigae_fabric::testing;
use libtest_mimic::{Arguments, Completion, Failed, Trial};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Output};
use std::sync::OnceLock;

/// Apache 2.0, MIT with axe-core (MPL 2.0), BSD.
const PACKAGES: [&str; 3] = ["playwright==1.63.0", "axe-playwright-python==0.1.8", "pypdf==6.19.0"];

fn main() -> ExitCode {
    if let Some(code) = program::play() {
        return code;
    }
    let saved = Trial::ignorable_test("pages_of_saved_results_are_easy_to_use", || {
        with_browser(None, pages_of_saved_results_are_easy_to_use)
    });
    let fresh = "a_fresh_page_is_easy_to_use_and_its_commands_repeat_its_curves";
    let fresh = Trial::ignorable_test(fresh, || {
        with_browser(
            testing::obstacle(),
            a_fresh_page_is_easy_to_use_and_its_commands_repeat_its_curves,
        )
    });
    libtest_mimic::run(&Arguments::from_args(), vec![saved, fresh]).exit_code()
}

fn with_browser(obstacle: Option<String>, test: fn(&Path)) -> Result<Completion, Failed> {
    let lacks = || "no chromium; install it or set CHROMIUM".to_owned();
    let found = match obstacle {
        None => chromium().ok_or_else(lacks),
        Some(reason) => Err(reason),
    };
    match found {
        Ok(browser) => {
            test(&browser);
            Ok(Completion::Completed)
        }
        Err(reason) if std::env::var_os("CI").is_some_and(|value| !value.is_empty()) => {
            Err(Failed::from(reason))
        }
        Err(reason) => Ok(Completion::ignored_with(reason)),
    }
}

/// The browser: `CHROMIUM`, or what is in the path.
fn chromium() -> Option<PathBuf> {
    if let Some(named) = std::env::var_os("CHROMIUM") {
        return Some(named.into());
    }
    let names = ["chromium", "chromium-browser", "google-chrome"];
    names.into_iter().find_map(|name| gigae_host::path::find(name, &[]))
}

/// A Python that has the packages: in the target directory, for the next time, too.
fn python() -> PathBuf {
    static INSTALLED: OnceLock<Result<PathBuf, String>> = OnceLock::new();
    let place = Path::new(env!("CARGO_TARGET_TMPDIR")).join("browser");
    let python = INSTALLED.get_or_init(|| install(&place));
    python.clone().unwrap_or_else(|what| panic!("{what}"))
}

fn install(place: &Path) -> Result<PathBuf, String> {
    let (python, done) = (place.join("bin/python3"), place.join("installed"));
    let packages = PACKAGES.join(" ");
    if std::fs::read_to_string(&done).is_ok_and(|what| what == packages) {
        return Ok(python);
    }
    // What a killed attempt left.
    let _ = std::fs::remove_dir_all(place);
    let output = Command::new("python3").args(["-m", "venv"]).arg(place).output();
    let there = place.display();
    let advice = "run: apt-get install python3-venv";
    well(output, &format!("a Python environment cannot be made in {there}; {advice}"))?;
    let mut pip = Command::new(&python);
    pip.args(["-m", "pip", "install", "--quiet", "--no-input", "--disable-pip-version-check"]);
    let advice = format!(
        "see that pip reaches it (pip download {packages}; behind a mirror: PIP_INDEX_URL, PIP_FIND_LINKS)"
    );
    well(
        pip.args(PACKAGES).output(),
        &format!("{packages} cannot be had from the Python package index; {advice}"),
    )?;
    std::fs::write(&done, packages).map_err(|error| format!("{}: {error}", done.display()))?;
    Ok(python)
}

fn well(output: std::io::Result<Output>, advice: &str) -> Result<(), String> {
    match output {
        Ok(output) if output.status.success() => Ok(()),
        Ok(output) => Err(format!("{advice}: {}", String::from_utf8_lossy(&output.stderr).trim())),
        Err(error) => Err(format!("{advice}: {error}")),
    }
}

/// Puts pages into files, and a person's hands on them.
fn use_pages(browser: &Path, pages: &[(&str, String)]) {
    let place = tempfile::tempdir().unwrap();
    let files = pages.iter().map(|(name, page)| {
        let file = place.path().join(format!("{name}.html"));
        std::fs::write(&file, page).unwrap();
        file
    });
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/browser/report.py");
    let output = Command::new(python())
        .arg(script)
        .arg(browser)
        .args(files)
        .env("PYTHONDONTWRITEBYTECODE", "1")
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");
    assert!(said.contains("\nOK"), "no test ran: {said}");
}

fn pages_of_saved_results_are_easy_to_use(browser: &Path) {
    let soak = SoakState::parse(include_str!("../../eval/model/fixtures/soak.json")).unwrap();
    use_pages(
        browser,
        &[
            ("first", html::page(&gigae_eval_model::testing::first())),
            ("second", html::page(&gigae_eval_model::testing::second())),
            ("soak", report::html(&soak)),
            ("cluster", gigae_eval_cluster::report::html(&synthetic(12))),
        ],
    );
}

/// Something of every kind of figure, and of what papers printed.
const PLAN: &str = r#"
name = "fresh"
about = "a test: every kind of figure"
repetitions = 2
max_repetitions = 2
[link.cable]
cable = true
[tcp.nodelay]
nodelay = true
[tcp.small]
buffer = 4096
[[experiment]]
kind = "rtt"
links = ["cable"]
transports = ["gigae", "tcp"]
sizes = [8, 512, 1400]
waits = ["sleep"]
seconds = 0.02
warmup = 0.01
[[experiment]]
kind = "stream"
links = ["cable"]
transports = ["gigae", "tcp"]
tcp = ["default"]
sizes = [64, 1400]
waits = ["sleep"]
cpus = ["two", "one"]
seconds = 0.1
warmup = 0.01
[[experiment]]
kind = "paced"
links = ["cable"]
transports = ["udp"]
sizes = [64]
waits = ["sleep"]
rates = [500, 1000]
seconds = 0.03
warmup = 0.01
[source]
pm2 = "S. Sumimoto et al.: GigaE PM II (1999)"
[[paper]]
source = "pm2"
at = "figure 3"
what = "TCP/IP, G-NIC II"
kind = "rtt"
points = [[8, 139.4], [8, 120.0], [1024, 180.0]]
of = { transport = "tcp", variant = "nodelay", wait = "sleep" }
"#;

fn a_fresh_page_is_easy_to_use_and_its_commands_repeat_its_curves(browser: &Path) {
    let place = tempfile::tempdir().unwrap();
    let plan = place.path().join("fresh plan.toml");
    std::fs::write(&plan, PLAN).unwrap();
    let run = |arguments: &[&str]| {
        let mut command = Command::new(std::env::current_exe().unwrap());
        let output = command.arg("eval").args(arguments).current_dir(&place).output().unwrap();
        let text = String::from_utf8_lossy(&output.stderr).into_owned();
        (output.status.success(), text)
    };
    let (done, text) = run(&["--plan", "fresh plan.toml", "--out", "whole"]);
    assert!(done, "{text}");
    let read = |directory: &str| {
        let file = place.path().join(directory).join("results.json");
        Results::parse(&std::fs::read_to_string(file).unwrap()).unwrap()
    };
    let (whole, page) =
        (read("whole"), std::fs::read_to_string(place.path().join("whole/report.html")).unwrap());
    use_pages(browser, &[("fresh", page.clone())]);

    // The command of one line, as the page says it and a shell takes it, gives its points and no
    // others.
    let command = commands(&page)
        .into_iter()
        .find(|one| one.contains("tcp/default") && one.contains("cpus=one"))
        .expect("TCP on one CPU is a line");
    assert!(command.starts_with("gigae eval --plan 'fresh plan.toml' --only "), "{command}");
    let own = std::env::current_exe().unwrap();
    let repeated = command.replacen("gigae", &format!("'{}'", own.display()), 1) + " --out again";
    let output = Command::new("sh").args(["-c", &repeated]).current_dir(&place).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let again = read("again");
    assert_eq!(again.environment.command, command);
    // On a busy machine a point may come to nothing, which the results say. The plan has all
    // points.
    let mut expected = whole.plan.cells(Some("cable"), 1500);
    expected.retain(|cell| cell.label() == "tcp on one CPU");
    assert_eq!(expected.len(), 2, "{expected:?}");
    assert_eq!(again.plan.cells(Some("cable"), 1500), expected);
    assert_eq!(again.series.len() + again.skipped.len(), expected.len());
    assert!(!again.series.is_empty(), "nothing was measured again: {:?}", again.skipped);
    assert!(again.series.iter().all(|one| one.label() == "tcp on one CPU"));

    // What there is not is refused in one line that says what there is.
    for (only, words) in [
        ("link=lan", &["link 'lan'", "cable"][..]),
        ("transport=tcp/large", &["tcp/nodelay", "tcp/small", "tcp/default"]),
        ("experiment=paced,transport=gigae", &["nothing"]),
    ] {
        let (done, text) = run(&["--plan", "fresh plan.toml", "--out", "not", "--only", only]);
        assert!(!done && text.lines().count() == 1, "{text}");
        assert!(words.iter().all(|word| text.contains(word)), "{text}");
    }
    assert!(!place.path().join("not").exists());
}

/// The commands that a page has for its figures.
fn commands(page: &str) -> Vec<String> {
    let parts = page.split("<code class=\"command\">").skip(1);
    let texts = parts.filter_map(|part| part.split("</code>").next());
    texts.map(|text| text.replace("&#39;", "'").replace("&amp;", "&")).collect()
}
