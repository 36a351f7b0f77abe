//! The questions of a mounted file system on the same network.

use crate::world::{Client, Faults, MS, World};
use crate::written::Written;
use gigae_share::{Caller, Fault, Kind, PART, Reply, Request, Server, Source, Want, digest};
use std::time::Duration;

const PATIENCE: Duration = Duration::from_secs(30);

/// Questions, by number, and what is answered.
struct Questions {
    caller: Caller<usize>,
    answers: Vec<Option<String>>,
    /// When the last answer came.
    answered: Duration,
}

impl Questions {
    fn new(patience: Duration) -> Self {
        let caller = Caller::new(patience, 1);
        Self { caller, answers: Vec::new(), answered: Duration::ZERO }
    }

    fn ask(&mut self, now: Duration, request: Request) {
        self.caller.ask(now, request, self.answers.len());
        self.answers.push(None);
    }

    fn answer(&mut self, now: Duration, question: usize, answer: String) {
        let before = self.answers[question].replace(answer);
        assert_eq!(before, None, "one answer");
        self.answered = now;
    }

    fn silent(&self) -> usize {
        let silent = format!("{:?}", Reply::Failed(Fault::Silent));
        self.answers.iter().flatten().filter(|answer| **answer == silent).count()
    }
}

impl Client for Questions {
    fn next(&mut self, now: Duration, _: &mut Written) -> Want {
        while let Some((question, fault)) = self.caller.failed(now) {
            self.answer(now, question, format!("{:?}", Reply::Failed(fault)));
        }
        self.caller.next(now)
    }

    fn reply(&mut self, now: Duration, number: u32, message: &[u8], _: &mut Written) {
        if let Some((question, answer)) = self.caller.reply(now, number, message) {
            let answer = answer.unwrap_or_else(Reply::Failed);
            self.answer(now, question, text(&answer));
        }
    }

    fn unanswered(&mut self, number: u32) {
        self.caller.unanswered(number);
    }

    fn lost(&mut self, now: Duration) {
        self.caller.lost(now);
    }
}

/// A reply, with a hash for bytes.
fn text(reply: &Reply<'_>) -> String {
    match reply {
        Reply::Range(inode, data) => format!("{inode:?} {} {:x}", data.len(), digest(data)),
        reply => format!("{reply:?}"),
    }
}

/// What a server says that is never lost.
fn expected(world: &mut World, request: &Request) -> String {
    let mut out = Vec::new();
    Server::default().handle(0, &request.encode(1), &mut world.shared, &mut out);
    text(&Reply::decode(&out).unwrap())
}

/// Questions of all kinds about each file, and about what is not there.
fn questions(world: &mut World) -> Vec<Request> {
    let paths: Vec<_> = world.shared.0.keys().cloned().collect();
    let mut questions =
        vec![Request::Stat { path: b"missing".to_vec() }, Request::Space { path: Vec::new() }];
    for path in paths {
        let (inode, _) = world.shared.stat(&path).unwrap();
        questions.push(Request::Stat { path: path.clone() });
        match inode.attributes.kind {
            Kind::Directory => {
                questions.push(Request::Scan { path: path.clone(), from: 0, most: 4096 });
                questions.push(Request::Scan { path, from: 7, most: u32::MAX });
            }
            Kind::File => {
                let other = Request::Range { path: path.clone(), id: 1, offset: 0, len: 9 };
                questions.push(other);
                for offset in (0..=inode.attributes.size).step_by(PART) {
                    let (path, id) = (path.clone(), inode.id);
                    questions.push(Request::Range { path, id, offset, len: PART as u32 });
                }
            }
            _ => {}
        }
    }
    questions
}

fn all_are_answered(faults: Faults) {
    for seed in 0..100 {
        let mut world = World::new(seed);
        let asked = questions(&mut world);
        // All of them are asked at once, and the server may die several times.
        let mut client = Questions::new(PATIENCE * 100);
        for request in &asked {
            client.ask(world.now(), request.clone());
        }
        world.serve(faults, &mut client);
        for (request, answer) in asked.iter().zip(&client.answers) {
            let expected = expected(&mut world, request);
            assert_eq!(answer.as_ref(), Some(&expected), "seed {seed}: {request:?}");
        }
        assert!(client.caller.is_idle() && !client.caller.is_silent());
        // The server answers 32.
        assert!(world.most_in_flight <= 24, "the window and pings: {}", world.most_in_flight);
    }
}

#[test]
fn every_question_has_its_answer() {
    all_are_answered(Faults::default());
}

#[test]
fn questions_that_are_lost_with_a_session_or_a_server_are_asked_again() {
    all_are_answered(Faults { cut: 20, ..Faults::default() });
    all_are_answered(Faults { server_dies: 10, cut: 5, ..Faults::default() });
}

/// No process waits for ever, and those that come later do not wait as long as the first one.
#[test]
fn a_server_that_is_gone_is_an_error_after_a_bounded_time() {
    for seed in 0..20 {
        let mut world = World::new(seed);
        let mut client = Questions::new(PATIENCE);
        let ask = |world: &mut World, client: &mut Questions| {
            let began = world.now();
            for request in questions(world) {
                client.ask(began, request);
            }
            world.serve(Faults::default(), client);
            client.answered - began
        };
        let before = ask(&mut world, &mut client);
        assert_eq!((client.silent(), before < PATIENCE), (0, true));
        // Some hours without a question are no silence.
        world.pass(Duration::from_secs(10_000));
        world.stop_server();
        let asked = client.answers.len();
        let waited = ask(&mut world, &mut client);
        assert_eq!(client.silent(), client.answers.len() - asked);
        assert!(client.caller.is_silent());
        assert!((PATIENCE..PATIENCE + MS * 10).contains(&waited), "{waited:?}");
        let waited = ask(&mut world, &mut client);
        assert!(waited < Duration::from_secs(3), "{waited:?}");
        world.start_server();
        let silent = client.silent();
        world.pass(Duration::from_secs(10));
        let waited = ask(&mut world, &mut client);
        assert!(!client.caller.is_silent() && waited < PATIENCE);
        assert_eq!(client.silent(), silent, "it answers again");
    }
}

/// Parts of a large file, as many as these.
fn parts(world: &mut World, count: u64) -> Vec<Request> {
    let path = b"parts".to_vec();
    world.shared.0.insert(path.clone(), crate::world::file(vec![7; PART * count as usize], 1));
    let id = world.shared.stat(&path).unwrap().0.id;
    let part =
        |n| Request::Range { path: path.clone(), id, offset: n * PART as u64, len: PART as u32 };
    (0..count).map(part).collect()
}

/// All of them take much longer than the patience.
#[test]
fn a_server_that_is_slow_and_alive_is_no_silent_one() {
    for seed in 0..5 {
        let mut world = World::new(seed);
        // 1 Mbit/s.
        world.per_byte = Duration::from_micros(8);
        let mut client = Questions::new(PATIENCE);
        for request in parts(&mut world, 60) {
            client.ask(world.now(), request);
        }
        world.serve(Faults::default(), &mut client);
        assert!(client.answered > PATIENCE * 4, "{:?}", client.answered);
        assert_eq!((client.silent(), client.caller.is_silent()), (0, false), "seed {seed}");
        assert!(world.most_in_flight <= 24, "the window and pings: {}", world.most_in_flight);
    }
}

/// A server that hears and does nothing for a while, as with a disk that hangs. Its replies come
/// when the questions were given up.
#[test]
fn a_server_is_used_again_after_replies_that_came_too_late() {
    for seed in 0..2 {
        let mut world = World::new(seed);
        let mut client = Questions::new(PATIENCE);
        let asked = parts(&mut world, 20);
        let expected: Vec<_> = asked.iter().map(|part| Some(expected(&mut world, part))).collect();
        let ask = |world: &mut World, client: &mut Questions| {
            let first = client.answers.len();
            for request in &asked {
                client.ask(world.now(), request.clone());
            }
            world.serve(Faults::default(), client);
            first
        };
        for hangs in [1, 2, 4] {
            world.stall_server(PATIENCE * hangs);
            let silent = client.silent();
            while world.now() < world.stalled() {
                ask(&mut world, &mut client);
                world.pass(MS * 1000);
            }
            assert!(client.silent() > silent);
            // What was late arrives beside the answers to these.
            for _ in 0..2 {
                let first = ask(&mut world, &mut client);
                assert!(client.answers[first..] == expected, "seed {seed}");
            }
        }
    }
}

/// A server that is alive and never answers one question.
#[test]
fn a_question_alone_without_an_answer_ends_in_any_case() {
    let mut caller = Caller::new(PATIENCE, 1);
    caller.ask(Duration::ZERO, Request::Stat { path: Vec::new() }, 0);
    let Want::Send(_) = caller.next(Duration::ZERO) else { panic!("it is not sent") };
    let (mut now, mut question) = (Duration::ZERO, 1);
    let failed = loop {
        caller.ask(now, Request::Stat { path: Vec::new() }, question);
        let number = loop {
            match caller.next(now) {
                Want::Send(sent) if sent.message != Request::Ping.encode(sent.number) => {
                    break sent.number;
                }
                Want::Send(_) | Want::Forget(_) => {}
                want => panic!("{want:?}"),
            }
        };
        now += Duration::from_secs(5);
        // An error, which is an answer.
        let answer = caller.reply(now, number, &[1, Fault::Denied as u8]);
        assert_eq!(answer.map(|(question, _)| question), Some(question));
        question += 1;
        if let Some((failed, _)) = caller.failed(now) {
            break failed;
        }
        assert!(now < PATIENCE * 30);
    };
    assert_eq!((failed, caller.is_silent()), (0, false));
    assert!(now > PATIENCE * 3);
}

/// A file that changes meanwhile is read as it is, and bytes of another file never.
#[test]
fn whatever_a_server_says_a_question_has_one_answer() {
    for seed in 0..300 {
        let mut world = World::new(seed);
        let mut client = Questions::new(PATIENCE);
        for request in questions(&mut world) {
            client.ask(world.now(), request);
        }
        let faults = Faults { lies: 200, cut: 5, changes: 50, ..Faults::default() };
        world.serve(faults, &mut client);
        assert!(client.answers.iter().all(Option::is_some), "seed {seed}");
    }
}

#[test]
fn a_number_is_not_used_twice_when_all_have_been() {
    let mut world = World::new(1);
    let mut client = Questions::new(PATIENCE);
    client.caller = Caller::new(PATIENCE, u32::MAX - 80);
    for _ in 0..40 {
        client.ask(world.now(), Request::Stat { path: Vec::new() });
    }
    world.serve(Faults::default(), &mut client);
    let expected = expected(&mut world, &Request::Stat { path: Vec::new() });
    assert!(client.answers.iter().all(|answer| answer.as_ref() == Some(&expected)));
}
