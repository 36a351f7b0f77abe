//! Neighbours that say what is not true.

use super::*;

/// A process of the same user that says what it likes.
struct Attacker {
    socket: OwnedFd,
    memory: SharedMemory,
    fd: OwnedFd,
    hello: RingHello,
}

impl Attacker {
    const WORDS: u32 = 1 << 12;

    fn new(node: &TestNetwork, to: &dyn Link) -> Self {
        let socket = rendezvous::connect(&node.scope, to.info().mac).unwrap();
        let (memory, fd) =
            SharedMemory::create("gigae-test", CONTROL + Self::WORDS as usize).unwrap();
        let filter = PairOptions::new(Envelope::DEFAULT).filter;
        let mac = MacAddr([2, 9, 9, 9, 9, 9]);
        Self {
            socket,
            memory,
            fd,
            hello: RingHello { mac, filter, words: Self::WORDS, ring_at: 0 },
        }
    }

    fn greets(self, at: &mut ShmLink<SimLink>) -> Self {
        self.hello.send(&self.socket, &self.fd).unwrap();
        at.look();
        self
    }

    fn is_welcome(&self) -> bool {
        Ring::new(self.memory.words()).is_welcome()
    }

    fn is_refused(&self) -> bool {
        let flags = rustix::net::RecvFlags::DONTWAIT;
        matches!(
            rustix::net::recv(&self.socket, &mut [0; 8], flags),
            Ok((_, 0)) | Err(Errno::CONNRESET)
        )
    }
}

/// Both ends are of this process, whose own memory it may always read.
#[test]
fn a_neighbours_memory_is_read_where_it_says_and_nowhere_else() {
    let node = TestNetwork::new();
    let (mut a, mut b) = node.pair();
    let (at_a, at_b) = (a.info().mac, b.info().mac);
    meet(&mut a, &mut b);
    assert!(a.lends_to(at_b), "it was tried when they met");
    let (bytes, mut read) = ([7_u8; 100_000], vec![0; 100_000]);
    let at = bytes.as_ptr().expose_provenance() as u64;
    assert!(b.read_from(at_a, at, &mut read) && read == bytes);
    assert!(!b.read_from(at_a, 0, &mut read[..1]), "nothing is mapped there");
    assert!(!b.read_from(at_a, u64::MAX, &mut read[..9]));
    let stranger = MacAddr([2, 9, 9, 9, 9, 9]);
    assert!(!b.read_from(stranger, at, &mut read) && !a.lends_to(stranger));
    // Who names another place than the ring's is read as frames only.
    for ring_at in [0, at, u64::MAX] {
        let mut attacker = Attacker::new(&node, &b);
        attacker.hello.ring_at = ring_at;
        let attacker = attacker.greets(&mut b);
        assert!(attacker.is_welcome() && !Ring::new(attacker.memory.words()).is_lender());
        assert!(!b.read_from(stranger, at, &mut read));
    }
    drop(a);
    b.look();
    assert!(!b.read_from(at_a, at, &mut read), "it is gone");
}

#[test]
fn a_hello_that_does_not_belong_here_is_hung_up_on() {
    let node = TestNetwork::new();
    let mut b = node.open();
    let good = Attacker::new(&node, &b).greets(&mut b);
    assert!(good.is_welcome() && !good.is_refused());
    let wrongs: [fn(&mut Attacker); 5] = [
        |attacker| attacker.hello.words = 1 << 24,
        |attacker| attacker.hello.words = Attacker::WORDS / 2,
        |attacker| attacker.hello.words = Attacker::WORDS - 1,
        |attacker| attacker.fd = std::fs::File::open("/dev/zero").unwrap().into(),
        |attacker| attacker.hello.filter.channels = Default::default(),
    ];
    for (i, wrong) in wrongs.into_iter().enumerate() {
        let mut attacker = Attacker::new(&node, &b);
        wrong(&mut attacker);
        let attacker = attacker.greets(&mut b);
        assert!(attacker.is_refused() && !attacker.is_welcome(), "wrong {i}");
    }
    // No hello, no memory with it, or a good hello after something else.
    for words in [&b"?"[..], &[0; 56], &[0; 4000]] {
        let attacker = Attacker::new(&node, &b);
        let flags = rustix::net::SendFlags::NOSIGNAL;
        rustix::net::send(&attacker.socket, words, flags).unwrap();
        let _ = attacker.hello.send(&attacker.socket, &attacker.fd);
        b.look();
        assert!(attacker.is_refused() && !attacker.is_welcome(), "{} bytes", words.len());
    }
    // A connection without a hello stays open, and its hello is read when it comes.
    let mut silent: Vec<Attacker> = (0..40).map(|_| Attacker::new(&node, &b)).collect();
    (0..5).for_each(|_| b.look());
    assert!(silent.iter().all(|attacker| !attacker.is_refused()));
    let last = silent.pop().unwrap().greets(&mut b);
    assert!(last.is_welcome());
}

#[test]
fn whatever_a_neighbour_writes_is_a_frame_or_nothing_and_nonsense_ends_the_connection() {
    let node = TestNetwork::new();
    let mut b = node.open();
    let longest = b.info().max_frame;
    let attacker = Attacker::new(&node, &b).greets(&mut b);
    let (ring, mut writer) = (Ring::new(attacker.memory.words()), Writer::default());
    for len in [0, 13, longest + 1, 20_000, 14, longest] {
        assert!(writer.push(&ring, &vec![7; len]));
    }
    writer.publish(&ring);
    assert_eq!(suite::drain(&mut b), 2);
    assert_eq!(b.counters().rx_dropped, 4, "what cannot be a frame");
    let mut state = 1u64;
    for _ in 0..300 {
        let attacker = Attacker::new(&node, &b).greets(&mut b);
        assert!(attacker.is_welcome());
        for word in attacker.memory.words() {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            word.store(
                if state.is_multiple_of(3) { state % 2000 } else { state },
                Ordering::Relaxed,
            );
        }
        attacker.memory.words()[0].store(state % 5000, Ordering::Relaxed);
        suite::drain(&mut b);
    }
    b.look();
    suite::drain(&mut b);
    assert!(!attacker.is_refused(), "of many attackers only those that were caught are gone");
}

#[test]
fn a_reader_that_lies_gets_fewer_frames_and_stops_nobody() {
    let node = TestNetwork::new();
    let (mut a, mut b) = node.pair();
    let (at_b, mac) = (b.info().mac, MacAddr([2, 9, 9, 9, 9, 9]));
    let listener = bind(&node.scope, mac).unwrap();
    send(&mut a, mac, 0);
    let socket = rendezvous::accept(&listener).unwrap().unwrap();
    let (hello, fd) = rendezvous::greeting(&socket).unwrap();
    let memory = SharedMemory::map(&fd, CONTROL + hello.words as usize).unwrap();
    Ring::new(memory.words()).welcome(false);
    let mut state = 1u64;
    for n in 0..3000 {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        memory.words()[16].store(state, Ordering::Relaxed);
        memory.words()[32].store(state & 1, Ordering::Relaxed);
        memory.words()[CONTROL + (state % 4096) as usize].store(state, Ordering::Relaxed);
        send(&mut a, mac, n);
        send(&mut a, at_b, n);
        assert_eq!(suite::receive(&mut b, 1).len(), 1);
    }
}

/// A forked child has copies of all descriptors.
#[test]
fn a_connection_that_is_closed_wakes_nobody_while_a_child_has_a_copy_of_it() {
    let node = TestNetwork::new();
    let copies = |link: &ShmLink<SimLink>| -> Vec<OwnedFd> {
        link.neighbours.connections().map(|socket| socket.try_clone().unwrap()).collect()
    };
    let is_readable = |link: &ShmLink<SimLink>| {
        let mut events = [PollFd::new(&link.neighbours.events, PollFlags::IN)];
        poll(&mut events, Some(&Timespec::default())).unwrap() > 0
    };
    // A neighbour that is gone.
    let (mut a, b) = node.pair();
    let in_child = copies(&a);
    assert_eq!(in_child.len(), 2, "one each way");
    drop(b);
    assert!(is_readable(&a));
    a.look();
    suite::drain(&mut a);
    assert!(a.neighbours.connections().next().is_none() && !is_readable(&a));
    drop(in_child);
    // One that writes nonsense, and is gone.
    let attacker = Attacker::new(&node, &a).greets(&mut a);
    let in_child = copies(&a);
    attacker.memory.words().iter().for_each(|word| word.store(u64::MAX, Ordering::Relaxed));
    suite::drain(&mut a);
    drop(attacker);
    assert!(a.neighbours.connections().next().is_none() && !is_readable(&a), "nonsense");
    drop(in_child);
    // Those whose hello does not belong here, or is none.
    let wrongs: [fn(&mut Attacker); 3] = [
        |attacker| attacker.hello.filter.channels = Default::default(),
        |attacker| attacker.hello.words = 1,
        |attacker| {
            rustix::net::send(&attacker.socket, b"?", rustix::net::SendFlags::NOSIGNAL).unwrap();
        },
    ];
    for (i, wrong) in wrongs.into_iter().enumerate() {
        let mut attacker = Attacker::new(&node, &a);
        a.look();
        let in_child = copies(&a);
        wrong(&mut attacker);
        drop(attacker.greets(&mut a));
        assert!(a.neighbours.connections().next().is_none() && !is_readable(&a), "wrong {i}");
        drop(in_child);
    }
}
