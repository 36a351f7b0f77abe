//! The inventory of an interface, as data.

use serde::{Deserialize, Serialize};

/// One network interface. What a driver does not report is `None`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Nic {
    /// Its name.
    pub name: String,
    /// The kernel driver.
    pub driver: Option<String>,
    /// The driver's version; the kernel's own version where the driver has none.
    pub version: Option<String>,
    /// The firmware's version.
    pub firmware: Option<String>,
    /// Where it is plugged in.
    pub bus: Bus,
    /// The lanes between it and the processor.
    pub pcie: Option<Pcie>,
    /// MAC address, `02:00:00:00:00:01`.
    pub mac: Option<String>,
    /// Largest packet in bytes, without the Ethernet header.
    pub mtu: Option<u32>,
    /// Link speed in Mbit/s. A virtual interface's is nominal.
    pub speed_mbit: Option<u32>,
    /// True for full duplex.
    pub full_duplex: Option<bool>,
    /// True when it is switched on and its link carries frames.
    pub link_up: bool,
    /// Receive and transmit queues.
    pub queues: Option<Queues>,
    /// Descriptors per ring.
    pub rings: Option<Rings>,
    /// How long it gathers events before it interrupts.
    pub coalescing: Option<Coalescing>,
    /// What it does in the kernel's place.
    pub offloads: Option<Offloads>,
    /// Interrupt numbers, as in `/proc/interrupts`.
    pub irqs: Vec<u32>,
    /// The NUMA node whose memory it is near to.
    pub numa_node: Option<u32>,
    /// What the driver says of XDP (Linux 6.3).
    pub xdp: Option<Xdp>,
    /// The XDP mode that a self-test reached, in words; not filled in by
    /// [`inventory`](crate::inventory).
    pub xdp_mode: Option<String>,
}

/// Where an interface is plugged in.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase", tag = "kind", content = "address")]
pub enum Bus {
    /// A PCI function, by its address.
    Pci(String),
    /// A virtio device, by its transport's address.
    Virtio(String),
    /// Another bus, by the address that the driver gives.
    Other(String),
    /// None: made by software.
    #[default]
    Virtual,
}

/// A PCI Express link, as `lspci -vv` shows in `LnkSta` and `LnkCap`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Pcie {
    /// Speed per lane now, for example `8.0 GT/s`.
    pub speed: String,
    /// Lanes in use now.
    pub width: u32,
    /// The device's highest speed per lane.
    pub max_speed: String,
    /// The device's lanes.
    pub max_width: u32,
}

/// A setting and how far it goes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Level {
    /// As set.
    pub current: u32,
    /// At most; 0 where the driver has none of the kind.
    pub max: u32,
}

/// Queues, `ethtool -l`. A combined queue receives and transmits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Queues {
    /// Only receiving.
    pub rx: Level,
    /// Only transmitting.
    pub tx: Level,
    /// Both.
    pub combined: Level,
}

/// Descriptors per ring, `ethtool -g`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Rings {
    /// Receive ring.
    pub rx: Level,
    /// Transmit ring.
    pub tx: Level,
}

/// Interrupt coalescing, `ethtool -c`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Coalescing {
    /// Microseconds from a received frame to its interrupt, at most.
    pub rx_usecs: u32,
    /// Received frames that cause an interrupt before that; 0: no such limit.
    pub rx_frames: u32,
    /// Microseconds from a transmitted frame to its interrupt, at most.
    pub tx_usecs: u32,
    /// Transmitted frames that cause an interrupt before that; 0: no such limit.
    pub tx_frames: u32,
    /// The driver moves the receive settings by load.
    pub adaptive_rx: bool,
    /// The driver moves the transmit settings by load.
    pub adaptive_tx: bool,
}

/// Offloads that are on, `ethtool -k`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Offloads {
    /// TCP segmentation by the device.
    pub tso: bool,
    /// Segmentation late in the kernel.
    pub gso: bool,
    /// Joining received frames early in the kernel.
    pub gro: bool,
    /// Joining received frames by the device.
    pub lro: bool,
    /// UDP segmentation by the device.
    pub udp_segmentation: bool,
    /// Checking received checksums.
    pub rx_checksum: bool,
    /// Computing checksums of what is sent.
    pub tx_checksum: bool,
    /// Gathering a frame from several pieces of memory.
    pub scatter_gather: bool,
    /// Hashing flows onto receive queues.
    pub rx_hash: bool,
    /// Steering flows by rules.
    pub ntuple: bool,
    /// VLAN tags are taken off on receive.
    pub rx_vlan: bool,
    /// VLAN tags are put in on transmit.
    pub tx_vlan: bool,
}

/// What the driver announces of XDP: the `xdp-features` of the kernel's netdev netlink family.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Xdp {
    /// Programs run in the driver (native mode).
    pub native: bool,
    /// They may redirect frames, as `AF_XDP` needs.
    pub redirect: bool,
    /// `AF_XDP` without a copy.
    pub zero_copy: bool,
    /// Frames of several buffers on receive.
    pub rx_multi_buffer: bool,
    /// Frames of several buffers on transmit of redirected frames.
    pub tx_multi_buffer: bool,
    /// Most buffers of a zero-copy frame.
    pub zero_copy_segments: Option<u32>,
}
