//! What was seen, for people and for programs.

use super::{Count, EndpointSample};
use gigae::MacAddr;
use gigae_observe::{Encapsulation, LinkDescription, PeerAddress, PeerState, PeerStatistics};
use serde_json::{Map, Value, json};
use std::fmt::Write as _;

/// Clears a terminal, from its first line on (ECMA-48: CUP, ED).
const CLEAR: &str = "\x1b[H\x1b[J";

/// One line of JSON with everything.
pub(super) fn json(seen: &[EndpointSample]) -> String {
    let endpoints: Vec<_> = seen.iter().map(endpoint).collect();
    format!("{}\n", json!({ "endpoints": endpoints }))
}

fn endpoint(seen: &EndpointSample) -> Value {
    let about = &seen.endpoint.about;
    let link = |(i, link): (usize, &LinkDescription)| {
        let (counts, rates) = maps(&seen.link_counts(i));
        json!({
            "interface": link.interface, "mode": link.mode, "mac": MacAddr(link.mac).to_string(),
            "max_frame": link.max_frame, "counts": counts, "per_second": rates,
        })
    };
    let links: Vec<_> = about.links.iter().enumerate().map(link).collect();
    let peer = |peer: &PeerStatistics| {
        let names = about.names[2].iter().cloned();
        let figures: Map<_, _> = names.zip(peer.values.iter().map(|&value| value.into())).collect();
        json!({
            "address": address(peer.address), "port": peer.port, "channel": peer.channel,
            "state": state(peer.state), "figures": figures,
        })
    };
    let peers: Vec<_> = seen.peers().iter().map(peer).collect();
    let (counts, rates) = maps(&seen.counts());
    json!({
        "pid": seen.endpoint.pid, "command": seen.endpoint.command, "links": links,
        "port": about.port, "channels": channels(about.channels), "envelope": wire(about.wire),
        "state": seen.state(), "counts": counts, "per_second": rates,
        "peers_known": seen.figures.as_ref().map(|figures| figures.known), "peers": peers,
    })
}

fn maps(counts: &[Count]) -> (Map<String, Value>, Map<String, Value>) {
    let number = counts.iter().map(|&(name, value, _)| (name.to_owned(), value.into()));
    let rate = |&(name, _, rate): &Count| Some((name.to_owned(), rate?.into()));
    (number.collect(), counts.iter().filter_map(rate).collect())
}

/// A page for a terminal, or plain text for everything else.
pub(super) fn text(seen: &[EndpointSample], live: bool) -> String {
    let mut out = if live { CLEAR.to_owned() } else { String::new() };
    for seen in seen {
        title(seen, &mut out);
        if seen.figures.is_none() {
            out.push_str("  its figures are being written by a process that was stopped\n");
        }
        let mut rows = vec![["", "total", "per s"].map(str::to_owned).to_vec()];
        rows.extend(rows_of("", &seen.counts()));
        for (i, link) in seen.endpoint.about.links.iter().enumerate() {
            rows.extend(rows_of(&format!("{} ", link.interface), &seen.link_counts(i)));
        }
        if rows.len() > 1 {
            table(&rows, &mut out);
        }
        peers(seen, &mut out);
        out.push('\n');
    }
    if seen.is_empty() {
        out.push_str("no endpoint is open any more\n");
    }
    out
}

fn title(seen: &EndpointSample, out: &mut String) {
    let about = &seen.endpoint.about;
    let link = |link: &LinkDescription| {
        format!("{} ({}, {})", link.interface, link.mode, MacAddr(link.mac))
    };
    let links: Vec<_> = about.links.iter().map(link).collect();
    let channels: Vec<_> = channels(about.channels).iter().map(ToString::to_string).collect();
    let plural = if channels.len() == 1 { "" } else { "s" };
    let _ = writeln!(
        out,
        "{}[{}] on {}, {}, port {}, channel{plural} {}: {}",
        seen.endpoint.command,
        seen.endpoint.pid,
        links.join(" + "),
        wire(about.wire),
        about.port,
        channels.join(" "),
        seen.state()
    );
}

/// What is not zero.
fn rows_of(prefix: &str, counts: &[Count]) -> Vec<Vec<String>> {
    let shown = counts.iter().filter(|&&(_, value, _)| value > 0);
    let rate = |rate: Option<f64>| rate.map_or_else(String::new, |rate| format!("{rate:.1}"));
    shown
        .map(|&(name, value, per)| vec![format!("{prefix}{name}"), value.to_string(), rate(per)])
        .collect()
}

/// What the columns are called, and the figures that they show.
const COLUMNS: [(&str, &str); 11] = [
    ("sent", "frames_sent"),
    ("received", "frames_received"),
    ("lost", "lost"),
    ("queued", "queued"),
    ("inflight", "in_flight"),
    ("flight", "flight"),
    ("unacked", "unacknowledged"),
    ("credit", "credit"),
    ("rtt", "round_trip_ns"),
    ("timeout", "timeout_ns"),
    ("paths", "paths"),
];

/// After which columns their rate is shown.
const RATED: [&str; 2] = ["frames_sent", "frames_received"];

fn peers(seen: &EndpointSample, out: &mut String) {
    let (peers, names) = (seen.peers(), &seen.endpoint.about.names[2]);
    if peers.is_empty() {
        return;
    }
    let mut head = vec!["peer".to_owned(), "state".to_owned()];
    for (title, name) in COLUMNS {
        head.push(title.into());
        head.extend(RATED.contains(&name).then(|| "/s".into()));
    }
    let mut rows = vec![head];
    for peer in peers {
        let place = |name: &str| names.iter().position(|known| known == name);
        let value = |name: &str| peer.values.get(place(name)?).copied();
        let stopped = value("stopped").is_some_and(|stopped| stopped > 0);
        let state = if stopped { "stopped" } else { state(peer.state) };
        let mut row = vec![
            format!("{} port {} channel {}", address(peer.address), peer.port, peer.channel),
            state.into(),
        ];
        for (_, name) in COLUMNS {
            row.push(match value(name) {
                None => "-".into(),
                Some(0) if name == "round_trip_ns" => "-".into(),
                Some(value) if name.ends_with("_ns") => time(value),
                Some(value) => value.to_string(),
            });
            if RATED.contains(&name) {
                let rate = place(name).and_then(|column| seen.peer_rate(peer, column));
                row.push(rate.map_or_else(|| "-".into(), |rate| format!("{rate:.0}")));
            }
        }
        rows.push(row);
    }
    table(&rows, out);
    let known = seen.figures.as_ref().map_or(0, |figures| figures.known);
    if known > peers.len() as u64 {
        let _ = writeln!(
            out,
            "  {known} peers are known; shown are those with a session, at most {}",
            gigae_observe::MOST_PEERS
        );
    }
}

/// Aligned: the first column to the left, numbers to the right.
fn table(rows: &[Vec<String>], out: &mut String) {
    let widths: Vec<_> = (0..rows[0].len())
        .map(|column| rows.iter().map(|row| row[column].len()).max().unwrap_or(0))
        .collect();
    for row in rows {
        let mut line = String::from(" ");
        for (i, (cell, &width)) in row.iter().zip(&widths).enumerate() {
            let _ = if i == 0 {
                write!(line, " {cell:width$}")
            } else {
                write!(line, "  {cell:>width$}")
            };
        }
        let _ = writeln!(out, "{}", line.trim_end());
    }
}

fn time(nanoseconds: u64) -> String {
    match nanoseconds {
        0..10_000_000 => format!("{:.1}us", nanoseconds as f64 / 1e3),
        _ => format!("{:.1}ms", nanoseconds as f64 / 1e6),
    }
}

fn address(address: PeerAddress) -> String {
    match address {
        PeerAddress::Mac(address) => MacAddr(address).to_string(),
        PeerAddress::Ip(ip) => ip.to_string(),
    }
}

fn state(state: PeerState) -> &'static str {
    match state {
        PeerState::Idle => "idle",
        PeerState::Proposing => "proposing",
        PeerState::Up => "up",
        PeerState::Closing => "closing",
    }
}

fn wire(wire: Encapsulation) -> String {
    match wire {
        Encapsulation::Ethernet(ethertype) => format!("EtherType {ethertype:#06x}"),
        Encapsulation::Udp(port) => format!("UDP port {port}"),
    }
}

fn channels(words: [u64; 4]) -> Vec<u8> {
    (0..=u8::MAX)
        .filter(|&channel| words[usize::from(channel) / 64] >> (channel % 64) & 1 == 1)
        .collect()
}
