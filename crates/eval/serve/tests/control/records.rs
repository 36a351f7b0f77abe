//! Messages after the handshake: changed, repeated, read on the way, recorded, long.

use crate::server::{SECRET, SOON, Server, connect, key, message, rest};
use gigae_eval_session::control::{self, ControlError, Limits, Reply, Request};
use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};

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
fn nobody_on_the_way_reads_what_is_said() {
    let server = Server::start();
    let recorded = Arc::new(Mutex::new(Vec::<u8>::new()));
    let recorder = Arc::clone(&recorded);
    let between = relay(server.address, move |_, bytes| {
        recorder.lock().unwrap().extend(&bytes);
        vec![bytes]
    });
    let mut session = connect(between, &key()).unwrap();
    assert!(matches!(session.ask(&Request::Describe, SOON), Ok(Reply::Description(_))));
    let recorded = recorded.lock().unwrap();
    let says = |word: &[u8]| recorded.windows(word.len()).any(|part| part == word);
    assert!(says(b"gigae_eval"), "the greeting is in the clear");
    assert!(!says(b"describe") && !says(SECRET));
}

#[test]
fn what_was_recorded_opens_no_session_later() {
    let server = Server::start();
    let recorded = Arc::new(Mutex::new(Vec::<u8>::new()));
    let recorder = Arc::clone(&recorded);
    let between = relay(server.address, move |_, bytes| {
        recorder.lock().unwrap().extend(&bytes);
        vec![bytes]
    });
    drop(connect(between, &key()).unwrap());
    let mut stream = server.raw();
    message(&mut stream);
    stream.write_all(&recorded.lock().unwrap()).unwrap();
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
