//! A round at the serving end: one peer, the client; bounded in time whatever the client does.

use super::gigae::{SoakPeer, Worker, register};
use super::round_state::RoundState;
use super::sample::Sampler;
use super::tcp::{self, CONNECTIONS, Connection};
use gigae::{Endpoint, MacAddr, Options, Wait};
use gigae_eval_measure::shared_port::SharedPort;
use gigae_eval_measure::site::Site;
use gigae_eval_model::traffic::{Budget, EndNumbers};
use gigae_eval_session::control::answering::{failed, next};
use gigae_eval_session::control::{ControlError, Reply, Request, Session, Soak};
use std::io;
use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Longest round, in seconds.
pub const LONGEST: f64 = 3700.0;

/// After its time a round begins nothing new. So long what is under way may arrive, and the client
/// may compare.
const AFTERWARDS: Duration = Duration::from_secs(30);

/// A client that asks for nothing so long is gone.
const SILENCE: Duration = Duration::from_secs(60);

/// Time for the client to connect by TCP.
const CONNECT: Duration = Duration::from_secs(10);

/// How often a connection is looked for.
const LOOK: Duration = Duration::from_millis(5);

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
    let opened = prepare(site, soak).and_then(|(endpoint, other)| {
        let entrance = TcpListeners::open(site, soak);
        let entrance = entrance.map_err(|error| format!("listening for TCP: {error}"))?;
        Ok((endpoint, other, entrance))
    });
    let (endpoint, other, entrance) = match opened {
        Ok(opened) => opened,
        Err(why) => return Ok(Some(failed(&why))),
    };
    let (address, budget) = (site.address(entrance.port()), Arc::clone(&other.budget));
    session.send(&Reply::Soaking { address, key: other.own.0 })?;
    let time = Duration::from_secs_f64(soak.seconds);
    let (round_state, begin) = (RoundState::until(1, time), Instant::now());
    // On a virtual network the client watches the kernel, which is the same.
    let mut sampler = Sampler::new(site, !site.virtual_link);
    let outcome = std::thread::scope(|scope| {
        scope.spawn(|| {
            let (others, traffic, state) = (vec![other], &soak.traffic, &round_state);
            let work =
                Worker::new(&{ endpoint }, soak.number, others, traffic, begin, state).work();
            work.unwrap_or_else(|why| round_state.end(&why));
        });
        scope.spawn(|| {
            let all = entrance.connections(soak, &budget, &round_state);
            let work = all.and_then(|mut all| tcp::work(&mut all, begin, &round_state));
            work.unwrap_or_else(|why| round_state.end(&why));
        });
        let outcome = requests(session, soak, &round_state, &mut sampler, begin, interrupted);
        round_state.finish.store(true, Ordering::Relaxed);
        outcome
    });
    Ok(match outcome? {
        Some(Request::Finish { .. }) => Some(Reply::Sample(Box::new(sampler.take(&round_state)))),
        Some(Request::Cancel) => Some(Reply::Cancelled),
        Some(_) => Some(failed("a soak is running")),
        None => None,
    })
}

/// Answers the client until a request ends the round, and gives that.
fn requests(
    session: &mut Session,
    soak: &Soak,
    round_state: &RoundState,
    sampler: &mut Sampler,
    begin: Instant,
    interrupted: &AtomicBool,
) -> Result<Option<Request>, ControlError> {
    let longest = Duration::from_secs_f64(soak.seconds) + AFTERWARDS;
    loop {
        let left = longest.saturating_sub(begin.elapsed());
        match next(session, SILENCE.min(left), interrupted)? {
            Some(Request::Watch { quiet }) => {
                if quiet {
                    round_state.quiet.store(true, Ordering::Relaxed);
                }
                session.send(&Reply::Sample(Box::new(sampler.take(round_state))))?;
            }
            other => return Ok(other),
        }
    }
}

/// Checks what the client asks for, and opens this end.
fn prepare(site: &Site, soak: &Soak) -> Result<(Endpoint, SoakPeer), String> {
    soak.traffic.check()?;
    if !(0.0..=LONGEST).contains(&soak.seconds) || soak.number == 0 {
        return Err("a round may not take so long".into());
    }
    if soak.ports.len() != CONNECTIONS.len() {
        return Err("a round has another number of TCP connections".into());
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
    let (its, budget) = (gigae::RegionKey(soak.key), Budget::new(&soak.traffic));
    Ok((endpoint, SoakPeer { number: 0, peer, own, its, budget }))
}

/// Where the client's TCP connections come. This end connects nowhere, so that no client can point
/// it at another machine; who made a connection has shown that it holds the address from which it
/// comes.
enum TcpListeners {
    Own(TcpListener, Vec<SocketAddr>),
    SharedPort(Arc<SharedPort>),
}

impl TcpListeners {
    fn open(site: &Site, soak: &Soak) -> io::Result<Self> {
        let peers = soak.ports.iter().map(|port| SocketAddr::new(soak.address.ip, *port));
        let peers: Vec<_> = peers.collect();
        if let Some(shared_port) = &site.shared_port {
            shared_port.expect(&peers);
            return Ok(Self::SharedPort(Arc::clone(shared_port)));
        }
        let listener = TcpListener::bind((site.ip, 0))?;
        listener.set_nonblocking(true)?;
        Ok(Self::Own(listener, peers))
    }

    fn port(&self) -> u16 {
        match self {
            Self::Own(listener, _) => listener.local_addr().map_or(0, |local| local.port()),
            Self::SharedPort(shared_port) => shared_port.port(),
        }
    }

    /// The client's connections, and no others.
    fn connections(
        self,
        soak: &Soak,
        budget: &Arc<Budget>,
        round_state: &RoundState,
    ) -> Result<Vec<Connection>, String> {
        let (shared_port, listener) = match self {
            Self::SharedPort(shared_port) => (shared_port, None),
            Self::Own(listener, peers) => {
                let shared_port = Arc::new(SharedPort::new(0));
                shared_port.expect(&peers);
                (shared_port, Some(listener))
            }
        };
        let deadline = Instant::now() + CONNECT;
        // A round that is over waits for no client.
        while !shared_port.is_complete() && Instant::now() < deadline && !round_state.is_over() {
            match listener.as_ref().map(TcpListener::accept) {
                // Any other is closed.
                Some(Ok((stream, from))) => drop(shared_port.take(from, stream)),
                _ => std::thread::sleep(LOOK),
            }
        }
        let came = shared_port.wait(Duration::ZERO);
        let came = came.ok_or("the client did not connect by TCP in time")?;
        let open = |(socket, role): (_, &tcp::Role)| {
            let ends = EndNumbers { from: soak.number, to: 0 };
            Connection::new(socket, role.other(), 0, ends, &soak.traffic, budget)
        };
        let all = came.into_iter().zip(&CONNECTIONS).map(open).collect::<io::Result<_>>();
        all.map_err(|error| format!("the client's TCP connections: {error}"))
    }
}
