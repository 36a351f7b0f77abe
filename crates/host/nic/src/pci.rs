//! What sysfs says of a PCI device: lanes, interrupts, NUMA node. The files are described in the
//! kernel's Documentation/ABI/testing/sysfs-bus-pci.

use std::fs;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use crate::data::Pcie;

/// One directory per PCI function; the same in every network namespace.
const DEVICES: &str = "/sys/bus/pci/devices";

/// The directory of the device with the address that a driver gave, if it is a PCI device.
pub(super) fn find(address: &Option<String>) -> Option<PathBuf> {
    let address = address.as_deref()?;
    // A PCI address has no slashes; anything else is not looked up.
    if address.contains('/') {
        return None;
    }
    let directory = Path::new(DEVICES).join(address);
    directory.is_dir().then_some(directory)
}

/// The PCI Express link; `None` for a conventional or emulated PCI device.
pub(super) fn lanes(device: &Path) -> Option<Pcie> {
    let speed = |file| {
        let text = text(device, file)?;
        let speed = text.trim_end_matches("PCIe").trim();
        (speed != "Unknown" && speed != "Unknown speed").then(|| speed.to_owned())
    };
    // 0 and 255 stand for "not known".
    let width = |file| number::<u32>(device, file).filter(|&lanes| (1..=64).contains(&lanes));
    Some(Pcie {
        speed: speed("current_link_speed")?,
        width: width("current_link_width")?,
        max_speed: speed("max_link_speed")?,
        max_width: width("max_link_width")?,
    })
}

/// The interrupt numbers of a device, by its directory in sysfs, sorted: message-signalled ones, or
/// else the one line.
pub fn irqs(device: &Path) -> Vec<u32> {
    let entries = fs::read_dir(device.join("msi_irqs")).into_iter().flatten().flatten();
    let mut found: Vec<u32> =
        entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect();
    if found.is_empty() {
        found.extend(number::<u32>(device, "irq").filter(|&irq| irq != 0));
    }
    found.sort_unstable();
    found
}

/// The NUMA node; -1, "none", is `None`.
pub(super) fn numa_node(device: &Path) -> Option<u32> {
    number(device, "numa_node")
}

fn text(device: &Path, file: &str) -> Option<String> {
    Some(fs::read_to_string(device.join(file)).ok()?.trim().to_owned())
}

fn number<T: FromStr>(device: &Path, file: &str) -> Option<T> {
    text(device, file)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A directory, removed when dropped.
    struct Device(PathBuf);

    impl Device {
        fn new(name: &str) -> Device {
            let path =
                std::env::temp_dir().join(format!("gigae-nic-{}-{name}", std::process::id()));
            fs::create_dir_all(path.join("msi_irqs")).unwrap();
            Device(path)
        }

        fn with(self, file: &str, text: &str) -> Device {
            fs::write(self.0.join(file), text).unwrap();
            self
        }
    }

    impl Drop for Device {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0);
        }
    }

    #[test]
    fn lanes_interrupts_and_node_are_read_as_sysfs_writes_them() {
        let device = Device::new("full")
            .with("current_link_speed", "8.0 GT/s PCIe\n")
            .with("current_link_width", "4\n")
            .with("max_link_speed", "16.0 GT/s PCIe\n")
            .with("max_link_width", "8\n")
            .with("numa_node", "1\n")
            .with("irq", "11\n")
            .with("msi_irqs/45", "msix\n")
            .with("msi_irqs/44", "msix\n");
        let lanes = lanes(&device.0).unwrap();
        assert_eq!((lanes.speed.as_str(), lanes.width), ("8.0 GT/s", 4));
        assert_eq!((lanes.max_speed.as_str(), lanes.max_width), ("16.0 GT/s", 8));
        assert_eq!(irqs(&device.0), [44, 45]);
        assert_eq!(numa_node(&device.0), Some(1));
    }

    #[test]
    fn what_sysfs_does_not_know_is_none() {
        let device = Device::new("bare")
            .with("current_link_speed", "Unknown\n")
            .with("current_link_width", "0\n")
            .with("max_link_speed", "Unknown\n")
            .with("max_link_width", "255\n")
            .with("numa_node", "-1\n")
            .with("irq", "11\n");
        assert_eq!(lanes(&device.0), None);
        assert_eq!(irqs(&device.0), [11], "no messages: the interrupt line");
        assert_eq!(numa_node(&device.0), None);
        assert_eq!(find(&Some("../../etc".into())), None);
    }
}
