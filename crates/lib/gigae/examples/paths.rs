//! What `tests/paths.rs` counts: whole paths of the library, from the call that sends to the call
//! that receives.
//!
//! Two endpoints on a simulated network in one thread and in virtual time, so that every run is the
//! same. Each case is a function `measured_...` that does one thing once. The simulated link is
//! part of each path. Prints how many messages passed through each case. Alone it does nothing of
//! use.

use gigae::{Endpoint, Memory, Options, Peer, RegionKey, Rights, Wanted};
use gigae_sim::{Faults, Network};
use std::hint::black_box;
use std::time::Duration;

/// Messages of each case that are counted, and before that some that are not: until windows, credit
/// and tables have their size.
const MESSAGES: usize = 512;
const WARM: usize = 2048;

/// A long message and a long access.
const LONG: usize = 64 << 10;

/// How far time goes on between two looks, in nanoseconds: longer than a frame is on its way.
const STEP: u64 = 4_000;

/// Looks until something must have happened.
const MOST_LOOKS: usize = 100_000;

const TAG: u64 = 7;

struct EndpointPair {
    net: Network,
    a: Endpoint,
    b: Endpoint,
    to_b: Peer,
    key: RegionKey,
}

/// Memory that goes to an operation and comes back.
struct Loans {
    sent: Vec<u8>,
    received: Vec<u8>,
}

impl EndpointPair {
    /// With or without a socket for bulk data at each end.
    fn new(bulk: bool) -> Self {
        let net = Network::new(1, Faults { delay: Duration::from_micros(2), ..Faults::default() });
        let open = |seed| {
            let options = Options::new("sim").bulk(bulk);
            options.open_simulated(&net, seed).expect("a simulated port")
        };
        let (a, b) = (open(1), open(2));
        let to_b = a.peer(b.link().mac).expect("the table is empty");
        let key = b.register(vec![0; LONG], Rights::ALL).expect("the table is empty");
        let pair = Self { net, a, b, to_b, key };
        begin(&pair);
        pair
    }
}

fn main() {
    let pair = EndpointPair::new(false);
    let mut loans = Loans { sent: vec![3; LONG], received: vec![0; LONG] };
    // One case after the other, or each would pay for what the one before has left to be
    // acknowledged.
    (0..WARM).for_each(|n| message(&pair, n));
    (0..MESSAGES).for_each(|n| measured_message_8_bytes(&pair, n));
    (0..WARM).for_each(|n| full_frame(&pair, n));
    (0..MESSAGES).for_each(|n| measured_full_frame(&pair, n));
    (0..WARM / 8).for_each(|_| long_message(&pair, &mut loans));
    (0..MESSAGES).for_each(|_| measured_message_64_kib(&pair, &mut loans));
    (0..WARM / 8).for_each(|_| write(&pair, &mut loans));
    (0..MESSAGES).for_each(|_| measured_write_64_kib(&pair, &mut loans));
    let pair = EndpointPair::new(true);
    (0..WARM / 8).for_each(|_| long_message(&pair, &mut loans));
    let before = pair.a.paths()[0].link.tx_frames;
    (0..MESSAGES).for_each(|_| measured_bulk_message_64_kib(&pair, &mut loans));
    (0..WARM / 8).for_each(|_| write(&pair, &mut loans));
    (0..MESSAGES).for_each(|_| measured_bulk_write_64_kib(&pair, &mut loans));
    let by_link = pair.a.paths()[0].link.tx_frames - before;
    assert!(by_link < 10 * MESSAGES as u64, "{by_link} frames did not go by the socket");
    assert_eq!(loans.received, loans.sent);
    for case in [
        "message_8_bytes",
        "full_frame",
        "message_64_kib",
        "write_64_kib",
        "bulk_message_64_kib",
        "bulk_write_64_kib",
    ] {
        println!("measured_{case} {MESSAGES}");
    }
}

/// The session comes up.
fn begin(pair: &EndpointPair) {
    pair.a.send(pair.to_b, b"first").expect("the window has room");
    for _ in 0..MOST_LOOKS {
        if pair.b.try_recv().expect("no link fails").is_some() {
            return;
        }
        pair.net.advance_to(pair.net.now() + STEP);
        pair.a.progress().expect("no link fails");
    }
    panic!("no session comes up");
}

#[inline(never)]
fn measured_message_8_bytes(pair: &EndpointPair, n: usize) {
    message(pair, n);
}

#[inline(never)]
fn measured_full_frame(pair: &EndpointPair, n: usize) {
    full_frame(pair, n);
}

#[inline(never)]
fn measured_message_64_kib(pair: &EndpointPair, loans: &mut Loans) {
    long_message(pair, loans);
}

#[inline(never)]
fn measured_write_64_kib(pair: &EndpointPair, loans: &mut Loans) {
    write(pair, loans);
}

// The compiler makes one function of two that do the same.
#[inline(never)]
fn measured_bulk_message_64_kib(pair: &EndpointPair, loans: &mut Loans) {
    black_box(pair);
    long_message(pair, loans);
}

#[inline(never)]
fn measured_bulk_write_64_kib(pair: &EndpointPair, loans: &mut Loans) {
    black_box(pair);
    write(pair, loans);
}

#[inline(always)]
fn message(pair: &EndpointPair, n: usize) {
    pair.a.send(pair.to_b, &(n as u64).to_le_bytes()).expect("the window has room");
    arrives(pair, n);
}

#[inline(always)]
fn full_frame(pair: &EndpointPair, n: usize) {
    let mut buffer = pair.a.buffer().expect("a frame is free");
    let len = buffer.len();
    buffer[..8].copy_from_slice(&(n as u64).to_le_bytes());
    buffer.send(pair.to_b, len).expect("the window has room");
    arrives(pair, n);
}

/// Receives the message at once; the sender looks at what has come since, as a program's next call
/// does.
#[inline(always)]
fn arrives(pair: &EndpointPair, n: usize) {
    pair.net.advance_to(pair.net.now() + STEP);
    let message = pair.b.try_recv().expect("no link fails").expect("it has arrived");
    assert_eq!(message[..8], (n as u64).to_le_bytes());
    drop(message);
    pair.a.progress().expect("no link fails");
}

#[inline(always)]
fn long_message(pair: &EndpointPair, loans: &mut Loans) {
    let wanted = Wanted::tag(TAG);
    let received = std::mem::take(&mut loans.received);
    pair.b.start_recv(wanted, received).expect("there is room");
    pair.a.start_send(pair.to_b, TAG, std::mem::take(&mut loans.sent)).expect("there is room");
    loans.received = completes(pair, &pair.b);
    loans.sent = completes(pair, &pair.a);
}

#[inline(always)]
fn write(pair: &EndpointPair, loans: &mut Loans) {
    let bytes = std::mem::take(&mut loans.sent);
    pair.a.start_write(pair.to_b, pair.key, 0, bytes, None).expect("there is room");
    loans.sent = completes(pair, &pair.a);
}

/// The memory of the operation that ends next.
#[inline(always)]
fn completes(pair: &EndpointPair, at: &Endpoint) -> Vec<u8> {
    for _ in 0..MOST_LOOKS {
        if let Some(done) = at.try_completion().expect("no link fails") {
            done.result.expect("no operation fails");
            return done.memory.and_then(Memory::into_vec).expect("it was lent");
        }
        pair.net.advance_to(pair.net.now() + STEP);
        pair.a.progress().expect("no link fails");
        pair.b.progress().expect("no link fails");
    }
    panic!("an operation does not end");
}
