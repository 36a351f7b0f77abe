//! A round at the serving end: one peer, the client; bounded in time whatever the client does.

use super::gigae::{Other, Worker, register};
use super::sample::Sampler;
use super::tally::Tally;
use super::tcp::{self, CONNECTIONS, Connection};
use crate::control::{ControlError, Reply, Request, Session, Soak};
use crate::serve::{failed, next};
use crate::site::{Address, Site};
use gigae::{Endpoint, MacAddr, Options, Wait};
use std::io::Write;
use std::net::{SocketAddr, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Longest round, in seconds.
pub const LONGEST: f64 = 3700.0;

/// A client that asks for nothing so long is gone.
const SILENCE: Duration = Duration::from_secs(60);

/// Time to connect by TCP.
const CONNECT: Duration = Duration::from_secs(10);

/// Opens an endpoint for a soak.
pub fn open(site: &Site) -> Result<Endpoint, String> {
    let options = Options::trunk(site.interfaces()).wait(Wait::Sleep);
    options.open().map_err(|error| error.to_string())
}

/// Serves one round. The reply is the one that ends it; `None` when the server is to end.
pub fn answer(
    session: &mut Session,
    site: &Site,
    soak: &Soak,
    interrupted: &AtomicBool,
) -> Result<Option<Reply>, ControlError> {
    let (endpoint, other) = match prepare(site, soak) {
        Ok(opened) => opened,
        Err(why) => return Ok(Some(failed(&why))),
    };
    session.send(&Reply::Soaking { address: site.address(0), key: other.own.0 })?;
    let (tally, begin) = (Tally::new(1), Instant::now());
    // On a virtual network the client watches the kernel, which is the same.
    let mut sampler = Sampler::new(site, !site.virtual_link);
    let outcome = std::thread::scope(|scope| {
        scope.spawn(|| {
            let clock = (begin, &tally);
            let work =
                Worker::new(&{ endpoint }, soak.number, vec![other], &soak.traffic, clock).work();
            work.unwrap_or_else(|why| tally.end(&why));
        });
        scope.spawn(|| {
            let work = connect(soak).and_then(|mut all| tcp::work(&mut all, begin, &tally));
            work.unwrap_or_else(|why| tally.end(&why));
        });
        let outcome = requests(session, soak, (&tally, &mut sampler), begin, interrupted);
        tally.finish.store(true, Ordering::Relaxed);
        outcome
    });
    Ok(match outcome? {
        Some(Request::Finish { .. }) => Some(Reply::Sample(Box::new(sampler.take(&tally)))),
        Some(Request::Cancel) => Some(Reply::Cancelled),
        Some(_) => Some(failed("a soak is running")),
        None => None,
    })
}

/// Answers the client until a request ends the round, and gives that.
fn requests(
    session: &mut Session,
    soak: &Soak,
    (tally, sampler): (&Tally, &mut Sampler),
    begin: Instant,
    interrupted: &AtomicBool,
) -> Result<Option<Request>, ControlError> {
    let longest = Duration::from_secs_f64(soak.seconds) + SILENCE;
    loop {
        let left = longest.saturating_sub(begin.elapsed());
        match next(session, SILENCE.min(left), interrupted)? {
            Some(Request::Watch { quiet }) => {
                if quiet {
                    tally.quiet.store(true, Ordering::Relaxed);
                }
                session.send(&Reply::Sample(Box::new(sampler.take(tally))))?;
            }
            other => return Ok(other),
        }
    }
}

/// Checks what the client asks for, and opens this end.
fn prepare(site: &Site, soak: &Soak) -> Result<(Endpoint, Other), String> {
    soak.traffic.check()?;
    if !(0.0..=LONGEST).contains(&soak.seconds) || soak.number == 0 {
        return Err("a round may not take so long".into());
    }
    let endpoint = open(site)?;
    if soak.traffic.message > endpoint.max_message() {
        return Err(format!(
            "the server's interface carries messages of {} bytes and not of {}; set the same MTU on both ends",
            endpoint.max_message(),
            soak.traffic.message
        ));
    }
    let peer = endpoint.peer(gigae::Address::from(MacAddr(soak.address.mac)));
    let peer = peer.map_err(|error| error.to_string())?;
    let own = register(&endpoint)?;
    Ok((endpoint, Other { number: 0, peer, own, its: gigae::RegionKey(soak.key) }))
}

/// Connects to the client and says whose the connections are.
fn connect(soak: &Soak) -> Result<Vec<Connection>, String> {
    let Address { ip, port, .. } = soak.address;
    let connect = |(number, role): (u8, &tcp::Role)| {
        let mut socket = TcpStream::connect_timeout(&SocketAddr::new(ip, port), CONNECT)?;
        socket.write_all(&hello(soak.token, soak.number, number))?;
        Connection::new(socket, role.other(), 0, (soak.number, 0), &soak.traffic)
    };
    let all = (0..).zip(&CONNECTIONS).map(connect).collect::<std::io::Result<_>>();
    all.map_err(|error| format!("connecting by TCP to {ip}:{port}: {error}"))
}

/// What a connection begins with: the token, the end, which connection of its.
pub fn hello(token: u64, end: u8, connection: u8) -> [u8; 10] {
    let mut bytes = [0; 10];
    bytes[..8].copy_from_slice(&token.to_be_bytes());
    (bytes[8], bytes[9]) = (end, connection);
    bytes
}
