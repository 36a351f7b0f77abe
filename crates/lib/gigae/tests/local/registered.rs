//! Registered memory that neighbours map: reads and writes without the owner's endpoint, and what
//! becomes of them when the owner takes the memory back or one of the two is killed.

use super::tasks::*;
use super::*;
use gigae::{OpError, Peer, RegionKey, SharedBuffer, Status};

/// Bytes of a registered memory: not a multiple of a page, nor of a word.
const LEN: usize = 3_000_001;

/// The key of memory that is registered again and again.
const KEY: RegionKey = RegionKey(0x6769_6761_6531);

fn pattern(seed: usize, len: usize) -> Vec<u8> {
    (0..len).map(|i| (seed + i * 31 + (i >> 8) * 7) as u8).collect()
}

fn all_of(buffer: &SharedBuffer) -> Vec<u8> {
    let mut bytes = vec![0; buffer.len()];
    buffer.read(0, &mut bytes);
    bytes
}

fn ended(end: &Endpoint) -> Completion {
    end.completion_timeout(PATIENCE).unwrap().expect("it ends in time")
}

/// Writes and reads until both take no frame.
fn until_direct(end: &Endpoint, peer: Peer, key: RegionKey) {
    let deadline = Instant::now() + PATIENCE;
    let mut before = end.counters().operations.direct;
    for n in 0.. {
        end.start_write(peer, key, 0, pattern(n, 100), None).unwrap();
        ended(end).result.unwrap();
        end.start_read(peer, key, 0, vec![0; 100]).unwrap();
        let read = ended(end);
        assert!(read.memory.and_then(gigae::Memory::into_vec).unwrap() == pattern(n, 100));
        let direct = end.counters().operations.direct;
        if direct == before + 2 {
            return;
        }
        before = direct;
        assert!(Instant::now() < deadline, "always by frames");
    }
}

/// A process with a registered memory. It does what each line of its input says.
pub(crate) fn own_memory(end: &Endpoint, rights: Rights, mut line: impl FnMut() -> String) {
    let buffer = SharedBuffer::new(LEN).unwrap();
    let key = end.register(buffer.clone(), rights).unwrap();
    println!("{} {}", end.identity().address, key.0);
    loop {
        let said = line();
        let mut words = said.split(' ');
        match words.next().unwrap() {
            "same" => {
                let seed = words.next().unwrap().parse().unwrap();
                println!("{}", all_of(&buffer) == pattern(seed, LEN));
            }
            "counts" => {
                let accesses = end.accesses();
                let writes = end.region_writes(key).unwrap();
                println!("{writes} {} {}", accesses.writes, accesses.reads);
            }
            "deregister" => {
                let (_, writes) = end.deregister(key).unwrap();
                buffer.write(0, &pattern(99, LEN));
                println!("{writes}");
            }
            _ => return,
        }
    }
}

/// The owner waits for a line and makes no call. A process that does not see the other cannot read
/// its memory by other means.
pub(crate) fn shared_memory_is_read_and_written_without_its_owner() {
    let (_fabric, node, _inside) = node_with("shared", 2, 1500);
    for (own, name, sees) in [("x0", "x1", true), ("x0", "y1", false), ("eth0", "eth0", true)] {
        let end = on(&node, options_for_long(own));
        let mut task = match sees {
            true => Task::start(&node, &["own", name, "3"], None),
            false => Task::start_unseeing(&node, &["own", name, "3"]),
        };
        let said = task.line();
        let (at, key) = said.split_once(' ').unwrap();
        let peer = end.peer(at.parse::<Address>().unwrap()).unwrap();
        let key = RegionKey(key.parse().unwrap());
        until_direct(&end, peer, key);
        let before = end.counters().operations.direct;
        // Parts of all lengths, one behind the other.
        let (bytes, mut at, mut count) = (pattern(5, LEN), 0, 0);
        for len in [1, 7, 8, 9, 4095, 4096, 65_537, LEN] {
            let part = &bytes[at..LEN.min(at + len)];
            end.start_write(peer, key, at as u64, part.to_vec(), None).unwrap();
            let done = ended(&end);
            assert_eq!((done.result, done.len), (Ok(()), part.len()), "{name}, {len} bytes");
            end.start_read(peer, key, at as u64, vec![0; part.len()]).unwrap();
            let read = ended(&end);
            assert!(read.memory.and_then(gigae::Memory::into_vec).unwrap() == part, "{len} bytes");
            (at, count) = (at + part.len(), count + 1);
        }
        assert_eq!(end.counters().operations.direct - before, 2 * count, "{name}: none by frames");
        // Memory here that is shared, too, is no exception.
        let own = SharedBuffer::new(LEN).unwrap();
        end.start_read(peer, key, 0, own.clone()).unwrap();
        ended(&end).result.unwrap();
        assert!(all_of(&own) == bytes);
        task.send_line("same 5");
        assert_eq!(task.line(), "true", "{name}");
        // What is outside, or not allowed, is refused as ever.
        end.start_write(peer, key, LEN as u64 - 1, vec![1; 2], None).unwrap();
        assert_eq!(ended(&end).result, Err(OpError::Refused(Status::Bounds)));
        for memory in [vec![0; LEN].into(), gigae::Memory::from(SharedBuffer::new(LEN).unwrap())] {
            end.start_write(peer, key, 1, memory, None).unwrap();
            assert_eq!(ended(&end).result, Err(OpError::Refused(Status::Bounds)));
        }
        task.send_line("same 5");
        assert_eq!(task.line(), "true", "{name}: nothing of what is refused was written");
        end.start_fetch_add(peer, key, 0, 1).unwrap();
        assert_eq!(ended(&end).result, Err(OpError::Refused(Status::Rights)));
        // A notice comes by a frame, with its write.
        end.start_write(peer, key, 0, bytes[..100].to_vec(), Some(7)).unwrap();
        ended(&end).result.unwrap();
        task.send_line("counts");
        let counted: Vec<u64> = task.line().split(' ').map(|n| n.parse().unwrap()).collect();
        let [region, writes, reads] = counted[..] else { panic!("{counted:?}") };
        assert!(region == writes && writes > count && reads > count, "{counted:?}");
        assert_eq!(reads, writes, "one notice more, one read more");
        task.send_line("deregister");
        assert_eq!(task.line(), region.to_string(), "{name}");
        end.start_write(peer, key, 0, vec![0; LEN], None).unwrap();
        assert_eq!(ended(&end).result, Err(OpError::Refused(Status::Key)), "{name}");
        task.send_line("same 99");
        assert_eq!(task.line(), "true", "{name}: nothing was written there");
    }
}

/// A write does not overtake a message before it, also where it could be done at once.
pub(crate) fn a_write_to_shared_memory_waits_for_a_message_before_it() {
    let (_fabric, node, _inside) = node_with("order", 2, 1500);
    // Without the threads: an endpoint does nothing while nobody calls it.
    let open = |name| on(&node, options(name, Backend::Packet).progress(Progress::Manual));
    let (end, owner) = (open("x0"), open("x1"));
    let peer = end.peer(address(&owner)).unwrap();
    let buffer = SharedBuffer::new(100).unwrap();
    let key = owner.register(buffer.clone(), Rights::READ.with(Rights::WRITE)).unwrap();
    let direct = || end.counters().operations.direct;
    let deadline = Instant::now() + PATIENCE;
    let write = |seed| end.start_write(peer, key, 0, pattern(seed, 100), None).unwrap();
    let until_completed = || loop {
        if let Some(done) = end.try_completion().unwrap() {
            done.result.unwrap();
            break;
        }
        owner.progress().unwrap();
        assert!(Instant::now() < deadline, "it does not end");
    };
    for round in 0..20 {
        loop {
            let before = direct();
            write(2 * round);
            until_completed();
            if direct() > before {
                break;
            }
        }
        assert!(all_of(&buffer) == pattern(2 * round, 100));
        let before = direct();
        end.send(peer, b"first").unwrap();
        write(2 * round + 1);
        assert_eq!(direct(), before, "the write has overtaken the message");
        assert!(all_of(&buffer) == pattern(2 * round, 100), "nothing is written so far");
        let message = loop {
            if let Some(message) = owner.try_recv().unwrap() {
                break message;
            }
            end.progress().unwrap();
            assert!(Instant::now() < deadline, "the message does not come");
        };
        assert_eq!(&message[..], b"first");
        drop(message);
        until_completed();
        assert!(all_of(&buffer) == pattern(2 * round + 1, 100));
    }
}

/// Numbers that peers change atomically are written by frames only; and memory that may only be
/// read is only read.
pub(crate) fn shared_memory_is_used_only_as_its_rights_say() {
    let (_fabric, node, _inside) = node_with("rights", 1, 1500);
    for (rights, direct, refused) in [
        (Rights::ALL, (0, 10), false),
        (Rights::READ, (0, 10), true),
        (Rights::WRITE.with(Rights::READ), (10, 10), false),
    ] {
        let end = on(&node, options_for_long("x0"));
        let bits = [Rights::READ, Rights::WRITE, Rights::ATOMIC].map(|right| rights.has(right));
        let bits = bits.iter().rev().fold(0, |bits, &bit| 2 * bits + u8::from(bit));
        let mut task = Task::start(&node, &["own", "y0", &bits.to_string()], None);
        let said = task.line();
        let (at, key) = said.split_once(' ').unwrap();
        let peer = end.peer(at.parse::<Address>().unwrap()).unwrap();
        let key = RegionKey(key.parse().unwrap());
        let deadline = Instant::now() + PATIENCE;
        let read = |n: u64| {
            end.start_read(peer, key, 8 * n, vec![0; 8]).unwrap();
            ended(&end).result.unwrap();
        };
        while end.counters().operations.direct == 0 {
            assert!(Instant::now() < deadline, "always by frames");
            read(0);
        }
        let before = end.counters().operations.direct;
        (0..10).for_each(read);
        assert_eq!(end.counters().operations.direct - before, direct.1, "{rights:?}");
        let before = end.counters().operations.direct;
        for n in 0..10 {
            end.start_write(peer, key, 8 * n, vec![1; 8], None).unwrap();
            let expected = if refused { Err(OpError::Refused(Status::Rights)) } else { Ok(()) };
            assert_eq!(ended(&end).result, expected, "{rights:?}");
        }
        assert_eq!(end.counters().operations.direct - before, direct.0, "{rights:?}");
    }
}

/// Writes the same memory of a peer again and again, until it is killed.
pub(crate) fn write_for_ever(end: &Endpoint, to: Address) {
    let peer = end.peer(to).unwrap();
    // The same memory again: to get a new one would take longer than to write it.
    let (mut said, mut memory) = (false, vec![0; LEN]);
    let deadline = Instant::now() + PATIENCE;
    for n in 0.. {
        assert!(said || Instant::now() < deadline, "no write takes no frame");
        memory[0] = n as u8;
        end.start_write(peer, KEY, 0, memory, None).unwrap();
        let done = ended(end);
        match done.result {
            Ok(()) | Err(OpError::Refused(Status::Key)) => {}
            Err(error) => panic!("{error}"),
        }
        memory = done.memory.and_then(gigae::Memory::into_vec).unwrap();
        if !said && end.counters().operations.direct > 0 {
            said = true;
            leave_a_child();
            println!("direct");
        }
    }
}

/// Makes a child that holds all descriptors and does nothing until standard input ends.
fn leave_a_child() {
    // SAFETY: the child only reads and ends.
    unsafe {
        let pid = libc::fork();
        assert!(pid >= 0);
        if pid == 0 {
            while libc::read(0, [0_u8; 8].as_mut_ptr().cast(), 8) > 0 {}
            libc::_exit(0);
        }
    }
}

/// Nobody writes where the owner has taken the memory back, also if it does so in the middle of a
/// neighbour's write.
pub(crate) fn memory_that_was_taken_back_stays_as_it_is() {
    let (_fabric, node, _inside) = node_with("back", 1, 1500);
    for _ in 0..3 {
        let end = on(&node, options_for_long("x0"));
        let buffer = SharedBuffer::new(LEN).unwrap();
        let rights = Rights::READ.with(Rights::WRITE);
        let register = || end.register_as(KEY, buffer.clone(), rights).unwrap();
        let at = address(&end).to_string();
        let mut task = Task::start(&node, &["write", "y0", &at], None);
        register();
        assert_eq!(task.line(), "direct");
        let until_written = |deadline| {
            let before = end.accesses().writes;
            while end.accesses().writes < before + 3 {
                end.progress().unwrap();
                assert!(Instant::now() < deadline, "it does not write");
            }
        };
        let (deadline, mut rounds, mut taken) = (Instant::now() + PATIENCE, 0, 0);
        while rounds < 20 {
            assert!(Instant::now() < deadline, "{rounds} rounds");
            until_written(deadline);
            let (_, writes) = end.deregister(KEY).unwrap();
            taken += u64::from(writes > 0);
            buffer.write(0, &pattern(rounds, LEN));
            for _ in 0..5 {
                end.recv_timeout(Duration::from_millis(1)).unwrap();
                assert!(all_of(&buffer) == pattern(rounds, LEN), "somebody writes there");
            }
            register();
            rounds += 1;
        }
        assert_eq!(taken, 20);
    }
}

/// The owner does not wait for a neighbour that is killed in the middle of a write, also if a
/// forked child of it lives on and holds its descriptors.
pub(crate) fn memory_is_taken_back_from_a_killed_neighbour_whose_child_lives_on() {
    let (_fabric, node, _inside) = node_with("killed", 1, 1500);
    let end = on(&node, options_for_long("x0"));
    let buffer = SharedBuffer::new(LEN).unwrap();
    for round in 0..10 {
        let rights = Rights::READ.with(Rights::WRITE);
        end.register_as(KEY, buffer.clone(), rights).unwrap();
        let at = address(&end).to_string();
        let mut task = Task::start(&node, &["write", "y0", &at], None);
        assert_eq!(task.line(), "direct");
        // From now on it is nearly always in the middle of a write.
        std::thread::sleep(Duration::from_micros(1000 + 70 * round));
        task.child.kill().unwrap();
        end.deregister(KEY).unwrap();
        buffer.write(0, &pattern(77, LEN));
        task.child.wait().unwrap();
        assert!(all_of(&buffer) == pattern(77, LEN), "the killed process writes there");
        task.end_of_children();
    }
}

/// It says so, and other memory does the same by frames.
pub(crate) fn where_no_shared_memory_can_be_made_other_memory_does_the_same() {
    let (_fabric, node, _inside) = node_with("none", 1, 1500);
    let end = on(&node, options_for_long("x0"));
    let mut task = Task::start(&node, &["none", "y0"], None);
    let said = task.line();
    let (at, key) = said.split_once(' ').unwrap();
    let peer = end.peer(at.parse::<Address>().unwrap()).unwrap();
    let key = RegionKey(key.parse().unwrap());
    for n in 0..100 {
        end.start_write(peer, key, 0, pattern(n, LEN), None).unwrap();
        ended(&end).result.unwrap();
    }
    assert_eq!(end.counters().operations.direct, 0);
    task.send_line("99");
    assert_eq!(task.line(), "true");
}

/// See the test above.
pub(crate) fn own_other_memory(end: &Endpoint, mut line: impl FnMut() -> String) {
    let mut limits = rustix::process::getrlimit(rustix::process::Resource::Nofile);
    limits.current = Some(200);
    rustix::process::setrlimit(rustix::process::Resource::Nofile, limits).unwrap();
    let null = || std::fs::File::open("/dev/null");
    let all: Vec<_> = std::iter::from_fn(|| null().ok()).collect();
    let error = SharedBuffer::new(LEN).unwrap_err();
    assert_eq!(error.raw_os_error(), Some(rustix::io::Errno::MFILE.raw_os_error()), "{error}");
    drop(all);
    let key = end.register(vec![0; LEN], Rights::WRITE).unwrap();
    println!("{} {}", end.identity().address, key.0);
    let seed = line().parse().unwrap();
    let (memory, _) = end.deregister(key).unwrap();
    println!("{}", memory.into_vec().unwrap() == pattern(seed, LEN));
    line();
}
