//! `gigae eval --cluster-run` without a launcher, and results of a cluster that are read again.
#![allow(missing_docs)]

use gigae_eval_cluster::ClusterResults;
use gigae_eval_cluster::results::testing::synthetic;
use std::process::{Command, Output};

/// Without the variables by which launchers say that they have started a program.
fn gigae(arguments: &[&str], variables: &[(&str, &str)]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_gigae"));
    for name in ["PMI_FD", "PMIX_NAMESPACE", "PMIX_RANK", "SLURM_STEP_ID", "SLURM_PROCID"] {
        command.env_remove(name);
    }
    command.args(arguments).envs(variables.iter().copied()).output().unwrap()
}

fn says(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

#[test]
fn without_a_launcher_the_error_says_how_to_start_one() {
    let slurm = [("SLURM_STEP_ID", "0"), ("SLURM_PROCID", "1")];
    for (variables, part) in
        [(&[][..], "mpirun -n N --map-by node"), (&slurm, "add --mpi=pmix or --mpi=pmi2")]
    {
        let output = gigae(&["eval", "--cluster-run", "--nic", "lo"], variables);
        let error = says(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{error}");
        assert!(error.contains(part) && error.lines().count() == 1, "{error}");
        assert!(output.stdout.is_empty());
    }
}

#[test]
fn arguments_that_do_not_go_together_are_refused() {
    for arguments in [
        &["--cluster-run", "--peer", "h"][..],
        &["--cluster-run", "--plan", "quick"],
        &["--cluster-run", "--seconds", "0"],
        &["--cluster-run", "--seconds", "61"],
        &["--seconds", "1"],
        &["--wait", "spin"],
        &["--nic", "lo"],
    ] {
        let all: Vec<&str> = ["eval"].iter().chain(arguments).copied().collect();
        let output = gigae(&all, &[]);
        assert_eq!(output.status.code(), Some(2), "{arguments:?}: {}", says(&output.stderr));
    }
}

#[test]
fn results_of_a_cluster_are_read_again() {
    let place = tempfile::tempdir().unwrap();
    let (results, out) = (synthetic(5), place.path().join("again"));
    let file = place.path().join("saved.json");
    std::fs::write(&file, results.to_json()).unwrap();
    let (file, directory) = (file.to_str().unwrap(), out.to_str().unwrap());
    let output = gigae(&["eval", "--render", file, "--out", directory], &[]);
    assert!(output.status.success(), "{}", says(&output.stderr));
    let text = says(&output.stdout);
    assert!(text.contains("No host, link or switch port is slow"), "{text}");
    for name in ["results.json", "results.csv", "report.html", "report.md"] {
        assert!(text.contains(out.join(name).to_str().unwrap()), "{text}");
        assert!(out.join(name).is_file());
    }
    let again = std::fs::read_to_string(out.join("results.json")).unwrap();
    assert_eq!(ClusterResults::parse(&again).unwrap(), results);
    let csv = gigae(&["eval", "--render", file, "--out", directory, "--csv"], &[]);
    assert_eq!(says(&csv.stdout), results.to_csv());

    std::fs::write(file, results.to_json().replace("gigae.cluster/1", "gigae.cluster/9")).unwrap();
    let output = gigae(&["eval", "--render", file, "--out", directory], &[]);
    let error = says(&output.stderr);
    assert!(!output.status.success() && error.contains("gigae.cluster/9"), "{error}");
    assert_eq!(error.lines().count(), 1);
}
