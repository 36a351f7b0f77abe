//! The completions and manual pages of the command: complete, and understood by the shells and the
//! `man` that are here.
#![allow(missing_docs)]

use std::collections::BTreeSet;
use std::path::Path;
use std::process::{Command, Output};

fn gigae(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_gigae")).args(arguments).output().unwrap()
}

fn says(arguments: &[&str]) -> String {
    let output = gigae(arguments);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

/// The commands below `gigae WORDS`, as its help lists them.
fn commands(words: &[&str]) -> Vec<String> {
    let help = says(&[words, &["--help"]].concat());
    let listed = help.lines().skip_while(|line| *line != "Commands:").skip(1);
    let names = listed.take_while(|line| !line.is_empty()).filter(|line| !line.starts_with("   "));
    let names = names.filter_map(|line| line.split_whitespace().next());
    names.filter(|name| *name != "help").map(str::to_owned).collect()
}

/// The long options that a text names, without those that only its sentences name.
fn options(help: &str) -> BTreeSet<String> {
    let lines = help.lines().map(str::trim_start).filter(|line| line.starts_with('-'));
    let words = lines.flat_map(|line| line.split([' ', ',', '=']).take(3));
    words.filter(|word| word.starts_with("--")).map(str::to_owned).collect()
}

/// A page as a reader sees it, near enough.
fn plain(page: &str) -> String {
    page.replace("\\-", "-").replace("\\fB", "").replace("\\fR", "").replace("\\fI", "")
}

#[test]
fn every_command_has_a_page_with_all_its_options() {
    let place = tempfile::tempdir().unwrap();
    says(&["man", place.path().to_str().unwrap()]);
    let page = |name: &str| {
        std::fs::read_to_string(place.path().join(name)).unwrap_or_else(|_| panic!("no {name}"))
    };
    let (all, main) = (commands(&[]), plain(&page("gigae.1")));
    assert!(all.len() > 10 && all.contains(&"serve".to_owned()), "{all:?}");
    assert!(main.contains("Exit codes: 0 done"), "{main}");
    for command in &all {
        assert!(main.contains(&format!("gigae-{command}(1)")), "{command}");
        let (page, help) =
            (plain(&page(&format!("gigae-{command}.1"))), says(&[command, "--help"]));
        assert!(page.contains(&format!("gigae-{command}")) && page.contains(".SH NAME"), "{page}");
        for option in options(&help) {
            assert!(page.contains(&option), "{option} of {command}");
        }
        for hidden in ["fabric-child", "unmount-later"] {
            assert!(!page.contains(hidden), "what only the command itself says");
        }
    }
    for command in commands(&["fabric"]) {
        page(&format!("gigae-fabric-{command}.1"));
    }
    let refused = gigae(&["man", "/nonexistent"]);
    let error = String::from_utf8(refused.stderr).unwrap();
    assert_eq!(refused.status.code(), Some(1));
    assert!(error.contains("/nonexistent") && error.lines().count() == 1, "{error}");
}

#[test]
fn every_shell_has_completions_for_every_command() {
    for shell in ["bash", "zsh", "fish"] {
        let text = says(&["completions", shell]);
        for command in commands(&[]) {
            assert!(text.contains(&command), "{command} in {shell}");
        }
        assert!(text.contains("max-duration"), "an option in {shell}");
        for hidden in ["fabric-child", "unmount-later"] {
            assert!(!text.contains(hidden), "what only the command itself says, in {shell}");
        }
    }
    assert_eq!(gigae(&["completions", "cmd"]).status.code(), Some(2));
}

/// What bash offers behind these words, the last of which is begun.
fn offered(script: &Path, words: &[&str]) -> BTreeSet<String> {
    let ask = r#"source "$1"; shift; COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1))
        _gigae gigae "${COMP_WORDS[COMP_CWORD]}" "${COMP_WORDS[COMP_CWORD-1]}"
        printf '%s\n' "${COMPREPLY[@]}""#;
    let output =
        Command::new("bash").args(["-c", ask, "bash"]).arg(script).args(words).output().unwrap();
    assert!(output.status.success() && output.stderr.is_empty(), "{output:?}");
    String::from_utf8(output.stdout).unwrap().lines().map(str::to_owned).collect()
}

#[test]
fn bash_completes_commands_options_and_values() {
    let place = tempfile::tempdir().unwrap();
    let script = place.path().join("gigae");
    std::fs::write(&script, says(&["completions", "bash"])).unwrap();
    assert_eq!(offered(&script, &["gigae", "se"]), ["serve".to_owned()].into());
    let options = offered(&script, &["gigae", "serve", "--"]);
    assert!(options.contains("--nic") && options.contains("--max-rate"), "{options:?}");
    let shells = offered(&script, &["gigae", "completions", ""]);
    assert!(shells.contains("fish"), "{shells:?}");
}

/// What the command writes to a terminal.
fn on_a_terminal(arguments: &str, no_color: Option<&str>) -> String {
    let line = format!("{} {arguments}", env!("CARGO_BIN_EXE_gigae"));
    let mut command = Command::new("script");
    command.args(["-qec", &line, "/dev/null"]).env_remove("NO_COLOR").env("TERM", "xterm");
    if let Some(value) = no_color {
        command.env("NO_COLOR", value);
    }
    let output = command.output().unwrap();
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn no_color_is_heeded() {
    let place = tempfile::tempdir().unwrap();
    let fixture = concat!(env!("CARGO_MANIFEST_DIR"), "/../eval/model/fixtures/results.json");
    let render = format!("eval --render {fixture} --out {}", place.path().display());
    let compare = format!("compare {fixture} {fixture}");
    for arguments in ["serve --help", &render, &compare] {
        let coloured = |no_color| on_a_terminal(arguments, no_color).contains('\x1b');
        assert!(coloured(None), "{arguments}: never emphasised");
        assert!(coloured(Some("")), "{arguments}: empty is not set");
        assert!(!coloured(Some("1")), "{arguments}");
    }
}
