//! The suite that every backend is held to.
//!
//! A backend's test file writes a function that opens two links which can reach each other, and
//! hands it to [`conformance_tests!`](crate::conformance_tests), which makes a list of named tests
//! of it. Every test opens its own pair. A test fails by panicking.
//!
//! The suite works in real and in virtual time: it gets time to pass by calling
//! [`Link::wait`], and bounds by how often it did. It asserts nothing about speed.

mod frames;
mod holds;
mod kernel;
mod long;
mod waiting;

pub use frames::*;
pub use holds::*;
pub use kernel::*;
pub use long::*;
pub use waiting::*;

use crate::{ChannelSet, Filter, Link, Mode, Posted, RxFrame, Segment, TxFrame};
use gigae_wire::{Envelope, Route};
use std::any::Any;
use std::net::IpAddr;
use std::ops::Range;
use std::time::Duration;

/// The channel that the links of a pair take.
pub const CHANNEL: u8 = 7;

/// A channel that they do not take.
pub const OTHER_CHANNEL: u8 = 8;

/// What a test wants of its links.
#[derive(Clone, Debug)]
pub struct PairOptions {
    /// Which frames both links take.
    pub filter: Filter,
    /// Transmit frames of each link.
    pub tx_frames: usize,
    /// Receive frames of each link, at least.
    pub rx_frames: usize,
    /// MTU of both interfaces in bytes.
    pub mtu: usize,
}

impl PairOptions {
    /// Small enough that a test reaches the limits; the transmit frames are several times what a
    /// kernel sends in one call (32). MTU 1500.
    pub fn new(envelope: Envelope) -> Self {
        let channels = ChannelSet::EMPTY.with(CHANNEL);
        Self { filter: Filter { envelope, channels }, tx_frames: 256, rx_frames: 512, mtu: 1500 }
    }

    /// For cards that hold at most this many frames which the receiver has not polled yet. A test
    /// that waits for all of its frames has at most the transmit frames on the way, half of them.
    pub fn within(mut self, frames: usize) -> Self {
        self.tx_frames = self.tx_frames.min(frames / 2);
        self.rx_frames = self.rx_frames.min(frames);
        self
    }
}

/// Opens two links that can reach each other.
pub type Maker = fn(&PairOptions) -> LinkPair;

/// Moves the calling thread to where the link's node is, until the returned guard is dropped.
pub type Enter = Box<dyn Fn() -> Box<dyn Any> + Send + Sync>;

/// Two links that can reach each other.
pub struct LinkPair {
    /// One end.
    pub a: Box<dyn Link>,
    /// The other end.
    pub b: Box<dyn Link>,
    /// Outer headers of frames from `a` to `b`.
    pub to_b: Route,
    /// Outer headers of frames from `b` to `a`.
    pub to_a: Route,
    /// The kernels beside the links, if there are any.
    pub kernels: Option<Kernels>,
    /// What must live as long as the links (dropped after them).
    pub keep_alive: Box<dyn Any>,
}

/// The kernels' own network stacks on the interfaces of a pair.
pub struct Kernels {
    /// The nodes' addresses, `a`'s first.
    pub addresses: [IpAddr; 2],
    /// How to get into the nodes, `a`'s first.
    pub enter: [Enter; 2],
}

/// Makes the list of tests for a maker: `conformance_tests!("generic", open_pair)` is an array of
/// names and functions, for a runner. A number behind it is the MTU, by default 1500. A second
/// number limits the unread frames that the carrier holds, a card's ring or a socket's queue
/// ([`PairOptions::within`](crate::conformance::PairOptions::within)); by default there is no
/// limit.
#[macro_export]
macro_rules! conformance_tests {
    ($prefix:literal, $envelope:expr, $maker:path) => {
        $crate::conformance_tests!($prefix, $envelope, $maker, 1500)
    };
    ($prefix:literal, $envelope:expr, $maker:path, $mtu:expr) => {
        $crate::conformance_tests!($prefix, $envelope, $maker, $mtu, usize::MAX)
    };
    ($prefix:literal, $envelope:expr, $maker:path, $mtu:expr, $held:expr) => {
        $crate::conformance_tests!(@list $prefix, $envelope, $maker, $mtu, $held;
            frames_of_every_length_arrive_unchanged,
            frames_arrive_in_the_order_in_which_they_were_posted,
            a_batch_larger_than_one_call_sends_arrives_whole,
            a_thousand_frames_go_to_and_fro,
            two_threads_echo_each_others_frames,
            frames_with_a_priority_tag_arrive,
            frames_of_another_channel_are_not_seen,
            frames_of_another_envelope_are_not_seen,
            frames_to_others_are_not_seen,
            questions_to_all_are_seen_on_every_channel,
            counters_agree_at_both_ends,
            taking_the_last_frame_exhausts_the_link_and_giving_back_revives_it,
            a_released_frame_is_not_handed_out_while_the_nic_has_it,
            a_frame_is_reclaimed_only_when_it_has_left_and_can_be_sent_again,
            frames_pass_without_end_as_long_as_they_are_recycled,
            frames_may_be_recycled_in_any_order,
            a_frame_that_is_kept_for_ever_stops_nothing,
            a_receiver_that_holds_every_frame_drops_and_recovers,
            a_receiver_that_does_not_poll_drops_and_recovers,
            a_token_of_another_link_is_refused,
            the_longest_frames_arrive_whole_and_in_order_among_short_ones,
            a_flush_of_nothing_but_the_longest_frames_arrives_whole,
            two_threads_echo_the_longest_frames,
            segments_of_any_length_make_one_frame,
            a_segment_is_reclaimed_and_sent_again_in_another_frame,
            a_long_frame_for_which_there_is_no_room_is_dropped_whole,
            what_is_longer_than_the_link_carries_is_refused,
            waiting_ends_with_the_time_when_nothing_comes,
            waiting_ends_when_a_frame_comes,
            waiting_sleeps_although_a_frame_is_held,
            the_descriptor_is_readable_only_while_a_frame_waits,
            the_kernels_own_traffic_passes_beside_the_link,
        )
    };
    (@list $prefix:literal, $envelope:expr, $maker:path, $mtu:expr, $held:expr; $($test:ident,)*) => {
        [$((
            concat!($prefix, "::", stringify!($test)),
            (|| {
                let mut options = $crate::conformance::PairOptions::new($envelope).within($held);
                options.mtu = $mtu;
                $crate::conformance::$test(&options, $maker)
            }) as fn(),
        )),*]
    };
}

/// How often a test lets time pass before it gives up: at a millisecond each, long enough for a
/// loaded machine.
const PATIENCE: usize = 60_000;

/// Whether a kernel is behind the link. A simulated one copies a frame when it is posted, so that
/// it is free at once, and its wire holds any number of frames that are not polled.
fn has_kernel(link: &dyn Link) -> bool {
    link.fd().is_some()
}

/// Whether the link learns of frames for which there was no room. A card in zero-copy mode lets
/// them wait, or drops them and counts them itself. In a socket they wait.
fn sees_drops(link: &dyn Link) -> bool {
    !matches!(link.info().mode, Mode::XdpZeroCopy | Mode::Udp | Mode::PacketCalls)
}

/// How many frames wait in the link, as far as it drops any, while the caller holds all that it
/// may. A packet socket's ring is as long as what was copied out of it.
fn waiting_at_most(link: &dyn Link) -> usize {
    if link.info().mode == Mode::Packet { link.info().rx_frames } else { 0 }
}

/// A whole frame behind the headers of `route`: its channel, its number and bytes that depend on
/// both. `length` counts everything.
pub fn frame(route: &Route, channel: u8, number: u32, length: usize) -> Vec<u8> {
    let mut bytes = vec![0; length];
    let start = route.len();
    let mut state = u64::from(number) << 8 | u64::from(channel) | 1 << 63;
    for byte in &mut bytes[start..] {
        // A step of Marsaglia's xorshift: any bytes that differ will do.
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        *byte = state as u8;
    }
    bytes[start..start + 4].copy_from_slice(&number.to_be_bytes());
    // No protocol has version 15, so any other receiver of this frame drops it.
    bytes[start + 4] = 0xf0;
    bytes[start + 5] = channel;
    // Port ids, on which UDP ports depend.
    if let Some(ids) = bytes.get_mut(start + 8..start + 12) {
        ids.fill(0);
    }
    route.write(&mut bytes);
    bytes
}

/// The number that [`frame`] put into a frame.
pub fn number(route: &Route, frame: &[u8]) -> u32 {
    let start = route.len();
    u32::from_be_bytes(frame[start..start + 4].try_into().expect("four bytes"))
}

/// Shortest frame: what Ethernet asks for, or what the headers need.
pub fn shortest(route: &Route) -> usize {
    60.max(route.len() + 8)
}

/// A free transmit frame; waits for one.
fn take(link: &mut dyn Link) -> TxFrame {
    for _ in 0..PATIENCE {
        if let Some(frame) = link.take() {
            return frame;
        }
        link.flush().expect("flush");
        link.wait(Some(Duration::from_millis(1))).expect("wait");
    }
    panic!("no transmit frame gets free");
}

/// Flushes until the link has taken everything: a NIC may be full for a moment.
pub fn flush(link: &mut dyn Link) {
    for _ in 0..PATIENCE {
        if link.flush().expect("flush") {
            return;
        }
        link.wait(Some(Duration::from_millis(1))).expect("wait");
    }
    panic!("the link never takes all that was posted");
}

/// Posts a frame with these bytes, which fit one segment.
pub fn post(link: &mut dyn Link, bytes: &[u8]) -> Posted {
    let mut frame = take(link);
    let place = write(link, &mut frame, bytes);
    link.post(frame, place, Segment::Last)
}

/// Puts bytes into a transmit frame: not at its start, if there is room, so that the offset counts.
fn write(link: &dyn Link, frame: &mut TxFrame, bytes: &[u8]) -> Range<usize> {
    let at = 16.min(link.info().frame_size - bytes.len());
    let place = at..at + bytes.len();
    link.memory().arena.bytes_mut(frame)[place.clone()].copy_from_slice(bytes);
    place
}

/// Posts a frame that consists of these segments. All transmit frames are taken first, since a link
/// cannot be flushed in the middle of a frame.
pub fn post_segments(link: &mut dyn Link, segments: &[&[u8]]) -> Vec<Posted> {
    let taken: Vec<TxFrame> = segments.iter().map(|_| take(link)).collect();
    let last = segments.len() - 1;
    let mut posted = Vec::new();
    for (i, (mut frame, bytes)) in taken.into_iter().zip(segments).enumerate() {
        let place = write(link, &mut frame, bytes);
        let segment = if i < last { Segment::More } else { Segment::Last };
        posted.push(link.post(frame, place, segment));
    }
    posted
}

/// Posts a frame with these bytes in as few segments as it needs, and releases it.
pub fn queue(link: &mut dyn Link, bytes: &[u8]) {
    let size = link.info().frame_size;
    let segments: Vec<&[u8]> = bytes.chunks(size).collect();
    post_segments(link, &segments).into_iter().for_each(|posted| link.release(posted.into()));
}

/// Posts, flushes and releases a frame with these bytes, in segments if it must be.
pub fn send(link: &mut dyn Link, bytes: &[u8]) {
    queue(link, bytes);
    flush(link);
}

/// Sends a frame with these bytes until the other link receives it. A bridge learns that a port is
/// up again later than the kernel reports it, and on a busy machine much later.
pub fn send_until_received(link: &mut dyn Link, other: &mut dyn Link, bytes: &[u8]) {
    let mut came = Vec::new();
    for _ in 0..PATIENCE / 10 {
        send(link, bytes);
        other.wait(Some(Duration::from_millis(10))).expect("wait");
        if other.poll(&mut came, 1).expect("poll") > 0 {
            break;
        }
    }
    assert_eq!(came.len(), 1, "frames received");
    assert!(other.memory().received(&came[0]) == bytes, "other bytes");
    came.into_iter().for_each(|token| other.recycle(token));
}

/// Receives until there are `count` frames or more, without recycling; their tokens. Spins for a
/// while, then sleeps.
pub fn hold(link: &mut dyn Link, count: usize) -> Vec<RxFrame> {
    const SPINS: usize = 1000;
    let mut tokens: Vec<RxFrame> = Vec::new();
    let mut idle = 0;
    let frames = |tokens: &[RxFrame]| tokens.iter().filter(|token| !token.continues()).count();
    while frames(&tokens) < count && idle < SPINS + PATIENCE {
        let left = count - frames(&tokens);
        let polled = link.poll(&mut tokens, left).expect("poll");
        if polled > 0 {
            let most = left + link.info().max_segments - 1;
            assert!(polled <= most, "{polled} tokens where {left} were asked for");
            assert!(!tokens[tokens.len() - 1].continues(), "a frame was not handed over whole");
            continue;
        }
        idle += 1;
        if idle > SPINS || !has_kernel(link) {
            link.wait(Some(Duration::from_millis(1))).expect("wait");
        }
    }
    assert_eq!(frames(&tokens), count, "frames received");
    tokens
}

/// Receives and recycles `count` frames; their bytes.
pub fn receive(link: &mut dyn Link, count: usize) -> Vec<Vec<u8>> {
    let mut all = Vec::new();
    while all.len() < count {
        let mut bytes = Vec::new();
        for token in hold(link, 1) {
            bytes.extend_from_slice(link.memory().received(&token));
            link.recycle(token);
        }
        all.push(bytes);
    }
    all
}

/// Receives and recycles everything until nothing came for a while; how many frames.
pub fn drain(link: &mut dyn Link) -> usize {
    let (mut frames, mut count, mut idle) = (Vec::new(), 0, 0);
    while idle < 20 {
        if link.poll(&mut frames, 64).expect("poll") == 0 {
            idle += 1;
            link.wait(Some(Duration::from_millis(1))).expect("wait");
            continue;
        }
        count += frames.iter().filter(|token| !token.continues()).count();
        frames.drain(..).for_each(|frame| link.recycle(frame));
    }
    count
}

/// Asserts that one frame, and not any before it, arrives: the one with these bytes.
pub fn only(link: &mut dyn Link, bytes: &[u8]) {
    assert_eq!(receive(link, 1), [bytes]);
    assert_eq!(drain(link), 0, "frames behind the expected one");
}
