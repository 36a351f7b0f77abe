//! What arrives, and what does not.

use super::{
    CHANNEL, Maker, OTHER_CHANNEL, PairOptions, drain, flush, frame, has_kernel, hold, number,
    only, post, receive, send, shortest,
};
use crate::Mode;
use gigae_wire::{Envelope, Kind, TAG_LEN, VERSION};
use std::ops::Range;

/// Where in a frame the IPv4 address of its receiver lies.
const IPV4_TO: Range<usize> = 30..34;

/// From the shortest to the longest, in both directions.
pub fn frames_of_every_length_arrive_unchanged(options: &PairOptions, maker: Maker) {
    let mut pair = maker(options);
    let longest = pair.a.info().max_frame.min(pair.b.info().max_frame);
    assert_eq!(longest, options.mtu + 14, "the interface's MTU and the Ethernet header");
    assert!(pair.a.info().segment_size <= pair.a.info().frame_size);
    let shortest = shortest(&pair.to_b);
    let lengths = (shortest..longest).step_by(61).chain([longest - 1, longest]);
    for (i, length) in lengths.enumerate() {
        let there = frame(&pair.to_b, CHANNEL, i as u32, length);
        send(&mut *pair.a, &there);
        assert_eq!(receive(&mut *pair.b, 1), [there]);
        let back = frame(&pair.to_a, CHANNEL, i as u32, length);
        send(&mut *pair.b, &back);
        assert_eq!(receive(&mut *pair.a, 1), [back]);
    }
}

/// In batches of many sizes.
pub fn frames_arrive_in_the_order_in_which_they_were_posted(options: &PairOptions, maker: Maker) {
    let mut pair = maker(options);
    let mut next = 0;
    for batch in
        [1, 2, 3, 31, 32, 33, 64, 100, 128].map(|batch| batch.min(options.tx_frames as u32))
    {
        for i in next..next + batch {
            let posted = post(&mut *pair.a, &frame(&pair.to_b, CHANNEL, i, 200));
            pair.a.release(posted.into());
        }
        flush(&mut *pair.a);
        let received = receive(&mut *pair.b, batch as usize);
        let numbers: Vec<u32> = received.iter().map(|f| number(&pair.to_b, f)).collect();
        assert_eq!(numbers, (next..next + batch).collect::<Vec<_>>());
        next += batch;
    }
}

/// One flush for all transmit frames.
pub fn a_batch_larger_than_one_call_sends_arrives_whole(options: &PairOptions, maker: Maker) {
    let mut pair = maker(options);
    for i in 0..options.tx_frames {
        let posted = post(&mut *pair.a, &frame(&pair.to_b, CHANNEL, i as u32, 300));
        pair.a.release(posted.into());
    }
    flush(&mut *pair.a);
    for (i, bytes) in receive(&mut *pair.b, options.tx_frames).iter().enumerate() {
        assert_eq!(bytes, &frame(&pair.to_b, CHANNEL, i as u32, 300));
    }
}

/// More round trips than any ring has entries.
pub fn a_thousand_frames_go_to_and_fro(options: &PairOptions, maker: Maker) {
    let mut pair = maker(options);
    for i in 0..1000 {
        let there = frame(&pair.to_b, CHANNEL, i, 100);
        send(&mut *pair.a, &there);
        assert_eq!(receive(&mut *pair.b, 1), [there]);
        let back = frame(&pair.to_a, CHANNEL, i, 100);
        send(&mut *pair.b, &back);
        assert_eq!(receive(&mut *pair.a, 1), [back]);
    }
}

/// Both ends at once, each in its own thread: what the one gives back while the other, or the
/// kernel, is still at it.
pub fn two_threads_echo_each_others_frames(options: &PairOptions, maker: Maker) {
    const ROUND_TRIPS: u32 = 20_000;
    let mut pair = maker(options);
    if !has_kernel(&*pair.a) {
        return;
    }
    let (a, b) = (&mut pair.a, &mut pair.b);
    let (to_a, to_b) = (&pair.to_a, &pair.to_b);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for i in 0..ROUND_TRIPS {
                assert_eq!(receive(&mut **b, 1), [frame(to_b, CHANNEL, i, 100)]);
                send(&mut **b, &frame(to_a, CHANNEL, i, 100));
            }
        });
        for i in 0..ROUND_TRIPS {
            send(&mut **a, &frame(to_b, CHANNEL, i, 100));
            assert_eq!(receive(&mut **a, 1), [frame(to_a, CHANNEL, i, 100)]);
        }
    });
    assert_eq!(pair.b.counters().rx_frames, u64::from(ROUND_TRIPS));
}

/// As they were sent or, where the kernel or a driver has taken the tag out of the bytes, without
/// it. A driver may send the tag beside the bytes and fill the rest up to 60 bytes with zeros
/// (`igb` does). Frames of a VLAN do not arrive, but AF_XDP does not see a tag that is beside the
/// bytes.
pub fn frames_with_a_priority_tag_arrive(options: &PairOptions, maker: Maker) {
    let mut pair = maker(options);
    let mode = pair.b.info().mode;
    if mode == Mode::Udp {
        // The kernel makes its frames.
        return;
    }
    let tagged = pair.to_b.tagged(5);
    let longest = pair.a.info().segment_size.min(options.mtu + 14);
    for (i, length) in [shortest(&tagged), 100, longest].into_iter().enumerate() {
        let sent = frame(&tagged, CHANNEL, i as u32, length);
        send(&mut *pair.a, &sent);
        let mut bare = sent.clone();
        bare.drain(12..12 + TAG_LEN);
        let [came] = receive(&mut *pair.b, 1).try_into().expect("one frame");
        let filled = came.strip_prefix(&bare[..]).is_some_and(|rest| {
            rest.is_empty() || came.len() == 60 && rest.iter().all(|&byte| byte == 0)
        });
        assert!(came == sent || filled, "{length} bytes: {came:x?}");
        let [of_tagged, of_bare] = [&sent, &bare].map(|frame| options.filter.envelope.open(frame));
        assert_eq!(of_tagged, of_bare);
    }
    if !matches!(mode, Mode::XdpGeneric | Mode::XdpNative | Mode::XdpZeroCopy) {
        let mut of_vlan = frame(&tagged, CHANNEL, 7, 100);
        of_vlan[15] = 9;
        send(&mut *pair.a, &of_vlan);
        let ours = frame(&pair.to_b, CHANNEL, 8, 100);
        send(&mut *pair.a, &ours);
        only(&mut *pair.b, &ours);
    }
}

/// The filter's channels are the only ones.
pub fn frames_of_another_channel_are_not_seen(options: &PairOptions, maker: Maker) {
    let mut pair = maker(options);
    let others: Vec<u8> = (0..=255).filter(|&channel| channel != CHANNEL).collect();
    for some in others.chunks(options.tx_frames) {
        for &channel in some {
            send(&mut *pair.a, &frame(&pair.to_b, channel, 0, 100));
        }
        assert_eq!(drain(&mut *pair.b), 0);
    }
    let ours = frame(&pair.to_b, CHANNEL, 1, 100);
    send(&mut *pair.a, &ours);
    only(&mut *pair.b, &ours);
}

/// Another EtherType or UDP port.
pub fn frames_of_another_envelope_are_not_seen(options: &PairOptions, maker: Maker) {
    let mut pair = maker(options);
    let ours = frame(&pair.to_b, CHANNEL, 1, 100);
    let mut other = ours.clone();
    match options.filter.envelope {
        Envelope::Ethernet { .. } => other[13] ^= 1,
        Envelope::Udp { .. } => other[pair.to_b.len() - 5] ^= 1,
    }
    send(&mut *pair.a, &other);
    send(&mut *pair.a, &ours);
    only(&mut *pair.b, &ours);
}

/// Frames to a group, and to an address that is on no node (which a switch floods).
pub fn frames_to_others_are_not_seen(options: &PairOptions, maker: Maker) {
    let mut pair = maker(options);
    let ours = frame(&pair.to_b, CHANNEL, 1, 100);
    for others in [[0xff; 6], [1, 0, 0x5e, 0, 0, 1], [2, 0xab, 0xcd, 0, 0, 9]] {
        let mut other = ours.clone();
        other[..6].copy_from_slice(&others);
        send(&mut *pair.a, &other);
    }
    send(&mut *pair.a, &ours);
    only(&mut *pair.b, &ours);
}

/// A Who to all is seen on every channel, a Who to one node on the filter's channels only.
pub fn questions_to_all_are_seen_on_every_channel(options: &PairOptions, maker: Maker) {
    let mut pair = maker(options);
    let ours = frame(&pair.to_b, CHANNEL, 1, 100);
    let mut question = frame(&pair.to_b, OTHER_CHANNEL, 0, 100);
    question[pair.to_b.len() + 4] = VERSION << 4 | Kind::Who as u8;
    send(&mut *pair.a, &question);
    send(&mut *pair.a, &ours);
    only(&mut *pair.b, &ours);
    question[..6].fill(0xff);
    if pair.b.info().mode == Mode::Udp {
        // The kernel goes by the IP address, and IPv6 has none for all.
        if question[14] >> 4 != 4 {
            return;
        }
        question[IPV4_TO].fill(0xff);
    }
    send(&mut *pair.a, &question);
    only(&mut *pair.b, &question);
    // Of another version: a receiver could not know what it asks.
    question[pair.to_b.len() + 4] += 0x10;
    send(&mut *pair.a, &question);
    send(&mut *pair.a, &ours);
    only(&mut *pair.b, &ours);
}

/// What one end posts the other polls, and nothing else is counted.
pub fn counters_agree_at_both_ends(options: &PairOptions, maker: Maker) {
    let mut pair = maker(options);
    let (start_a, start_b) = (pair.a.counters(), pair.b.counters());
    assert_eq!((start_a.tx_frames, start_b.rx_frames), (0, 0), "what was posted and polled");
    let channels: Vec<u8> =
        (0..100).map(|i| if i % 10 == 9 { OTHER_CHANNEL } else { CHANNEL }).collect();
    for some in channels.chunks(options.tx_frames) {
        for &channel in some {
            send(&mut *pair.a, &frame(&pair.to_b, channel, 0, 100));
        }
        let ours = some.iter().filter(|&&channel| channel == CHANNEL).count();
        let frames = hold(&mut *pair.b, ours);
        frames.into_iter().for_each(|frame| pair.b.recycle(frame));
    }
    assert_eq!(drain(&mut *pair.b), 0);
    let (a, b) = (pair.a.counters(), pair.b.counters());
    assert_eq!((a.tx_frames, b.rx_frames), (100, 90));
    assert_eq!((a.rx_frames, b.tx_frames), (0, 0));
    assert_eq!((a.tx_invalid, b.rx_dropped), (0, 0));
    if has_kernel(&*pair.a) {
        assert!((1..=100).contains(&a.doorbells), "{} doorbells", a.doorbells);
    }
}
