//! Questions to a driver, by ioctl: `SIOCETHTOOL` (linux/ethtool.h) and those of netdevice(7).
//!
//! Only questions; a driver that does not answer one gives `None`. What is set, `set.rs` sets.

mod set;

pub use set::{Feature, WantedFeature};

use gigae_host::netdevice::{self, Driver, text};
use rustix::net::{AddressFamily, SocketType};
use std::io;
use std::os::fd::OwnedFd;

use crate::data::{Coalescing, Level, Offloads, Queues, Rings};

/// Commands of linux/ethtool.h.
const ETHTOOL_GCOALESCE: u32 = 0x0e;
const ETHTOOL_GRINGPARAM: u32 = 0x10;
const ETHTOOL_GSTRINGS: u32 = 0x1b;
const ETHTOOL_GSTATS: u32 = 0x1d;
const ETHTOOL_GSSET_INFO: u32 = 0x37;
const ETHTOOL_GFEATURES: u32 = 0x3a;
const ETHTOOL_GCHANNELS: u32 = 0x3c;
const ETHTOOL_GLINKSETTINGS: u32 = 0x4c;

/// linux/ethtool.h: the sets of names of counters and of features, and bytes per name.
const ETH_SS_STATS: u32 = 1;
const ETH_SS_FEATURES: u32 = 4;
const ETH_GSTRING_LEN: usize = 32;

/// A socket to ask through; it belongs to the namespace of the thread that opened it.
pub struct Ethtool {
    socket: OwnedFd,
}

/// Speed and duplex, as far as known.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct LinkSettings {
    pub(super) speed_mbit: Option<u32>,
    pub(super) full_duplex: Option<bool>,
}

impl Ethtool {
    /// A socket for the requests. One system call.
    pub fn new() -> io::Result<Ethtool> {
        let socket = rustix::net::socket(AddressFamily::INET, SocketType::DGRAM, None)?;
        Ok(Ethtool { socket })
    }

    /// The driver, its version and firmware, and where the device is plugged in.
    pub fn driver(&self, name: &str) -> Option<Driver> {
        netdevice::driver(&self.socket, name).ok()
    }

    pub(super) fn link(&self, name: &str) -> Option<LinkSettings> {
        // struct ethtool_link_settings: 12 words, then three masks. The first call, with masks of
        // no length, answers with minus the length that the second call must bring.
        const WORDS: usize = 12;
        const LENGTH_WORD: usize = 3;
        let mut words = vec![0_u32; WORDS];
        words[0] = ETHTOOL_GLINKSETTINGS;
        self.call(name, &mut words).ok()?;
        let length = words[LENGTH_WORD].to_ne_bytes()[3] as i8;
        let masks = usize::try_from(-i32::from(length)).ok()?;
        words = vec![0; WORDS + 3 * masks];
        words[0] = ETHTOOL_GLINKSETTINGS;
        words[LENGTH_WORD] = u32::from_ne_bytes([0, 0, 0, masks as u8]);
        self.call(name, &mut words).ok()?;
        Some(link_settings(words[1], words[2].to_ne_bytes()[0]))
    }

    pub(super) fn queues(&self, name: &str) -> Option<Queues> {
        // struct ethtool_channels: cmd; the most of rx, tx, other, combined; the same as set.
        let [_, max_rx, max_tx, _, max_combined, rx, tx, _, combined] =
            self.ask(name, ETHTOOL_GCHANNELS).ok()?;
        Some(Queues {
            rx: Level { current: rx, max: max_rx },
            tx: Level { current: tx, max: max_tx },
            combined: Level { current: combined, max: max_combined },
        })
    }

    pub(super) fn rings(&self, name: &str) -> Option<Rings> {
        // struct ethtool_ringparam: cmd; the most of rx, mini, jumbo, tx; the same as set.
        let [_, max_rx, _, _, max_tx, rx, _, _, tx] = self.ask(name, ETHTOOL_GRINGPARAM).ok()?;
        Some(Rings {
            rx: Level { current: rx, max: max_rx },
            tx: Level { current: tx, max: max_tx },
        })
    }

    pub(super) fn coalescing(&self, name: &str) -> Option<Coalescing> {
        // struct ethtool_coalesce, 23 words.
        let words = self.ask::<23>(name, ETHTOOL_GCOALESCE).ok()?;
        Some(Coalescing {
            rx_usecs: words[1],
            rx_frames: words[2],
            tx_usecs: words[5],
            tx_frames: words[6],
            adaptive_rx: words[10] != 0,
            adaptive_tx: words[11] != 0,
        })
    }

    pub(super) fn offloads(&self, name: &str) -> Option<Offloads> {
        let features = self.features(name).ok()?;
        let on = features.iter().filter(|feature| feature.active);
        Some(offloads(on.map(|feature| feature.name.as_str())))
    }

    /// The driver's counters by its names.
    pub(super) fn statistics(&self, name: &str) -> Option<Vec<(String, u64)>> {
        let names = self.names(name, ETH_SS_STATS)?;
        // struct ethtool_stats: cmd, number of counters, then 64 bits each. The kernel writes as
        // many as the driver has at that moment, which may be more than it had names for a moment
        // ago (queues were added): room for twice as many.
        let mut words = vec![0_u32; 2 + 2 * (2 * names.len() + 64)];
        (words[0], words[1]) = (ETHTOOL_GSTATS, names.len() as u32);
        self.call(name, &mut words).ok()?;
        let values = words[2..].chunks_exact(2).map(|pair| {
            let [a, b, c, d] = pair[0].to_ne_bytes();
            let [e, f, g, h] = pair[1].to_ne_bytes();
            u64::from_ne_bytes([a, b, c, d, e, f, g, h])
        });
        // Other names than values: they cannot be matched.
        (words[1] as usize == names.len()).then(|| names.into_iter().zip(values).collect())
    }

    /// The index of an interface.
    pub fn index(&self, name: &str) -> Option<u32> {
        rustix::net::netdevice::name_to_index(&self.socket, name).ok()
    }

    /// The Ethernet address in words.
    pub fn mac(&self, name: &str) -> Option<String> {
        let (_, mac) = netdevice::hardware(&self.socket, name).ok()?;
        Some(mac.map(|byte| format!("{byte:02x}")).join(":"))
    }

    pub(super) fn is_ethernet(&self, name: &str) -> bool {
        netdevice::hardware(&self.socket, name).is_ok_and(|(kind, _)| kind == libc::ARPHRD_ETHER)
    }

    /// The MTU in bytes.
    pub fn mtu(&self, name: &str) -> Option<u32> {
        netdevice::mtu(&self.socket, name).ok()
    }

    /// True when the interface is up and its link carries frames.
    pub fn is_running(&self, name: &str) -> bool {
        let wanted = libc::IFF_UP | libc::IFF_RUNNING;
        netdevice::flags(&self.socket, name).is_ok_and(|flags| flags & wanted == wanted)
    }

    fn names(&self, name: &str, set: u32) -> Option<Vec<String>> {
        // struct ethtool_sset_info: cmd, reserved, 64 bits of sets, a length per set asked for.
        let mask = (1_u64 << set).to_ne_bytes();
        let half =
            |at: usize| u32::from_ne_bytes([mask[at], mask[at + 1], mask[at + 2], mask[at + 3]]);
        let mut info = [ETHTOOL_GSSET_INFO, 0, half(0), half(4), 0];
        self.call(name, &mut info).ok()?;
        // struct ethtool_gstrings: cmd, set, length, then the names.
        let words_per_name = ETH_GSTRING_LEN / 4;
        let mut words = vec![0_u32; 3 + info[4] as usize * words_per_name];
        words[..3].copy_from_slice(&[ETHTOOL_GSTRINGS, set, info[4]]);
        self.call(name, &mut words).ok()?;
        Some(words[3..].chunks_exact(words_per_name).map(text).collect())
    }

    /// A question whose answer is a structure of `N` words, the command in the first.
    fn ask<const N: usize>(&self, name: &str, command: u32) -> io::Result<[u32; N]> {
        let mut words = [0; N];
        words[0] = command;
        self.call(name, &mut words)?;
        Ok(words)
    }

    /// One ethtool command. `words` must hold the command's whole structure, variable part
    /// included, at the length that the structure itself states.
    fn call(&self, name: &str, words: &mut [u32]) -> io::Result<()> {
        // SAFETY: the callers size the structure by its command and by the length field that they
        // put into it.
        Ok(unsafe { netdevice::ethtool(&self.socket, name, words) }?)
    }
}

/// All ones is SPEED_UNKNOWN, 0xff is DUPLEX_UNKNOWN; a link that is down has speed 0 with some
/// drivers.
fn link_settings(speed: u32, duplex: u8) -> LinkSettings {
    LinkSettings {
        speed_mbit: (speed != 0 && speed != u32::MAX).then_some(speed),
        full_duplex: (duplex <= 1).then_some(duplex == 1),
    }
}

/// From the kernel's names (net/ethtool/common.c) to the short ones.
fn offloads<'a>(on: impl Iterator<Item = &'a str>) -> Offloads {
    let mut found = Offloads::default();
    for name in on {
        match name {
            "tx-generic-segmentation" => found.gso = true,
            "rx-gro" => found.gro = true,
            "rx-lro" => found.lro = true,
            "tx-udp-segmentation" => found.udp_segmentation = true,
            "rx-checksum" => found.rx_checksum = true,
            "tx-scatter-gather" => found.scatter_gather = true,
            "rx-hashing" => found.rx_hash = true,
            "rx-ntuple-filter" => found.ntuple = true,
            "rx-vlan-hw-parse" => found.rx_vlan = true,
            "tx-vlan-hw-insert" => found.tx_vlan = true,
            // Not by prefix: others of the kind are for storage and SCTP.
            "tx-checksum-ipv4" | "tx-checksum-ip-generic" => found.tx_checksum = true,
            "tx-tcp-segmentation" => found.tso = true,
            _ => {}
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_kernel_does_not_know_is_none() {
        let settings = |speed_mbit, full_duplex| LinkSettings { speed_mbit, full_duplex };
        assert_eq!(link_settings(u32::MAX, 0xff), settings(None, None));
        assert_eq!(link_settings(0, 0xff), settings(None, None));
        assert_eq!(link_settings(1000, 1), settings(Some(1000), Some(true)));
        assert_eq!(link_settings(10, 0), settings(Some(10), Some(false)));
    }

    #[test]
    fn offloads_have_their_short_names() {
        let on = ["tx-tcp-segmentation", "rx-gro", "tx-checksum-sctp", "tx-checksum-ip-generic"];
        let expected = Offloads { tso: true, gro: true, tx_checksum: true, ..Offloads::default() };
        assert_eq!(offloads(on.into_iter()), expected);
        assert_eq!(offloads(["tx-checksum-sctp"].into_iter()), Offloads::default());
    }
}
