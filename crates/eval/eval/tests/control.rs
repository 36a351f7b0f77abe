//! The control connection over loopback: honest ends, hostile bytes, ends that vanish.

use gigae_eval::control::{self, ControlError, Key, Limits, Reply, Request, Session, Waiting};
use gigae_eval::door::Door;
use gigae_eval::plan::{Condition, Experiment, Setting, TcpOptions, Wait};
use gigae_eval::serve::{self, Presence, Rules, Service};
use gigae_eval::site::Site;
use gigae_eval::transport::Task;
use socket2::{Domain, SockAddr, Socket, Type};
use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, channel};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

const SECRET: &[u8] = b"0123456789abcdef";
/// A bound against hanging only: nothing is concluded from how long it really takes.
const SOON: Duration = Duration::from_secs(60);

/// A server on loopback that ends with the test.
struct Server {
    address: SocketAddr,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Server {
    fn start() -> Self {
        Self::with("127.0.0.1:0", Rules::default())
    }

    fn limited(limits: Limits) -> Self {
        Self::with("127.0.0.1:0", Rules { limits, ..Rules::default() })
    }

    fn with(listen: &str, rules: Rules) -> Self {
        Self::at(TcpListener::bind(listen).unwrap(), None, rules, false)
    }

    fn at(listener: TcpListener, metrics: Option<TcpListener>, rules: Rules, door: bool) -> Self {
        let address = listener.local_addr().unwrap();
        let stop = Arc::new(AtomicBool::new(false));
        let flag = Arc::clone(&stop);
        let thread = std::thread::spawn(move || {
            let mut site = Site::find("lo").unwrap();
            site.door = door.then(|| Arc::new(Door::new(address.port())));
            let service = Service {
                listener: &listener,
                key: &key(),
                site: &site,
                presence: Presence::none(),
                rules,
                metrics: metrics.as_ref(),
            };
            serve::serve(service, &flag, &mut |_| {}).unwrap();
        });
        Self { address, stop, thread: Some(thread) }
    }

    fn raw(&self) -> TcpStream {
        let stream = TcpStream::connect(self.address).unwrap();
        stream.set_read_timeout(Some(SOON * 2)).unwrap();
        stream
    }

    /// An honest client, as soon as it is its turn.
    fn client(&self) -> Session {
        connect(self.address, &key()).unwrap()
    }

    /// Whether an honest client is served; also waits until the server is done with the one before.
    fn serves(&self) -> bool {
        matches!(self.client().ask(&Request::Describe, SOON), Ok(Reply::Description(_)))
    }
}

fn connect(to: SocketAddr, key: &Key) -> Result<Session, ControlError> {
    control::connect(&to.to_string(), key, &mut |_| true)
}

impl Drop for Server {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            // A panic in the server has already failed the test by its silence.
            let _ = thread.join();
        }
    }
}

fn key() -> Key {
    Key::from_bytes(SECRET).unwrap()
}

fn framed(body: &[u8]) -> Vec<u8> {
    [&u32::try_from(body.len()).unwrap().to_be_bytes(), body].concat()
}

/// Reads one length-prefixed message.
fn message(stream: &mut TcpStream) -> Vec<u8> {
    let mut length = [0; 4];
    stream.read_exact(&mut length).unwrap();
    let mut body = vec![0; u32::from_be_bytes(length) as usize];
    stream.read_exact(&mut body).unwrap();
    body
}

/// Bytes until the server closes.
fn rest(stream: &mut TcpStream) -> usize {
    let mut all = Vec::new();
    // A reset is as good as a close.
    let _ = stream.read_to_end(&mut all);
    all.len()
}

#[test]
fn an_honest_client_is_described_the_other_end() {
    let server = Server::start();
    let mut session = server.client();
    let Ok(Reply::Description(end)) = session.ask(&Request::Describe, SOON) else {
        panic!("no description")
    };
    assert_eq!(end.interface, "lo");
    let reply = session.ask(&Request::Finish { bytes: 1 }, SOON).unwrap();
    assert!(matches!(reply, Reply::Failed { .. }), "nothing was running: {reply:?}");
}

#[test]
fn a_client_with_another_key_is_told_so_and_the_server_goes_on() {
    let server = Server::start();
    let wrong = Key::from_bytes(b"another key, long").unwrap();
    let error = connect(server.address, &wrong).unwrap_err();
    assert!(matches!(error, ControlError::WrongKey), "{error}");
    assert_eq!(error.to_string().lines().count(), 1);
    assert!(server.serves());
}

#[test]
fn garbage_ends_its_own_connection_only() {
    let server = Server::start();
    let bodies: [&[u8]; 5] = [
        b"\xff\xff\xff\xff",
        b"GET / HTTP/1.1\r\n\r\n",
        &[0; 64],
        &framed(b"{}"),
        &framed(b"{\"gigae_eval\":1,\"nonce\":\"zz\"}"),
    ];
    for body in bodies {
        let mut stream = server.raw();
        stream.write_all(body).unwrap();
        let _ = stream.shutdown(Shutdown::Write);
        rest(&mut stream);
        assert!(server.serves(), "after {body:?}");
    }
}

#[test]
fn a_stranger_cannot_make_the_server_wait_for_a_long_message() {
    let server = Server::start();
    let mut stream = server.raw();
    message(&mut stream);
    // Far more than any greeting has. The server closes without reading on, which its kernel calls a reset; had it
    // waited for more of the message, it would have read what is there, and ended in order.
    let begun = [&100_000u32.to_be_bytes()[..], &[0; 1000]].concat();
    stream.write_all(&begun).unwrap();
    let ended = stream.read(&mut [0]).map_err(|error| error.kind());
    assert_eq!(ended, Err(ErrorKind::ConnectionReset), "it waited for the message");
}

#[test]
fn a_truncated_greeting_is_dropped_after_the_handshakes_time() {
    let server = Server::start();
    let mut stream = server.raw();
    message(&mut stream);
    stream.write_all(&framed(b"{\"gigae_eval\"")[..6]).unwrap();
    // Nothing more comes. The connection stays open until the deadline; then an honest client is served.
    assert_eq!(rest(&mut stream), 0);
    assert!(server.serves());
}

#[test]
fn another_version_is_named_by_both_ends() {
    let server = Server::start();
    let mut stream = server.raw();
    let greeting = String::from_utf8(message(&mut stream)).unwrap();
    let ours = format!(":{},", control::VERSION);
    assert!(greeting.contains(&format!("\"gigae_eval\"{ours}")), "{greeting}");
    stream.write_all(&framed(greeting.replace(&ours, ":99,").as_bytes())).unwrap();
    assert_eq!(rest(&mut stream), 0, "no proof for a peer of another version");

    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let other = std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let greeting = String::from_utf8(message(&mut stream)).unwrap();
        stream.write_all(&framed(greeting.replace(&ours, ":7,").as_bytes())).unwrap();
        rest(&mut stream);
    });
    let error = connect(address, &key()).unwrap_err();
    assert!(matches!(error, ControlError::OtherVersion { theirs: 7 }), "{error}");
    other.join().unwrap();
}

#[test]
fn a_greeting_sent_back_to_its_author_proves_nothing() {
    // A reflection: the stranger repeats the server's own random number and hopes for its own proof.
    let server = Server::start();
    let mut stream = server.raw();
    let greeting = message(&mut stream);
    stream.write_all(&framed(&greeting)).unwrap();
    stream.write_all(&framed(&[9; 48])).unwrap();
    assert_eq!(rest(&mut stream), 0, "the server proved itself to a stranger");
    assert!(server.serves());
}

/// Passes bytes between a client and the server, with a say in what the client's become.
fn relay(
    server: SocketAddr,
    change: impl Fn(usize, Vec<u8>) -> Vec<Vec<u8>> + Send + 'static,
) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        let (mut client, _) = listener.accept().unwrap();
        let mut upstream = TcpStream::connect(server).unwrap();
        let (mut back, mut client_back) =
            (upstream.try_clone().unwrap(), client.try_clone().unwrap());
        std::thread::spawn(move || {
            let _ = std::io::copy(&mut back, &mut client_back);
            let _ = client_back.shutdown(Shutdown::Both);
        });
        for index in 0.. {
            // After the two messages of the handshake come records, whose lengths have 2 bytes.
            let mut length = [0; 4];
            let of = if index < 2 { &mut length[..] } else { &mut length[2..] };
            if client.read_exact(of).is_err() {
                break;
            }
            let mut rest = vec![0; u32::from_be_bytes(length) as usize];
            client.read_exact(&mut rest).unwrap();
            let length = if index < 2 { &length[..] } else { &length[2..] };
            for bytes in change(index, [length, &rest].concat()) {
                if upstream.write_all(&bytes).is_err() {
                    return;
                }
            }
        }
        let _ = upstream.shutdown(Shutdown::Both);
    });
    address
}

#[test]
fn a_message_that_was_changed_on_its_way_is_refused() {
    let server = Server::start();
    let between = relay(server.address, |index, mut bytes| {
        if index == 2 {
            *bytes.last_mut().unwrap() ^= 1;
        }
        vec![bytes]
    });
    let mut session = connect(between, &key()).unwrap();
    let answer = session.ask(&Request::Describe, SOON);
    assert!(matches!(answer, Err(ControlError::Closed)), "{answer:?}");
    assert!(server.serves());
}

#[test]
fn a_message_that_is_repeated_is_answered_once() {
    let server = Server::start();
    let between =
        relay(
            server.address,
            |index, bytes| if index == 2 { vec![bytes.clone(), bytes] } else { vec![bytes] },
        );
    let mut session = connect(between, &key()).unwrap();
    assert!(matches!(session.ask(&Request::Describe, SOON), Ok(Reply::Description(_))));
    // The repetition carries a number that has passed; the server ends the session.
    let next: Result<Reply, _> = session.receive(SOON);
    assert!(matches!(next, Err(ControlError::Closed)), "{next:?}");
    assert!(server.serves());
}

#[test]
fn a_server_that_never_answers_is_given_up_in_time() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let begin = Instant::now();
    let error = connect(address, &key()).unwrap_err();
    assert!(matches!(error, ControlError::Silent(_)), "{error}");
    assert!(begin.elapsed() < SOON);
}

#[test]
fn a_client_that_vanishes_in_mid_run_leaves_a_server_that_serves_the_next() {
    let server = Server::start();
    let task = Task {
        experiment: Experiment::Rtt,
        transport: "udp".into(),
        setting: Setting::Default,
        condition: Condition::default(),
        wait: Wait::Sleep,
        size: 8,
        warmup: 0.0,
        measure: 30.0,
        rate: None,
    };
    let mut session = server.client();
    let address = Site::find("lo").unwrap().address(9);
    let ready = session.ask(&Request::Run { task, address }, SOON).unwrap();
    assert!(matches!(ready, Reply::Ready(_)), "{ready:?}");
    drop(session);
    assert!(server.serves());
}

#[test]
fn a_client_that_asks_for_too_much_is_refused() {
    use gigae_eval::plan::XdpOptions;
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
fn nobody_on_the_way_reads_what_is_said() {
    let server = Server::start();
    let heard = Arc::new(Mutex::new(Vec::<u8>::new()));
    let ear = Arc::clone(&heard);
    let between = relay(server.address, move |_, bytes| {
        ear.lock().unwrap().extend(&bytes);
        vec![bytes]
    });
    let mut session = connect(between, &key()).unwrap();
    assert!(matches!(session.ask(&Request::Describe, SOON), Ok(Reply::Description(_))));
    let heard = heard.lock().unwrap();
    let says = |word: &[u8]| heard.windows(word.len()).any(|part| part == word);
    assert!(says(b"gigae_eval"), "the greeting is in the clear");
    assert!(!says(b"describe") && !says(SECRET));
}

#[test]
fn what_was_recorded_opens_no_session_later() {
    let server = Server::start();
    let heard = Arc::new(Mutex::new(Vec::<u8>::new()));
    let ear = Arc::clone(&heard);
    let between = relay(server.address, move |_, bytes| {
        ear.lock().unwrap().extend(&bytes);
        vec![bytes]
    });
    drop(connect(between, &key()).unwrap());
    let mut stream = server.raw();
    message(&mut stream);
    stream.write_all(&heard.lock().unwrap()).unwrap();
    assert_eq!(rest(&mut stream), 0, "the server took an old proof");
    assert!(server.serves());
}

#[test]
fn messages_beyond_a_record_arrive_whole() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let text = "x".repeat(300_000);
    let reply = Reply::Failed { reason: text.clone(), unavailable: false };
    let other = std::thread::spawn(move || {
        let mut session = control::accept(listener.accept().unwrap().0, &key()).unwrap();
        session.send(&Reply::Welcome(Limits::default())).unwrap();
        session.send(&reply).unwrap();
        session.send(&Reply::Cancelled).unwrap();
    });
    let mut session = connect(address, &key()).unwrap();
    let first: Reply = session.receive(SOON).unwrap();
    assert!(matches!(first, Reply::Failed { reason, .. } if reason == text));
    assert_eq!(session.receive::<Reply>(SOON).unwrap(), Reply::Cancelled);
    other.join().unwrap();
}

/// A client in a thread, and what it is told while it waits.
fn queue(server: &Server) -> (Receiver<Waiting>, JoinHandle<Result<Session, ControlError>>) {
    let (told, hear) = channel();
    let to = server.address.to_string();
    let connect = move || control::connect(&to, &key(), &mut |one| told.send(*one).is_ok());
    (hear, std::thread::spawn(connect))
}

#[test]
fn clients_queue_and_hear_their_place() {
    let server = Server::limited(Limits { seconds: Some(600.0), rate: None });
    let first = server.client();
    assert_eq!(first.limits.seconds, Some(600.0));
    let (hear, second) = queue(&server);
    let told = hear.recv_timeout(SOON).unwrap();
    assert!(told.before == 1 && told.at_most.is_some_and(|most| most <= 600.0), "{told:?}");
    let (hear_third, third) = queue(&server);
    assert_eq!(hear_third.recv_timeout(SOON).unwrap().before, 2);
    drop(first);
    let mut second = second.join().unwrap().unwrap();
    assert!(matches!(second.ask(&Request::Describe, SOON), Ok(Reply::Description(_))));
    // The third has moved up.
    let moved = || hear_third.recv_timeout(SOON).unwrap().before;
    while moved() != 1 {}
    drop(second);
    let mut third = third.join().unwrap().unwrap();
    assert!(matches!(third.ask(&Request::Describe, SOON), Ok(Reply::Description(_))));
}

#[test]
fn who_goes_while_waiting_makes_room() {
    let server = Server::start();
    let first = server.client();
    let (hear, second) = queue(&server);
    assert_eq!(hear.recv_timeout(SOON).unwrap().before, 1);
    let (hear_third, third) = queue(&server);
    assert_eq!(hear_third.recv_timeout(SOON).unwrap().before, 2);
    // Its next word finds nobody, and it gives up.
    drop(hear);
    assert!(matches!(second.join().unwrap(), Err(ControlError::GivenUp)));
    while hear_third.recv_timeout(SOON).unwrap().before != 1 {}
    drop(first);
    assert!(third.join().unwrap().is_ok());
}

#[test]
fn a_server_that_ends_says_so_to_all() {
    let server = Server::start();
    let mut first = server.client();
    let (hear, second) = queue(&server);
    assert_eq!(hear.recv_timeout(SOON).unwrap().before, 1);
    drop(server);
    assert!(matches!(second.join().unwrap(), Err(ControlError::Over(_))));
    let last: Result<Reply, _> = first.receive(SOON);
    assert!(matches!(last, Ok(Reply::Over { .. })), "{last:?}");
}

/// A connection from an address of the loopback network, which says nothing.
fn silent(from: &str, to: SocketAddr) -> TcpStream {
    let from: SocketAddr = from.parse().unwrap();
    let socket = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
    socket.bind(&SockAddr::from(from)).unwrap();
    socket.connect(&to.into()).unwrap();
    socket.set_read_timeout(Some(SOON * 2)).unwrap();
    socket.into()
}

#[test]
fn strangers_who_say_nothing_hold_up_nobody_and_have_a_bounded_number() {
    let server = Server::start();
    let mut strangers: Vec<_> = (0..20).map(|_| silent("127.0.0.2:0", server.address)).collect();
    // Each that has a handshake is greeted; the others are closed at once.
    let greeted = |stream: &mut TcpStream| stream.read(&mut [0; 4]).is_ok_and(|bytes| bytes > 0);
    let greeted = strangers.iter_mut().filter_map(|one| greeted(one).then_some(())).count();
    assert!((1..=8).contains(&greeted), "{greeted} handshakes of one source");
    assert!(server.serves());
}

/// Ends the server when its client is through, or failed.
struct Stop<'a>(&'a AtomicBool);

impl Drop for Stop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

#[test]
fn a_flood_of_refused_addresses_is_taken_slowly_and_said_in_two_lines() {
    let (listener, key) = (TcpListener::bind("127.0.0.1:0").unwrap(), key());
    let (address, site) = (listener.local_addr().unwrap(), Site::find("lo").unwrap());
    let rules = Rules { allow: vec!["198.18.0.0/15".parse().unwrap()], ..Rules::default() };
    let (stop, lines) = (AtomicBool::new(false), Mutex::new(Vec::new()));
    let begin = Instant::now();
    std::thread::scope(|scope| {
        let _stop = Stop(&stop);
        scope.spawn(|| {
            let (presence, metrics) = (Presence::none(), None);
            let service =
                Service { listener: &listener, key: &key, site: &site, presence, rules, metrics };
            let mut tell = |line: &str| lines.lock().unwrap().push(line.to_owned());
            serve::serve(service, &stop, &mut tell).unwrap();
        });
        for _ in 0..500 {
            // Closed without a word.
            let mut stream = TcpStream::connect(address).unwrap();
            assert!(matches!(stream.read(&mut [0; 1]), Ok(0) | Err(_)));
        }
    });
    // 64 at once, 1,000 a second after them: no machine is faster.
    assert!(begin.elapsed() >= Duration::from_millis(436), "{:?}", begin.elapsed());
    let lines = lines.into_inner().unwrap();
    assert!(lines[0].contains("not among the addresses that may come"), "{lines:?}");
    // A second one if the machine took a minute for it.
    assert!(lines.len() <= 2, "{} lines", lines.len());
}

#[test]
fn only_the_networks_that_are_allowed_are_served() {
    let allow = vec!["127.0.0.2/32".parse().unwrap()];
    let server = Server::with("127.0.0.1:0", Rules { allow, ..Rules::default() });
    let refused = connect(server.address, &key());
    assert!(matches!(refused, Err(ControlError::Closed)), "{refused:?}");
    message(&mut silent("127.0.0.2:0", server.address));
}

fn task(transport: &str, rate: Option<f64>, measure: f64) -> Task {
    Task {
        experiment: Experiment::Stream,
        transport: transport.into(),
        setting: Setting::Default,
        condition: Condition::default(),
        wait: Wait::Sleep,
        size: 1400,
        warmup: 0.0,
        measure,
        rate,
    }
}

fn run(session: &mut Session, task: Task, port: u16) -> Reply {
    let address = Site::find("lo").unwrap().address(port);
    session.ask(&Request::Run { task, address }, SOON).unwrap()
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
    // 20 MB, 64 at a time, so that they find room: far more than 100 kB/s allow in any time it takes.
    for number in 0..15_000 {
        // Once it is refused nobody listens any more.
        let _ = socket.send(&[0; 1400]);
        if number % 64 == 0 {
            std::thread::sleep(Duration::from_millis(1));
        }
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
    assert!(reason.contains("1.1 Mbit/s") && reason.contains("--max-rate"), "{reason}");
    assert!(matches!(run(&mut session, paced(10.0), 9), Reply::Ready(_)));
    assert_eq!(session.ask(&Request::Cancel, SOON * 4).unwrap(), Reply::Cancelled);
    let reply = run(&mut session, beside_a_stream(Some(1e5)), 9);
    let Reply::Failed { reason, unavailable: true } = reply else { panic!("{reply:?}") };
    assert!(reason.contains("--max-rate"), "{reason}");
}

fn beside_a_stream(rate: Option<f64>) -> Task {
    let condition = Condition { bulk: 1, ..Condition::default() };
    Task { experiment: Experiment::Rtt, condition, ..task("udp", rate, 20.0) }
}

#[test]
fn bulk_streams_have_a_port_where_there_is_more_than_one() {
    let server = Server::start();
    let mut session = server.client();
    let Reply::Ready(to) = run(&mut session, beside_a_stream(None), 9) else { panic!() };
    assert!(TcpStream::connect((to.ip, to.bulk)).is_ok());
    assert_eq!(session.ask(&Request::Cancel, SOON * 4).unwrap(), Reply::Cancelled);
    assert!(TcpStream::connect((to.ip, to.bulk)).is_err(), "it is still open");
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let server = Server::at(listener, None, Rules::default(), true);
    let mut session = server.client();
    let reply = run(&mut session, beside_a_stream(None), 9);
    let Reply::Failed { reason, unavailable: true } = reply else { panic!("{reply:?}") };
    assert!(reason.contains("--one-port"), "{reason}");
}

#[test]
fn with_one_port_udp_and_tcp_come_by_that_of_the_control_connection() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let server = Server::at(listener, None, Rules::default(), true);
    let mut session = server.client();
    let Reply::Ready(to) = run(&mut session, task("udp", None, 1.0), 9) else { panic!() };
    assert_eq!(to.port, server.address.port());
    assert_eq!(session.ask(&Request::Cancel, SOON * 4).unwrap(), Reply::Cancelled);
    // The server is told from which port the measured connection comes.
    let from: SocketAddr = "127.0.0.1:0".parse().unwrap();
    let socket = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
    socket.bind(&from.into()).unwrap();
    let port = socket.local_addr().unwrap().as_socket().unwrap().port();
    let setting = Setting::Tcp(TcpOptions::default());
    let tcp = Task { setting, ..task("tcp", None, 20.0) };
    let Reply::Ready(to) = run(&mut session, tcp, port) else { panic!() };
    assert_eq!(to.port, server.address.port());
    socket.connect(&SocketAddr::new(to.ip, to.port).into()).unwrap();
    let mut stream = TcpStream::from(socket);
    stream.write_all(&[0; 14_000]).unwrap();
    let reply = session.ask(&Request::Finish { bytes: 14_000 }, SOON * 4).unwrap();
    assert!(matches!(&reply, Reply::Done(answered) if answered.bytes == 14_000), "{reply:?}");
    // Others at that port are still clients.
    drop(session);
    assert!(server.serves());
}

#[test]
fn clients_come_over_ipv6() {
    let server = Server::with("[::1]:0", Rules::default());
    assert!(server.serves());
    let networks = vec!["::1".parse().unwrap()];
    let server = Server::with("[::]:0", Rules { allow: networks, ..Rules::default() });
    let at = |ip: &str| format!("{ip}:{}", server.address.port());
    assert!(control::connect(&at("[::1]"), &key(), &mut |_| true).is_ok());
    let refused = control::connect(&at("127.0.0.1"), &key(), &mut |_| true);
    assert!(matches!(refused, Err(ControlError::Closed)), "{refused:?}");
}

#[test]
fn figures_are_told_to_whoever_asks_while_a_client_is_served() {
    let [listener, metrics] = [(); 2].map(|()| TcpListener::bind("127.0.0.1:0").unwrap());
    let address = metrics.local_addr().unwrap();
    let server = Server::at(listener, Some(metrics), Rules::default(), false);
    let page = || {
        let mut stream = TcpStream::connect(address).unwrap();
        stream.set_read_timeout(Some(SOON)).unwrap();
        stream.write_all(b"GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n").unwrap();
        let mut text = String::new();
        stream.read_to_string(&mut text).unwrap();
        text
    };
    let says = |line: &str| page().lines().any(|other| other == line);
    assert!(says("gigae_serve_clients 0"));
    let mut session = server.client();
    assert!(matches!(session.ask(&Request::Describe, SOON), Ok(Reply::Description(_))));
    let deadline = Instant::now() + SOON;
    while !says("gigae_serve_clients 1") {
        assert!(Instant::now() < deadline, "{}", page());
    }
    drop(session);
    assert!(server.serves());
    while !says("gigae_serve_clients_total{result=\"done\"} 2") {
        assert!(Instant::now() < deadline, "{}", page());
    }
}
