//! Neighbours in processes of their own: kills, other users, crowds, what is left.

use super::tasks::*;
use super::*;

/// Both ways, from a length on. A process that does not see the other cannot read its memory, and
/// receives all the same.
pub(crate) fn long_messages_are_read_where_they_lie_by_processes_that_may() {
    let (_fabric, node, _inside) = node_with("long", 2, 1500);
    for (own, name, sees) in [("x0", "x1", true), ("x0", "y1", false), ("eth0", "eth0", true)] {
        let end = on(&node, options_for_long(own));
        let mut task = match sees {
            true => Task::start(&node, &["long", name], None),
            false => Task::start_unseeing(&node, &["long", name]),
        };
        let peer = end.peer(task.line().parse::<Address>().unwrap()).unwrap();
        for len in [1, 100_000, 12_288, 12_289, 1 << 20, LONGEST] {
            let message: Vec<u8> = (0..len).map(|i| (i * 31 + (i >> 8) * 7) as u8).collect();
            end.start_recv(Wanted::tag(len as u64), vec![0; len]).unwrap();
            end.start_send(peer, len as u64, message.clone()).unwrap();
            for _ in 0..2 {
                let done = end.completion_timeout(PATIENCE).unwrap().expect("it comes in time");
                assert_eq!((done.result, done.len), (Ok(()), len), "{name}, {len} bytes");
                assert!(done.memory.and_then(gigae::Memory::into_vec).unwrap() == message);
            }
            let said = task.line();
            let (fetched, lent) = said.split_once(' ').unwrap();
            let counted = end.counters().operations;
            let theirs: [u64; 2] = [fetched, lent].map(|n| n.parse().unwrap());
            assert_eq!(theirs, [counted.lent, counted.fetched], "{name}, {len} bytes");
        }
        let counted = end.counters().operations;
        assert_eq!(counted.lent > 0, sees, "{name}: {counted:?}");
        assert!(counted.fetched > 0, "this end sees both: {counted:?}");
    }
}

/// A neighbour that connects there stays in the queue. That does not wake a sleeping endpoint again
/// and again.
pub(crate) fn an_endpoint_without_free_descriptors_sleeps_and_accepts_neighbours_later() {
    let (_fabric, node, _inside) = node_with("descriptors", 1, 1500);
    let end = on(&node, options("x0", Backend::Xdp));
    let mut task = Task::start(&node, &["full", "y0"], None);
    let at_task = task.line().parse::<Address>().unwrap();
    let peer = end.peer(at_task).unwrap();
    end.send(peer, b"who is there?").unwrap();
    end.drain(PATIENCE).unwrap();
    assert_eq!(task.line(), "asleep");
    assert_eq!(by_memory(&end).0, 0, "no process reads that");
    task.send_line("take them in");
    assert_eq!(task.line(), "again");
    let deadline = Instant::now() + PATIENCE;
    for n in 0.. {
        echo(&end, at_task, n);
        if by_memory(&end).0 > 20 {
            break;
        }
        assert!(Instant::now() < deadline, "it was never taken in");
        std::thread::sleep(Duration::from_millis(10));
    }
}

pub(crate) fn one_that_is_killed_is_lost_in_time_others_go_on_and_its_successor_is_found() {
    /// Others must not be taken for dead because the machine is busy.
    const TIMEOUT: Duration = Duration::from_secs(4);
    let (_fabric, node, _inside) = node_with("killed", 3, 1500);
    let end = on(&node, options("x0", Backend::Xdp).peer_timeout(TIMEOUT));
    let mut other = Task::start(&node, &["echo", "x2"], None);
    let at_other = other.line().parse::<Address>().unwrap();
    for round in 0..2 {
        let mut mortal = Task::start(&node, &["echo", "x1"], None);
        let at_mortal = mortal.line().parse::<Address>().unwrap();
        let before = by_memory(&end);
        greet(&end, at_mortal);
        (0..200).for_each(|n| echo(&end, at_mortal, n));
        (0..200).for_each(|n| echo(&end, at_other, n));
        let after = by_memory(&end);
        assert!(after.0 - before.0 >= 300 && after.1 - before.1 >= 300, "{before:?}, {after:?}");
        mortal.child.kill().unwrap();
        mortal.child.wait().unwrap();
        let peer = end.peer(at_mortal).unwrap();
        end.send(peer, b"nobody reads this").unwrap();
        // The end serves others in the meantime.
        let to = end.peer(at_other).unwrap();
        let deadline = Instant::now() + PATIENCE;
        let (mut asked, mut answered) = (0, 0);
        let failed = loop {
            if let Some(failed) = end.take_failure() {
                break failed;
            }
            assert!(Instant::now() < deadline, "the message never failed");
            end.send(to, b"meanwhile").unwrap();
            asked += 1;
            match end.recv_timeout(PATIENCE) {
                Ok(answer) => {
                    assert_eq!(&answer.expect("an answer")[..], b"meanwhile");
                    answered += 1;
                }
                Err(RecvError::Failed) => {}
                Err(error) => panic!("{error}"),
            }
        };
        assert_eq!((failed.to(), failed.reason()), (peer, Reason::Timeout), "{round}");
        drop(failed);
        for _ in answered..asked {
            end.recv_timeout(PATIENCE).unwrap().expect("an answer");
        }
        assert!(answered > 10, "{answered} messages meanwhile");
    }
}

/// All but root, who may do everything: the name of the neighbour's address is taken, and a
/// connection refused.
pub(crate) fn processes_of_another_user_are_no_neighbours() {
    let (_fabric, node, _inside) = node_with("users", 1, 1500);
    let [a, b] = ["x0", "y0"].map(|name| on(&node, options(name, Backend::Xdp).local(false)));
    let (at_a, at_b) = (a.link().mac.to_string(), b.link().mac.to_string());
    drop((a, b));
    let mut stranger = Task::start(&node, &["claim", &at_b, &at_a], Some(65_534));
    assert_eq!(stranger.line(), "claimed");
    let [mut a, mut b] = ["x0", "y0"].map(|name| on(&node, options(name, Backend::Xdp)));
    exchange([&mut a, &mut b], 500);
    assert_eq!((by_memory(&a), by_memory(&b)), ((0, 0), (0, 0)));
    stranger.send_line("connect");
    // An endpoint refuses it when it looks, and looking needs a call now and then.
    let refused = std::thread::spawn(move || {
        assert_eq!(stranger.line(), "refused");
        stranger.end();
    });
    while !refused.is_finished() {
        a.recv_timeout(Duration::from_millis(1)).unwrap();
    }
    refused.join().unwrap();
    exchange([&mut a, &mut b], 500);
    assert_eq!((by_memory(&a), by_memory(&b)), ((0, 0), (0, 0)));
}

pub(crate) fn more_processes_than_processors_all_talk_to_all() {
    const PROCESSES: usize = 6;
    let (_fabric, node, _inside) = node_with("crowd", PROCESSES, 1500);
    let mut tasks: Vec<Task> = (0..PROCESSES)
        .map(|n| Task::start(&node, &["crowd", &format!("x{n}"), "400"], None))
        .collect();
    let all: Vec<String> = tasks.iter_mut().map(Task::line).collect();
    for (n, task) in tasks.iter_mut().enumerate() {
        let others: Vec<_> =
            all.iter().enumerate().filter(|&(i, _)| i != n).map(|o| &o.1[..]).collect();
        task.send_line(&others.join(" "));
    }
    for task in &mut tasks {
        assert_eq!(task.line(), "done");
    }
    tasks.into_iter().for_each(Task::end);
}

/// What is left of neighbours when they are gone: no name, no descriptor and no mapping. A separate
/// process counts them: in this one other tests have theirs.
pub(crate) fn nothing_is_left_when_neighbours_are_gone() {
    let (_fabric, node, _inside) = node_with("left", 2, 1500);
    let mut counting = Task::start(&node, &["count", "x0"], None);
    for round in 0..5 {
        let mut mortal = Task::start(&node, &["echo", "x1"], None);
        counting.send_line(&mortal.line());
        assert_eq!(counting.line(), "met", "round {round}");
        mortal.child.kill().unwrap();
        mortal.child.wait().unwrap();
        counting.send_line("it is gone");
        assert_eq!(counting.line(), "nothing is left", "round {round}");
    }
    counting.end();
}
