//! A [`Link`](gigae_link::Link) over AF_PACKET: any Ethernet device, any driver, `CAP_NET_RAW`.
//!
//! # Who owns a frame when
//!
//! **Receive** (packet_mmap(7), `TPACKET_V2`). The kernel and this process share a ring of slots. A
//! slot's status word says who owns it: `TP_STATUS_KERNEL` (the kernel may fill it) or
//! `TP_STATUS_USER` (it has a frame). The kernel fills slots strictly in order and copies each
//! frame once. While the next slot is not its own, it drops and counts frames: one slot that is
//! kept would stop everything once the kernel comes round to it. So [`PacketLink`] copies a frame
//! to its own memory when it is polled, and gives the slot back at once. Figures: decision 76.
//! Version 3 of the ring is not used: it hands over blocks of frames when a block is full or a
//! timer of at least a millisecond ends, which is many round trips.
//!
//! A ring costs the kernel a grace period of some 15 ms when it is made, and another one when it is
//! removed. A link that lives only for a moment can do without: [`Receive::Calls`]. Then
//! recvmmsg(2) copies frames from the socket to the link's memory.
//!
//! **Transmit.** A posted frame waits in a queue of this process. `flush` passes the queue to the
//! kernel with `sendmmsg`, which copies each frame before it returns. So the NIC's hold on a frame
//! ends with its flush. A transmit ring would save the copy. But it hands the kernel frames in
//! pieces that a virtual device must join again, fixes where in a slot a frame begins, and returns
//! slots in an order that the device chooses. The call per batch is the same.
//!
//! # What reaches the link
//!
//! A classic BPF program in the kernel (`filter.rs`) passes frames that match the link's filter,
//! are addressed to this host (`PACKET_HOST`) and belong to no VLAN. The kernel has then taken a
//! priority tag out of them. The program is attached before the socket is bound, so no other frame
//! gets in. Unlike AF_XDP, AF_PACKET sees *copies*: a matching frame also goes to the kernel's
//! stack. The stack drops unknown EtherTypes, but answers an unused UDP port with "port
//! unreachable". So for a UDP envelope the link also holds an ordinary UDP socket on that port,
//! which drops everything.
//!
//! # System calls
//!
//! `poll`, `recycle`, `take` and `post` make none. `flush` makes one `sendto` for a frame
//! and one `sendmmsg` for up to 64, `wait` one `ppoll`. With [`Receive::Calls`], `poll` makes one
//! `recvmmsg` for up to 16 frames.
//!
//! # Jumbo frames
//!
//! Slots are powers of two that hold the interface's MTU, up to 16 KiB, so that every frame is one
//! token.
//!
//! This crate knows nothing of the protocol but the position of the channel byte. It does not join
//! multicast groups and does not set promiscuous mode.

mod calls;
mod claim;
mod filter;
mod link;
mod receive;
mod ring;
mod socket;
mod transmit;

pub use link::{PacketConfig, PacketLink};
pub use receive::Receive;
