//! One run of another program that measures networks.

use crate::experiment::Experiment;
use crate::plan::TcpOptions;
use crate::transport;
use serde::{Deserialize, Serialize};

/// One run of a program, as both ends must know it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Job {
    /// The program.
    pub program: String,
    /// What it measures.
    pub experiment: Experiment,
    /// Over which transport.
    pub transport: String,
    /// Bytes of a message or write.
    pub size: usize,
    /// Seconds.
    pub seconds: u32,
    /// TCP's options.
    pub tcp: TcpOptions,
}

impl Job {
    /// Socket buffers in bytes that both ends are to ask for; `None` leaves them to the kernel.
    pub fn buffer(&self) -> Option<usize> {
        match self.transport.as_str() {
            "tcp" => self.tcp.buffer.map(|bytes| bytes as usize),
            _ => Some(transport::SOCKET_BUFFER),
        }
    }

    /// Whether it measures TCP.
    pub fn is_tcp(&self) -> bool {
        self.transport == "tcp"
    }

    /// Its sockets' options, for people.
    pub fn options(&self) -> String {
        let buffer = match self.buffer() {
            Some(bytes) => format!("buffers {bytes}"),
            None => "the kernel's buffers".to_owned(),
        };
        if self.is_tcp() && self.tcp.nodelay { format!("nodelay, {buffer}") } else { buffer }
    }
}
