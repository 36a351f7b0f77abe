//! Reads from the environment how many of the job's processes are on this node.

use rustix::process::Pid;
use std::sync::OnceLock;

/// Open MPI's `mpirun`, MPICH's `mpiexec` (Hydra).
const COUNTS: [&str; 2] = ["OMPI_COMM_WORLD_LOCAL_SIZE", "MPI_LOCALNRANKS"];

/// Slurm: tasks by node, of the step and of the job, and this node's place among them (srun(1)).
const LISTS: [&str; 2] = ["SLURM_STEP_TASKS_PER_NODE", "SLURM_TASKS_PER_NODE"];
const PLACE: &str = "SLURM_NODEID";

/// Processes of this job on this node; 1 if no launcher says.
pub(crate) fn local_processes() -> usize {
    static COUNT: OnceLock<usize> = OnceLock::new();
    *COUNT.get_or_init(|| count(|name| std::env::var(name).ok()))
}

/// Whether they outnumber the processors of this process, so a spinning process keeps another from
/// sending.
pub(crate) fn is_crowded() -> bool {
    static CROWDED: OnceLock<bool> = OnceLock::new();
    *CROWDED.get_or_init(|| {
        let own = std::thread::available_parallelism().map_or(1, usize::from);
        local_processes() > processors(own, processors_of(rustix::process::getppid()))
    })
}

/// The processors of all the job's processes on this node. A launcher may bind each process to
/// processors of its own, which are a part of the launcher's. What started this process is the
/// launcher, or a script that it has bound.
fn processors(own: usize, of_parent: Option<usize>) -> usize {
    of_parent.map_or(own, |of_parent| own.max(of_parent))
}

/// The processors that a process may use, if the kernel says.
fn processors_of(process: Option<Pid>) -> Option<usize> {
    let set = rustix::thread::sched_getaffinity(Some(process?)).ok()?;
    usize::try_from(set.count()).ok()
}

fn count(variable: impl Fn(&str) -> Option<String>) -> usize {
    let number = |name: &str| variable(name)?.trim().parse().ok();
    let place = number(PLACE).unwrap_or(0);
    let listed = |name: &str| tasks(&variable(name)?, place);
    let said = COUNTS.into_iter().find_map(number).or_else(|| LISTS.into_iter().find_map(listed));
    said.unwrap_or(1).max(1)
}

/// The number at a position of a list such as `4(x2),3`: 4, 4, 3.
fn tasks(list: &str, mut place: usize) -> Option<usize> {
    for entry in list.split(',') {
        let (tasks, nodes) = match entry.split_once("(x") {
            Some((tasks, nodes)) => (tasks, nodes.strip_suffix(')')?.parse().ok()?),
            None => (entry, 1),
        };
        if place < nodes {
            return tasks.trim().parse().ok();
        }
        place -= nodes;
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An environment variable.
    struct Variable<'a> {
        name: &'a str,
        value: &'a str,
    }

    fn var<'a>(name: &'a str, value: &'a str) -> Variable<'a> {
        Variable { name, value }
    }

    fn with(variables: &[Variable<'_>]) -> usize {
        let find = |name: &str| variables.iter().find(|known| known.name == name);
        count(|name| find(name).map(|known| known.value.to_owned()))
    }

    #[test]
    fn every_launcher_is_understood_and_the_nearest_believed() {
        assert_eq!(with(&[]), 1);
        assert_eq!(with(&[var("OMPI_COMM_WORLD_LOCAL_SIZE", "4")]), 4);
        assert_eq!(with(&[var("MPI_LOCALNRANKS", "3"), var("SLURM_TASKS_PER_NODE", "8")]), 3);
        assert_eq!(with(&[var("SLURM_TASKS_PER_NODE", "8")]), 8);
        let step = [var("SLURM_TASKS_PER_NODE", "8"), var("SLURM_STEP_TASKS_PER_NODE", "2")];
        assert_eq!(with(&step), 2);
    }

    #[test]
    fn slurms_list_is_read_at_this_nodes_place() {
        let list = |place| [var("SLURM_TASKS_PER_NODE", "4(x2),3"), var("SLURM_NODEID", place)];
        let at = |place| with(&list(place));
        assert_eq!([at("0"), at("1"), at("2")], [4, 4, 3]);
        assert_eq!(at("3"), 1, "not in the list");
    }

    /// Variables of a second step, `srun -N 2 -n 3`, in an allocation of two nodes for four tasks
    /// (Slurm 22.05), as the ranks of its first and second node see them.
    #[test]
    fn a_steps_tasks_count_and_not_those_of_its_allocation() {
        let on = |node| {
            with(&[
                var("SLURM_NNODES", "2"),
                var("SLURM_NODEID", node),
                var("SLURM_NPROCS", "3"),
                var("SLURM_NTASKS", "3"),
                var("SLURM_STEP_NUM_TASKS", "3"),
                var("SLURM_STEP_TASKS_PER_NODE", "2,1"),
                var("SLURM_TASKS_PER_NODE", "2(x2)"),
            ])
        };
        assert_eq!([on("0"), on("1")], [2, 1]);
    }

    #[test]
    fn processes_that_the_launcher_has_bound_have_its_processors_together() {
        assert_eq!(processors(1, Some(4)), 4);
        assert_eq!(processors(4, Some(4)), 4);
        assert_eq!(processors(4, Some(1)), 4);
        assert_eq!(processors(2, None), 2);
        let own = std::thread::available_parallelism().unwrap().get();
        assert!(processors_of(Some(rustix::process::getpid())).unwrap() >= own);
        assert_eq!(processors_of(None), None);
    }

    #[test]
    fn what_is_no_number_says_nothing() {
        for text in ["", "x", "0", "-1", "4(x", "4(x)", "(x2)", ",", "99999999999999999999999"] {
            for name in [COUNTS[0], LISTS[0]] {
                assert_eq!(with(&[var(name, text)]), 1, "{name}={text}");
            }
        }
    }
}
