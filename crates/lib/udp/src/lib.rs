//! A [`Link`](gigae_link::Link) over a UDP socket: any interface, any user, across routers.
//!
//! The frames are those of the UDP envelope (`PROTOCOL.md` §3). This link hands the kernel what is
//! behind the UDP header and lets it write the headers; of what it receives, it writes the headers
//! again, so that everybody above sees whole frames. So an endpoint with this link and one with
//! AF_XDP or AF_PACKET in the UDP envelope talk to each other. The kernel also finds the way to the
//! next hop. Frames therefore have no MAC addresses: a frame to be sent has zeros as its
//! destination, or the broadcast address if it is a question to all (`PROTOCOL.md` §10). Others are
//! not sent.
//!
//! # Who owns a frame when
//!
//! **Transmit.** A posted frame waits in a queue of this process. `flush` passes the queue to the
//! kernel with `sendmmsg`, which copies each frame before it returns. Frames in a row that go to
//! one node and have one length go as one buffer, which the kernel or the NIC cuts (`UDP_SEGMENT`,
//! udp(7)); the last may be shorter.
//!
//! **Receive.** The kernel joins datagrams of one sender and length (`UDP_GRO`). One `recvmsg`
//! takes such a buffer and scatters it: each datagram goes into its own slot, if it is as long as
//! those of the last buffer were. If not, the datagrams are copied once more. A slot is handed out
//! as an `RxFrame`. While all are lent, datagrams wait in the socket. What the socket has no room
//! for is dropped and counted. Peers with other links send IPv4 without a UDP checksum; the kernel
//! does not join those datagrams.
//!
//! A buffer may get lost where single datagrams do not: a NIC may drop segmented UDP, and on a
//! virtual link a peer with AF_PACKET or AF_XDP sees a buffer as one frame, which is too long. So a
//! frame that is posted again goes alone, and so do copies ([`UdpLink::set_alone`]). Where many
//! frames are posted again, all go alone for some thousand frames.
//!
//! # System calls
//!
//! `recycle`, `take` and `post` make none. `flush` makes one `sendmmsg` per 16 buffers of up to 64
//! frames, `poll` one `recvmsg` per buffer and one that finds nothing (none behind a datagram that
//! came alone), `wait` one `poll`.
//!
//! # What it does not do
//!
//! It shares its port with no other endpoint: one endpoint for each interface and UDP port
//! (processes of a node take several ports). It sends no fragments. The kernel puts those of others
//! together, and passes on what is no longer than a frame.

mod batch;
mod bulk;
mod link;
mod receive;
mod socket;
mod transmit;

pub use bulk::{BulkLink, MOST_KEPT, Placement, PollResult};
pub use link::{UdpConfig, UdpLink};
pub use socket::Offload;
