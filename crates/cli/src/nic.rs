//! `gigae nic`: what network cards this machine has, and what AF_XDP makes of one.

use crate::complain;
use clap::Args;
use gigae::{Backend, Cluster, Options};
use gigae_eval::nic::{inventory, table};
use std::path::PathBuf;
use std::process::ExitCode;

/// List the network interfaces: driver, bus, queues, rings, coalescing, offloads, XDP.
///
/// With an interface, AF_XDP is also tried on it, as opening an endpoint would: some drivers (igb
/// and others) reset the link for a few seconds then. That needs root.
#[derive(Args, Debug)]
pub(crate) struct NicArgs {
    /// The interface to show and to try [default: show all, try none]
    interface: Option<String>,
    /// Show and try this node's interface of a cluster file
    #[arg(long, value_name = "FILE", conflicts_with = "interface")]
    cluster: Option<PathBuf>,
}

pub(crate) fn run(args: &NicArgs) -> ExitCode {
    let interface = match (&args.interface, &args.cluster) {
        (None, Some(file)) => match Cluster::read(file).and_then(|cluster| cluster.interface()) {
            Ok(interface) => Some(interface),
            Err(error) => return complain(&error),
        },
        (interface, _) => interface.clone(),
    };
    let mut nics = match inventory(interface.as_deref()) {
        Ok(nics) => nics,
        Err(error) => return complain(&error),
    };
    let mut reason = None;
    if let (Some(interface), [nic]) = (&interface, nics.as_mut_slice()) {
        match Options::new(interface).backend(Backend::Xdp).open() {
            Ok(endpoint) => {
                nic.xdp_mode = Some(endpoint.link().mode.to_string());
                reason = Some(endpoint.link().reason.clone());
            }
            Err(error) => {
                nic.xdp_mode = Some("none".into());
                reason = Some(error.to_string());
            }
        }
    }
    print!("{}", table(&nics));
    if let Some(reason) = reason {
        println!("AF_XDP: {reason}");
    }
    ExitCode::SUCCESS
}
