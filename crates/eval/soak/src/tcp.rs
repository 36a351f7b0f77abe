//! The TCP side of a soak: streams and requests over many connections, in one thread.
//!
//! Nothing on a connection says where a piece ends or which it is: both ends compute size and bytes
//! of every piece, so any byte that is lost, doubled or changed shows at its place.

use super::round_state::RoundState;
use gigae_eval_model::soak::DeviationKind;
use gigae_eval_model::traffic::{Budget, EndNumbers, Pacer, Stream, Traffic};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Longest sleep: how late a stop is noticed.
const NAP: Duration = Duration::from_millis(50);

/// Bytes read at a time.
const READ: usize = 64 << 10;

/// Pieces written without a look at the other connections.
const IN_A_ROW: usize = 16;

/// What an end does on a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// Both send as they like.
    Stream,
    /// Sends a request when the last is answered.
    Requester,
    /// Answers each request.
    Responder,
}

/// The connections between two ends, in the order of their numbers, with the roles of the end that
/// makes them.
pub const CONNECTIONS: [Role; 3] = [Role::Stream, Role::Requester, Role::Responder];

impl Role {
    /// The other end's.
    pub fn other(self) -> Self {
        match self {
            Self::Stream => Self::Stream,
            Self::Requester => Self::Responder,
            Self::Responder => Self::Requester,
        }
    }

    /// What it sends and what it receives.
    fn streams(self) -> (Stream, Stream) {
        match self {
            Self::Stream => (Stream::Tcp, Stream::Tcp),
            Self::Requester => (Stream::Ask, Stream::Answer),
            Self::Responder => (Stream::Answer, Stream::Ask),
        }
    }
}

/// A piece that is being written or read.
#[derive(Default)]
struct Piece {
    number: u32,
    bytes: Vec<u8>,
    done: usize,
}

/// An end of a connection.
pub struct Connection {
    socket: TcpStream,
    role: Role,
    /// Place of the peer in the round's state.
    place: usize,
    here: u8,
    there: u8,
    traffic: Traffic,
    pacer: Pacer,
    writing: Piece,
    is_writing: bool,
    reading: Piece,
}

impl Connection {
    /// An open connection, from this end to the other.
    pub fn new(
        socket: TcpStream,
        role: Role,
        place: usize,
        ends: EndNumbers,
        traffic: &Traffic,
        budget: &Arc<Budget>,
    ) -> io::Result<Self> {
        socket.set_nonblocking(true)?;
        socket.set_nodelay(true)?;
        let pacer = Pacer::new(traffic, role.streams().0, ends, budget);
        let traffic = traffic.clone();
        let (writing, reading) = Default::default();
        let mut new = Self {
            socket,
            role,
            place,
            here: ends.from,
            there: ends.to,
            traffic,
            pacer,
            writing,
            is_writing: false,
            reading,
        };
        new.expect(0);
        Ok(new)
    }

    fn make(&self, stream: Stream, ends: EndNumbers, number: u32, bytes: &mut Vec<u8>) {
        let id = self.traffic.id(stream, ends.from, ends.to, number);
        bytes.resize(self.traffic.size(stream, id), 0);
        gigae_body::write(id, bytes);
    }

    /// What is to come next.
    fn expect(&mut self, number: u32) {
        let mut bytes = std::mem::take(&mut self.reading.bytes);
        let ends = EndNumbers { from: self.there, to: self.here };
        self.make(self.role.streams().1, ends, number, &mut bytes);
        self.reading = Piece { number, bytes, done: 0 };
    }

    /// Whether a new piece may be begun.
    fn may_begin(&mut self, now: Duration, quiet: bool) -> bool {
        let (written, read) = (self.writing.number, self.reading.number);
        match self.role {
            Role::Stream => !quiet && self.pacer.due(now),
            Role::Requester => !quiet && written == read && self.pacer.due(now),
            Role::Responder => !quiet && written < read && self.pacer.may_answer(now),
        }
    }

    /// Whether something will be due by itself, without anything that comes.
    fn waits_for_its_turn(&self) -> bool {
        self.role != Role::Responder || self.writing.number < self.reading.number
    }

    /// Writes what may be written; whether the socket took all.
    fn write(&mut self, now: Duration, round_state: &RoundState) -> io::Result<bool> {
        let stream = self.role.streams().0;
        for _ in 0..IN_A_ROW {
            if !self.is_writing {
                if !self.may_begin(now, round_state.is_quiet()) {
                    return Ok(true);
                }
                let mut bytes = std::mem::take(&mut self.writing.bytes);
                let ends = EndNumbers { from: self.here, to: self.there };
                self.make(stream, ends, self.writing.number, &mut bytes);
                (self.writing.bytes, self.writing.done, self.is_writing) = (bytes, 0, true);
            }
            match self.socket.write(&self.writing.bytes[self.writing.done..]) {
                Ok(count) => self.writing.done += count,
                Err(error) if again(&error) => return Ok(false),
                Err(error) => return Err(error),
            }
            if self.writing.done == self.writing.bytes.len() {
                round_state.sent(self.place, stream, self.writing.done);
                self.pacer.sent(self.writing.done);
                (self.writing.number, self.is_writing) = (self.writing.number + 1, false);
            }
        }
        Ok(true)
    }

    /// Reads and verifies what is there; false when the other end has closed.
    fn read(&mut self, scratch: &mut [u8], round_state: &RoundState) -> io::Result<bool> {
        match self.socket.read(scratch) {
            Ok(0) => Ok(false),
            Ok(count) => self.verify(&scratch[..count], round_state).map(|()| true),
            Err(error) if again(&error) => Ok(true),
            Err(error) => Err(error),
        }
    }

    /// Compares what came with what had to come. After a wrong byte nothing on this connection can
    /// be verified any more.
    fn verify(&mut self, mut bytes: &[u8], round_state: &RoundState) -> io::Result<()> {
        let stream = self.role.streams().1;
        while !bytes.is_empty() {
            let wanted = &self.reading.bytes[self.reading.done..];
            let count = wanted.len().min(bytes.len());
            let (here, rest) = bytes.split_at(count);
            if here != &wanted[..count] {
                let at = here.iter().zip(wanted).take_while(|(a, b)| a == b).count();
                let text = format!(
                    "{} from end {}: byte {} of number {} ({} bytes) is {:#04x} and not {:#04x}",
                    stream.name(),
                    self.there,
                    self.reading.done + at,
                    self.reading.number,
                    self.reading.bytes.len(),
                    here[at],
                    wanted[at]
                );
                round_state.found(DeviationKind::Torn, &*text);
                return Err(io::Error::new(io::ErrorKind::InvalidData, text));
            }
            self.reading.done += count;
            if self.reading.done == self.reading.bytes.len() {
                round_state.received(self.place, stream, self.reading.done);
                self.expect(self.reading.number + 1);
            }
            bytes = rest;
        }
        Ok(())
    }
}

fn again(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted)
}

/// Carries the traffic of all connections until the round is over, or one fails.
pub fn work(
    connections: &mut [Connection],
    begin: Instant,
    round_state: &RoundState,
) -> Result<(), String> {
    let mut scratch = vec![0; READ];
    let mut full = vec![false; connections.len()];
    while !round_state.is_over() {
        let now = begin.elapsed();
        round_state.at(now);
        let mut sleep = NAP;
        for (connection, full) in connections.iter_mut().zip(&mut full) {
            let failed = |error: io::Error, connection: &Connection| {
                format!("a TCP connection with end {} failed: {error}", connection.there)
            };
            *full =
                !connection.write(now, round_state).map_err(|error| failed(error, connection))?;
            if !*full && !round_state.is_quiet() && connection.waits_for_its_turn() {
                sleep = sleep.min(connection.pacer.wait(now).max(Duration::from_millis(1)));
            }
        }
        let interest = |full: &bool| {
            if *full { PollFlags::IN | PollFlags::OUT } else { PollFlags::IN }
        };
        let mut polled: Vec<PollFd<'_>> = connections
            .iter()
            .zip(&full)
            .map(|(connection, full)| PollFd::new(&connection.socket, interest(full)))
            .collect();
        let timeout = Timespec::try_from(sleep).ok();
        match poll(&mut polled, timeout.as_ref()) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(format!("waiting for TCP failed: {error}")),
        }
        let ready: Vec<bool> =
            polled.iter().map(|fd| fd.revents().intersects(!PollFlags::OUT)).collect();
        for (connection, _) in connections.iter_mut().zip(ready).filter(|(_, ready)| *ready) {
            match connection.read(&mut scratch, round_state) {
                Ok(true) => {}
                // The other end may leave first at the end of a round. If something is missing
                // then, the counts show it.
                _ if round_state.is_quiet() => return Ok(()),
                Ok(false) => {
                    return Err(format!("end {} closed a TCP connection", connection.there));
                }
                Err(error) => {
                    return Err(format!(
                        "a TCP connection with end {} failed: {error}",
                        connection.there
                    ));
                }
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::TcpListener;

    const TRAFFIC: Traffic = Traffic { seed: 7, round: 0, rate: 2e6, message: 1468 };

    /// From the near end, and from the far one.
    const NEAR: EndNumbers = EndNumbers { from: 0, to: 1 };
    const FAR: EndNumbers = EndNumbers { from: 1, to: 0 };

    fn pair() -> (TcpStream, TcpStream) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let near = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        (near, listener.accept().unwrap().0)
    }

    /// The near end of a stream.
    fn near_stream() -> Connection {
        let budget = Budget::new(&TRAFFIC);
        Connection::new(pair().0, Role::Stream, 0, NEAR, &TRAFFIC, &budget).unwrap()
    }

    /// What the other end would send.
    fn pieces(count: u32) -> Vec<u8> {
        let mut all = Vec::new();
        for number in 0..count {
            let id = TRAFFIC.id(Stream::Tcp, 1, 0, number);
            let mut bytes = vec![0; TRAFFIC.size(Stream::Tcp, id)];
            gigae_body::write(id, &mut bytes);
            all.extend(bytes);
        }
        all
    }

    #[test]
    fn a_lying_byte_is_named_wherever_it_is() {
        let honest = pieces(9);
        for (at, lie) in [(0, 1), (1000, 0x80), (honest.len() - 1, 4)] {
            let mut lying = honest.clone();
            lying[at] ^= lie;
            for step in [1, 999, lying.len()] {
                let round_state = RoundState::new(1);
                let mut connection = near_stream();
                let verified =
                    lying.chunks(step).try_for_each(|part| connection.verify(part, &round_state));
                assert!(verified.is_err());
                let (found, _) = round_state.take_found();
                assert_eq!((found.len(), found[0].kind), (1, DeviationKind::Torn), "{found:?}");
                assert!(found[0].what.starts_with("TCP stream from end 1: byte "), "{found:?}");
            }
        }
    }

    #[test]
    fn a_missing_or_doubled_byte_is_noticed() {
        let honest = pieces(9);
        let mut doubled = honest.clone();
        doubled.insert(500, honest[500] ^ 1);
        let missing = [&honest[..500], &honest[501..]].concat();
        for lying in [doubled, missing] {
            let round_state = RoundState::new(1);
            let mut connection = near_stream();
            assert!(connection.verify(&lying, &round_state).is_err());
        }
    }

    fn ends(
        side: fn(Role) -> Role,
        numbers: EndNumbers,
        sockets: Vec<TcpStream>,
    ) -> Vec<Connection> {
        let roles = CONNECTIONS.iter().map(|role| side(*role));
        let budget = Budget::new(&TRAFFIC);
        let open = |(socket, role)| Connection::new(socket, role, 0, numbers, &TRAFFIC, &budget);
        sockets.into_iter().zip(roles).map(|both| open(both).unwrap()).collect()
    }

    #[test]
    fn nothing_begins_after_the_time_of_the_round_though_nobody_says_that_it_is_over() {
        let (near, _far): (Vec<_>, Vec<_>) = CONNECTIONS.iter().map(|_| pair()).unzip();
        let mut near = ends(|role| role, NEAR, near);
        let time = Duration::from_secs(1);
        let (round_state, begin) =
            (RoundState::until(1, time), Instant::now().checked_sub(2 * time).unwrap());
        std::thread::scope(|scope| {
            let worker = scope.spawn(|| work(&mut near, begin, &round_state));
            let patience = Instant::now();
            while patience.elapsed() < Duration::from_secs(20) && !round_state.is_quiet() {
                std::thread::sleep(Duration::from_millis(5));
            }
            round_state.finish.store(true, std::sync::atomic::Ordering::Relaxed);
            worker.join().unwrap().unwrap();
        });
        assert!(round_state.is_quiet());
        assert!(
            round_state.passed()[0].iter().all(|stream| stream.sent.count == 0),
            "{:?}",
            round_state.passed()
        );
    }

    #[test]
    fn honest_ends_stream_ask_and_answer() {
        let (near, far): (Vec<_>, Vec<_>) = CONNECTIONS.iter().map(|_| pair()).unzip();
        let mut near = ends(|role| role, NEAR, near);
        let mut far = ends(Role::other, FAR, far);
        let (here, there, begin) = (RoundState::new(1), RoundState::new(1), Instant::now());
        std::thread::scope(|scope| {
            let workers = [
                scope.spawn(|| work(&mut near, begin, &here)),
                scope.spawn(|| work(&mut far, begin, &there)),
            ];
            let enough = |round_state: &RoundState| {
                let passed = round_state.passed()[0];
                let tcp = [Stream::Tcp, Stream::Ask, Stream::Answer];
                tcp.iter().all(|stream| passed[*stream as usize].received.count >= 5)
            };
            while begin.elapsed() < Duration::from_secs(20) && !(enough(&here) && enough(&there)) {
                std::thread::sleep(Duration::from_millis(5));
            }
            assert!(enough(&here) && enough(&there), "{:?}", here.passed());
            for round_state in [&here, &there] {
                round_state.quiet.store(true, std::sync::atomic::Ordering::Relaxed);
                round_state.finish.store(true, std::sync::atomic::Ordering::Relaxed);
            }
            for worker in workers {
                worker.join().unwrap().unwrap();
            }
        });
        assert!(here.take_found().0.is_empty() && there.take_found().0.is_empty());
    }
}
