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
            follow(&first, rank, &site, interrupted).map(|()| Outcome::Done)
        }
        Some(listener) => {
            let cards = (0..launcher.size())
                .map(|rank| card_of(&mut *launcher, rank))
                .collect::<Result<Vec<_>, _>>()?;
            let protocol = launcher.protocol();
            launcher.finish()?;
            let job = Job { config, protocol, cards: &cards, interrupted };
            std::thread::scope(|scope| {
                scope.spawn(|| {
                    // What goes wrong here, the coordinator sees.
                    let _ = follow(&card, 0, &site, interrupted);
                });
                lead(&job, listener, &key, progress)
                    .map(|results| Outcome::Results(Box::new(results)))
            })
        }
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

/// Connects to rank 0 and does what it says.
fn follow(
    first: &Card,
    rank: u32,
    site: &Site,
    interrupted: &AtomicBool,
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
    let mut session = loop {
        let connected = control::connect(&control.at.to_string(), &key, &mut |_| true);
        // Many ranks connect at the same time: rank 0 may be slow.
        match connected {
            Ok(session) => break session,
            Err(ControlError::Unreachable { .. } | ControlError::Silent(_))
                if Instant::now() < deadline && !interrupted.load(Ordering::Relaxed) =>
            {
                std::thread::sleep(AGAIN);
            }
            Err(error) => return Err(missing(error)),
        }
    };
    session.send(&Report::Hello { rank, about }).map_err(missing)?;
    worker::serve(&mut session, site, &first.host, interrupted)
}
