//! `gigae discover`: who is on the wire, as a table or into the cluster file.

use crate::outcome::complain;
use clap::Args;
use gigae::{
    Backend, BrokerUse, Cluster, ClusterError, Endpoint, Envelope, Neighbour, OpenError, Options,
    Wait, broker_nics,
};
use gigae_nic::inventory;
use std::fmt::{Display, Write as _};
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// Between two looks at Ctrl-C; as often is asked.
const LOOK: Duration = Duration::from_millis(100);

/// Find the gigae endpoints on the wire.
///
/// Every open endpoint answers while its program uses it, except one that shares a NIC. 'gigae
/// serve' answers, too. This command does not find this host's own endpoints on the same interface.
/// Of several endpoints on one interface of another host, perhaps only one answers. Answers are not
/// verified: use this on networks whose nodes you trust. Needs root or CAP_NET_RAW.
#[derive(Args, Debug)]
pub struct DiscoverArgs {
    /// The interface to search on [default: this node's in the cluster file, else the only one that
    /// is up]
    #[arg(long, value_name = "IFACE")]
    interface: Option<String>,
    /// Cluster file with the interface and the envelope [default: that of --write, else
    /// $GIGAE_CLUSTER, else /etc/gigae/cluster.toml, if it exists]
    #[arg(long, value_name = "FILE")]
    cluster: Option<PathBuf>,
    /// Add this node and the nodes found to this cluster file. A missing file is created. Nothing
    /// is removed from it
    #[arg(long, value_name = "FILE")]
    write: Option<PathBuf>,
    /// How long to search, in seconds
    #[arg(long, default_value_t = 1, value_name = "SECONDS", value_parser = clap::value_parser!(u16).range(1..=3600))]
    time: u16,
    /// EtherType of the endpoints [default: the cluster file's, else 0x88b5]
    #[arg(long, value_name = "NUMBER", value_parser = ethertype, conflicts_with = "udp")]
    ethertype: Option<u16>,
    /// UDP port of the endpoints. The search covers the interface's IPv4 subnet
    #[arg(long, value_name = "PORT", value_parser = clap::value_parser!(u16).range(1..))]
    udp: Option<u16>,
    /// Channel for the answers. No endpoint on this interface may have it open
    #[arg(long, default_value_t = 255, value_name = "NUMBER")]
    channel: u8,
}

/// Smaller numbers are lengths (IEEE Std 802.3, clause 3.2.6).
pub(crate) fn ethertype(text: &str) -> Result<u16, String> {
    let number = match text.strip_prefix("0x") {
        Some(digits) => u16::from_str_radix(digits, 16),
        None => text.parse(),
    };
    number
        .ok()
        .filter(|&number| number >= 0x0600)
        .ok_or_else(|| "give a number from 0x0600 to 0xffff".into())
}

/// Runs `gigae discover`.
pub fn run(args: &DiscoverArgs, interrupted: &AtomicBool) -> ExitCode {
    match discover(args, interrupted) {
        Ok(Some(text)) => {
            print!("{text}");
            ExitCode::SUCCESS
        }
        Ok(None) => ExitCode::from(crate::outcome::INTERRUPTED),
        Err(error) => complain(&*error),
    }
}

type Cause = Box<dyn Display>;

fn trouble(error: impl Display + 'static) -> Cause {
    Box::new(error)
}

/// What to print; `None` after Ctrl-C, with nothing written.
fn discover(args: &DiscoverArgs, interrupted: &AtomicBool) -> Result<Option<String>, Cause> {
    let known = known(args).map_err(trouble)?;
    let envelope = match (args.udp, args.ethertype, &known) {
        (Some(port), ..) => Envelope::Udp { port },
        (_, Some(ethertype), _) => Envelope::Ethernet { ethertype },
        (_, _, Some(cluster)) => cluster.envelope(),
        _ => Envelope::DEFAULT,
    };
    let interface = interface(args, known.as_ref())?;
    // AF_PACKET works beside any endpoint that the interface has.
    let options = Options::new(&interface)
        .envelope(envelope)
        .channels([args.channel])
        .backend(Backend::Packet)
        .wait(Wait::Sleep);
    let options = match known.as_ref().and_then(own_name) {
        Some(name) => options.name(&name),
        None => options,
    };
    let endpoint = match options.clone().open() {
        Err(OpenError::MissingCapability { .. }) if matches!(envelope, Envelope::Udp { .. }) => {
            options.backend(Backend::Udp).open()
        }
        // A broker's port receives the answers as well. But its address is not a node's, and goes
        // into no file.
        Err(missing @ OpenError::MissingCapability { .. }) if args.write.is_none() => {
            match broker_nics() {
                Ok(_) => options.backend(Backend::Auto).broker(BrokerUse::Only).open(),
                Err(refused @ OpenError::Refused { .. }) => Err(refused),
                Err(_) => Err(missing),
            }
        }
        opened => opened,
    };
    let endpoint = endpoint.map_err(trouble)?;
    let Some(found) = ask(&endpoint, args.time, interrupted)? else { return Ok(None) };
    let mut text = table(&endpoint.identity(), &found);
    if let Some(path) = &args.write {
        let mut cluster = match if_there(Cluster::read(path)).map_err(trouble)? {
            Some(cluster) => cluster,
            None => Cluster::parse(Cluster::template(envelope), path).map_err(trouble)?,
        };
        write(&mut cluster, &endpoint, &found, &mut text).map_err(trouble)?;
    }
    Ok(Some(text))
}

/// The cluster file, if one is named or there is one to be written to.
fn known(args: &DiscoverArgs) -> Result<Option<Cluster>, ClusterError> {
    match (&args.cluster, &args.write) {
        (Some(path), _) => Cluster::read(path).map(Some),
        (None, Some(path)) => if_there(Cluster::read(path)),
        (None, None) => if_there(Cluster::load()),
    }
}

pub(crate) fn if_there(
    read: Result<Cluster, ClusterError>,
) -> Result<Option<Cluster>, ClusterError> {
    match read {
        Err(ClusterError::Read { source, .. }) if source.kind() == std::io::ErrorKind::NotFound => {
            Ok(None)
        }
        read => read.map(Some),
    }
}

/// This node's name in the file, if it is there.
fn own_name(cluster: &Cluster) -> Option<String> {
    cluster.own().ok().map(|number| cluster.nodes()[number].name.clone())
}

fn interface(args: &DiscoverArgs, known: Option<&Cluster>) -> Result<String, Cause> {
    if let Some(interface) = &args.interface {
        return Ok(interface.clone());
    }
    if let Some(cluster) = known {
        match cluster.interfaces() {
            // A file that is only being made need not have this node yet.
            Err(ClusterError::NotHere { .. }) if args.cluster.is_none() => {}
            // Nodes are known by their first interface.
            found => return found.map(|mut names| names.swap_remove(0)).map_err(trouble),
        }
    }
    only_one_up("choose one by --interface").map_err(trouble)
}

/// The interface that is up, if there is one and no other; otherwise what is so, and what to do if
/// several are.
pub fn only_one_up(choose: &str) -> Result<String, String> {
    let nics = inventory(None).map_err(|error| error.to_string())?;
    let up: Vec<_> = nics.into_iter().filter(|nic| nic.link_up && nic.name != "lo").collect();
    match &up[..] {
        [nic] => Ok(nic.name.clone()),
        [] => Err("no interface is up; bring one up with 'ip link set NAME up'".into()),
        several => {
            let names: Vec<_> = several.iter().map(|nic| &nic.name[..]).collect();
            Err(format!("several interfaces are up; {choose}: {}", names.join(", ")))
        }
    }
}

fn ask(
    endpoint: &Endpoint,
    seconds: u16,
    interrupted: &AtomicBool,
) -> Result<Option<Vec<Neighbour>>, Cause> {
    for _ in 0..u32::from(seconds) * 10 {
        if interrupted.load(Ordering::Relaxed) {
            return Ok(None);
        }
        endpoint.discover(LOOK).map_err(trouble)?;
    }
    Ok(Some(endpoint.neighbours()))
}

/// This node first: others find it by the same values.
fn write(
    cluster: &mut Cluster,
    endpoint: &Endpoint,
    found: &[Neighbour],
    text: &mut String,
) -> Result<(), ClusterError> {
    // This command's own port id says nothing; that of the file is meant.
    let own = Neighbour { port: cluster.port(), ..endpoint.identity() };
    let mut changed = false;
    for node in std::iter::once(&own).chain(found) {
        if let Some(said) = cluster.add(node)? {
            changed |= said.starts_with("added");
            let _ = writeln!(text, "{}: {said}", cluster.path().display());
        }
    }
    if changed {
        cluster.save()?;
    } else {
        let _ = writeln!(text, "{}: nothing to add", cluster.path().display());
    }
    Ok(())
}

fn table(own: &Neighbour, found: &[Neighbour]) -> String {
    let head = ["name", "mac", "ip", "mtu", "port", "channels"].map(str::to_owned);
    let mut rows = vec![head];
    for (node, is_own) in std::iter::once((own, true)).chain(found.iter().map(|node| (node, false)))
    {
        let ip = node.ip.map_or_else(|| "-".into(), |ip| ip.to_string());
        // Other endpoints cannot use what this command itself has open.
        let (port, channels) = match is_own {
            true => ("(this node)".into(), String::new()),
            false => (node.port.to_string(), ranges(&node.channels)),
        };
        rows.push([
            node.name.clone(),
            node.mac.to_string(),
            ip,
            node.mtu.to_string(),
            port,
            channels,
        ]);
    }
    let width = |column: usize| rows.iter().map(|row| row[column].len()).max().unwrap_or(0);
    let widths: [usize; 6] = std::array::from_fn(width);
    let mut text = String::new();
    for row in &rows {
        let line: Vec<_> =
            row.iter().zip(widths).map(|(cell, width)| format!("{cell:width$}")).collect();
        let _ = writeln!(text, "{}", line.join("  ").trim_end());
    }
    let plural = if found.len() == 1 { "" } else { "s" };
    let _ = writeln!(text, "{} endpoint{plural} answered", found.len());
    text
}

/// `0, 8-9`.
fn ranges(channels: &[u8]) -> String {
    let mut ranges: Vec<(u8, u8)> = Vec::new();
    for &channel in channels {
        match ranges.last_mut() {
            Some((_, end)) if end.checked_add(1) == Some(channel) => *end = channel,
            _ => ranges.push((channel, channel)),
        }
    }
    let one = |(start, end): (u8, u8)| match start == end {
        true => start.to_string(),
        false => format!("{start}-{end}"),
    };
    ranges.into_iter().map(one).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn channels_are_shown_as_ranges() {
        assert_eq!(ranges(&[]), "");
        assert_eq!(ranges(&[0]), "0");
        assert_eq!(ranges(&[0, 1, 2, 9, 254, 255]), "0-2, 9, 254-255");
    }

    #[test]
    fn an_ethertype_is_read_in_both_notations() {
        assert_eq!((ethertype("0x88b6"), ethertype("34998")), (Ok(0x88b6), Ok(34998)));
        assert!(ethertype("0x05dc").is_err() && ethertype("many").is_err());
    }
}
