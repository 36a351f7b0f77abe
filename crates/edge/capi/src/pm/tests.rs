//! PM's calls with two contexts on a simulated network.

use super::context::*;
use super::memory::*;
use super::message::*;
use super::nodes::Nodes;
use super::select::*;
use super::state::{CONTEXTS, Context, call};
use super::*;
use gigae::Options;
use gigae_sim::{Faults, Network};
use std::ptr;
use std::time::Duration;

type ContextHandle = *mut PmContext;

/// Nodes 0 and 1 of a network of their own.
struct ContextPair {
    net: Network,
    ends: [ContextHandle; 2],
}

impl ContextPair {
    fn new() -> Self {
        let net = Network::new(1, Faults { delay: Duration::from_micros(5), ..Faults::default() });
        let options = Options::new("sim").peer_timeout(Duration::from_millis(10));
        let options = options.linger(Duration::ZERO);
        let ends = [1, 2].map(|seed| options.clone().open_simulated(&net, seed).unwrap());
        let nodes = (0..).zip(ends.iter().map(|end| end.link().mac)).collect();
        let table = Nodes { interfaces: vec!["sim".to_owned()], checksum: true, nodes };
        let ends = ends.map(|end| {
            let context = Context::new(end, 0, table.clone()).unwrap();
            ptr::without_provenance_mut(CONTEXTS.insert(Box::new(context)).unwrap())
        });
        Self { net, ends }
    }

    fn pass(&self, time: Duration) {
        let end = self.net.now() + time.as_nanos() as u64;
        while self.net.now() < end {
            for end in self.ends {
                assert_eq!(call(end, Context::progress), 0);
            }
            self.net.advance_to(self.net.now() + 1_000);
        }
    }

    fn close(self) {
        self.ends.iter().for_each(|&end| assert_eq!(pmCloseContext(end), 0));
    }
}

fn put(end: ContextHandle, to: c_int, message: &[u8]) -> c_int {
    let mut buffer = ptr::null_mut();
    // SAFETY: a pointer to write to, and a buffer of the length that was asked for.
    unsafe {
        match pmGetSendBuffer(end, to, &mut buffer, message.len()) {
            0 => buffer.cast::<u8>().copy_from(message.as_ptr(), message.len()),
            code => return code,
        }
    }
    pmSend(end)
}

fn get(end: ContextHandle) -> Result<Vec<u8>, c_int> {
    let (mut buffer, mut len) = (ptr::null_mut(), 0);
    // SAFETY: places to write to, and a message of the length that was answered.
    let message = unsafe {
        match pmReceive(end, &mut buffer, &mut len) {
            0 => std::slice::from_raw_parts(buffer.cast::<u8>(), len).to_vec(),
            code => return Err(code),
        }
    };
    assert_eq!(pmReleaseReceiveBuffer(end), 0);
    Ok(message)
}

const NOBUFS: c_int = Errno::NOBUFS.raw_os_error();
const SHORT: Duration = Duration::from_micros(100);

#[test]
fn a_full_window_is_no_buffer_and_every_message_that_was_sent_arrives() {
    let pair = ContextPair::new();
    let [a, b] = pair.ends;
    let mut sent: u32 = 0;
    // Node 1 receives nothing, so the window fills and stays full.
    while put(a, 1, &sent.to_le_bytes()) == 0 {
        sent += 1;
        assert!(sent < 100_000, "there is no end to it");
    }
    assert_eq!(put(a, 1, b"x"), NOBUFS);
    let mut got = 0u32;
    while got < sent {
        match get(b) {
            Ok(message) => {
                assert_eq!(message, got.to_le_bytes());
                got += 1;
            }
            Err(code) => assert_eq!(code, NOBUFS),
        }
        pair.pass(Duration::from_micros(2));
    }
    pair.pass(SHORT);
    assert_eq!(put(a, 1, b"more"), 0);
    pair.pass(SHORT);
    assert_eq!(get(b).unwrap(), b"more");
    pair.close();
}

#[test]
fn a_lost_node_is_reported_once_and_can_be_sent_to_again() {
    let pair = ContextPair::new();
    let [a, b] = pair.ends;
    assert_eq!(pmCloseContext(b), 0);
    assert_eq!(put(a, 1, b"anybody?"), 0);
    for _ in 0..30_000 {
        assert_eq!(call(a, Context::progress), 0);
        pair.net.advance_to(pair.net.now() + 1_000);
    }
    assert_eq!(get(a), Err(Errno::IO.raw_os_error()));
    assert_eq!(get(a), Err(NOBUFS));
    assert_eq!(put(a, 1, b"still nobody?"), 0);
    assert_eq!(pmCloseContext(a), 0);
}

#[test]
fn select_does_not_sleep_on_what_is_to_be_reported() {
    let pair = ContextPair::new();
    let [a, b] = pair.ends;
    while put(a, 1, b"one of many") == 0 {}
    let waits = |context: &mut Context| {
        assert!(!context.waiting.is_empty());
        Ok(())
    };
    assert_eq!(call(a, waits), 0);
    assert_eq!(pmCloseContext(b), 0);
    // The peer's end becomes known in one of these calls, whose fault is the next call's.
    let prepares = |context: &mut Context| {
        while context.fault.is_none() {
            pair.net.advance_to(pair.net.now() + 1_000);
            let after = context.prepare_to_wait()?;
            assert!(context.fault.is_none() || after == Some(Duration::ZERO), "{after:?}");
        }
        Ok(())
    };
    assert_eq!(call(a, prepares), 0);
    assert_eq!(get(a), Err(Errno::IO.raw_os_error()));
    assert_eq!(pmCloseContext(a), 0);
}

/// The first context's interface goes down or up.
fn set_down(net: &Network, down: bool) {
    net.set_down(net.port_of(gigae::MacAddr([2, 0, 0, 0, 0, 1])).unwrap(), down);
}

#[test]
fn a_message_that_is_refused_while_the_interface_is_down_is_not_sent() {
    let pair = ContextPair::new();
    let [a, b] = pair.ends;
    assert_eq!(put(a, 1, &0u32.to_le_bytes()), 0);
    pair.pass(SHORT);
    assert_eq!(get(b).unwrap(), 0u32.to_le_bytes());
    set_down(&pair.net, true);
    let mut next = 1u32;
    for _ in 0..20 {
        // A program that learns that it was not sent sends it again.
        next += u32::from(put(a, 1, &next.to_le_bytes()) == 0);
    }
    assert_eq!(get(a), Err(Errno::IO.raw_os_error()), "the interface is down");
    set_down(&pair.net, false);
    let mut came = Vec::new();
    for _ in 0..200 {
        pair.pass(Duration::from_micros(5));
        came.extend(get(b).ok());
    }
    let sent: Vec<_> = (1..next).map(|n| n.to_le_bytes().to_vec()).collect();
    assert_eq!(came, sent, "what was sent, each once");
    pair.close();
}

#[test]
fn a_message_that_waits_for_room_outlasts_an_interface_that_is_down() {
    let pair = ContextPair::new();
    let [a, b] = pair.ends;
    let mut sent = 0u32;
    while put(a, 1, &sent.to_le_bytes()) == 0 {
        sent += 1;
    }
    set_down(&pair.net, true);
    for _ in 0..5 {
        assert_eq!(get(a), Err(Errno::IO.raw_os_error()), "the interface is down");
    }
    set_down(&pair.net, false);
    for n in 0..sent {
        let message = loop {
            pair.pass(Duration::from_micros(2));
            if let Ok(message) = get(b) {
                break message;
            }
        };
        assert_eq!(message, n.to_le_bytes());
    }
    pair.close();
}

#[test]
fn a_write_that_is_refused_while_the_interface_is_down_is_not_made() {
    let pair = ContextPair::new();
    let [a, b] = pair.ends;
    let (mut here, mut there) = ([7u8; 8], [0u8; 8]);
    let (mut own, mut remote) = (0, 0);
    // SAFETY: the arrays' own lengths; they stay until the contexts are closed.
    unsafe {
        assert_eq!(pmMLock(a, 1, here.as_mut_ptr().cast(), 8, &mut own), 0);
        assert_eq!(pmMLock(b, 0, there.as_mut_ptr().cast(), 8, &mut remote), 0);
    }
    assert_eq!(put(a, 1, b"begin"), 0);
    pair.pass(SHORT);
    set_down(&pair.net, true);
    let started = pmWrite(a, 1, remote, own, 8) == 0;
    set_down(&pair.net, false);
    pair.pass(SHORT);
    assert_eq!((started, pmIsWriteDone(a)), (there == [7; 8], 0));
    pair.close();
}

#[test]
fn a_locked_region_is_written_and_read_with_offsets_and_refused_afterwards() {
    let pair = ContextPair::new();
    let [a, b] = pair.ends;
    let (mut here, mut there) = ([7u8; 64], [0u8; 64]);
    let (mut own, mut remote) = (0, 0);
    // SAFETY: the arrays' own lengths; they stay until they are unlocked.
    unsafe {
        assert_eq!(pmMLock(a, 1, here.as_mut_ptr().cast(), 64, &mut own), 0);
        assert_eq!(pmMLock(b, NODE_ANY, there.as_mut_ptr().cast(), 64, &mut remote), 0);
    }
    assert_eq!(pmWrite(a, 1, remote + 8, own + 60, 4), 0);
    assert_eq!(pmIsWriteDone(a), Errno::BUSY.raw_os_error());
    // SAFETY: an address to compare.
    let code = unsafe { pmMUnlock(a, 1, here.as_mut_ptr().cast(), 64) };
    assert_eq!(code, Errno::BUSY.raw_os_error(), "a transfer uses it");
    pair.pass(SHORT);
    assert_eq!((pmIsWriteDone(a), pmIsReadDone(a)), (0, 0));
    assert_eq!((there[7], &there[8..12], there[12]), (0, &[7; 4][..], 0));
    assert_eq!(pmRead(a, 1, remote + 6, own, 4), 0);
    pair.pass(SHORT);
    assert_eq!((pmIsReadDone(a), &here[..5]), (0, &[0, 0, 7, 7, 7][..]));
    // SAFETY: an address to compare.
    assert_eq!(unsafe { pmMUnlock(b, NODE_ANY, there.as_mut_ptr().cast(), 64) }, 0);
    assert_eq!(pmWrite(a, 1, remote, own, 4), 0);
    pair.pass(SHORT);
    assert_eq!(pmIsWriteDone(a), Errno::NOENT.raw_os_error());
    assert_eq!(pmIsWriteDone(a), 0, "it is reported once");
    pair.close();
}

#[test]
fn a_message_is_seen_after_the_write_before_it() {
    let pair = ContextPair::new();
    let [a, b] = pair.ends;
    let (mut here, mut there) = (vec![7u8; 100_000], vec![0u8; 100_000]);
    let (mut own, mut remote) = (0, 0);
    // SAFETY: the vectors' own lengths; they stay until the contexts are closed.
    unsafe {
        assert_eq!(pmMLock(a, 1, here.as_mut_ptr().cast(), here.len(), &mut own), 0);
        assert_eq!(pmMLock(b, 0, there.as_mut_ptr().cast(), there.len(), &mut remote), 0);
    }
    assert_eq!((pmWrite(a, 1, remote, own, here.len()), put(a, 1, b"look")), (0, 0));
    let said = loop {
        match get(b) {
            Ok(said) => break said,
            Err(code) => assert_eq!(code, NOBUFS),
        }
        pair.pass(Duration::from_micros(2));
    };
    assert_eq!(said, b"look");
    assert!(there.iter().all(|&byte| byte == 7));
    pair.pass(SHORT);
    pair.close();
}

#[test]
fn before_select_needs_no_descriptor_and_a_simulated_link_has_none() {
    let pair = ContextPair::new();
    let [a, _] = pair.ends;
    let (mut fd, mut count) = (7, 1);
    // SAFETY: one number to write to.
    assert_eq!(unsafe { pmGetFd(a, &mut fd, &mut count) }, Errno::IO.raw_os_error());
    assert_eq!((pmBeforeSelect(a), get(a), pmAfterSelect(a)), (0, Err(NOBUFS), 0));
    pair.close();
}

#[test]
fn every_code_has_a_text_and_what_is_none_is_said_to_be_none() {
    // SAFETY: texts that the library never frees.
    let text = |code| unsafe { CStr::from_ptr(pmErrorString(code)) }.to_str().unwrap();
    assert_eq!(text(0), "no error");
    for (errno, _) in TEXTS {
        assert!(!text(errno.raw_os_error()).starts_with("not a code"), "{errno:?}");
    }
    for code in [-1, 1_000_000, c_int::MIN, c_int::MAX] {
        assert_eq!(text(code), "not a code of this library");
    }
}
