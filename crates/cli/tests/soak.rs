//! Whole soaks on virtual networks: this test binary plays `gigae` for itself, called as `soak ...`
//! or `serve ...`; and the report as a pure function of a kept state.

mod program;

use gigae_eval_model::soak::DeviationKind;
use gigae_eval_model::traffic::STREAMS;
use gigae_eval_soak::report;
use gigae_eval_soak::saved::SavedSoak;
use gigae_eval_soak::services::report as services_report;
use gigae_eval_soak::services::state::ServiceSoak;
use gigae_eval_soak::state::{SoakState, SoakVerdict};
use gigae_fabric::{Fabric, testing, tests};
use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::process::{Child, Command, ExitCode, Output, Stdio};
use std::time::{Duration, Instant};

/// They start a server, which becomes another user.
const OF_ROOT: &[&str] = &[
    "machines_that_serve_are_soaked",
    "a_server_connects_to_no_address_that_a_client_names_and_ends_on_time",
];

fn main() -> ExitCode {
    if let Some(code) = program::play() {
        return code;
    }
    testing::for_users_except(OF_ROOT).run(tests![
        a_soak_passes_and_leaves_nothing_behind,
        a_killed_soak_goes_on_where_it_was_saved,
        a_link_that_flaps_is_reported_with_its_time,
        ctrl_c_ends_it_with_a_verdict_and_no_fabric,
        file_services_are_soaked_and_leave_nothing_behind,
        a_soak_of_file_services_is_interrupted_in_an_orderly_way_and_goes_on,
        machines_that_serve_are_soaked,
        a_server_connects_to_no_address_that_a_client_names_and_ends_on_time,
        bad_input_is_one_line_and_a_failure,
        the_report_is_a_pure_function_of_the_state,
        hostile_text_in_the_state_stays_text
    ]);
}

/// A directory for a soak, removed with its test.
struct SoakDirectory(tempfile::TempDir);

impl SoakDirectory {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    fn out(&self) -> PathBuf {
        self.0.path().join("out")
    }

    fn state(&self) -> SoakState {
        match SavedSoak::read(&self.out()) {
            Ok(SavedSoak::Messages(state)) => *state,
            other => panic!("{other:?}"),
        }
    }

    /// The program, with what can be said of its output.
    fn soak(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.arg("soak").args(arguments);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }

    /// A soak of two clients at a rate that leaves the CPUs to others.
    fn begin(&self, duration: &str) -> Child {
        let arguments = ["--clients", "2", "--rate", "30mbit", "--duration", duration, "--out"];
        self.soak(&arguments).arg(self.out()).spawn().unwrap()
    }

    /// Waits until a saved state shows that so much has run.
    fn wait_for(&self, seconds: f64) {
        let deadline = Instant::now() + Duration::from_secs(60);
        while SavedSoak::read(&self.out()).is_err() || self.state().elapsed < seconds {
            assert!(Instant::now() < deadline, "no state was saved");
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

fn says(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

fn both(output: &Output) -> String {
    says(&output.stdout) + &says(&output.stderr)
}

/// Fabrics that a process has left.
fn left_by(pid: u32) -> Vec<String> {
    let prefix = format!("ge{pid}-");
    Fabric::list().into_iter().filter(|name| name.starts_with(&prefix)).collect()
}

/// Every stream has brought something to every end, and nothing deviated.
fn is_whole(state: &SoakState, ends: usize) {
    assert_eq!((state.deviated(), state.ends.len()), (0, ends), "{:?}", state.deviations);
    for end in &state.ends {
        for stream in STREAMS {
            let amount = end.verified[stream as usize];
            assert!(amount.count > 0 && amount.bytes > 0, "{}: {}", end.name, stream.name());
        }
    }
}

fn a_soak_passes_and_leaves_nothing_behind() {
    let place = SoakDirectory::new();
    let child = place.begin("10s");
    let pid = child.id();
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success(), "{}", both(&output));
    let said = says(&output.stdout);
    assert!(said.starts_with("passed: ") && said.contains("no deviation"), "{}", both(&output));
    assert!(says(&output.stderr).contains("left, gigae "), "{}", both(&output));
    assert_eq!(left_by(pid), Vec::<String>::new());
    let state = place.state();
    is_whole(&state, 3);
    assert_eq!((state.verdict, state.rounds, state.complete_rounds), (SoakVerdict::Passed, 1, 1));
    // How many, the machine says.
    assert!(!state.points.is_empty() && state.gaps.is_empty());
    let page = std::fs::read_to_string(place.out().join("report.html")).unwrap();
    assert_eq!(page, report::html(&state), "what was written is the report of the state");
    assert!(std::fs::read_to_string(place.out().join("report.md")).unwrap().contains("Passed"));
    // What is over does not go on.
    let output = place.soak(&["--resume"]).arg(place.out()).output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert!(says(&output.stderr).contains("is over"), "{}", both(&output));
}

fn a_killed_soak_goes_on_where_it_was_saved() {
    let place = SoakDirectory::new();
    let mut child = place.begin("15s");
    place.wait_for(2.0);
    child.kill().unwrap();
    child.wait().unwrap();
    let killed = place.state();
    assert_eq!(killed.verdict, SoakVerdict::Running);
    assert!(killed.elapsed >= 2.0, "{}", killed.elapsed);
    // A new soak does not overwrite it by accident.
    let refused = place.soak(&["--out"]).arg(place.out()).output().unwrap();
    assert_eq!(refused.status.code(), Some(1));
    assert!(says(&refused.stderr).contains("--resume"), "{}", both(&refused));
    let output = place.soak(&["--resume"]).arg(place.out()).output().unwrap();
    assert!(output.status.success(), "{}", both(&output));
    let state = place.state();
    is_whole(&state, 3);
    assert_eq!((state.verdict, state.rounds, state.complete_rounds), (SoakVerdict::Passed, 2, 1));
    assert_eq!((state.gaps.len(), &state.gaps[0].from), (1, &killed.saved));
    // How late it ends beyond that is the machine's.
    assert!(state.elapsed >= 14.0, "{}", state.elapsed);
    for (now, then) in state.ends.iter().zip(&killed.ends) {
        assert!(now.verified[0].count > then.verified[0].count, "sums go on");
    }
    assert_eq!(left_by(child.id()), Vec::<String>::new(), "the next run cleans up");
}

fn a_link_that_flaps_is_reported_with_its_time() {
    /// An end that does not answer the other for ten seconds ends the round. TCP doubles its
    /// pauses: what it sends while the link is down arrives within twice that time, and a second.
    const SHORT: Duration = Duration::from_secs(4);
    let place = SoakDirectory::new();
    let child = place.begin("7s");
    place.wait_for(1.0);
    let fabric = Fabric::attach(&format!("ge{}-0", child.id())).unwrap();
    let set = |to: &str| {
        let mut ip = fabric.node(2).command("ip").unwrap();
        assert!(ip.args(["link", "set", "eth0", to]).status().unwrap().success());
    };
    let begin = Instant::now();
    set("down");
    std::thread::sleep(Duration::from_millis(200));
    set("up");
    // If the kernel takes so long that the soak ends before that, its network is gone.
    let is_short = fabric.await_links().is_ok() && begin.elapsed() < SHORT;
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(1), "{}", both(&output));
    let printed = says(&output.stderr);
    let state = place.state();
    assert_eq!(state.verdict, SoakVerdict::Deviated);
    if !is_short {
        return eprintln!("the link was down for too long to say more: {printed}");
    }
    assert!(
        printed.contains("first deviation, 20") && printed.contains("client 1: link: "),
        "{printed}"
    );
    let first = &state.deviations[0];
    assert_eq!((first.kind, first.end.as_str()), (DeviationKind::Link, "client 1"), "{first:?}");
    assert!(first.at >= 1.0 && first.at <= state.elapsed, "{first:?}");
    // The messages and the connections survive a flap: nothing else deviates.
    assert_eq!(
        state.counts.keys().collect::<Vec<_>>(),
        [&DeviationKind::Link],
        "{:?}",
        state.deviations
    );
    assert_eq!(state.complete_rounds, 1);
}

fn ctrl_c_ends_it_with_a_verdict_and_no_fabric() {
    let place = SoakDirectory::new();
    let child = place.begin("20s");
    place.wait_for(2.0);
    let pid = rustix::process::Pid::from_raw(child.id() as i32).unwrap();
    rustix::process::kill_process(pid, rustix::process::Signal::INT).unwrap();
    let number = child.id();
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(130), "{}", both(&output));
    let said = says(&output.stdout);
    assert!(said.starts_with("interrupted after ") && said.contains("no deviation"), "{said}");
    assert_eq!(left_by(number), Vec::<String>::new());
    let state = place.state();
    assert_eq!((state.verdict, state.complete_rounds), (SoakVerdict::Interrupted, 1));
}

fn machines_that_serve_are_soaked() {
    let fabric = testing::fabric("serve", |config| config.nodes = 3);
    let place = SoakDirectory::new();
    let key = place.0.path().join("key");
    gigae_eval_session::control::Key::create(&key).unwrap();
    let program = std::env::current_exe().unwrap();
    let start = |node| {
        let mut command = fabric.node(node).command(&program).unwrap();
        command.args(["serve", "--nic", "eth0", "--key"]).arg(&key);
        let mut child = command.stderr(Stdio::piped()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stderr.as_mut().unwrap()).read_line(&mut line).unwrap();
        assert!(line.contains("serving on"), "{line}");
        child
    };
    let mut serving = [start(2), start(3)];
    let mut command = fabric.node(1).command(&program).unwrap();
    command.args(["soak", "--peer", "198.18.0.2", "--peer", "198.18.0.3", "--nic", "eth0"]);
    command.args(["--rate", "30mbit", "--duration", "4s", "--key"]).arg(&key);
    let output = command.arg("--out").arg(place.out()).output().unwrap();
    for child in &mut serving {
        child.kill().unwrap();
        child.wait().unwrap();
    }
    assert!(output.status.success(), "{}", both(&output));
    is_whole(&place.state(), 3);
    assert_eq!(place.state().ends[1].name, "198.18.0.2");
}

fn a_server_connects_to_no_address_that_a_client_names_and_ends_on_time() {
    use gigae_eval_model::traffic::Traffic;
    use gigae_eval_session::control::{Key, Reply, Request, Soak, connect};
    let fabric = testing::fabric("third", |config| config.nodes = 3);
    let place = SoakDirectory::new();
    let file = place.0.path().join("key");
    Key::create(&file).unwrap();
    let mut command = fabric.node(2).command(std::env::current_exe().unwrap()).unwrap();
    command.args(["serve", "--nic", "eth0", "--key"]).arg(&file);
    let mut serving = command.stderr(Stdio::piped()).spawn().unwrap();
    let mut line = String::new();
    BufReader::new(serving.stderr.as_mut().unwrap()).read_line(&mut line).unwrap();
    // A third machine, and what came to it.
    let victim = std::thread::scope(|scope| {
        let bind = || {
            let _inside = fabric.node(3).enter().unwrap();
            std::net::TcpListener::bind("198.18.0.3:0").unwrap()
        };
        scope.spawn(bind).join().unwrap()
    });
    victim.set_nonblocking(true).unwrap();
    let _inside = fabric.node(1).enter().unwrap();
    let key = Key::read(&file).unwrap();
    let mut session = connect("198.18.0.2", &key, &mut |_| true).unwrap();
    // The address is the third machine's, also the one of frames; it has no endpoint there.
    let mut address = gigae_eval_measure::site::Site::find("eth0").unwrap().address(0);
    address.ip = "198.18.0.3".parse().unwrap();
    address.mac = [2, 0, 0, 0, 0, 3];
    let port = victim.local_addr().unwrap().port();
    let traffic = Traffic { seed: 1, round: 0, rate: 1e6, message: 1000 };
    let soak = Soak { traffic, number: 1, address, ports: vec![port; 3], key: 0, seconds: 1.0 };
    let wait = Duration::from_secs(60);
    let reply = session.ask(&Request::Soak(Box::new(soak)), wait).unwrap();
    assert!(matches!(reply, Reply::Soaking { .. }), "{reply:?}");
    let begin = std::time::Instant::now();
    let ended = loop {
        assert!(begin.elapsed() < Duration::from_secs(300), "the round does not end");
        match session.ask(&Request::Watch { quiet: false }, wait).unwrap() {
            Reply::Sample(sample) if sample.ended.is_some() => break sample.ended.unwrap(),
            Reply::Sample(_) => std::thread::sleep(Duration::from_millis(100)),
            other => panic!("{other:?}"),
        }
    };
    assert!(ended.contains("did not connect by TCP"), "{ended}");
    let came = victim.accept().map_err(|error| error.kind());
    assert_eq!(came.err(), Some(std::io::ErrorKind::WouldBlock), "the third machine was reached");
    // The round's time is over: whatever the client does, the server leaves it in half a minute.
    let over = loop {
        assert!(begin.elapsed() < Duration::from_secs(300), "the server does not leave the round");
        match session.ask(&Request::Watch { quiet: false }, wait) {
            Ok(Reply::Sample(_)) => std::thread::sleep(Duration::from_millis(500)),
            other => break other,
        }
    };
    assert!(over.is_err(), "{over:?}");
    serving.kill().unwrap();
    serving.wait().unwrap();
}

/// Directories of files that a process has left.
fn files_of(pid: u32) -> usize {
    let named = |entry: &std::fs::DirEntry| {
        entry.file_name().to_string_lossy().starts_with(&format!("gigae-files-{pid}-"))
    };
    std::fs::read_dir("/var/tmp").unwrap().flatten().filter(named).count()
}

fn services(place: &SoakDirectory, duration: &str) -> Child {
    let arguments = ["--services", "ftp,gigae", "--clients", "2", "--rate", "300mbit"];
    let mut command = place.soak(&arguments);
    command.args(["--duration", duration, "--out"]).arg(place.out()).env_remove("TMPDIR");
    command.spawn().unwrap()
}

fn service_state(place: &SoakDirectory) -> ServiceSoak {
    match SavedSoak::read(&place.out()) {
        Ok(SavedSoak::Services(state)) => *state,
        other => panic!("{other:?}"),
    }
}

fn file_services_are_soaked_and_leave_nothing_behind() {
    let place = SoakDirectory::new();
    let child = services(&place, "8s");
    let pid = child.id();
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success(), "{}", both(&output));
    assert!(says(&output.stdout).starts_with("passed: 8s, no deviation, "), "{}", both(&output));
    let state = service_state(&place);
    assert_eq!((state.verdict, state.deviated), (SoakVerdict::Passed, 0));
    for record in &state.services {
        assert!(record.copies.count > 0 && record.copies.bytes > 0, "{record:?}");
        assert!(record.starts == 1 && !record.version.is_empty(), "{record:?}");
        assert!(record.memory[1] > 0 && record.longest > 0.0, "{record:?}");
        assert_eq!(record.parts.iter().map(|part| part.count).sum::<u64>(), record.copies.count);
    }
    let page = std::fs::read_to_string(place.out().join("report.html")).unwrap();
    assert_eq!(page, services_report::html(&state), "what was written is the report of the state");
    assert_eq!((left_by(pid), files_of(pid)), (Vec::new(), 0));
}

/// Interrupts it when each service has verified further copies.
fn interrupt(place: &SoakDirectory, child: Child) -> ServiceSoak {
    let copies = |state: &ServiceSoak| -> Vec<u64> {
        state.services.iter().map(|record| record.copies.count).collect()
    };
    let before = match SavedSoak::read(&place.out()) {
        Ok(_) => copies(&service_state(place)),
        Err(_) => vec![0; 2],
    };
    let works = |state: &ServiceSoak| copies(state).iter().zip(&before).all(|(now, was)| now > was);
    let deadline = Instant::now() + Duration::from_secs(60);
    while SavedSoak::read(&place.out()).is_err() || !works(&service_state(place)) {
        assert!(Instant::now() < deadline, "no copy was verified");
        std::thread::sleep(Duration::from_millis(20));
    }
    let pid = child.id();
    let number = rustix::process::Pid::from_child(&child);
    rustix::process::kill_process(number, rustix::process::Signal::INT).unwrap();
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(130), "{}", both(&output));
    assert!(says(&output.stdout).starts_with("interrupted after "), "{}", both(&output));
    assert_eq!((left_by(pid), files_of(pid)), (Vec::new(), 0));
    service_state(place)
}

fn a_soak_of_file_services_is_interrupted_in_an_orderly_way_and_goes_on() {
    let place = SoakDirectory::new();
    let first = interrupt(&place, services(&place, "100s"));
    assert_eq!((first.verdict, first.gaps.len()), (SoakVerdict::Interrupted, 0));
    let again = place.soak(&["--services", "ftp", "--out"]).arg(place.out()).output().unwrap();
    assert!(says(&again.stderr).contains("go on with --resume"), "{}", both(&again));
    let view = place.soak(&["--tui", "--resume"]).arg(place.out()).output().unwrap();
    assert!(says(&view.stderr).contains("no live view"), "{}", both(&view));
    let child = place.soak(&["--resume"]).arg(place.out()).env_remove("TMPDIR").spawn().unwrap();
    let second = interrupt(&place, child);
    assert_eq!((second.verdict, second.gaps.len()), (SoakVerdict::Interrupted, 1));
    assert!(second.elapsed > first.elapsed);
    assert_eq!((&second.settings, &second.started), (&first.settings, &first.started));
    for (now, was) in second.services.iter().zip(&first.services) {
        assert!(now.turns > was.turns && now.starts == 2, "{now:?}");
    }
}

fn bad_input_is_one_line_and_a_failure() {
    let place = SoakDirectory::new();
    let fails = |arguments: &[&str], part: &str| {
        let output = place.soak(arguments).arg("--out").arg(place.out()).output().unwrap();
        let said = says(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{said}");
        assert!(said.starts_with("gigae: ") && said.contains(part), "{said}");
        assert_eq!(said.lines().count(), 1, "{said}");
        assert!(!place.out().exists());
    };
    fails(&["--rate", "much"], "200mbit");
    fails(&["--rate", "1mbit"], "--rate");
    fails(&["--services", "ftp,tftp"], "no file service 'tftp'; choose some of ftp, smb");
    fails(&["--services", "ftp,lftp"], "'ftp' and 'lftp' have the same server");
    fails(&["--peer", "198.18.0.9", "--nic", "lo", "--key", "/nonexistent"], "key file");
    fails(
        &["--peer", "127.0.0.1:1", "--nic", "nosuch0", "--key", "/dev/null"],
        "accessible to every user",
    );
    let nowhere = place.soak(&["--resume"]).arg(place.out()).output().unwrap();
    assert!(says(&nowhere.stderr).contains("name the directory"), "{}", both(&nowhere));
    let wrong = place.soak(&["--duration", "soon"]).output().unwrap();
    assert_eq!(wrong.status.code(), Some(2));
    assert!(says(&wrong.stderr).contains("30d"), "{}", both(&wrong));
}

const FIXTURE: &str = include_str!("../../eval/model/fixtures/soak.json");

fn the_report_is_a_pure_function_of_the_state() {
    let state = SoakState::parse(FIXTURE).unwrap();
    assert_eq!(SoakState::parse(&state.to_json()).as_ref(), Ok(&state));
    let (page, text) = (report::html(&state), report::markdown(&state));
    assert_eq!((&page, &text), (&report::html(&state), &report::markdown(&state)));
    assert!(page.len() < 300_000, "{} bytes", page.len());
    // One file that needs no network, with one script.
    for wrong in ["http://", "https://", "src=", "@import", "url("] {
        assert!(!page.contains(wrong), "{wrong}");
    }
    assert_eq!(page.matches("<script").count(), 1);
    assert!(!page.contains("NaN") && !page.contains("inf,"));
    for said in [&page, &text] {
        for part in ["Deviated: ", "client 1", "link", "What was verified", "did not run", "seed"] {
            assert!(said.contains(part), "{part}");
        }
        for deviation in &state.deviations {
            assert!(said.contains(&deviation.utc), "{deviation:?}");
        }
        assert!(said.contains(&state.gaps[0].from));
    }
}

fn hostile_text_in_the_state_stays_text() {
    let mut state = SoakState::parse(FIXTURE).unwrap();
    let hostile = "<script>alert(1)</script>|\n# x";
    state.deviations[0].what = hostile.into();
    state.command = hostile.into();
    state.conditions.nic = hostile.into();
    state.remarks.push(hostile.into());
    state.ends[0].name = hostile.into();
    let (page, text) = (report::html(&state), report::markdown(&state));
    assert!(page.matches("<script").count() == 1 && !text.contains("<script"));
    assert!(!text.contains("\n# x"), "a line of its own would be a heading");
}
