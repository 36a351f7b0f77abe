//! A run, from the launcher to the results.

use crate::card::{Card, Control};
use crate::coordinator::became;
use crate::error::ClusterError;
use crate::gather::{CONNECT, Job};
use crate::launcher::{self, Launcher};
use crate::lead::lead;
use crate::message::Report;
use crate::results::{About, ClusterResults};
use crate::worker;
use gigae_eval_measure::environment;
use gigae_eval_measure::site::Site;
use gigae_eval_model::plan::Wait;
use gigae_eval_page::files;
use gigae_eval_session::control::{self, ControlError, Key};
use gigae_netlink::Rtnetlink;
use std::net::{IpAddr, SocketAddr, TcpListener};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Between two attempts to reach rank 0.
const AGAIN: Duration = Duration::from_millis(100);

/// What is to be measured.
#[derive(Clone, Debug)]
pub struct Config {
    /// This rank's interface, or several with commas between them; absent: the only one.
    pub nic: Option<String>,
    /// Measured seconds of each measurement.
    pub seconds: f64,
    /// How the ends wait.
    pub wait: Wait,
    /// Names of the transports.
    pub transports: Vec<String>,
    /// The command, for the results.
    pub command: String,
    /// Where rank 0 will write the results. It finds out before the run whether it can.
    pub out: PathBuf,
}

/// What a rank has of a run.
#[derive(Debug)]
pub enum Outcome {
    /// Rank 0 has the results.
    Results(Box<ClusterResults>),
    /// The others have nothing to say.
    Done,
    /// Another rank than 0 was interrupted. It says nothing, because rank 0 does.
    Interrupted,
}

/// What rank 0 says meanwhile.
pub trait Progress {
    /// Something worth a line.
    fn say(&mut self, text: &str);
    /// So many of so many measurements are done; what comes next.
    fn step(&mut self, done: usize, total: usize, next: &str);
}

/// Takes part in a run.
pub fn run(
    config: &Config,
    interrupted: &AtomicBool,
    progress: &mut dyn Progress,
) -> Result<Outcome, ClusterError> {
    let mut launcher = launcher::connect()?;
    if launcher.rank() == 0 {
        // The others may see the same directory, and write nothing.
        files::prepare(&config.out)?;
    }
    let site = Site::find(&match &config.nic {
        Some(nic) => nic.clone(),
        None => only_interface()?,
    })?;
    let mut card = Card::of(&site);
    let key = Key::random()?;
    let failed = |what| move |source| ClusterError::Io { what, source };
    let listener = match launcher.rank() {
        0 => {
            let listener = TcpListener::bind(SocketAddr::new(site.ip, 0))
                .map_err(failed("opening the control port"))?;
            let at = listener.local_addr().map_err(failed("opening the control port"))?;
            card.control = Some(Control { at, key: key.to_hex() });
            Some(listener)
        }
        _ => None,
    };
    let own = card.encode().ok_or_else(|| {
        ClusterError::Interface("the names of host and interfaces are too long".into())
    })?;
    launcher.put(&own)?;
    launcher.fence()?;
    match listener {
        None => {
            let (rank, first) = (launcher.rank(), card_of(&mut *launcher, 0)?);
            launcher.finish()?;
            take_part(&first, rank, &site, interrupted)
        }
        Some(listener) => {
            let cards = (0..launcher.size())
                .map(|rank| card_of(&mut *launcher, rank))
                .collect::<Result<Vec<_>, _>>()?;
            let protocol = launcher.protocol();
            launcher.finish()?;
            let job = Job { config, protocol, cards: &cards, interrupted };
            lead_and_measure(&job, (listener, &key), &card, &site, progress)
                .map(|results| Outcome::Results(Box::new(results)))
        }
    }
}

/// Rank 0 says what all do, and measures itself by a connection like all others.
fn lead_and_measure(
    job: &Job<'_>,
    (listener, key): (TcpListener, &Key),
    card: &Card,
    site: &Site,
    progress: &mut dyn Progress,
) -> Result<ClusterResults, ClusterError> {
    let ended = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            // What goes wrong here, the coordinator sees.
            let _ = follow(card, 0, site, [job.interrupted, &ended]);
        });
        let outcome = lead(job, listener, key, progress);
        // If that failed before the worker has connected, nobody listens any more.
        ended.store(true, Ordering::Relaxed);
        outcome
    })
}

/// What another rank than 0 does.
fn take_part(
    first: &Card,
    rank: u32,
    site: &Site,
    interrupted: &AtomicBool,
) -> Result<Outcome, ClusterError> {
    match follow(first, rank, site, [interrupted, &AtomicBool::new(false)]) {
        Ok(()) => Ok(Outcome::Done),
        // Whatever failed may have failed because all ranks are interrupted.
        Err(_) if interrupted.load(Ordering::Relaxed) => Ok(Outcome::Interrupted),
        Err(error) => Err(error),
    }
}

fn card_of(launcher: &mut dyn Launcher, rank: u32) -> Result<Card, ClusterError> {
    Card::decode(&launcher.get(rank)?).ok_or(ClusterError::Card(rank))
}

/// The only Ethernet interface that is up and has an address.
fn only_interface() -> Result<String, ClusterError> {
    let failed = |error: gigae_netlink::Error| ClusterError::Io {
        what: "listing the interfaces",
        source: error.into(),
    };
    let kernel = Rtnetlink::open().map_err(failed)?;
    let (links, addresses) = (kernel.links().map_err(failed)?, kernel.addresses().map_err(failed)?);
    let reaches_others = |ip: &IpAddr| !matches!(ip, IpAddr::V6(v6) if v6.is_unicast_link_local());
    let mut names: Vec<&str> = links
        .iter()
        .filter(|link| link.is_up && link.is_ethernet && link.carrier != Some(false))
        .filter(|link| {
            addresses.iter().any(|one| one.index == link.index && reaches_others(&one.ip))
        })
        .map(|link| link.name.as_str())
        .collect();
    names.sort_unstable();
    match names[..] {
        [one] => Ok(one.to_owned()),
        [] => Err(ClusterError::Interface(
            "this host has no Ethernet interface that is up and has an IP address".into(),
        )),
        _ => Err(ClusterError::Interface(format!(
            "this host has several interfaces: {}",
            names.join(", ")
        ))),
    }
}

/// Connects to rank 0 and does what it says. Does not try to connect again when the run is
/// `interrupted` or has `ended`.
fn follow(
    first: &Card,
    rank: u32,
    site: &Site,
    [interrupted, ended]: [&AtomicBool; 2],
) -> Result<(), ClusterError> {
    let control = first.control.as_ref().ok_or(ClusterError::Card(0))?;
    let key = Key::from_hex(&control.key)?;
    let missing = |error: ControlError| ClusterError::Rank {
        rank: 0,
        host: first.host.clone(),
        what: match error {
            ControlError::Unreachable { source, .. } => {
                format!("cannot be reached at {} ({source})", control.at)
            }
            error => became(&error),
        },
    };
    let found = environment::describe(site);
    let about =
        About { kernel: found.kernel, cpu: found.cpu, driver: found.driver, gigae: found.gigae };
    let deadline = Instant::now() + CONNECT;
    let is_over = || [interrupted, ended].iter().any(|one| one.load(Ordering::Relaxed));
    let mut session = loop {
        let connected = control::connect(&control.at.to_string(), &key, &mut |_| true);
        // Many ranks connect at the same time: rank 0 may be slow.
        match connected {
            Ok(session) => break session,
            Err(ControlError::Unreachable { .. } | ControlError::Silent(_))
                if Instant::now() < deadline && !is_over() =>
            {
                std::thread::sleep(AGAIN);
            }
            Err(error) => return Err(missing(error)),
        }
    };
    session.send(&Report::Hello { rank, about }).map_err(missing)?;
    worker::serve(&mut session, site, &first.host, interrupted)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc;

    /// Far more than it takes, and far less than a rank tries to connect.
    const PATIENCE: Duration = Duration::from_secs(30);

    struct Silent;

    impl Progress for Silent {
        fn say(&mut self, _text: &str) {}
        fn step(&mut self, _done: usize, _total: usize, _next: &str) {}
    }

    /// Rank 0's card with this address.
    fn card(site: &Site, at: SocketAddr, key: &Key) -> Card {
        Card { control: Some(Control { at, key: key.to_hex() }), ..Card::of(site) }
    }

    /// A bound socket that does not listen: who connects is refused, and accept(2) fails.
    fn deaf() -> (TcpListener, SocketAddr) {
        let any = SocketAddr::from(([127, 0, 0, 1], 0));
        let (family, kind) = (rustix::net::AddressFamily::INET, rustix::net::SocketType::STREAM);
        let socket = rustix::net::socket(family, kind, None).unwrap();
        rustix::net::bind(&socket, &any).unwrap();
        let listener = TcpListener::from(socket);
        let at = listener.local_addr().unwrap();
        (listener, at)
    }

    #[test]
    fn rank_0_does_not_wait_for_its_own_worker_when_nobody_can_connect() {
        let (done, outcome) = mpsc::channel();
        std::thread::spawn(move || {
            let (site, key) = (Site::find("lo").unwrap(), Key::random().unwrap());
            let (listener, at) = deaf();
            let card = card(&site, at, &key);
            let config = Config {
                nic: None,
                seconds: 0.1,
                wait: Wait::Sleep,
                transports: Vec::new(),
                command: String::new(),
                out: "results".into(),
            };
            let interrupted = AtomicBool::new(false);
            let cards = [card.clone()];
            let job =
                Job { config: &config, protocol: "", cards: &cards, interrupted: &interrupted };
            let led = lead_and_measure(&job, (listener, &key), &card, &site, &mut Silent);
            done.send(led.map(|_| ()).unwrap_err().to_string()).unwrap();
        });
        let error = outcome.recv_timeout(PATIENCE).expect("the worker tries for a minute");
        assert!(error.contains("waiting for the other ranks failed"), "{error}");
    }

    #[test]
    fn an_interrupted_rank_leaves_the_word_to_rank_0() {
        let (site, key) = (Site::find("lo").unwrap(), Key::random().unwrap());
        // Rank 0 has ended already.
        let (_deaf, at) = deaf();
        let outcome = take_part(&card(&site, at, &key), 1, &site, &AtomicBool::new(true));
        assert!(matches!(outcome, Ok(Outcome::Interrupted)), "{outcome:?}");
    }
}
