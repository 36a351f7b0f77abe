//! The client of the kernel's netlink sockets (netlink(7)): it asks for interfaces, addresses,
//! routes and neighbours and changes them ([`Rtnetlink`]), and asks generic families ([`Generic`]).
//!
//! The crates `netlink-packet-core` and `netlink-packet-route` write and read the messages. Nothing
//! of theirs but [`RouteType`] is visible outside. This crate keeps no table, follows no changes
//! and starts no thread: the kernel answers a request within the system call that sends it.
//!
//! A socket belongs to the network namespace in which it was made, whichever thread uses it.

mod error;
mod generic;
mod link;
mod route;
mod rtnetlink;
mod socket;

pub use error::Error;
pub use generic::{Attributes, Generic};
pub use link::{InterfaceInfo, Macvlan, Modes, Setting};
pub use netlink_packet_route::route::RouteType;
pub use route::{InterfaceAddress, RouteInfo};
pub use rtnetlink::Rtnetlink;

type Result<T> = std::result::Result<T, Error>;
