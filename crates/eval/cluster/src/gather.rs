//! Rank 0 waits for the connections of all ranks, and finds out which of them measure.

use crate::card::{Card, Member};
use crate::coordinator::{Coordinator, Remote};
use crate::error::ClusterError;
use crate::message::{Command, Report, printable_about};
use crate::results::About;
use crate::run::Config;
use gigae_eval_session::control::{self, ControlError, Key, Limits, Reply, Session};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use std::io;
use std::net::{TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc;
use std::time::{Duration, Instant};

/// Ranks that the launcher has started connect within this time.
pub(crate) const CONNECT: Duration = Duration::from_secs(60);

/// Between two looks for a connection.
const ACCEPT_EVERY: Duration = Duration::from_millis(2);

/// A rank that has connected says who it is within this time.
const HELLO: Duration = Duration::from_secs(5);

/// Handshakes at once. The kernel keeps further connections waiting.
const MOST_HANDSHAKES: usize = 64;

/// What rank 0 knows when all have said who they are.
pub(crate) struct Job<'a> {
    pub(crate) config: &'a Config,
    /// What the launcher speaks.
    pub(crate) protocol: &'static str,
    pub(crate) cards: &'a [Card],
    pub(crate) interrupted: &'a AtomicBool,
}

/// Waits until all ranks have connected. Those that do not measure may go at once. Afterwards
/// nobody can connect.
pub(crate) fn gather<'a>(
    job: &Job<'a>,
    listener: TcpListener,
    key: &Key,
    members: &[Member],
) -> Result<(Coordinator<'a>, Vec<About>), ClusterError> {
    raise_open_files();
    let mut came: Vec<Came> = job.cards.iter().map(|_| Came::Not).collect();
    let outcome = connections(job, &listener, key, members, &mut came);
    drop(listener);
    let mut coordinator = Coordinator { remotes: Vec::new(), interrupted: job.interrupted };
    let mut abouts = Vec::new();
    for (rank, came) in (0..).zip(came) {
        let Came::Measures(session, about) = came else { continue };
        let host = job.cards[rank as usize].host.clone();
        coordinator.remotes.push(Remote { session: *session, rank, host, told: Instant::now() });
        abouts.push(about);
    }
    if let Err(error) = outcome {
        // Those that have come end without a word: rank 0 says what went wrong.
        coordinator.over();
        return Err(error);
    }
    for (number, Member { place, of, .. }) in members.iter().enumerate() {
        let told = coordinator.send(number, &Command::Measure { place: *place, of: *of });
        if let Err(error) = told {
            coordinator.over();
            return Err(error);
        }
    }
    Ok((coordinator, abouts))
}

/// What there is of a rank.
enum Came {
    /// Nothing yet.
    Not,
    /// It measures.
    Measures(Box<Session>, About),
    /// It was not needed, and may go.
    MayGo,
}

/// Rank 0 has a connection of each host, and more for what it measures itself. The limit that
/// programs begin with is often 1,024, and the one that they may have is higher.
fn raise_open_files() {
    let limits = getrlimit(Resource::Nofile);
    // With few hosts the former limit does as well; with many, opening says what fails.
    let _ = setrlimit(Resource::Nofile, Rlimit { current: limits.maximum, ..limits });
}

/// The connections of all ranks, in their order. Each handshake has a thread, so that one that
/// says nothing keeps no rank waiting.
fn connections(
    job: &Job<'_>,
    listener: &TcpListener,
    key: &Key,
    members: &[Member],
    came: &mut [Came],
) -> Result<(), ClusterError> {
    let failed = |source| ClusterError::Io { what: "waiting for the other ranks", source };
    listener.set_nonblocking(true).map_err(failed)?;
    let deadline = Instant::now() + CONNECT;
    let open = AtomicUsize::new(0);
    std::thread::scope(|scope| {
        let (done, welcomed) = mpsc::channel();
        while let Some(rank) = came.iter().position(|one| matches!(one, Came::Not)) {
            if job.interrupted.load(Ordering::Relaxed) {
                return Err(ClusterError::Interrupted);
            }
            if Instant::now() > deadline {
                return Err(ClusterError::Rank {
                    rank: rank as u32,
                    host: job.cards[rank].host.clone(),
                    what: "did not connect in time".into(),
                });
            }
            while let Ok((rank, mut session, about)) = welcomed.try_recv() {
                // Of two that say that they are one rank, the first one is.
                let place = came.get_mut(rank as usize);
                let Some(place) = place.filter(|place| matches!(place, Came::Not)) else {
                    continue;
                };
                *place = if members.iter().any(|member| member.rank == rank) {
                    Came::Measures(Box::new(session), about)
                } else {
                    let _ = session.send(&Command::Over);
                    Came::MayGo
                };
            }
            let accepted = match open.load(Ordering::Relaxed) < MOST_HANDSHAKES {
                true => listener.accept(),
                false => Err(io::ErrorKind::WouldBlock.into()),
            };
            match accepted {
                Ok((stream, _)) => {
                    stream.set_nonblocking(false).map_err(failed)?;
                    open.fetch_add(1, Ordering::Relaxed);
                    let (done, open) = (done.clone(), &open);
                    scope.spawn(move || {
                        // Who has not the key is no rank.
                        if let Ok(rank) = welcome(stream, key) {
                            let _ = done.send(rank);
                        }
                        open.fetch_sub(1, Ordering::Relaxed);
                    });
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    std::thread::sleep(ACCEPT_EVERY);
                }
                // It ended before it was accepted.
                Err(error) if error.kind() == io::ErrorKind::ConnectionAborted => {}
                Err(error) => return Err(failed(error)),
            }
        }
        Ok(())
    })
}

fn welcome(stream: TcpStream, key: &Key) -> Result<(u32, Session, About), ControlError> {
    let mut session = control::accept(stream, key)?;
    session.send(&Reply::Welcome(Limits::default()))?;
    match session.receive(HELLO)? {
        Report::Hello { rank, about } => Ok((rank, session, printable_about(&about))),
        _ => Err(ControlError::Garbled("no name")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::card::measuring;
    use gigae_eval_model::plan::Wait;
    use std::io::Write;

    fn card(host: &str) -> Card {
        Card {
            host: host.into(),
            boot: "1".into(),
            interface: "lo".into(),
            mac: [0; 6],
            ip: [127, 0, 0, 1].into(),
            mtu: 1500,
            control: None,
        }
    }

    /// What connects to rank 0: strangers first, who say nothing, something, or have another key.
    #[test]
    fn only_ranks_with_the_key_of_the_run_take_part() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let at = listener.local_addr().unwrap();
        let _silent = TcpStream::connect(at).unwrap();
        let mut other = TcpStream::connect(at).unwrap();
        other.write_all(b"GET / HTTP/1.0\r\n\r\n").unwrap();
        let (key, wrong) = (Key::random().unwrap(), Key::random().unwrap());
        let cards = [card("a"), card("b"), card("a")];
        let config = Config {
            nic: None,
            seconds: 0.1,
            wait: Wait::Sleep,
            transports: Vec::new(),
            command: String::new(),
            out: "results".into(),
        };
        let interrupted = AtomicBool::new(false);
        let job = Job { config: &config, protocol: "", cards: &cards, interrupted: &interrupted };
        let connect = |rank: u32, key: &Key| {
            let mut session = control::connect(&at.to_string(), key, &mut |_| true)?;
            let about = About { kernel: rank.to_string(), ..About::default() };
            session.send(&Report::Hello { rank, about })?;
            session.receive::<Command>(Duration::from_secs(20))
        };
        std::thread::scope(|scope| {
            let stranger = scope.spawn(|| connect(1, &wrong));
            // A number that no rank has.
            let beyond = scope.spawn(|| connect(7, &key));
            let ranks = [2, 0, 1].map(|rank| {
                scope.spawn({
                    let (connect, key) = (&connect, &key);
                    move || connect(rank, key)
                })
            });
            let members = measuring(&cards);
            let (coordinator, abouts) = gather(&job, listener, &key, &members).unwrap();
            let [third, first, second] = ranks.map(|rank| rank.join().unwrap().unwrap());
            assert_eq!(third, Command::Over, "its host has an earlier rank");
            assert_eq!(first, Command::Measure { place: 0, of: 2 });
            assert_eq!(second, Command::Measure { place: 1, of: 2 });
            let kernels: Vec<&str> = abouts.iter().map(|about| about.kernel.as_str()).collect();
            assert_eq!((kernels, coordinator.remotes.len()), (vec!["0", "1"], 2));
            assert!(matches!(stranger.join().unwrap(), Err(ControlError::WrongKey)));
            assert!(beyond.join().unwrap().is_err());
            let refused = TcpStream::connect(at).unwrap_err();
            assert_eq!(refused.kind(), io::ErrorKind::ConnectionRefused, "all have come");
        });
    }

    #[test]
    fn rank_0_may_open_as_many_files_as_it_is_allowed_to() {
        let limits = getrlimit(Resource::Nofile);
        let fewer = limits.maximum.map_or(512, |most| most.min(512)) - 1;
        setrlimit(Resource::Nofile, Rlimit { current: Some(fewer), ..limits }).unwrap();
        raise_open_files();
        assert_eq!(getrlimit(Resource::Nofile).current, limits.maximum);
    }

    #[test]
    fn an_interruption_ends_the_waiting_for_ranks() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let config = Config {
            nic: None,
            seconds: 0.1,
            wait: Wait::Sleep,
            transports: Vec::new(),
            command: String::new(),
            out: "results".into(),
        };
        let interrupted = AtomicBool::new(true);
        let cards = [card("a")];
        let job = Job { config: &config, protocol: "", cards: &cards, interrupted: &interrupted };
        let key = Key::random().unwrap();
        let ended = gather(&job, listener, &key, &measuring(&cards)).map(|_| ()).unwrap_err();
        assert!(matches!(ended, ClusterError::Interrupted), "{ended}");
    }
}
