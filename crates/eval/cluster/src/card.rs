//! What a rank says of itself by way of the launcher.

use crate::launcher::MOST_VALUE;
use data_encoding::BASE64URL_NOPAD;
use gigae_eval_measure::site::Site;
use gigae_host::proc;
use serde::{Deserialize, Serialize};
use std::net::{IpAddr, SocketAddr};

/// Longest name of a host that is kept: Linux allows no longer one.
const MOST_NAME: usize = 64;

/// A rank's place.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Card {
    /// The host's name.
    pub(crate) host: String,
    /// The number of this start of its kernel. Hosts with the same one are namespaces of a machine.
    pub(crate) boot: String,
    /// Its interface, or several with commas between them.
    pub(crate) interface: String,
    /// The Ethernet address of the first one.
    pub(crate) mac: [u8; 6],
    /// Its IP address.
    pub(crate) ip: IpAddr,
    /// Its MTU in bytes.
    pub(crate) mtu: usize,
    /// Where rank 0 listens, and the key of the run.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub(crate) control: Option<Control>,
}

/// How ranks reach rank 0.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Control {
    /// The address.
    pub(crate) at: SocketAddr,
    /// The key, in hexadecimal digits.
    pub(crate) key: String,
}

impl std::fmt::Debug for Control {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Control({})", self.at)
    }
}

impl Card {
    /// This rank's.
    pub(crate) fn of(site: &Site) -> Self {
        let name = rustix::system::uname().nodename().to_string_lossy().into_owned();
        Self {
            host: name.chars().filter(|c| !c.is_control()).take(MOST_NAME).collect(),
            boot: proc::read("/proc/sys/kernel/random/boot_id").trim().to_owned(),
            interface: site.names().replace(", ", ","),
            mac: site.mac,
            ip: site.ip,
            mtu: site.mtu,
            control: None,
        }
    }

    /// As the launcher passes it on; `None` if it is too long.
    pub(crate) fn encode(&self) -> Option<String> {
        let json = serde_json::to_vec(self).expect("a card is plain data");
        Some(BASE64URL_NOPAD.encode(&json)).filter(|text| text.len() <= MOST_VALUE)
    }

    /// Reads it back.
    pub(crate) fn decode(text: &str) -> Option<Self> {
        let json = BASE64URL_NOPAD.decode(text.as_bytes()).ok()?;
        let card: Self = serde_json::from_slice(&json).ok()?;
        let printable = |text: &str| !text.chars().any(char::is_control);
        (printable(&card.host) && printable(&card.interface)).then_some(card)
    }
}

/// Which of these ranks measure: the first one on each host. Of each, the number of its machine's
/// hosts before it, and of all of them: hosts that are namespaces of one machine share its CPUs.
pub(crate) fn measuring(cards: &[Card]) -> Vec<Member> {
    let mut members: Vec<Member> = Vec::new();
    for (rank, card) in (0..).zip(cards) {
        let is_same = |member: &Member| {
            let other = &cards[member.rank as usize];
            (&other.host, &other.boot) == (&card.host, &card.boot)
        };
        if !members.iter().any(is_same) {
            members.push(Member { rank, place: 0, of: 0 });
        }
    }
    let boots: Vec<&str> =
        members.iter().map(|member| cards[member.rank as usize].boot.as_str()).collect();
    for (number, member) in members.iter_mut().enumerate() {
        let is_of_it = |boot: &&&str| **boot == boots[number];
        member.of = boots.iter().filter(is_of_it).count();
        member.place = boots[..number].iter().filter(is_of_it).count();
    }
    members
}

/// A rank that measures.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Member {
    /// Its number in the job.
    pub(crate) rank: u32,
    /// Its place among the hosts of its machine, and how many these are.
    pub(crate) place: usize,
    pub(crate) of: usize,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn card(host: &str, boot: &str) -> Card {
        Card {
            host: host.into(),
            boot: boot.into(),
            interface: "eth0,eth1".into(),
            mac: [2, 0, 0, 0, 0, 9],
            ip: [198, 18, 0, 1].into(),
            mtu: 9000,
            control: None,
        }
    }

    #[test]
    fn a_card_passes_through_every_launcher() {
        let control = Control { at: "[fd00::1]:49988".parse().unwrap(), key: "ab".repeat(32) };
        let long = "n".repeat(MOST_NAME);
        let boot = "01234567-89ab-cdef-0123-456789abcdef";
        let own = Card { control: Some(control), ..card(&long, boot) };
        let text = own.encode().unwrap();
        assert!(text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_".contains(&byte)));
        assert_eq!(Card::decode(&text), Some(own.clone()));
        assert!(!format!("{own:?}").contains("abab"), "the key is not logged");
        let endless = Card { interface: "x".repeat(MOST_VALUE), ..own };
        assert_eq!(endless.encode(), None);
    }

    #[test]
    fn what_is_no_card_is_refused() {
        let hidden = Card { host: "a\u{1b}[2J".into(), ..card("a", "1") };
        for text in ["", "!", "e30", &hidden.encode().unwrap()] {
            assert_eq!(Card::decode(text), None, "{text}");
        }
    }

    #[test]
    fn the_first_rank_on_each_host_measures() {
        let cards =
            [card("a", "1"), card("b", "2"), card("a", "1"), card("c", "2"), card("a", "3")];
        let ranks: Vec<_> =
            measuring(&cards).iter().map(|one| (one.rank, one.place, one.of)).collect();
        assert_eq!(ranks, [(0, 0, 1), (1, 0, 2), (3, 1, 2), (4, 0, 1)]);
    }
}
