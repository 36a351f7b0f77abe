//! Remote memory of a program that computes and makes no call: the library's thread acts for it.
//! The link is a cable in memory with a descriptor, which the thread needs. A simulated link has
//! none, so its endpoints act only in calls.

#[path = "../../../../lib/link/examples/cable.rs"]
mod cable;

use super::*;
use cable::Cable;
use std::sync::Mutex;
use std::time::Instant;

/// Long enough for a loaded machine.
const PATIENCE: Duration = Duration::from_secs(30);

/// No program makes a call for so long. The thread sleeps, too.
const QUIET: Duration = Duration::from_millis(100);

/// Two endpoints on a cable. The pair's network carries nothing.
pub(super) fn pair(asked: NodeOptions) -> EndpointPair {
    let options = Options::new("cable").peer_timeout(2 * PATIENCE);
    let ends = Cable::pair(0, &options.filter(), 512, 512).unwrap();
    let [a, b] = ends.map(|link| {
        let (options, link) = (options.clone(), Mutex::new(Some(link)));
        let open = move || {
            let link = link.lock().unwrap().take().expect("a domain's one endpoint");
            options.clone().open_on(vec![Box::new(link)])
        };
        TestEndpoint::opened(Box::new(open), asked)
    });
    let (to_b, to_a) = (a.insert(&b.name()), b.insert(&a.name()));
    EndpointPair { net: Network::new(1, Faults::default()), a, b, to_b, to_a }
}

/// Waits for the next completion of an end. No other end makes a call during the wait.
fn completed(end: &TestEndpoint, flags: u64, expected: *mut c_void) {
    let until = Instant::now() + PATIENCE;
    let entry = loop {
        match end.read() {
            Ok((entry, _)) => break entry,
            Err(code) if code == minus(Code::AVAILABLE) => panic!("error {}", end.error().err),
            Err(code) => assert_eq!(code, minus(Code::AGAIN)),
        }
        assert!(Instant::now() < until, "not over while the other program computes");
        // Where there is one processor, the thread needs it.
        std::thread::yield_now();
    };
    assert_eq!((entry.flags, entry.op_context), (flags, expected));
}

#[test]
fn remote_memory_of_a_program_that_makes_no_call_is_written_read_and_changed() {
    const LEN: usize = 50_000;
    let p = pair(NodeOptions::default());
    let mut memory = vec![0_u8; 8 + LEN];
    let mr = memory::register(&p, &mut memory, FI_REMOTE_READ | FI_REMOTE_WRITE);
    // SAFETY: an open region.
    let key = unsafe { (*mr).key };
    let (ep, to, none) = (p.a.ep, p.to_b, null_mut::<c_void>());
    let (word, sum, swap) = (FI_UINT64, FI_SUM, FI_CSWAP);
    let (mut got, mut before, mut number) = (vec![0_u8; LEN], 0_u64, 0_u64);
    // From here on `b` makes no call. It has never heard of `a`: the first write begins a session.
    for round in 0..2 {
        let sent = body(LEN, round);
        // One in a frame, and one in many.
        for (len, offset) in [(8, LEN), (LEN, 8)] {
            let data = sent.as_ptr().cast();
            assert_eq!(call!(ep, rma, write, data, len, none, to, offset as u64, key, none), 0);
            completed(&p.a, FI_RMA | FI_WRITE, none);
        }
        let into = got.as_mut_ptr().cast();
        assert_eq!(call!(ep, rma, read, into, LEN, none, to, 8, key, context(1)), 0);
        completed(&p.a, FI_RMA | FI_READ, context(1));
        assert!(got == sent, "round {round}");

        let (five, next) = (5_u64, number + 100);
        let (data, at) = ((&raw const five).cast(), &raw mut before);
        let added = call!(ep, atomic, write, data, 1, none, to, 0, key, word, sum, context(2));
        assert_eq!(added, 0);
        completed(&p.a, FI_ATOMIC | FI_WRITE, context(2));
        let fetched = call!(
            ep,
            atomic,
            readwrite,
            data,
            1,
            none,
            at.cast(),
            none,
            to,
            0,
            key,
            word,
            sum,
            context(3)
        );
        assert_eq!(fetched, 0);
        completed(&p.a, FI_ATOMIC | FI_READ, context(3));
        // SAFETY: the operation is over.
        assert_eq!(unsafe { at.read() }, number + 5);
        let expected = number + 10;
        let swapped = call!(
            ep,
            atomic,
            compwrite,
            (&raw const next).cast(),
            1,
            none,
            (&raw const expected).cast(),
            none,
            at.cast(),
            none,
            to,
            0,
            key,
            word,
            swap,
            context(4)
        );
        assert_eq!(swapped, 0);
        completed(&p.a, FI_ATOMIC | FI_READ, context(4));
        // SAFETY: the operation is over.
        assert_eq!(unsafe { at.read() }, expected);
        number = next;
        std::thread::sleep(QUIET);
    }
    // Now `b` calls again.
    assert!(p.b.core().lock().endpoint.counters().progress_turns > 0);
    assert_eq!(general!(mr, close), 0);
    assert_eq!(memory[..8], number.to_le_bytes());
    assert!(memory[8..] == body(LEN, 1));
    p.close();
}
