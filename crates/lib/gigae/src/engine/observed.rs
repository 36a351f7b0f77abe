//! What observers from outside get (`gigae-observe`): figures ten times a second and every frame, while
//! somebody looks. While nobody does, that costs one load for each poll and doorbell.
//!
//! An endpoint that goes to sleep for long leaves its figures behind, since nobody can wake it for them.

use super::Engine;
use crate::Options;
use gigae_link::{Counters as LinkCounters, Link};
use gigae_observe::{About, LinkAbout, Observed, PeerAddress, PeerState, Sheet, Wire};
use gigae_proto::{Counters, Instant, PathCounters, PeerFigures, PeerId, PeerState as State};
use gigae_transfer::Counters as OperationCounters;
use gigae_wire::{Envelope, NodeAddr};
use std::net::IpAddr;
use std::time::Duration;

/// Between two writings of the figures: as often as a person can read them.
const EVERY: Duration = Duration::from_millis(100);

/// The same for a program that sleeps by itself, and must not be woken for the sake of figures.
const SOON: Duration = Duration::from_millis(10);

/// Peers that are looked at while nobody looks: an endpoint that goes to sleep does not go through thousands.
const MOST_UNSEEN: usize = 1024;

/// What is counted: names for people, and values in the same order. All fields of a structure must be here, so
/// that a new one cannot be forgotten.
macro_rules! figures {
    ($names:ident, $values:ident, $type:ty { $($field:ident $(=> $name:literal)?),* $(,)? }) => {
        const $names: &[&str] = &[$(figures!(@name $field $($name)?)),*];
        fn $values(of: &$type) -> [u64; $names.len()] {
            type Of = $type;
            let Of { $($field),* } = *of;
            [$($field.into()),*]
        }
    };
    (@name $field:ident $name:literal) => { $name };
    (@name $field:ident) => { stringify!($field) };
}

figures!(
    PROTOCOL,
    protocol,
    Counters {
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

figures!(OPERATIONS, operations, OperationCounters {
    unasked, offered, unexpected, dropped => "unexpected_dropped", refused => "operations_refused", wrong_keys, invalid => "operations_invalid",
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

fn peer(figures: &PeerFigures) -> [u64; PEER.len()] {
    let &PeerFigures {
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

/// What observers see of an endpoint, and how that stands.
pub(crate) struct Watched {
    observed: Observed,
    /// When the figures were written last, and when they were left behind last.
    written: Instant,
    left: Instant,
    /// Frames are being taken down.
    tapping: bool,
    asleep: bool,
}

impl Engine {
    /// Lets observers in. An endpoint works as well without, where the kernel refuses what that needs.
    pub(crate) fn show(&mut self, options: &Options) {
        let about = |(i, info): (usize, &gigae_link::Info)| LinkAbout {
            interface: self.links.shown(i),
            mode: info.mode.to_string(),
            mac: info.mac.0,
            max_frame: info.max_frame,
        };
        let names = |names: &[&[&str]]| names.concat().into_iter().map(Into::into).collect();
        let about = About {
            opened: self.clock.now().0,
            port: self.proto.config().port,
            wire: match options.envelope {
                Envelope::Ethernet { ethertype } => Wire::Ethernet(ethertype),
                Envelope::Udp { port } => Wire::Udp(port),
            },
            channels: options.channels.words(),
            links: self.links.all().map(Link::info).enumerate().map(about).collect(),
            names: [names(&[PROTOCOL, OPERATIONS, OWN]), names(&[LINK, PATH]), names(&[PEER])],
        };
        if let Ok(observed) = Observed::new(&about) {
            let (written, left, tapping, asleep) = (Instant(0), Instant(0), false, false);
            self.watched = Some(Box::new(Watched { observed, written, left, tapping, asleep }));
            self.write_figures(self.now, MOST_UNSEEN);
        }
    }

    /// Does what observers want, if there are any: one load if not.
    #[inline]
    pub(super) fn mind_observers(&mut self) {
        if let Some(watched) = &self.watched
            && (watched.observed.until() > self.now.0 || watched.tapping || watched.asleep)
        {
            self.serve_observers();
        }
    }

    #[cold]
    #[inline(never)]
    fn serve_observers(&mut self) {
        let now = self.clock.now();
        let Some(watched) = &mut self.watched else { return };
        if watched.asleep {
            watched.asleep = false;
            watched.observed.set_asleep(false);
        }
        let wanted = watched.observed.capture_until() > now.0;
        if wanted != watched.tapping {
            watched.tapping = wanted;
            let taps = wanted.then(|| watched.observed.tap());
            self.links.tap(taps.as_ref());
        }
        let (until, written) = (watched.observed.until(), watched.written);
        if until > now.0 && now.since(written) >= EVERY {
            self.write_figures(now, usize::MAX);
        }
    }

    /// The endpoint is about to sleep for so long. Returns how long it may, after which the figures of what it
    /// has done just before can be left behind: once, and not for each of many short sleeps.
    pub(super) fn leave_figures(&mut self, timeout: Option<Duration>) -> Option<Duration> {
        let Some(watched) = &self.watched else { return timeout };
        if timeout.is_some_and(|timeout| timeout < EVERY) {
            return timeout;
        }
        let age = self.now.since(watched.left);
        if age < EVERY {
            return Some(EVERY - age);
        }
        self.fall_asleep();
        timeout
    }

    /// The program is about to sleep, perhaps for long.
    pub(crate) fn leave_figures_soon(&mut self) {
        if self.watched.as_ref().is_some_and(|watched| self.now.since(watched.left) >= SOON) {
            self.fall_asleep();
        }
    }

    fn fall_asleep(&mut self) {
        self.write_figures(self.now, MOST_UNSEEN);
        if let Some(watched) = &mut self.watched {
            watched.asleep = true;
            watched.left = self.now;
            watched.observed.set_asleep(true);
        }
    }

    /// Writes all figures, those of peers among so many.
    fn write_figures(&mut self, now: Instant, most: usize) {
        let Some(mut watched) = self.watched.take() else { return };
        watched.written = now;
        watched
            .observed
            .publish(now.0, self.proto.peers() as u64, |sheet| self.fill_in(sheet, most));
        self.watched = Some(watched);
    }

    fn fill_in(&self, sheet: &mut Sheet, most: usize) {
        let thread = [self.progress_turns(), gigae_progress::wakeups()];
        let own = [self.inbox.copied(), self.clock_reads, thread[0], thread[1]];
        let counts =
            [&protocol(self.proto.counters())[..], &operations(self.transfer.counters()), &own];
        sheet.counts(&counts.concat());
        for (i, (link_of, path_of)) in self.links.all().zip(self.proto.paths()).enumerate() {
            sheet.link(i, &[&link(&link_of.counters())[..], &path(&path_of)].concat());
        }
        for n in 0..self.proto.peers().min(most) {
            let id = PeerId(u32::try_from(n).expect("bounded by max_peers"));
            let figures = self.proto.peer_figures(id);
            let key = self.proto.key(id);
            let state = match figures.state {
                State::Idle => continue,
                State::Proposing => PeerState::Proposing,
                State::Established => PeerState::Up,
                State::Closing => PeerState::Closing,
            };
            let address = match key.node {
                NodeAddr::Ethernet(mac) => PeerAddress::Mac(mac.0),
                NodeAddr::Ip { ip, .. } => PeerAddress::Ip(IpAddr::to_canonical(&ip)),
            };
            if !sheet.peer(address, (key.port, key.channel, state), &peer(&figures)) {
                break;
            }
        }
    }
}
