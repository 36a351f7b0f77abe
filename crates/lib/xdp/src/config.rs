//! The configuration of a link.

use gigae_host::own_files;
use gigae_link::{Filter, Mode};
use std::path::PathBuf;

/// How to open an [`XdpLink`](crate::XdpLink).
#[derive(Clone, Debug)]
pub struct XdpConfig {
    /// Name of the interface.
    pub interface: String,
    /// The receive queue, 0 by default: hardware puts frames that are not IP there.
    pub queue: u32,
    /// Which frames to take.
    pub filter: Filter,
    /// The mode to use, or `None` (default) to let the self-test choose.
    pub mode: Option<Mode>,
    /// Transmit frames of 4,096 bytes, 1 to 65,536. Default 1,024: with full frames 1.5 MB, more
    /// than a Gigabit Ethernet carries in 10 ms.
    pub tx_frames: usize,
    /// Whether generic mode may be chosen where no [`mode`](Self::mode) is asked for, and modes
    /// after it. Default `true`.
    pub generic: bool,
    /// Receive frames of 4,096 bytes, 1 to 65,536. Default 4,096: enough for the windows of several
    /// senders together, and for the 4 ms for which a thread may be kept off its processor, at a
    /// million frames per second.
    pub rx_frames: usize,
    /// How many of them the kernel has at first (see [`gigae_link::Link::provide`]). Default 256:
    /// what a sender's window needs at once. With 4,096, every frame presumably meets a cold cache
    /// and a cold TLB. Measured, that took an eighth more time per round trip and a quarter more
    /// per streamed frame.
    pub rx_ready: usize,
    /// Whether frames that are too long for one buffer use several (`XDP_USE_SG`, Linux 6.6), if
    /// the MTU allows such frames; otherwise this has no effect. A buffer holds 3,840 bytes, and
    /// with many drivers less in native mode. Default `true`. Without it, frames are limited to one
    /// buffer. Older kernels can do that too, and it costs the kernel's own TCP less.
    pub long_frames: bool,
    /// Whether to use huge pages for frames (mmap(2) `MAP_HUGETLB`, `/proc/sys/vm/nr_hugepages`).
    /// Opening fails if none are free. Default `false`.
    pub huge_pages: bool,
    /// Whether `poll` drives the driver when the ring is empty.
    pub busy_poll: BusyPoll,
    /// Whether the driver may sleep and gets the doorbell only when it asks
    /// (`XDP_USE_NEED_WAKEUP`). Default `true`. Without it every flush is a system call, and a
    /// zero-copy driver without fill entries spins in its own interrupt.
    pub need_wakeup: bool,
    /// Directory in which self-tests note the modes that were refused. For an hour no link tries
    /// these again with the same driver, MTU, queue and kernel, unless [`mode`](Self::mode) asks
    /// for them or no other mode works. Default: `/run/gigae-selftest` for root,
    /// `$XDG_RUNTIME_DIR/gigae-selftest` for other users. It must belong to this process's user,
    /// and no other user may be able to write it; otherwise nothing is noted. Nothing is noted with
    /// `None` either.
    pub notes: Option<PathBuf>,
}

impl XdpConfig {
    /// The defaults.
    pub fn new(interface: impl Into<String>, filter: Filter) -> Self {
        Self {
            interface: interface.into(),
            queue: 0,
            filter,
            mode: None,
            generic: true,
            tx_frames: 1024,
            rx_frames: 4096,
            rx_ready: 256,
            long_frames: true,
            huge_pages: false,
            busy_poll: BusyPoll::Auto,
            need_wakeup: true,
            notes: own_files::usual_directory(),
        }
    }
}

/// Busy polling: the caller drives the driver instead of waiting for its interrupt (Linux's
/// `networking/napi.rst`, since 5.11). The owner of the interface sets how long the interrupt then
/// stays off (`napi_defer_hard_irqs`, `gro_flush_timeout`). This library changes neither setting.
/// neither.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum BusyPoll {
    /// On in zero-copy and native mode on hardware, if the kernel permits it and frames leave with
    /// it; the latter needs a carrier to find out. Off in generic mode, where the program runs
    /// after the driver. Off on a veth, where the sender's context runs the receiver's driver. Off
    /// on a guest's virtio or vmxnet3, which interrupts at once.
    #[default]
    Auto,
    /// Never.
    Off,
    /// Always; opening fails if the kernel refuses.
    On {
        /// Longest busy poll in microseconds.
        micros: u32,
        /// Most frames per busy poll; above 64 needs `CAP_NET_ADMIN`.
        budget: u16,
    },
}

impl BusyPoll {
    /// Length of one busy poll in microseconds and frames per poll: the example in the kernel's
    /// documentation, and NAPI's own weight.
    pub(crate) const AUTOMATIC: (u32, u16) = (20, 64);
}
