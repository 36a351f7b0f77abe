//! The handshake: honest clients, strangers, other keys and versions.

use crate::server::{SOON, Server, connect, framed, key, message, rest};
use gigae_eval_session::control::{self, ControlError, Key, Reply, Request};
use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, TcpListener};
use std::time::Instant;

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
fn a_client_with_another_key_is_refused_and_the_server_goes_on() {
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
    // Far more than any greeting has. The server closes without reading on, which its kernel calls
    // a reset; had it waited for more of the message, it would have read what is there, and ended
    // in order.
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
    // Nothing more comes. The connection stays open until the deadline; then an honest client is
    // served.
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
        stream.write_all(&framed(greeting.replace(&ours, ":98,").as_bytes())).unwrap();
        rest(&mut stream);
    });
    let error = connect(address, &key()).unwrap_err();
    assert!(matches!(error, ControlError::OtherVersion { theirs: 98 }), "{error}");
    other.join().unwrap();
}

#[test]
fn a_greeting_sent_back_to_its_author_proves_nothing() {
    // A reflection: the stranger repeats the server's own random number and hopes for its own
    // proof.
    let server = Server::start();
    let mut stream = server.raw();
    let greeting = message(&mut stream);
    stream.write_all(&framed(&greeting)).unwrap();
    stream.write_all(&framed(&[9; 48])).unwrap();
    assert_eq!(rest(&mut stream), 0, "the server proved itself to a stranger");
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
