//! The control connection over loopback: honest ends, hostile bytes, ends that vanish.

use gigae_eval::control::{self, ControlError, Key, Reply, Request};
use gigae_eval::serve;
use gigae_eval::site::Site;
use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

const SECRET: &[u8] = b"0123456789abcdef";
/// Long enough for a loaded machine; nothing is concluded from how long it really takes.
const SOON: Duration = Duration::from_secs(60);

/// A server on loopback that ends with the test.
struct Server {
    address: SocketAddr,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Server {
    fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let stop = Arc::new(AtomicBool::new(false));
        let flag = Arc::clone(&stop);
        let thread = std::thread::spawn(move || {
            let site = Site::find("lo").unwrap();
            let at = (&site, serve::Presence::none());
            serve::serve(&listener, &key(), at, &flag, &mut |_| {}).unwrap();
        });
        Self { address, stop, thread: Some(thread) }
    }

    fn raw(&self) -> TcpStream {
        let stream = TcpStream::connect(self.address).unwrap();
        stream.set_read_timeout(Some(SOON * 2)).unwrap();
        stream
    }

    /// Whether an honest client is served; also waits until the server is done with the one before.
    fn serves(&self) -> bool {
        let mut session = control::connect(&self.address.to_string(), &key()).unwrap();
        matches!(session.ask(&Request::Describe, SOON), Ok(Reply::Description(_)))
    }
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
    let mut session = control::connect(&server.address.to_string(), &key()).unwrap();
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
    let error = control::connect(&server.address.to_string(), &wrong).unwrap_err();
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
    let address = listener.local_addr().unwrap().to_string();
    let other = std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let greeting = String::from_utf8(message(&mut stream)).unwrap();
        stream.write_all(&framed(greeting.replace(&ours, ":7,").as_bytes())).unwrap();
        rest(&mut stream);
    });
    let error = control::connect(&address, &key()).unwrap_err();
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
    let code = "0".repeat(64);
    stream.write_all(&framed(format!("{{\"code\":\"{code}\"}}").as_bytes())).unwrap();
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
            let mut length = [0; 4];
            if client.read_exact(&mut length).is_err() {
                break;
            }
            // Messages after the two of the handshake have a code of 32 bytes.
            let code = if index < 2 { 0 } else { 32 };
            let mut rest = vec![0; u32::from_be_bytes(length) as usize + code];
            client.read_exact(&mut rest).unwrap();
            for bytes in change(index, [&length[..], &rest].concat()) {
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
    let mut session = control::connect(&between.to_string(), &key()).unwrap();
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
    let mut session = control::connect(&between.to_string(), &key()).unwrap();
    assert!(matches!(session.ask(&Request::Describe, SOON), Ok(Reply::Description(_))));
    // The repetition carries a number that has passed; the server ends the session.
    let next: Result<Reply, _> = session.receive(SOON);
    assert!(matches!(next, Err(ControlError::Closed)), "{next:?}");
    assert!(server.serves());
}

#[test]
fn a_server_that_never_answers_is_given_up_in_time() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let begin = Instant::now();
    let error = control::connect(&address, &key()).unwrap_err();
    assert!(matches!(error, ControlError::Silent(_)), "{error}");
    assert!(begin.elapsed() < SOON);
}

#[test]
fn a_client_that_vanishes_in_mid_run_leaves_a_server_that_serves_the_next() {
    use gigae_eval::plan::{Experiment, Setting, Wait};
    use gigae_eval::transport::Task;
    let server = Server::start();
    let task = Task {
        experiment: Experiment::Rtt,
        transport: "udp".into(),
        setting: Setting::Default,
        wait: Wait::Sleep,
        size: 8,
        warmup: 0.0,
        measure: 30.0,
    };
    let mut session = control::connect(&server.address.to_string(), &key()).unwrap();
    let address = Site::find("lo").unwrap().address(9);
    let ready = session.ask(&Request::Run { task, address }, SOON).unwrap();
    assert!(matches!(ready, Reply::Ready(_)), "{ready:?}");
    drop(session);
    assert!(server.serves());
}

#[test]
fn a_client_that_asks_for_too_much_is_refused() {
    use gigae_eval::plan::{Experiment, Setting, Wait, XdpOptions};
    use gigae_eval::transport::Task;
    let server = Server::start();
    let mut session = control::connect(&server.address.to_string(), &key()).unwrap();
    let address = Site::find("lo").unwrap().address(9);
    let fair = Task {
        experiment: Experiment::Stream,
        transport: "udp".into(),
        setting: Setting::Default,
        wait: Wait::Spin,
        size: 8,
        warmup: 0.0,
        measure: 1.0,
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
fn keys_that_are_too_short_are_refused() {
    let error = Key::from_bytes(b"short").unwrap_err().to_string();
    assert!(error.contains("5 bytes") && error.lines().count() == 1, "{error}");
    let key = Key::random().unwrap();
    assert_eq!(Key::from_hex(&key.to_hex()).unwrap().to_hex(), key.to_hex());
    assert!(Key::from_hex("0g").is_err());
}
