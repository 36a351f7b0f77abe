//! What of an engine observers see: every figure has a name for people.

use crate::inbox::{Inbound, Inbox};
use crate::links::Links;
use crate::memory::Memory;
use crate::outbound::Outbound;
use gigae_link::{ChannelSet, Link, LinkCounters};
use gigae_observe::{
    Encapsulation, EndpointDescription, LinkDescription, PeerAddress, PeerState, StatisticsWriter,
};
use gigae_proto::{
    Instant, PathCounters, PeerId, PeerSnapshot, Protocol, ProtocolCounters, SessionPhase,
};
use gigae_transfer::{Transfer, TransferCounters};
use gigae_wire::{Envelope, NodeAddr, PathId};
use std::net::IpAddr;

/// What is counted: names for people, and values in the same order. All fields of a structure must
/// be here, so that a new one cannot be forgotten.
macro_rules! figures {
    ($names:ident, $values:ident, $type:ty { $($field:ident $(=> $name:literal)?),* $(,)? }) => {
        const $names: &[&str] = &[$(figures!(@name $field $($name)?)),*];
        fn $values(of: &$type) -> [u64; $names.len()] {
            type Counted = $type;
            let Counted { $($field),* } = *of;
            [$($field.into()),*]
        }
    };
    (@name $field:ident $name:literal) => { $name };
    (@name $field:ident) => { stringify!($field) };
}

figures!(
    PROTOCOL,
    protocol,
    ProtocolCounters {
        messages_sent,
        messages_received,
        frames_delivered,
        messages_failed,
        retransmissions,
        timeouts,
        stops,
        acks_sent,
        probes,
        black_holes,
        sessions,
        resets,
        short,
        not_ours,
        version,
        checksum,
        malformed,
        port,
        epoch,
        duplicates,
        window,
        out_of_order,
        refused,
    }
);

figures!(OPERATIONS, operations, TransferCounters {
    unasked, offered, unexpected, dropped => "unexpected_dropped", refused => "operations_refused", wrong_keys, placed, misplaced, lent, fetched, direct,
    invalid => "operations_invalid",
});

figures!(
    LINK,
    link,
    LinkCounters {
        tx_frames,
        rx_frames,
        doorbells,
        drives,
        waits,
        wakeups,
        rx_dropped,
        tx_invalid,
        memory_tx_frames,
        memory_rx_frames,
        memory_full,
    }
);

figures!(PATH, path, PathCounters { lost, deaths, returns });

/// Counts of the endpoint's own.
const OWN: &[&str] = &["copied", "clock_reads", "progress_turns", "progress_wakeups"];

const PEER: &[&str] = &[
    "frames_sent",
    "frames_received",
    "lost",
    "unacknowledged",
    "queued",
    "in_flight",
    "flight",
    "window",
    "credit",
    "stopped",
    "round_trip_ns",
    "timeout_ns",
    "paths",
    "granted",
    "out_of_order",
];

fn peer(figures: &PeerSnapshot) -> [u64; PEER.len()] {
    let &PeerSnapshot {
        state: _,
        frames_sent,
        frames_received,
        lost,
        unacknowledged,
        queued,
        in_flight,
        flight,
        window,
        credit,
        stopped,
        round_trip,
        timeout,
        paths,
        granted,
        out_of_order,
    } = figures;
    let short = u64::from;
    [
        short(frames_sent),
        short(frames_received),
        lost,
        short(unacknowledged),
        short(queued),
        short(in_flight),
        short(flight),
        short(window),
        short(credit),
        stopped.into(),
        round_trip,
        timeout,
        short(paths),
        short(granted),
        short(out_of_order),
    ]
}

/// An engine as observers see it.
pub(super) struct EngineView<'a> {
    pub(super) links: &'a Links,
    pub(super) proto: &'a Protocol<Outbound, Inbound>,
    pub(super) transfer: &'a Transfer<Memory>,
    pub(super) inbox: &'a Inbox,
    pub(super) clock_reads: u64,
    pub(super) progress_turns: u64,
}

impl EngineView<'_> {
    /// What does not change.
    pub(super) fn about(
        &self,
        opened: Instant,
        envelope: Envelope,
        channels: ChannelSet,
    ) -> EndpointDescription {
        let about = |(number, info): (usize, &gigae_link::Info)| LinkDescription {
            interface: self.links.shown(PathId::new(number)),
            mode: info.mode.to_string(),
            mac: info.mac.0,
            max_frame: info.max_frame,
        };
        let names = |names: &[&[&str]]| names.concat().into_iter().map(Into::into).collect();
        EndpointDescription {
            opened: opened.0,
            port: self.proto.config().port,
            wire: match envelope {
                Envelope::Ethernet { ethertype } => Encapsulation::Ethernet(ethertype),
                Envelope::Udp { port } => Encapsulation::Udp(port),
            },
            channels: channels.words(),
            links: self.links.all().map(Link::info).enumerate().map(about).collect(),
            names: [names(&[PROTOCOL, OPERATIONS, OWN]), names(&[LINK, PATH]), names(&[PEER])],
        }
    }

    /// Writes all figures, those of peers for the first `most` peers.
    pub(super) fn fill_in(&self, sheet: &mut StatisticsWriter, most: usize) {
        let wakeups = gigae_progress::wakeups();
        let own = [self.inbox.copied(), self.clock_reads, self.progress_turns, wakeups];
        let counts =
            [&protocol(self.proto.counters())[..], &operations(self.transfer.counters()), &own];
        sheet.counts(&counts.concat());
        for (i, (link_of, path_of)) in self.links.all().zip(self.proto.paths()).enumerate() {
            sheet.link(i, &[&link(&link_of.counters())[..], &path(&path_of)].concat());
        }
        for n in 0..self.proto.peers().min(most) {
            let id = PeerId(u32::try_from(n).expect("bounded by max_peers"));
            let figures = self.proto.peer_snapshot(id);
            let key = self.proto.key(id);
            let state = match figures.state {
                SessionPhase::Idle => continue,
                SessionPhase::Proposing => PeerState::Proposing,
                SessionPhase::Established => PeerState::Up,
                SessionPhase::Closing => PeerState::Closing,
            };
            let address = match key.node {
                NodeAddr::Ethernet(mac) => PeerAddress::Mac(mac.0),
                NodeAddr::Ip { ip, .. } => PeerAddress::Ip(IpAddr::to_canonical(&ip)),
            };
            if !sheet.peer(address, key.port, key.channel, state, &peer(&figures)) {
                break;
            }
        }
    }
}
