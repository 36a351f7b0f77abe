use super::*;

fn frame(n: usize) -> Vec<u8> {
    (0..n * 7 % 1515).map(|i| (i * 31 + n) as u8).collect()
}

fn read(reader: &mut Reader, ring: &Ring) -> Result<Option<Vec<u8>>, CorruptRing> {
    let Some(record) = reader.next(ring)? else { return Ok(None) };
    let mut bytes = vec![0; record.len];
    // In pieces, as a frame in segments is.
    for (i, piece) in bytes.chunks_mut(512).enumerate() {
        reader.copy(ring, record, i * 512, piece);
    }
    reader.pass(record);
    reader.release(ring);
    Ok(Some(bytes))
}

#[test]
fn frames_come_out_in_order_over_many_turns_of_the_ring() {
    let memory = plain(4096);
    let (ring, mut writer, mut reader) = (Ring::new(&memory), Writer::default(), Reader::default());
    for n in 0..5_000 {
        assert!(writer.push(&ring, &frame(n)), "frame {n}");
        if n % 3 == 0 {
            writer.publish(&ring);
            for n in n.saturating_sub(2)..=n {
                assert_eq!(read(&mut reader, &ring), Ok(Some(frame(n))));
            }
        }
    }
}

#[test]
fn nothing_is_seen_before_it_is_published() {
    let memory = plain(64);
    let (ring, mut writer, mut reader) = (Ring::new(&memory), Writer::default(), Reader::default());
    assert!(writer.push(&ring, b"gigae"));
    assert!(!reader.has(&ring));
    assert_eq!(reader.next(&ring), Ok(None));
    writer.publish(&ring);
    assert!(reader.has(&ring));
    assert_eq!(read(&mut reader, &ring), Ok(Some(b"gigae".to_vec())));
}

#[test]
fn a_full_ring_takes_no_more_until_its_reader_has_released_some() {
    let memory = plain(16);
    let (ring, mut writer, mut reader) = (Ring::new(&memory), Writer::default(), Reader::default());
    let pushed = (0..20).take_while(|&n| writer.push(&ring, &[n; 17])).count();
    assert_eq!(pushed, 4, "records of four words");
    writer.publish(&ring);
    let record = reader.next(&ring).unwrap().unwrap();
    reader.pass(record);
    assert!(!writer.push(&ring, &[9; 17]), "passed, but not released");
    assert!(writer.is_unread(&ring, 4) && writer.is_unread(&ring, 16));
    reader.release(&ring);
    assert!(!writer.is_unread(&ring, 4) && writer.is_unread(&ring, 5));
    assert!(writer.push(&ring, &[9; 17]) && !writer.push(&ring, &[9; 17]));
}

#[test]
fn what_is_read_at_once_passes_through_few_pages() {
    let memory = plain(1 << 16);
    let (ring, mut writer, mut reader) = (Ring::new(&memory), Writer::default(), Reader::default());
    for n in 0..10_000 {
        assert!(writer.push(&ring, &frame(n)));
        writer.publish(&ring);
        assert_eq!(read(&mut reader, &ring), Ok(Some(frame(n))));
    }
    let touched = ring.words.iter().rposition(|word| word.load(Ordering::Relaxed) != 0).unwrap();
    assert!(touched < EARLY as usize + 200, "word {touched} was written");
}

/// A reader that is kept off its processor, as it is where there are more processes than
/// processors, finds all of it.
#[test]
fn a_window_of_the_longest_frames_has_room_wherever_the_ring_stands() {
    let memory = plain(1 << 16);
    let (ring, mut writer, mut reader) = (Ring::new(&memory), Writer::default(), Reader::default());
    for round in 0..300 {
        // What is read at once moves the place at which the window begins.
        for n in 0..round {
            assert!(writer.push(&ring, &frame(n)));
            writer.publish(&ring);
            assert_eq!(read(&mut reader, &ring), Ok(Some(frame(n))));
        }
        let long = |n: u8| [n; 1514];
        for n in 0..=255 {
            assert!(writer.push(&ring, &long(n)), "round {round}: no room for frame {n}");
            writer.publish(&ring);
        }
        for n in 0..=255 {
            assert_eq!(read(&mut reader, &ring), Ok(Some(long(n).to_vec())), "round {round}");
        }
    }
}

#[test]
fn only_a_sleeper_asks_for_the_doorbell_and_only_once() {
    let memory = plain(64);
    let (ring, mut writer) = (Ring::new(&memory), Writer::default());
    let mut send = || {
        assert!(writer.push(&ring, &[1; 8]));
        writer.publish(&ring)
    };
    assert!(!send());
    ring.sleep();
    assert!(send() && !send());
    ring.sleep();
    ring.wake();
    assert!(!send());
    assert!(!ring.is_welcome());
    ring.welcome(false);
    assert!(ring.is_welcome() && !ring.is_lender());
    ring.welcome(true);
    assert!(ring.is_welcome() && ring.is_lender());
    ring.refuse();
    assert!(!ring.is_welcome() && !ring.is_lender());
}

#[test]
fn whatever_lies_in_the_ring_is_refused_or_read_and_never_past_it() {
    const SEEDS: u64 = if cfg!(miri) { 50 } else { 20_000 };
    let (mut frames, mut damaged) = (0, 0);
    for seed in 0..SEEDS {
        let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
        let mut random = || {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            state
        };
        let memory = plain(16);
        let ring = Ring::new(&memory);
        for word in ring.words {
            // Small numbers are the ones that may be lengths.
            let kind = random() % 4;
            word.store(
                match kind {
                    0 => random(),
                    1 => NEXT_TURN,
                    _ => random() % 64,
                },
                Ordering::Relaxed,
            );
        }
        let mut reader = Reader::default();
        for _ in 0..20 {
            let head = if random() % 4 == 0 { random() } else { reader.tail + random() % 18 };
            ring.control[AT_HEAD].store(head, Ordering::Relaxed);
            let origin = if random() % 2 == 0 { random() } else { reader.tail };
            ring.control[AT_ORIGIN].store(origin, Ordering::Relaxed);
            match read(&mut reader, &ring) {
                Ok(Some(bytes)) => {
                    assert!(bytes.len() <= 8 * 15);
                    frames += 1;
                }
                Ok(None) => {}
                Err(CorruptRing) => {
                    damaged += 1;
                    break;
                }
            }
        }
        // The writer takes whatever the reader claims.
        let mut writer = Writer::default();
        for _ in 0..20 {
            ring.control[AT_TAIL].store(random() % 40, Ordering::Relaxed);
            ring.control[AT_SLEEPS].store(random(), Ordering::Relaxed);
            writer.push(&ring, &[7; 40][..random() as usize % 40]);
            writer.publish(&ring);
        }
    }
    assert!(frames > SEEDS / 4 && damaged > SEEDS / 4, "{frames} frames, {damaged} rings refused");
}

#[test]
fn the_longest_frames_pass_wherever_the_ring_stands() {
    let memory = plain(1 << 16);
    let (ring, mut writer, mut reader) = (Ring::new(&memory), Writer::default(), Reader::default());
    for n in 0..2_000 {
        let frame = vec![n as u8; if n % 3 == 0 { LONGEST } else { 100 + n * 16 }];
        assert!(writer.push(&ring, &frame), "frame {n} of {} bytes", frame.len());
        writer.publish(&ring);
        assert_eq!(read(&mut reader, &ring), Ok(Some(frame)));
    }
}

#[test]
fn a_frame_longer_than_the_ring_is_not_taken() {
    let memory = plain(16);
    let (ring, mut writer) = (Ring::new(&memory), Writer::default());
    assert!(!writer.push(&ring, &[0; 8 * 16]));
    assert!(writer.push(&ring, &[0; 8 * 15]));
}

#[test]
fn a_reader_beside_the_writer_sees_whole_frames_only() {
    const FRAMES: usize = if cfg!(miri) { 200 } else { 100_000 };
    let memory = plain(1 << 12);
    std::thread::scope(|scope| {
        let ring = Ring::new(&memory);
        scope.spawn(move || {
            let mut writer = Writer::default();
            for n in 0..FRAMES {
                while !writer.push(&ring, &frame(n)) {
                    writer.publish(&ring);
                    std::thread::yield_now();
                }
                if n % 7 == 0 {
                    writer.publish(&ring);
                }
            }
            writer.publish(&ring);
        });
        let mut reader = Reader::default();
        for n in 0..FRAMES {
            let bytes = loop {
                match read(&mut reader, &ring).unwrap() {
                    Some(bytes) => break bytes,
                    None => std::thread::yield_now(),
                }
            };
            assert!(bytes == frame(n), "frame {n}");
        }
    });
}
