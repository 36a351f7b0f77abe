//! TCP connections on the same NICs: what the kernel carries must not notice what happens to us.

use gigae_fabric::Node;
use std::io::{ErrorKind, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Bytes that are sent and come back, in turns.
const TURN: usize = 1000;

/// Pause between turns: the connection must be there, not fill the link.
const PAUSE: Duration = Duration::from_millis(3);

/// Longest wait for a turn's bytes. The kernel doubles the time between retransmissions, so one
/// comes at the latest when an outage has been over for as long as it lasted; where programs wait
/// for a processor, that is many seconds.
const PATIENCE: Duration = Duration::from_secs(300);

/// Port of the end that answers.
const PORT: u16 = 7;

/// One connection, that is used all the time until it is ended.
pub(crate) struct Connection {
    stop: Arc<AtomicBool>,
    turns: Arc<AtomicU64>,
    threads: Vec<JoinHandle<Result<(), String>>>,
}

impl Connection {
    /// Connects a node to another.
    pub(crate) fn new(from: &Node, to: &Node) -> Result<Self, String> {
        let text = |error: std::io::Error| format!("a TCP connection: {error}");
        let (accepted, connected) = {
            let listener = {
                let _inside = to.enter().map_err(|error| error.to_string())?;
                TcpListener::bind((to.ipv4, PORT)).map_err(text)?
            };
            let _inside = from.enter().map_err(|error| error.to_string())?;
            let stream = TcpStream::connect((to.ipv4, PORT)).map_err(text)?;
            (listener.accept().map_err(text)?.0, stream)
        };
        for stream in [&accepted, &connected] {
            stream.set_nodelay(true).map_err(text)?;
            stream.set_read_timeout(Some(PAUSE)).map_err(text)?;
        }
        let (stop, turns) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
        let (stop_1, stop_2, counted) = (Arc::clone(&stop), Arc::clone(&stop), Arc::clone(&turns));
        let threads = vec![
            std::thread::spawn(move || echo(accepted, &stop_1)),
            std::thread::spawn(move || converse(connected, &stop_2, &counted)),
        ];
        Ok(Self { stop, turns, threads })
    }

    /// Bytes that came back as they were sent.
    pub(crate) fn bytes(&self) -> u64 {
        self.turns.load(Ordering::Relaxed) * TURN as u64
    }

    /// Some more turns must pass, and all must have been right; how many bytes came back in all.
    pub(crate) fn finish(mut self) -> Result<u64, String> {
        let (before, end) = (self.turns.load(Ordering::Relaxed), Instant::now() + PATIENCE);
        while self.turns.load(Ordering::Relaxed) < before + 3 {
            if Instant::now() > end || self.threads.iter().any(JoinHandle::is_finished) {
                break;
            }
            std::thread::sleep(PAUSE);
        }
        let went_on = self.turns.load(Ordering::Relaxed) >= before + 3;
        let bytes = self.bytes();
        self.stop.store(true, Ordering::Relaxed);
        // What ended the one may be what the other complains of.
        let panicked = |_| Err("a TCP thread panicked".to_owned());
        let ends = self.threads.drain(..).map(|thread| thread.join().unwrap_or_else(panicked));
        let errors: Vec<_> = ends.filter_map(Result::err).collect();
        if !errors.is_empty() {
            return Err(errors.join("; at the other end: "));
        }
        match went_on {
            true => Ok(bytes),
            false => Err(format!("the TCP connection makes no progress after {bytes} bytes")),
        }
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
    }
}

/// Fills `bytes`, unless stopped. Returns whether it did.
fn read(stream: &mut TcpStream, bytes: &mut [u8], stop: &AtomicBool) -> Result<bool, String> {
    let (mut at, end) = (0, Instant::now() + PATIENCE);
    while at < bytes.len() {
        let result = stream.read(&mut bytes[at..]);
        // Once stopped, the other end may be gone.
        if stop.load(Ordering::Relaxed) {
            return Ok(false);
        }
        match result {
            Ok(0) => return Err("the TCP connection was closed".into()),
            Ok(count) => at += count,
            Err(e) if [ErrorKind::WouldBlock, ErrorKind::TimedOut].contains(&e.kind()) => {
                if Instant::now() > end {
                    return Err(format!("no byte came by TCP for {PATIENCE:?}"));
                }
            }
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return Err(format!("the TCP connection broke: {error}")),
        }
    }
    Ok(true)
}

fn write(stream: &mut TcpStream, bytes: &[u8], stop: &AtomicBool) -> Result<(), String> {
    match stream.write_all(bytes) {
        Err(error) if !stop.load(Ordering::Relaxed) => {
            Err(format!("the TCP connection broke: {error}"))
        }
        _ => Ok(()),
    }
}

fn echo(mut stream: TcpStream, stop: &AtomicBool) -> Result<(), String> {
    let mut bytes = [0; TURN];
    while read(&mut stream, &mut bytes, stop)? {
        write(&mut stream, &bytes, stop)?;
    }
    Ok(())
}

fn converse(mut stream: TcpStream, stop: &AtomicBool, turns: &AtomicU64) -> Result<(), String> {
    let (mut sent, mut came) = ([0; TURN], [0; TURN]);
    loop {
        let turn = turns.load(Ordering::Relaxed);
        gigae_torture::body::stream(turn, &mut sent);
        write(&mut stream, &sent, stop)?;
        if !read(&mut stream, &mut came, stop)? {
            return Ok(());
        }
        if sent != came {
            return Err(format!("turn {turn} came back by TCP with other bytes"));
        }
        turns.store(turn + 1, Ordering::Relaxed);
        std::thread::sleep(PAUSE);
    }
}
