//! `gigae nic`: what network cards this machine has, and what AF_XDP makes of one.

use crate::outcome::end;
use clap::Args;
use gigae::{Backend, Cluster, Options};
use gigae_nic::{inventory, table};
use std::path::PathBuf;
use std::process::ExitCode;

/// List the network interfaces: driver, bus, queues, rings, coalescing, offloads, XDP.
///
/// With an interface, this also tries AF_XDP on it, as opening an endpoint does. That needs root,
/// and some drivers (igb and others) reset the link for a few seconds.
#[derive(Args, Debug)]
pub struct NicArgs {
    /// The interface to show and to try [default: show all, try none]
    interface: Option<String>,
    /// Show and try this node's interfaces of a cluster file
    #[arg(long, value_name = "FILE", conflicts_with = "interface")]
    cluster: Option<PathBuf>,
}

/// Runs `gigae nic`.
pub fn run(args: &NicArgs) -> ExitCode {
    end(show(args))
}

fn show(args: &NicArgs) -> Result<(), Box<dyn std::error::Error>> {
    let tried = match (&args.interface, &args.cluster) {
        (None, Some(file)) => Cluster::read(file)?.interfaces()?,
        (interface, _) => interface.iter().cloned().collect(),
    };
    if tried.is_empty() {
        print!("{}", table(&inventory(None)?));
        return Ok(());
    }
    let (mut nics, mut reasons) = (Vec::new(), Vec::new());
    for interface in tried {
        let mut found = inventory(Some(&interface))?;
        let (mode, reason) = try_xdp(&interface);
        found.iter_mut().for_each(|nic| nic.xdp_mode = Some(mode.clone()));
        nics.extend(found);
        reasons.push(reason);
    }
    print!("{}", table(&nics));
    for reason in reasons {
        println!("AF_XDP: {reason}");
    }
    Ok(())
}

/// The mode that is reached, and why no better one.
fn try_xdp(interface: &str) -> (String, String) {
    match Options::new(interface).backend(Backend::Xdp).open() {
        Ok(endpoint) => (endpoint.link().mode.to_string(), endpoint.link().reason.clone()),
        Err(error) => ("none".into(), error.to_string()),
    }
}
