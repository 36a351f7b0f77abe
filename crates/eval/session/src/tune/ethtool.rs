//! Knobs of the driver, by ethtool(8)'s ioctls: coalescing, rings, offloads; and the MTU.

use super::knob::{Absent, Knob, number};
use super::place::Place;
use gigae_eval_model::knobs::Belongs;
use gigae_nic::ethtool::Feature;
use std::io;

/// Longest time that a driver may gather events, in microseconds: far beyond what anybody wants.
const LONGEST_GATHERING: u32 = 100_000;

/// More descriptors or frames than any driver has.
const MOST_FRAMES: u32 = 1 << 20;

/// A word of struct ethtool_coalesce (linux/ethtool.h).
pub(super) struct Coalescing {
    name: &'static str,
    about: &'static str,
    word: usize,
    /// Whether it is a switch.
    switch: bool,
}

pub(super) const RX_USECS: Coalescing = Coalescing {
    name: "rx-usecs",
    about: "microseconds from a received frame to its interrupt, at most",
    word: 1,
    switch: false,
};
pub(super) const RX_FRAMES: Coalescing = Coalescing {
    name: "rx-frames",
    about: "received frames that cause an interrupt before that",
    word: 2,
    switch: false,
};
pub(super) const TX_USECS: Coalescing = Coalescing {
    name: "tx-usecs",
    about: "microseconds from a sent frame to its interrupt, at most",
    word: 5,
    switch: false,
};
pub(super) const TX_FRAMES: Coalescing = Coalescing {
    name: "tx-frames",
    about: "sent frames that cause an interrupt before that",
    word: 6,
    switch: false,
};
pub(super) const ADAPTIVE_RX: Coalescing = Coalescing {
    name: "adaptive-rx",
    about: "the driver moves rx-usecs and rx-frames by load",
    word: 10,
    switch: true,
};

impl Knob for Coalescing {
    fn name(&self) -> &'static str {
        self.name
    }

    fn about(&self) -> &'static str {
        self.about
    }

    fn belongs(&self) -> Belongs {
        Belongs::Driver
    }

    fn values(&self) -> &'static str {
        match (self.switch, self.name.ends_with("usecs")) {
            (true, _) => "\"on\" or \"off\"",
            (false, true) => "0 to 100000 microseconds",
            (false, false) => "0 to 1048576 frames",
        }
    }

    fn accepts(&self, value: &str) -> bool {
        let most = if self.name.ends_with("usecs") { LONGEST_GATHERING } else { MOST_FRAMES };
        match self.switch {
            true => matches!(value, "on" | "off"),
            false => number(value).is_some_and(|value| value <= most),
        }
    }

    fn read(&self, place: &Place) -> Result<String, Absent> {
        let value = place.ethtool.coalesce(&place.interface, self.word);
        let value = value.map_err(|error| Absent::of(&error))?;
        Ok(match (self.switch, value) {
            (true, 0) => "off".to_owned(),
            (true, _) => "on".to_owned(),
            (false, value) => value.to_string(),
        })
    }

    fn exact(&self, _place: &Place, value: &str) -> Result<String, Absent> {
        Ok(value.to_owned())
    }

    fn write(&self, place: &mut Place, exact: &str) -> io::Result<()> {
        let value = match exact {
            "on" => 1,
            "off" => 0,
            other => number(other).ok_or(io::ErrorKind::InvalidInput)?,
        };
        place.ethtool.set_coalesce(&place.interface, self.word, value)
    }

    fn commands(&self, place: &Place, exact: &str) -> Vec<String> {
        vec![format!("ethtool -C {} {} {exact}", place.interface, self.name)]
    }
}

/// A word of struct ethtool_ringparam (linux/ethtool.h), and that of its most.
pub(super) struct Ring {
    name: &'static str,
    about: &'static str,
    /// `ethtool -G`'s word for it.
    option: &'static str,
    word: usize,
    most: usize,
}

pub(super) const RX_RING: Ring = Ring {
    name: "rx-ring",
    about: "descriptors of the receive ring",
    option: "rx",
    word: 5,
    most: 1,
};
pub(super) const TX_RING: Ring = Ring {
    name: "tx-ring",
    about: "descriptors of the transmit ring",
    option: "tx",
    word: 8,
    most: 4,
};

impl Knob for Ring {
    fn name(&self) -> &'static str {
        self.name
    }

    fn about(&self) -> &'static str {
        self.about
    }

    fn belongs(&self) -> Belongs {
        Belongs::Driver
    }

    fn values(&self) -> &'static str {
        "16 to 1048576 descriptors, or \"max\""
    }

    fn accepts(&self, value: &str) -> bool {
        value == "max" || number(value).is_some_and(|value| (16..=MOST_FRAMES).contains(&value))
    }

    fn read(&self, place: &Place) -> Result<String, Absent> {
        self.most(place)?;
        let value = place.ethtool.ring(&place.interface, self.word);
        value.map(|value| value.to_string()).map_err(|error| Absent::of(&error))
    }

    fn exact(&self, place: &Place, value: &str) -> Result<String, Absent> {
        let most = self.most(place)?;
        match number(value) {
            Some(value) if value > most => {
                Err(Absent(format!("the driver's ring has {most} descriptors at most")))
            }
            Some(value) => Ok(value.to_string()),
            None => Ok(most.to_string()),
        }
    }

    fn write(&self, place: &mut Place, exact: &str) -> io::Result<()> {
        let value = number(exact).ok_or(io::ErrorKind::InvalidInput)?;
        place.ethtool.set_ring(&place.interface, self.word, value)
    }

    fn commands(&self, place: &Place, exact: &str) -> Vec<String> {
        vec![format!("ethtool -G {} {} {exact}", place.interface, self.option)]
    }
}

impl Ring {
    fn most(&self, place: &Place) -> Result<u32, Absent> {
        match place.ethtool.ring(&place.interface, self.most) {
            Ok(0) => Err(Absent::new("the driver does not have it")),
            Ok(most) => Ok(most),
            Err(error) => Err(Absent::of(&error)),
        }
    }
}

/// Features that are turned on and off together. The exact value names those that are asked for.
pub(super) struct Offload {
    name: &'static str,
    about: &'static str,
    /// `ethtool -K`'s word for it.
    option: &'static str,
    of: fn(&str) -> bool,
}

pub(super) const TSO: Offload = Offload {
    name: "tso",
    about: "TCP segmentation by the device",
    option: "tso",
    of: |name| {
        matches!(
            name,
            "tx-tcp-segmentation"
                | "tx-tcp-ecn-segmentation"
                | "tx-tcp-mangleid-segmentation"
                | "tx-tcp6-segmentation"
        )
    },
};
pub(super) const GSO: Offload = Offload {
    name: "gso",
    about: "segmentation late in the kernel",
    option: "gso",
    of: |name| name == "tx-generic-segmentation",
};
pub(super) const GRO: Offload = Offload {
    name: "gro",
    about: "joining received frames early in the kernel",
    option: "gro",
    of: |name| name == "rx-gro",
};
pub(super) const LRO: Offload = Offload {
    name: "lro",
    about: "joining received frames by the device",
    option: "lro",
    of: |name| name == "rx-lro",
};
pub(super) const RX_CHECKSUM: Offload = Offload {
    name: "rx-checksum",
    about: "received checksums are checked by the device",
    option: "rx",
    of: |name| name == "rx-checksum",
};
pub(super) const TX_CHECKSUM: Offload = Offload {
    name: "tx-checksum",
    about: "checksums of what is sent are computed by the device",
    option: "tx",
    // Those of storage and SCTP are others.
    of: |name| matches!(name, "tx-checksum-ipv4" | "tx-checksum-ipv6" | "tx-checksum-ip-generic"),
};

/// An exact value without any feature.
const NONE: &str = "none";

impl Offload {
    fn features(&self, place: &Place) -> Result<Vec<Feature>, Absent> {
        let all = place.ethtool.features(&place.interface).map_err(|error| Absent::of(&error))?;
        let mine: Vec<Feature> = all.into_iter().filter(|one| (self.of)(&one.name)).collect();
        let on = mine.iter().any(|one| one.active);
        if mine.iter().any(|one| one.available) {
            return Ok(mine.into_iter().filter(|one| one.available).collect());
        }
        Err(Absent(format!("the driver keeps it {}", if on { "on" } else { "off" })))
    }
}

fn joined<'a>(names: impl Iterator<Item = &'a Feature>) -> String {
    let names: Vec<&str> = names.map(|one| one.name.as_str()).collect();
    if names.is_empty() { NONE.to_owned() } else { names.join(",") }
}

impl Knob for Offload {
    fn name(&self) -> &'static str {
        self.name
    }

    fn about(&self) -> &'static str {
        self.about
    }

    fn belongs(&self) -> Belongs {
        Belongs::Driver
    }

    fn values(&self) -> &'static str {
        "\"on\" or \"off\""
    }

    fn accepts(&self, value: &str) -> bool {
        matches!(value, "on" | "off")
    }

    fn read(&self, place: &Place) -> Result<String, Absent> {
        Ok(joined(self.features(place)?.iter().filter(|one| one.requested)))
    }

    fn exact(&self, place: &Place, value: &str) -> Result<String, Absent> {
        let features = self.features(place)?;
        Ok(joined(features.iter().filter(|_| value == "on")))
    }

    fn write(&self, place: &mut Place, exact: &str) -> io::Result<()> {
        let features = self.features(place).map_err(|why| io::Error::other(why.0))?;
        let on = |name: &str| exact.split(',').any(|one| one == name);
        let wanted: Vec<(&str, bool)> =
            features.iter().map(|one| (one.name.as_str(), on(&one.name))).collect();
        place.ethtool.request(&place.interface, &wanted)
    }

    /// A part of them is named; else the reader would think of all.
    fn say(&self, exact: &str) -> String {
        if exact == NONE { "off".to_owned() } else { "on".to_owned() }
    }

    fn commands(&self, place: &Place, exact: &str) -> Vec<String> {
        vec![format!("ethtool -K {} {} {}", place.interface, self.option, self.say(exact))]
    }
}

/// The largest packet of the interface.
pub(super) struct Mtu;

pub(super) const MTU: Mtu = Mtu;

impl Knob for Mtu {
    fn name(&self) -> &'static str {
        "mtu"
    }

    fn about(&self) -> &'static str {
        "largest packet in bytes; every switch on the way must carry it"
    }

    fn belongs(&self) -> Belongs {
        Belongs::Kernel
    }

    fn values(&self) -> &'static str {
        "1280 to 9000 bytes"
    }

    /// Below 1280 the kernel takes IPv6 off the interface, and its addresses do not come back.
    fn accepts(&self, value: &str) -> bool {
        number(value).is_some_and(|value| (1280..=9000).contains(&value))
    }

    fn read(&self, place: &Place) -> Result<String, Absent> {
        let mtu = place.ethtool.mtu(&place.interface);
        mtu.map(|mtu| mtu.to_string()).ok_or_else(|| Absent::new("the kernel does not tell it"))
    }

    fn exact(&self, _place: &Place, value: &str) -> Result<String, Absent> {
        Ok(value.to_owned())
    }

    fn write(&self, place: &mut Place, exact: &str) -> io::Result<()> {
        let mtu = number(exact).ok_or(io::ErrorKind::InvalidInput)?;
        place.ethtool.set_mtu(&place.interface, mtu)
    }

    fn commands(&self, place: &Place, exact: &str) -> Vec<String> {
        vec![format!("ip link set dev {} mtu {exact}", place.interface)]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_plain() {
        assert_eq!(
            ["0", "50", "007", "-1", "+1", "1e3", ""].map(number)[..3],
            [Some(0), Some(50), None]
        );
        assert!(["-1", "+1", "1e3", "", "99999999999"].iter().all(|text| number(text).is_none()));
    }

    #[test]
    fn the_loopback_has_offloads_and_neither_coalescing_nor_rings() {
        let place = Place::new("lo").unwrap();
        assert_eq!(RX_USECS.read(&place), Err(Absent::new("the driver does not have it")));
        assert_eq!(RX_RING.read(&place), Err(Absent::new("the driver does not have it")));
        let tso = TSO.read(&place).unwrap();
        assert_eq!(TSO.exact(&place, "off").unwrap(), NONE);
        assert_eq!(TSO.say(&tso), if tso == NONE { "off" } else { "on" });
    }
}
