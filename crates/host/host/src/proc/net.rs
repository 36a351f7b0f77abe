//! Files of a network namespace (proc_pid_net(5)): `/proc/thread-self/net` shows that of the
//! calling thread.

use std::{fs, io};

/// The interfaces of the calling thread's namespace and their counters.
pub const DEVICES: &str = "/proc/thread-self/net/dev";

/// The counters of IP, TCP and UDP in the calling thread's namespace.
pub const SNMP: &str = "/proc/thread-self/net/snmp";

/// TCP's counter of segments that were sent again.
pub const TCP_REPEATED: &str = "RetransSegs";

/// Packets and bytes of a line of `net/dev`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Device {
    /// Bytes received.
    pub rx_bytes: u64,
    /// Packets received.
    pub rx_frames: u64,
    /// Bytes sent.
    pub tx_bytes: u64,
    /// Packets sent.
    pub tx_frames: u64,
}

impl Device {
    /// Both together.
    pub fn and(&self, other: &Self) -> Self {
        Self {
            rx_bytes: self.rx_bytes + other.rx_bytes,
            rx_frames: self.rx_frames + other.rx_frames,
            tx_bytes: self.tx_bytes + other.tx_bytes,
            tx_frames: self.tx_frames + other.tx_frames,
        }
    }
}

/// Names of the interfaces in the calling thread's namespace.
pub fn interfaces() -> io::Result<Vec<String>> {
    Ok(names(&fs::read_to_string(DEVICES)?))
}

fn names(net_dev: &str) -> Vec<String> {
    rows(net_dev).map(|(name, _)| name.to_owned()).collect()
}

/// The counters of an interface in the text of `net/dev`.
pub fn device(net_dev: &str, interface: &str) -> Option<Device> {
    let (_, numbers) = rows(net_dev).find(|(name, _)| *name == interface)?;
    let field: Vec<u64> =
        numbers.split_whitespace().map(|text| text.parse().unwrap_or(0)).collect();
    Some(Device {
        rx_bytes: *field.first()?,
        rx_frames: *field.get(1)?,
        tx_bytes: *field.get(8)?,
        tx_frames: *field.get(9)?,
    })
}

/// Of all these interfaces together; `None` if none is there.
pub fn devices(net_dev: &str, interfaces: &[String]) -> Option<Device> {
    let devices = interfaces.iter().filter_map(|name| device(net_dev, name));
    devices.reduce(|sum, one| sum.and(&one))
}

/// Two lines of headings; a name may itself hold colons (aliases), but never after the last.
fn rows(net_dev: &str) -> impl Iterator<Item = (&str, &str)> {
    let lines = net_dev.lines().skip(2).filter_map(|line| line.rsplit_once(':'));
    lines.map(|(name, numbers)| (name.trim(), numbers))
}

/// A counter of TCP in the text of `net/snmp`: a line of names, then one of values.
pub fn tcp_counter(snmp: &str, wanted: &str) -> Option<u64> {
    let mut lines = snmp.lines().filter_map(|line| line.strip_prefix("Tcp: "));
    let (names, values) = (lines.next()?, lines.next()?);
    let column = names.split(' ').position(|name| name == wanted)?;
    values.split(' ').nth(column)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_taken_from_the_table_of_interfaces() {
        let table = "Inter-|   Receive\n face |bytes\n    lo: 1 2\nenp1s0f0np0: 3\n  eth0:1: 4\n";
        assert_eq!(names(table), ["lo", "enp1s0f0np0", "eth0:1"]);
    }

    #[test]
    fn a_device_is_found_by_its_whole_name() {
        let text = "Inter-|   Receive\n face |bytes\n  eth01: 1 2 0 0 0 0 0 0 3 4 0\n  eth0: 10 20 0 0 0 0 0 0 30 40 0 0\n";
        let found = device(text, "eth0").unwrap();
        assert_eq!(
            (found.rx_bytes, found.rx_frames, found.tx_bytes, found.tx_frames),
            (10, 20, 30, 40)
        );
        assert_eq!(device(text, "eth"), None);
        let both = devices(text, &["eth0".into(), "eth1".into(), "eth01".into()]).unwrap();
        assert_eq!((both.rx_frames, both.tx_bytes), (22, 33));
        assert_eq!(devices(text, &["eth1".into()]), None);
    }

    #[test]
    fn tcp_counters_are_found_by_name() {
        let text =
            "Ip: A\nIp: 1\nTcp: MaxConn RetransSegs InErrs OutRsts\nTcp: -1 12 3 4\nUdp: x\n";
        let found =
            ["RetransSegs", "InErrs", "MaxConn", "Nothing"].map(|name| tcp_counter(text, name));
        assert_eq!(found, [Some(12), Some(3), None, None]);
        assert_eq!(tcp_counter("", "RetransSegs"), None);
    }
}
