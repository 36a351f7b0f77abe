//! Which experiments of several threads this machine has the processors for.

use gigae_eval_model::experiment::Experiment;
use gigae_eval_model::plan::{Cell, Wait};
use gigae_eval_model::results::Skipped;
use std::collections::BTreeSet;

/// The processors that a run may use.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Processors {
    pub(crate) here: usize,
    /// Whether the answering end is on this machine, too.
    pub(crate) both_ends: bool,
}

impl Processors {
    /// How many a cell takes. A thread that spins needs one of its own. Those that sleep share them
    /// with the threads of the other end.
    fn needed(self, cell: &Cell) -> usize {
        let spins_beside = cell.wait == Wait::Spin && self.both_ends;
        cell.condition.threads as usize * if spins_beside { 2 } else { 1 }
    }

    /// Takes out the cells for which there are too few, and says which.
    pub(crate) fn limit(self, link: &str, cells: &mut Vec<Cell>) -> Vec<Skipped> {
        let fits = |cell: &Cell| !cell.experiment.has_threads() || self.needed(cell) <= self.here;
        let (fitting, others): (Vec<Cell>, Vec<Cell>) = cells.drain(..).partition(fits);
        *cells = fitting;
        let mut skipped = Vec::new();
        for experiment in [Experiment::Cores, Experiment::Ceiling] {
            for wait in [Wait::Spin, Wait::Sleep, Wait::Adaptive] {
                let is_one = |cell: &&Cell| (cell.experiment, cell.wait) == (experiment, wait);
                let group: Vec<&Cell> = others.iter().filter(is_one).collect();
                if !group.is_empty() {
                    skipped.push(self.skipped(link, &group));
                }
            }
        }
        skipped
    }

    /// Says of cells of one experiment and way of waiting why they are not measured.
    fn skipped(self, link: &str, cells: &[&Cell]) -> Skipped {
        let counts: BTreeSet<u32> = cells.iter().map(|cell| cell.condition.threads).collect();
        let needed: BTreeSet<usize> = cells.iter().map(|cell| self.needed(cell)).collect();
        let transports: BTreeSet<&str> = cells.iter().map(|cell| &cell.transport[..]).collect();
        let (first, here) = (cells[0], self.here);
        Skipped {
            link: link.to_owned(),
            transport: transports.into_iter().collect::<Vec<_>>().join(", "),
            what: Some(format!(
                "{} of {} threads at each end, {}",
                first.experiment.name(),
                list(&counts),
                first.wait.name()
            )),
            reason: format!(
                "they take {} processors, and this machine has {here}; run the plan on a larger one",
                list(&needed)
            ),
        }
    }
}

/// "2, 4, 8".
fn list<T: ToString>(numbers: &BTreeSet<T>) -> String {
    numbers.iter().map(T::to_string).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use gigae_eval_model::plan::Plan;

    #[test]
    fn cells_of_more_threads_than_processors_are_left_out_and_named() {
        let plan = Plan::load("cores").unwrap();
        let all = plan.cells(Some("cable"), 1500);
        let of = |here, both_ends| {
            let mut cells = all.clone();
            let skipped = Processors { here, both_ends }.limit("cable", &mut cells);
            let most = |wait| {
                let of_wait = cells.iter().filter(|cell: &&Cell| cell.wait == wait);
                of_wait.map(|cell| cell.condition.threads).max().unwrap_or(0)
            };
            (most(Wait::Spin), most(Wait::Sleep), skipped)
        };
        let (spin, sleep, skipped) = of(2, true);
        assert_eq!((spin, sleep, skipped.len()), (1, 2, 2));
        let said = |n: usize| (skipped[n].what.clone().unwrap(), skipped[n].reason.clone());
        assert_eq!(said(0).0, "cores of 2, 4, 8 threads at each end, spin");
        assert!(said(0).1.starts_with("they take 4, 8, 16 processors, and this machine has 2"));
        assert!(said(1).1.starts_with("they take 4, 8 processors"), "{:?}", said(1));
        // The other end has processors of its own.
        assert_eq!((of(4, false).0, of(16, true).2.len()), (4, 0));

        let mut memory = plan.memory_cells();
        let skipped = Processors { here: 4, both_ends: true }.limit("memory", &mut memory);
        assert_eq!(skipped.len(), 1);
        assert!(memory.iter().all(|cell| cell.condition.threads <= 2) && !memory.is_empty());
    }
}
