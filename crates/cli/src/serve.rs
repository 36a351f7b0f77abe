//! `gigae serve`.

use crate::outcome::{CommandError, EXIT_CODES, finish};
use crate::peer::{cluster, interface};
use crate::tuning;
use clap::Args;
use gigae_confine::{Confined, Landlock};
use gigae_eval_measure::shared_port::SharedPort;
use gigae_eval_measure::site::Site;
use gigae_eval_model::duration;
use gigae_eval_serve::{
    self as serving, AddressRange, File, Presence, ServeConfig, Service, parse_rate,
};
use gigae_eval_services::ServiceError;
use gigae_eval_services::store::{FileStore, Place};
use gigae_eval_session::control::{KEY_FILE, Key, Limits, PORT};
use gigae_eval_session::remark::remark;
use gigae_host::affinity;
use std::io::{BufRead, Write};
use std::net::{IpAddr, SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

/// Answer the measurements of other machines, one after the other.
///
/// Listens for 'gigae eval --peer' and 'gigae soak --peer' and answers on the given interface. Both
/// machines need the same key, from 'gigae key'. A file can set every option except --config
/// (docs/reference/serve.md). An option on the command line overrides the file.
#[derive(Args, Clone, Debug)]
#[command(after_help = EXIT_CODES)]
pub struct ServeArgs {
    /// The interface that carries the measured traffic, or a comma-separated list of interfaces
    /// that gigae uses as one [default: the cluster file's]
    #[arg(long, value_name = "IFACE[,IFACE...]")]
    pub nic: Option<String>,
    /// Cluster file [default without --nic: $GIGAE_CLUSTER, else /etc/gigae/cluster.toml]
    #[arg(long, value_name = "FILE")]
    pub cluster: Option<PathBuf>,
    /// File with the key that both machines share, from 'gigae key' [default: /etc/gigae/key]
    #[arg(long, value_name = "FILE")]
    pub key: Option<PathBuf>,
    /// Address and port for the control connection [default: the interface's address, port 49988]
    #[arg(long, value_name = "ADDR[:PORT]")]
    pub listen: Option<String>,
    /// Also accept measured UDP and TCP traffic on the control port. Use it behind a firewall with
    /// one open port
    #[arg(long)]
    pub one_port: bool,
    /// Serve only clients from this network, such as 192.0.2.0/24. Repeat the option for more
    #[arg(long, value_name = "NETWORK")]
    pub allow: Vec<AddressRange>,
    /// Let clients run this machine's iperf3, sockperf, NetPIPE, qperf and netperf ('gigae eval
    /// --with'). While such a program listens, any host can connect to it
    #[arg(long)]
    pub allow_programs: bool,
    /// Let clients measure file services ('gigae eval --plan ftp'): this machine makes files in a
    /// new directory beneath DIR and serves them by vsftpd, rsync and gigae. It removes them when
    /// the client leaves. This server's user must be able to write to DIR
    #[arg(long, value_name = "DIR", conflicts_with = "allow_tuning")]
    pub allow_files: Option<PathBuf>,
    /// Let clients change settings of the interface and the kernel: coalescing, rings, offloads,
    /// MTU and more ('gigae tuning knobs'). The server restores them when the client leaves. Needs
    /// root
    #[arg(long)]
    pub allow_tuning: bool,
    /// Longest time for a client: 90s, 10m, 12h, 30d
    #[arg(long, value_name = "TIME", value_parser = duration::parse)]
    pub max_duration: Option<Duration>,
    /// Highest rate of a client in each direction, such as 100mbit
    #[arg(long, value_name = "RATE", value_parser = parse_rate)]
    pub max_rate: Option<f64>,
    /// Serve metrics in Prometheus' format at http://ADDR:PORT/metrics to every client, without a
    /// key
    #[arg(long, value_name = "ADDR:PORT")]
    pub metrics: Option<String>,
    /// File with these options [default: /etc/gigae/serve.toml, if it exists]
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// Started by 'gigae eval' on its own virtual network: the key comes on standard input
    #[arg(long, hide = true, conflicts_with_all = ["key", "config"])]
    pub fabric_child: bool,
    /// CPU for the measuring thread [default: the last one]
    #[arg(long, value_name = "N")]
    pub cpu: Option<usize>,
}

/// Runs `gigae serve`. `interrupted` is set by the caller's signal handler.
pub fn serve(args: &ServeArgs, interrupted: &AtomicBool) -> ExitCode {
    finish(try_serve(args, interrupted).map_err(CommandError::Error))
}

fn try_serve(args: &ServeArgs, interrupted: &AtomicBool) -> Result<(), String> {
    let text = |error: &dyn std::fmt::Display| error.to_string();
    let file = match args.fabric_child {
        true => File::default(),
        false => File::read(args.config.as_deref()).map_err(|error| text(&error))?,
    };
    let key = match args.fabric_child {
        true => key_of_parent()?,
        false => {
            let named = args.key.as_deref().or(file.key.as_deref());
            Key::read(named.unwrap_or(KEY_FILE.as_ref())).map_err(|error| text(&error))?
        }
    };
    if !args.fabric_child {
        tuning::restore();
    }
    let nic = args.nic.as_deref().or(file.nic.as_deref());
    let cluster = cluster(args.cluster.as_deref(), nic).map_err(|error| text(&error))?;
    let options = cluster.as_ref().and_then(|cluster| cluster.options().ok());
    let nic = interface(nic, cluster).map_err(|error| text(&error))?;
    let mut site = Site::find(&nic).map_err(|error| text(&error))?;
    site.cpu = args.cpu.or(file.cpu).or_else(|| affinity::allowed().last().copied());
    site.virtual_link = args.fabric_child;
    let listen = listen_address(args.listen.as_deref().or(file.listen.as_deref()), &site);
    let listener = TcpListener::bind(&listen).map_err(|error| {
        format!("cannot listen on {listen}: {error}; choose another address with --listen")
    })?;
    let local = listener.local_addr().map_err(|error| text(&error))?;
    if args.one_port || file.one_port {
        if !local.ip().is_unspecified() && local.ip() != site.ip {
            return Err(format!(
                "with --one-port, measured traffic for {} must reach {local}; leave out --listen, or listen on that address or on all",
                site.ip
            ));
        }
        site.shared_port = Some(Arc::new(SharedPort::new(local.port())));
    }
    let metrics = args.metrics.as_deref().or(file.metrics.as_deref());
    let metrics = metrics.map(TcpListener::bind).transpose().map_err(|error| {
        format!("cannot listen for --metrics: {error}; name an address and a free port, like 127.0.0.1:9488")
    })?;
    let config = config(args, &file)?;
    // After the last thing that takes more rights, and before the first endpoint, which has a
    // thread.
    let presence = if args.fabric_child {
        writeln!(std::io::stdout(), "{}", local.port())
            .map_err(|error| format!("the parent does not read the port: {error}"))?;
        Presence::none()
    } else {
        let confined = serving::confine(&config, site.shared_port.is_some())
            .map_err(|error| format!("cannot give up rights: {error}"))?;
        config.files.as_deref().map_or(Ok(()), |directory| can_keep_files(directory, &confined))?;
        // What is said to serve can be found.
        let options = options.unwrap_or_else(|| gigae::Options::trunk(site.interfaces()));
        let presence = Presence::new(options);
        remark(&format!("serving on {local}, measuring on {}; end with Ctrl-C", site.names()));
        remark(&format!("confined to {confined}"));
        if config.files.is_some() && confined.kernel.landlock < Landlock::Files {
            remark(&format!(
                "without Landlock, a client that measures file services can read every file that user {} can read",
                confined.user
            ));
        }
        presence
    };
    let quiet = args.fabric_child;
    let mut log = |event: &str| {
        if !quiet {
            remark(event);
        }
    };
    let metrics = metrics.as_ref();
    let (listener, key, site) = (&listener, &key, &site);
    serving::serve(
        Service { listener, key, site, presence, config, metrics },
        interrupted,
        &mut log,
    )
    .map_err(|error| format!("cannot accept connections: {error}; start again"))
}

/// What the options say of clients, and what they do not say, the file.
fn config(args: &ServeArgs, file: &File) -> Result<ServeConfig, String> {
    let seconds = args.max_duration.or(file.max_duration).map(|time| time.as_secs_f64());
    let limits = Limits { seconds, rate: args.max_rate.or(file.max_rate) };
    let allow = if args.allow.is_empty() { &file.allow } else { &args.allow };
    // A virtual network is the caller's own.
    let programs = args.fabric_child || args.allow_programs || file.allow_programs;
    let tuning = args.fabric_child || args.allow_tuning || file.allow_tuning;
    let files = args.allow_files.as_ref().or(file.allow_files.as_ref());
    if files.is_some() && tuning {
        let why = "--allow-files starts servers, which must not be root's, and with --allow-tuning this server stays root; leave out one of them";
        return Err(why.into());
    }
    let one_port = args.one_port || file.one_port;
    if files.is_some() && (one_port || limits.rate.is_some()) {
        let why = "file servers keep to no rate and need ports of their own; start one 'gigae serve' with --allow-files and another one with --max-rate or --one-port";
        return Err(why.into());
    }
    let found = |named: &PathBuf| {
        let real = named.canonicalize().and_then(|real| real.read_dir().map(|_| real));
        let named = named.display();
        real.map_err(|error| format!("--allow-files {named}: {error}; run 'mkdir {named}'"))
    };
    let (files, allow) = (files.map(found).transpose()?, allow.clone());
    Ok(ServeConfig { limits, allow, programs, tuning, files, ..ServeConfig::default() })
}

/// Whether this server, as it is now, can make files there; removes those of servers that were
/// killed.
fn can_keep_files(directory: &Path, confined: &Confined) -> Result<(), String> {
    let shown = directory.display();
    let place =
        Place::shared(directory).map_err(|error| format!("--allow-files {shown}: {error}"))?;
    place.sweep();
    FileStore::at(place, 0).map(drop).map_err(|error| match error {
        ServiceError::Store { source, .. } => format!(
            "--allow-files: user {} cannot write to {shown}: {source}; run 'chown {} {shown}'",
            confined.user, confined.user
        ),
        other => format!("--allow-files: {other}"),
    })
}

/// The key, from standard input.
fn key_of_parent() -> Result<Key, String> {
    let mut line = String::new();
    std::io::stdin()
        .lock()
        .read_line(&mut line)
        .map_err(|error| format!("cannot read the key: {error}"))?;
    Key::from_hex(line.trim()).map_err(|error| error.to_string())
}

/// An address with or without a port; without any, the interface's own.
fn listen_address(listen: Option<&str>, site: &Site) -> String {
    let host = |ip: IpAddr| SocketAddr::new(ip, PORT).to_string();
    let bare = |text: &str| text.trim_start_matches('[').trim_end_matches(']').parse();
    match listen {
        None => host(site.ip),
        Some(text) => bare(text).map_or_else(|_| text.to_owned(), host),
    }
}
