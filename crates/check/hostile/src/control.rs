//! The control connection of the evaluator: a peer that sends any bytes, and an attacker between
//! two honest ends, which changes, repeats, drops and inserts data at will.

use crate::meter::within;
use crate::script::Script;
use gigae_eval_session::ControlError;
use gigae_eval_session::control::{
    FilesRequest, Key, Limits, Reply, Request, Session, accept, connect,
};
use socket2::SockRef;
use std::io::{self, Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::time::{Duration, Instant};

/// A message of the longest kind twice.
const MEMORY: usize = 4 << 20;

/// How long a server that is none listens to its client. Nothing here has to wait at all.
const SOON: Duration = Duration::from_millis(200);

/// Longest wait for what was sent. The kernel drops packets of the loopback interface, too, while
/// other programs flood the processor's queue, and TCP repeats them after ever longer times.
const PATIENCE: Duration = Duration::from_secs(20);

/// An end gives up a handshake after 5 s. Handshakes that may take so long before one is in time.
const LATE_HANDSHAKES: usize = 3;

/// Bytes of an input that are used: what a socket keeps without anybody reading.
const MOST: usize = 32 << 10;

/// Messages from one honest end to the other.
const MESSAGES: u64 = 6;

/// The control connection, by raw bytes at both ends of the handshake, by documents, and with an
/// enemy between two ends that know the same key.
///
/// # Panics
/// If an end does, takes a peer without the key, needs much memory, or takes a message that was not
/// sent, not in its turn, or twice.
pub fn control(input: &[u8]) {
    within(MEMORY, || {
        let mut script = Script::new(input);
        match script.byte() % 8 {
            0..=2 => stranger(&mut script, true),
            3 => stranger(&mut script, false),
            4..=5 => {
                let bytes = script.rest();
                if let Ok(Request::Files(FilesRequest::Serve(job))) = serde_json::from_slice(bytes)
                {
                    let _ = job.check();
                }
                let _ = serde_json::from_slice::<Reply>(bytes);
            }
            _ => between(&mut script),
        }
    });
}

fn key() -> Key {
    Key::from_bytes(&[7; 32]).expect("long enough")
}

/// Two ends of a connection on the loopback interface, which leave nothing behind when they are
/// closed.
fn pair() -> (TcpStream, TcpStream) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("the loopback interface is there");
    let address = listener.local_addr().expect("it is bound");
    let one = TcpStream::connect(address).expect("somebody listens");
    let (other, _) = listener.accept().expect("it is connected");
    for end in [&one, &other] {
        SockRef::from(end).set_linger(Some(Duration::ZERO)).expect("a TCP socket");
    }
    (one, other)
}

/// Says all that it has at once, framed or not, and listens to nothing.
fn stranger(script: &mut Script<'_>, at_server: bool) {
    let framed = script.byte() & 1 == 0;
    let mut said = Vec::new();
    while !script.is_over() && said.len() < MOST {
        if framed {
            let len = usize::from(script.byte());
            let body: &[u8] = match len {
                250.. => br#"{"gigae_eval":4,"nonce":"0000000000000000000000000000000000000000000000000000000000000000"}"#,
                // As long as a message of the handshake: a public key and a code.
                240.. => &[9; 48],
                _ => script.take(len),
            };
            said.extend((body.len() as u32).to_be_bytes());
            said.extend(body);
        } else {
            said.extend(script.take(512));
        }
    }
    said.truncate(MOST);
    if at_server {
        let (mut ours, theirs) = pair();
        ours.write_all(&said).expect("it fits the socket's buffer");
        ours.shutdown(Shutdown::Write).expect("it is connected");
        let taken = accept(theirs, &key());
        assert!(taken.is_err(), "a peer without the key was taken");
    } else {
        // A client comes to a server that is none.
        let listener = TcpListener::bind("127.0.0.1:0").expect("the loopback interface is there");
        let address = listener.local_addr().expect("it is bound").to_string();
        let server = std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().expect("the client comes");
            SockRef::from(&stream).set_linger(Some(Duration::ZERO)).expect("a TCP socket");
            let _ = stream.write_all(&said);
            let _ = stream.shutdown(Shutdown::Write);
            stream.set_read_timeout(Some(SOON)).expect("not zero");
            let _ = stream.read_to_end(&mut Vec::new());
        });
        let taken = connect(&address, &key(), &mut |_| true);
        assert!(taken.is_err(), "a server without the key was taken");
        server.join().expect("it only writes");
    }
}

/// Honest ends after their handshake, and the sockets of who is between them.
struct Ends {
    client: Session,
    server: Session,
    to_client: TcpStream,
    to_server: TcpStream,
}

/// The handshake passes as it is: greeting both ways, proof both ways, the welcome.
///
/// # Panics
/// If it fails in less time than an end waits.
fn honest_ends() -> Option<Ends> {
    let (began, least) = (Instant::now(), Duration::from_secs(5));
    let listener = TcpListener::bind("127.0.0.1:0").expect("the loopback interface is there");
    let address = listener.local_addr().expect("it is bound").to_string();
    let client = std::thread::spawn(move || connect(&address, &key(), &mut |_| true));
    let (mut to_client, _) = listener.accept().expect("the client comes");
    let (mut to_server, server_end) = pair();
    SockRef::from(&to_client).set_linger(Some(Duration::ZERO)).expect("a TCP socket");
    let server = std::thread::spawn(move || {
        let mut server = accept(server_end, &key())?;
        server.send(&Reply::Welcome(Limits::default())).map(|()| server)
    });
    let passed = (|| {
        carry(&mut to_client, &mut to_server)?;
        carry(&mut to_server, &mut to_client)?;
        carry(&mut to_client, &mut to_server)?;
        carry(&mut to_server, &mut to_client)?;
        to_client.write_all(&record(&mut to_server)?)
    })();
    if passed.is_err() {
        // So that no end waits for the rest.
        let _ = (to_client.shutdown(Shutdown::Both), to_server.shutdown(Shutdown::Both));
    }
    let client = client.join().expect("no panic");
    let server = server.join().expect("no panic");
    match (passed, client, server) {
        (Ok(()), Ok(client), Ok(server)) => Some(Ends { client, server, to_client, to_server }),
        (passed, client, server) => {
            let errors = (passed.err(), client.err(), server.err());
            assert!(began.elapsed() >= least, "both have the key, and it failed: {errors:?}");
            None
        }
    }
}

/// An honest client and server, and what is between them.
fn between(script: &mut Script<'_>) {
    let ends = (0..LATE_HANDSHAKES).find_map(|_| honest_ends());
    let Ends { mut client, mut server, mut to_client, mut to_server } =
        ends.expect("a handshake between honest ends is in time");
    let mut messages = Vec::new();
    for n in 0..MESSAGES {
        client.send(&Request::Baseline(n)).expect("somebody is there");
        messages.push(record(&mut to_client).expect("it was sent"));
    }
    let said = meddle(&messages, script);
    to_server.write_all(&said).expect("it fits the socket's buffer");
    to_server.shutdown(Shutdown::Write).expect("it is connected");
    let taken = take(&mut server);
    let whole = messages.concat();
    let untouched = whole.iter().zip(&said).take_while(|(a, b)| a == b).count();
    let len = messages[0].len();
    assert_eq!(taken, (untouched / len) as u64, "messages were taken that were not sent so");
}

/// The changed stream: what was sent, in other order, with bits turned and bytes put in.
fn meddle(messages: &[Vec<u8>], script: &mut Script<'_>) -> Vec<u8> {
    let mut said = Vec::new();
    let mut next = 0;
    while next < messages.len() && said.len() < MOST {
        let mut message = messages[next].clone();
        next += 1;
        match script.byte() % 8 {
            0 => {
                let at = usize::from(script.u16()) % (message.len() * 8);
                message[at / 8] ^= 1 << (at % 8);
            }
            1 => message = messages[usize::from(script.byte()) % messages.len()].clone(),
            2 => message.clear(),
            3 => {
                let put = script.take(64);
                message.splice(0..0, put.iter().copied());
            }
            4 => message.truncate(usize::from(script.byte()) % (message.len() + 1)),
            _ => {}
        }
        said.extend(message);
    }
    said
}

/// Takes messages until one is refused or the stream ends; how many, each in its turn.
fn take(server: &mut Session) -> u64 {
    let mut taken = 0;
    loop {
        match server.receive::<Request>(PATIENCE) {
            Ok(request) => {
                assert_eq!(request, Request::Baseline(taken), "not its turn");
                taken += 1;
            }
            Err(ControlError::Silent(what)) => panic!("it waits to {what} at the stream's end"),
            Err(_) => return taken,
        }
    }
}

/// One message with its length, passed on.
fn carry(from: &mut TcpStream, to: &mut TcpStream) -> io::Result<()> {
    to.write_all(&with_length(from, |len| u32::from_be_bytes(len) as usize)?)
}

/// One encrypted record with its length.
fn record(from: &mut TcpStream) -> io::Result<Vec<u8>> {
    with_length(from, |len| u16::from_be_bytes(len).into())
}

fn with_length<const N: usize>(
    from: &mut TcpStream,
    body: impl Fn([u8; N]) -> usize,
) -> io::Result<Vec<u8>> {
    from.set_read_timeout(Some(PATIENCE))?;
    let mut len = [0; N];
    from.read_exact(&mut len)?;
    let mut bytes = len.to_vec();
    bytes.resize(N + body(len), 0);
    from.read_exact(&mut bytes[N..])?;
    Ok(bytes)
}
