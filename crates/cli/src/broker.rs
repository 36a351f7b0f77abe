//! `gigae broker`: ports on this machine's NICs for users without privileges.

use crate::outcome::end;
use clap::Args;
use gigae_broker::{CONFIG, SOCKET};
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::atomic::AtomicBool;

/// Make ports on this machine's NICs for users without privileges, until interrupted.
///
/// The configuration file says which users may have ports, how many, and on which NICs
/// (docs/reference/broker.md). Start it as root. It begins to listen, becomes another user and
/// keeps CAP_NET_ADMIN, CAP_NET_RAW and CAP_BPF. When it ends, programs keep the ports they have.
#[derive(Args, Debug)]
pub struct BrokerArgs {
    /// Configuration file
    #[arg(long, value_name = "FILE", default_value = CONFIG)]
    config: PathBuf,
    /// Socket to listen on. Clients use another socket than the default if GIGAE_BROKER names it
    #[arg(long, value_name = "PATH", default_value = SOCKET)]
    socket: PathBuf,
}

/// Runs `gigae broker`.
pub fn run(args: &BrokerArgs, interrupted: &AtomicBool) -> ExitCode {
    let mut say = |line: &str| eprintln!("gigae: {line}");
    end(gigae_broker::run(&args.config, &args.socket, interrupted, &mut say))
}
