//! Loss, duplication and corruption: loads `impair.bpf.o` and attaches it to the switch's ports.
//!
//! The filters hang on the ports' `clsact` qdiscs (tc-bpf(8)), not on a descriptor, so they stay
//! when this process ends and go with the port. Setting impairments always loads the program again:
//! its counters, and with them the sequence of choices, begin at zero.

use aya::maps::{Array, Map, MapData};
use aya::programs::SchedClassifier;
use aya::programs::tc::{NlOptions, TcAttachOptions, TcAttachType, qdisc_add_clsact};
use aya::{Ebpf, EbpfLoader};
use serde::Serialize;

use crate::{FabricConfig, FabricError, Impairments, tool, topology};

/// Made from `bpf/impair.bpf.c`, so that a build needs no clang.
static OBJECT: &[u8] = include_bytes!("../bpf/impair.bpf.o");

/// Names inside the object.
const PROGRAM: &str = "impair";
const MAP: &str = "impair_ports";

/// The value type of the map: seen, dropped, duplicated, corrupted.
type Value = [u64; 4];

/// What happened to the unicast frames sent by one port of the switch since the impairments were
/// set.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct ImpairmentCounters {
    /// Frames that came to be judged.
    pub seen: u64,
    /// Of these, dropped.
    pub dropped: u64,
    /// Of these, sent twice.
    pub duplicated: u64,
    /// Of these, sent with one bit flipped.
    pub corrupted: u64,
}

/// Attaches the impairments to every port of the switch whose namespace the calling thread is in.
/// Returns the kernel's number of the counter map.
pub(crate) fn attach(config: &FabricConfig) -> Result<u32, FabricError> {
    let mut program = load(&config.impairments())?;
    let classifier: &mut SchedClassifier = program
        .program_mut(PROGRAM)
        .ok_or_else(|| missing(PROGRAM))?
        .try_into()
        .map_err(|error| FabricError::bpf("reading the impairment program", error))?;
    classifier.load().map_err(|error| FabricError::bpf("loading the impairment program", error))?;
    for number in 1..=config.nodes {
        let port = topology::port(number);
        qdisc_add_clsact(&port)
            .map_err(|error| FabricError::bpf("adding clsact to a port", error))?;
        let options = TcAttachOptions::Netlink(NlOptions::default());
        let link = classifier
            .attach_with_options(&port, TcAttachType::Egress, options)
            .and_then(|id| classifier.take_link(id))
            .map_err(|error| FabricError::bpf("attaching the impairment program", error))?;
        // The link's drop would detach the filter, which belongs to the port from here on.
        std::mem::forget(link);
    }
    match program.map(MAP) {
        Some(Map::Array(data)) => data
            .info()
            .map(|info| info.id())
            .map_err(|error| FabricError::bpf("finding the impairment counters", error)),
        _ => Err(missing(MAP)),
    }
}

/// Removes the impairments from every port of the switch whose namespace the calling thread is in.
pub(crate) fn detach(config: &FabricConfig) -> Result<(), FabricError> {
    let script: String = (1..=config.nodes)
        .map(|number| format!("qdisc delete dev {} clsact\n", topology::port(number)))
        .collect();
    tool::batch("tc", &script)
}

/// Reads the counters of ports 1 to `nodes` from the map `id`.
pub(crate) fn counters(id: u32, nodes: u16) -> Result<Vec<ImpairmentCounters>, FabricError> {
    let fail = |error| FabricError::bpf("reading the impairment counters", error);
    let data = MapData::from_id(id).map_err(fail)?;
    let info = data.info().map_err(fail)?;
    // The kernel cuts names to 15 characters. A number is reused only after four thousand million.
    if !MAP.as_bytes().starts_with(info.name()) || info.name().is_empty() {
        return Err(missing(MAP));
    }
    let map = Map::from_map_data(data).map_err(fail)?;
    let array: Array<MapData, Value> = map.try_into().map_err(fail)?;
    (1..=nodes)
        .map(|port| {
            let [seen, dropped, duplicated, corrupted] =
                array.get(&u32::from(port), 0).map_err(fail)?;
            Ok(ImpairmentCounters { seen, dropped, duplicated, corrupted })
        })
        .collect()
}

fn load(impairments: &Impairments) -> Result<Ebpf, FabricError> {
    let [loss, duplicate, corrupt] =
        [impairments.loss, impairments.duplicate, impairments.corrupt].map(threshold);
    EbpfLoader::new()
        // The object's types are all in the object itself; the kernel's are not needed.
        .btf(None)
        .override_global("seed", &impairments.seed, true)
        .override_global("loss", &loss, true)
        .override_global("duplicate", &duplicate, true)
        .override_global("corrupt", &corrupt, true)
        .load(OBJECT)
        .map_err(|error| FabricError::bpf("loading the impairment program", error))
}

/// A probability as the program compares it: out of 2^32, so that 1 is above every 32-bit number.
fn threshold(probability: f64) -> u64 {
    (probability * (1_u64 << 32) as f64).round() as u64
}

fn missing(name: &'static str) -> FabricError {
    FabricError::Bpf {
        what: "using the impairment program",
        message: format!("{name} is not there"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn certain_is_above_every_draw_and_never_is_above_none() {
        assert_eq!(threshold(1.0), u64::from(u32::MAX) + 1);
        assert_eq!(threshold(0.0), 0);
        assert_eq!(threshold(0.5), 1 << 31);
    }
}
