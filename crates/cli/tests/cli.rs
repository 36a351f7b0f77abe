//! The command as a person uses it: what it prints, its exit codes, what it leaves behind.
#![allow(missing_docs)]

use gigae_fabric::testing;
use std::process::{Command, Output};

fn gigae(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_gigae")).args(arguments).output().unwrap()
}

fn says(output: &[u8]) -> String {
    String::from_utf8(output.to_vec()).unwrap()
}

/// One line on standard error that contains `part`, exit code 1, nothing on standard output.
fn fails(arguments: &[&str], part: &str) {
    let output = gigae(arguments);
    let error = says(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{error}");
    assert!(error.starts_with("gigae: ") && error.lines().count() == 1, "{error}");
    assert!(error.contains(part), "{error}");
    assert!(output.stdout.is_empty());
}

fn succeeds(arguments: &[&str]) -> String {
    let output = gigae(arguments);
    assert!(output.status.success(), "{}", says(&output.stderr));
    says(&output.stdout)
}

fn namespaces() -> Vec<String> {
    let listed = Command::new("ip").args(["netns", "list"]).output().unwrap();
    says(&listed.stdout).lines().map(str::to_owned).collect()
}

fn a_fabric_is_laid_entered_shown_and_removed() {
    let prefix = testing::prefix();
    let prefix = prefix.as_str();
    let laid = succeeds(&["fabric", "up", "--prefix", prefix, "--nodes", "3", "--rate", "100mbit"]);
    assert!(laid.contains("3 nodes") && laid.contains("100mbit"), "{laid}");
    assert_eq!(succeeds(&["fabric", "status", "--prefix", prefix]).lines().count(), 5);
    let addresses = succeeds(&["fabric", "exec", "--prefix", prefix, "n3", "ip", "-4", "addr"]);
    assert!(addresses.contains("198.18.0.3/24"), "{addresses}");
    let exit = gigae(&["fabric", "exec", "--prefix", prefix, "n1", "sh", "-c", "exit 7"]);
    assert_eq!(exit.status.code(), Some(7), "the command's own exit code");
    fails(&["fabric", "up", "--prefix", prefix], prefix);
    fails(&["fabric", "exec", "--prefix", prefix, "n9", "true"], "n1 to n3");
    assert!(succeeds(&["fabric", "down", "--prefix", prefix]).contains("removed"));
    assert!(!namespaces().iter().any(|name| name.starts_with(prefix)));
    fails(&["fabric", "status", "--prefix", prefix], "gigae fabric up");
}

fn the_inventory_tells_which_xdp_mode_the_self_test_reached() {
    let fabric = testing::fabric("nic", |_| ());
    let mut command = fabric.node(1).command(env!("CARGO_BIN_EXE_gigae")).unwrap();
    let table = says(&command.args(["nic", "eth0"]).output().unwrap().stdout);
    assert!(table.contains("veth") && table.contains("xdp generic"), "{table}");
    let mut command = fabric.node(1).command(env!("CARGO_BIN_EXE_gigae")).unwrap();
    let refused = command.args(["nic", "nosuch"]).output().unwrap();
    assert_eq!(refused.status.code(), Some(1));
    assert!(says(&refused.stderr).contains("eth0"));
}

fn wrong_input_is_refused_in_one_line() {
    fails(&["fabric", "up", "--rate", "fast"], "is not a rate");
    fails(&["fabric", "up", "--loss", "2"], "from 0 to 1");
    fails(&["eval", "--plan", "nosuch"], "nosuch");
    fails(&["serve", "--nic", "lo", "--key", "/nonexistent"], "/nonexistent");
}

fn every_command_explains_itself() {
    for command in ["eval", "serve", "fabric", "nic"] {
        let help = succeeds(&[command, "--help"]);
        assert!(help.contains("Usage: gigae") && help.len() > 200, "{help}");
    }
    assert_eq!(gigae(&["nonsense"]).status.code(), Some(2));
}

fn main() {
    testing::run(&[
        (
            "a_fabric_is_laid_entered_shown_and_removed",
            a_fabric_is_laid_entered_shown_and_removed as fn(),
        ),
        (
            "the_inventory_tells_which_xdp_mode_the_self_test_reached",
            the_inventory_tells_which_xdp_mode_the_self_test_reached,
        ),
        ("wrong_input_is_refused_in_one_line", wrong_input_is_refused_in_one_line),
        ("every_command_explains_itself", every_command_explains_itself),
    ]);
}
