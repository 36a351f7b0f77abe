//! Knobs of the driver, by ethtool(8)'s ioctls: coalescing, rings, offloads; and the MTU.

use super::interface::TunedInterface;
use super::knob::{Absent, Knob, KnobForm, number};
use gigae_eval_model::knobs::KnobOwner;
use gigae_nic::ethtool::{Feature, WantedFeature};
use std::io;

/// Longest time that a driver may gather events, in microseconds: far beyond what anybody wants.
const LONGEST_GATHERING: u32 = 100_000;

/// More descriptors or frames than any driver has.
const MOST_FRAMES: u32 = 1 << 20;

/// What a driver has, as a knob.
const fn driver(name: &'static str, about: &'static str, values: &'static str) -> KnobForm {
    KnobForm { name, about, belongs: KnobOwner::Driver, values }
}

const SWITCH: &str = "\"on\" or \"off\"";

/// A word of struct ethtool_coalesce (linux/ethtool.h).
pub(super) struct Coalescing {
    form: KnobForm,
    word: usize,
    /// Its largest value; `None` for a switch.
    most: Option<u32>,
}

impl Coalescing {
    const fn time(name: &'static str, about: &'static str, word: usize) -> Self {
        let form = driver(name, about, "0 to 100000 microseconds");
        Self { form, word, most: Some(LONGEST_GATHERING) }
    }

    const fn frames(name: &'static str, about: &'static str, word: usize) -> Self {
        let form = driver(name, about, "0 to 1048576 frames");
        Self { form, word, most: Some(MOST_FRAMES) }
    }
}

pub(super) const RX_USECS: Coalescing =
    Coalescing::time("rx-usecs", "microseconds from a received frame to its interrupt, at most", 1);
pub(super) const RX_FRAMES: Coalescing =
    Coalescing::frames("rx-frames", "received frames that cause an interrupt before that", 2);
pub(super) const TX_USECS: Coalescing =
    Coalescing::time("tx-usecs", "microseconds from a sent frame to its interrupt, at most", 5);
pub(super) const TX_FRAMES: Coalescing =
    Coalescing::frames("tx-frames", "sent frames that cause an interrupt before that", 6);
pub(super) const ADAPTIVE_RX: Coalescing = Coalescing {
    form: driver("adaptive-rx", "the driver moves rx-usecs and rx-frames by load", SWITCH),
    word: 10,
    most: None,
};

impl Knob for Coalescing {
    fn form(&self) -> &KnobForm {
        &self.form
    }

    fn accepts(&self, value: &str) -> bool {
        match self.most {
            None => matches!(value, "on" | "off"),
            Some(most) => number(value).is_some_and(|value| value <= most),
        }
    }

    fn read(&self, nic: &TunedInterface) -> Result<String, Absent> {
        let value = nic.ethtool.coalesce(&nic.interface, self.word);
        let value = value.map_err(|error| Absent::of(&error))?;
        Ok(match (self.most, value) {
            (None, 0) => "off".to_owned(),
            (None, _) => "on".to_owned(),
            (Some(_), value) => value.to_string(),
        })
    }

    fn write(&self, nic: &mut TunedInterface, exact: &str) -> io::Result<()> {
        let value = match exact {
            "on" => 1,
            "off" => 0,
            other => number(other).ok_or(io::ErrorKind::InvalidInput)?,
        };
        nic.ethtool.set_coalesce(&nic.interface, self.word, value)
    }

    fn commands(&self, nic: &TunedInterface, exact: &str) -> Vec<String> {
        vec![format!("ethtool -C {} {} {exact}", nic.interface, self.form.name)]
    }
}

/// A word of struct ethtool_ringparam (linux/ethtool.h), and that of its most.
pub(super) struct Ring {
    form: KnobForm,
    /// `ethtool -G`'s word for it.
    option: &'static str,
    word: usize,
    most: usize,
}

const DESCRIPTORS: &str = "16 to 1048576 descriptors, or \"max\"";

pub(super) const RX_RING: Ring = Ring {
    form: driver("rx-ring", "descriptors of the receive ring", DESCRIPTORS),
    option: "rx",
    word: 5,
    most: 1,
};
pub(super) const TX_RING: Ring = Ring {
    form: driver("tx-ring", "descriptors of the transmit ring", DESCRIPTORS),
    option: "tx",
    word: 8,
    most: 4,
};

impl Knob for Ring {
    fn form(&self) -> &KnobForm {
        &self.form
    }

    fn accepts(&self, value: &str) -> bool {
        value == "max" || number(value).is_some_and(|value| (16..=MOST_FRAMES).contains(&value))
    }

    fn read(&self, nic: &TunedInterface) -> Result<String, Absent> {
        self.most(nic)?;
        let value = nic.ethtool.ring(&nic.interface, self.word);
        value.map(|value| value.to_string()).map_err(|error| Absent::of(&error))
    }

    fn exact(&self, nic: &TunedInterface, value: &str) -> Result<String, Absent> {
        let most = self.most(nic)?;
        match number(value) {
            Some(value) if value > most => {
                Err(Absent(format!("the driver's ring has {most} descriptors at most")))
            }
            Some(value) => Ok(value.to_string()),
            None => Ok(most.to_string()),
        }
    }

    fn write(&self, nic: &mut TunedInterface, exact: &str) -> io::Result<()> {
        let value = number(exact).ok_or(io::ErrorKind::InvalidInput)?;
        nic.ethtool.set_ring(&nic.interface, self.word, value)
    }

    fn commands(&self, nic: &TunedInterface, exact: &str) -> Vec<String> {
        vec![format!("ethtool -G {} {} {exact}", nic.interface, self.option)]
    }
}

impl Ring {
    fn most(&self, nic: &TunedInterface) -> Result<u32, Absent> {
        match nic.ethtool.ring(&nic.interface, self.most) {
            Ok(0) => Err(Absent::new("the driver does not have it")),
            Ok(most) => Ok(most),
            Err(error) => Err(Absent::of(&error)),
        }
    }
}

/// Features that are turned on and off together. The exact value names those that are asked for.
pub(super) struct Offload {
    form: KnobForm,
    /// `ethtool -K`'s word for it.
    option: &'static str,
    of: &'static [&'static str],
}

pub(super) const TSO: Offload = Offload {
    form: driver("tso", "TCP segmentation by the device", SWITCH),
    option: "tso",
    of: &[
        "tx-tcp-segmentation",
        "tx-tcp-ecn-segmentation",
        "tx-tcp-mangleid-segmentation",
        "tx-tcp6-segmentation",
    ],
};
pub(super) const GSO: Offload = Offload {
    form: driver("gso", "segmentation late in the kernel", SWITCH),
    option: "gso",
    of: &["tx-generic-segmentation"],
};
pub(super) const GRO: Offload = Offload {
    form: driver("gro", "joining received frames early in the kernel", SWITCH),
    option: "gro",
    of: &["rx-gro"],
};
pub(super) const LRO: Offload = Offload {
    form: driver("lro", "joining received frames by the device", SWITCH),
    option: "lro",
    of: &["rx-lro"],
};
pub(super) const RX_CHECKSUM: Offload = Offload {
    form: driver("rx-checksum", "received checksums are checked by the device", SWITCH),
    option: "rx",
    of: &["rx-checksum"],
};
pub(super) const TX_CHECKSUM: Offload = Offload {
    form: driver("tx-checksum", "checksums of what is sent are computed by the device", SWITCH),
    option: "tx",
    // Those of storage and SCTP are others.
    of: &["tx-checksum-ipv4", "tx-checksum-ipv6", "tx-checksum-ip-generic"],
};

/// An exact value without any feature.
const NONE: &str = "none";

impl Offload {
    fn features(&self, nic: &TunedInterface) -> Result<Vec<Feature>, Absent> {
        let all = nic.ethtool.features(&nic.interface).map_err(|error| Absent::of(&error))?;
        let mine: Vec<Feature> =
            all.into_iter().filter(|one| self.of.contains(&&one.name[..])).collect();
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
    fn form(&self) -> &KnobForm {
        &self.form
    }

    fn accepts(&self, value: &str) -> bool {
        matches!(value, "on" | "off")
    }

    fn read(&self, nic: &TunedInterface) -> Result<String, Absent> {
        Ok(joined(self.features(nic)?.iter().filter(|one| one.requested)))
    }

    fn exact(&self, nic: &TunedInterface, value: &str) -> Result<String, Absent> {
        let features = self.features(nic)?;
        Ok(joined(features.iter().filter(|_| value == "on")))
    }

    fn write(&self, nic: &mut TunedInterface, exact: &str) -> io::Result<()> {
        let features = self.features(nic).map_err(|why| io::Error::other(why.0))?;
        let on = |name: &str| exact.split(',').any(|one| one == name);
        let wanted = features.iter();
        let wanted = wanted.map(|one| WantedFeature { name: &one.name, on: on(&one.name) });
        nic.ethtool.request(&nic.interface, &wanted.collect::<Vec<_>>())
    }

    /// A part of them is named; else the reader would think of all.
    fn say(&self, exact: &str) -> String {
        if exact == NONE { "off".to_owned() } else { "on".to_owned() }
    }

    fn commands(&self, nic: &TunedInterface, exact: &str) -> Vec<String> {
        vec![format!("ethtool -K {} {} {}", nic.interface, self.option, self.say(exact))]
    }
}

/// The largest packet of the interface.
pub(super) struct Mtu;

pub(super) const MTU: Mtu = Mtu;

impl Knob for Mtu {
    fn form(&self) -> &KnobForm {
        &KnobForm {
            name: "mtu",
            about: "largest packet in bytes; every switch on the way must carry it",
            belongs: KnobOwner::Kernel,
            values: "1280 to 9000 bytes",
        }
    }

    /// Below 1280 the kernel takes IPv6 off the interface, and its addresses do not come back.
    fn accepts(&self, value: &str) -> bool {
        number(value).is_some_and(|value| (1280..=9000).contains(&value))
    }

    fn read(&self, nic: &TunedInterface) -> Result<String, Absent> {
        let mtu = nic.ethtool.mtu(&nic.interface);
        mtu.map(|mtu| mtu.to_string()).ok_or_else(|| Absent::new("the kernel does not report it"))
    }

    fn write(&self, nic: &mut TunedInterface, exact: &str) -> io::Result<()> {
        let mtu = number(exact).ok_or(io::ErrorKind::InvalidInput)?;
        nic.ethtool.set_mtu(&nic.interface, mtu)
    }

    fn commands(&self, nic: &TunedInterface, exact: &str) -> Vec<String> {
        vec![format!("ip link set dev {} mtu {exact}", nic.interface)]
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
        let nic = TunedInterface::new("lo").unwrap();
        assert_eq!(RX_USECS.read(&nic), Err(Absent::new("the driver does not have it")));
        assert_eq!(RX_RING.read(&nic), Err(Absent::new("the driver does not have it")));
        let tso = TSO.read(&nic).unwrap();
        assert_eq!(TSO.exact(&nic, "off").unwrap(), NONE);
        assert_eq!(TSO.say(&tso), if tso == NONE { "off" } else { "on" });
    }
}
