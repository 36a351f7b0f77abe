//! MPI programs between hosts, by Open MPI and by MPICH, with every byte checked; with loss; with a
//! rank that is killed. Needs root, Open MPI, Python and, the first time, the Python package index.
#![allow(missing_docs)]

mod common;
mod vendors;

use common::{LIMIT, run};
use gigae_fabric::testing;
use gigae_host::affinity;
use gigae_mpi::hosts::Finished;
use gigae_mpi::{Hosts, Job, Transport, Vendor};
use std::sync::atomic::AtomicBool;
use std::time::Duration;
use vendors::{hosts, mpich, open_mpi};

/// What `cases all` tries; a name that is not said was not tried.
const CASES: [&str; 13] = [
    "point-to-point",
    "unexpected",
    "wildcard",
    "synchronous",
    "probes",
    "cancelled",
    "modes",
    "layouts",
    "collectives",
    "nonblocking-collectives",
    "remote-memory",
    "communicators",
    "computing",
];

/// Returns what the program printed.
fn holds(vendor: &Vendor, hosts: &Hosts, places: u16, cases: &str, expected: &[&str]) -> String {
    let Finished { status, stdout, stderr, .. } = run(vendor, hosts, places, cases);
    assert!(status.success(), "{status}: {stdout}{stderr}");
    for case in expected {
        assert!(stdout.contains(&format!("{case}: held")), "{case}: {stdout}{stderr}");
    }
    print!("{stdout}");
    stdout
}

/// A rank that waits for a killed one gets an error or is ended. No rank waits for ever.
fn a_killed_rank_ends_the_others(vendor: &Vendor) {
    let hosts = hosts("a killed rank", |config| config.nodes = 3);
    let finished = run(vendor, &hosts, 1, "killed");
    assert!(!finished.status.success(), "{}{}", finished.stdout, finished.stderr);
}

fn open_mpi_holds_on_two_hosts() {
    holds(&open_mpi(), &hosts("Open MPI", |_| ()), 1, "all", &CASES);
}

/// A NIC for two, and memory between these.
fn open_mpi_holds_with_two_ranks_on_each_host() {
    holds(&open_mpi(), &hosts("Open MPI, sharing", |_| ()), 2, "all", &CASES);
}

/// Four times as many as there are processors on the least machine that runs this.
fn open_mpi_holds_with_eight_ranks_on_two_hosts() {
    let hosts = hosts("Open MPI, many", |_| ());
    holds(&open_mpi(), &hosts, 4, "collectives", &["collectives"]);
}

fn open_mpi_holds_on_four_hosts_with_loss() {
    let hosts = hosts("Open MPI, loss", |config| {
        (config.nodes, config.loss, config.seed) = (4, 0.01, 7);
    });
    holds(&open_mpi(), &hosts, 1, "all", &CASES);
}

fn open_mpi_holds_with_many_threads() {
    holds(&open_mpi(), &hosts("Open MPI, threads", |_| ()), 1, "threads", &["threads"]);
}

/// For longer than the peer timeout, which the program sets to two seconds.
///
/// `AWAY=60 cargo test -p gigae-mpi --test mpi away -- --nocapture` says how long senders wait.
fn away() -> String {
    format!("away {}", std::env::var("AWAY").unwrap_or_else(|_| "5".into()))
}

fn open_mpi_holds_while_a_rank_is_away() {
    holds(&open_mpi(), &hosts("Open MPI, away", |c| c.cable = true), 1, &away(), &["away"]);
}

fn mpich_holds_while_a_rank_is_away() {
    holds(&mpich(), &hosts("MPICH, away", |c| c.cable = true), 1, &away(), &["away"]);
}

/// MPICH leaves these operations to libfabric. For a lock it asks the target's MPI, unless the
/// program says that it need not. This one says so, and all of it is over while the target makes no
/// call. Nothing is concluded from how long that takes: the target computes until it is over, for
/// at most a minute.
fn mpich_uses_memory_of_a_rank_that_computes() {
    let (vendor, hosts) = (mpich(), hosts("MPICH, passive target", |_| ()));
    let name = "passive-without-check";
    let said = holds(&vendor, &hosts, 1, &format!("{name} 60"), &[name]);
    assert!(said.contains("passive RMA: done while the target computed"), "{said}");
}

/// With a lock, which needs calls of the target in both MPIs. Only the bytes are checked, and that
/// no rank hangs.
fn memory_of_a_rank_that_computes_is_locked(vendor: &Vendor, test: &str) {
    let said = holds(vendor, &hosts(test, |_| ()), 1, "passive 2", &["passive"]);
    assert!(said.contains("passive RMA: "), "{said}");
}

fn open_mpi_locks_memory_of_a_rank_that_computes() {
    memory_of_a_rank_that_computes_is_locked(&open_mpi(), "Open MPI, passive target");
}

fn mpich_locks_memory_of_a_rank_that_computes() {
    memory_of_a_rank_that_computes_is_locked(&mpich(), "MPICH, passive target, locked");
}

fn open_mpi_ends_when_a_rank_is_killed() {
    a_killed_rank_ends_the_others(&open_mpi());
}

fn mpich_holds_on_two_hosts() {
    holds(&mpich(), &hosts("MPICH", |_| ()), 1, "all", &CASES);
}

fn mpich_holds_with_two_ranks_on_each_host() {
    holds(&mpich(), &hosts("MPICH, sharing", |_| ()), 2, "all", &CASES);
}

fn mpich_holds_on_four_hosts_with_loss() {
    let hosts = hosts("MPICH, loss", |config| {
        (config.nodes, config.loss, config.seed) = (4, 0.01, 8);
    });
    holds(&mpich(), &hosts, 1, "all", &CASES);
}

fn mpich_holds_with_many_threads() {
    holds(&mpich(), &hosts("MPICH, threads", |_| ()), 1, "threads", &["threads"]);
}

fn mpich_ends_when_a_rank_is_killed() {
    a_killed_rank_ends_the_others(&mpich());
}

/// Or a job that hangs would take the tests with it, and its ranks the processors.
fn a_job_that_takes_too_long_is_ended_with_all_its_processes() {
    let hosts = hosts("too long", |_| ());
    let argv = ["sh", "-c", "sleep 100 & sleep 100"].map(str::to_owned);
    let late = hosts.run(&argv, Duration::from_millis(300), &AtomicBool::new(false));
    assert!(late.unwrap_err().contains("not done"));
    let left = hosts.fabric().status().unwrap().processes;
    assert!(left.is_empty(), "{left:?}");
}

fn the_librarys_own_round_trip_is_measured() {
    let fabric = testing::fabric("own", |config| config.cable = true);
    let before = affinity::allowed();
    let own = gigae_mpi::own::ping_pong(&fabric).unwrap();
    // Or all jobs after it would share one processor.
    assert_eq!(affinity::allowed(), before);
    assert!(own.round_trip > 0.0 && own.mode.contains("packet"), "{own:?}");
}

fn a_wrong_byte_is_noticed() {
    let hosts = hosts("a wrong byte", |_| ());
    let vendor = open_mpi();
    let program = vendor.compile(&hosts, &["wrong"]).unwrap();
    let job = Job {
        transport: Transport::Tcp,
        hosts: 2,
        places: 1,
        program: &program,
        arguments: &[],
        limit: LIMIT,
    };
    let finished = vendor.run(&hosts, &job, &AtomicBool::new(false)).unwrap();
    assert!(!finished.status.success());
    assert!(finished.stderr.contains("byte 77 of 100"), "{}", finished.stderr);
}

/// They lose frames, ask for an XDP program, or fetch MPICH, for which a user namespace has no
/// network.
const OF_ROOT: &[&str] = &[
    "open_mpi_holds_on_four_hosts_with_loss",
    "mpich_holds_while_a_rank_is_away",
    "mpich_uses_memory_of_a_rank_that_computes",
    "mpich_locks_memory_of_a_rank_that_computes",
    "mpich_holds_on_two_hosts",
    "mpich_holds_with_two_ranks_on_each_host",
    "mpich_holds_on_four_hosts_with_loss",
    "mpich_holds_with_many_threads",
    "mpich_ends_when_a_rank_is_killed",
    "the_librarys_own_round_trip_is_measured",
];

fn main() {
    let tests: [(&str, fn()); 19] = [
        ("open_mpi_holds_on_two_hosts", open_mpi_holds_on_two_hosts),
        ("open_mpi_holds_with_two_ranks_on_each_host", open_mpi_holds_with_two_ranks_on_each_host),
        (
            "open_mpi_holds_with_eight_ranks_on_two_hosts",
            open_mpi_holds_with_eight_ranks_on_two_hosts,
        ),
        ("open_mpi_holds_on_four_hosts_with_loss", open_mpi_holds_on_four_hosts_with_loss),
        ("open_mpi_holds_with_many_threads", open_mpi_holds_with_many_threads),
        ("open_mpi_holds_while_a_rank_is_away", open_mpi_holds_while_a_rank_is_away),
        ("mpich_holds_while_a_rank_is_away", mpich_holds_while_a_rank_is_away),
        ("mpich_uses_memory_of_a_rank_that_computes", mpich_uses_memory_of_a_rank_that_computes),
        (
            "open_mpi_locks_memory_of_a_rank_that_computes",
            open_mpi_locks_memory_of_a_rank_that_computes,
        ),
        ("mpich_locks_memory_of_a_rank_that_computes", mpich_locks_memory_of_a_rank_that_computes),
        ("open_mpi_ends_when_a_rank_is_killed", open_mpi_ends_when_a_rank_is_killed),
        ("mpich_holds_on_two_hosts", mpich_holds_on_two_hosts),
        ("mpich_holds_with_two_ranks_on_each_host", mpich_holds_with_two_ranks_on_each_host),
        ("mpich_holds_on_four_hosts_with_loss", mpich_holds_on_four_hosts_with_loss),
        ("mpich_holds_with_many_threads", mpich_holds_with_many_threads),
        ("mpich_ends_when_a_rank_is_killed", mpich_ends_when_a_rank_is_killed),
        (
            "a_job_that_takes_too_long_is_ended_with_all_its_processes",
            a_job_that_takes_too_long_is_ended_with_all_its_processes,
        ),
        ("the_librarys_own_round_trip_is_measured", the_librarys_own_round_trip_is_measured),
        ("a_wrong_byte_is_noticed", a_wrong_byte_is_noticed),
    ];
    testing::for_users_except(OF_ROOT).run_together(&tests);
}
