//! Operations on the names of a server's files, on the link that is being measured: the server in
//! its second node, the client in the first one.
//!
//! Cells of one service have one server, and come in rounds.

use crate::error::RunError;
use crate::gather::few_repetitions;
use crate::rounds::Running;
use crate::services::{FABRIC_ONLY, Repeated, repetitions};
use gigae_eval_model::metadata::{MetadataCell, MetadataFigure, Operation, OperationRate};
use gigae_eval_model::service::Ground;
use gigae_eval_model::stats;
use gigae_eval_services::host::Host;
use gigae_eval_services::metadata::{self, NamesMeasured, OperationTimes};
use gigae_eval_services::server::{FileServer, Rights};
use gigae_eval_services::store::FileStore;
use gigae_eval_services::{ServiceError, by_name};
use gigae_eval_session::stage::Stage;
use gigae_fabric::Fabric;

/// A cell and what it has brought so far.
type Gathered = Repeated<MetadataCell, NamesMeasured>;

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
            let mut group: Vec<Gathered> = of.cloned().map(Gathered::new).collect();
            let done = self.done + repetitions(&group);
            let outcome = self.names_of_server(link, &here, &service, &mut group);
            self.done = done;
            if let Some(version) = self.or_skipped(link, &service, outcome)? {
                let of = |one: Gathered| one.figure(link, &version);
                self.metadata.extend(group.into_iter().filter_map(of));
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
        let (node, client) = (Host::from(here.fabric.node(2)), here.fabric.node(1));
        let [serving, asking] = here.cpus;
        let rights = Rights { writable: true, ..Rights::default() };
        let mut server =
            FileServer::start(code, (&node, serving), here.store, rights, self.interrupted)?;
        self.same_congestion_control(link, &node, &[client.clone().into()]);
        let interrupted = self.interrupted;
        self.service_rounds(link, &mut server, group, |server, cell| {
            metadata::measure((server, here.store), (&client, asking), cell, interrupted)
        })?;
        Ok(server.version.clone())
    }
}

impl Gathered {
    /// `None` if no repetition brought anything.
    fn figure(self, link: &str, version: &str) -> Option<MetadataFigure> {
        let of = |operation| rate(operation, &self.brought);
        let operations: Vec<OperationRate> = Operation::ALL.into_iter().filter_map(of).collect();
        let coverage = operations.first()?.coverage;
        let few = (coverage < stats::CONFIDENCE).then(|| few_repetitions(coverage));
        Some(MetadataFigure {
            ground: Ground::Transfer,
            link: link.to_owned(),
            cell: self.cell,
            unit: "1/s".to_owned(),
            operations,
            verified: self.brought.iter().map(|one| one.verified).sum(),
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
