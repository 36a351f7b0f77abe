//! Bad input and a full disk: one line that says what to do.

use crate::common::{TINY, TestDirectory, eval, is_one_line_error};
use std::process::Command;

pub(crate) fn bad_input_is_one_line_and_a_failure() {
    let place = TestDirectory::new();
    let run =
        |arguments: &[&str]| eval().args(arguments).current_dir(place.0.path()).output().unwrap();
    is_one_line_error(&run(&["--plan", "nonsense"]), &["nonsense", "quick"]);
    let plan = place.plan(&TINY.replace("rate_mbit", "rate"));
    is_one_line_error(&run(&["--plan", plan.to_str().unwrap()]), &["rate", "line"]);
    for (added, named) in [
        ("[tune]\nby = \"tcp\"\nknobs = { grow = [\"on\"] }\n", "unknown knob 'grow'"),
        (
            "[source]\nold = \"Old\"\n[[said]]\nsource = \"old\"\nat = \"1\"\nfinding = \"none\"\nsays = \"It is.\"\n",
            "unknown finding 'none'",
        ),
    ] {
        let text = TINY.replacen(
            "seconds =",
            "tune = true\nseconds =",
            usize::from(named.contains("knob")),
        );
        let plan = place.plan(&format!("{text}\n{added}"));
        is_one_line_error(&run(&["--plan", plan.to_str().unwrap()]), &[named]);
    }
    std::fs::write(place.path("file"), "").unwrap();
    is_one_line_error(&run(&["--out", "file"]), &["file", "--out"]);
    let key = place.key("key", "a key of enough bytes");
    let key = key.to_str().unwrap();
    let peer = ["--peer", "127.0.0.1:1", "--key", key];
    is_one_line_error(&run(&[&peer[..], &["--nic", "nosuch0"]].concat()), &["nosuch0", "lo"]);
    is_one_line_error(
        &run(&[&peer[..], &["--nic", "lo"]].concat()),
        &["127.0.0.1:1", "gigae serve"],
    );
    is_one_line_error(
        &run(&["--peer", "127.0.0.1:1", "--key", "nokey", "--nic", "lo"]),
        &["nokey", "gigae key"],
    );
    place.key("short", "short");
    is_one_line_error(
        &run(&["--peer", "127.0.0.1:1", "--key", "short", "--nic", "lo"]),
        &["5 bytes"],
    );
    is_one_line_error(&run(&["--render", "file"]), &["file"]);
    let serve = Command::new(std::env::current_exe().unwrap())
        .args(["serve", "--nic", "lo", "--key", "nokey"])
        .output()
        .unwrap();
    is_one_line_error(&serve, &["nokey", "gigae key"]);
    assert_eq!(
        std::fs::read_dir(place.0.path()).unwrap().count(),
        4,
        "plan, file and two keys only"
    );
}

pub(crate) fn a_full_disk_is_one_line_and_leaves_no_half_written_file() {
    let place = TestDirectory::new();
    let disk = place.path("disk");
    std::fs::create_dir(&disk).unwrap();
    let mounted = Command::new("mount")
        .args(["-t", "tmpfs", "-o", "size=16k", "tmpfs"])
        .arg(&disk)
        .status()
        .unwrap();
    assert!(mounted.success());
    let fixture = place.path("results.json");
    std::fs::write(&fixture, gigae_eval_model::testing::first().to_json()).unwrap();
    let output = eval().arg("--render").arg(fixture).arg("--out").arg(&disk).output().unwrap();
    let left = std::fs::read_dir(&disk).unwrap().count();
    assert!(Command::new("umount").arg(&disk).status().unwrap().success());
    is_one_line_error(&output, &["No space left", "--out"]);
    assert_eq!(left, 0);
}
