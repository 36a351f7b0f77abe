//! Tagged messages and remote memory.

use super::*;

fn completion(endpoint: Handle) -> Result<Completion, c_int> {
    let mut completion = Completion::EMPTY;
    // SAFETY: memory for a completion.
    match unsafe { gigae_try_completion(endpoint, &mut completion) } {
        0 => Ok(completion),
        code => Err(code),
    }
}

/// Starts a receive of a tag from anybody.
fn post(endpoint: Handle, tag: u64, memory: &mut [u8]) -> u64 {
    let (mut id, context) = (0, memory.as_mut_ptr().cast());
    // SAFETY: the slice's own length; tests keep it until the completion.
    let code = unsafe {
        gigae_start_recv(endpoint, ANYBODY, tag, 0, context, memory.len(), context, &mut id)
    };
    assert_eq!(code, 0);
    id
}

/// Starts sending with a tag.
fn start(endpoint: Handle, to: u32, tag: u64, memory: &[u8]) -> u64 {
    let mut id = 0;
    let (data, len) = (memory.as_ptr().cast(), memory.len());
    // SAFETY: the slice's own length; tests keep it until the completion.
    assert_eq!(unsafe { gigae_start_send(endpoint, to, tag, data, len, null_mut(), &mut id) }, 0);
    id
}

#[test]
fn a_tagged_message_goes_from_the_programs_memory_to_the_programs_memory() {
    let pair = EndpointPair::new();
    let sent: Vec<u8> = (0..300_000).map(|n| n as u8).collect();
    let mut got = vec![0; 400_000];
    let receive = post(pair.b, 7, &mut got);
    let send = start(pair.a, pair.to_b, 7, &sent);
    pair.run(Duration::from_millis(5));
    let sender = completion(pair.a).unwrap();
    assert_eq!((sender.id, sender.status, sender.len, sender.peer), (send, 0, 300_000, pair.to_b));
    assert_eq!((sender.tag, sender.context), (7, null_mut()));
    let receiver = completion(pair.b).unwrap();
    assert_eq!((receiver.id, receiver.status, receiver.peer), (receive, 0, pair.to_a));
    assert_eq!((receiver.len, receiver.total, receiver.tag), (300_000, 300_000, 7));
    assert_eq!(receiver.context, got.as_mut_ptr().cast());
    assert!(got[..300_000] == sent && got[300_000..].iter().all(|&byte| byte == 0));
    assert_eq!(completion(pair.a).err(), Some(AGAIN));
    pair.close();
}

#[test]
fn a_message_too_long_for_its_memory_is_cut_and_peek_tells_beforehand() {
    let pair = EndpointPair::new();
    let mut found = Tagged { tag: 0, len: 0, from: 9, reserved: 0 };
    // SAFETY: memory for what is found.
    let mut peek = |tag, ignore| unsafe {
        let code = gigae_peek(pair.b, ANYBODY, tag, ignore, &mut found);
        (code, found.tag, found.len, found.from)
    };
    assert_eq!(peek(0, !0), (AGAIN, 0, 0, 0));
    start(pair.a, pair.to_b, 0x1234, b"longer");
    pair.pass();
    assert_eq!(peek(0x1200, 0xff), (0, 0x1234, 6, pair.to_a));
    assert_eq!(peek(0x1200, 0x0f).0, AGAIN);
    let mut memory = [b'#'; 5];
    post(pair.b, 0x1234, &mut memory[..4]);
    let done = completion(pair.b).unwrap();
    assert_eq!((done.status, done.len, done.total), (Code::Truncated as c_int, 4, 6));
    assert_eq!(&memory, b"long#");
    pair.close();
}

#[test]
fn peers_read_write_and_change_what_was_registered_and_nothing_else() {
    let pair = EndpointPair::new();
    let mut memory = [0u8; 64];
    let mut key = 0;
    let all = GIGAE_RIGHT_READ | GIGAE_RIGHT_WRITE | GIGAE_RIGHT_ATOMIC;
    // SAFETY: the array's own length (less its end); it stays until it is deregistered.
    let code = unsafe { gigae_register(pair.b, memory.as_mut_ptr().cast(), 56, all, &mut key) };
    assert_eq!(code, 0);
    let at = |offset| RemoteAddress { key, offset, peer: pair.to_b, reserved: 0 };
    let end = || {
        pair.pass();
        let done = completion(pair.a).unwrap();
        (done.status, done.value, done.len)
    };
    let (word, none) = (99, null_mut());
    let write = |place: RemoteAddress, bytes: &'static [u8], notice: *const u64| {
        let data = bytes.as_ptr().cast();
        // SAFETY: bytes that stay for ever, and numbers that live long enough to be read.
        let code = unsafe {
            gigae_start_write(pair.a, &place, data, bytes.len(), notice, none, null_mut())
        };
        assert_eq!(code, 0);
        end()
    };
    assert_eq!(write(at(8), b"\x05\0\0\0\0\0\0\0", &word), (0, 0, 8));
    let mut notice = Notice::default();
    // SAFETY: memory for a notice.
    assert_eq!(unsafe { gigae_try_notice(pair.b, &mut notice) }, 0);
    assert_eq!((notice.key, notice.offset, notice.value), (key, 8, 99));
    assert_eq!((notice.peer, notice.len), (pair.to_a, 8));
    assert_eq!(write(at(50), b"too long", null()).0, Code::Bounds as c_int);
    let other = RemoteAddress { key: key ^ 1 << 40, ..at(0) };
    assert_eq!(write(other, b"x", null()).0, Code::NoRegion as c_int);
    // SAFETY: places; the numbers are not wanted.
    unsafe {
        assert_eq!(gigae_start_fetch_add(pair.a, &at(8), 3, none, null_mut()), 0);
        assert_eq!(end(), (0, 5, 8));
        assert_eq!(gigae_start_compare_swap(pair.a, &at(8), 8, 77, none, null_mut()), 0);
        assert_eq!(end(), (0, 8, 8));
        assert_eq!(gigae_start_fetch_add(pair.a, &at(49), 3, none, null_mut()), 0);
        assert_eq!(end().0, Code::Bounds as c_int);
    }
    let mut got = [0u8; 16];
    // SAFETY: the array's own length; it stays until the completion below.
    let code =
        unsafe { gigae_start_read(pair.a, &at(4), got.as_mut_ptr().cast(), 16, none, null_mut()) };
    assert_eq!((code, end()), (0, (0, 0, 16)));
    assert_eq!(got, [0, 0, 0, 0, 77, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
    assert_eq!(gigae_deregister(pair.b, key), 0);
    assert_eq!(write(at(0), b"late", null()).0, Code::NoRegion as c_int);
    assert_eq!((memory[8], memory[0], &memory[48..]), (77, 0, &[0; 16][..]));
    pair.close();
}

#[test]
fn an_operation_with_a_peer_that_is_lost_says_so_with_the_reason() {
    let pair = EndpointPair::new();
    let nobody = peer(pair.a, "02:00:00:00:00:99");
    start(pair.a, nobody, 1, b"anybody?");
    pair.run(Duration::from_millis(30));
    let done = completion(pair.a).unwrap();
    assert_eq!((done.status, done.reason), (Code::Lost as c_int, GIGAE_REASON_TIMEOUT));
    pair.close();
}

#[test]
fn completions_that_nobody_takes_keep_their_numbers_and_contexts() {
    // More than the uses after which the library's own numbers come up again.
    const MANY: usize = 9_000;
    let pair = EndpointPair::new();
    let mut memory = [0u8; 1];
    let ids: Vec<u64> = (0..MANY)
        .map(|_| {
            let id = post(pair.a, 1, &mut memory);
            assert_eq!(gigae_cancel(pair.a, id), 1);
            id
        })
        .collect();
    assert_eq!(gigae_cancel(pair.a, ids[0]), 0, "over, whatever has its number now");
    for id in ids {
        let done = completion(pair.a).unwrap();
        assert_eq!((done.id, done.status), (id, Code::Cancelled as c_int));
    }
    assert_eq!(completion(pair.a).err(), Some(AGAIN));
    pair.close();
}

#[test]
fn closing_ends_all_loans() {
    let pair = EndpointPair::new();
    let mut memory = vec![0u8; 100_000];
    let mut key = 0;
    post(pair.a, 1, &mut memory);
    // SAFETY: the vector's own length, until the endpoint is closed.
    unsafe {
        let (data, len) = (memory.as_mut_ptr().cast(), memory.len());
        assert_eq!(gigae_register(pair.a, data, len, GIGAE_RIGHT_WRITE, &mut key), 0);
        let mut count = 0;
        assert_eq!((gigae_outstanding(pair.a, &mut count), count), (0, 1));
    }
    assert_eq!(gigae_close(pair.a), 0);
    drop(memory);
    // What a peer still sends there is refused.
    let place = RemoteAddress { key, offset: 0, peer: pair.to_a, reserved: 0 };
    let (data, none) = (b"x".as_ptr().cast(), null_mut());
    // SAFETY: bytes that stay for ever.
    let code = unsafe { gigae_start_write(pair.b, &place, data, 1, null(), none, null_mut()) };
    assert_eq!(code, 0);
    let mut done = Completion::EMPTY;
    for _ in 0..1_000 {
        assert_eq!(gigae_progress(pair.b), 0);
        pair.net.advance_to(pair.net.now() + 100_000);
        // SAFETY: memory for a completion.
        if unsafe { gigae_try_completion(pair.b, &mut done) } == 0 {
            break;
        }
    }
    assert_eq!(done.status, Code::Lost as c_int);
    assert_eq!(gigae_close(pair.b), 0);
}
