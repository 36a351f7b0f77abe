//! The contract between the protocol's endpoint and the link that carries its frames.
//!
//! A [`Link`] is a small *unreliable* datagram service for whole Ethernet frames: it may lose,
//! duplicate, reorder or corrupt them, and it says nothing about what arrived. It owns one
//! [`Arena`] of frame memory, allocated once; frames move through it as tokens, so the type of a
//! token says who may access the bytes:
//!
//! | token | the bytes belong to | comes from | goes to |
//! |---|---|---|---|
//! | [`TxFrame`] | the caller, who may write | [`Link::take`], [`Link::reclaim`] | [`Link::post`], [`Link::release`] |
//! | [`Posted`] | the NIC until it completes, then no one | [`Link::post`] | [`Link::reclaim`] (send again), [`Link::release`] |
//! | [`RxFrame`] | the caller, who may read | [`Link::poll`] | [`Link::recycle`] |
//!
//! A received frame can be lent on in parts ([`SharedFrame`]). A frame too long for the link's unit
//! of memory is several tokens in a row, its *segments*: [`Info`] says from what length on.
//!
//! A transmit frame thus has two holds: *with the NIC*, cleared by its completion, and *in the
//! window*, which is the existence of its token. It is free when both are clear. To give up the
//! token, turn it into a [`Held`] and release it.
//!
//! This crate knows no protocol and no clock, and of the kernel only how to look up an
//! [`Interface`]; backends live in crates of their own and never see each other. The module
//! `conformance` (feature of the same name) is the suite that all of them pass.

mod arena;
mod error;
mod holds;
mod interface;
mod lent;
mod link;
mod mapping;
mod memory;
mod posting;
mod shared;
mod wait;

#[cfg(feature = "conformance")]
pub mod conformance;

pub use arena::{Arena, Held, Posted, RxFrame, RxPart, TxFrame};
pub use error::{LinkError, OpenError};
pub use holds::TxHolds;
pub use interface::Interface;
pub use lent::{LentMemory, Remaining};
pub use link::{ChannelSet, Filter, Info, Link, LinkCounters, Mode, Segment};
pub use memory::FrameMemory;
pub use posting::Posting;
pub use shared::SharedFrame;
pub use wait::sleep_on;
