//! The control connection over loopback: honest ends, hostile bytes, ends that vanish.

mod handshake;
mod limits;
mod queue;
mod records;
mod running;
mod server;
mod strangers;
