//! Fabrics in real network namespaces: they carry frames, shape and impair them as asked, and go
//! away without a trace, whatever happened to the process that created them.

mod delay;
mod impairments;
mod outage;
mod ping;

use std::collections::BTreeMap;
use std::fs;
use std::io::ErrorKind;
use std::net::{IpAddr, UdpSocket};
use std::process::{Command, Stdio};
use std::time::Duration;

use gigae_fabric::{Fabric, FabricConfig, FabricError, Rate, testing};

/// Longer than anything takes here; reached only when a test fails.
const PATIENCE: Duration = Duration::from_secs(300);

/// Set for the copy of this program that creates a fabric in order to be killed.
const VICTIM: &str = "GIGAE_FABRIC_TEST_VICTIM";

/// The delay of its fabric, if it is to have one.
const VICTIM_DELAY: &str = "GIGAE_FABRIC_TEST_DELAY";

/// They load a program of BPF.
const OF_ROOT: &[&str] = &[
    "jumbo_frames_pass_a_shaped_and_impaired_switch",
    "one_seed_has_one_loss_pattern_and_another_seed_another",
    "every_missing_datagram_was_counted_as_dropped",
    "a_duplicated_datagram_arrives_twice",
    "corruption_is_caught_by_the_udp_checksum",
    "tcp_delivers_what_was_sent_over_a_corrupting_fabric",
    "impairments_change_on_a_standing_fabric",
    "the_status_is_a_table_of_the_nodes",
    "loss_and_rate_hold_on_a_fabric_with_a_delay",
];

fn main() {
    // The forwarder of a victim has its environment.
    gigae_fabric::become_forwarder();
    if let Ok(prefix) = std::env::var(VICTIM) {
        create_and_wait_to_be_killed(prefix);
    }
    testing::for_users_except(OF_ROOT).run(&[
        ("echo_requests_are_answered_over_ipv4_and_ipv6", pings_pass as fn()),
        ("arp_still_answers_when_the_neighbour_entry_is_gone", arp_answers),
        ("sixty_four_nodes_reach_each_other", sixty_four_nodes),
        ("missing_capabilities_are_an_error_of_one_line", missing_capabilities),
        ("without_privileges_tests_are_skipped_and_under_ci_they_fail", skips_fail_under_ci),
        ("an_ordinary_user_runs_all_tests_but_those_that_need_root", a_user_runs_most),
        ("nodes_are_found_by_number_and_by_name", nodes_are_found),
        ("two_fabrics_of_different_prefixes_coexist", two_fabrics_coexist),
        ("a_dropped_fabric_leaves_nothing", a_dropped_fabric_leaves_nothing),
        ("a_kept_fabric_is_found_again_and_taken_down_twice", a_kept_fabric_is_found_again),
        ("a_killed_owner_leaves_a_fabric_that_down_removes", a_killed_owner),
        ("a_kill_at_any_moment_of_up_leaves_nothing_after_down", a_kill_at_any_moment),
        ("a_foreign_namespace_survives_up_and_down", a_foreign_namespace_survives),
        ("a_prefix_in_use_is_refused", a_prefix_in_use_is_refused),
        ("a_process_inside_is_named_and_not_ended", a_process_inside_is_named),
        ("a_thread_leaves_the_node_when_the_guard_drops", a_thread_leaves_the_node),
        ("a_command_runs_in_the_node_and_sees_the_callers_mounts", a_command_runs_in_the_node),
        ("the_bucket_holds_frames_back_at_the_link_rate", the_bucket_holds_frames_back),
        ("the_bucket_charges_the_bytes_of_a_real_wire", the_bucket_charges_a_real_wire),
        ("a_full_buffer_drops_and_counts", a_full_buffer_drops_and_counts),
        ("no_frame_is_longer_than_the_mtu", no_frame_is_longer_than_the_mtu),
        ("nodes_with_mtus_of_their_own_share_a_switch", nodes_with_mtus_of_their_own),
        ("a_switch_with_a_lesser_mtu_is_a_black_hole", a_switch_with_a_lesser_mtu),
        ("jumbo_frames_pass_a_shaped_and_impaired_switch", jumbo_frames_pass_all),
        ("a_shaped_link_carries_tcp_one_frame_at_a_time", tcp_goes_one_frame_at_a_time),
        ("one_seed_has_one_loss_pattern_and_another_seed_another", impairments::seeds_and_patterns),
        ("every_missing_datagram_was_counted_as_dropped", impairments::losses_are_counted),
        ("a_duplicated_datagram_arrives_twice", impairments::duplicates_arrive_twice),
        ("corruption_is_caught_by_the_udp_checksum", impairments::corruption_is_caught),
        (
            "tcp_delivers_what_was_sent_over_a_corrupting_fabric",
            impairments::tcp_survives_corruption,
        ),
        ("impairments_change_on_a_standing_fabric", impairments::impairments_change),
        ("the_status_is_a_table_of_the_nodes", the_status_is_a_table),
        ("an_echo_takes_twice_the_delay_at_least", delay::echoes),
        ("frames_that_wait_keep_their_order", delay::order),
        ("what_finds_no_room_in_the_queue_is_dropped_and_counted", delay::bound),
        ("tcp_delivers_what_was_sent_over_a_delay_in_long_pieces", delay::tcp),
        ("broadcasts_and_unknown_addresses_reach_all_nodes_over_a_delay", delay::floods),
        ("every_network_of_a_fabric_has_the_delay", delay::networks),
        ("loss_and_rate_hold_on_a_fabric_with_a_delay", delay::loss_and_rate),
        ("the_forwarder_goes_with_the_fabric", delay::forwarder_goes),
        ("a_kept_forwarder_goes_on_until_the_fabric_is_taken_down", delay::kept),
        ("a_killed_owner_takes_the_forwarder_with_it", delay::killed_owner),
        ("a_fabric_says_that_its_forwarder_has_ended", delay::dead_forwarder),
        ("a_frame_too_long_for_its_port_counts_as_failed", delay::too_long),
        ("a_port_is_down_in_the_middle_of_work_and_up_afterwards", outage::meets_what_goes_on),
        ("an_outage_ends_with_the_work_that_it_disturbs", outage::ends_with_its_work),
        ("work_that_has_ended_meets_no_outage", outage::is_left_out_after_the_end),
        ("a_port_that_stays_down_is_an_error_of_one_line", outage::says_that_the_port_stays_down),
    ]);
}

/// A UDP socket inside node `number`; it stays in the node after the thread has left.
fn socket(fabric: &Fabric, number: u16) -> UdpSocket {
    let node = fabric.node(number);
    let _inside = node.enter().unwrap();
    let socket = UdpSocket::bind((node.ipv4, 4000)).unwrap();
    socket.set_read_timeout(Some(PATIENCE)).unwrap();
    socket
}

/// The last datagram of a run: sent again until it comes through, so that its arrival says that
/// everything before it has arrived or is lost.
const LAST: u32 = u32::MAX;

/// Sends `count` numbered datagrams of `size` bytes from node 1 to node 2, a few at a time, and
/// returns how often each arrived. Sends from one CPU: the kernel keeps the order of frames only
/// per CPU.
fn arrivals(fabric: &Fabric, count: u32, size: usize) -> BTreeMap<u32, u32> {
    gigae_host::affinity::pin(rustix::thread::sched_getcpu()).unwrap();
    let (from, to) = (socket(fabric, 1), socket(fabric, 2));
    let target = to.local_addr().unwrap();
    let mut seen = BTreeMap::new();
    to.set_nonblocking(true).unwrap();
    for number in 0..count {
        from.send_to(&datagram(number, size), target).unwrap();
        receive(&to, size, &mut seen);
    }
    let deadline = std::time::Instant::now() + PATIENCE;
    while !seen.contains_key(&LAST) {
        assert!(std::time::Instant::now() < deadline, "nothing came through");
        from.send_to(&datagram(LAST, size), target).unwrap();
        std::thread::sleep(Duration::from_millis(1));
        receive(&to, size, &mut seen);
    }
    seen.remove(&LAST);
    seen
}

fn datagram(number: u32, size: usize) -> Vec<u8> {
    let mut bytes = vec![0x5a; size];
    bytes[..4].copy_from_slice(&number.to_be_bytes());
    bytes
}

fn receive(socket: &UdpSocket, size: usize, seen: &mut BTreeMap<u32, u32>) {
    let mut bytes = vec![0; 65_536];
    loop {
        match socket.recv(&mut bytes) {
            Ok(length) => {
                let number = u32::from_be_bytes(bytes[..4].try_into().unwrap());
                assert_eq!(bytes[..length], datagram(number, size), "a changed datagram arrived");
                *seen.entry(number).or_default() += 1;
            }
            Err(error) if error.kind() == ErrorKind::WouldBlock => return,
            Err(error) => panic!("{error}"),
        }
    }
}

/// What there is under a prefix: names of namespaces and the state file.
fn traces(prefix: &str) -> Vec<String> {
    let list = |directory: &str| {
        let entries = fs::read_dir(directory).into_iter().flatten().flatten();
        entries.map(|entry| entry.path().display().to_string()).collect::<Vec<_>>()
    };
    let all = [list("/run/netns"), list("/run/gigae-fabric")].concat();
    all.into_iter().filter(|path| path.rsplit('/').next().unwrap().starts_with(prefix)).collect()
}

fn ip(args: &[&str]) -> bool {
    Command::new("ip").args(args).stderr(Stdio::null()).status().unwrap().success()
}

fn pings_pass() {
    let fabric = testing::fabric("pings", |config| config.nodes = 3);
    for (from, to) in [(1, 2), (2, 1), (1, 3), (3, 2)] {
        let _inside = fabric.node(from).enter().unwrap();
        assert!(ping::answers(IpAddr::V4(fabric.node(to).ipv4)), "IPv4 {from} to {to}");
        assert!(ping::answers(IpAddr::V6(fabric.node(to).ipv6)), "IPv6 {from} to {to}");
    }
}

fn arp_answers() {
    let fabric = testing::fabric("arp", |_| ());
    let flush = ["-n", &fabric.node(1).name, "neighbour", "flush", "nud", "permanent"];
    assert!(ip(&flush));
    let _inside = fabric.node(1).enter().unwrap();
    assert!(ping::answers(IpAddr::V4(fabric.node(2).ipv4)));
    assert!(ping::answers(IpAddr::V6(fabric.node(2).ipv6)));
}

fn sixty_four_nodes() {
    let fabric = testing::fabric("64 nodes", |config| config.nodes = 64);
    let _inside = fabric.node(64).enter().unwrap();
    for to in [1, 33, 63] {
        assert!(ping::answers(IpAddr::V4(fabric.node(to).ipv4)), "node {to}");
        assert!(ping::answers(IpAddr::V6(fabric.node(to).ipv6)), "node {to}");
    }
}

fn missing_capabilities() {
    use rustix::thread::{CapabilitySet, capabilities, set_capabilities};
    // Capabilities belong to threads; this one ends with what it has lost.
    let refused = std::thread::spawn(|| {
        let mut sets = capabilities(None).unwrap();
        sets.effective -= CapabilitySet::SYS_ADMIN;
        set_capabilities(None, sets).unwrap();
        let prefix = testing::prefix();
        let config = FabricConfig { prefix: prefix.clone(), ..Default::default() };
        (Fabric::up(config).unwrap_err(), Fabric::down(&prefix).unwrap_err(), traces(&prefix))
    });
    let (up, down, traces) = refused.join().unwrap();
    for error in [up, down] {
        assert!(matches!(error, FabricError::Privileges), "{error}");
        assert!(!error.to_string().contains('\n') && error.to_string().contains("sudo"));
    }
    assert_eq!(traces, Vec::<String>::new());
}

/// One test of this program, started through others.
fn run_one(through: &[&str], test: &str, settings: &[(&str, &str)]) -> (bool, String) {
    let mut command = Command::new(through[0]);
    command.args(&through[1..]).arg(std::env::current_exe().unwrap()).args(["--exact", test]);
    command.env_remove("CI").env_remove("GIGAE_TEST_AS_USER").envs(settings.iter().copied());
    let output = command.output().unwrap();
    (output.status.success(), String::from_utf8_lossy(&output.stdout).into_owned())
}

/// Begins a program without any capability but the one that the kernel asks of root, though of
/// no one else, for a user namespace.
const WITHOUT: [&str; 3] = ["setpriv", "--bounding-set=-all,+setfcap", "--inh-caps=-all"];

fn skips_fail_under_ci() {
    // Where no user namespace can be made.
    const FORBIDDING: &str = "echo 0 >/proc/sys/user/max_user_namespaces && exec \"$@\"";
    let outer = ["unshare", "--user", "--map-root-user", "sh", "-c", FORBIDDING, "sh"];
    let run = |settings| {
        let through = [&outer[..], &WITHOUT].concat();
        run_one(&through, "nodes_are_found_by_number_and_by_name", settings)
    };
    let (good, said) = run(&[]);
    assert!(good && said.contains("0 passed; 0 failed; 1 ignored"), "{said}");
    assert!(said.contains("user.max_user_namespaces is 0; run this as root"), "{said}");
    assert!(!run(&[("CI", "1")]).0);
}

fn a_user_runs_most() {
    let (good, said) = run_one(&WITHOUT, "nodes_are_found_by_number_and_by_name", &[("CI", "1")]);
    assert!(good && said.contains("1 passed; 0 failed; 0 ignored"), "{said}");
    for (settings, outcome) in [
        (&[][..], "0 passed; 0 failed; 1 ignored"),
        (&[("CI", "1")], "0 passed; 1 failed; 0 ignored"),
        (&[("CI", "1"), ("GIGAE_TEST_AS_USER", "1")], "0 passed; 0 failed; 1 ignored"),
    ] {
        let (_, said) = run_one(&WITHOUT, "a_duplicated_datagram_arrives_twice", settings);
        assert!(said.contains(outcome) && said.contains("it needs root"), "{said}");
    }
}

fn nodes_are_found() {
    let fabric = testing::fabric("find", |_| ());
    let second = fabric.node(2);
    for name in ["2", "n2", &second.name] {
        assert_eq!(fabric.find(name).unwrap(), second);
    }
    for name in ["0", "3", "n02", "", "sw"] {
        let message = fabric.find(name).unwrap_err().to_string();
        assert!(message.contains("n1 to n2"), "{message}");
    }
}

fn two_fabrics_coexist() {
    let (one, other) = (testing::fabric("one", |_| ()), testing::fabric("other", |_| ()));
    // The addresses are the same; the datagrams stay apart.
    let (from, to, elsewhere) = (socket(&one, 1), socket(&one, 2), socket(&other, 2));
    from.send_to(b"one", to.local_addr().unwrap()).unwrap();
    assert_eq!(to.recv(&mut [0; 9]).unwrap(), 3);
    elsewhere.set_nonblocking(true).unwrap();
    assert_eq!(elsewhere.recv(&mut [0; 9]).unwrap_err().kind(), ErrorKind::WouldBlock);
    drop(one);
    assert_eq!(arrivals_on(&other, elsewhere), 5, "taking one down does not touch the other");
}

fn arrivals_on(fabric: &Fabric, to: UdpSocket) -> usize {
    to.set_nonblocking(false).unwrap();
    socket(fabric, 1).send_to(b"other", to.local_addr().unwrap()).unwrap();
    to.recv(&mut [0; 9]).unwrap()
}

fn a_dropped_fabric_leaves_nothing() {
    let fabric = testing::fabric("dropped", |config| config.rate = Some(Rate::GIGABIT));
    let prefix = fabric.config().prefix.clone();
    assert_eq!(traces(&prefix).len(), 4, "switch, two nodes and the state file");
    drop(fabric);
    assert_eq!(traces(&prefix), Vec::<String>::new());
}

fn a_kept_fabric_is_found_again() {
    let mut fabric = testing::fabric("kept", |config| config.mtu = 9000);
    fabric.keep().unwrap();
    let (prefix, config) = (fabric.config().prefix.clone(), fabric.config().clone());
    drop(fabric);
    assert_eq!(Fabric::attach(&prefix).unwrap().config(), &config);
    assert!(Fabric::list().contains(&prefix));
    assert_eq!(Fabric::down(&prefix).unwrap().removed.len(), 3);
    assert_eq!(Fabric::down(&prefix).unwrap().removed.len(), 0);
    assert!(matches!(Fabric::attach(&prefix), Err(FabricError::Absent { .. })));
    assert_eq!(traces(&prefix), Vec::<String>::new());
}

/// Runs in a copy of this program.
fn create_and_wait_to_be_killed(prefix: String) -> ! {
    let delay = std::env::var(VICTIM_DELAY).ok().map(|text| text.parse().unwrap());
    let rate = Some(Rate::GIGABIT);
    let config = FabricConfig { prefix, nodes: 3, rate, delay, ..Default::default() };
    let _fabric = Fabric::up(config).unwrap();
    println!("up");
    loop {
        std::thread::park();
    }
}

fn victim(prefix: &str) -> Command {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.env(VICTIM, prefix).stdout(Stdio::piped()).stderr(Stdio::null());
    command
}

fn a_killed_owner() {
    let prefix = testing::prefix();
    let mut child = victim(&prefix).spawn().unwrap();
    let mut said = [0; 3];
    std::io::Read::read_exact(child.stdout.as_mut().unwrap(), &mut said).unwrap();
    let spared = Fabric::down_abandoned().unwrap();
    assert!(!spared.iter().any(|down| down.removed.contains(&format!("{prefix}-sw"))));
    assert_eq!(traces(&prefix).len(), 5, "switch, three nodes and the state file");
    // It cannot clean up. The next process that looks for abandoned fabrics does.
    child.kill().unwrap();
    child.wait().unwrap();
    Fabric::down_abandoned().unwrap();
    assert_eq!(traces(&prefix), Vec::<String>::new());
}

fn a_kill_at_any_moment() {
    // Laying takes some 30 ms; whatever was made by the moment of the kill must go.
    for after in (0..40).step_by(4) {
        let prefix = testing::prefix();
        let mut child = victim(&prefix).spawn().unwrap();
        std::thread::sleep(Duration::from_millis(after));
        child.kill().unwrap();
        child.wait().unwrap();
        Fabric::down(&prefix).unwrap();
        assert_eq!(traces(&prefix), Vec::<String>::new(), "killed after {after} ms");
    }
}

fn a_foreign_namespace_survives() {
    let prefix = testing::prefix();
    let foreign = format!("{prefix}-n2");
    assert!(ip(&["netns", "add", &foreign]));
    let config = FabricConfig { prefix: prefix.clone(), ..Default::default() };
    let up = Fabric::up(config).unwrap_err().to_string();
    let down = Fabric::down(&prefix).unwrap_err().to_string();
    let survived = traces(&prefix);
    assert!(ip(&["netns", "delete", &foreign]));
    for message in [up, down] {
        assert!(message.contains(&foreign) && message.contains("not made by gigae"), "{message}");
        assert!(!message.contains('\n'), "{message}");
    }
    assert_eq!(survived, [format!("/run/netns/{foreign}")]);
}

fn a_prefix_in_use_is_refused() {
    let fabric = testing::fabric("in use", |_| ());
    let prefix = fabric.config().prefix.clone();
    let again = Fabric::up(fabric.config().clone()).unwrap_err();
    assert!(matches!(again, FabricError::InUse { .. }), "{again}");
    assert_eq!(traces(&prefix).len(), 4, "the standing fabric is untouched");
}

fn a_process_inside_is_named() {
    let mut fabric = testing::fabric("process", |_| ());
    fabric.keep().unwrap();
    let mut sleeper = fabric.node(2).command("sleep").unwrap().arg("60").spawn().unwrap();
    let status = fabric.status().unwrap();
    let down = Fabric::down(&fabric.config().prefix).unwrap();
    let still_runs = sleeper.try_wait().unwrap().is_none();
    sleeper.kill().unwrap();
    sleeper.wait().unwrap();
    assert!(still_runs, "down must not end it");
    for processes in [status.processes, down.left_running] {
        assert_eq!(processes.len(), 1);
        assert_eq!(processes[0].pid, sleeper.id());
        assert_eq!(processes[0].namespace, fabric.node(2).name);
    }
    assert_eq!(traces(&fabric.config().prefix), Vec::<String>::new());
}

fn a_thread_leaves_the_node() {
    let fabric = testing::fabric("enter", |_| ());
    let interfaces = || fs::read_to_string("/proc/thread-self/net/dev").unwrap();
    let before = fs::read_link("/proc/thread-self/ns/net").unwrap();
    {
        let _inside = fabric.node(1).enter().unwrap();
        assert!(interfaces().contains("eth0:"));
        let _deeper = fabric.node(2).enter().unwrap();
        assert_ne!(fs::read_link("/proc/thread-self/ns/net").unwrap(), before);
    }
    assert_eq!(fs::read_link("/proc/thread-self/ns/net").unwrap(), before);
}

fn a_command_runs_in_the_node() {
    let fabric = testing::fabric("command", |_| ());
    let script = "readlink /proc/self/ns/net /proc/self/ns/mnt";
    let run = |mut command: Command| {
        let output = command.args(["-c", script]).output().unwrap();
        String::from_utf8(output.stdout).unwrap().lines().map(str::to_owned).collect::<Vec<_>>()
    };
    let inside = run(fabric.node(1).command("sh").unwrap());
    let outside = run(Command::new("sh"));
    assert_ne!(inside[0], outside[0]);
    assert_eq!(inside[1], outside[1]);
}

fn the_bucket_holds_frames_back() {
    let rate: Rate = "8mbit".parse().unwrap();
    let fabric = testing::fabric("rate", |config| (config.rate, config.burst) = (Some(rate), 4096));
    let begin = std::time::Instant::now();
    // 100 frames of 1042 bytes at 1 MB/s: the first four or so pass at once, the rest must wait.
    let seen = arrivals(&fabric, 100, 1000);
    let took = begin.elapsed();
    assert_eq!(seen.len(), 100);
    let port = fabric.port_counters().unwrap()[1];
    assert!(port.overlimits > 0, "{port:?}");
    assert_eq!(port.dropped, 0);
    // A lower bound, which no busy machine can break.
    let least = (100.0 * 1066.0 - 4096.0) / rate.bytes();
    assert!(took.as_secs_f64() >= least, "{took:?} is faster than the link");
}

fn the_bucket_charges_a_real_wire() {
    let fabric = testing::fabric("wire", |config| config.rate = Some(Rate::GIGABIT));
    let switch = format!("{}-sw", fabric.config().prefix);
    let output = Command::new("tc").args(["-n", &switch, "-details", "qdisc", "show"]).output();
    let shown = String::from_utf8(output.unwrap().stdout).unwrap();
    let buckets: Vec<&str> = shown.lines().filter(|line| line.contains(" tbf ")).collect();
    assert_eq!(buckets.len(), 2, "{shown}");
    for bucket in buckets {
        for word in ["rate 1Gbit", "overhead 24", "mpu 84b"] {
            assert!(bucket.contains(word), "{bucket}");
        }
    }
}

fn a_full_buffer_drops_and_counts() {
    let fabric = testing::fabric("buffer", |config| {
        config.rate = Some("8mbit".parse().unwrap());
        (config.burst, config.buffer) = (4096, 8192);
    });
    let seen = arrivals(&fabric, 200, 1000);
    let port = fabric.port_counters().unwrap()[1];
    let missing = 200 - seen.len() as u64;
    assert!(missing > 100, "{missing}");
    // The closing datagrams may have met a full buffer as well.
    assert!(port.dropped >= missing, "{port:?}, {missing} missing");
}

fn no_frame_is_longer_than_the_mtu() {
    let fabric = testing::fabric("mtu", |config| config.mtu = 2000);
    let (from, to) = (socket(&fabric, 1), socket(&fabric, 2));
    let target = to.local_addr().unwrap();
    let before = fabric.port_counters().unwrap()[1];
    // 20 bytes of IPv4 and 8 of UDP: the largest datagram in one frame, and one byte more.
    from.send_to(&[1; 1972], target).unwrap();
    assert_eq!(to.recv(&mut [0; 4000]).unwrap(), 1972);
    let whole = fabric.port_counters().unwrap()[1];
    from.send_to(&[1; 1973], target).unwrap();
    assert_eq!(to.recv(&mut [0; 4000]).unwrap(), 1973);
    let split = fabric.port_counters().unwrap()[1];
    assert_eq!((whole.frames - before.frames, whole.bytes - before.bytes), (1, 2014));
    assert_eq!(split.frames - whole.frames, 2);
}

/// Sends datagrams of these sizes from one node to another; the sizes that arrive, the last of
/// which must.
fn passing(fabric: &Fabric, from: u16, to: u16, sizes: &[usize]) -> Vec<usize> {
    let (from, to) = (socket(fabric, from), socket(fabric, to));
    for &size in sizes {
        from.send_to(&vec![1; size], to.local_addr().unwrap()).unwrap();
    }
    let mut arrived = Vec::new();
    while arrived.last() != sizes.last() {
        arrived.push(to.recv(&mut [0; 65_536]).unwrap());
    }
    arrived
}

/// 28 bytes of IPv4 and UDP make the datagrams as long as an MTU.
fn nodes_with_mtus_of_their_own() {
    let fabric = testing::fabric("mtus", |config| {
        (config.nodes, config.mtu, config.node_mtus) = (4, 9000, vec![9000, 1500]);
    });
    assert!(fabric.status().unwrap().to_string().contains("MTU 9000 1500 9000"));
    let before = fabric.port_counters().unwrap();
    assert_eq!(passing(&fabric, 1, 3, &[8972, 100]), [8972, 100]);
    assert_eq!(passing(&fabric, 3, 4, &[8972, 100]), [8972, 100]);
    assert_eq!(passing(&fabric, 1, 2, &[1472, 8972, 100]), [1472, 100]);
    let after = fabric.port_counters().unwrap();
    assert_eq!(after[2].bytes - before[2].bytes, 9014 + 142, "one frame for each datagram");
    assert_eq!(after[1].bytes - before[1].bytes, 1514 + 142, "the long one never left");
    // The node with the lesser MTU cuts its datagrams in pieces itself.
    assert_eq!(passing(&fabric, 2, 1, &[8972, 100]), [8972, 100]);
}

fn a_switch_with_a_lesser_mtu() {
    let fabric = testing::fabric("black hole", |config| {
        (config.mtu, config.switch_mtu) = (9000, Some(4000));
    });
    assert!(fabric.status().unwrap().to_string().contains("MTU 9000 (switch 4000)"));
    for (from, to) in [(1, 2), (2, 1)] {
        assert_eq!(passing(&fabric, from, to, &[3972, 3977, 8972, 100]), [3972, 100]);
    }
}

fn jumbo_frames_pass_all() {
    let fabric = testing::fabric("jumbo", |config| {
        (config.mtu, config.rate) = (9000, Some(Rate::GIGABIT));
        (config.loss, config.duplicate, config.corrupt, config.seed) = (0.1, 0.1, 0.1, 7);
    });
    const COUNT: u32 = 300;
    // What arrives is compared byte by byte; the kernel drops what was corrupted.
    let seen = arrivals(&fabric, COUNT, 8972);
    let counters = fabric.impairment_counters().unwrap()[1];
    assert!(counters.seen >= COUNT.into() && counters.dropped > 0, "{counters:?}");
    assert!(counters.duplicated > 0 && counters.corrupted > 0, "{counters:?}");
    let lost = COUNT as usize - seen.len();
    assert!(seen.len() > 200 && lost > 0, "{} of {COUNT}", seen.len());
    let twice = seen.values().filter(|&&times| times == 2).count();
    assert!(twice > 0 && seen.values().all(|&times| times <= 2), "{twice}");
    let port = fabric.port_counters().unwrap()[1];
    assert_eq!((port.dropped, port.queued), (0, 0), "the bucket is large enough");
    assert!(port.bytes >= seen.len() as u64 * 9014, "{port:?}: whole frames");
}

/// Sends `count` bytes from node 1 to node 2 over TCP; true when they arrived unchanged.
fn tcp_delivers(fabric: &Fabric, count: usize) -> bool {
    use std::io::{Read, Write};
    let bytes: Vec<u8> = (0..count).map(|place| (place * 31 + place / 256) as u8).collect();
    let listener = {
        let _inside = fabric.node(2).enter().unwrap();
        std::net::TcpListener::bind((fabric.node(2).ipv4, 4000)).unwrap()
    };
    let target = listener.local_addr().unwrap();
    let mut from = {
        let _inside = fabric.node(1).enter().unwrap();
        std::net::TcpStream::connect_timeout(&target, PATIENCE).unwrap()
    };
    let (mut to, _) = listener.accept().unwrap();
    to.set_read_timeout(Some(PATIENCE)).unwrap();
    let mut got = Vec::new();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            from.write_all(&bytes).unwrap();
            from.shutdown(std::net::Shutdown::Write).unwrap();
        });
        to.read_to_end(&mut got).unwrap();
    });
    got == bytes
}

fn tcp_goes_one_frame_at_a_time() {
    let fabric = testing::fabric("tcp", |config| config.rate = Some(Rate::GIGABIT));
    let count = 4_000_000;
    assert!(tcp_delivers(&fabric, count));
    let port = fabric.port_counters().unwrap()[1];
    let most = FabricConfig::default().mtu as u64 + 14;
    assert!(port.bytes <= port.frames * most, "{port:?}: frames longer than the link's");
    assert!(port.frames >= count as u64 / 1460, "{port:?}");
}

fn the_status_is_a_table() {
    let fabric = testing::fabric("status", |config| {
        (config.rate, config.loss) = (Some(Rate::GIGABIT), 0.25);
    });
    arrivals(&fabric, 100, 64);
    let status = fabric.status().unwrap();
    assert_eq!(status.nodes.len(), 2);
    assert!(status.nodes[1].port.frames > 0);
    assert!(status.nodes[1].impairments.unwrap().dropped > 0);
    let table = status.to_string();
    for word in ["1gbit", "loss 0.25", "198.18.0.2", "fd00::2", "02:67:69:00:00:02"] {
        assert!(table.contains(word), "{table}");
    }
    assert!(table.lines().all(|line| line.chars().count() <= 110), "{table}");
}
