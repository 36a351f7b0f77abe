//! The bytes on the wire: GigaE frames and the envelopes that carry them.
//!
//! Implements §1 to §3 and the bytes of §9 to §12 of `PROTOCOL.md`: the 32-byte GigaE [`Header`]
//! with its checksum, either directly in an Ethernet II frame or in UDP over IPv4 or IPv6
//! ([`Envelope`]).
//!
//! Everything that arrives is adversarial. Parsing checks every length, never panics, and returns a
//! typed value or a [`Discard`]. This crate knows no session, no clock and no socket. It allocates
//! nothing.

#![deny(unsafe_code)]

pub mod batch;
mod bulk;
mod checksum;
mod discovery;
mod envelope;
mod handshake;
mod header;
mod mac;
pub mod op;
mod paths;
mod pieces;
mod seq;

pub use bulk::{
    BULK_HEADER_LEN, BulkHeader, MOST_DATAGRAMS, MOST_PARTS, NumberedHeader, PART_HEADER_LEN,
    PartHeader,
};
pub use discovery::{Here, LONGEST_NAME, is_node_name, is_who};
pub use envelope::{
    Datagram, Envelope, MAX_ENVELOPE, NodeAddr, Route, TAG_LEN, beyond, fold as internet_checksum,
    port_id_beyond, port_within_node, words as internet_sum,
};
pub use handshake::{Handshake, Hello};
pub use header::{AckReport, Discard, Flags, HEADER_LEN, Header, Kind, Sealing, VERSION};
pub use mac::{MacAddr, ParseMacError};
pub use paths::{MAX_PATHS, Macs, PathAddr, PathId, Paths};
pub use pieces::Pieces;
pub use seq::{Epoch, SeqNo};

/// Payload bytes that a frame of the given MTU carries in an Ethernet envelope:
/// 1,468 at MTU 1500, the message size of GigaE PM II.
pub const fn payload_of_mtu(mtu: usize) -> usize {
    mtu - HEADER_LEN
}
