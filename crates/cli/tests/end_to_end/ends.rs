//! Runs that are interrupted or killed.

use crate::common::{PATIENCE, TINY, TestDirectory, eval, is_one_line_error, left_by};
use gigae_host::proc::process::is_alive;
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

/// A run that is certainly still measuring a second after its network is up.
fn long_run(place: &TestDirectory) -> Child {
    let plan = TINY.replacen("seconds = 0.2", "seconds = 20.0", 1);
    let child = eval()
        .arg("--plan")
        .arg(place.plan(&plan))
        .arg("--out")
        .arg(place.path("out"))
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let deadline = Instant::now() + PATIENCE;
    while left_by(child.id()).is_empty() {
        assert!(Instant::now() < deadline, "its network never came up");
        std::thread::sleep(Duration::from_millis(20));
    }
    std::thread::sleep(Duration::from_secs(1));
    child
}

fn signal(child: &Child, signal: rustix::process::Signal) {
    let pid = rustix::process::Pid::from_child(child);
    rustix::process::kill_process(pid, signal).unwrap();
}

pub(crate) fn ctrl_c_in_mid_run_leaves_nothing_behind() {
    let place = TestDirectory::new();
    let child = long_run(&place);
    let pid = child.id();
    signal(&child, rustix::process::Signal::INT);
    let begin = Instant::now();
    let output = child.wait_with_output().unwrap();
    assert!(begin.elapsed() < PATIENCE, "it did not stop");
    is_one_line_error(&output, &["interrupted"]);
    assert_eq!(output.status.code(), Some(130));
    assert_eq!(left_by(pid), Vec::<String>::new());
    assert!(!place.path("out").exists(), "results were begun");
}

pub(crate) fn a_killed_run_takes_its_serving_process_along_and_the_next_run_cleans_up() {
    let place = TestDirectory::new();
    let mut child = long_run(&place);
    let pid = child.id();
    let begin = Instant::now();
    while children(pid).len() != 1 {
        assert!(begin.elapsed() < PATIENCE, "one serving process: {:?}", children(pid));
        std::thread::sleep(Duration::from_millis(10));
    }
    let serving = children(pid);
    child.kill().unwrap();
    child.wait().unwrap();
    let deadline = Instant::now() + PATIENCE;
    while is_alive(serving[0]) {
        assert!(Instant::now() < deadline, "the serving process outlived its parent");
        std::thread::sleep(Duration::from_millis(10));
    }
    // After kill -9 only the next run can clean up. What the killed run created was still there.
    let next = eval()
        .args(["--plan"])
        .arg(place.plan(TINY))
        .arg("--out")
        .arg(place.path("out"))
        .output()
        .unwrap();
    assert!(next.status.success(), "{}", String::from_utf8_lossy(&next.stderr));
    assert_eq!(left_by(pid), Vec::<String>::new());
}

fn children(pid: u32) -> Vec<u32> {
    let text = std::fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).unwrap();
    text.split_whitespace().map(|number| number.parse().unwrap()).collect()
}
