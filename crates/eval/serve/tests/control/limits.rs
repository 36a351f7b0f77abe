//! Tasks that the server refuses, by its own bounds or by its owner's.

use crate::server::{SOON, Server, beside_a_stream, run, task};
use gigae_eval_measure::site::Site;
use gigae_eval_measure::transport::Task;
use gigae_eval_model::plan::{Condition, Experiment, Setting, Wait};
use gigae_eval_session::control::{ControlError, Limits, Reply, Request};
use std::io::ErrorKind;
use std::net::UdpSocket;
use std::time::{Duration, Instant};

#[test]
fn a_client_that_asks_for_too_much_is_refused() {
    use gigae_eval_model::plan::XdpOptions;
    let server = Server::start();
    let mut session = server.client();
    let address = Site::find("lo").unwrap().address(9);
    let fair = Task {
        experiment: Experiment::Stream,
        transport: "udp".into(),
        setting: Setting::Default,
        condition: Condition::default(),
        wait: Wait::Spin,
        size: 8,
        warmup: 0.0,
        measure: 1.0,
        rate: None,
    };
    let unfair = [
        Task { measure: 1e9, ..fair.clone() },
        Task { warmup: -1.0, ..fair.clone() },
        Task { size: usize::MAX, ..fair.clone() },
        Task { size: 0, ..fair.clone() },
        Task { transport: "smoke".into(), ..fair.clone() },
        Task { wait: Wait::Adaptive, ..fair.clone() },
        Task { transport: "icmp".into(), ..fair.clone() },
        Task { experiment: Experiment::Memory, ..fair.clone() },
        Task { experiment: Experiment::Paced, ..fair.clone() },
        Task { condition: Condition { rate: Some(1e3), ..Condition::default() }, ..fair.clone() },
        Task { condition: Condition { bulk: 1000, ..Condition::default() }, ..fair.clone() },
        Task {
            setting: Setting::Xdp(XdpOptions { batch: Some(0), ..XdpOptions::default() }),
            ..fair
        },
    ];
    for task in unfair {
        let reply = session
            .ask(&Request::Run { task: task.clone(), address: address.clone() }, SOON)
            .unwrap();
        assert!(matches!(reply, Reply::Failed { unavailable: true, .. }), "{task:?}: {reply:?}");
    }
}

#[test]
fn what_the_owner_does_not_allow_ends_the_session_with_the_reason() {
    let limits = Limits { seconds: Some(60.0), rate: Some(1e6) };
    for (task, word) in [
        (task("udp", Some(1e6), 61.0), "--max-duration"),
        (task("udp", Some(2e6), 1.0), "--max-rate"),
        (task("udp", None, 1.0), "--max-rate"),
    ] {
        let server = Server::limited(limits);
        let mut session = server.client();
        assert_eq!(session.limits, limits);
        match run(&mut session, task, 9) {
            Reply::Over { reason } => assert!(reason.contains(word), "{reason}"),
            other => panic!("{other:?}"),
        }
        assert!(matches!(session.receive::<Reply>(SOON), Err(ControlError::Closed)));
        assert!(server.serves());
    }
}

#[test]
fn a_client_that_sends_faster_than_it_said_is_refused() {
    let server = Server::limited(Limits { seconds: None, rate: Some(1e5) });
    let slow = Task {
        experiment: Experiment::Paced,
        condition: Condition { rate: Some(10.0), ..Condition::default() },
        ..task("udp", Some(1e5), 20.0)
    };
    for experiment in [Experiment::Stream, Experiment::Rtt, Experiment::Idle] {
        faster_than_said(&server, Task { experiment, ..task("udp", Some(1e5), 20.0) });
    }
    faster_than_said(&server, slow);
}

fn faster_than_said(server: &Server, task: Task) {
    let mut session = server.client();
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    let port = socket.local_addr().unwrap().port();
    let Reply::Ready(to) = run(&mut session, task, port) else { panic!("not ready") };
    socket.connect((to.ip, to.port)).unwrap();
    // Far more than 100 kB/s allow, 64 datagrams at a time, so that they find room. Once it is
    // refused no process listens any more, and the kernel says so; the server does when it is
    // asked.
    let listens = || {
        let sent = socket.send(&[0; 1400]);
        !sent.is_err_and(|error| error.kind() == ErrorKind::ConnectionRefused)
    };
    let end = Instant::now() + SOON;
    while (0..64).all(|_| listens()) {
        assert!(Instant::now() < end, "it is not refused");
        std::thread::sleep(Duration::from_millis(1));
    }
    let reply = session.ask(&Request::Finish { bytes: 0 }, SOON * 4).unwrap();
    let Reply::Failed { reason, unavailable: true } = reply else { panic!("{reply:?}") };
    assert!(reason.contains("faster"), "{reason}");
}

#[test]
fn conditions_that_the_owners_limits_leave_no_room_for_are_refused_and_others_are_not() {
    let server = Server::limited(Limits { seconds: None, rate: Some(1e5) });
    let mut session = server.client();
    let paced = |rate| Task {
        experiment: Experiment::Paced,
        condition: Condition { rate: Some(rate), ..Condition::default() },
        ..task("udp", Some(1e5), 20.0)
    };
    // Messages of 1,400 B: 140 kB/s of 100 kB/s, and a tenth of that.
    let reply = run(&mut session, paced(100.0), 9);
    let Reply::Failed { reason, unavailable: false } = reply else { panic!("{reply:?}") };
    assert!(reason.contains("1.12 Mbit/s") && reason.contains("--max-rate"), "{reason}");
    assert!(matches!(run(&mut session, paced(10.0), 9), Reply::Ready(_)));
    assert_eq!(session.ask(&Request::Cancel, SOON * 4).unwrap(), Reply::Cancelled);
    let reply = run(&mut session, beside_a_stream(Some(1e5)), 9);
    let Reply::Failed { reason, unavailable: true } = reply else { panic!("{reply:?}") };
    assert!(reason.contains("--max-rate"), "{reason}");
}
