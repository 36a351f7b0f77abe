//! What happens to a process: it is killed, or does not do its part.

use super::context::ScenarioContext;
use crate::bench::{Bench, PATIENCE, SHORT, StepResult};
use crate::figures::Figures;

/// Either end is killed and comes back, at once or after the other learnt that it is gone: by a
/// reset if it came back, else within the peers' timeout.
pub(super) fn kill(mut context: ScenarioContext<'_>) -> StepResult<Figures> {
    context.perhaps_trunk();
    let long = context.random.rand_range(0..3) == 0;
    if long {
        context.setup.timeout = SHORT;
    }
    let mut bench = context.bench()?;
    for _ in 0..if long { 1 } else { 3 } {
        let side = bench.side();
        bench.pass(100);
        bench.kill(side)?;
        bench.figures.faults += 1;
        if long {
            failures(&bench, 1 - side)?;
        } else {
            bench.pass(100);
        }
        bench.start(side)?;
        bench.more(100)?;
    }
    bench.finish()
}

/// An end must get its failed messages back within the stated time.
pub(super) fn failures(bench: &Bench, side: usize) -> StepResult {
    let before = bench.logs[side].history().failed;
    bench.wait(side, "failure", bench.setup.given_up(), |history| history.failed > before)
}

/// An end keeps all messages for a while, or makes no call: the other stops, and nothing is lost.
pub(super) fn slow(mut context: ScenarioContext<'_>) -> StepResult<Figures> {
    context.perhaps_trunk();
    let mut bench = context.bench()?;
    for _ in 0..3 {
        let side = bench.side();
        let (word, time) = (["hold", "freeze"][bench.side()], bench.draw(50..800));
        bench.command(side, &format!("{word} {time}"))?;
        bench.figures.faults += 1;
        bench.pass(time);
        let before = bench.logs[1 - side].history().received;
        bench.wait(1 - side, "message", PATIENCE, |history| history.received > before)?;
        bench.more(100)?;
    }
    bench.none_failed()?;
    bench.finish()
}
