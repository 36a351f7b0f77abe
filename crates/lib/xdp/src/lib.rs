//! A [`Link`](gigae_link::Link) over AF_XDP: frames pass between a driver's queue and memory of
//! this process. All other traffic goes on to the kernel's own stack.
//!
//! # Who owns a frame when
//!
//! All frames lie in one arena, registered with the kernel once (UMEM) and cut into chunks of one
//! page. Four rings of addresses pass chunks between this process and the kernel (Linux's
//! `networking/af_xdp.rst`). This process produces two of them and consumes the other two:
//!
//! ```text
//!              post + flush                     take, reclaim, flush
//!   caller ──────── TX ring ───────▶ kernel ──── completion ring ────▶ free or in the window
//!              recycle                          poll
//!   caller ─────── fill ring ──────▶ kernel ──────── RX ring ────────▶ caller
//! ```
//!
//! - A transmit chunk is **free**, **held** by a token, **with the kernel** from `post` until its
//!   completion is read, or both of the last two: a posted frame whose token waits for an
//!   acknowledgement. It is rewritten only when the kernel is done with it (`TxHolds`).
//! - A receive chunk is **in the fill ring or with the kernel**, or **with the caller** from `poll`
//!   until `recycle`, which puts it into the fill ring at once. There is no third state, so the
//!   fill ring runs empty only when the caller holds every received frame.
//! - The rings have room for all chunks of their kind; those that the kernel consumes have room for
//!   twice as many (`socket.rs` says why). So no push can fail.
//!
//! # System calls
//!
//! `take`, `post`, `poll`, `recycle`, `reclaim` and `release` make none. `flush` rings the doorbell
//! (`sendto`) when the kernel asks for it. In the copy modes it always does, and the kernel sends
//! within the call. `wait` is a `ppoll`. With busy polling on, every fourth `poll` of an empty ring
//! drives the driver with `recvfrom`, as GigaE PM II calls the interrupt handler (§4.4 of its
//! paper). Once in 4,096 empty polls the link looks at the interface, so a spinning caller learns
//! that it is gone.
//!
//! # Modes
//!
//! [`XdpLink::open`] tries the modes that the driver may have, best first, and tests each. The
//! program must load, attach and classify, the socket must bind, and a frame must be transmitted
//! and complete. `Info::reason` says what was refused and why. For an hour, later links do not try
//! it again ([`XdpConfig::notes`]). A BPF link attaches the program, and this process has its
//! descriptor: the program vanishes with the process, however that ends.
//!
//! # Jumbo frames
//!
//! A received frame of up to 3,840 bytes (a chunk without the kernel's headroom) is one token. If
//! the MTU allows longer ones, the socket is bound with `XDP_USE_SG` and the program is that of
//! section `xdp.frags`. A frame is then several chunks in a row, marked by `XDP_PKT_CONTD`, and
//! several tokens. That needs Linux 6.6. An older kernel refuses the interface, with the advice to
//! lower its MTU, to switch [`XdpConfig::long_frames`] off or to use AF_PACKET. At MTU 1500 none of
//! this is in use. Frames of more than 15,360 bytes are not carried; `Info::max_frame` says so.
//!
//! # Limits
//!
//! One link per queue, and the links of an interface are of one process, since they share one
//! program. All of them are in generic mode, or none is. The link never replaces another program.
//! A priority tag stays in a frame, unless the driver or the kernel keeps it beside the frame. In
//! generic mode the program does not see a VLAN tag that the sending side kept beside the frame, so
//! it takes a tagged frame of our EtherType and channel. Kernel 5.9 or later.

mod assemble;
mod assembly;
mod attached;
mod bpf;
mod candidate_error;
mod config;
mod kernel_query;
mod link;
mod notes;
mod open;
mod parts;
mod probe;
mod program;
mod ring;
mod selftest;
mod shared;
mod socket;
mod umem;
mod watch;
mod within;

pub use config::{BusyPoll, XdpConfig};
pub use link::{KernelStatistics, XdpLink};
pub use parts::{Description, LinkParts};
