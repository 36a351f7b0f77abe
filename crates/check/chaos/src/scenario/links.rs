//! What happens to a link: its interface, its program, its namespace, the switch's buffer, its
//! ring.

use super::context::ScenarioContext;
use super::processes::failures;
use crate::bench::{Bench, PATIENCE, SHORT, StepResult};
use crate::figures::Figures;
use crate::system;
use crate::worker::PORT;
use gigae_fabric::Rate;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// A detached program is noticed within 1.5 s of calls, or once the kernel answers the link's
/// question.
const NOTICED: Duration = Duration::from_millis(1_500).saturating_add(PATIENCE);

/// The interface of either end goes down and comes back: that end gets an error, and nothing is
/// lost if it is before the peers' timeout; else messages of both ends come back.
pub(super) fn down(mut context: ScenarioContext<'_>) -> StepResult<Figures> {
    let long = context.random.rand_range(0..3) == 0;
    if long {
        context.setup.timeout = SHORT;
    }
    let mut bench = context.bench()?;
    for _ in 0..if long { 1 } else { 2 } {
        let side = bench.side();
        bench.pass(50);
        // `ip` may return long after the interface is down, and messages fail in the meantime.
        let (before, failed) = {
            let history = bench.logs[side].history();
            (history.errors_of("down"), history.failed)
        };
        let since = Instant::now();
        bench.ip(side, "link set eth0 down")?;
        bench.figures.faults += 1;
        bench.wait(side, "error", PATIENCE, |history| history.errors_of("down") > before)?;
        match long {
            true => failures(&bench, 1 - side)?,
            false => bench.pass(1_000),
        }
        bench.set_up(side, "eth0")?;
        bench.is_over(since);
        if long {
            bench.wait(side, "failure", PATIENCE, |history| history.failed > failed)?;
        }
        bench.wait(side, "end of the error", PATIENCE, |history| history.recovered)?;
        bench.more(200)?;
    }
    if !long {
        bench.none_failed()?;
    }
    bench.finish()
}

/// The MTU of either end becomes less than the messages need, for less than the peers' timeout or
/// until messages fail; or it becomes more.
pub(super) fn mtu(mut context: ScenarioContext<'_>) -> StepResult<Figures> {
    let long = context.random.rand_range(0..3) == 0;
    if long {
        context.setup.timeout = SHORT;
    }
    let mut bench = context.bench()?;
    for _ in 0..if long { 1 } else { 3 } {
        let side = bench.side();
        let mtu = if long || bench.side() == 0 { bench.draw(300..1_300) } else { 3_000 };
        let since = Instant::now();
        bench.ip(side, &format!("link set eth0 mtu {mtu}"))?;
        bench.figures.faults += 1;
        match long {
            true => either_fails(&bench)?,
            false => bench.pass(800),
        }
        bench.ip(side, "link set eth0 mtu 1500")?;
        bench.is_over(since);
        bench.more(200)?;
    }
    if !long {
        bench.none_failed()?;
    }
    bench.finish()
}

/// Messages are too long for the link in one direction or in both.
fn either_fails(bench: &Bench) -> StepResult {
    let failed =
        || [0, 1].iter().map(|&side: &usize| bench.logs[side].history().failed).sum::<u64>();
    let (before, end) = (failed(), Instant::now() + bench.setup.given_up());
    while failed() == before {
        if Instant::now() > end {
            return Err("no message failed although none can arrive".into());
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    Ok(())
}

/// The second node's namespace is deleted, which changes nothing while a process is in it; then its
/// cable goes: that end gets an error at once, the other's messages fail within the peers' timeout.
pub(super) fn gone(mut context: ScenarioContext<'_>) -> StepResult<Figures> {
    context.setup.timeout = SHORT;
    let mut bench = context.bench()?;
    bench.drop_tcp(1);
    let name = bench.node(1).name;
    let status = std::process::Command::new("ip").args(["netns", "delete", &name]).status();
    if !status.is_ok_and(|status| status.success()) {
        return Err(format!("the namespace {name} could not be deleted"));
    }
    bench.lost[1] = true;
    bench.figures.faults += 1;
    bench.more(200)?;
    delete_port(&bench, "p2")?;
    bench.figures.faults += 1;
    bench.wait(1, "error", PATIENCE, |history| history.errors_of("gone") > 0)?;
    failures(&bench, 0)?;
    // It tries to open its endpoint again and again.
    bench.wait(1, "refusal", PATIENCE, |history| history.errors_of("open") > 0)?;
    bench.kill(1)?;
    bench.finish()
}

/// Deletes a port of the switch, and with it the interface at the other end of the cable.
pub(super) fn delete_port(bench: &Bench, port: &str) -> StepResult {
    let switch = format!("{}-sw", bench.fabric.config().prefix);
    let mut ip = std::process::Command::new("ip");
    let status = ip.args(["-n", &switch, "link", "delete", port]).status();
    match status.is_ok_and(|status| status.success()) {
        true => Ok(()),
        false => Err(format!("the cable at port {port} could not be deleted")),
    }
}

/// Both ends have XDP programs.
pub(super) fn over_xdp(context: &mut ScenarioContext<'_>) {
    for backend in &mut context.setup.backends {
        *backend = ["generic", "native"][context.random.rand_range(0..2) as usize];
    }
}

/// Another program with the rights takes the XDP program of either end off: that end gets an error,
/// and opens its endpoint again. What `ip` tries is refused.
pub(super) fn detach(mut context: ScenarioContext<'_>) -> StepResult<Figures> {
    over_xdp(&mut context);
    context.setup.timeout = SHORT * 2;
    let mut bench = context.bench()?;
    let side = bench.side();
    let word = if bench.setup.backends[side] == "native" { "xdpdrv" } else { "xdpgeneric" };
    let off = format!("link set dev eth0 {word} off");
    if system::attempt(&bench.node(side), "ip", &off)?.status.success() {
        return Err(format!("'ip {off}' took the program away"));
    }
    bench.figures.faults += 1;
    bench.more(100)?;
    bench.none_failed()?;
    let program = system::program_on(&bench.node(side), 0)?.ok_or("there is no program")?;
    system::detach(program)?;
    bench.figures.faults += 1;
    bench.wait(side, "error", NOTICED, |history| history.errors_of("detached") > 0)?;
    bench.more(100)?;
    bench.finish()
}

/// The third node floods the second with datagrams until the switch's buffer towards it overflows,
/// which takes long where the flood's processor has other work. Nothing is lost, over one link or
/// two of which it is the first.
pub(super) fn flood(context: ScenarioContext<'_>) -> StepResult<Figures> {
    let rate = Rate::bits_per_second(200_000_000);
    let mut bench = Bench::new(context.program, context.setup, |config| config.rate = Some(rate))?;
    let dropped = |bench: &Bench| -> StepResult<u64> {
        let ports = bench.fabric.port_counters().map_err(|error| error.to_string())?;
        Ok(ports[1].dropped)
    };
    let before = dropped(&bench)?;
    let time = bench.draw(300..900);
    flooded(&mut bench, 1, system::DISCARD, time, 0, |bench| {
        bench.more(20)?;
        let end = Instant::now() + PATIENCE;
        while dropped(bench)? == before {
            if Instant::now() >= end {
                return Err("a flood does not fill the switch's buffer".into());
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        Ok(())
    })?;
    bench.more(200)?;
    bench.none_failed()?;
    bench.finish()
}

/// The third node sends datagrams to a port of an end for `time` milliseconds, until there are
/// `least` at any rate, and as long as `meanwhile` takes.
pub(super) fn flooded(
    bench: &mut Bench,
    side: usize,
    port: u16,
    time: u64,
    least: u64,
    meanwhile: impl FnOnce(&mut Bench) -> StepResult,
) -> StepResult {
    let (from, to, stop) = (bench.fabric.node(3), bench.node(side), AtomicBool::new(false));
    let went = AtomicU64::new(0);
    let datagrams = std::thread::scope(|scope| {
        let flood = scope.spawn(|| system::flood(&from, &to, port, &stop, &went));
        std::thread::sleep(Duration::from_millis(time));
        while went.load(Ordering::Relaxed) < least && !flood.is_finished() {
            std::thread::sleep(Duration::from_millis(10));
        }
        let outcome = meanwhile(bench);
        stop.store(true, Ordering::Relaxed);
        let datagrams = flood.join().map_err(|_| "the flood panicked".to_owned())?;
        outcome.and(datagrams)
    })?;
    bench.figures.faults += datagrams;
    Ok(())
}

/// Datagrams of which no link's ring holds all: it has 4,096 frames.
const MORE_THAN_A_RING: u64 = 20_000;

/// A program makes no call while datagrams that pass its filter empty the ring into which its link
/// receives: what comes then is dropped, and repeated once the program goes on.
pub(super) fn starve(mut context: ScenarioContext<'_>) -> StepResult<Figures> {
    context.setup.udp = true;
    let mut bench = context.bench()?;
    for _ in 0..2 {
        let (side, time) = (bench.side(), bench.draw(200..600));
        let since = Instant::now();
        // With its progress thread, which would take the frames in.
        bench.halt(side, true)?;
        let flood = flooded(&mut bench, side, PORT, time, MORE_THAN_A_RING, |_| Ok(()));
        bench.halt(side, false)?;
        bench.is_over(since);
        flood?;
        bench.more(100)?;
    }
    bench.none_failed()?;
    let figures = bench.finish()?;
    match figures.dropped {
        0 => Err("the rings never ran empty".into()),
        _ => Ok(figures),
    }
}
