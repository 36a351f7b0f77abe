//! Mounted file systems on the link that is being measured: a server as a guest by its second node,
//! a client as a guest by its first one.
//!
//! Both guests live for all cells of a link. Cells come in rounds, in the plan's order: a random
//! order would mount again and again, and each test begins with cold caches anyway.

use crate::error::RunError;
use crate::rounds::{MOST_FAILURES, Running};
use gigae_eval_model::mount_figure::{GuestShare, MountCell, MountFigure};
use gigae_eval_model::results::Skipped;
use gigae_eval_model::service::Ground;
use gigae_eval_model::stats;
use gigae_eval_services::ServiceError;
use gigae_eval_services::mount::{self, MountLab, MountMeasured, MountNodes, share};
use gigae_eval_services::store::FileStore;
use gigae_eval_session::stage::Stage;

/// What results call them where a transport is named.
const NAME: &str = "mounted files";

/// Why there are none on a link.
const FABRIC_ONLY: &str =
    "mounted files are measured on virtual links only; leave out --peer for them";

/// A cell and what it has brought so far.
struct Gathered {
    cell: MountCell,
    times: u32,
    measured: Vec<MountMeasured>,
    failures: u32,
}

impl Running<'_> {
    /// Before anything is measured: refuses to begin without the programs and the room.
    pub(super) fn begin_mounts(&mut self) -> Result<(), RunError> {
        if self.plan.mount.is_empty() {
            return Ok(());
        }
        mount::installed().map_err(RunError::Service)?;
        // The room is looked at now, so that nothing is measured in vain.
        let store = FileStore::new(MountLab::needs(&self.plan.guests));
        store.map(drop).map_err(RunError::Service)
    }

    /// Measures all mounted files of a link.
    pub(super) fn mounts(
        &mut self,
        stage: &Stage,
        link: &str,
        planned: Option<&str>,
    ) -> Result<(), RunError> {
        let cells = self.plan.mount_cells(planned);
        if cells.is_empty() {
            return Ok(());
        }
        let Some(fabric) = &stage.fabric else {
            self.skip_mount(link, None, FABRIC_ONLY);
            return Ok(());
        };
        self.total += cells.iter().map(|(_, times)| u64::from(*times)).sum::<u64>();
        let done = self.done + cells.iter().map(|(_, times)| u64::from(*times)).sum::<u64>();
        let new = |(cell, times)| Gathered { cell, times, measured: Vec::new(), failures: 0 };
        let mut gathered: Vec<Gathered> = cells.into_iter().map(new).collect();
        let nodes = [fabric.node(1), fabric.node(2)];
        let place = MountNodes {
            nodes: [&nodes[0], &nodes[1]],
            cpus: [stage.site.cpu, stage.answering_cpu],
            mtu: fabric.config().mtu,
        };
        let outcome = self.with_guests(link, &place, &mut gathered);
        self.done = done;
        let kept = gathered.into_iter().flat_map(|one| one.figures(link));
        self.mounts.extend(kept);
        match outcome {
            Ok(()) => Ok(()),
            Err(error) if error.is_interruption() => Err(RunError::Interrupted),
            Err(error) if error.is_fatal() => Err(RunError::Service(error)),
            Err(error) => {
                self.skip_mount(link, None, &error.to_string());
                Ok(())
            }
        }
    }

    /// All cells of a link, and what the guests cost. An error ends both guests.
    fn with_guests(
        &mut self,
        link: &str,
        place: &MountNodes<'_>,
        gathered: &mut [Gathered],
    ) -> Result<(), ServiceError> {
        let guests = self.plan.guests;
        let store = FileStore::new(MountLab::needs(&guests))?;
        self.progress.step(self.done, self.total, &format!("{link} guests boot"));
        let mut lab = MountLab::start(&store, &guests, place, self.interrupted)?;
        let share = match share::measure(&mut lab, place, self.interrupted) {
            Ok(share) => Some(share),
            Err(error) if mount::leaves_guests(&error) => {
                self.skip_mount(link, Some("the guests' share".into()), &error.to_string());
                None
            }
            Err(error) => return Err(error),
        };
        let outcome = self.mount_rounds(link, &mut lab, gathered);
        // Also when a guest was ended: what was measured before stays.
        if let Some(share) = share {
            self.guests.push(GuestShare {
                link: link.to_owned(),
                kernel: lab.kernel().to_owned(),
                trip_us: share.trip_us,
                stream: share.stream,
                call_us: share.call_us,
                verified: lab.verified,
            });
        }
        outcome
    }

    fn mount_rounds(
        &mut self,
        link: &str,
        lab: &mut MountLab,
        gathered: &mut [Gathered],
    ) -> Result<(), ServiceError> {
        let most = gathered.iter().map(|one| one.times).max().unwrap_or(0);
        for round in 0..most {
            for one in gathered.iter_mut() {
                if round < one.times && one.failures < MOST_FAILURES {
                    let title = format!("{link} {}", one.cell.title());
                    self.progress.step(self.done, self.total, &title);
                    self.done += 1;
                    self.mount_repetition(link, lab, one)?;
                }
            }
        }
        Ok(())
    }

    fn mount_repetition(
        &mut self,
        link: &str,
        lab: &mut MountLab,
        one: &mut Gathered,
    ) -> Result<(), ServiceError> {
        match lab.measure(&one.cell, self.interrupted) {
            Ok(measured) => one.measured.push(measured),
            Err(error) if mount::leaves_guests(&error) => {
                one.failures += 1;
                if one.failures == MOST_FAILURES.min(one.times) {
                    self.skip_mount(link, Some(one.cell.title()), &error.to_string());
                }
            }
            Err(error) => return Err(error),
        }
        Ok(())
    }

    fn skip_mount(&mut self, link: &str, what: Option<String>, reason: &str) {
        let (link, transport) = (link.to_owned(), NAME.to_owned());
        self.skipped.push(Skipped { link, transport, what, reason: reason.to_owned() });
    }
}

impl Gathered {
    /// One for each figure that the program gave in every repetition.
    fn figures(self, link: &str) -> Vec<MountFigure> {
        let Some(first) = self.measured.first() else { return Vec::new() };
        let one = |value: &mount::MountValue| {
            let same = |measured: &MountMeasured| {
                measured.values.iter().find(|other| other.what == value.what).cloned()
            };
            let all: Vec<mount::MountValue> =
                self.measured.iter().map(same).collect::<Option<_>>()?;
            let repetitions: Vec<f64> = all.iter().map(|one| one.value).collect();
            let median = stats::median(&repetitions)?;
            let middle = |one: &&mount::MountValue| (one.value - median).abs();
            let middle = all.iter().min_by(|one, other| middle(one).total_cmp(&middle(other)))?;
            Some(MountFigure {
                ground: Ground::Mount,
                link: link.to_owned(),
                cell: self.cell.clone(),
                what: value.what.to_owned(),
                unit: value.unit.to_owned(),
                median,
                range: middle.range,
                cpu: middle.cpu,
                command: first.command.clone(),
                repetitions,
            })
        };
        first.values.iter().filter_map(one).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use gigae_eval_model::mount_figure::{MountPlace, MountTest};
    use mount::MountValue;

    fn measured(values: &[(&'static str, f64)]) -> MountMeasured {
        let one = |&(what, value)| MountValue {
            what,
            unit: "/s",
            value,
            range: Some([value - 1.0, value + 1.0]),
            cpu: Some(value),
        };
        MountMeasured { values: values.iter().map(one).collect(), command: "c".into() }
    }

    #[test]
    fn a_figure_is_the_median_of_all_repetitions_and_what_one_lacks_has_none() {
        let test = MountTest::Bonnie { mib: 0, files: 1, bytes: false };
        let gathered = Gathered {
            cell: MountCell { place: MountPlace::Disk, system: None, test },
            times: 3,
            measured: vec![
                measured(&[("create", 10.0), ("stat", 7.0)]),
                measured(&[("create", 30.0)]),
                measured(&[("create", 20.0), ("stat", 9.0)]),
            ],
            failures: 0,
        };
        let figures = gathered.figures("gigabit");
        assert_eq!(figures.len(), 1);
        let one = &figures[0];
        assert_eq!((one.median, one.range, one.cpu), (20.0, Some([19.0, 21.0]), Some(20.0)));
        assert_eq!(one.repetitions, [10.0, 30.0, 20.0]);
        assert_eq!(one.ground, Ground::Mount);
    }
}
