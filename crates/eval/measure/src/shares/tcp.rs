//! Flows of TCP: a connection each, with a thread at either end.

use super::work::{Counters, Hub, LOOK, PAUSE, Role, TRIP, Trip, Work};
use crate::channel::JOIN_TIMEOUT;
use crate::site::Site;
use crate::transport::TransportError;
use crate::transport::common::try_again;
use crate::transport::tcp::tune;
use gigae_eval_model::plan::TcpOptions;
use gigae_eval_model::shares::Way;
use socket2::{Domain, Protocol, Socket, Type};
use std::io::{Read, Write};
use std::net::SocketAddr;
use std::time::{Duration, Instant};

/// Bytes that are read at a time.
const CHUNK: usize = 64 << 10;

/// The hub.
pub(super) struct TcpHub {
    listener: Socket,
    address: SocketAddr,
    site: Site,
    own: TcpOptions,
    way: Way,
    size: usize,
}

fn failed(what: &'static str) -> impl Fn(std::io::Error) -> TransportError {
    TransportError::io(what)
}

fn socket(site: &Site, own: TcpOptions) -> Result<Socket, TransportError> {
    let domain = Domain::for_address(SocketAddr::new(site.ip, 0));
    let socket = Socket::new(domain, Type::STREAM, Some(Protocol::TCP))
        .map_err(failed("opening a TCP socket"))?;
    tune(&socket, own, site)?;
    Ok(socket)
}

impl TcpHub {
    /// Listens in the node of the calling thread.
    pub(super) fn open(
        site: &Site,
        own: TcpOptions,
        way: Way,
        size: usize,
    ) -> Result<Self, TransportError> {
        let listener = socket(site, own)?;
        let any = SocketAddr::new(site.ip, 0);
        listener.bind(&any.into()).map_err(failed("binding a TCP socket"))?;
        listener.listen(1).map_err(failed("listening for TCP"))?;
        let bound = listener.local_addr().map_err(failed("binding a TCP socket"))?;
        let address = bound.as_socket().unwrap_or(any);
        listener.set_read_timeout(Some(JOIN_TIMEOUT)).map_err(failed("setting TCP options"))?;
        Ok(Self { listener, address, site: site.clone(), own, way, size })
    }

    /// A connection from the node of the calling thread: its end there, and the hub's.
    fn connect(&self, site: &Site) -> Result<(Socket, Socket), TransportError> {
        let near = socket(site, self.own)?;
        near.connect_timeout(&self.address.into(), JOIN_TIMEOUT)
            .map_err(failed("connecting by TCP"))?;
        let (far, _) = self.listener.accept().map_err(failed("accepting by TCP"))?;
        tune(&far, self.own, &self.site)?;
        for end in [&near, &far] {
            let options = end
                .set_read_timeout(Some(LOOK))
                .and_then(|()| end.set_write_timeout(Some(LOOK)))
                // What is still queued at the end is worth nothing: the port is to be free for the
                // next repetition.
                .and_then(|()| end.set_linger(Some(Duration::ZERO)));
            options.map_err(failed("setting TCP options"))?;
        }
        Ok((near, far))
    }
}

impl Hub for TcpHub {
    fn flow(&mut self, site: &Site, number: usize) -> Result<Vec<Work>, TransportError> {
        let (near, far) = self.connect(site)?;
        let (from, to) = if self.way == Way::In { (near, far) } else { (far, near) };
        let size = self.size;
        Ok(vec![
            Work::new(Role::Sends, move |counters| send(&from, size, counters)),
            Work::new(Role::Receives, move |counters| receive(&to, number, counters)),
        ])
    }

    fn asker(&mut self, site: &Site) -> Result<Vec<Work>, TransportError> {
        let (near, far) = self.connect(site)?;
        // Nobody sends a question byte by byte.
        for end in [&near, &far] {
            end.set_tcp_nodelay(true).map_err(failed("setting TCP options"))?;
        }
        Ok(vec![
            Work::new(Role::Sends, move |counters| ask(&near, counters)),
            Work::new(Role::Receives, move |counters| answer(&far, counters)),
        ])
    }

    fn work(self: Box<Self>) -> Vec<Work> {
        Vec::new()
    }
}

/// Sends as fast as there is room.
fn send(
    mut socket: &Socket,
    size: usize,
    counters: &Counters,
) -> Result<Vec<Trip>, TransportError> {
    let message = vec![1; size];
    while !counters.is_stopped() {
        match socket.write(&message) {
            Ok(_) => {}
            Err(error) if try_again(&error) => {}
            Err(error) => return Err(failed("sending by TCP")(error)),
        }
    }
    Ok(Vec::new())
}

/// Whether the other end has ended first, which it may when the flows have stopped.
fn is_an_end(error: &std::io::Error, counters: &Counters) -> bool {
    counters.is_stopped() && !try_again(error)
}

/// Counts what arrives.
fn receive(socket: &Socket, flow: usize, counters: &Counters) -> Result<Vec<Trip>, TransportError> {
    let (mut socket, mut room) = (socket, vec![0; CHUNK]);
    while !counters.is_over() {
        match socket.read(&mut room) {
            Ok(0) => break,
            Ok(bytes) => counters.add(flow, bytes),
            Err(error) if is_an_end(&error, counters) => break,
            Err(error) if try_again(&error) => {}
            Err(error) => return Err(failed("receiving by TCP")(error)),
        }
    }
    Ok(Vec::new())
}

/// Reads 8 bytes; `false` if it is over before they are there.
fn read_all(mut socket: &Socket, until: impl Fn() -> bool) -> Result<bool, TransportError> {
    let (mut room, mut have) = ([0; TRIP], 0);
    while have < TRIP {
        if until() {
            return Ok(false);
        }
        match socket.read(&mut room[have..]) {
            Ok(0) => return Ok(false),
            Ok(bytes) => have += bytes,
            Err(error) if try_again(&error) => {}
            Err(_) if until() => return Ok(false),
            Err(error) => return Err(failed("receiving by TCP")(error)),
        }
    }
    Ok(true)
}

/// Asks the hub, one question after the other.
fn ask(mut socket: &Socket, counters: &Counters) -> Result<Vec<Trip>, TransportError> {
    let mut trips = Vec::new();
    while !counters.is_stopped() {
        let began = Instant::now();
        socket.write_all(&[2; TRIP]).map_err(failed("sending by TCP"))?;
        if !read_all(socket, || counters.is_stopped())? {
            break;
        }
        trips.push(Trip { began, took: began.elapsed() });
        std::thread::sleep(PAUSE);
    }
    Ok(trips)
}

/// Answers questions.
fn answer(mut socket: &Socket, counters: &Counters) -> Result<Vec<Trip>, TransportError> {
    while read_all(socket, || counters.is_stopped())? {
        let sent = socket.write_all(&[3; TRIP]);
        match sent {
            Err(error) if is_an_end(&error, counters) => break,
            sent => sent.map_err(failed("sending by TCP"))?,
        }
    }
    Ok(Vec::new())
}
