//! One repetition of one cell, at both ends or in memory.

use crate::error::{RepetitionError, RunError, reply_failure};
use crate::gather::CellRepetitions;
use crate::incast;
use gigae_eval_measure::core_to_core::core_to_core;
use gigae_eval_measure::cost::Meter;
use gigae_eval_measure::experiment::{ceiling, memory};
use gigae_eval_measure::load::Load;
use gigae_eval_measure::probe::{Answered, Asked, GRACE, Loop, Signals};
use gigae_eval_measure::site::{ChannelAddress, Site};
use gigae_eval_measure::transport::{JOIN_TIMEOUT, Probe, Side, Task, TransportError, open};
use gigae_eval_model::experiment::{AccessMethod, Experiment};
use gigae_eval_model::plan::{Cell, Cpus};
use gigae_eval_model::transport::{self, TransportSpec};
use gigae_eval_session::control::{ANSWER, Reply, Request};
use gigae_eval_session::stage::Stage;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// The cells of a link, of which nothing is known yet.
pub(crate) fn gather(stage: &Stage, cells: Vec<Cell>) -> Vec<CellRepetitions> {
    let gathered = |cell: Cell| {
        let transport = transport::by_name(&cell.transport).expect("the plan was checked");
        let limit = limit(stage, transport, &cell);
        CellRepetitions::new(cell, transport.reliable, limit)
    };
    cells.into_iter().map(gathered).collect()
}

/// Goodput that a shaped link allows, or several that the transport uses as one: for messages of
/// one frame with their headers, for longer ones and for a byte stream with full frames.
pub(crate) fn limit(stage: &Stage, transport: &TransportSpec, cell: &Cell) -> Option<f64> {
    let limit = port_limit(stage, transport, cell.size, [1, 2])?;
    let links = if transport.uses_all_links { stage.site.interfaces().count() } else { 1 };
    cell.experiment.is_goodput().then_some(limit * links as f64)
}

/// The same of one link from a node to another one, for messages of so many bytes.
pub(crate) fn port_limit(
    stage: &Stage,
    transport: &TransportSpec,
    size: usize,
    way: [u16; 2],
) -> Option<f64> {
    let (fabric, mtu) = (stage.fabric.as_ref()?, stage.site.mtu);
    let whole = transport.boundaries && size <= transport.frame_payload(mtu);
    let (payload, header) = if whole {
        (size, mtu + ETHERNET_HEADER - transport.frame_payload(mtu))
    } else {
        let part = transport.part_payload(mtu);
        (part, mtu + ETHERNET_HEADER - part)
    };
    let (payload, header) = (u32::try_from(payload).ok()?, u32::try_from(header).ok()?);
    Some(fabric.payload_limit(way, payload, header)? / 1e6)
}

/// The same of a byte stream by TCP from a node to another one.
pub(crate) fn limit_of_tcp(stage: &Stage, way: [u16; 2]) -> Option<f64> {
    let (fabric, mtu) = (stage.fabric.as_ref()?, stage.site.mtu);
    let part = transport::by_name("tcp")?.part_payload(mtu);
    let header = u32::try_from(mtu + ETHERNET_HEADER - part).ok()?;
    Some(fabric.payload_limit(way, u32::try_from(part).ok()?, header)? / 1e6)
}

/// Two addresses and an EtherType, which the MTU does not count.
pub(crate) const ETHERNET_HEADER: usize = 14;

/// Time for the answering end to close what it has opened, which may wait for the kernel as opening
/// does. After an interrupt, the run does not wait that long for an end that has stopped.
pub(crate) fn cancel_within(interrupted: &AtomicBool) -> Duration {
    if interrupted.load(Ordering::Relaxed) { JOIN_TIMEOUT + GRACE } else { ANSWER }
}

/// What both ends measured in a repetition.
pub(crate) struct BothEnds {
    pub(crate) asked: Asked,
    pub(crate) answered: Answered,
}

/// One repetition, both ends.
pub(crate) fn repetition(
    stage: &mut Stage,
    cell: &Cell,
    interrupted: &AtomicBool,
) -> Result<BothEnds, RepetitionError> {
    let task = task(cell, stage.session.limits.rate);
    if matches!(cell.experiment, Experiment::Incast | Experiment::Cores) {
        return incast::repetition(stage, task, interrupted);
    }
    let site = place(stage, cell)?;
    site.pin().map_err(|error| {
        RepetitionError::Repetition(format!("pinning to a CPU failed: {error}"))
    })?;
    let core_to_core =
        site.cpu.zip(stage.answering_cpu).and_then(|(here, there)| core_to_core(here, there));
    let own = Task { wait: cell.experiment.measuring_wait(cell.wait), ..task.clone() };
    let opening = open(&site, &own, Side::Client)?;
    let run = Request::Run { task, address: opening.address() };
    let peer = match stage.session.ask(&run, ANSWER)? {
        Reply::Ready(address) => address,
        other => return Err(reply_failure(&other)),
    };
    let measured = measure(&site, &own, &peer, || opening.join(&peer), interrupted);
    let (mut asked, _open) = match measured {
        Ok(measured) => measured,
        Err(failure) => {
            let reply = stage.session.ask(&Request::Cancel, cancel_within(interrupted))?;
            return Err(match (failure, reply) {
                (RepetitionError::Repetition(here), Reply::Failed { reason, .. }) => {
                    RepetitionError::Repetition(format!("{here}; at the answering end: {reason}"))
                }
                (failure, _) => failure,
            });
        }
    };
    asked.core_to_core = core_to_core;
    match stage.session.ask(&Request::Finish { bytes: asked.bytes }, ANSWER + GRACE * 2)? {
        Reply::Done(answered) => Ok(BothEnds { asked, answered: *answered }),
        other => Err(reply_failure(&other)),
    }
}

/// What both ends are to do.
fn task(cell: &Cell, rate: Option<f64>) -> Task {
    Task {
        experiment: cell.experiment,
        transport: cell.transport.clone(),
        setting: cell.setting,
        condition: cell.condition,
        wait: cell.wait,
        size: cell.size,
        warmup: cell.warmup.as_secs_f64(),
        measure: cell.measure.as_secs_f64(),
        rate,
    }
}

/// Where this end measures: on its own CPU, or on that of the answering end, if both are to share
/// one.
pub(crate) fn place(stage: &Stage, cell: &Cell) -> Result<Site, RepetitionError> {
    match (cell.condition.cpus, stage.answering_cpu) {
        (Cpus::Two, _) => Ok(stage.site.clone()),
        (Cpus::One, Some(cpu)) => Ok(Site { cpu: Some(cpu), ..stage.site.clone() }),
        (Cpus::One, None) => Err(RepetitionError::Unavailable(
            "two machines do not share a CPU; leave --peer out for what one CPU gives".into(),
        )),
    }
}

/// The measuring end's part. The probe stays open until the serving end is done with it.
pub(crate) fn measure(
    site: &Site,
    task: &Task,
    peer: &ChannelAddress,
    join: impl FnOnce() -> Result<Box<dyn Probe>, TransportError>,
    interrupted: &AtomicBool,
) -> Result<(Asked, Box<dyn Probe>), RepetitionError> {
    let mut probe = join()?;
    let load = match task.condition.bulk {
        0 => None,
        streams => {
            let poured = Load::pour(site, SocketAddr::new(peer.ip, peer.bulk), streams);
            Some(poured.map_err(TransportError::io("connecting bulk streams"))?)
        }
    };
    let meter = Meter::new(site);
    let signals = Signals::new(interrupted);
    let reliable = transport::by_name(&task.transport).is_some_and(|one| one.reliable);
    let asked = probe.ask(&Loop { task, meter: &meter, signals: &signals, reliable })?;
    drop(load);
    Ok((asked, probe))
}

/// One repetition in memory, by threads on these CPUs.
pub(crate) fn in_memory(
    cell: &Cell,
    cpus: &[usize],
    interrupted: &AtomicBool,
) -> Result<BothEnds, RepetitionError> {
    if cell.experiment == Experiment::Ceiling {
        let between = core_to_core(cpus[0], cpus[1]);
        let (mut asked, answered) = ceiling::measure(&task(cell, None), cpus, interrupted)?;
        asked.core_to_core = between;
        return Ok(BothEnds { asked, answered });
    }
    let unknown = || RepetitionError::Unavailable("unknown access method".into());
    let method = AccessMethod::by_name(&cell.transport).ok_or_else(unknown)?;
    match memory::measure(method, cell.size, cell.warmup, cell.measure, interrupted) {
        Ok(Some(asked)) => Ok(BothEnds { asked, answered: Answered::default() }),
        Ok(None) => Err(RepetitionError::Fatal(RunError::Interrupted)),
        Err(error) => {
            Err(RepetitionError::Unavailable(format!("memory could not be mapped: {error}")))
        }
    }
}
