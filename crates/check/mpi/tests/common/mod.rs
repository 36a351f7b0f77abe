//! Jobs of the program of cases.
#![allow(missing_docs, unreachable_pub)]

use gigae_mpi::hosts::Finished;
use gigae_mpi::{Hosts, Job, Transport, Vendor};
use std::sync::atomic::AtomicBool;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

/// Many times what any takes on a machine that does nothing else: a job that hangs is found out by
/// it.
pub const LIMIT: Duration = Duration::from_secs(300);

/// Ranks spin: two jobs at once would take far longer than one after the other.
static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());

/// Runs cases, with their arguments, by `places` ranks on each host.
pub fn run(vendor: &Vendor, hosts: &Hosts, places: u16, cases: &str) -> Finished {
    let program = vendor.compile(hosts, &["cases", "collectives", "computing"]).unwrap();
    // Of a test that failed.
    let _turn = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    let job = Job {
        transport: Transport::Gigae,
        hosts: hosts.fabric().config().nodes,
        places,
        program: &program,
        arguments: &cases.split(' ').collect::<Vec<_>>(),
        limit: LIMIT,
    };
    vendor.run(hosts, &job, &AtomicBool::new(false)).unwrap_or_else(|what| panic!("{what}"))
}
