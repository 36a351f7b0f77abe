//! `/etc/gigae/broker.toml`: which NICs may be used, by which users, and how much of them.

use crate::names;
use gigae_wire::Envelope;
use serde::Deserialize;
use std::collections::BTreeSet;
use std::io;
use std::ops::Range;
use std::path::{Path, PathBuf};
use toml::Spanned;

/// The path of the configuration.
pub const CONFIG: &str = "/etc/gigae/broker.toml";

/// In `users`: every user of this machine.
const EVERYBODY: &str = "*";

/// Ports of one user: a rank on every processor of a large node.
const PORTS_PER_USER: u32 = 256;

/// MiB of one user: enough for that many ports with the default frames of an endpoint, 20 MiB each.
const MIB_PER_USER: u32 = 5120;

/// The same of all users together.
const PORTS: u32 = 1024;
const MIB: u32 = 20_480;

/// Largest limit that can be configured: the broker has four descriptors for each port.
const MOST_PORTS: u32 = 16_384;

/// Smaller numbers are lengths (IEEE Std 802.3, clause 3.2.6).
const LEAST_ETHERTYPE: u16 = 0x0600;

/// The configuration of a broker.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BrokerConfig {
    /// The file that it was read from.
    pub path: PathBuf,
    /// NICs on which ports may be made, the preferred one first.
    pub nics: Vec<String>,
    /// The user that a broker started by root becomes; `None`: see [`run`](crate::run).
    pub user: Option<String>,
    /// Who may have ports.
    pub allowed: Allowed,
    /// EtherTypes that may be used.
    pub ethertypes: Vec<u16>,
    /// Limits of one user.
    pub per_user: Limits,
    /// Limits of all users together.
    pub in_all: Limits,
}

/// Who may have ports.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Allowed {
    /// Every user.
    pub everybody: bool,
    /// These users, by number.
    pub users: BTreeSet<u32>,
    /// And those of these groups.
    pub groups: BTreeSet<u32>,
}

/// Largest use at one time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Ports.
    pub ports: u32,
    /// MiB of frame memory.
    pub mib: u32,
}

/// The configuration cannot be used. The text is one line that says where the problem is and what
/// to do.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// It cannot be read.
    #[error(
        "cannot read '{path}': {source}; write one as docs/reference/broker.md says, or name another by --config"
    )]
    Read {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// Its text is wrong.
    #[error("{path}:{line}: {what}")]
    Text {
        /// The file.
        path: PathBuf,
        /// The line, from 1.
        line: usize,
        /// What is wrong, and what to do.
        what: String,
    },
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct BrokerFile {
    nics: Spanned<Vec<Spanned<String>>>,
    user: Option<Spanned<String>>,
    #[serde(default)]
    users: Vec<Spanned<Who>>,
    #[serde(default)]
    groups: Vec<Spanned<Who>>,
    ethertypes: Option<Vec<Spanned<u16>>>,
    ports_per_user: Option<Spanned<u32>>,
    mib_per_user: Option<Spanned<u32>>,
    ports: Option<Spanned<u32>>,
    mib: Option<Spanned<u32>>,
}

/// A user or a group.
#[derive(Deserialize)]
#[serde(untagged)]
enum Who {
    Number(u32),
    Name(String),
}

/// What is wrong, and where.
type ConfigIssue = (Range<usize>, String);

impl BrokerConfig {
    /// Reads the file. Looks up the names of users and groups once.
    pub fn read(path: &Path) -> Result<Self, ConfigError> {
        let read = |source| ConfigError::Read { path: path.into(), source };
        Self::parse(&std::fs::read_to_string(path).map_err(read)?, path)
    }

    /// The same from its text.
    pub fn parse(text: &str, path: &Path) -> Result<Self, ConfigError> {
        let checked = toml::from_str::<BrokerFile>(text)
            .map_err(|e| (e.span().unwrap_or_default(), e.message().replace('\n', " ")))
            .and_then(check);
        let wrong = |(at, what): ConfigIssue| {
            let before = text.as_bytes().iter().take(at.start);
            let line = before.filter(|&&byte| byte == b'\n').count() + 1;
            ConfigError::Text { path: path.into(), line, what }
        };
        Ok(Self { path: path.into(), ..checked.map_err(wrong)? })
    }
}

fn check(entries: BrokerFile) -> Result<BrokerConfig, ConfigIssue> {
    let mut nics: Vec<String> = Vec::new();
    for entry in entries.nics.get_ref() {
        let name = entry.get_ref();
        if !(1..=15).contains(&name.len()) || nics.contains(name) {
            let what = format!("'{name}' is named twice, or no name of a NIC; see 'ip link'");
            return Err((entry.span(), what));
        }
        nics.push(name.clone());
    }
    if nics.is_empty() {
        return Err((entries.nics.span(), "no NIC may be used; name one, see 'ip link'".into()));
    }
    let user = entries.user.map(|name| match names::user(name.get_ref()) {
        Some(0) => Err((name.span(), "a broker does not run as root; name another user".into())),
        // A broker becomes a user of this machine, of no directory (LDAP).
        _ if gigae_confine::is_local_user(name.get_ref()) => Ok(name.into_inner()),
        _ => {
            let (at, name) = (name.span(), name.into_inner());
            let what = format!("no user '{name}' in /etc/passwd; name a user of this machine");
            Err((at, what))
        }
    });
    let user = user.transpose()?;
    let mut allowed = Allowed::default();
    for entry in &entries.users {
        match entry.get_ref() {
            Who::Name(name) if name == EVERYBODY => allowed.everybody = true,
            who => drop(allowed.users.insert(number(who, "user", entry, names::user)?)),
        }
    }
    for entry in &entries.groups {
        allowed.groups.insert(number(entry.get_ref(), "group", entry, names::group)?);
    }
    let Envelope::Ethernet { ethertype: usual } = Envelope::DEFAULT else { unreachable!() };
    let mut ethertypes = Vec::new();
    for entry in entries.ethertypes.iter().flatten() {
        let ethertype = *entry.get_ref();
        if ethertype < LEAST_ETHERTYPE {
            let what = format!("0x{ethertype:04x} is not an EtherType; give one from 0x0600 on");
            return Err((entry.span(), what));
        }
        ethertypes.push(ethertype);
    }
    let per_user = Limits {
        ports: limit(entries.ports_per_user, PORTS_PER_USER, MOST_PORTS)?,
        mib: limit(entries.mib_per_user, MIB_PER_USER, u32::MAX)?,
    };
    let in_all = Limits {
        ports: limit(entries.ports, PORTS, MOST_PORTS)?,
        mib: limit(entries.mib, MIB, u32::MAX)?,
    };
    if entries.ethertypes.is_none() {
        ethertypes.push(usual);
    }
    Ok(BrokerConfig { path: PathBuf::new(), nics, user, allowed, ethertypes, per_user, in_all })
}

fn number(
    who: &Who,
    kind: &str,
    entry: &Spanned<Who>,
    look_up: fn(&str) -> Option<u32>,
) -> Result<u32, ConfigIssue> {
    match who {
        Who::Number(number) => Ok(*number),
        Who::Name(name) => look_up(name).ok_or_else(|| {
            let what = format!("no {kind} '{name}' here; correct it, or give its number");
            (entry.span(), what)
        }),
    }
}

fn limit(entry: Option<Spanned<u32>>, usual: u32, most: u32) -> Result<u32, ConfigIssue> {
    match entry {
        None => Ok(usual),
        Some(entry) if *entry.get_ref() <= most => Ok(entry.into_inner()),
        Some(entry) => Err((entry.span(), format!("at most {most} are possible"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<BrokerConfig, String> {
        BrokerConfig::parse(text, Path::new("b.toml")).map_err(|e| e.to_string())
    }

    #[test]
    fn one_nic_is_enough_and_then_nobody_is_allowed() {
        let config = parse("nics = ['eth1']").unwrap();
        assert_eq!(config.nics, ["eth1"]);
        assert_eq!(config.allowed, Allowed::default());
        assert_eq!(config.ethertypes, [0x88b5]);
        assert_eq!(config.per_user, Limits { ports: PORTS_PER_USER, mib: MIB_PER_USER });
    }

    #[test]
    fn users_and_groups_have_names_or_numbers() {
        let text = "nics = ['a', 'b']\nusers = ['root', 1000]\ngroups = ['root', 100]\nports = 7\n\
                    ethertypes = [0x88b5, 0x88b6]\nmib_per_user = 64";
        let config = parse(text).unwrap();
        let Allowed { everybody, users, groups } = config.allowed;
        assert!(!everybody && users == [0, 1000].into() && groups == [0, 100].into());
        assert_eq!((config.in_all.ports, config.per_user.mib), (7, 64));
        assert!(parse("nics = ['a']\nusers = ['*']").unwrap().allowed.everybody);
        assert_eq!(parse("nics = ['a']\nuser = 'nobody'").unwrap().user.unwrap(), "nobody");
    }

    #[test]
    fn every_mistake_is_reported_with_its_line() {
        for (text, line, part) in [
            ("users = [1]", 1, "nics"),
            ("\nnics = []", 2, "no NIC"),
            ("nics = ['eth0',\n'eth0']", 2, "twice"),
            ("nics = ['a-name-that-is-too-long']", 1, "no name of a NIC"),
            ("nics = ['a']\nusers = ['no-such-user-here']", 2, "no user"),
            ("nics = ['a']\nuser = 'no-such-user-here'", 2, "name a user of this machine"),
            ("nics = ['a']\nuser = 'no-such-user-here'", 2, "/etc/passwd"),
            ("nics = ['a']\nuser = 'root'", 2, "does not run as root"),
            ("nics = ['a']\ngroups = ['no-such-group-here']", 2, "no group"),
            ("nics = ['a']\nethertypes = [5]", 2, "EtherType"),
            ("nics = ['a']\nports = 100000", 2, "at most"),
            ("nics = ['a']\nport = 1", 2, "port"),
            ("nics = ['a'\n", 1, ""),
        ] {
            let error = parse(text).unwrap_err();
            assert!(error.starts_with(&format!("b.toml:{line}: ")), "{error}");
            assert!(error.contains(part) && !error.contains('\n'), "{error}");
        }
        let error = BrokerConfig::read(Path::new("/nowhere/broker.toml")).unwrap_err().to_string();
        assert!(error.contains("/nowhere/broker.toml") && error.contains("--config"), "{error}");
    }
}
