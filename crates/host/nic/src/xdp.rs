//! Which XDP features a driver announces: one question to the kernel's generic netlink family
//! "netdev" (Documentation/netlink/specs/netdev.yaml, Linux 6.3).

use crate::data::Xdp;
use gigae_netlink::{Attributes, Generic};

/// linux/netdev.h: the question for one device and its attributes.
const NETDEV_CMD_DEV_GET: u8 = 1;
const NETDEV_A_DEV_IFINDEX: u16 = 1;
const NETDEV_A_DEV_XDP_FEATURES: u16 = 3;
const NETDEV_A_DEV_XDP_ZC_MAX_SEGS: u16 = 4;

/// linux/netdev.h, `enum netdev_xdp_act`.
const BASIC: u64 = 1;
const REDIRECT: u64 = 2;
const XSK_ZEROCOPY: u64 = 8;
const RX_SG: u64 = 32;
const NDO_XMIT_SG: u64 = 64;

/// What the driver of interface `index` announces; `None` where the kernel cannot say.
pub(super) fn features(index: u32) -> Option<Xdp> {
    let request = Attributes::default().with(NETDEV_A_DEV_IFINDEX, &index.to_ne_bytes());
    understand(&Generic::open("netdev").ok()?.ask(NETDEV_CMD_DEV_GET, request).ok()?)
}

fn understand(answer: &Attributes) -> Option<Xdp> {
    let bits = u64::from_ne_bytes(answer.number(NETDEV_A_DEV_XDP_FEATURES)?);
    let has = |bit| bits & bit != 0;
    let segments = answer.number(NETDEV_A_DEV_XDP_ZC_MAX_SEGS).map(u32::from_ne_bytes);
    Some(Xdp {
        native: has(BASIC),
        redirect: has(REDIRECT),
        zero_copy: has(XSK_ZEROCOPY),
        rx_multi_buffer: has(RX_SG),
        tx_multi_buffer: has(NDO_XMIT_SG),
        zero_copy_segments: segments.filter(|_| has(XSK_ZEROCOPY)),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bits_become_words() {
        let answer = Attributes::default()
            .with(NETDEV_A_DEV_IFINDEX, &7_u32.to_ne_bytes())
            .with(NETDEV_A_DEV_XDP_FEATURES, &(BASIC | REDIRECT).to_ne_bytes())
            .with(NETDEV_A_DEV_XDP_ZC_MAX_SEGS, &1_u32.to_ne_bytes());
        let expected = Xdp { native: true, redirect: true, ..Xdp::default() };
        assert_eq!(understand(&answer), Some(expected));
        let short = Attributes::default().with(NETDEV_A_DEV_XDP_FEATURES, &[1; 4]);
        assert_eq!((understand(&short), understand(&Attributes::default())), (None, None));
    }
}
