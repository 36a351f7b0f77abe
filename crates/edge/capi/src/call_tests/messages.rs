//! Messages and buffers, and what may be done with them when.

use super::*;

#[test]
fn a_message_arrives_and_its_answer_goes_back_to_its_sender() {
    let pair = EndpointPair::new();
    assert_eq!(send(pair.a, pair.to_b, b"question"), 0);
    pair.pass();
    let mut question = receive(pair.b).unwrap();
    assert_eq!((bytes(&question), question.from), (&b"question"[..], pair.to_a));
    assert_eq!(send(pair.b, question.from, bytes(&question)), 0, "from the frame itself");
    assert_eq!(drop_message(&mut question), 0);
    assert_eq!((question.data, question.len, question.opaque), (null(), 0, [0; OPAQUE]));
    pair.pass();
    let mut answer = receive(pair.a).unwrap();
    assert_eq!(bytes(&answer), b"question");
    assert_eq!((drop_message(&mut answer), gigae_drain(pair.a, 0)), (0, 0));
    assert_eq!(receive(pair.a).err(), Some(AGAIN));
    pair.close();
}

#[test]
fn held_messages_stay_as_they_are_while_more_are_received() {
    /// Fewer than a peer has credit for.
    const HELD: u8 = 50;
    let pair = EndpointPair::new();
    let mut held = Vec::new();
    for n in 0..HELD {
        assert_eq!(send(pair.a, pair.to_b, &[n; 40]), 0);
        pair.pass();
        held.push(receive(pair.b).unwrap());
    }
    for (n, message) in (0..HELD).zip(&held) {
        assert_eq!(bytes(message), [n; 40]);
    }
    held.iter_mut().for_each(|message| assert_eq!(drop_message(message), 0));
    pair.close();
}

#[test]
fn a_buffer_filled_in_place_is_what_arrives() {
    let pair = EndpointPair::new();
    for send in [gigae_buffer_send, gigae_buffer_queue, gigae_buffer_try_queue] {
        let mut buffer = take(pair.a);
        // SAFETY: the buffer's own memory, within its capacity; then the buffer.
        unsafe {
            buffer.data.cast::<u8>().copy_from(b"gigae".as_ptr(), 5);
            assert_eq!(send(&mut buffer, pair.to_b, 5), 0);
            assert_eq!((buffer.data, buffer.opaque), (null_mut(), [0; OPAQUE]));
            assert_eq!(send(&mut buffer, pair.to_b, 5), BAD_HANDLE, "it is used up");
        }
        assert_eq!(gigae_flush(pair.a), 0);
        pair.pass();
        let mut message = receive(pair.b).unwrap();
        assert_eq!(bytes(&message), b"gigae");
        assert_eq!(drop_message(&mut message), 0);
    }
    pair.close();
}

#[test]
fn a_buffer_outlives_refused_arguments_and_a_full_window() {
    let pair = EndpointPair::new();
    let mut buffer = take(pair.a);
    let too_long = buffer.capacity + 1;
    // SAFETY: a buffer that is held.
    let mut queue = |to, len| unsafe { gigae_buffer_try_queue(&mut buffer, to, len) };
    assert_eq!(queue(0, 1), INVALID);
    assert!(last_error().contains("peer 0 is not known"), "{}", last_error());
    assert_eq!(queue(77, 1), INVALID);
    assert_eq!(queue(pair.to_b, too_long), Code::TooLong as c_int);
    assert_eq!(queue(pair.to_b, usize::MAX), Code::TooLong as c_int);
    assert_eq!(queue(pair.to_b, 1), 0);
    // The other end takes nothing in, so the window fills and stays full.
    let mut code = 0;
    for _ in 0..100_000 {
        // SAFETY: the pointer is not read for no bytes.
        code = unsafe { gigae_try_send(pair.a, pair.to_b, null(), 0) };
        if code != 0 {
            break;
        }
    }
    assert_eq!(code, AGAIN);
    let mut buffer = Buffer::EMPTY;
    // SAFETY: memory for a buffer, then a buffer that is held.
    unsafe {
        assert_eq!(gigae_buffer_try_take(pair.a, &mut buffer), 0);
        assert_eq!(gigae_buffer_try_queue(&mut buffer, pair.to_b, 1), AGAIN);
        assert!(!buffer.data.is_null(), "it was kept");
        assert_eq!(gigae_buffer_drop(&mut buffer), 0);
    }
    pair.run(Duration::from_millis(1));
    while let Ok(mut message) = receive(pair.b) {
        assert_eq!(drop_message(&mut message), 0);
    }
    pair.close();
}

#[test]
fn what_was_dropped_or_copied_or_made_up_is_refused() {
    let pair = EndpointPair::new();
    assert_eq!(send(pair.a, pair.to_b, b"one"), 0);
    pair.pass();
    let mut message = receive(pair.b).unwrap();
    let mut copied = copy(&message);
    assert_eq!(drop_message(&mut message), 0);
    assert_eq!(drop_message(&mut message), BAD_HANDLE, "dropped");
    assert_eq!(drop_message(&mut copied), BAD_HANDLE, "a copy of what was dropped");
    let mut buffer = take(pair.a);
    let mut copied = copy(&buffer);
    assert_eq!(drop_buffer(&mut buffer), 0);
    assert_eq!(drop_buffer(&mut buffer), BAD_HANDLE);
    assert_eq!(drop_buffer(&mut copied), BAD_HANDLE);
    let handle = pair.a.addr() as u64;
    for opaque in [[0, 0, 0, 0], [handle, 0, 0, 0], [handle, 1 << 32 | 9, 0, 0], [7; 4], [!0; 4]] {
        assert_eq!(drop_buffer(&mut Buffer { opaque, ..Buffer::EMPTY }), BAD_HANDLE);
        assert_eq!(drop_message(&mut Message { opaque, ..Message::EMPTY }), BAD_HANDLE);
    }
    pair.close();
}

#[test]
fn an_endpoint_is_not_closed_while_something_of_it_is_held_and_refuses_all_afterwards() {
    let pair = EndpointPair::new();
    assert_eq!(send(pair.a, pair.to_b, b"one"), 0);
    pair.pass();
    let (mut message, mut buffer) = (receive(pair.b).unwrap(), take(pair.b));
    assert_eq!(gigae_close(pair.b), Code::Busy as c_int);
    assert!(last_error().starts_with("1 buffers and 1 messages are held"), "{}", last_error());
    assert_eq!(bytes(&message), b"one", "nothing was changed");
    let mut stale = copy(&message);
    assert_eq!((drop_message(&mut message), drop_buffer(&mut buffer)), (0, 0));
    assert_eq!(gigae_close(pair.b), 0);
    assert_eq!(gigae_close(pair.b), BAD_HANDLE);
    assert_eq!(drop_message(&mut stale), BAD_HANDLE);
    assert_eq!(receive(pair.b).err(), Some(BAD_HANDLE));
    assert_eq!(send(pair.b, 1, b"late"), BAD_HANDLE);
    assert_eq!((gigae_progress(pair.b), gigae_fd(pair.b)), (BAD_HANDLE, BAD_HANDLE));
    assert_eq!(gigae_close(pair.a), 0);
}

#[test]
fn a_panic_breaks_the_endpoint_and_what_is_held_does_not_keep_it_from_being_closed() {
    let pair = EndpointPair::new();
    let mut buffer = take(pair.a);
    let panicked = Code::Panicked as c_int;
    assert_eq!(call(pair.a, |_| panic!("a mistake")), panicked);
    assert!(last_error().contains("a mistake"), "{}", last_error());
    assert_eq!(send(pair.a, pair.to_b, b"no more"), panicked);
    assert_eq!(drop_buffer(&mut buffer), panicked);
    pair.close();
    assert_eq!(drop_buffer(&mut buffer), BAD_HANDLE);
}

#[test]
fn null_is_refused_and_nothing_is_lost_by_it() {
    let pair = EndpointPair::new();
    assert_eq!(send(pair.a, pair.to_b, b"kept"), 0);
    pair.pass();
    let (a, b) = (pair.a, pair.b);
    // SAFETY: NULL is what is tested.
    let codes = unsafe {
        [
            gigae_recv(b, null_mut()),
            gigae_try_recv(b, null_mut()),
            gigae_recv_timeout(b, null_mut(), 0),
            gigae_message_drop(null_mut()),
            gigae_buffer_take(a, null_mut()),
            gigae_buffer_drop(null_mut()),
            gigae_buffer_send(null_mut(), pair.to_b, 0),
            gigae_send(a, pair.to_b, null(), 1),
            gigae_take_failure(a, null_mut(), null_mut(), 0),
            gigae_prepare_to_wait(a, null_mut()),
            gigae_max_message(a, null_mut()),
            gigae_counters(a, null_mut(), 8),
            gigae_mac(a, null_mut(), 18),
            gigae_peer(a, null(), &mut 0),
            gigae_peer(a, c"02:00:00:00:00:01".as_ptr(), null_mut()),
            gigae_peer_by_mac(a, null(), 0, 0, &mut 0),
            gigae_peer_by_ip(a, null(), 4, 0, 0, &mut 0),
            gigae_open(null(), &mut null_mut()),
            gigae_open(c"lo".as_ptr(), null_mut()),
            gigae_open_with(null(), &mut null_mut()),
            gigae_options_new(null(), &mut null_mut()),
            gigae_options_new(c"lo".as_ptr(), null_mut()),
            gigae_options_free(null_mut()),
            gigae_options_port(null_mut(), 1),
            gigae_send(null_mut(), 1, null(), 0),
            gigae_progress(null_mut()),
            gigae_close(null_mut()),
        ]
    };
    assert_eq!(codes, [INVALID; 27]);
    let mut message = receive(b).unwrap();
    assert_eq!(bytes(&message), b"kept");
    assert_eq!(drop_message(&mut message), 0);
    pair.close();
}

#[test]
fn an_unanswered_message_comes_back_with_its_reason() {
    let pair = EndpointPair::new();
    let nobody = peer(pair.a, "02:00:00:00:00:99");
    assert_eq!(send(pair.a, nobody, b"anybody?"), 0);
    pair.run(Duration::from_millis(30));
    assert_eq!(receive(pair.a).err(), Some(Code::Failed as c_int));
    assert_eq!(send(pair.a, nobody, b"more"), Code::Failed as c_int);
    let mut failure = Failure { to: 0, reason: 9, len: 0, why: [1; WHY] };
    let mut data = [b'#'; 4];
    // SAFETY: memory for a failure, and the array's own size.
    let mut take =
        || unsafe { gigae_take_failure(pair.a, &mut failure, data.as_mut_ptr().cast(), 3) };
    assert_eq!((take(), data), (0, *b"any#"));
    assert_eq!((failure.to, failure.reason, failure.len), (nobody, GIGAE_REASON_TIMEOUT, 8));
    // SAFETY: the library ends it with NUL.
    let why = unsafe { CStr::from_ptr(failure.why.as_ptr()) }.to_str().unwrap();
    assert!(why.starts_with("a message of 8 bytes to 02:00:00:00:00:99 failed"), "{why}");
    // SAFETY: memory for a failure, and no data.
    assert_eq!(unsafe { gigae_take_failure(pair.a, &mut failure, null_mut(), 0) }, AGAIN);
    pair.close();
}
