//! What copies, accesses and names of a server have in common: rounds over the cells of a server,
//! what is left out, and TCP's congestion control.
//!
//! In each round every cell has one repetition, in a new random order.

use crate::error::RunError;
use crate::programs::route_as_ours;
use crate::rounds::{MOST_FAILURES, Running};
use gigae_eval_model::access::AccessCell;
use gigae_eval_model::file_figure::FileCell;
use gigae_eval_model::metadata::MetadataCell;
use gigae_eval_model::results::Skipped;
use gigae_eval_services::ServiceError;
use gigae_eval_services::host::Host;
use gigae_eval_services::serving::ServingEnd;
use gigae_eval_session::programs::ProgramError;
use std::sync::atomic::Ordering;

/// Why there are no reads, writes and operations on names within files of a server on a link.
pub(super) const FABRIC_ONLY: &str =
    "this is measured on virtual links only; leave out --peer for it";

/// A cell of a service.
pub(super) trait ServiceCell {
    fn service(&self) -> &str;

    fn title(&self) -> String;

    /// Its title, if its service has several servers.
    fn title_of_server(&self) -> Option<String> {
        None
    }
}

impl ServiceCell for FileCell {
    fn service(&self) -> &str {
        &self.service
    }

    fn title(&self) -> String {
        FileCell::title(self)
    }

    fn title_of_server(&self) -> Option<String> {
        self.memory.map(|_| FileCell::title(self))
    }
}

impl ServiceCell for AccessCell {
    fn service(&self) -> &str {
        &self.service
    }

    fn title(&self) -> String {
        AccessCell::title(self)
    }
}

impl ServiceCell for MetadataCell {
    fn service(&self) -> &str {
        &self.service
    }

    fn title(&self) -> String {
        MetadataCell::title(self)
    }
}

/// A cell and what its repetitions have brought so far.
pub(super) struct Repeated<C, R> {
    pub(super) cell: C,
    /// Repetitions that the plan wants.
    pub(super) times: u32,
    pub(super) brought: Vec<R>,
    pub(super) failures: u32,
}

impl<C, R> Repeated<C, R> {
    pub(super) fn new((cell, times): (C, u32)) -> Self {
        Self { cell, times, brought: Vec::new(), failures: 0 }
    }
}

/// Repetitions of all these cells.
pub(super) fn repetitions<C, R>(group: &[Repeated<C, R>]) -> u64 {
    group.iter().map(|one| u64::from(one.times)).sum()
}

impl Running<'_> {
    /// All repetitions of the cells of a server. If the server or its link is gone, there are no
    /// further ones, which the report says; earlier ones count. An error: there are none, or the
    /// run has to end.
    pub(super) fn service_rounds<S, C, R>(
        &mut self,
        link: &str,
        server: &mut S,
        group: &mut [Repeated<C, R>],
        mut measure: impl FnMut(&mut S, &C) -> Result<R, ServiceError>,
    ) -> Result<(), ServiceError>
    where
        S: ServingEnd + ?Sized,
        C: ServiceCell,
    {
        for round in 0.. {
            let wanted = |one: &Repeated<C, R>| round < one.times && one.failures < MOST_FAILURES;
            let mut order: Vec<usize> =
                (0..group.len()).filter(|&index| wanted(&group[index])).collect();
            if order.is_empty() {
                break;
            }
            self.shuffle(&mut order);
            for index in order {
                if self.interrupted.load(Ordering::Relaxed) {
                    return Err(ProgramError::Interrupted.into());
                }
                let one = &mut group[index];
                self.progress.step(self.done, self.total, &format!("{link} {}", one.cell.title()));
                self.done += 1;
                let error = match measure(server, &one.cell) {
                    Ok(brought) => {
                        one.brought.push(brought);
                        continue;
                    }
                    Err(error) => error,
                };
                let ends_the_run = |error: &ServiceError| {
                    error.is_interruption() || (error.is_fatal() && !error.is_lost())
                };
                if ends_the_run(&error) {
                    return Err(error);
                }
                let gone = match &error {
                    ServiceError::Outage(_) | ServiceError::Control(_) => Some(error),
                    _ => match server.alive() {
                        Err(gone) => Some(gone),
                        Ok(()) => {
                            self.count_failure(link, one, &error);
                            None
                        }
                    },
                };
                if let Some(gone) = gone {
                    let none = group.iter().all(|one| one.brought.is_empty());
                    if none || ends_the_run(&gone) {
                        return Err(gone);
                    }
                    self.lost |= gone.is_lost();
                    let first = &group[0].cell;
                    let what = first.title_of_server();
                    self.skip_service(link, first.service(), what, &gone.to_string());
                    return Ok(());
                }
            }
        }
        Ok(())
    }

    fn count_failure<C: ServiceCell, R>(
        &mut self,
        link: &str,
        one: &mut Repeated<C, R>,
        error: &ServiceError,
    ) {
        one.failures += 1;
        if one.failures == MOST_FAILURES.min(one.times) {
            let what = Some(one.cell.title());
            self.skip_service(link, one.cell.service(), what, &error.to_string());
        }
    }

    /// What came of a server. `None`: its service is left out, which the report says.
    pub(super) fn or_skipped<T>(
        &mut self,
        link: &str,
        service: &str,
        outcome: Result<T, ServiceError>,
    ) -> Result<Option<T>, RunError> {
        match outcome {
            Ok(found) => Ok(Some(found)),
            Err(error) if error.is_interruption() => Err(RunError::Interrupted),
            Err(error) if error.is_fatal() => Err(RunError::Service(error)),
            Err(error) => {
                self.skip_service(link, service, None, &error.to_string());
                Ok(None)
            }
        }
    }

    /// Gives both ends the congestion control of our TCP.
    pub(super) fn same_congestion_control(&mut self, link: &str, server: &Host, clients: &[Host]) {
        let route = |from: &Host, to: &Host| {
            let _inside = from.enter().map_err(|error| error.to_string())?;
            route_as_ours(&from.interfaces()[0], &from.ip.to_string(), &to.ip.to_string())
        };
        let routes = || -> Result<(), String> {
            clients.iter().try_for_each(|client| {
                route(server, client)?;
                route(client, server)
            })
        };
        if let Err(why) = routes() {
            self.skip_service(link, "file services, TCP as ours", None, &why);
        }
    }

    pub(super) fn skip_service(
        &mut self,
        link: &str,
        service: &str,
        what: Option<String>,
        reason: &str,
    ) {
        let skip = Skipped {
            link: link.to_owned(),
            transport: service.to_owned(),
            what,
            reason: reason.to_owned(),
        };
        if !self.skipped.contains(&skip) {
            self.skipped.push(skip);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::progress::RunProgress;
    use gigae_eval_model::plan::Plan;
    use gigae_eval_services::serving::ServerAddress;
    use gigae_eval_services::store::StoredFile;
    use gigae_eval_session::control::Spent;
    use gigae_fabric::FabricError;
    use std::sync::atomic::AtomicBool;

    struct Quiet;

    impl RunProgress for Quiet {
        fn step(&mut self, _done: u64, _total: u64, _next: &str) {}
    }

    /// A server that is gone after so many repetitions.
    struct Server {
        left: u32,
    }

    impl ServingEnd for Server {
        fn at(&self) -> &ServerAddress {
            unreachable!("nobody asks")
        }
        fn about(&self) -> (String, Option<String>) {
            unreachable!("nobody asks")
        }
        fn alive(&mut self) -> Result<(), ServiceError> {
            match self.left {
                0 => Err(ServiceError::Unavailable("the server is gone".into())),
                _ => Ok(()),
            }
        }
        fn slow_disk(&mut self, _bytes_per_second: f64) -> Result<(), ServiceError> {
            Ok(())
        }
        fn begin(&mut self) -> Result<(), ServiceError> {
            Ok(())
        }
        fn end(&mut self) -> Result<Spent, ServiceError> {
            unreachable!("nobody asks")
        }
        fn is_same(&mut self, _sent: &str, _file: &StoredFile) -> Result<bool, ServiceError> {
            Ok(true)
        }
    }

    struct Cell(u32);

    impl ServiceCell for Cell {
        fn service(&self) -> &str {
            "ftp"
        }
        fn title(&self) -> String {
            format!("cell {}", self.0)
        }
    }

    /// What is left out, if not all of a service, and why.
    type LeftOut = Vec<(Option<String>, String)>;

    /// Two cells with three repetitions each, with a server that lives for so many repetitions:
    /// how many each has, what is left out, and whether there is an error.
    fn rounds(
        left: u32,
        mut measure: impl FnMut(u32) -> Result<(), ServiceError>,
    ) -> (Vec<usize>, LeftOut, Option<String>) {
        let plan = Plan::load("quick").unwrap();
        let (interrupted, mut quiet) = (AtomicBool::new(false), Quiet);
        let mut running = Running::new(&plan, &interrupted, &mut quiet);
        let mut group = [1, 2].map(|number| Repeated::new((Cell(number), 3)));
        let outcome =
            running.service_rounds("l", &mut Server { left }, &mut group, |server, cell| {
                let gone = || ServiceError::Unavailable("no answer".into());
                server.left = server.left.checked_sub(1).ok_or_else(gone)?;
                measure(cell.0)
            });
        let left_out = running.skipped.into_iter().map(|one| (one.what, one.reason)).collect();
        let error = outcome.err().map(|error| error.to_string());
        (group.iter().map(|one| one.brought.len()).collect(), left_out, error)
    }

    #[test]
    fn what_came_before_a_servers_death_counts() {
        let (brought, left_out, error) = rounds(4, |_| Ok(()));
        assert_eq!((brought, error), (vec![2, 2], None), "in rounds");
        assert_eq!(left_out, [(None, "the server is gone".into())]);
        let (brought, left_out, error) = rounds(0, |_| Ok(()));
        assert_eq!((brought, left_out), (vec![0, 0], vec![]));
        assert_eq!(error.unwrap(), "the server is gone", "which its caller reports");
    }

    #[test]
    fn a_cell_that_fails_twice_is_given_up_and_a_link_that_stays_down_ends_all() {
        let failed = || ServiceError::Unavailable("no figure".into());
        let (brought, left_out, error) =
            rounds(9, |cell| if cell == 1 { Err(failed()) } else { Ok(()) });
        assert_eq!((brought, error), (vec![0, 3], None));
        assert_eq!(left_out, [(Some("cell 1".into()), "no figure".into())]);
        let mut times = 0;
        let (brought, left_out, error) = rounds(9, |_| {
            times += 1;
            match times {
                4 => Err(ServiceError::Outage(FabricError::NeedsRoot { what: "this" })),
                _ => Ok(()),
            }
        });
        assert_eq!((brought.iter().sum::<usize>(), error), (3, None));
        assert!(left_out.len() == 1 && left_out[0].1.contains("did not: this"), "{left_out:?}");
    }
}
