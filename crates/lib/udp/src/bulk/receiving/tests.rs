use super::*;
use gigae_wire::{Envelope, Epoch, Flags, HEADER_LEN, Header, Kind, SeqNo};
use proptest::collection::vec;
use proptest::prelude::*;
use std::net::IpAddr;

const SLOT: usize = 68 << 10;

fn receiver(slots: usize) -> BulkReceiver {
    let arena = Arc::new(Arena::anonymous(slots * SLOT).unwrap());
    let filter =
        Filter { envelope: Envelope::Udp { port: 4791 }, channels: (0..=u8::MAX).collect() };
    BulkReceiver { distrust: WHOLE, ..BulkReceiver::new(arena, slots, SLOT, filter) }
}

fn frame(n: u32, payload: usize) -> Vec<u8> {
    let header = Header {
        kind: Kind::Op,
        channel: 0,
        src_port: 0,
        dst_port: 0,
        src_epoch: Epoch(1),
        dst_epoch: Epoch(2),
        seq: SeqNo(n),
        ack: SeqNo(0),
        credit: 0,
        flags: Flags::NONE,
    };
    let mut bytes = vec![0; HEADER_LEN];
    bytes.extend((0..payload).map(|i| (i + n as usize) as u8));
    header.seal(&mut bytes);
    bytes
}

/// A frame behind its header, as its datagrams carry it.
fn sent(frame: &[u8], unit: u16) -> Vec<u8> {
    let header = BulkHeader { length: frame.len() as u16, unit };
    [&header.to_bytes(), frame].concat()
}

/// Takes in a buffer from a sender. Returns the frames that are whole then.
fn take(receiver: &mut BulkReceiver, from: u8, buffer: &[u8], segment: usize) -> Vec<Vec<u8>> {
    let [from, to] = [from, 200].map(|n| IpAddr::from([198, 18, 0, n]));
    let segment = (segment < buffer.len()).then_some(segment);
    let ends = DatagramEnds { from: (from, 1).into(), to };
    let received = ReceivedBuffer { length: buffer.len(), ends, to_all: false, segment };
    receiver.sort(&received, buffer);
    let frames: Vec<_> = std::iter::from_fn(|| receiver.pop()).collect();
    let arena = Arc::clone(&receiver.slots.arena);
    let inner = |frame: RxFrame| {
        let bytes = arena.bytes(&frame)[14 + 20 + 8..].to_vec();
        receiver.recycle(frame);
        bytes
    };
    frames.into_iter().map(inner).collect()
}

#[test]
fn frames_are_found_wherever_the_kernel_cuts_and_joins_their_datagrams() {
    // The second ends with a full datagram, so the kernel may join the third to it.
    let frames = [frame(1, 1000), frame(2, 7 * 500 - 8 - 32), frame(3, 1234)];
    let all: Vec<u8> = frames[1..].iter().flat_map(|frame| sent(frame, 500)).collect();
    let mut receiver = receiver(4);
    assert!(take(&mut receiver, 1, &sent(&frames[0], 500), 500) == frames[..1]);
    assert_eq!(receiver.distrust, WHOLE - 1);
    assert!(take(&mut receiver, 1, &all, 500) == frames[1..]);
    assert_eq!((receiver.distrust, receiver.dropped), (WHOLE, 0));
    // In two buffers, with a boundary anywhere.
    for cut in (500..all.len()).step_by(500) {
        let mut got = take(&mut receiver, 1, &all[..cut], 500);
        // What is missing of the second is waited for, and nothing else.
        assert_eq!(receiver.is_incomplete(), cut != 3500, "cut at {cut}");
        got.extend(take(&mut receiver, 1, &all[cut..], 500));
        assert!(got == frames[1..], "cut at {cut}: {} frames", got.len());
    }
    assert_eq!((receiver.dropped, receiver.split.len(), receiver.slots.free.len()), (0, 0, 4));
}

#[test]
fn a_frame_whose_datagrams_come_one_by_one_is_known_by_that() {
    let mut receiver = receiver(4);
    let received = |length: usize, segment: usize| ReceivedBuffer {
        length,
        ends: DatagramEnds {
            from: ([198, 18, 0, 1], 1).into(),
            to: IpAddr::from([198, 18, 0, 200]),
        },
        to_all: false,
        segment: (segment < length).then_some(segment),
    };
    // Datagrams of a frame, and how many of them come in a buffer.
    for (datagrams, joined, uncoalesced) in
        [(8, 1, 1), (8, 2, 0), (8, 8, 0), (3, 2, 1), (1, 1, 2), (44, 1, 1)]
    {
        let uncoalesced = [Some(false), Some(true), None][uncoalesced];
        let whole = frame(1, datagrams * 500 - BULK_HEADER_LEN - HEADER_LEN);
        for buffer in sent(&whole, 500).chunks(joined * 500) {
            receiver.sort(&received(buffer.len(), 500), buffer);
        }
        let whole = receiver.pop().unwrap();
        assert_eq!(receiver.arrived_uncoalesced(&whole), uncoalesced, "{datagrams} {joined}");
        receiver.recycle(whole);
    }
}

/// The numbered datagrams of a frame.
fn numbered(frame: &[u8], number: u8, unit: usize) -> Vec<Vec<u8>> {
    let last = (frame.len().div_ceil(unit) - 1) as u8;
    let datagram = |(index, bytes): (usize, &[u8])| {
        let (length, index) = (frame.len() as u16, index as u8);
        let header = NumberedHeader { length, frame: number, index, last: index == last };
        [&header.to_bytes(), bytes].concat()
    };
    frame.chunks(unit).enumerate().map(datagram).collect()
}

#[test]
fn datagrams_with_numbers_make_their_frames_in_any_order() {
    let frames = [frame(1, 2000), frame(2, 2468), frame(3, 100)];
    let mut receiver = receiver(8);
    let all: Vec<Vec<u8>> =
        (0..).zip(&frames).flat_map(|(n, frame)| numbered(frame, n, 492)).collect();
    let count = all.len();
    for step in [1, 5, 7, 11] {
        let arrive = |n: usize| take(&mut receiver, 1, &all[n * step % count], 500);
        let mut got: Vec<Vec<u8>> = (0..count).flat_map(arrive).collect();
        got.sort_by_key(|frame| frames.iter().position(|sent| sent == frame));
        assert!(got == frames, "step {step}: {} frames", got.len());
    }
    // Two senders with the same numbers, and two datagrams of a sender in a buffer.
    let [one, other] = [frame(4, 1000), frame(5, 1100)].map(|frame| numbered(&frame, 7, 492));
    assert!(take(&mut receiver, 1, &one[0], 500).is_empty());
    assert!(take(&mut receiver, 2, &other[..2].concat(), 500).is_empty());
    assert!(take(&mut receiver, 1, &one[1..].concat(), 500) == [frame(4, 1000)]);
    assert!(take(&mut receiver, 2, &other[2], 500) == [frame(5, 1100)]);
    assert_eq!((receiver.dropped, receiver.slots.free.len()), (0, 8));
}

#[test]
fn datagrams_with_numbers_that_come_twice_or_never_cost_their_own_frame_only() {
    let mut receiver = receiver(8);
    let first = numbered(&frame(1, 2000), 0, 492);
    assert!(take(&mut receiver, 1, &first[0], 500).is_empty());
    assert!(take(&mut receiver, 1, &first[0], 500).is_empty());
    assert_eq!(receiver.dropped, 1, "twice");
    // Of four later frames one datagram is missing, and of one none.
    for number in 1..5 {
        let datagrams = numbered(&frame(number.into(), 2000), number, 492);
        for datagram in &datagrams[1..] {
            assert!(take(&mut receiver, 1, datagram, 500).is_empty());
        }
    }
    assert_eq!((receiver.split.len(), receiver.dropped), (4, 2), "the first is given up");
    for datagram in &first[1..] {
        assert!(take(&mut receiver, 1, datagram, 500).is_empty());
    }
    let whole = frame(9, 1500);
    let got: Vec<_> = numbered(&whole, 9, 492)
        .iter()
        .flat_map(|datagram| take(&mut receiver, 1, datagram, 500))
        .collect();
    assert!(got == [whole]);
    // Numbers come again: what is left of their former frames does not get into the new ones.
    for number in 10..=255 {
        let whole = frame(number.into(), 1000);
        let datagrams = numbered(&whole, number, 492).concat();
        assert!(take(&mut receiver, 1, &datagrams, 500) == [whole]);
    }
    assert!(receiver.split.is_empty());
    // A number that is used again, for a frame of another length.
    let again = frame(3, 1000);
    let got: Vec<_> = numbered(&again, 4, 492)
        .iter()
        .flat_map(|datagram| take(&mut receiver, 1, datagram, 500))
        .collect();
    assert!(got == [again]);
    assert_eq!(receiver.slots.free.len() + receiver.split.len(), 8);
}

#[test]
fn a_lost_datagram_loses_its_own_frame_only() {
    // Of four full datagrams each, so that the kernel may join all of them.
    let frames = [1, 2, 3].map(|n| frame(n, 2000 - 8 - HEADER_LEN));
    let all: Vec<u8> = frames.iter().flat_map(|frame| sent(frame, 500)).collect();
    for missing in 0..12 {
        let mut receiver = receiver(4);
        let mut datagrams: Vec<_> = all.chunks(500).collect();
        datagrams.remove(missing);
        let got = take(&mut receiver, 1, &datagrams.concat(), 500);
        let mut expected = frames.to_vec();
        expected.remove(missing / 4);
        assert!(got == expected, "{} frames without datagram {missing}", got.len());
    }
}

#[test]
fn only_the_next_datagram_of_the_same_sender_goes_on_with_a_frame() {
    let whole = frame(1, 2000);
    let all = sent(&whole, 500);
    let mut receiver = receiver(4);
    assert!(take(&mut receiver, 1, &all[..1000], 500).is_empty());
    assert!(take(&mut receiver, 2, &all[1000..], 500).is_empty(), "another sender");
    assert!(take(&mut receiver, 1, &all[1000..], 500) == [whole]);
    for wrong in [499, 501, 40, 41] {
        assert!(take(&mut receiver, 1, &all[..1000], 500).is_empty());
        assert!(take(&mut receiver, 1, &all[1000..][..wrong], wrong).is_empty());
        assert!(take(&mut receiver, 1, &all[1000..], 500).is_empty(), "given up: {wrong}");
    }
    // The last one is longer than what is missing.
    let longer = [&all[..], &[0]].concat();
    assert!(take(&mut receiver, 1, &longer, 500).is_empty());
    assert_eq!((receiver.split.len(), receiver.slots.free.len()), (0, 4));
}

#[test]
fn datagrams_that_overtake_others_lose_their_frame_and_are_no_damage() {
    let all = sent(&frame(1, 2900), 500);
    let mut receiver = receiver(4);
    let mut datagrams: Vec<_> = all.chunks(500).collect();
    datagrams.swap(2, 3);
    assert!(take(&mut receiver, 1, &datagrams.concat(), 500).is_empty());
    assert_eq!((receiver.dropped, receiver.slots.free.len()), (6, 4));
    // Of one datagram there is nothing to put together: its damage shows above.
    let mut alone = sent(&frame(1, 100), 500);
    alone[100] ^= 1;
    assert_eq!(take(&mut receiver, 1, &alone, 500).len(), 1);
}

#[test]
fn without_a_free_slot_frames_are_dropped_and_counted() {
    let mut receiver = receiver(1);
    let (one, other) = (frame(1, 2000), frame(2, 2000));
    let split = sent(&one, 500);
    assert!(take(&mut receiver, 1, &split[..1000], 500).is_empty());
    assert!(take(&mut receiver, 2, &sent(&other, 500), 500).is_empty());
    assert_eq!(receiver.dropped, 5);
    assert!(take(&mut receiver, 1, &split[1000..], 500) == [one]);
}

proptest! {
    /// Whatever comes, slots are neither lost nor used twice, and every frame is one that was sent.
    #[test]
    fn slots_are_kept_whatever_comes(
        buffers in vec(
            (0_u8..3, 0_u8..20, 0_usize..9, 1_usize..9, 30_usize..1500, any::<bool>()),
            1..80,
        )
    ) {
        let mut receiver = receiver(4);
        let sized = |n: u8| frame(n.into(), 40 + 250 * usize::from(n));
        for (from, n, first, count, segment, has_numbers) in buffers {
            let all = match has_numbers {
                true => numbered(&sized(n), n, 492).concat(),
                false => sent(&sized(n), 500),
            };
            let start = (first * 500).min(all.len());
            let end = (start + count * 500).min(all.len());
            // Mostly of the right length.
            let segment = if segment > 600 { 500 } else { segment };
            for whole in take(&mut receiver, from, &all[start..end], segment) {
                prop_assert!((0..20).any(|n| whole == sized(n)), "{} bytes", whole.len());
            }
            let mut slots = receiver.slots.free.clone();
            slots.extend(receiver.split.iter().map(|split| split.slot));
            slots.sort_unstable();
            prop_assert_eq!(slots, [0, 1, 2, 3]);
        }
    }
}
