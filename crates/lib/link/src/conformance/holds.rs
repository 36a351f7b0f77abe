//! Who holds which frame when.

use super::{
    CHANNEL, Maker, PATIENCE, PairOptions, drain, flush, frame, has_kernel, hold, number, only,
    post, receive, sees_drops, send, waiting_at_most,
};
use crate::{Link, Mode, Posted, Segment, TxFrame};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Duration;

fn take_all(link: &mut dyn Link) -> Vec<TxFrame> {
    std::iter::from_fn(|| link.take()).collect()
}

/// Reclaims a frame once it has left.
fn reclaim(link: &mut dyn Link, mut posted: Posted) -> TxFrame {
    for _ in 0..PATIENCE {
        match link.reclaim(posted) {
            Ok(frame) => return frame,
            Err(still) => posted = still,
        }
        link.flush().expect("flush");
        link.wait(Some(Duration::from_millis(1))).expect("wait");
    }
    panic!("a frame that was flushed never completed");
}

/// As many frames as stated, no more, and each of them again.
pub fn taking_the_last_frame_exhausts_the_link_and_giving_back_revives_it(
    options: &PairOptions,
    maker: Maker,
) {
    let mut pair = maker(options);
    for _ in 0..3 {
        let mut frames = take_all(&mut *pair.a);
        assert_eq!(frames.len(), pair.a.info().tx_frames);
        let mut slots: Vec<u32> = frames.iter().map(TxFrame::slot).collect();
        slots.sort_unstable();
        slots.dedup();
        assert_eq!(slots.len(), frames.len(), "no frame twice");
        pair.a.release(frames.pop().expect("a frame").into());
        frames.push(pair.a.take().expect("the frame that was given back"));
        assert!(pair.a.take().is_none());
        frames.into_iter().for_each(|frame| pair.a.release(frame.into()));
    }
    let ours = frame(&pair.to_b, CHANNEL, 1, 100);
    send(&mut *pair.a, &ours);
    only(&mut *pair.b, &ours);
}

/// Released at once, sent later, and unchanged then.
pub fn a_released_frame_is_not_handed_out_while_the_nic_has_it(
    options: &PairOptions,
    maker: Maker,
) {
    let mut pair = maker(options);
    let mut posted = 0;
    for _ in 0..pair.a.info().tx_frames {
        let mut taken = pair.a.take().expect("a free frame");
        let bytes = frame(&pair.to_b, CHANNEL, posted, 100);
        pair.a.memory().arena.clone().bytes_mut(&mut taken)[..100].copy_from_slice(&bytes);
        let token = pair.a.post(taken, 0..100, Segment::Last);
        pair.a.release(token.into());
        posted += 1;
    }
    if has_kernel(&*pair.a) {
        assert!(pair.a.take().is_none(), "all are with the NIC");
    }
    flush(&mut *pair.a);
    for (i, bytes) in receive(&mut *pair.b, posted as usize).iter().enumerate() {
        assert_eq!(bytes, &frame(&pair.to_b, CHANNEL, i as u32, 100));
    }
    let mut free = Vec::new();
    for _ in 0..PATIENCE {
        free.extend(std::iter::from_fn(|| pair.a.take()));
        if free.len() == pair.a.info().tx_frames {
            break;
        }
        pair.a.wait(Some(Duration::from_millis(1))).expect("wait");
    }
    assert_eq!(free.len(), pair.a.info().tx_frames, "all completed");
    free.into_iter().for_each(|frame| pair.a.release(frame.into()));
}

/// A retransmission: the same frame, changed in between.
pub fn a_frame_is_reclaimed_only_when_it_has_left_and_can_be_sent_again(
    options: &PairOptions,
    maker: Maker,
) {
    let mut pair = maker(options);
    let first = frame(&pair.to_b, CHANNEL, 1, 100);
    let mut posted = post(&mut *pair.a, &first);
    if has_kernel(&*pair.a) {
        posted = pair.a.reclaim(posted).expect_err("a frame that was not flushed is the NIC's");
    }
    assert_eq!(pair.a.memory().arena.clone().posted_bytes(&posted)[16..116], first);
    flush(&mut *pair.a);
    let mut again = reclaim(&mut *pair.a, posted);
    let second = frame(&pair.to_b, CHANNEL, 2, 300);
    pair.a.memory().arena.clone().bytes_mut(&mut again)[..300].copy_from_slice(&second);
    let posted = pair.a.post(again, 0..300, Segment::Last);
    flush(&mut *pair.a);
    assert_eq!(receive(&mut *pair.b, 2), [first, second]);
    let free = reclaim(&mut *pair.a, posted);
    pair.a.release(free.into());
    assert_eq!(take_all(&mut *pair.a).len(), pair.a.info().tx_frames);
}

/// Many times the receive ring.
pub fn frames_pass_without_end_as_long_as_they_are_recycled(options: &PairOptions, maker: Maker) {
    let mut pair = maker(options);
    let batch = options.tx_frames.min(pair.b.info().rx_frames / 2);
    let rounds = 5 * pair.b.info().rx_frames / batch;
    for round in 0..rounds {
        for i in 0..batch {
            let number = (round * batch + i) as u32;
            let posted = post(&mut *pair.a, &frame(&pair.to_b, CHANNEL, number, 100));
            pair.a.release(posted.into());
        }
        flush(&mut *pair.a);
        receive(&mut *pair.b, batch);
    }
    assert_eq!(pair.b.counters().rx_frames, (rounds * batch) as u64);
}

/// Every third frame is kept for long, the others go back in reverse.
pub fn frames_may_be_recycled_in_any_order(options: &PairOptions, maker: Maker) {
    let mut pair = maker(options);
    let ring = pair.b.info().rx_frames;
    let batch = options.tx_frames.min(30);
    let mut kept = Vec::new();
    let mut next = 0;
    while kept.len() < ring / 4 {
        for i in 0..batch as u32 {
            send(&mut *pair.a, &frame(&pair.to_b, CHANNEL, next + i, 100));
        }
        let mut frames = hold(&mut *pair.b, batch);
        for (i, rx) in frames.iter().enumerate() {
            assert_eq!(
                pair.b.memory().received(rx),
                frame(&pair.to_b, CHANNEL, next + i as u32, 100)
            );
        }
        for i in (0..batch).rev() {
            if i % 3 == 0 {
                kept.push((next + i as u32, frames.swap_remove(i)));
            }
        }
        frames.into_iter().rev().for_each(|frame| pair.b.recycle(frame));
        next += batch as u32;
        if next as usize >= ring / 2 {
            break;
        }
    }
    for (number, rx) in &kept {
        assert_eq!(
            pair.b.memory().received(rx),
            frame(&pair.to_b, CHANNEL, *number, 100),
            "kept unchanged"
        );
    }
    kept.into_iter().for_each(|(_, frame)| pair.b.recycle(frame));
    let ours = frame(&pair.to_b, CHANNEL, next, 100);
    send(&mut *pair.a, &ours);
    only(&mut *pair.b, &ours);
}

/// However long the caller keeps a frame, all others come and go.
pub fn a_frame_that_is_kept_for_ever_stops_nothing(options: &PairOptions, maker: Maker) {
    let mut pair = maker(options);
    let ours = frame(&pair.to_b, CHANNEL, 0, 100);
    send(&mut *pair.a, &ours);
    let kept = hold(&mut *pair.b, 1);
    for number in 1..=3 * pair.b.info().rx_frames as u32 {
        let ours = frame(&pair.to_b, CHANNEL, number, 100);
        send(&mut *pair.a, &ours);
        assert_eq!(receive(&mut *pair.b, 1), [ours], "frame {number}");
    }
    for frame in kept {
        assert_eq!(pair.b.memory().received(&frame), ours, "kept unchanged");
        pair.b.recycle(frame);
    }
}

/// All frames lent: more are dropped; all given back: frames come again.
pub fn a_receiver_that_holds_every_frame_drops_and_recovers(options: &PairOptions, maker: Maker) {
    let mut pair = maker(options);
    let ring = pair.b.info().rx_frames;
    let mut held = Vec::new();
    for i in 0..ring {
        send(&mut *pair.a, &frame(&pair.to_b, CHANNEL, i as u32, 100));
        held.extend(hold(&mut *pair.b, 1));
    }
    let (seen, most) = (sees_drops(&*pair.b), waiting_at_most(&*pair.b));
    for i in 0..(most + options.tx_frames.min(50)) as u32 {
        send(&mut *pair.a, &frame(&pair.to_b, CHANNEL, i, 100));
    }
    let arrived = pair.b.wait(Some(Duration::from_millis(10))).expect("wait");
    // It would return at once each time, for as long as the caller holds all frames.
    assert!(!arrived || pair.b.info().mode != Mode::Udp, "there is no room");
    let mut more = Vec::new();
    assert_eq!(pair.b.poll(&mut more, 64).expect("poll"), 0, "there is no room");
    assert!(!seen || pair.b.counters().rx_dropped > 0, "drops are counted");
    for (i, rx) in held.into_iter().enumerate() {
        let expected = frame(&pair.to_b, CHANNEL, i as u32, 100);
        assert_eq!(pair.b.memory().received(&rx), expected, "kept unchanged");
        pair.b.recycle(rx);
        assert!(most == 0 || pair.b.prepare_to_wait(), "what has waited is there to poll");
    }
    let late = drain(&mut *pair.b);
    assert!(!seen || late <= most, "{late} frames came meanwhile");
    recovers(options, &mut pair);
}

/// A full ring that is not polled.
pub fn a_receiver_that_does_not_poll_drops_and_recovers(options: &PairOptions, maker: Maker) {
    let mut pair = maker(options);
    let ring = pair.b.info().rx_frames;
    pair.b.provide(ring);
    for i in 0..2 * ring {
        // Where nothing is dropped, the sender is stopped.
        if !sees_drops(&*pair.b) && !has_room(&mut *pair.a) {
            break;
        }
        send(&mut *pair.a, &frame(&pair.to_b, CHANNEL, i as u32, 100));
    }
    pair.a.wait(Some(Duration::from_millis(10))).expect("wait");
    let kept = drain(&mut *pair.b);
    if has_kernel(&*pair.b) && sees_drops(&*pair.b) {
        assert!(kept <= ring, "{kept} of {ring}");
    }
    assert!(kept > ring / 2, "the ring was filled: {kept} of {ring}");
    recovers(options, &mut pair);
}

fn recovers(options: &PairOptions, pair: &mut super::LinkPair) {
    settles(pair);
    for round in 0..4 {
        for i in 0..options.tx_frames as u32 {
            send(&mut *pair.a, &frame(&pair.to_b, CHANNEL, round << 16 | i, 100));
        }
        for (i, bytes) in receive(&mut *pair.b, options.tx_frames).iter().enumerate() {
            assert_eq!(bytes, &frame(&pair.to_b, CHANNEL, round << 16 | i as u32, 100));
        }
    }
}

/// Whether a transmit frame gets free soon.
fn has_room(link: &mut dyn Link) -> bool {
    (0..100).any(|_| {
        flush(link);
        let free = link.take();
        let found = free.is_some();
        match free {
            Some(frame) => link.release(frame.into()),
            None => drop(link.wait(Some(Duration::from_millis(1))).expect("wait")),
        }
        found
    })
}

/// A card that was full may still hand over what it held: until a frame arrives that was sent
/// afterwards.
fn settles(pair: &mut super::LinkPair) {
    for i in (0..100).map(|i| u32::MAX - i) {
        send(&mut *pair.a, &frame(&pair.to_b, CHANNEL, i, 100));
        let mut last = None;
        while pair.b.wait(Some(Duration::from_millis(20))).expect("wait") {
            last = receive(&mut *pair.b, 1).pop();
        }
        if last.is_some_and(|bytes| number(&pair.to_b, &bytes) == i) {
            return;
        }
    }
    panic!("no frame arrives any more");
}

/// In every call that takes one.
pub fn a_token_of_another_link_is_refused(options: &PairOptions, maker: Maker) {
    let mut pair = maker(options);
    if std::sync::Arc::ptr_eq(pair.a.memory().arena, pair.b.memory().arena) {
        return;
    }
    let panics = |call: &mut dyn FnMut()| catch_unwind(AssertUnwindSafe(call)).is_err();
    let (a, b) = (&mut pair.a, &mut pair.b);
    let mut foreign = a.take();
    assert!(panics(&mut || b.release(foreign.take().expect("a frame").into())));
    let mut foreign = a.take();
    assert!(panics(&mut || drop(b.post(foreign.take().expect("a frame"), 0..100, Segment::Last))));
    let mut posted = Some(post(&mut **a, &frame(&pair.to_b, CHANNEL, 0, 100)));
    assert!(panics(&mut || b.release(posted.take().expect("a frame").into())));
    let mut posted = Some(post(&mut **a, &frame(&pair.to_b, CHANNEL, 0, 100)));
    assert!(panics(&mut || drop(b.reclaim(posted.take().expect("a frame")))));
    send(&mut **b, &frame(&pair.to_a, CHANNEL, 0, 100));
    let mut received = hold(&mut **a, 1).pop();
    assert!(panics(&mut || b.recycle(received.take().expect("a frame"))));
}
