//! Operations on the names of a server's files, on the link that is being measured: the server in
//! its second node, the client in the first one.
//!
//! Cells of one service have one server. They come in rounds, in a new random order for each round.

use crate::error::RunError;
use crate::files::FABRIC_ONLY;
use crate::gather::few_repetitions;
use crate::rounds::{MOST_FAILURES, Running};
use gigae_eval_model::metadata::{MetadataCell, MetadataFigure, Operation, OperationRate};
use gigae_eval_model::service::Ground;
use gigae_eval_model::stats;
use gigae_eval_services::metadata::{self, NamesMeasured, OperationTimes};
use gigae_eval_services::server::{FileServer, Rights};
use gigae_eval_services::serving::ServingEnd;
use gigae_eval_services::store::FileStore;
use gigae_eval_services::{ServiceError, by_name};
use gigae_eval_session::programs::ProgramError;
use gigae_eval_session::stage::Stage;
use gigae_fabric::Fabric;
use std::sync::atomic::Ordering;

/// A cell and what it has brought so far.
struct Gathered {
    cell: MetadataCell,
    times: u32,
    measured: Vec<NamesMeasured>,
    failures: u32,
}

/// Where it is measured: the CPUs are those of the server and of the client.
struct NamesOnLink<'a> {
    fabric: &'a Fabric,
    cpus: [Option<usize>; 2],
    store: &'a FileStore,
}

impl Running<'_> {
    /// Measures all operations on names of a link.
    pub(super) fn metadata(
        &mut self,
        stage: &Stage,
        link: &str,
        planned: Option<&str>,
    ) -> Result<(), RunError> {
        let cells = self.plan.metadata_cells(planned);
        let mut services: Vec<String> = cells.iter().map(|one| one.0.service.clone()).collect();
        services.dedup();
        let Some(fabric) = &stage.fabric else {
            for service in services {
                self.skip_service(link, &service, None, FABRIC_ONLY);
            }
            return Ok(());
        };
        if cells.is_empty() {
            return Ok(());
        }
        let store = self.store.take().expect("the run's begin made it");
        let cpus = [stage.answering_cpu, stage.site.cpu];
        let here = NamesOnLink { fabric, cpus, store: &store };
        self.total += cells.iter().map(|(_, times)| u64::from(*times)).sum::<u64>();
        for service in services {
            let of = cells.iter().filter(|(cell, _)| cell.service == service);
            let new = |(cell, times): &(MetadataCell, u32)| Gathered {
                cell: cell.clone(),
                times: *times,
                measured: Vec::new(),
                failures: 0,
            };
            let mut group: Vec<Gathered> = of.map(new).collect();
            let done = self.done + group.iter().map(|one| u64::from(one.times)).sum::<u64>();
            let outcome = self.names_of_server(link, &here, &service, &mut group);
            self.done = done;
            match outcome {
                Ok(version) => {
                    let of = |one: Gathered| one.figure(link, &version);
                    self.metadata.extend(group.into_iter().filter_map(of));
                }
                Err(error) if error.is_interruption() => return Err(RunError::Interrupted),
                Err(error) if error.is_fatal() => return Err(RunError::Service(error)),
                Err(error) => self.skip_service(link, &service, None, &error.to_string()),
            }
        }
        self.store = Some(store);
        Ok(())
    }

    /// All cells of a server; its version.
    fn names_of_server(
        &mut self,
        link: &str,
        here: &NamesOnLink<'_>,
        service: &str,
        group: &mut [Gathered],
    ) -> Result<String, ServiceError> {
        let code = by_name(service).expect("the plan was checked");
        let (node, client) = (here.fabric.node(2), here.fabric.node(1));
        let [serving, asking] = here.cpus;
        let rights = Rights { writable: true, ..Rights::default() };
        let mut server = FileServer::start(
            code,
            (&node.clone().into(), serving),
            here.store,
            rights,
            self.interrupted,
        )?;
        self.same_congestion_control(link, &node, std::slice::from_ref(&client));
        for round in 0.. {
            let wanted = |one: &Gathered| round < one.times && one.failures < MOST_FAILURES;
            let mut order: Vec<usize> =
                (0..group.len()).filter(|&index| wanted(&group[index])).collect();
            if order.is_empty() {
                break;
            }
            self.shuffle(&mut order);
            for index in order {
                let one = &mut group[index];
                self.progress.step(self.done, self.total, &format!("{link} {}", one.cell.title()));
                self.done += 1;
                if self.interrupted.load(Ordering::Relaxed) {
                    return Err(ProgramError::Interrupted.into());
                }
                let (at, from) = ((&server, here.store), (&client, asking));
                match metadata::measure(at, from, &one.cell, self.interrupted) {
                    Ok(measured) => one.measured.push(measured),
                    Err(error) if error.is_interruption() || error.is_fatal() => return Err(error),
                    Err(error) => {
                        // Without the server there is no further repetition.
                        server.alive()?;
                        one.failures += 1;
                        if one.failures == MOST_FAILURES.min(one.times) {
                            let what = Some(one.cell.title());
                            self.skip_service(link, service, what, &error.to_string());
                        }
                    }
                }
            }
        }
        Ok(server.version.clone())
    }
}

impl Gathered {
    /// `None` if no repetition brought anything.
    fn figure(self, link: &str, version: &str) -> Option<MetadataFigure> {
        let of = |operation| rate(operation, &self.measured);
        let operations: Vec<OperationRate> = Operation::ALL.into_iter().filter_map(of).collect();
        let coverage = operations.first()?.coverage;
        let few = (coverage < stats::CONFIDENCE).then(|| few_repetitions(coverage));
        Some(MetadataFigure {
            ground: Ground::Transfer,
            link: link.to_owned(),
            cell: self.cell,
            unit: "1/s".to_owned(),
            operations,
            verified: self.measured.iter().map(|one| one.verified).sum(),
            version: version.to_owned(),
            doubts: few.into_iter().collect(),
        })
    }
}

/// What an operation came to in all repetitions.
fn rate(operation: Operation, measured: &[NamesMeasured]) -> Option<OperationRate> {
    let all = measured.iter().flat_map(|one| &one.times);
    let all = all.filter(|one| one.operation == operation);
    let all: Vec<&OperationTimes> = all.collect();
    let median = |of: &dyn Fn(&OperationTimes) -> f64| {
        stats::median(&all.iter().map(|one| of(one)).collect::<Vec<f64>>())
    };
    let repetitions: Vec<f64> = all.iter().map(|one| one.rate()).collect();
    let interval = stats::median_interval(&repetitions)?;
    Some(OperationRate {
        operation,
        median: stats::median(&repetitions)?,
        ci95: [interval.low, interval.high],
        coverage: interval.coverage,
        samples: all.iter().map(|one| one.micros.len() as u64).min()?,
        p50_us: median(&|one| one.percentile(0.5))?,
        p99_us: median(&|one| one.percentile(0.99))?,
        repetitions,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_figure_is_the_median_of_its_repetitions() {
        let times = |micros: f64| {
            let (operation, micros) = (Operation::Stat, vec![micros, micros, 2.0 * micros]);
            NamesMeasured { times: vec![OperationTimes { operation, micros }], verified: 9 }
        };
        let measured = [100.0, 300.0, 200.0].map(times);
        let found = rate(Operation::Stat, &measured).unwrap();
        assert_eq!((found.samples, found.p50_us, found.p99_us), (3, 200.0, 400.0));
        assert!((found.median - 3.0 / 800e-6).abs() < 1e-6, "{found:?}");
        assert_eq!(found.repetitions.len(), 3);
        assert_eq!(rate(Operation::Create, &measured), None);
    }
}
