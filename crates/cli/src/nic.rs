//! `gigae nic`: what network cards this machine has, and what AF_XDP makes of one.

use crate::complain;
use clap::Args;
use gigae::{Backend, Options};
use gigae_eval::nic::{inventory, table};
use std::process::ExitCode;

/// List the network interfaces: driver, bus, queues, rings, coalescing, offloads, XDP.
///
/// With an interface, AF_XDP is also tried on it, as opening an endpoint would: some drivers (igb
/// and others) reset the link for a few seconds then. That needs root.
#[derive(Args, Debug)]
pub(crate) struct NicArgs {
    /// The interface to show and to try [default: show all, try none]
    interface: Option<String>,
}

pub(crate) fn run(args: &NicArgs) -> ExitCode {
    let mut nics = match inventory(args.interface.as_deref()) {
        Ok(nics) => nics,
        Err(error) => return complain(&error),
    };
    let mut reason = None;
    if let (Some(interface), [nic]) = (&args.interface, nics.as_mut_slice()) {
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
