//! The inventory as a table for people: one column per interface, as in the papers' Table 1, at
//! most 80 characters wide.

use std::fmt::Write;

use crate::data::{Bus, Coalescing, Level, Nic, Offloads, Pcie, Queues, Rings, Xdp};

/// A terminal's customary width.
const WIDTH: usize = 80;

/// Room for the longest heading of a row.
const HEADING: usize = 11;

/// More columns than this become too narrow to read; further interfaces go into a table below.
const COLUMNS: usize = 3;

/// What to write for what a driver does not report.
const UNKNOWN: &str = "-";

/// A table of `nics`, lines of at most 80 characters (longer only where one word is). Rows about
/// which no interface reports anything are left out.
pub fn table(nics: &[Nic]) -> String {
    if nics.is_empty() {
        return "no Ethernet interface\n".to_owned();
    }
    nics.chunks(COLUMNS).map(block).collect::<Vec<_>>().join("\n")
}

fn block(nics: &[Nic]) -> String {
    let width = (WIDTH - HEADING) / nics.len() - 2;
    let columns: Vec<Vec<(&str, String)>> = nics.iter().map(rows).collect();
    let mut text = String::new();
    for row in 0..columns[0].len() {
        let cells: Vec<&str> = columns.iter().map(|column| column[row].1.as_str()).collect();
        if cells.iter().all(|cell| cell.is_empty() || *cell == UNKNOWN) {
            continue;
        }
        let wrapped: Vec<Vec<String>> = cells.iter().map(|cell| wrap(cell, width)).collect();
        let height = wrapped.iter().map(Vec::len).max().unwrap_or(0);
        for line in 0..height {
            let heading = if line == 0 { columns[0][row].0 } else { "" };
            let mut written = format!("{heading:<HEADING$}");
            for cell in &wrapped {
                let part = cell.get(line).map_or("", String::as_str);
                let _ = write!(written, "  {part:<width$}");
            }
            text.push_str(written.trim_end());
            text.push('\n');
        }
    }
    text
}

/// Every interface has the same rows, in the order in which one asks for them.
fn rows(nic: &Nic) -> Vec<(&'static str, String)> {
    let plain = |value: &Option<String>| value.clone().unwrap_or_else(|| UNKNOWN.to_owned());
    let level =
        |of: fn(&Queues) -> Level| nic.queues.map_or(UNKNOWN.to_owned(), |q| written(of(&q)));
    let ring = |of: fn(&Rings) -> Level| nic.rings.map_or(UNKNOWN.to_owned(), |r| written(of(&r)));
    vec![
        ("interface", nic.name.clone()),
        ("driver", plain(&nic.driver)),
        ("version", plain(&nic.version)),
        ("firmware", plain(&nic.firmware)),
        ("bus", bus(&nic.bus)),
        ("PCIe", nic.pcie.as_ref().map_or(UNKNOWN.to_owned(), pcie)),
        ("NUMA node", nic.numa_node.map_or(UNKNOWN.to_owned(), |node| node.to_string())),
        ("interrupts", irqs(&nic.irqs)),
        ("MAC", plain(&nic.mac)),
        ("MTU", nic.mtu.map_or(UNKNOWN.to_owned(), |mtu| mtu.to_string())),
        ("link", link(nic)),
        ("RX queues", level(|queues| queues.rx)),
        ("TX queues", level(|queues| queues.tx)),
        ("RX+TX", level(|queues| queues.combined)),
        ("RX ring", ring(|rings| rings.rx)),
        ("TX ring", ring(|rings| rings.tx)),
        ("coalescing", nic.coalescing.as_ref().map_or(UNKNOWN.to_owned(), coalescing)),
        ("offloads", nic.offloads.as_ref().map_or(UNKNOWN.to_owned(), offloads)),
        ("XDP", nic.xdp.as_ref().map_or(UNKNOWN.to_owned(), xdp)),
        ("XDP mode", plain(&nic.xdp_mode)),
    ]
}

fn written(level: Level) -> String {
    match level {
        Level { max: 0, .. } => UNKNOWN.to_owned(),
        Level { current, max } if current == max => current.to_string(),
        Level { current, max } => format!("{current} of {max}"),
    }
}

fn bus(bus: &Bus) -> String {
    match bus {
        Bus::Pci(address) => format!("PCI {address}"),
        Bus::Virtio(address) => format!("virtio {address}"),
        Bus::Other(address) => address.clone(),
        Bus::Virtual => "virtual".to_owned(),
    }
}

fn pcie(link: &Pcie) -> String {
    let Pcie { speed, width, max_speed, max_width } = link;
    let now = format!("{speed} x{width}");
    if speed == max_speed && width == max_width {
        return now;
    }
    format!("{now} (of {max_speed} x{max_width})")
}

fn irqs(irqs: &[u32]) -> String {
    match irqs {
        [] => UNKNOWN.to_owned(),
        [one] => one.to_string(),
        [first, .., last] => format!("{} ({first}..{last})", irqs.len()),
    }
}

fn link(nic: &Nic) -> String {
    let state = if nic.link_up { "up" } else { "down" };
    let speed = match nic.speed_mbit {
        Some(mbit) if mbit >= 1000 && mbit.is_multiple_of(100) => {
            format!(", {} Gbit/s", f64::from(mbit) / 1000.0)
        }
        Some(mbit) => format!(", {mbit} Mbit/s"),
        None => String::new(),
    };
    let duplex = match nic.full_duplex {
        Some(true) => ", full duplex",
        Some(false) => ", half duplex",
        None => "",
    };
    format!("{state}{speed}{duplex}")
}

fn coalescing(settings: &Coalescing) -> String {
    let Coalescing { rx_usecs, rx_frames, tx_usecs, tx_frames, adaptive_rx, adaptive_tx } =
        *settings;
    let direction = |name, usecs: u32, frames: u32, adaptive| {
        let frames = if frames == 0 { String::new() } else { format!("/{frames} frames") };
        let adaptive = if adaptive { " adaptive" } else { "" };
        format!("{name} {usecs} us{frames}{adaptive}")
    };
    let rx = direction("RX", rx_usecs, rx_frames, adaptive_rx);
    format!("{rx}, {}", direction("TX", tx_usecs, tx_frames, adaptive_tx))
}

fn offloads(on: &Offloads) -> String {
    let all = [
        on.tso.then_some("TSO"),
        on.gso.then_some("GSO"),
        on.gro.then_some("GRO"),
        on.lro.then_some("LRO"),
        on.udp_segmentation.then_some("USO"),
        on.rx_checksum.then_some("RX-checksum"),
        on.tx_checksum.then_some("TX-checksum"),
        on.scatter_gather.then_some("SG"),
        on.rx_hash.then_some("RX-hash"),
        on.ntuple.then_some("ntuple"),
        on.rx_vlan.then_some("RX-VLAN"),
        on.tx_vlan.then_some("TX-VLAN"),
    ];
    chosen(&all, "none")
}

fn xdp(xdp: &Xdp) -> String {
    let all = [
        xdp.native.then_some("native"),
        xdp.redirect.then_some("redirect"),
        xdp.zero_copy.then_some("zero-copy"),
        (xdp.rx_multi_buffer || xdp.tx_multi_buffer).then_some("multi-buffer"),
    ];
    chosen(&all, "generic only")
}

fn chosen(all: &[Option<&str>], none: &str) -> String {
    let names: Vec<&str> = all.iter().copied().flatten().collect();
    if names.is_empty() { none.to_owned() } else { names.join(" ") }
}

/// Breaks `text` between words into lines of at most `width` characters.
fn wrap(text: &str, width: usize) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for word in text.split(' ') {
        match lines.last_mut() {
            Some(line) if line.chars().count() + 1 + word.chars().count() <= width => {
                line.push(' ');
                line.push_str(word);
            }
            _ => lines.push(word.to_owned()),
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    fn nic() -> Nic {
        Nic {
            name: "enp1s0".into(),
            driver: Some("igc".into()),
            firmware: Some("2014:8877".into()),
            bus: Bus::Pci("0000:01:00.0".into()),
            pcie: Some(Pcie {
                speed: "5.0 GT/s".into(),
                width: 1,
                max_speed: "8.0 GT/s".into(),
                max_width: 4,
            }),
            mac: Some("02:00:00:00:00:01".into()),
            mtu: Some(1500),
            speed_mbit: Some(2500),
            full_duplex: Some(true),
            link_up: true,
            rings: Some(Rings {
                rx: Level { current: 256, max: 4096 },
                tx: Level { current: 4096, max: 4096 },
            }),
            coalescing: Some(Coalescing {
                rx_usecs: 3,
                rx_frames: 0,
                tx_usecs: 3,
                tx_frames: 8,
                adaptive_rx: true,
                adaptive_tx: false,
            }),
            offloads: Some(Offloads { tso: true, rx_checksum: true, ..Offloads::default() }),
            irqs: vec![120, 121, 122, 123, 124],
            xdp: Some(Xdp { native: true, zero_copy: true, ..Xdp::default() }),
            ..Nic::default()
        }
    }

    #[test]
    fn one_interface_reads_as_expected() {
        let expected = "\
interface    enp1s0
driver       igc
firmware     2014:8877
bus          PCI 0000:01:00.0
PCIe         5.0 GT/s x1 (of 8.0 GT/s x4)
interrupts   5 (120..124)
MAC          02:00:00:00:00:01
MTU          1500
link         up, 2.5 Gbit/s, full duplex
RX ring      256 of 4096
TX ring      4096
coalescing   RX 3 us adaptive, TX 3 us/8 frames
offloads     TSO RX-checksum
XDP          native zero-copy
";
        assert_eq!(table(&[nic()]), expected);
    }

    #[test]
    fn many_interfaces_stay_within_eighty_columns() {
        let full = Offloads {
            tso: true,
            gso: true,
            gro: true,
            rx_checksum: true,
            tx_checksum: true,
            scatter_gather: true,
            rx_hash: true,
            ..Offloads::default()
        };
        let busy = Nic { offloads: Some(full), ..nic() };
        for count in 1..=7 {
            let text = table(&vec![busy.clone(); count]);
            assert!(text.lines().all(|line| line.chars().count() <= WIDTH), "{text}");
            assert_eq!(text.matches("enp1s0").count(), count);
        }
    }

    #[test]
    fn no_interface_is_said_in_words() {
        assert_eq!(table(&[]), "no Ethernet interface\n");
    }
}
