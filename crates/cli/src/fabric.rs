//! `gigae fabric`: the virtual Gigabit Ethernet by hand.

use crate::outcome::complain;
use clap::{Args, Subcommand};
use gigae_fabric::{FabricConfig, FabricError, Rate};
use std::ffi::OsString;
use std::process::ExitCode;

/// Lay, remove and enter virtual Gigabit Ethernets.
///
/// A fabric is a switch and some nodes in network namespaces of their own, joined by links of a
/// given rate. Nothing outside these namespaces is touched. Needs root.
#[derive(Subcommand, Debug)]
pub enum Fabric {
    /// Lay a fabric, which stands until 'gigae fabric down'
    Up(Up),
    /// Remove a fabric, or what a crash left of it
    Down(Name),
    /// Show a fabric, or all that stand
    Status {
        /// Name of the fabric [default: all]
        #[arg(long, value_name = "NAME")]
        prefix: Option<String>,
    },
    /// Run a command on a node
    Exec(Exec),
}

#[allow(missing_docs, reason = "clap would print it")]
#[derive(Args, Debug)]
pub struct Name {
    /// Name of the fabric; its namespaces begin with it
    #[arg(long, value_name = "NAME", default_value = "gigae")]
    prefix: String,
}

#[allow(missing_docs, reason = "clap would print it")]
#[derive(Args, Debug)]
pub struct Up {
    #[command(flatten)]
    name: Name,
    /// Number of nodes
    #[arg(long, default_value_t = 2)]
    nodes: u16,
    /// Two nodes back to back, without a switch; not shaped
    #[arg(long, conflicts_with_all = ["rate", "loss", "duplicate", "corrupt"])]
    cable: bool,
    /// Link rate, as 1gbit or 100mbit; 'none' does not shape
    #[arg(long, default_value = "1gbit")]
    rate: String,
    /// Longest packet in bytes
    #[arg(long, default_value_t = FabricConfig::default().mtu)]
    mtu: u32,
    /// The same for single nodes: of n1, n2 and so on
    #[arg(long, value_delimiter = ',', value_name = "MTU,...")]
    node_mtus: Vec<u32>,
    /// Longest packet that the switch carries, if the nodes do not know: longer ones vanish
    #[arg(long, value_name = "MTU", conflicts_with = "cable")]
    switch_mtu: Option<u32>,
    /// Probability that a frame is lost
    #[arg(long, default_value_t = 0.0, value_name = "0..1")]
    loss: f64,
    /// Probability that a frame comes twice
    #[arg(long, default_value_t = 0.0, value_name = "0..1")]
    duplicate: f64,
    /// Probability that a bit of a frame is flipped
    #[arg(long, default_value_t = 0.0, value_name = "0..1")]
    corrupt: f64,
    /// Selects the sequence of losses, duplicates and flipped bits
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Bytes that wait at a port of the switch
    #[arg(long, default_value_t = FabricConfig::default().buffer, value_name = "BYTES")]
    buffer: u32,
}

#[allow(missing_docs, reason = "clap would print it")]
#[derive(Args, Debug)]
pub struct Exec {
    #[command(flatten)]
    name: Name,
    /// The node: n1, n2 and so on
    node: String,
    /// The command and its arguments
    #[arg(required = true, trailing_var_arg = true, allow_hyphen_values = true)]
    command: Vec<OsString>,
}

/// Runs `gigae fabric`.
pub fn run(command: Fabric) -> ExitCode {
    let done = match command {
        Fabric::Up(args) => up(args).map(|()| ExitCode::SUCCESS),
        Fabric::Down(name) => down(&name).map(|()| ExitCode::SUCCESS),
        Fabric::Status { prefix } => status(prefix).map(|()| ExitCode::SUCCESS),
        Fabric::Exec(args) => return exec(&args),
    };
    done.unwrap_or_else(|error| complain(&error))
}

fn up(args: Up) -> Result<(), FabricError> {
    let rate = match args.rate.as_str() {
        _ if args.cable => None,
        "none" => None,
        text => Some(text.parse::<Rate>()?),
    };
    let config = FabricConfig {
        prefix: args.name.prefix,
        nodes: args.nodes,
        cable: args.cable,
        rate,
        mtu: args.mtu,
        node_mtus: args.node_mtus,
        switch_mtu: args.switch_mtu,
        loss: args.loss,
        duplicate: args.duplicate,
        corrupt: args.corrupt,
        seed: args.seed,
        buffer: args.buffer,
        ..FabricConfig::default()
    };
    let mut fabric = gigae_fabric::Fabric::up(config)?;
    fabric.keep()?;
    print!("{}", fabric.status()?);
    Ok(())
}

fn down(name: &Name) -> Result<(), FabricError> {
    print!("{}", gigae_fabric::Fabric::down(&name.prefix)?);
    Ok(())
}

fn status(prefix: Option<String>) -> Result<(), FabricError> {
    let prefixes = prefix.map_or_else(gigae_fabric::Fabric::list, |prefix| vec![prefix]);
    if prefixes.is_empty() {
        println!("no fabric stands; lay one with 'gigae fabric up'");
    }
    for prefix in prefixes {
        print!("{}", gigae_fabric::Fabric::attach(&prefix)?.status()?);
    }
    Ok(())
}

/// Replaces this process by the command, so that signals and the exit code are the command's own.
fn exec(args: &Exec) -> ExitCode {
    use std::os::unix::process::CommandExt;
    let prepared = gigae_fabric::Fabric::attach(&args.name.prefix)
        .and_then(|fabric| fabric.find(&args.node)?.command(&args.command[0]));
    match prepared {
        Err(error) => complain(&error),
        Ok(mut command) => {
            let error = command.args(&args.command[1..]).exec();
            let program = args.command[0].display();
            complain(&format!("'{program}' cannot be run: {error}; check its name"))
        }
    }
}
