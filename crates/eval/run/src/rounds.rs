//! Round after round over the cells of a link, and what comes of it.

use crate::config::Config;
use crate::error::{RepetitionError, RunError};
use crate::gather::{self, CellRepetitions};
use crate::progress::{FinishedRepetition, RunProgress, title};
use crate::repetition::BothEnds;
use gigae_eval_measure::{clock, environment};
use gigae_eval_model::access::AccessFigure;
use gigae_eval_model::doubt;
use gigae_eval_model::doubt::Doubt;
use gigae_eval_model::environment::{Environment, LinkEnvironment, Overhead, TimerCost};
use gigae_eval_model::figures::{self, Measured};
use gigae_eval_model::file_figure::FileFigure;
use gigae_eval_model::metadata::MetadataFigure;
use gigae_eval_model::mount_figure::{GuestShare, MountFigure};
use gigae_eval_model::number::mbit;
use gigae_eval_model::plan::{Cell, Plan};
use gigae_eval_model::program_figure::ProgramFigure;
use gigae_eval_model::results::{Results, SCHEMA, Series, Skipped};
use gigae_eval_model::shares::SharesFigure;
use gigae_eval_model::trials::Tuning;
use gigae_eval_services::host::Host;
use gigae_eval_services::store::FileStore;
use gigae_eval_session::programs::Program;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// A cell whose repetitions fail this often is given up: once may be an accident.
pub(crate) const MOST_FAILURES: u32 = 2;

/// Why there is no figure although nothing failed.
pub(crate) const EMPTY: &str =
    "no repetition brought a sample; stop other work or plan longer repetitions";

/// A run that goes on.
pub(crate) struct Running<'a> {
    pub(crate) plan: &'a Plan,
    /// The other end in a guest of the NIC lab.
    pub(crate) lab: Option<&'a Host>,
    /// Programs beside, whether those that the answering end has not may be left out, and pairs of
    /// each.
    pub(crate) with: Vec<&'static dyn Program>,
    pub(crate) with_any: bool,
    pub(crate) pairs: u32,
    pub(crate) programs: Vec<ProgramFigure>,
    pub(crate) files: Vec<FileFigure>,
    pub(crate) access: Vec<AccessFigure>,
    pub(crate) metadata: Vec<MetadataFigure>,
    pub(crate) shares: Vec<SharesFigure>,
    pub(crate) mounts: Vec<MountFigure>,
    pub(crate) guests: Vec<GuestShare>,
    /// The files of file services, once a link has needed them.
    pub(crate) store: Option<FileStore>,
    /// Whether the other machine has ended the session.
    pub(crate) lost: bool,
    pub(crate) timer: TimerCost,
    pub(crate) overhead: Overhead,
    pub(crate) random: oorandom::Rand32,
    pub(crate) interrupted: &'a AtomicBool,
    pub(crate) progress: &'a mut dyn RunProgress,
    pub(crate) done: u64,
    pub(crate) total: u64,
    /// Bytes per second that the server's owner allows.
    pub(crate) limited: Option<f64>,
    pub(crate) links: Vec<LinkEnvironment>,
    pub(crate) series: Vec<Series>,
    pub(crate) tuning: Vec<Tuning>,
    pub(crate) skipped: Vec<Skipped>,
    /// What is doubted of whole links.
    pub(crate) doubts: Vec<Doubt>,
}

/// Carries out one repetition of a cell.
pub(crate) type Repetition<'a> = dyn FnMut(&Cell) -> Result<BothEnds, RepetitionError> + 'a;

impl<'a> Running<'a> {
    /// A run that has measured nothing yet, without programs beside.
    pub(crate) fn new(
        plan: &'a Plan,
        interrupted: &'a AtomicBool,
        progress: &'a mut dyn RunProgress,
    ) -> Self {
        Self {
            plan,
            lab: None,
            with: Vec::new(),
            with_any: false,
            pairs: 0,
            programs: Vec::new(),
            files: Vec::new(),
            access: Vec::new(),
            metadata: Vec::new(),
            shares: Vec::new(),
            mounts: Vec::new(),
            guests: Vec::new(),
            store: None,
            lost: false,
            timer: clock::timer_cost(),
            overhead: clock::overhead(),
            random: oorandom::Rand32::new(plan.seed),
            interrupted,
            progress,
            done: 0,
            total: 0,
            limited: None,
            links: Vec::new(),
            series: Vec::new(),
            tuning: Vec::new(),
            skipped: Vec::new(),
            doubts: Vec::new(),
        }
    }
}

impl Running<'_> {
    /// Round after round over all cells that still need repetitions.
    pub(crate) fn rounds(
        &mut self,
        link: &str,
        cells: &mut [CellRepetitions],
        measure: &mut Repetition<'_>,
    ) -> Result<(), RunError> {
        for round in 0..self.plan.max_repetitions {
            let wanted = |cell: &CellRepetitions| {
                cell.failures < MOST_FAILURES
                    && (round < self.plan.repetitions || !cell.precise(self.plan.precision))
            };
            let mut order: Vec<usize> =
                (0..cells.len()).filter(|&index| wanted(&cells[index])).collect();
            self.shuffle(&mut order);
            if round >= self.plan.repetitions {
                self.total += order.len() as u64;
            }
            for index in order {
                // A transport may have turned out to be unavailable in this very round.
                if cells[index].failures < MOST_FAILURES {
                    self.progress.step(self.done, self.total, &title(link, &cells[index].cell));
                    self.cell(link, cells, index, measure)?;
                }
                self.done += 1;
            }
        }
        Ok(())
    }

    /// Fisher and Yates.
    pub(crate) fn shuffle(&mut self, order: &mut [usize]) {
        for last in (1..order.len()).rev() {
            let end = u32::try_from(last + 1).expect("plans have few cells");
            order.swap(last, self.random.rand_range(0..end) as usize);
        }
    }

    /// One repetition of one cell, and what to make of its failure.
    pub(crate) fn cell(
        &mut self,
        link: &str,
        cells: &mut [CellRepetitions],
        index: usize,
        measure: &mut Repetition<'_>,
    ) -> Result<(), RunError> {
        if self.interrupted.load(Ordering::Relaxed) {
            return Err(RunError::Interrupted);
        }
        let outcome = measure(&cells[index].cell);
        // Whatever failed may have failed because of the interruption.
        if outcome.is_err() && self.interrupted.load(Ordering::Relaxed) {
            return Err(RunError::Interrupted);
        }
        // Another setting of the same transport may work all the same.
        let transport = cells[index].cell.label();
        let skip = |what: Option<String>, reason: String| Skipped {
            link: link.to_owned(),
            transport: transport.clone(),
            what,
            reason,
        };
        if let Ok(BothEnds { asked, answered }) = &outcome {
            cells[index].add(asked, answered);
        }
        self.report(link, &cells[index], &outcome);
        match outcome {
            Ok(_) => {}
            Err(RepetitionError::Fatal(error)) => return Err(error),
            Err(RepetitionError::Unavailable(reason)) => {
                self.skipped.push(skip(None, reason));
                for cell in cells.iter_mut().filter(|cell| cell.cell.label() == transport) {
                    cell.failures = MOST_FAILURES;
                }
            }
            Err(RepetitionError::Repetition(reason)) => {
                cells[index].failures += 1;
                if cells[index].failures == MOST_FAILURES {
                    let what = title(link, &cells[index].cell);
                    self.skipped.push(skip(Some(what), reason));
                }
            }
        }
        Ok(())
    }

    /// Takes the figures of a link into the results, and says of which there are none.
    pub(crate) fn keep(&mut self, link: &str, gathered: &[CellRepetitions]) {
        for gathered in gathered {
            match gathered.series(link, self.plan.precision, &self.overhead) {
                Some(series) => self.series.push(series),
                // That has been said.
                None if gathered.failures >= MOST_FAILURES => {}
                None => self.skipped.push(Skipped {
                    link: link.to_owned(),
                    transport: gathered.cell.label(),
                    what: Some(title(link, &gathered.cell)),
                    reason: EMPTY.to_owned(),
                }),
            }
        }
    }

    pub(crate) fn results(self, config: &Config, date: String, duration: Duration) -> Results {
        let took = self.progress.took();
        let first = &self.links[0].local;
        let widest = self.links.iter().rev().max_by_key(|link| link.links).expect("as above");
        // What one variant has chosen says nothing about the others.
        let options = |series: &Series| self.plan.tcp.get(series.variant.as_ref()?);
        let tcp = self.series.iter().find(|series| {
            series.transport == "tcp"
                && options(series).is_none_or(|options| options.congestion_control.is_none())
        });
        let congestion_control =
            tcp.and_then(|series| series.note.as_ref()?.congestion_control()).unwrap_or("unknown");
        let environment = Environment {
            date,
            duration: duration.as_secs_f64(),
            command: config.command.clone(),
            gigae: environment::VERSION.to_owned(),
            git: environment::GIT.to_owned(),
            kernel: first.kernel.clone(),
            cpu: first.cpu.clone(),
            nic: widest.local.interface.clone(),
            driver: first.driver.clone(),
            offloads: first.offloads.clone(),
            mtu: first.mtu,
            coalescing: first.coalescing.clone(),
            congestion_control: congestion_control.to_owned(),
            timer: self.timer,
            overhead: Some(self.overhead),
            live_view: took.map(|took| took.share),
            link: self.links.clone(),
        };
        let mut doubts = gather::run_doubts(&environment);
        doubts.extend(took.and_then(gather::view_doubt));
        doubts.extend(self.doubts);
        doubts.extend(self.limited.map(|rate| {
            doubt!(Limited, "the server's owner allows {} (--max-rate), so streams show that and not the network; ask for more",
                mbit(rate * 8.0))
        }));
        let (series, skipped, programs) = (self.series, self.skipped, self.programs);
        let (plan, links) = (&config.plan, &environment.link);
        let found = Measured { plan, links, series: &series, skipped: &skipped };
        Results {
            schema: SCHEMA.to_owned(),
            figures: figures::of_run(found),
            runs: vec![figures::run_of(&environment.date, environment.duration, &series)],
            environment,
            plan: config.plan.clone(),
            series,
            programs,
            files: self.files,
            access: self.access,
            metadata: self.metadata,
            shares: self.shares,
            mounts: self.mounts,
            guests: self.guests,
            tuning: self.tuning,
            skipped,
            doubts,
        }
    }
}

impl Running<'_> {
    /// Reports a repetition, or its failure, to the progress view.
    pub(super) fn report(
        &mut self,
        link: &str,
        of: &CellRepetitions,
        outcome: &Result<BothEnds, RepetitionError>,
    ) {
        let outcome = match outcome {
            Ok(BothEnds { asked, answered }) => Ok((asked, answered)),
            Err(RepetitionError::Unavailable(why) | RepetitionError::Repetition(why)) => {
                Err(&why[..])
            }
            Err(RepetitionError::Fatal(_)) => return,
        };
        let (title, planned) = (title(link, &of.cell), self.plan.repetitions);
        let (cell, so_far) = (&of.cell, of.so_far());
        self.progress.finished(&FinishedRepetition {
            title: &title,
            cell,
            outcome,
            so_far,
            planned,
        });
    }
}
