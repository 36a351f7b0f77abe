//! `gigae fabric`: the virtual Gigabit Ethernet by hand.

use crate::outcome::complain;
use clap::{Args, Subcommand};
use gigae_fabric::{Delay, FabricConfig, FabricError, Rate};
use rustix::io::Errno;
use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process, waitid};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use std::ffi::OsString;
use std::os::unix::process::ExitStatusExt;
use std::process::{Command, ExitCode};

/// Create, remove and enter virtual Gigabit Ethernets.
///
/// A fabric is a switch and some nodes, each in a network namespace, joined by links of a given
/// rate. Nothing outside these namespaces is changed. 'run' needs no privileges. 'up' needs root,
/// because its fabric stays when the command has ended.
#[derive(Subcommand, Debug)]
pub enum FabricCommand {
    /// Create a virtual network that stays until 'gigae fabric down'; needs root
    Up(Up),
    /// Create a virtual network, run a command, and remove the network
    ///
    /// The command runs outside of the nodes. It enters them with 'gigae fabric exec'. Without
    /// root, only the command and the processes that it starts can see the network.
    Run(Run),
    /// Remove a virtual network, or what a crash has left of one
    Down(Name),
    /// Show a virtual network, or all of them
    Status {
        /// Name of the virtual network [default: all]
        #[arg(long, value_name = "NAME")]
        prefix: Option<String>,
    },
    /// Run a command on a node
    Exec(Exec),
}

#[allow(missing_docs, reason = "clap would print it")]
#[derive(Args, Debug)]
pub struct Name {
    /// Name of the virtual network. The names of its namespaces begin with it
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
    /// Connect two nodes directly, without a switch and without a rate limit
    #[arg(long, conflicts_with_all = ["rate", "delay", "loss", "duplicate", "corrupt"])]
    cable: bool,
    /// Link rate, such as 1gbit or 100mbit; 'none': no limit
    #[arg(long, default_value = "1gbit")]
    rate: String,
    /// How much longer a frame takes from a node to another one, such as 200us or 1ms
    #[arg(long, value_name = "TIME")]
    delay: Option<String>,
    /// Longest packet, in bytes
    #[arg(long, default_value_t = FabricConfig::default().mtu)]
    mtu: u32,
    /// The same for single nodes: a list for n1, n2 and so on
    #[arg(long, value_delimiter = ',', value_name = "MTU,...")]
    node_mtus: Vec<u32>,
    /// Longest packet that the switch forwards. It drops longer ones without telling the nodes
    #[arg(long, value_name = "MTU", conflicts_with = "cable")]
    switch_mtu: Option<u32>,
    /// Probability that a frame is lost
    #[arg(long, default_value_t = 0.0, value_name = "0..1")]
    loss: f64,
    /// Probability that a frame arrives twice
    #[arg(long, default_value_t = 0.0, value_name = "0..1")]
    duplicate: f64,
    /// Probability that a bit of a frame is flipped
    #[arg(long, default_value_t = 0.0, value_name = "0..1")]
    corrupt: f64,
    /// Selects the sequence of losses, duplicates and flipped bits
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Size of the queue of each switch port
    #[arg(long, default_value_t = FabricConfig::default().buffer, value_name = "BYTES")]
    buffer: u32,
}

#[allow(missing_docs, reason = "clap would print it")]
#[derive(Args, Debug)]
pub struct Run {
    #[command(flatten)]
    fabric: Up,
    /// The command and its arguments, like 'sh'
    #[arg(required = true, last = true)]
    command: Vec<OsString>,
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

impl FabricCommand {
    /// Whether it creates a fabric that goes with this process.
    pub fn sets_up_fabric(&self) -> bool {
        matches!(self, Self::Run(_))
    }
}

/// Runs `gigae fabric`.
pub fn run(command: FabricCommand) -> ExitCode {
    let done = match command {
        FabricCommand::Up(args) => up(args).map(|()| ExitCode::SUCCESS),
        FabricCommand::Run(args) => run_beside(args),
        FabricCommand::Down(name) => down(&name).map(|()| ExitCode::SUCCESS),
        FabricCommand::Status { prefix } => status(prefix).map(|()| ExitCode::SUCCESS),
        FabricCommand::Exec(args) => return exec(&args),
    };
    done.unwrap_or_else(|error| complain(&error))
}

impl Up {
    fn config(self) -> Result<FabricConfig, FabricError> {
        let rate = match self.rate.as_str() {
            _ if self.cable => None,
            "none" => None,
            text => Some(text.parse::<Rate>()?),
        };
        Ok(FabricConfig {
            prefix: self.name.prefix,
            nodes: self.nodes,
            cable: self.cable,
            rate,
            delay: self.delay.map(|text| text.parse::<Delay>()).transpose()?,
            mtu: self.mtu,
            node_mtus: self.node_mtus,
            switch_mtu: self.switch_mtu,
            loss: self.loss,
            duplicate: self.duplicate,
            corrupt: self.corrupt,
            seed: self.seed,
            buffer: self.buffer,
            ..FabricConfig::default()
        })
    }
}

fn up(args: Up) -> Result<(), FabricError> {
    let mut fabric = gigae_fabric::Fabric::up(args.config()?).map_err(|error| match error {
        FabricError::Privileges => FabricError::Config(
            "'gigae fabric up' needs root; without root, create a fabric for as long as a command runs: gigae fabric run -- COMMAND".into(),
        ),
        other => other,
    })?;
    fabric.keep()?;
    print!("{}", fabric.status()?);
    Ok(())
}

/// Its exit code is the command's.
fn run_beside(args: Run) -> Result<ExitCode, FabricError> {
    let config = args.fabric.config()?;
    gigae_fabric::Fabric::down_abandoned()?;
    let _fabric = gigae_fabric::Fabric::up(config)?;
    let cannot = |error: std::io::Error| {
        let program = args.command[0].display();
        FabricError::Config(format!("'{program}' cannot be run: {error}; check its name"))
    };
    // Before the command begins, so that none is missed.
    let mut signals = Signals::new([SIGINT, SIGTERM, SIGHUP]).map_err(cannot)?;
    let mut child =
        Command::new(&args.command[0]).args(&args.command[1..]).spawn().map_err(cannot)?;
    let handle = signals.handle();
    let status = std::thread::scope(|scope| {
        let pid = Pid::from_child(&child);
        scope.spawn(move || {
            // A terminal's Ctrl-C reaches the command itself. What has ended needs no signal.
            for signal in signals.forever().filter(|&signal| signal != SIGINT) {
                let signal = if signal == SIGHUP { Signal::HUP } else { Signal::TERM };
                let _ = kill_process(pid, signal);
            }
        });
        // Its number is its own until it is waited for below.
        while let Err(Errno::INTR) =
            waitid(WaitId::Pid(pid), WaitIdOptions::EXITED | WaitIdOptions::NOWAIT)
        {}
        handle.close();
        child.wait()
    });
    let status = status.map_err(cannot)?;
    // As shells say what a signal ended.
    let code = status.code().or(status.signal().map(|signal| 128 + signal)).unwrap_or(1);
    Ok(ExitCode::from(u8::try_from(code).unwrap_or(1)))
}

fn down(name: &Name) -> Result<(), FabricError> {
    print!("{}", gigae_fabric::Fabric::down(&name.prefix)?);
    Ok(())
}

fn status(prefix: Option<String>) -> Result<(), FabricError> {
    let prefixes = prefix.map_or_else(gigae_fabric::Fabric::list, |prefix| vec![prefix]);
    if prefixes.is_empty() {
        println!("there is no fabric; create one with 'gigae fabric up'");
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
