//! Where a soak takes place: a virtual network made for it, or the ways to other machines; and the
//! others' ends on it.

use super::state::{Conditions, Settings};
use gigae_eval_measure::environment;
use gigae_eval_measure::site::Site;
use gigae_eval_session::control;
use gigae_eval_session::control::{KEY_FILE, Key, Session, Waiting};
use gigae_eval_session::stage;
use gigae_eval_session::stage::{ServingProcess, StageError, prefix};
use gigae_fabric::{Fabric, FabricConfig, NetnsGuard, Rate};
use gigae_host::affinity;
use std::ffi::OsString;

/// Another end.
pub struct Client {
    /// Its name: of a node, or the address of its control connection.
    pub name: String,
    /// Its number in the soak, from 1.
    pub number: u8,
    /// The control connection.
    pub session: Session,
}

/// A virtual Gigabit Ethernet with a server, its first node, and so many clients.
pub fn virtual_network(clients: u8, seed: u64) -> Result<Fabric, StageError> {
    Ok(Fabric::up(FabricConfig {
        prefix: prefix(),
        nodes: u16::from(clients) + 1,
        rate: Some(Rate::GIGABIT),
        seed,
        ..FabricConfig::default()
    })?)
}

/// Under which conditions it takes place. How an endpoint reaches the interface is left out.
pub fn conditions(site: &Site, fabric: Option<&Fabric>, clients: u8) -> Conditions {
    let end = environment::describe(site);
    let build = if cfg!(debug_assertions) { ", a debug build" } else { "" };
    Conditions {
        gigae: format!("{} ({}){build}", environment::VERSION, environment::GIT),
        machine: format!("{}, {} CPUs, Linux {}", end.cpu, affinity::allowed().len(), end.kernel),
        nic: format!("{} ({}), MTU {}", end.interface, end.driver, end.mtu),
        link: String::new(),
        network: match fabric {
            Some(fabric) => format!(
                "virtual: {} nodes on one machine behind a switch of {} per port, {} KiB of buffer each",
                clients + 1,
                fabric.rate().map_or("any rate".into(), |rate| rate.to_string()),
                fabric.config().buffer >> 10
            ),
            None => format!("{clients} other machines"),
        },
    }
}

/// The place. The fields are dropped in this order: sessions, serving processes, then the thread
/// leaves the node, then the network goes.
pub struct SoakEnvironment {
    /// The others; empty until [`SoakEnvironment::connect`].
    pub clients: Vec<Client>,
    servings: Vec<ServingProcess>,
    _inside: Option<NetnsGuard>,
    /// The virtual network, if there is one.
    pub fabric: Option<Fabric>,
    /// This end.
    pub site: Site,
    peers: Vec<String>,
    key: Key,
    serve: Vec<OsString>,
}

impl SoakEnvironment {
    /// Sets up a virtual Gigabit Ethernet, whose first node the calling thread enters, or finds the
    /// interface towards other machines. `serve` is the command line of `gigae serve`.
    pub fn set_up(settings: &Settings, serve: &[OsString]) -> Result<Self, StageError> {
        let key = match &settings.key {
            Some(file) => Key::read(file)?,
            None if !settings.peers.is_empty() => Key::read(KEY_FILE.as_ref())?,
            None => Key::random()?,
        };
        let (peers, serve) = (settings.peers.clone(), serve.to_vec());
        let (clients, servings) = (Vec::new(), Vec::new());
        if !peers.is_empty() {
            let site = Site::find(&settings.nic)?;
            return Ok(Self {
                clients,
                servings,
                _inside: None,
                fabric: None,
                site,
                peers,
                key,
                serve,
            });
        }
        let fabric = virtual_network(settings.clients, settings.seed)?;
        let inside = Some(fabric.node(1).enter()?);
        let mut site = Site::find(&fabric.interfaces().join(","))?;
        site.virtual_link = true;
        let fabric = Some(fabric);
        Ok(Self { clients, servings, _inside: inside, fabric, site, peers, key, serve })
    }

    /// Connects to all others, again where there was a connection; on a virtual network their
    /// processes are started for it. `turn` as in [`control::connect`].
    pub fn connect(&mut self, turn: &mut dyn FnMut(&Waiting) -> bool) -> Result<(), StageError> {
        self.clients.clear();
        self.servings.clear();
        let Some(fabric) = &self.fabric else {
            for (number, peer) in (1..).zip(&self.peers) {
                let session = control::connect(peer, &self.key, turn)?;
                self.clients.push(Client { name: peer.clone(), number, session });
            }
            return Ok(());
        };
        let cpus = affinity::allowed();
        for (number, node) in (1..).zip(fabric.nodes().into_iter().skip(1)) {
            let cpu = cpus[usize::from(number) % cpus.len()];
            let interfaces = self.site.interfaces().collect::<Vec<_>>().join(",");
            let (program, arguments) = stage::program(&self.serve)?;
            let mut command = node.command(program)?;
            command.args(arguments);
            let ip = node.ipv4.into();
            let (serving, port) = ServingProcess::start(command, &interfaces, ip, &self.key, cpu)?;
            self.servings.push(serving);
            let session = control::connect(&format!("{}:{port}", node.ipv4), &self.key, turn)?;
            self.clients.push(Client { name: format!("client {number}"), number, session });
        }
        Ok(())
    }

    /// What processes of a virtual network said that have ended.
    pub fn last_words(&mut self) -> Option<String> {
        self.servings.iter_mut().find_map(ServingProcess::said)
    }

    /// Frames that full queues of the virtual switch have dropped so far.
    pub fn switch_drops(&self) -> Option<u64> {
        let ports = self.fabric.as_ref()?.port_counters().ok()?;
        Some(ports.iter().map(|port| port.dropped).sum())
    }
}
