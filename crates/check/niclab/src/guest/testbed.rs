//! The two cards, each in its own network namespace.

use crate::job::Interrupts;
use gigae_eval_services::host::Host;
use gigae_host::netns::{self, NetnsGuard};
use gigae_host::{affinity, proc::net};
use gigae_link::Interface;
use gigae_netlink::{InterfaceAddress, Rtnetlink, Setting};
use gigae_wire::MacAddr;
use std::fs::{self, File};
use std::io;
use std::net::Ipv4Addr;
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::time::{Duration, Instant};

/// A card negotiates its link in seconds; of virtual time, which a sleeping machine passes over.
const CARRIER_WITHIN: Duration = Duration::from_secs(20);

/// Pause between looks.
const PAUSE: Duration = Duration::from_millis(5);

/// The MTU that the cards have unless a step changes it.
pub(super) const MTU: u32 = 1500;

/// Of the network of the cards.
const PREFIX: u8 = 24;

/// Both ends.
pub(super) struct Testbed {
    pub(super) ends: [GuestEnd; 2],
    interrupts: Interrupts,
}

/// A card and where it is.
pub(super) struct GuestEnd {
    pub(super) interface: String,
    pub(super) mac: MacAddr,
    pub(super) ip: Ipv4Addr,
    /// Where the other end is.
    other: (Ipv4Addr, MacAddr),
    /// The driver, as the bus names it.
    pub(super) driver: String,
    /// The driver's directory on its bus.
    bus: PathBuf,
    /// The device, as the bus names it, and its directory.
    device: String,
    path: PathBuf,
    namespace: File,
}

impl Testbed {
    /// Finds the two cards, which are in the first namespace, and sets up the testbed with them.
    pub(super) fn set_up(interrupts: Interrupts) -> io::Result<&'static Self> {
        static TESTBED: OnceLock<Testbed> = OnceLock::new();
        let found = cards()?;
        let [first, second] = <[_; 2]>::try_from(found).map_err(|found: Vec<PathBuf>| {
            io::Error::other(format!(
                "{} cards where two should be; the driver did not bind",
                found.len()
            ))
        })?;
        let mut ends = [GuestEnd::new(&first, 1)?, GuestEnd::new(&second, 2)?];
        let at = [&ends[0], &ends[1]].map(|end| (end.ip, end.mac));
        (ends[0].other, ends[1].other) = (at[1], at[0]);
        let testbed = Self { ends, interrupts };
        for end in &testbed.ends {
            end.take_in()?;
        }
        testbed.restore()?;
        Ok(TESTBED.get_or_init(|| testbed))
    }

    /// The drivers of the cards, each once, the measuring end's first.
    pub(super) fn drivers(&self) -> String {
        let [first, second] = &self.ends;
        match first.driver == second.driver {
            true => first.driver.clone(),
            false => format!("{}, {}", first.driver, second.driver),
        }
    }

    /// Both cards up, with their usual MTU and a carrier, their interrupts where they belong.
    pub(super) fn restore(&self) -> io::Result<()> {
        for end in &self.ends {
            end.up(true)?;
            end.mtu(MTU)?;
        }
        for end in &self.ends {
            end.await_carrier()?;
        }
        self.distribute();
        Ok(())
    }

    /// Sets which processor serves whose interrupts. A controller that refuses leaves them as they
    /// are.
    pub(super) fn distribute(&self) {
        let cpus = affinity::allowed().len();
        for (i, end) in self.ends.iter().enumerate() {
            // The first end measures, on the last processor.
            let own = (1 - i) * (cpus - 1);
            let cpu = match self.interrupts {
                Interrupts::Own => own,
                Interrupts::Other => cpus - 1 - own,
                Interrupts::First => 0,
            };
            for irq in irqs(&end.path) {
                let _ = fs::write(format!("/proc/irq/{irq}/smp_affinity_list"), cpu.to_string());
            }
        }
    }
}

/// Numbers of the interrupts of a device, or of the nearest one above it that has any (the kernel's
/// ABI/testing/sysfs-bus-pci): virtio's are its PCI device's. None while it has no driver.
fn irqs(device: &Path) -> Vec<u32> {
    let pci = device.ancestors().find(|path| path.join("irq").exists());
    pci.map(gigae_nic::irqs).unwrap_or_default()
}

/// Network interfaces with a device behind them, in the first namespace, in the order of their
/// buses.
fn cards() -> io::Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    for entry in fs::read_dir("/sys/class/net")? {
        let path = entry?.path();
        if let Ok(device) = path.join("device").canonicalize() {
            found.push((device, path));
        }
    }
    found.sort();
    Ok(found.into_iter().map(|(_, path)| path).collect())
}

fn name_of(path: &Path) -> String {
    path.file_name().unwrap_or_default().to_string_lossy().into_owned()
}

impl GuestEnd {
    fn new(class: &Path, number: u8) -> io::Result<Self> {
        let device = class.join("device").canonicalize()?;
        let bus = device.join("driver").canonicalize()?;
        let interface = name_of(class);
        let address = fs::read_to_string(class.join("address"))?;
        let mac = address.trim().parse().map_err(|_| io::Error::other("no Ethernet address"))?;
        Ok(Self {
            mac,
            ip: Ipv4Addr::new(198, 18, 0, number),
            other: (Ipv4Addr::UNSPECIFIED, MacAddr([0; 6])),
            driver: name_of(&bus),
            device: name_of(&device),
            path: device,
            bus,
            interface,
            namespace: namespace()?,
        })
    }

    /// Moves the calling thread to this end, until the guard is dropped.
    pub(super) fn enter(&self) -> io::Result<NetnsGuard> {
        netns::enter(self.namespace.as_fd())
    }

    /// This end, for file services.
    pub(super) fn host(&self) -> io::Result<Host> {
        let (interfaces, namespace) = (vec![self.interface.clone()], self.namespace.try_clone()?);
        Ok(Host::in_namespace(self.ip, self.mac.0, interfaces, namespace))
    }

    /// The socket to the kernel of this end.
    fn kernel(&self) -> io::Result<Rtnetlink> {
        let _inside = self.enter()?;
        Ok(Rtnetlink::open()?)
    }

    fn set(&self, setting: Setting<'_>) -> io::Result<()> {
        Ok(self.kernel()?.set(self.index()?, &[setting])?)
    }

    /// One queue, where the driver can: frames in IP would be spread by their hash, and a link has
    /// one.
    fn one_queue(&self) -> io::Result<()> {
        match gigae_nic::use_one_queue(&self.interface) {
            Err(error) if error.kind() == io::ErrorKind::Unsupported => Ok(()),
            outcome => outcome,
        }
    }

    fn index(&self) -> io::Result<u32> {
        let _inside = self.enter()?;
        let socket = std::net::UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0))?;
        Ok(rustix::net::netdevice::name_to_index(&socket, &self.interface)?)
    }

    /// Brings the interface up, with its neighbour, or takes it down, which makes the kernel forget
    /// that.
    pub(super) fn up(&self, up: bool) -> io::Result<()> {
        self.set(Setting::Up(up))?;
        if !up {
            return Ok(());
        }
        // The other end for good: pcnet32 drops the question for it, which is shorter than a frame
        // may be and which QEMU's card sends as it is.
        let (ip, mac) = self.other;
        Ok(self.kernel()?.set_neighbour(ip.into(), self.index()?, mac.0)?)
    }

    /// Sets the MTU.
    pub(super) fn mtu(&self, mtu: u32) -> io::Result<()> {
        self.set(Setting::Mtu(mtu))
    }

    /// Takes the device from its driver: the interface vanishes.
    pub(super) fn unbind(&self) -> io::Result<()> {
        fs::write(self.bus.join("unbind"), &self.device)
    }

    /// Gives the device back to its driver and takes the new interface in, up.
    pub(super) fn bind(&self) -> io::Result<()> {
        fs::write(self.bus.join("bind"), &self.device)?;
        self.take_in()?;
        self.up(true)?;
        self.await_carrier()
    }

    /// Moves the interface of the device from the first namespace to this end, under its own name,
    /// and gives it its address and one queue.
    fn take_in(&self) -> io::Result<()> {
        let class = cards()?
            .into_iter()
            .find(|class| {
                class.join("device").canonicalize().is_ok_and(|d| name_of(&d) == self.device)
            })
            .ok_or_else(|| io::Error::other("the device has no interface"))?;
        let index = fs::read_to_string(class.join("ifindex"))?;
        let index = index.trim().parse().map_err(io::Error::other)?;
        let there = Setting::Namespace(self.namespace.as_fd());
        Rtnetlink::open()?.set(index, &[there, Setting::Name(&self.interface)])?;
        let address = InterfaceAddress { index: self.index()?, ip: self.ip.into(), prefix: PREFIX };
        self.kernel()?.add_address(&address)?;
        let _inside = self.enter()?;
        self.one_queue()
    }

    /// Waits until the card says that it has a carrier.
    pub(super) fn await_carrier(&self) -> io::Result<()> {
        let _inside = self.enter()?;
        let interface = Interface::find(&self.interface).map_err(io::Error::other)?;
        let start = Instant::now();
        while !interface.has_carrier() {
            if start.elapsed() > CARRIER_WITHIN {
                return Err(io::Error::other(format!("{} has no carrier", self.interface)));
            }
            std::thread::sleep(PAUSE);
        }
        Ok(())
    }

    /// Frames that the card has sent and received, by its own counters.
    pub(super) fn frames(&self) -> io::Result<[u64; 2]> {
        let _inside = self.enter()?;
        let device = net::device(&fs::read_to_string(net::DEVICES)?, &self.interface);
        Ok(device.map_or([0; 2], |device| [device.tx_frames, device.rx_frames]))
    }
}

/// A new network namespace with its loopback up, without IPv6, which would send its own frames.
fn namespace() -> io::Result<File> {
    std::thread::scope(|scope| {
        let make = || {
            gigae_fabric::leave_network().map_err(io::Error::other)?;
            // Absent where the kernel has no IPv6.
            let _ = fs::write("/proc/sys/net/ipv6/conf/default/disable_ipv6", "1");
            Rtnetlink::open()?.set(1, &[Setting::Up(true)])?;
            netns::own()
        };
        scope.spawn(make).join().unwrap_or_else(|_| Err(io::Error::other("a thread panicked")))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn interrupts_are_the_devices_or_those_of_the_bus_below_it() {
        let directory = tempfile::tempdir().unwrap();
        let (pci, virtio) = (directory.path().join("pci"), directory.path().join("pci/virtio0"));
        fs::create_dir_all(&virtio).unwrap();
        assert!(irqs(Path::new("/proc/none")).is_empty());
        fs::write(pci.join("irq"), "11\n").unwrap();
        assert_eq!((irqs(&pci), irqs(&virtio)), (vec![11], vec![11]));
        fs::create_dir_all(pci.join("msi_irqs")).unwrap();
        fs::write(pci.join("msi_irqs/24"), "msix\n").unwrap();
        assert_eq!(irqs(&virtio), [24]);
    }
}
