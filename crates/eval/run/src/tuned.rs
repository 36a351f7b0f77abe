//! The settings that a plan tries on a link: each is a block, in which every cell has one
//! repetition.
//!
//! In each round the blocks come in a new random order, the present setting among them, and so do
//! the cells within a block. Then the best ones together are tried in further rounds, again
//! beside the present setting, whose new repetitions join the old ones. Both ends are as before
//! when it ends, however it does.

use crate::error::{RunError, unexpected};
use crate::gather::CellRepetitions;
use crate::progress::title;
use crate::repetition::{gather, repetition};
use crate::rounds::{MOST_FAILURES, Running};
use gigae_eval_model::choice::Objectives;
use gigae_eval_model::knobs::{KnobState, Set, WantedKnob};
use gigae_eval_model::plan::{Cell, TuneEnds, TunePlan};
use gigae_eval_model::results::Series;
use gigae_eval_model::trials::{Trial, Tuning};
use gigae_eval_model::{choice, trials as sweep};
use gigae_eval_session::control::{ANSWER, Reply, Request};
use gigae_eval_session::stage::Stage;
use gigae_eval_session::tune::{TuneError, Tuner};

/// A setting and what is measured under it; the present one has no trial.
struct Block {
    trial: Option<Trial>,
    cells: Vec<CellRepetitions>,
}

/// Both ends while settings are tried.
struct Ends<'a> {
    stage: &'a mut Stage,
    tuner: Tuner,
    remote: bool,
}

impl Running<'_> {
    pub(super) fn tuned(
        &mut self,
        link: &str,
        stage: &mut Stage,
        plan: &TunePlan,
        cells: Vec<Cell>,
    ) -> Result<(), RunError> {
        let usual = stage.site.clone();
        let (mut ends, local, remote) = Ends::new(stage, plan)?;
        let block =
            |ends: &Ends<'_>, trial| Block { trial, cells: gather(ends.stage, cells.clone()) };
        let mut blocks = vec![block(&ends, None)];
        let trials = sweep::trials(plan, &local, &remote);
        blocks.extend(trials.into_iter().map(|trial| block(&ends, Some(trial))));
        self.blocks(link, &mut ends, &mut blocks)?;
        let best = self.best(link, plan, &blocks);
        if let Some(best) = best {
            let mut pair = vec![blocks.remove(0), block(&ends, Some(best))];
            self.blocks(link, &mut ends, &mut pair)?;
            blocks.extend(pair.pop());
            blocks.splice(0..0, pair);
        }
        ends.apply(&[])?;
        drop(ends);
        stage.site = usual;
        self.keep_blocks(link, plan, blocks, local, remote);
        Ok(())
    }

    /// The best ones together, by what was measured so far.
    fn best(&self, link: &str, plan: &TunePlan, blocks: &[Block]) -> Option<Trial> {
        let objectives = |block| Objectives::of(&self.series_of(link, block), link, &plan.by);
        let present = objectives(blocks.first()?);
        let measured = blocks.iter().filter_map(|block| {
            let trial = block.trial.clone()?;
            Some(Trial { series: self.series_of(link, block), ..trial })
        });
        let trials: Vec<Trial> = measured.collect();
        choice::best_together(&trials, link, &plan.by, &present)
    }

    fn series_of(&self, link: &str, block: &Block) -> Vec<Series> {
        let series = |one: &CellRepetitions| one.series(link, self.plan.precision, &self.overhead);
        block.cells.iter().filter_map(series).collect()
    }

    /// Round after round over all blocks.
    fn blocks(
        &mut self,
        link: &str,
        ends: &mut Ends<'_>,
        blocks: &mut [Block],
    ) -> Result<(), RunError> {
        for _ in 0..self.plan.repetitions {
            let mut order: Vec<usize> = (0..blocks.len()).collect();
            self.shuffle(&mut order);
            for number in order {
                self.block(link, ends, &mut blocks[number])?;
            }
        }
        Ok(())
    }

    /// One repetition of every cell under one setting.
    fn block(
        &mut self,
        link: &str,
        ends: &mut Ends<'_>,
        block: &mut Block,
    ) -> Result<(), RunError> {
        let mut link = link.to_owned();
        if let Some(trial) = &mut block.trial {
            if trial.failed.is_some() {
                self.done += block.cells.len() as u64;
                return Ok(());
            }
            link = format!("{link}, {}", trial.name);
            self.progress.step(self.done, self.total, &link);
            match ends.apply(&trial.settings) {
                Err(RunError::Refused(why)) => {
                    trial.failed = Some(why);
                    self.done += block.cells.len() as u64;
                    return Ok(());
                }
                other => other?,
            }
        } else {
            ends.apply(&[])?;
        }
        let mut order: Vec<usize> = (0..block.cells.len()).collect();
        self.shuffle(&mut order);
        let interrupted = self.interrupted;
        for index in order {
            if block.cells[index].failures < MOST_FAILURES {
                let title = title(&link, &block.cells[index].cell);
                self.progress.step(self.done, self.total, &title);
                self.cell(&link, &mut block.cells, index, &mut |cell| {
                    repetition(ends.stage, cell, interrupted)
                })?;
            }
            self.done += 1;
        }
        Ok(())
    }

    /// Takes everything into the results: the present setting's figures as those of any cell.
    fn keep_blocks(
        &mut self,
        link: &str,
        plan: &TunePlan,
        blocks: Vec<Block>,
        local: Vec<KnobState>,
        remote: Vec<KnobState>,
    ) {
        let mut trials = Vec::new();
        for block in blocks {
            let series = self.series_of(link, &block);
            match block.trial {
                None => self.keep(link, &block.cells),
                Some(trial) => {
                    let empty = "no repetition of it brought a figure".to_owned();
                    let failed = trial.failed.or_else(|| series.is_empty().then_some(empty));
                    trials.push(Trial { series, failed, ..trial });
                }
            }
        }
        let by = plan.by.clone();
        self.tuning.push(Tuning { link: link.to_owned(), by, local, remote, trials });
    }
}

impl<'a> Ends<'a> {
    /// Asks both ends what they have.
    fn new(
        stage: &'a mut Stage,
        plan: &TunePlan,
    ) -> Result<(Self, Vec<KnobState>, Vec<KnobState>), RunError> {
        let (wanted, not_here) = possible(stage, plan.wanted());
        let (tuner, mut local) = Tuner::new(&stage.site, &wanted).map_err(|error| {
            RunError::Nothing(format!("the interface here cannot be tuned: {error}"))
        })?;
        let mut states = Vec::new();
        let remote = plan.ends == TuneEnds::Both;
        if remote {
            states = match stage.session.ask(&Request::Knobs(wanted), ANSWER)? {
                Reply::Knobs(states) => states,
                other => return Err(unexpected(&other)),
            };
            states.extend(not_here.clone());
        }
        local.extend(not_here);
        Ok((Self { stage, tuner, remote }, local, states))
    }

    /// Makes both ends so. A setting that an end refuses is [`RunError::Refused`], and both are as
    /// before then.
    fn apply(&mut self, sets: &[Set]) -> Result<(), RunError> {
        let here = self.tuner.apply(sets);
        self.tuner.adapt(&mut self.stage.site);
        // What must be there to be safe is missing: no other setting will do better.
        if let Err(error @ TuneError::Safety(_)) = here {
            return Err(RunError::Tuning(error));
        }
        if self.remote {
            let sets = if here.is_ok() { sets.to_vec() } else { Vec::new() };
            match self.stage.session.ask(&Request::Tune(sets), ANSWER)? {
                Reply::Tuned => {}
                Reply::Failed { reason, .. } => {
                    let _ = self.tuner.apply(&[]);
                    self.tuner.adapt(&mut self.stage.site);
                    return Err(RunError::Refused(format!("at the answering end: {reason}")));
                }
                other => return Err(unexpected(&other)),
            }
        }
        here.map_err(|error| RunError::Refused(error.to_string()))
    }
}

/// What of a plan's knobs makes sense on this link, and the rest with the reason: a virtual
/// network's shaper takes a frame of 64 KB for one, and its switch's ports have an MTU of their
/// own.
fn possible(stage: &Stage, wanted: Vec<WantedKnob>) -> (Vec<WantedKnob>, Vec<KnobState>) {
    let config = stage.fabric.as_ref().map(gigae_fabric::Fabric::config);
    let switch = config.is_some_and(|config| !config.cable);
    let shaped = config.is_some_and(|config| config.rate.is_some() || config.loss > 0.0);
    let why = |knob: &str| match knob {
        "tso" if shaped => {
            Some("the link is shaped frame by frame, so its ends must send single ones")
        }
        "mtu" if switch => Some("the virtual switch keeps its own; use a cable"),
        _ => None,
    };
    let (there, not): (Vec<_>, Vec<_>) =
        wanted.into_iter().partition(|one| why(&one.knob).is_none());
    let state = |WantedKnob { knob, .. }: WantedKnob| KnobState {
        belongs: gigae_eval_session::tune::by_name(&knob)
            .map_or(gigae_eval_model::knobs::KnobOwner::Kernel, |knob| knob.form().belongs),
        present: None,
        absent: why(&knob).map(str::to_owned),
        note: None,
        values: Vec::new(),
        knob,
    };
    (there, not.into_iter().map(state).collect())
}
