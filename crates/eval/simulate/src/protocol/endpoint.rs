//! The library's own endpoints, and how they cut messages into frames.

use crate::plan::GigaePlan;
use gigae::{OpenError, Options};
use gigae_network::real::Real;
use gigae_network::workload::Framing;

/// Bytes of a full frame, from address to checksum.
const FULL: u32 = 1_518;

/// So many endpoints.
pub(super) fn hosts(
    count: u32,
    seed: u64,
    plan: &GigaePlan,
) -> Result<(Vec<Real>, Framing), OpenError> {
    let options =
        |options: Options| options.shared_credit(plan.shared_credit).priority(plan.priority);
    let hosts = Real::hosts(count, seed as u32, options)?;
    let payload = hosts[0].endpoint().max_message() as u32;
    Ok((hosts, Framing { payload, header: FULL - payload }))
}
