//! A network interface for one process on a NIC that several share: a *macvlan child* in bridge
//! mode (ip-link(8)), with its own MAC address, queue and so AF_XDP or packet socket.
//!
//! | system call | when |
//! |---|---|
//! | `bind` of an abstract UNIX name (unix(7)) made of the address: the [`Claim`] | first |
//! | `RTM_NEWLINK` (rtnetlink(7)): the child, in [`GROUP`], down | then |
//! | `RTM_SETLINK`: no IPv6 address, no answers to ARP, the alias `gigae`, up | then |
//! | `RTM_DELLINK` | when the [`Child`] is dropped |
//!
//! **What is left over.** A killed process drops nothing: its child stays, but its claim goes with
//! its descriptors. So a child whose name can be claimed has no owner, and the process that claims
//! it may remove it: [`Child::make`] does so on its NIC, [`remove_left_overs`] for others. The
//! claim comes before the child, and a child is never seen without it while its process lives.
//!
//! **Who receives what.** The kernel carries frames between the children of a NIC, and between each
//! and the wire. Between a child and the NIC's own address it carries none, either way.
//!
//! What it does not do: give children IP addresses, limit their number, follow the NIC when it is
//! renamed or moved, or open sockets on them.

mod child;
mod claim;

pub use child::{Child, Found, GROUP, children, remove_left_overs};
pub use claim::Claim;
