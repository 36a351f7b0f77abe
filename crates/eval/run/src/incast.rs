//! One repetition of many senders: on a virtual network of more than two nodes on these in turn,
//! else all on this one. Beside them one ECHO after the other goes from this node, by which one
//! sees the queue. The same for the threads of an experiment of cores, which have an end each at
//! either side, on CPUs of their own, and nothing beside them.

use crate::error::{RepetitionError, reply_failure};
use crate::repetition::{BothEnds, cancel_within};
use gigae_eval_measure::core_to_core::core_to_core;
use gigae_eval_measure::cost::Meter;
use gigae_eval_measure::experiment::incast::together;
use gigae_eval_measure::probe::{Asked, GRACE, Loop, ProbeError, Signals};
use gigae_eval_measure::site::{ChannelAddress, Site};
use gigae_eval_measure::transport::{Opening, Probe, Side, Task, TransportError};
use gigae_eval_model::experiment::Experiment;
use gigae_eval_model::plan::{Condition, Setting, Wait};
use gigae_eval_model::transport;
use gigae_eval_session::control::{ANSWER, Reply, Request};
use gigae_eval_session::stage::Stage;
use gigae_fabric::Node;
use gigae_host::proc::{self, net};
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

/// Bytes of an ECHO, as ping(8) sends them.
const ECHO: usize = 56;

/// This many ECHOs per second, whatever one takes: else those that find the queue empty, before and
/// after the senders, would be most of them.
const ECHOES: f64 = 250.0;

/// All senders begin at the same time, when the last of their threads surely runs.
const START: Duration = Duration::from_millis(10);

/// They end before the senders do.
const WITHIN: f64 = 0.9;

/// Where a sender is.
struct SenderSite {
    /// Its node, if that is not the calling thread's.
    node: Option<Node>,
    site: Site,
    /// Whether it is the first of its node, which counts what the node's TCP repeats. Nodes take
    /// turns.
    first: bool,
}

/// Both ends.
pub(super) fn repetition(
    stage: &mut Stage,
    task: Task,
    interrupted: &AtomicBool,
) -> Result<BothEnds, RepetitionError> {
    let senders = task.condition.ends();
    // So that all keep the rate together, whatever is lost in rounding.
    let rate = task.rate.map(|rate| rate / f64::from(senders) * (1.0 - 1e-9));
    let task = Task { rate, ..task };
    let both = stage.site.cpu.zip(stage.answering_cpu).filter(|_| is_parallel(&task));
    let between = both.and_then(|(here, there)| core_to_core(here, there));
    let (places, openings) = open(stage, &task)?;
    let addresses = openings.iter().map(|opening| opening.address()).collect();
    let cpus = if is_parallel(&task) { stage.thread_cpus().1 } else { Vec::new() };
    let run = Request::Gather { task: task.clone(), addresses, cpus };
    let peers = match stage.session.ask(&run, ANSWER)? {
        Reply::Gathering(peers) if !peers.is_empty() => peers,
        other => return Err(reply_failure(&other)),
    };
    let asked = join(openings, &peers).map_err(RepetitionError::from).and_then(|mut probes| {
        let asked = send(&stage.site, &task, &places, &mut probes, &peers[0], interrupted)?;
        Ok((asked, probes))
    });
    // The ends stay open until the receiver is done with them.
    let ((asked, beside), _open) = match asked {
        Ok(asked) => asked,
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
    let bytes = asked.iter().map(|one| one.bytes).collect();
    match stage.session.ask(&Request::Gathered { bytes }, ANSWER + GRACE * 2)? {
        Reply::Counted(answered) => {
            let nodes = places.iter().filter(|place| place.first).count();
            let cpus = if is_parallel(&task) { stage.thread_cpus().0.len() } else { 1 };
            let (mut asked, answered) = together(asked, answered, nodes, cpus);
            (asked.crowd.trips, asked.crowd.trips_lost) = (beside.samples, beside.lost);
            asked.core_to_core = between;
            Ok(BothEnds { asked, answered })
        }
        other => Err(reply_failure(&other)),
    }
}

/// Whether the ends are pairs on CPUs of their own.
fn is_parallel(task: &Task) -> bool {
    task.experiment == Experiment::Cores
}

/// All senders, before they have joined.
type OpenedSenders = (Vec<SenderSite>, Vec<Box<dyn Opening>>);

/// Opens all senders, each in its node.
fn open(stage: &Stage, task: &Task) -> Result<OpenedSenders, RepetitionError> {
    let transport = transport::by_name(&task.transport).expect("the plan was checked");
    if transport.receives_from_all
        && !is_parallel(task)
        && task.size > transport.frame_payload(stage.site.mtu)
    {
        let why = "many senders can send only messages that fit in a frame; choose smaller ones";
        return Err(RepetitionError::Unavailable(why.into()));
    }
    let nodes = if is_parallel(task) { vec![None] } else { stage.sending_nodes() };
    let (cpus, _) = stage.thread_cpus();
    let (mut places, mut openings) = (Vec::new(), Vec::new());
    for number in 0..task.condition.ends() as usize {
        let node = nodes[number % nodes.len()].clone();
        let _inside = node.as_ref().map(Node::enter).transpose().map_err(failed)?;
        let site = match &node {
            Some(_) => {
                let names: Vec<&str> = stage.site.interfaces().collect();
                let there = Site::find(&names.join(",")).map_err(failed)?;
                let Site { cpu, virtual_link, .. } = stage.site;
                Site { cpu, virtual_link, ..there }
            }
            None if is_parallel(task) => stage.site.of_thread(number, &cpus),
            None => stage.site.clone(),
        };
        openings.push(gigae_eval_measure::transport::open(&site, task, Side::Client)?);
        places.push(SenderSite { node, site, first: number < nodes.len() });
    }
    Ok((places, openings))
}

fn failed<E: std::fmt::Display>(error: E) -> RepetitionError {
    RepetitionError::Repetition(error.to_string())
}

fn join(
    openings: Vec<Box<dyn Opening>>,
    peers: &[ChannelAddress],
) -> Result<Vec<Box<dyn Probe>>, TransportError> {
    let each = openings.into_iter().enumerate();
    each.map(|(number, opening)| opening.join(&peers[number % peers.len()])).collect()
}

/// What all senders counted, and the ECHOs beside.
type SenderTotals = (Vec<Asked>, Asked);

/// All senders at once, each in a thread in its node.
fn send(
    site: &Site,
    task: &Task,
    places: &[SenderSite],
    probes: &mut [Box<dyn Probe>],
    peer: &ChannelAddress,
    interrupted: &AtomicBool,
) -> Result<SenderTotals, RepetitionError> {
    let begin = Instant::now() + START;
    std::thread::scope(|scope| {
        // It begins in the calling thread's node.
        let beside = scope.spawn(|| match is_parallel(task) {
            true => Asked::default(),
            false => trips(site, task, peer, interrupted).unwrap_or_default(),
        });
        let workers: Vec<_> = places
            .iter()
            .zip(probes)
            .map(|(place, probe)| {
                scope.spawn(move || sender(place, probe, task, begin, interrupted))
            })
            .collect();
        let ends: Vec<_> = workers.into_iter().map(|worker| worker.join()).collect();
        let beside = beside.join().unwrap_or_default();
        let each = ends.into_iter().map(|end| {
            end.unwrap_or_else(|_| {
                Err(RepetitionError::Repetition("a sender's thread panicked".into()))
            })
        });
        Ok((each.collect::<Result<_, _>>()?, beside))
    })
}

/// A sender's thread.
fn sender(
    place: &SenderSite,
    probe: &mut Box<dyn Probe>,
    task: &Task,
    begin: Instant,
    interrupted: &AtomicBool,
) -> Result<Asked, RepetitionError> {
    let _inside = place.node.as_ref().map(Node::enter).transpose().map_err(failed)?;
    place.site.pin().map_err(failed)?;
    let meter = Meter::new(&place.site);
    let signals = Signals::new(interrupted);
    let reliable = transport::by_name(&task.transport).is_some_and(|one| one.reliable);
    let before = repeated_segments();
    std::thread::sleep(begin.saturating_duration_since(Instant::now()));
    let mut asked = probe.ask(&Loop { task, meter: &meter, signals: &signals, reliable })?;
    if task.transport == "tcp" && place.first {
        asked.repeated = repeated_segments().saturating_sub(before);
    }
    Ok(asked)
}

/// Segments that TCP has repeated in the calling thread's network.
fn repeated_segments() -> u64 {
    net::tcp_counter(&proc::read(net::SNMP), net::TCP_REPEATED).unwrap_or(0)
}

/// ECHO round trips while the senders measure, one at a time; none where they cannot be made.
fn trips(
    site: &Site,
    task: &Task,
    peer: &ChannelAddress,
    interrupted: &AtomicBool,
) -> Result<Asked, ProbeError> {
    let echo = transport::by_name("icmp").expect("a transport");
    let task = Task {
        experiment: Experiment::Rtt,
        transport: echo.name.to_owned(),
        setting: Setting::Default,
        condition: Condition::default(),
        wait: Wait::Sleep,
        size: ECHO,
        measure: task.measure * WITHIN,
        rate: Some(ECHOES * ECHO as f64),
        ..task.clone()
    };
    site.pin().map_err(TransportError::io("pinning to a CPU"))?;
    let mut probe = gigae_eval_measure::transport::open(site, &task, Side::Client)?.join(peer)?;
    let (meter, signals) = (Meter::new(site), Signals::new(interrupted));
    let run = Loop { task: &task, meter: &meter, signals: &signals, reliable: false };
    probe.ask(&run)
}
