//! Mounted file systems on the link that is being measured: a server as a guest by its second node,
//! a client as a guest by its first one.
//!
//! Both guests live for all cells of a link. Cells come in rounds, in the plan's order: a random
//! order would mount again and again, and each test begins with cold caches anyway.

use crate::error::RunError;
use crate::gather::few_repetitions;
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
        mount::installed(self.plan).map_err(RunError::Service)?;
        // Checked before anything is measured.
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
        // Without guests, which would receive all frames and use the CPUs.
        self.progress.step(self.done, self.total, &format!("{link} without guests"));
        let outside = share::outside(place, self.interrupted);
        let outside = self.share_or_skip(link, outside)?;
        self.progress.step(self.done, self.total, &format!("{link} guests boot"));
        let mut lab = MountLab::start(&store, &guests, place, self.interrupted)?;
        let inside = outside.map(|_| share::inside(&mut lab, self.interrupted)).transpose();
        let inside = self.share_or_skip(link, inside)?.flatten();
        let outcome = self.mount_rounds(link, &mut lab, gathered);
        // Also when a guest was ended: what was measured before stays.
        if let Some((inside, outside)) = inside.zip(outside) {
            self.guests.push(GuestShare {
                link: link.to_owned(),
                kernel: lab.kernel().to_owned(),
                trip_us: [inside.trip_us, outside.trip_us],
                stream: [inside.stream, outside.stream],
                call_us: [inside.call_us, outside.call_us],
                verified: lab.verified,
            });
        }
        outcome
    }

    /// `None` if what guests cost could not be measured, which the report says.
    fn share_or_skip<T>(
        &mut self,
        link: &str,
        share: Result<T, ServiceError>,
    ) -> Result<Option<T>, ServiceError> {
        match share {
            Ok(share) => Ok(Some(share)),
            Err(error)
                if mount::leaves_guests(&error) || matches!(&error, ServiceError::Program(_)) =>
            {
                if error.is_interruption() {
                    return Err(error);
                }
                self.skip_mount(link, Some("the guests' share".into()), &error.to_string());
                Ok(None)
            }
            Err(error) => Err(error),
        }
    }

    fn mount_rounds(
        &mut self,
        link: &str,
        lab: &mut MountLab<'_>,
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
        lab: &mut MountLab<'_>,
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
            let interval = stats::median_interval(&repetitions)?;
            let few = interval.coverage < stats::CONFIDENCE;
            let middle = |one: &&mount::MountValue| (one.value - median).abs();
            let middle = all.iter().min_by(|one, other| middle(one).total_cmp(&middle(other)))?;
            Some(MountFigure {
                ground: Ground::Mount,
                link: link.to_owned(),
                cell: self.cell.clone(),
                what: value.what.to_owned(),
                unit: value.unit.to_owned(),
                median,
                ci95: (repetitions.len() > 1).then_some([interval.low, interval.high]),
                range: middle.range,
                cpu: middle.cpu,
                command: first.command.clone(),
                doubts: few.then(|| few_repetitions(interval.coverage)).into_iter().collect(),
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

    fn gathered(times: u32, measured: Vec<MountMeasured>) -> Vec<MountFigure> {
        let test = MountTest::Bonnie { mib: 0, files: 1, bytes: false };
        let cell = MountCell { place: MountPlace::Disk, system: None, nconnect: 1, test };
        Gathered { cell, times, measured, failures: 0 }.figures("gigabit")
    }

    #[test]
    fn one_repetition_has_no_interval_but_a_doubt_and_six_have_none() {
        let one = &gathered(1, vec![measured(&[("create", 10.0)])])[0];
        assert_eq!((one.ci95, one.doubts.len()), (None, 1));
        let six = (0..6).map(|value| measured(&[("create", 10.0 + f64::from(value))])).collect();
        let one = &gathered(6, six)[0];
        assert_eq!((one.ci95, one.doubts.len()), (Some([10.0, 15.0]), 0));
    }

    #[test]
    fn a_figure_is_the_median_of_all_repetitions_and_what_one_lacks_has_none() {
        let measured = vec![
            measured(&[("create", 10.0), ("stat", 7.0)]),
            measured(&[("create", 30.0)]),
            measured(&[("create", 20.0), ("stat", 9.0)]),
        ];
        let figures = gathered(3, measured);
        assert_eq!(figures.len(), 1);
        let one = &figures[0];
        assert_eq!((one.median, one.range, one.cpu), (20.0, Some([19.0, 21.0]), Some(20.0)));
        assert_eq!(one.repetitions, [10.0, 30.0, 20.0]);
        assert_eq!(one.ci95, Some([10.0, 30.0]));
        assert!(one.doubts[0].to_string().starts_with("few-repetitions: "), "{:?}", one.doubts);
        assert_eq!(one.ground, Ground::Mount);
    }
}
