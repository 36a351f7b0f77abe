//! The last part of the self-test: the program in the kernel classifies frames, busy polling is
//! permitted, and frames leave.

use crate::candidate_error::{CandidateError, failed};
use crate::config::{BusyPoll, XdpConfig};
use crate::link::XdpLink;
use crate::program::{Program, Verdict};
use crate::umem::CHUNK;
use crate::within::within;
use gigae_link::{Link, LinkCounters, OpenError, Posted, Segment, TxFrame};
use gigae_wire::{Envelope, MacAddr};
use rustix::io::Errno;
use std::time::Duration;

/// Completions come with the driver's coalescing, after milliseconds at most. Without one in this
/// time, none will come.
const COMPLETE_WITHIN: Duration = Duration::from_millis(500);

/// Frames that must complete one after the other.
const FRAMES: usize = 4;

/// Why there is no busy polling on hardware.
pub(crate) const NO_COMPLETION: &str = "no busy polling, with which a frame did not complete";
pub(crate) const NOT_TRIED: &str = "no busy polling, which cannot be tried without a carrier";

/// The program in the kernel takes a matching frame and passes others.
pub(crate) fn classifies(
    program: &Program,
    link: &XdpLink,
    config: &XdpConfig,
) -> Result<(), CandidateError> {
    let ours = matching_frame(config, link.info.mac);
    let mut foreign = ours.clone();
    foreign[..6].copy_from_slice(&[0xff; 6]);
    let mut longest = ours.clone();
    if link.assembly.is_some() {
        longest.resize(link.info.max_frame, 0);
    }
    let empty = config.filter.channels.is_empty();
    let expected = if empty { Verdict::Pass } else { Verdict::Redirect };
    let mut frames = vec![(&foreign, Verdict::Pass)];
    // A test runs on queue 0, which may have another link.
    if config.queue == 0 {
        frames.extend([(&ours, expected), (&longest, expected)]);
    }
    for (frame, expected) in frames {
        match program.judge(frame) {
            Ok(verdict) if verdict == expected => {}
            Ok(other) => return Err(failed("testing the program", format!("it says {other:?}"))),
            Err(e) => return Err(failed("testing the program", e)),
        }
    }
    Ok(())
}

/// A frame that the link's filter takes.
fn matching_frame(config: &XdpConfig, mac: MacAddr) -> Vec<u8> {
    let mut frame = vec![0; 80];
    frame[..6].copy_from_slice(&mac.0);
    frame[6..12].copy_from_slice(&mac.0);
    let channel = config.filter.channels.iter().next().unwrap_or(0);
    match config.filter.envelope {
        Envelope::Ethernet { ethertype } => {
            frame[12..14].copy_from_slice(&ethertype.to_be_bytes());
            frame[14 + 5] = channel;
        }
        Envelope::Udp { port } => {
            frame[12..15].copy_from_slice(&[0x08, 0x00, 0x45]);
            frame[23] = 17;
            frame[36..38].copy_from_slice(&port.to_be_bytes());
            frame[42 + 5] = channel;
        }
    }
    frame
}

pub(crate) fn busy_poll(link: &XdpLink, wanted: BusyPoll, useful: bool) -> Result<bool, OpenError> {
    match wanted {
        BusyPoll::Off => Ok(false),
        BusyPoll::Auto if !useful => Ok(false),
        BusyPoll::Auto => {
            let (micros, budget) = BusyPoll::AUTOMATIC;
            Ok(link.socket.prefer_busy_poll(micros, budget).is_ok())
        }
        BusyPoll::On { micros, budget } => match link.socket.prefer_busy_poll(micros, budget) {
            Ok(()) => Ok(true),
            Err(Errno::PERM) => Err(OpenError::MissingCapability {
                what: "busy polling so long",
                capability: "CAP_NET_ADMIN",
            }),
            Err(e) => Err(OpenError::Io { what: "turning busy polling on", source: e.into() }),
        },
    }
}

/// Checks that frames of full length leave and complete one by one, if necessary without busy
/// polling. Returns why that is off then.
///
/// A kernel that is driven like this looks only into the queue that receives. An igb with one queue
/// handles sending and receiving separately then. In zero-copy mode it sends only when it looks
/// after its queues, every two seconds. One frame may be lucky.
///
/// The frames go from the interface's own address to itself. A switch learns nothing that it would
/// not learn from any other frame of ours. It finds that their destination is where they came from,
/// so it does not forward them. A macvlan gets them back from the kernel, which also completes
/// them. If one comes back, its header of zeros belongs to no version of the protocol.
pub(crate) fn transmits(
    link: &mut XdpLink,
    config: &XdpConfig,
) -> Result<Option<String>, CandidateError> {
    let Envelope::Ethernet { ethertype } = (match config.filter.envelope {
        Envelope::Udp { .. } => Envelope::DEFAULT,
        ethernet => ethernet,
    }) else {
        return Ok(None);
    };
    let mac = link.info.mac.0;
    let mut frame = vec![0; link.info.max_frame];
    frame[..6].copy_from_slice(&mac);
    frame[6..12].copy_from_slice(&mac);
    frame[12..14].copy_from_slice(&ethertype.to_be_bytes());
    let mut left_off = None;
    for _ in 0..FRAMES {
        let mut posted = post(link, &frame);
        let mut done = completes(link, &mut posted)?;
        if !done && link.busy && config.busy_poll == BusyPoll::Auto {
            link.socket.no_busy_poll().map_err(|e| failed("ending busy polling", e))?;
            link.busy = false;
            left_off = Some(NO_COMPLETION.to_owned());
            done = completes(link, &mut posted)?;
        }
        if !done {
            return Err(failed("transmitting", "a frame did not complete"));
        }
    }
    if link.socket.statistics().is_ok_and(|counts| counts.tx_invalid_descs > 0) {
        return Err(failed("transmitting", "the kernel does not take the frame's descriptors"));
    }
    // A frame that came back was there before its completion: the kernel copies frames on that
    // path.
    link.discard_arrived();
    link.counters = LinkCounters::default();
    Ok(left_off)
}

/// Whether the kernel returns all of a frame.
fn completes(link: &mut XdpLink, posted: &mut Vec<Posted>) -> Result<bool, CandidateError> {
    let mut result = Ok(());
    let done = within(COMPLETE_WITHIN, || {
        result = link.flush().map(drop);
        for token in std::mem::take(posted) {
            match link.reclaim(token) {
                Ok(frame) => link.release(frame.into()),
                Err(still) => posted.push(still),
            }
        }
        posted.is_empty() || result.is_err()
    });
    result.map(|()| done).map_err(|e| failed("transmitting", e))
}

/// Posts a frame in the fewest possible segments.
fn post(link: &mut XdpLink, bytes: &[u8]) -> Vec<Posted> {
    let arena = link.umem.arena.clone();
    let chunks = bytes.chunks(CHUNK);
    let last = chunks.len() - 1;
    let write = |mut frame: TxFrame, chunk: &[u8]| {
        arena.bytes_mut(&mut frame)[..chunk.len()].copy_from_slice(chunk);
        frame
    };
    chunks
        .enumerate()
        .map(|(i, chunk)| {
            let frame = write(link.take().expect("room for the longest frame"), chunk);
            let segment = if i < last { Segment::More } else { Segment::Last };
            link.post(frame, 0..chunk.len(), segment)
        })
        .collect()
}
