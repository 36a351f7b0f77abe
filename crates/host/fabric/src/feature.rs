//! Turns offloads of an interface on and off, by the names that `ethtool -k` shows.
//!
//! A sender that hands 64 KB to a veth in one piece ("segmentation offload") crosses it as *one*
//! frame: it would be charged to the token bucket as one, and lost as one. A real wire carries
//! frames, so on shaped or impaired fabrics the nodes' interfaces segment what they send. They also
//! leave checksums to "hardware" that does not exist, so on a corrupting fabric they must compute
//! them. Otherwise no receiver could find a corrupt frame.

use gigae_nic::ethtool::{Ethtool, WantedFeature};
use std::io;

/// What a node's interface does to what its programs send.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Sending {
    /// Large pieces and unfinished checksums, as a veth does by default.
    AsFound,
    /// Large pieces of TCP, but each datagram as a frame. All packet sockets know the former, and
    /// only recent kernels the latter.
    TcpWhole,
    /// One frame at a time.
    Segmented,
    /// One frame at a time with its checksum.
    Checksummed,
}

/// Sets how `interface` sends. Features that the interface does not have are left out.
pub(crate) fn set_sending(interface: &str, sending: Sending) -> io::Result<()> {
    let ethtool = Ethtool::new()?;
    let features = ethtool.features(interface)?;
    let wanted = features.iter().filter_map(|feature| {
        let on = match kind(&feature.name) {
            FeatureKind::TcpSegmentation => {
                matches!(sending, Sending::AsFound | Sending::TcpWhole)
            }
            FeatureKind::Segmentation => sending == Sending::AsFound,
            FeatureKind::Checksum => sending != Sending::Checksummed,
            FeatureKind::Other => return None,
        };
        Some(WantedFeature { name: &feature.name, on })
    });
    // That some features are fixed is not an error: nothing better is possible.
    ethtool.request(interface, &wanted.collect::<Vec<_>>())
}

#[derive(Debug, PartialEq, Eq)]
enum FeatureKind {
    TcpSegmentation,
    Segmentation,
    Checksum,
    Other,
}

/// Generic segmentation (`tx-generic-segmentation`) stays on: it is the kernel's own, done before a
/// frame leaves the node.
fn kind(name: &str) -> FeatureKind {
    match name {
        "tx-generic-segmentation" => FeatureKind::Other,
        "tx-gso-list" => FeatureKind::Segmentation,
        _ if name.starts_with("tx-checksum-") => FeatureKind::Checksum,
        _ if name.starts_with("tx-tcp") && name.ends_with("-segmentation") => {
            FeatureKind::TcpSegmentation
        }
        _ if name.starts_with("tx-") && name.ends_with("-segmentation") => {
            FeatureKind::Segmentation
        }
        _ => FeatureKind::Other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernels_own_segmentation_is_left_alone() {
        assert_eq!(kind("tx-tcp-segmentation"), FeatureKind::TcpSegmentation);
        assert_eq!(kind("tx-tcp6-segmentation"), FeatureKind::TcpSegmentation);
        assert_eq!(kind("tx-udp-segmentation"), FeatureKind::Segmentation);
        assert_eq!(kind("tx-generic-segmentation"), FeatureKind::Other);
        assert_eq!(kind("tx-checksum-ip-generic"), FeatureKind::Checksum);
        assert_eq!(kind("rx-checksum"), FeatureKind::Other);
    }

    #[test]
    fn the_kernel_names_the_features_of_the_loopback() {
        let features = Ethtool::new().unwrap().features("lo").unwrap();
        assert!(features.iter().any(|one| one.name == "tx-tcp-segmentation"), "{features:?}");
    }
}
