//! The state and the counters of a network interface, asked by rtnetlink(7) (`RTM_GETLINK`) and of its
//! driver by ethtool, both in the calling thread's network namespace.

use gigae_eval_model::soak::Interface;
use gigae_nic as nic;
use netlink_packet_core::{NLM_F_REQUEST, NetlinkHeader, NetlinkMessage, NetlinkPayload};
use netlink_packet_route::RouteNetlinkMessage;
use netlink_packet_route::link::{LinkAttribute, LinkMessage, Stats64};
use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketType};
use std::collections::BTreeMap;
use std::io;

/// An answer with all attributes of a link, virtual functions included, is far shorter.
const ANSWER: usize = 64 << 10;

/// All these interfaces. One that is gone has no counters and is down.
pub fn read(names: &[String]) -> Vec<Interface> {
    let one = |name: &String| {
        let mut interface = ask(name).unwrap_or_default();
        interface.name.clone_from(name);
        for (counter, value) in nic::statistics(name) {
            if super::rules::is_of_interest(&counter) {
                interface.counters.entry(format!("driver:{counter}")).or_insert(value);
            }
        }
        interface
    };
    names.iter().map(one).collect()
}

/// Words by which the kernel's messages name these interfaces: their names, and where they are
/// plugged in.
pub fn names_in_log(names: &[String]) -> Vec<String> {
    let bus = |name: &String| match nic::inventory(Some(name)).ok()?.pop()?.bus {
        nic::Bus::Pci(address) => Some(address),
        _ => None,
    };
    names.iter().cloned().chain(names.iter().filter_map(bus)).collect()
}

fn ask(name: &str) -> io::Result<Interface> {
    let socket = rustix::net::socket(AddressFamily::NETLINK, SocketType::RAW, None)?;
    let mut link = LinkMessage::default();
    link.attributes.push(LinkAttribute::IfName(name.to_owned()));
    let mut header = NetlinkHeader::default();
    header.flags = NLM_F_REQUEST;
    let mut message =
        NetlinkMessage::new(header, NetlinkPayload::from(RouteNetlinkMessage::GetLink(link)));
    message.finalize();
    let mut bytes = vec![0; message.buffer_len()];
    message.serialize(&mut bytes);
    rustix::net::send(&socket, &bytes, SendFlags::empty())?;
    let mut answer = vec![0; ANSWER];
    let (len, _) = rustix::net::recv(&socket, &mut answer, RecvFlags::empty())?;
    let malformed = |error: &dyn std::fmt::Display| {
        io::Error::new(io::ErrorKind::InvalidData, error.to_string())
    };
    let answer = NetlinkMessage::<RouteNetlinkMessage>::deserialize(&answer[..len])
        .map_err(|error| malformed(&error))?;
    match answer.payload {
        NetlinkPayload::InnerMessage(RouteNetlinkMessage::NewLink(link)) => Ok(parse(&link)),
        NetlinkPayload::Error(error) => Err(error.to_io()),
        _ => Err(malformed(&"another answer")),
    }
}

fn parse(link: &LinkMessage) -> Interface {
    let mut interface = Interface::default();
    for attribute in &link.attributes {
        match attribute {
            LinkAttribute::Carrier(up) => interface.up = Some(*up != 0),
            LinkAttribute::CarrierChanges(changes) => interface.changes = (*changes).into(),
            LinkAttribute::Stats64(stats) => interface.counters = counters(stats),
            _ => {}
        }
    }
    interface
}

/// Those that are neither frames nor bytes, by the kernel's names.
fn counters(stats: &Stats64) -> BTreeMap<String, u64> {
    [
        ("rx_errors", stats.rx_errors),
        ("tx_errors", stats.tx_errors),
        ("rx_dropped", stats.rx_dropped),
        ("tx_dropped", stats.tx_dropped),
        ("collisions", stats.collisions),
        ("rx_length_errors", stats.rx_length_errors),
        ("rx_over_errors", stats.rx_over_errors),
        ("rx_crc_errors", stats.rx_crc_errors),
        ("rx_frame_errors", stats.rx_frame_errors),
        ("rx_fifo_errors", stats.rx_fifo_errors),
        ("rx_missed_errors", stats.rx_missed_errors),
        ("tx_aborted_errors", stats.tx_aborted_errors),
        ("tx_carrier_errors", stats.tx_carrier_errors),
        ("tx_fifo_errors", stats.tx_fifo_errors),
        ("tx_heartbeat_errors", stats.tx_heartbeat_errors),
        ("tx_window_errors", stats.tx_window_errors),
    ]
    .into_iter()
    .map(|(name, value)| (name.to_owned(), value))
    .collect()
}
