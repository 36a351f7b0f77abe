//! `gigae eval --cluster-run` on hosts that are namespaces, started by Open MPI, by MPICH and by
//! Slurm. Called as `eval ...` this test binary is the program. Nothing is asserted of how fast
//! anything is. Needs root, Open MPI, Slurm and munge, Python and, the first time, the Python
//! package index.
#![allow(missing_docs)]

mod vendors;

use clap::Parser;
use gigae_cli::eval::{EvalArgs, eval};
use gigae_eval_cluster::ClusterResults;
use gigae_fabric::{Rate, testing};
use gigae_mpi::hosts::Finished;
use gigae_mpi::slurm::{self, Exchange};
use gigae_mpi::{Hosts, Job, Transport, Vendor};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;
use vendors::{hosts, mpich, open_mpi};

/// Many times what any takes on a machine that does nothing else.
const LIMIT: Duration = Duration::from_secs(180);

/// Seconds of each measurement: these tests are about who measures what, and not about how fast.
const SECONDS: &str = "0.06";

/// The same. Many hosts share this machine's processors, and each may have none for longer.
fn seconds(hosts: u16) -> &'static str {
    if hosts > 2 { "0.15" } else { SECONDS }
}

#[derive(Parser)]
#[command(name = "gigae")]
enum Program {
    Eval(Box<EvalArgs>),
}

/// Runs the command by a launcher, with so many ranks on each host.
fn measure(vendor: &Vendor, hosts: &Hosts, places: u16, seconds: &str) -> (Finished, PathBuf) {
    let program = std::env::current_exe().unwrap();
    let out = hosts.place().join("results");
    let out_text = out.display().to_string();
    let arguments = ["eval", "--cluster-run", "--seconds", seconds, "--out", &out_text];
    let job = Job {
        transport: Transport::Tcp,
        hosts: hosts.fabric().config().nodes,
        places,
        program: &program,
        arguments: &arguments,
        limit: LIMIT,
    };
    let finished = vendor.run(hosts, &job, &AtomicBool::new(false));
    (finished.unwrap_or_else(|what| panic!("{what}")), out)
}

/// All files are there, and every figure of every pair.
fn complete(finished: &Finished, out: &Path, hosts: u16, launcher: &str) -> ClusterResults {
    let Finished { status, stdout, stderr, .. } = finished;
    assert!(status.success(), "{status}: {stdout}{stderr}");
    assert!(stdout.contains("Bisection bandwidth"), "{stdout}{stderr}");
    assert!(stderr.contains(&format!("{hosts} hosts")) && stderr.contains("about"), "{stderr}");
    let read = |name: &str| std::fs::read_to_string(out.join(name)).unwrap();
    let text = read("results.json");
    fits_its_schema(&text);
    let results = ClusterResults::parse(&text).unwrap();
    print!("{stdout}{stderr}");
    assert_eq!(results.failures, [], "{stdout}");
    assert_eq!((results.launcher.as_str(), results.failed), (launcher, 0));
    assert_eq!(results.machines, 1, "all hosts are of this machine");
    let names: Vec<&str> = results.hosts.iter().map(|host| host.name.as_str()).collect();
    let expected: Vec<String> = (1..=hosts).map(|host| format!("n{host}")).collect();
    assert_eq!(names, expected);
    let count = usize::from(hosts);
    let transports: Vec<&str> = results.transports.iter().map(|one| one.name.as_str()).collect();
    assert_eq!(transports, ["gigae", "tcp"], "{:?}", results.skipped);
    for one in &results.transports {
        for list in [&one.trip_p50, &one.trip_p99, &one.forward, &one.backward] {
            assert_eq!(list.len(), count * (count - 1) / 2);
            assert!(list.iter().all(|figure| figure.is_some_and(|figure| figure > 0.0)), "{one:?}");
        }
        assert_eq!(one.bisection.len(), 2 * (count / 2).min(4), "{one:?}");
        assert!(one.bisection.iter().all(|it| it.pairs == count / 2 && it.sum > 0.0), "{one:?}");
        let all_send = |it: &gigae_eval_cluster::results::Incast| it.senders == count - 1;
        assert!(one.incast.iter().all(|it| it.as_ref().is_some_and(all_send)), "{one:?}");
    }
    assert_eq!(read("results.csv").lines().count(), 1 + 2 * count * (count - 1) / 2);
    let page = read("report.html");
    assert_eq!(page.matches("<canvas").count(), 4);
    assert!(read("report.md").contains("# What a cluster"));
    results
}

fn fits_its_schema(text: &str) {
    let schema = include_str!("../../../eval/cluster/schema/gigae.cluster.1.json");
    let validator = jsonschema::validator_for(&serde_json::from_str(schema).unwrap()).unwrap();
    let value = serde_json::from_str(text).unwrap();
    let errors: Vec<String> =
        validator.iter_errors(&value).map(|error| error.to_string()).collect();
    assert!(errors.is_empty(), "{errors:?}");
}

fn measured(vendor: &Vendor, test: &str, count: u16, launcher: &str) {
    let hosts = hosts(test, |config| config.nodes = count);
    // CLUSTER_SECONDS=0.2 cargo test -p gigae-mpi --test cluster eight -- --nocapture
    let seconds = std::env::var("CLUSTER_SECONDS").unwrap_or_else(|_| seconds(count).into());
    let (finished, out) = measure(vendor, &hosts, 1, &seconds);
    complete(&finished, &out, count, launcher);
    let left = hosts.fabric().status().unwrap().processes;
    assert!(left.is_empty(), "{left:?}");
}

fn open_mpi_measures_two_hosts() {
    measured(&open_mpi(), "cluster, Open MPI, 2", 2, "PMIx");
}

fn open_mpi_measures_four_hosts() {
    measured(&open_mpi(), "cluster, Open MPI, 4", 4, "PMIx");
}

fn open_mpi_measures_eight_hosts() {
    measured(&open_mpi(), "cluster, Open MPI, 8", 8, "PMIx");
}

fn mpich_measures_two_hosts() {
    measured(&mpich(), "cluster, MPICH, 2", 2, "PMI-1");
}

fn mpich_measures_four_hosts() {
    measured(&mpich(), "cluster, MPICH, 4", 4, "PMI-1");
}

fn mpich_measures_eight_hosts() {
    measured(&mpich(), "cluster, MPICH, 8", 8, "PMI-1");
}

/// The second rank of each host is not needed, and an odd number of hosts has one that rests.
fn further_ranks_on_a_host_do_not_measure() {
    let hosts = hosts("cluster, sharing", |config| config.nodes = 3);
    let (finished, out) = measure(&mpich(), &hosts, 2, SECONDS);
    let results = complete(&finished, &out, 3, "PMI-1");
    assert_eq!((results.ranks, results.unused.len()), (6, 3));
    let said = "3 ranks do not measure";
    assert!(finished.stderr.contains(said), "{}", finished.stderr);
}

fn slurm_measures(exchange: Exchange, count: u16, launcher: &str) {
    let hosts = hosts(&format!("cluster, Slurm, {count}"), |config| config.nodes = count);
    let (finished, out) = by_slurm(&hosts, exchange);
    complete(&finished, &out, count, launcher);
    let left = hosts.fabric().status().unwrap().processes;
    assert!(left.is_empty(), "{left:?}");
}

fn by_slurm(hosts: &Hosts, exchange: Exchange) -> (Finished, PathBuf) {
    let program = std::env::current_exe().unwrap().display().to_string();
    let out = hosts.place().join("results");
    let out_text = out.display().to_string();
    let seconds = seconds(hosts.fabric().config().nodes);
    let words = [&program, "eval", "--cluster-run", "--seconds", seconds, "--out", &out_text[..]];
    let finished = slurm::run(hosts, exchange, &words, LIMIT, &AtomicBool::new(false));
    (finished.unwrap_or_else(|what| panic!("{what}")), out)
}

fn slurm_measures_two_hosts_by_pmi_2() {
    slurm_measures(Exchange::Pmi2, 2, "PMI-2");
}

fn slurm_measures_four_hosts_by_pmix() {
    slurm_measures(Exchange::Pmix, 4, "PMIx");
}

fn slurm_measures_eight_hosts_by_pmi_2() {
    slurm_measures(Exchange::Pmi2, 8, "PMI-2");
}

fn srun_without_pmi_is_refused_with_what_to_add() {
    let hosts = hosts("cluster, Slurm, none", |_| ());
    let (finished, out) = by_slurm(&hosts, Exchange::None);
    let Finished { status, stderr, .. } = &finished;
    assert!(!status.success() && !out.exists(), "{stderr}");
    assert!(stderr.contains("add --mpi=pmix or --mpi=pmi2"), "{stderr}");
}

/// Statuses of [`cut_short`]'s script: there were not three ranks; one was left at the end.
const NOT_BEGUN: u8 = 98;
const LEFT: u8 = 99;

/// Whether the launcher's own failure is the status, and all ranks have ended.
fn ended(finished: &Finished) -> bool {
    let status = finished.status.code().unwrap_or_default();
    status != 0 && ![NOT_BEGUN, LEFT].map(i32::from).contains(&status)
}

/// Starts a run by Open MPI that would take minutes, and does this once rank 0 has announced it.
/// `$RANKS` are the processes of all ranks, `$MPIRUN` is the launcher's. When the launcher has
/// ended, no rank may be left. The script looks for them, since the kernel ends what is left in its
/// PID namespace after it.
fn cut_short(test: &str, act: &str) -> (Hosts, Finished, PathBuf) {
    let hosts = hosts(test, |config| config.nodes = 3);
    let out = hosts.place().join("results");
    let program = std::env::current_exe().unwrap();
    let script = format!(
        r#"
said={place}/said
mpirun --allow-run-as-root --bind-to none --host {list} -n 3 --mca plm_rsh_agent {rsh} \
    --mca oob_tcp_if_include {nic} {program} eval --cluster-run --seconds 20 --out {out} 2>"$said" &
MPIRUN=$!
until grep -q 'next: round 1' "$said"; do
    kill -0 $MPIRUN || break
    sleep 0.1
done
sleep 1
# Launcher and shell have these words in their arguments as well.
RANKS=
for each in $(pgrep -f 'eval --cluster-run --seconds 20'); do
    [ "$(readlink /proc/$each/exe)" != {program} ] || RANKS="$RANKS $each"
done
count=$(echo $RANKS | wc -w)
[ $count = 3 ] || {{ echo "$count ranks began" >&2; exit {NOT_BEGUN}; }}
{act}
wait $MPIRUN
status=$?
cat "$said" >&2
for each in $RANKS; do
    tries=0
    # A process that has ended and waits for its parent has no arguments.
    while grep -qs cluster-run /proc/$each/cmdline; do
        tries=$((tries + 1))
        [ $tries -lt 100 ] || {{ echo "rank's process $each is left" >&2; exit {LEFT}; }}
        sleep 0.1
    done
done
exit $status
"#,
        place = hosts.place().display(),
        list = hosts.list(3, 1),
        rsh = hosts.rsh().display(),
        nic = hosts.fabric().node(1).interface,
        program = program.display(),
        out = out.display(),
    );
    let argv = ["sh".to_owned(), "-c".into(), script];
    let finished = hosts.run(&argv, LIMIT, &AtomicBool::new(false));
    (hosts, finished.unwrap_or_else(|what| panic!("{what}")), out)
}

fn a_killed_rank_ends_the_run_and_its_host_is_named() {
    let act = r#"
its=$(/run/enter n3 readlink /proc/self/ns/net)
for rank in $RANKS; do
    [ "$(readlink /proc/$rank/ns/net)" != "$its" ] || kill -KILL $rank
done"#;
    let (hosts, finished, out) = cut_short("cluster, killed", act);
    let Finished { status, stderr, took, .. } = &finished;
    assert!(ended(&finished) && !out.exists(), "{status} {stderr}");
    assert!(stderr.contains("rank 2 on n3 has ended"), "{took:?} {stderr}");
    assert!(!stderr.contains("rank 0 on n1"), "another rank blames rank 0: {stderr}");
    let left = hosts.fabric().status().unwrap().processes;
    assert!(left.is_empty(), "{left:?}");
}

fn ctrl_c_ends_all_ranks_and_leaves_nothing() {
    let (hosts, finished, out) = cut_short("cluster, Ctrl-C", "kill -INT $MPIRUN");
    let Finished { status, stderr, .. } = &finished;
    assert!(ended(&finished) && !out.exists(), "{status} {stderr}");
    let said = stderr.lines().filter(|line| line.starts_with("gigae: ")).collect::<Vec<_>>();
    let ends = said.iter().filter(|line| line.contains("interrupted")).count();
    assert_eq!(ends, 1, "rank 0 alone says so: {stderr}");
    assert!(!said.iter().any(|line| line.contains("rank ")), "a rank blames another: {stderr}");
    let left = hosts.fabric().status().unwrap().processes;
    assert!(left.is_empty(), "{left:?}");
}

/// Without privileges there is no endpoint on the interface, so TCP alone is measured, which is
/// said.
fn a_user_without_privileges_measures_tcp() {
    let hosts = hosts("cluster, user", |_| ()).for_user(65534).unwrap();
    // Where it was built not every user may look.
    let program = hosts.place().join("home/gigae");
    std::fs::copy(std::env::current_exe().unwrap(), &program).unwrap();
    let out = hosts.place().join("home/results").display().to_string();
    let arguments = ["eval", "--cluster-run", "--seconds", SECONDS, "--out", &out];
    let job = Job {
        transport: Transport::Tcp,
        hosts: 2,
        places: 1,
        program: &program,
        arguments: &arguments,
        limit: LIMIT,
    };
    let finished = open_mpi().run(&hosts, &job, &AtomicBool::new(false)).unwrap();
    let Finished { status, stdout, stderr, .. } = &finished;
    assert!(status.success(), "{status}: {stdout}{stderr}");
    assert!(stderr.contains("gigae is left out: "), "{stderr}");
    let text = std::fs::read_to_string(Path::new(&out).join("results.json")).unwrap();
    fits_its_schema(&text);
    let results = ClusterResults::parse(&text).unwrap();
    let names: Vec<&str> = results.transports.iter().map(|one| one.name.as_str()).collect();
    assert_eq!((names, results.skipped.len()), (vec!["tcp"], 1));
}

/// A host whose port carries a quarter of what the others' carry.
fn a_host_behind_a_slow_port_is_named() {
    let hosts = hosts("cluster, slow port", |config| {
        let (fast, slow) = (Rate::bits_per_second(400_000_000), Rate::bits_per_second(100_000_000));
        config.nodes = 4;
        config.rate = Some(fast);
        config.node_rates = vec![fast, fast, slow];
    });
    let (finished, _) = measure(&open_mpi(), &hosts, 1, "0.1");
    let Finished { status, stdout, stderr, .. } = &finished;
    assert!(status.success(), "{status}: {stdout}{stderr}");
    let text = stdout.split_whitespace().collect::<Vec<_>>().join(" ");
    for transport in ["gigae", "TCP"] {
        let named = format!("{transport}: n3 is slow with every other host: a stream carries");
        assert!(text.contains(&named), "{stdout}{stderr}");
    }
}

fn main() -> ExitCode {
    gigae_fabric::become_forwarder();
    if std::env::args().nth(1).is_some_and(|word| word == "eval") {
        let interrupted = Arc::new(AtomicBool::new(false));
        for signal in [signal_hook::consts::SIGINT, signal_hook::consts::SIGTERM] {
            signal_hook::flag::register(signal, Arc::clone(&interrupted)).unwrap();
        }
        let Program::Eval(args) = Program::parse();
        return eval(&args, &interrupted);
    }
    let tests: &[(&str, fn())] = &[
        ("open_mpi_measures_two_hosts", open_mpi_measures_two_hosts),
        ("open_mpi_measures_four_hosts", open_mpi_measures_four_hosts),
        ("open_mpi_measures_eight_hosts", open_mpi_measures_eight_hosts),
        ("mpich_measures_two_hosts", mpich_measures_two_hosts),
        ("mpich_measures_four_hosts", mpich_measures_four_hosts),
        ("mpich_measures_eight_hosts", mpich_measures_eight_hosts),
        ("slurm_measures_two_hosts_by_pmi_2", slurm_measures_two_hosts_by_pmi_2),
        ("slurm_measures_four_hosts_by_pmix", slurm_measures_four_hosts_by_pmix),
        ("slurm_measures_eight_hosts_by_pmi_2", slurm_measures_eight_hosts_by_pmi_2),
        (
            "srun_without_pmi_is_refused_with_what_to_add",
            srun_without_pmi_is_refused_with_what_to_add,
        ),
        (
            "a_killed_rank_ends_the_run_and_its_host_is_named",
            a_killed_rank_ends_the_run_and_its_host_is_named,
        ),
        ("ctrl_c_ends_all_ranks_and_leaves_nothing", ctrl_c_ends_all_ranks_and_leaves_nothing),
        ("a_user_without_privileges_measures_tcp", a_user_without_privileges_measures_tcp),
        ("further_ranks_on_a_host_do_not_measure", further_ranks_on_a_host_do_not_measure),
        ("a_host_behind_a_slow_port_is_named", a_host_behind_a_slow_port_is_named),
    ];
    let names: Vec<&str> = tests.iter().map(|(name, _)| *name).collect();
    testing::for_users_except(&names).run_together(tests)
}
