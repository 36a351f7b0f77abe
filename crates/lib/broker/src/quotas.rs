//! What each user has, and whether a user may have more: the broker's rules, without a socket.

use crate::config::{BrokerConfig, Limits};
use crate::names::PeerProcess;
use crate::protocol::{Refusal, RefusalCode, Request};
use std::collections::HashMap;

const MIB: u64 = 1 << 20;

/// What a user has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct UserUsage {
    /// Ports.
    pub ports: u32,
    /// Bytes of frame memory.
    pub bytes: u64,
}

impl UserUsage {
    fn fits(&self, more: u64, limits: Limits) -> bool {
        self.ports < limits.ports && self.bytes + more <= u64::from(limits.mib) * MIB
    }
}

/// A port that was granted and must be given back ([`Quotas::release`]).
#[derive(Debug)]
#[must_use = "a grant that is dropped counts for ever"]
pub struct PortGrant {
    uid: u32,
    bytes: u64,
}

impl PortGrant {
    /// The user of the port.
    pub fn uid(&self) -> u32 {
        self.uid
    }
}

/// What each user may have, and what each user has.
#[derive(Debug)]
pub struct Quotas {
    config: BrokerConfig,
    /// Users with ports: never more entries than ports.
    users: HashMap<u32, UserUsage>,
    in_all: UserUsage,
}

impl Quotas {
    /// No user has a port yet.
    pub fn new(config: BrokerConfig) -> Self {
        Self { config, users: HashMap::new(), in_all: UserUsage::default() }
    }

    /// The configuration.
    pub fn config(&self) -> &BrokerConfig {
        &self.config
    }

    /// What all users have together.
    pub fn in_all(&self) -> UserUsage {
        self.in_all
    }

    /// What a user has.
    pub fn of(&self, uid: u32) -> UserUsage {
        self.users.get(&uid).copied().unwrap_or_default()
    }

    /// Whether a user may have one more port like this, whatever other users have.
    pub(crate) fn has_room(&self, uid: u32, request: &Request) -> bool {
        self.of(uid).fits(request.memory() as u64, self.config.per_user)
    }

    /// Whether this process may have ports at all.
    pub fn allows(&self, peer: &PeerProcess) -> Result<(), Refusal> {
        if peer.elsewhere {
            let text = "this process is in another network namespace than the broker, whose NICs are not \
                        there; run it where the broker runs, or start 'gigae broker' with a --socket of its \
                        own in this namespace and name that by GIGAE_BROKER";
            return Err(Refusal::new(RefusalCode::Namespace, text));
        }
        let allowed = &self.config.allowed;
        let is_allowed = allowed.everybody
            || allowed.users.contains(&peer.uid)
            || peer.groups.iter().any(|group| allowed.groups.contains(group));
        match is_allowed {
            true => Ok(()),
            false => Err(Refusal::new(
                RefusalCode::User,
                format_args!(
                    "user {} is not among those that {} allows; ask the administrator of this machine",
                    peer.uid,
                    self.config.path.display()
                ),
            )),
        }
    }

    /// Reserves a port, if this process may have one like this.
    pub fn grant(&mut self, peer: &PeerProcess, request: &Request) -> Result<PortGrant, Refusal> {
        self.allows(peer)?;
        if request.is_query() {
            return Err(Refusal::new(RefusalCode::Nothing, self.config.nics.join(" ")));
        }
        let (config, file) = (&self.config, self.config.path.display());
        if let Some(name) = request.interface.as_ref().filter(|&name| !config.nics.contains(name)) {
            let nics = config.nics.join(", ");
            let text =
                format!("'{name}' is not among the NICs that {file} allows: {nics}; name one");
            return Err(Refusal::new(RefusalCode::Interface, text));
        }
        if !config.ethertypes.contains(&request.ethertype) {
            let ethertype = request.ethertype;
            let text = format!("{file} does not allow EtherType 0x{ethertype:04x}; use another");
            return Err(Refusal::new(RefusalCode::EtherType, text));
        }
        if request.tx_frames == 0 || request.rx_frames == 0 {
            return Err(Refusal::new(
                RefusalCode::Malformed,
                "a port needs at least one transmit and one receive frame",
            ));
        }
        let bytes = request.memory() as u64;
        let user = self.of(peer.uid);
        let full = |whose: &str, limits: Limits, now: UserUsage| {
            let (ports, mib) = (now.ports, now.bytes / MIB);
            Refusal::new(
                RefusalCode::Limit,
                format_args!(
                    "{whose} {ports} ports and {mib} MiB, and {file} allows {} and {}; end some \
                     programs, or have it allow more",
                    limits.ports, limits.mib
                ),
            )
        };
        if !self.has_room(peer.uid, request) {
            return Err(full(&format!("user {} has", peer.uid), config.per_user, user));
        }
        if !self.in_all.fits(bytes, config.in_all) {
            return Err(full("all users together have", config.in_all, self.in_all));
        }
        let user = UserUsage { ports: user.ports + 1, bytes: user.bytes + bytes };
        self.users.insert(peer.uid, user);
        self.in_all.ports += 1;
        self.in_all.bytes += bytes;
        Ok(PortGrant { uid: peer.uid, bytes })
    }

    /// Ends the reservation of a port.
    pub fn release(&mut self, grant: PortGrant) {
        let PortGrant { uid, bytes } = grant;
        self.in_all.ports -= 1;
        self.in_all.bytes -= bytes;
        if let Some(user) = self.users.get_mut(&uid) {
            user.ports -= 1;
            user.bytes -= bytes;
            if user.ports == 0 {
                self.users.remove(&uid);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use gigae_link::ChannelSet;
    use std::path::Path;

    fn quotas(text: &str) -> Quotas {
        Quotas::new(BrokerConfig::parse(text, Path::new("/etc/gigae/broker.toml")).unwrap())
    }

    fn peer(uid: u32) -> PeerProcess {
        PeerProcess { uid, groups: vec![100], pid: 1, elsewhere: false }
    }

    /// 1 MiB.
    fn request() -> Request {
        Request {
            interface: None,
            ethertype: 0x88b5,
            channels: ChannelSet::EMPTY.with(0),
            long_frames: true,
            tx_frames: 128,
            rx_frames: 128,
            rx_ready: 16,
        }
    }

    fn why(result: Result<PortGrant, Refusal>) -> (RefusalCode, String) {
        let refusal = result.expect_err("refused");
        (refusal.why, refusal.text)
    }

    #[test]
    fn only_those_who_are_allowed_get_ports() {
        let mut users = quotas("nics = ['eth1']\nusers = [7]");
        let _port = users.grant(&peer(7), &request()).unwrap();
        let (refused, text) = why(users.grant(&peer(1000), &request()));
        assert_eq!(refused, RefusalCode::User);
        let said = "user 1000 is not among those that /etc/gigae/broker.toml allows; ask";
        assert!(text.starts_with(said), "{text}");
        assert!(quotas("nics = ['eth1']\ngroups = [100]").grant(&peer(8), &request()).is_ok());
        assert!(quotas("nics = ['eth1']\nusers = ['*']").grant(&peer(9), &request()).is_ok());
        assert!(quotas("nics = ['eth1']").grant(&peer(0), &request()).is_err(), "root, too");
    }

    #[test]
    fn a_process_of_another_network_namespace_gets_no_port() {
        let mut quotas = quotas("nics = ['eth1']\nusers = ['*']");
        let elsewhere = PeerProcess { elsewhere: true, ..peer(7) };
        assert_eq!(why(quotas.grant(&elsewhere, &request())).0, RefusalCode::Namespace);
    }

    #[test]
    fn only_what_is_allowed_is_granted() {
        let mut quotas = quotas("nics = ['eth1', 'eth2']\nusers = ['*']");
        let asked = Request { interface: Some("eth0".into()), ..request() };
        let (refused, text) = why(quotas.grant(&peer(1), &asked));
        assert!(refused == RefusalCode::Interface && text.contains("eth1, eth2"), "{text}");
        let asked = Request { ethertype: 0x0800, ..request() };
        assert_eq!(why(quotas.grant(&peer(1), &asked)).0, RefusalCode::EtherType);
        let asked = Request { rx_frames: 0, ..request() };
        assert_eq!(why(quotas.grant(&peer(1), &asked)).0, RefusalCode::Malformed);
        let asked = Request { tx_frames: 0, ..asked };
        assert_eq!(why(quotas.grant(&peer(1), &asked)).0, RefusalCode::Nothing);
        assert_eq!(quotas.in_all(), UserUsage::default(), "what is refused does not count");
    }

    #[test]
    fn ports_and_memory_are_limited_for_each_and_for_all_and_come_back() {
        let text =
            "nics = ['eth1']\nusers = ['*']\nports_per_user = 2\nmib_per_user = 3\nports = 3";
        let mut quotas = quotas(text);
        let first = quotas.grant(&peer(1), &request()).unwrap();
        let large = Request { rx_frames: u32::MAX, tx_frames: u32::MAX, ..request() };
        assert_eq!(why(quotas.grant(&peer(1), &large)).0, RefusalCode::Limit, "memory of a user");
        let second = quotas.grant(&peer(1), &request()).unwrap();
        let (refused, text) = why(quotas.grant(&peer(1), &request()));
        assert!(
            refused == RefusalCode::Limit && text.starts_with("user 1 has 2 ports and 2 MiB"),
            "{text}"
        );
        let other = quotas.grant(&peer(2), &request()).unwrap();
        let (refused, text) = why(quotas.grant(&peer(2), &request()));
        assert!(refused == RefusalCode::Limit && text.starts_with("all users"), "{text}");
        quotas.release(first);
        let again = quotas.grant(&peer(2), &request()).unwrap();
        [second, other, again].into_iter().for_each(|grant| quotas.release(grant));
        assert_eq!(
            (quotas.in_all(), quotas.of(1), quotas.users.len()),
            (UserUsage::default(), UserUsage::default(), 0)
        );
    }
}
