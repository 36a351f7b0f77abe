//! The longest frames that the interface carries: in one piece or in segments, as the link has
//! them.

use super::{
    CHANNEL, LinkPair, Maker, PATIENCE, PairOptions, drain, flush, frame, has_kernel, hold,
    post_segments, queue, receive, sees_drops, send, shortest, waiting_at_most,
};
use crate::{Link, Posted, RxFrame, Segment, TxFrame};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Duration;

/// Longest frame that both links carry, in bytes.
fn longest(pair: &LinkPair) -> usize {
    pair.a.info().max_frame.min(pair.b.info().max_frame)
}

/// How many transmit frames the longest frame takes.
fn segments(pair: &LinkPair) -> usize {
    longest(pair).div_ceil(pair.a.info().frame_size)
}

/// Lengths around every border between segments, and the shortest and longest.
pub fn the_longest_frames_arrive_whole_and_in_order_among_short_ones(
    options: &PairOptions,
    maker: Maker,
) {
    let mut pair = maker(options);
    let (before_a, before_b) = (pair.a.counters().tx_frames, pair.b.counters().rx_frames);
    let (shortest, longest) = (shortest(&pair.to_b), longest(&pair));
    let sizes = [pair.a.info().frame_size, pair.a.info().segment_size];
    let borders = sizes.iter().flat_map(|size| (1..4).map(move |n| n * size));
    let lengths: Vec<usize> = borders
        .flat_map(|border| [border - 1, border, border + 1])
        .filter(|&length| length <= longest)
        .flat_map(|length| [length, shortest, longest])
        .collect();
    let lengths = if lengths.is_empty() { vec![longest, shortest] } else { lengths };
    for (round, lengths) in lengths.chunks(20).enumerate() {
        let numbered = lengths.iter().enumerate();
        let frames: Vec<Vec<u8>> = numbered
            .map(|(i, &length)| frame(&pair.to_b, CHANNEL, (round * 20 + i) as u32, length))
            .collect();
        frames.iter().for_each(|bytes| queue(&mut *pair.a, bytes));
        flush(&mut *pair.a);
        assert!(receive(&mut *pair.b, frames.len()) == frames, "frames of {lengths:?} bytes");
    }
    let (a, b) = (pair.a.counters(), pair.b.counters());
    assert_eq!(a.tx_frames - before_a, lengths.len() as u64, "a frame counts once");
    assert_eq!((b.rx_frames - before_b, b.rx_dropped), (lengths.len() as u64, 0));
}

/// As many as there is memory for.
pub fn a_flush_of_nothing_but_the_longest_frames_arrives_whole(
    options: &PairOptions,
    maker: Maker,
) {
    let mut pair = maker(options);
    let (length, count) = (longest(&pair), options.tx_frames / segments(&pair));
    pair.b.provide(pair.b.info().rx_frames);
    for round in 0..3 {
        for i in 0..count {
            queue(&mut *pair.a, &frame(&pair.to_b, CHANNEL, i as u32 + round, length));
        }
        for _ in 0..PATIENCE {
            if pair.a.flush().expect("flush") {
                break;
            }
        }
        for (i, bytes) in receive(&mut *pair.b, count).iter().enumerate() {
            assert!(*bytes == frame(&pair.to_b, CHANNEL, i as u32 + round, length), "frame {i}");
        }
    }
    assert_eq!(drain(&mut *pair.b), 0);
}

/// Both ends at once, each in its own thread.
pub fn two_threads_echo_the_longest_frames(options: &PairOptions, maker: Maker) {
    const ROUND_TRIPS: u32 = 3_000;
    let mut pair = maker(options);
    if !has_kernel(&*pair.a) {
        return;
    }
    let length = longest(&pair);
    let (a, b) = (&mut pair.a, &mut pair.b);
    let (to_a, to_b) = (&pair.to_a, &pair.to_b);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for i in 0..ROUND_TRIPS {
                let ours = frame(to_b, CHANNEL, i, length);
                assert!(receive(&mut **b, 1) == [ours], "frame {i} there");
                send(&mut **b, &frame(to_a, CHANNEL, i, length));
            }
        });
        for i in 0..ROUND_TRIPS {
            send(&mut **a, &frame(to_b, CHANNEL, i, length));
            let ours = frame(to_a, CHANNEL, i, length);
            assert!(receive(&mut **a, 1) == [ours], "frame {i} back");
        }
    });
}

/// Short ones too, and as many as the link takes.
pub fn segments_of_any_length_make_one_frame(options: &PairOptions, maker: Maker) {
    let mut pair = maker(options);
    let most = pair.a.info().max_segments;
    if most == 1 {
        return;
    }
    let (longest, size) = (longest(&pair), pair.a.info().frame_size);
    let headers = pair.to_b.len() + 32;
    for (number, cuts) in [
        vec![headers],
        vec![headers, headers + size],
        vec![size, size + 1],
        vec![size - 1, 2 * size - 2],
        (1..most).map(|n| 100 * n).collect(),
    ]
    .iter()
    .enumerate()
    {
        let cuts: Vec<usize> = cuts.iter().copied().filter(|&cut| cut < longest).collect();
        let end = longest.min(cuts[cuts.len() - 1] + size);
        let bytes = frame(&pair.to_b, CHANNEL, number as u32, end);
        let starts = std::iter::once(0).chain(cuts.iter().copied());
        let ends = cuts.iter().copied().chain([end]);
        let segments: Vec<&[u8]> =
            starts.zip(ends).map(|(start, end)| &bytes[start..end]).collect();
        let posted = post_segments(&mut *pair.a, &segments);
        flush(&mut *pair.a);
        assert!(receive(&mut *pair.b, 1) == [bytes], "cut at {cuts:?}");
        posted.into_iter().for_each(|posted| pair.a.release(posted.into()));
    }
}

/// Each segment has its own completion.
pub fn a_segment_is_reclaimed_and_sent_again_in_another_frame(options: &PairOptions, maker: Maker) {
    let mut pair = maker(options);
    let size = pair.a.info().frame_size;
    let first = frame(&pair.to_b, CHANNEL, 1, longest(&pair));
    let chunks: Vec<&[u8]> = first.chunks(size).collect();
    let mut posted = post_segments(&mut *pair.a, &chunks);
    if has_kernel(&*pair.a) {
        let still = posted.pop().expect("a segment");
        let still = pair.a.reclaim(still).expect_err("a frame that was not flushed is the NIC's");
        posted.push(still);
    }
    flush(&mut *pair.a);
    assert!(receive(&mut *pair.b, 1) == [first]);
    let reclaimed: Vec<TxFrame> =
        posted.into_iter().map(|posted| reclaim(&mut *pair.a, posted)).collect();
    for (number, mut again) in reclaimed.into_iter().enumerate() {
        let second = frame(&pair.to_b, CHANNEL, 10 + number as u32, 500);
        pair.a.memory().arena.clone().bytes_mut(&mut again)[..500].copy_from_slice(&second);
        let posted = pair.a.post(again, 0..500, Segment::Last);
        flush(&mut *pair.a);
        assert!(receive(&mut *pair.b, 1) == [second]);
        let free = reclaim(&mut *pair.a, posted);
        pair.a.release(free.into());
    }
    let all: Vec<TxFrame> = std::iter::from_fn(|| pair.a.take()).collect();
    assert_eq!(all.len(), pair.a.info().tx_frames, "none is lost");
    all.into_iter().for_each(|frame| pair.a.release(frame.into()));
}

/// Reclaims a frame or segment once it has left.
fn reclaim(link: &mut dyn Link, mut posted: Posted) -> TxFrame {
    for _ in 0..PATIENCE {
        match link.reclaim(posted) {
            Ok(frame) => return frame,
            Err(still) => posted = still,
        }
        link.flush().expect("flush");
        link.wait(Some(Duration::from_millis(1))).expect("wait");
    }
    panic!("a segment that was flushed never completed");
}

/// Of the receive memory, one token less than the frame needs is free. The link never hands over a
/// part of a frame.
pub fn a_long_frame_for_which_there_is_no_room_is_dropped_whole(
    options: &PairOptions,
    maker: Maker,
) {
    let mut pair = maker(options);
    let (ring, length) = (pair.b.info().rx_frames, longest(&pair));
    let needed = length.div_ceil(pair.b.info().segment_size);
    let mut held: Vec<RxFrame> = Vec::new();
    for i in 0..ring + 1 - needed {
        send(&mut *pair.a, &frame(&pair.to_b, CHANNEL, i as u32, 100));
        held.extend(hold(&mut *pair.b, 1));
    }
    let (seen, most) = (sees_drops(&*pair.b), waiting_at_most(&*pair.b));
    for i in 0..most as u32 + 3 {
        send(&mut *pair.a, &frame(&pair.to_b, CHANNEL, i, length));
    }
    pair.b.wait(Some(Duration::from_millis(10))).expect("wait");
    let mut more = Vec::new();
    assert_eq!(pair.b.poll(&mut more, 64).expect("poll"), 0, "there is no room");
    assert!(!seen || pair.b.counters().rx_dropped > 0, "drops are counted");
    held.into_iter().for_each(|frame| pair.b.recycle(frame));
    drain(&mut *pair.b);
    for i in 0..2 * ring as u32 {
        let ours = frame(&pair.to_b, CHANNEL, i, length);
        send(&mut *pair.a, &ours);
        assert!(receive(&mut *pair.b, 1) == [ours], "frame {i} after the drops");
    }
}

/// By a panic, before anything reaches the NIC.
pub fn what_is_longer_than_the_link_carries_is_refused(options: &PairOptions, maker: Maker) {
    let mut pair = maker(options);
    let info = pair.a.info().clone();
    let bytes = frame(&pair.to_b, CHANNEL, 1, info.max_frame + 1);
    let chunks: Vec<&[u8]> = bytes.chunks(info.frame_size).collect();
    let refused = catch_unwind(AssertUnwindSafe(|| post_segments(&mut *pair.a, &chunks)));
    assert!(refused.is_err(), "{} bytes where {} are the most", bytes.len(), info.max_frame);
    let bits: Vec<&[u8]> = bytes[..info.max_segments + 1].chunks(1).collect();
    let refused = catch_unwind(AssertUnwindSafe(|| post_segments(&mut *pair.b, &bits)));
    assert!(refused.is_err(), "{} segments", bits.len());
}
