//! What happens to one of two links that are used as one: everything goes on by the other, no call
//! fails, and nothing is lost (PROTOCOL.md 11.5).

use super::context::ScenarioContext;
use super::links;
use crate::bench::{Bench, StepResult};
use crate::event::now;
use crate::figures::Figures;
use crate::system;

/// Longer than it takes to notice that a program was detached, in milliseconds.
const NOTICED: u64 = 2_500;

fn bench(mut context: ScenarioContext<'_>) -> StepResult<Bench> {
    context.setup.trunk();
    context.bench()
}

/// Nothing came of it but a pause.
fn nothing_else(bench: Bench) -> StepResult<Figures> {
    bench.none_failed()?;
    bench.no_call_failed()?;
    bench.finish()
}

/// An interface of either end goes down, and is used again when it is up.
pub(super) fn down(context: ScenarioContext<'_>) -> StepResult<Figures> {
    let mut bench = bench(context)?;
    for _ in 0..2 {
        let (side, link) = (bench.side(), bench.side());
        bench.pass(50);
        let since = now();
        bench.ip(side, &format!("link set eth{link} down"))?;
        bench.figures.faults += 1;
        bench.goes_on(since)?;
        bench.pass(500);
        bench.set_up(side, &format!("eth{link}"))?;
        bench.links_return()?;
        bench.more(200)?;
    }
    nothing_else(bench)
}

/// The MTU of one interface becomes less than the messages need, or more.
pub(super) fn mtu(context: ScenarioContext<'_>) -> StepResult<Figures> {
    let mut bench = bench(context)?;
    for _ in 0..2 {
        let (side, link) = (bench.side(), bench.side());
        let mtu = if bench.side() == 0 { bench.draw(300..1_300) } else { 3_000 };
        let since = now();
        bench.ip(side, &format!("link set eth{link} mtu {mtu}"))?;
        bench.figures.faults += 1;
        bench.goes_on(since)?;
        bench.pass(800);
        bench.goes_on(since)?;
        bench.ip(side, &format!("link set eth{link} mtu 1500"))?;
        bench.more(200)?;
    }
    nothing_else(bench)
}

/// One of the second node's cables goes, with its interface there.
pub(super) fn gone(context: ScenarioContext<'_>) -> StepResult<Figures> {
    let mut bench = bench(context)?;
    let link = bench.side();
    let port = ["p2", "p2-1"][link];
    if link == 0 {
        bench.drop_tcp(1);
    }
    let since = now();
    links::delete_port(&bench, port)?;
    bench.figures.faults += 1;
    bench.goes_on(since)?;
    bench.pass(1_000);
    bench.more(200)?;
    nothing_else(bench)
}

/// The XDP program of one interface of either end is taken off: that link works one way only.
pub(super) fn detach(mut context: ScenarioContext<'_>) -> StepResult<Figures> {
    links::over_xdp(&mut context);
    let mut bench = bench(context)?;
    let (side, link) = (bench.side(), bench.side());
    let program =
        system::program_on(&bench.node(side), link as u16)?.ok_or("there is no program")?;
    let since = now();
    system::detach(program)?;
    bench.figures.faults += 1;
    bench.goes_on(since)?;
    bench.pass(NOTICED);
    bench.more(200)?;
    nothing_else(bench)
}

/// As [`links::flood`], over the first of two links.
pub(super) fn flood(mut context: ScenarioContext<'_>) -> StepResult<Figures> {
    context.setup.trunk();
    links::flood(context)
}
