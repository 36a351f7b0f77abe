//! What the kernel says of this host outside of netlink, each thing in one home.

pub mod affinity;
