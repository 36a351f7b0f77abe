//! What a caller can set in a driver, by the same ioctls: coalescing, rings, queues, features, MTU.
//!
//! A caller reads a setting before it sets it, and again afterwards: drivers round, and the kernel
//! takes features away that need others. The evaluator's tuning sets and restores; the owner of an
//! interface sets its queues.

use super::{
    ETH_SS_FEATURES, ETHTOOL_GCHANNELS, ETHTOOL_GCOALESCE, ETHTOOL_GFEATURES, ETHTOOL_GRINGPARAM,
    Ethtool,
};
use gigae_host::netdevice;
use std::io;

/// Commands of linux/ethtool.h.
const ETHTOOL_SCOALESCE: u32 = 0x0f;
const ETHTOOL_SRINGPARAM: u32 = 0x11;
const ETHTOOL_SFEATURES: u32 = 0x3b;
const ETHTOOL_SCHANNELS: u32 = 0x3d;

/// Words of struct ethtool_coalesce.
const COALESCE: usize = 23;

/// Words of struct ethtool_ringparam: cmd; the most of rx, mini, jumbo, tx; the same as set.
const RINGS: usize = 9;

/// A feature, by the name that `ethtool -k` shows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Feature {
    /// Its name, as `ethtool -k` shows it.
    pub name: String,
    /// Whether it can be changed.
    pub available: bool,
    /// Whether it is wanted; it may wait for another that it needs.
    pub requested: bool,
    /// Whether it is on.
    pub active: bool,
}

/// A feature that is asked for, or that is to be off.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WantedFeature<'a> {
    /// Its name.
    pub name: &'a str,
    /// Whether it is to be on.
    pub on: bool,
}

impl Ethtool {
    /// A word of struct ethtool_coalesce by its place; `EOPNOTSUPP` from drivers without
    /// coalescing.
    pub fn coalesce(&self, name: &str, word: usize) -> io::Result<u32> {
        Ok(self.ask::<COALESCE>(name, ETHTOOL_GCOALESCE)?[word])
    }

    /// Changes one of them.
    pub fn set_coalesce(&self, name: &str, word: usize, value: u32) -> io::Result<()> {
        let mut words: [_; COALESCE] = self.ask(name, ETHTOOL_GCOALESCE)?;
        (words[0], words[word]) = (ETHTOOL_SCOALESCE, value);
        self.call(name, &mut words)
    }

    /// A word of struct ethtool_ringparam by its place.
    pub fn ring(&self, name: &str, word: usize) -> io::Result<u32> {
        Ok(self.ask::<RINGS>(name, ETHTOOL_GRINGPARAM)?[word])
    }

    /// Changes one of them. Most drivers take the link down for that, for up to seconds.
    pub fn set_ring(&self, name: &str, word: usize, value: u32) -> io::Result<()> {
        let mut words: [_; RINGS] = self.ask(name, ETHTOOL_GRINGPARAM)?;
        (words[0], words[word]) = (ETHTOOL_SRINGPARAM, value);
        self.call(name, &mut words)
    }

    /// Asks for `pairs` pairs of queues (`combined`), where the driver has pairs and has others.
    pub fn set_pairs(&self, name: &str, pairs: u32) -> io::Result<()> {
        // struct ethtool_channels: cmd; the most of rx, tx, other, combined; the same as set.
        let mut words: [_; 9] = self.ask(name, ETHTOOL_GCHANNELS)?;
        let set = &mut words[8];
        if *set == 0 || *set == pairs {
            return Ok(());
        }
        *set = pairs;
        words[0] = ETHTOOL_SCHANNELS;
        self.call(name, &mut words)
    }

    /// All features.
    pub fn features(&self, name: &str) -> io::Result<Vec<Feature>> {
        let names = self
            .names(name, ETH_SS_FEATURES)
            .ok_or_else(|| io::Error::other("the kernel names no features"))?;
        let blocks = names.len().div_ceil(32);
        // struct ethtool_gfeatures: cmd, size; per block: available, requested, active, never.
        let mut words = vec![0_u32; 2 + 4 * blocks];
        (words[0], words[1]) = (ETHTOOL_GFEATURES, blocks as u32);
        self.call(name, &mut words)?;
        let feature = |(bit, name): (usize, String)| {
            let of = |kind: usize| words[2 + 4 * (bit / 32) + kind] >> (bit % 32) & 1 == 1;
            Feature { name, available: of(0), requested: of(1), active: of(2) }
        };
        Ok(names.into_iter().enumerate().map(feature).collect())
    }

    /// Asks for features and against others; those that are not named stay as they are.
    pub fn request(&self, name: &str, wanted: &[WantedFeature<'_>]) -> io::Result<()> {
        let names = self
            .names(name, ETH_SS_FEATURES)
            .ok_or_else(|| io::Error::other("the kernel names no features"))?;
        let blocks = names.len().div_ceil(32);
        // struct ethtool_sfeatures: cmd, size, then per block of 32 features: valid, requested.
        let mut words = vec![0_u32; 2 + 2 * blocks];
        (words[0], words[1]) = (ETHTOOL_SFEATURES, blocks as u32);
        for (bit, own) in names.iter().enumerate() {
            if let Some(one) = wanted.iter().find(|one| one.name == own.as_str()) {
                let (block, mask) = (bit / 32, 1_u32 << (bit % 32));
                words[2 + 2 * block] |= mask;
                words[3 + 2 * block] |= if one.on { mask } else { 0 };
            }
        }
        self.call(name, &mut words)
    }

    /// `ip link set mtu`, in bytes.
    pub fn set_mtu(&self, name: &str, mtu: u32) -> io::Result<()> {
        Ok(netdevice::set_mtu(&self.socket, name, mtu)?)
    }
}
