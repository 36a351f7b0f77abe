//! `gigae broker`: ports on this machine's NICs for users without privileges.

use crate::outcome::complain;
use clap::Args;
use gigae_broker::{CONFIG, SOCKET};
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::atomic::AtomicBool;

/// Make ports on this machine's NICs for users without privileges, until it is interrupted.
///
/// Its configuration says which NICs, for whom, and how many (docs/reference/broker.md). Start it
/// as root: it listens, becomes another user and keeps CAP_NET_ADMIN, CAP_NET_RAW and CAP_BPF. When
/// it ends, those who have ports keep them.
#[derive(Args, Debug)]
pub struct BrokerArgs {
    /// What it may do, for whom
    #[arg(long, value_name = "FILE", default_value = CONFIG)]
    config: PathBuf,
    /// Where it listens; clients look there if GIGAE_BROKER says so
    #[arg(long, value_name = "PATH", default_value = SOCKET)]
    socket: PathBuf,
}

/// Runs `gigae broker`.
pub fn run(args: &BrokerArgs, interrupted: &AtomicBool) -> ExitCode {
    let mut say = |line: &str| eprintln!("gigae: {line}");
    match gigae_broker::run(&args.config, &args.socket, interrupted, &mut say) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => complain(&*error),
    }
}
