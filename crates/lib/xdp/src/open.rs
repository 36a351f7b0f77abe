//! Opens links: complete, or in parts for another process.

use crate::config::XdpConfig;
use crate::link::XdpLink;
use crate::parts::LinkParts;
use crate::probe;
use crate::umem::Umem;
use gigae_link::{LentMemory, OpenError};

impl XdpLink {
    /// Opens a link on an interface of the calling thread's network namespace, in the best mode
    /// that passes its self-test.
    ///
    /// Needs `CAP_NET_RAW`, `CAP_NET_ADMIN` and `CAP_BPF` (Linux 5.8; before, `CAP_SYS_ADMIN`), and
    /// `CAP_IPC_LOCK` if the frames exceed the limit of locked memory (`ulimit -l`). Allocates
    /// everything that the link will ever use. Takes milliseconds on virtual interfaces; some
    /// hardware drops its carrier for seconds when a program is attached. Sends four frames per
    /// tried mode from the interface's own address to itself; a switch that learns addresses does
    /// not forward them.
    pub fn open(config: XdpConfig) -> Result<Self, OpenError> {
        probe::open(&config, None)
    }

    /// The same without the last step: [`assemble`](Self::assemble) makes a link of the result,
    /// perhaps in another process, which needs no privileges for it. That process has filled the
    /// `memory` ([`gigae_link::Arena::of`]), of [`memory_for`](Self::memory_for) bytes.
    ///
    /// For an interface that is removed with the link: from now on the program belongs to the
    /// interface, and no process has a descriptor of it. Reads nothing from the memory.
    pub fn make(config: &XdpConfig, memory: &LentMemory) -> Result<LinkParts, OpenError> {
        probe::open(config, Some(memory)).map(Self::into_parts)
    }

    /// Bytes of memory for a link with this many frames, on an interface of any MTU.
    pub fn memory_for(tx_frames: u32, rx_frames: u32) -> usize {
        let [tx, rx] = [tx_frames, rx_frames].map(Umem::clamp);
        Umem::bytes(tx, rx)
    }
}
