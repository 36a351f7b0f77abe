//! Reads from the environment how many of the job's processes are on this node, and from the kernel
//! whether they outnumber the processors.

use rustix::process::Pid;
use rustix::thread::{CpuSet, sched_getaffinity};
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

/// Whether those that use the processors of this process outnumber these, so a spinning process
/// keeps another from sending.
pub(crate) fn is_crowded() -> bool {
    static CROWDED: OnceLock<bool> = OnceLock::new();
    *CROWDED.get_or_init(|| {
        let usable = std::thread::available_parallelism().map_or(1, usize::from);
        let all = local_processes();
        match sched_getaffinity(None) {
            Ok(own) => sharing(all, usable, &own, &siblings()) > usable,
            Err(_) => all > usable,
        }
    })
}

/// How many of all the job's processes on this node use the processors of this one. A launcher may
/// bind each process to processors of its own. `siblings` are the processors of the children of
/// this process's parent. If these are fewer than the job's processes, the parent is no launcher
/// but a script, and all may use the same processors.
fn sharing(all: usize, usable: usize, own: &CpuSet, siblings: &[CpuSet]) -> usize {
    // A quota counts for all processes together, wherever they run.
    let has_quota = (usable as u64) < u64::from(own.count());
    if has_quota || siblings.len() < all {
        return all;
    }
    // The launcher may have other children, too.
    siblings.iter().filter(|set| *set == own).count().min(all)
}

/// The processors of each child of this process's parent, as far as the kernel says.
fn siblings() -> Vec<CpuSet> {
    rustix::process::getppid().map_or_else(Vec::new, children)
}

/// The processors of each child of a process.
fn children(parent: Pid) -> Vec<CpuSet> {
    let threads = std::fs::read_dir(format!("/proc/{}/task", parent.as_raw_nonzero()));
    let lists = threads.into_iter().flatten().flatten();
    let lists = lists.filter_map(|it| std::fs::read_to_string(it.path().join("children")).ok());
    let processors = |child: &str| sched_getaffinity(Pid::from_raw(child.parse().ok()?)).ok();
    lists.flat_map(|list| list.split(' ').filter_map(processors).collect::<Vec<_>>()).collect()
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

    fn processors(all: impl IntoIterator<Item = usize>) -> CpuSet {
        let mut set = CpuSet::new();
        all.into_iter().for_each(|one| set.set(one));
        set
    }

    #[test]
    fn processes_that_the_launcher_has_bound_share_their_processors_with_those_bound_alike() {
        let unbound = processors(0..4);
        assert_eq!(sharing(4, 4, &unbound, &[unbound; 4]), 4);
        // Each by itself, and beside another child of the launcher.
        let mut bound = [0, 1, 2, 3].map(|n| processors([n]));
        assert_eq!(sharing(4, 1, &bound[1], &bound), 1);
        assert_eq!(sharing(3, 1, &bound[1], &[bound[0], bound[1], bound[2], unbound]), 1);
        // Two on one processor.
        bound[2] = bound[1];
        assert_eq!(sharing(4, 1, &bound[1], &bound), 2);
        // Eight on two processors of a launcher that has more: `mpirun -n 8 taskset -c 0,1`.
        let pair = processors([0, 1]);
        assert_eq!(sharing(8, 2, &pair, &[pair; 8]), 8);
        assert_eq!(sharing(8, 2, &pair, &[pair; 9]), 8);
    }

    #[test]
    fn processes_that_are_not_seen_or_have_a_quota_may_all_share() {
        let own = processors([1]);
        assert_eq!(sharing(4, 1, &own, &[]), 4);
        // A script is the parent.
        assert_eq!(sharing(4, 1, &own, &[own]), 4);
        // Two processors' time, wherever: `docker run --cpus=2`.
        let sets = [processors(0..8), processors(8..16)];
        assert_eq!(sharing(4, 2, &sets[0], &[sets[0], sets[0], sets[1], sets[1]]), 4);
    }

    #[test]
    fn the_kernel_says_which_processors_children_have() {
        let own = sched_getaffinity(None).unwrap();
        assert!(siblings().contains(&own));
        let here = rustix::process::getpid();
        let mut child = std::process::Command::new("sleep").arg("60").spawn().unwrap();
        let seen = children(here);
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(seen.contains(&own));
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
