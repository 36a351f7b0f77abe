//! The AF_XDP socket and its four rings (Linux's `networking/af_xdp.rst`).

use crate::ring::{Consumer, Offsets, Producer};
use gigae_link::{Arena, OpenError};
use rustix::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use rustix::io::Errno;
use rustix::mm::{MapFlags, ProtFlags};
use rustix::net::xdp::{
    SocketAddrXdp, SocketAddrXdpFlags, XDP_PGOFF_RX_RING, XDP_PGOFF_TX_RING,
    XDP_UMEM_PGOFF_COMPLETION_RING, XDP_UMEM_PGOFF_FILL_RING, XdpDesc, XdpOptionsFlags,
    XdpRingOffset, XdpStatistics, XdpUmemReg, XdpUmemRegFlags,
};
use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, sockopt};
use std::any::Any;
use std::ffi::c_int;
use std::ptr::NonNull;

/// linux/if_xdp.h, since Linux 6.17: how many frames one call sends in the copy modes.
const XDP_MAX_TX_SKB_BUDGET: c_int = 9;

/// asm-generic/socket.h.
const SO_BUSY_POLL: c_int = 46;
const SO_PREFER_BUSY_POLL: c_int = 69;
const SO_BUSY_POLL_BUDGET: c_int = 70;

/// The step of opening that failed, and why.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SetupError {
    pub(crate) what: &'static str,
    pub(crate) errno: Errno,
}

/// What a step of opening returns.
pub(crate) type SetupResult<T> = Result<T, SetupError>;

/// The error of a [`SetupResult`].
pub(crate) fn opening(SetupError { what, errno }: SetupError) -> OpenError {
    match errno {
        Errno::PERM | Errno::ACCESS => {
            OpenError::MissingCapability { what, capability: "CAP_NET_RAW" }
        }
        Errno::AFNOSUPPORT | Errno::PROTONOSUPPORT => OpenError::Unsupported {
            what: "AF_XDP (CONFIG_XDP_SOCKETS)",
            instead: "use the packet backend",
        },
        // The kernel's answer if RLIMIT_MEMLOCK does not cover the memory to be registered.
        Errno::NOBUFS => OpenError::MissingCapability {
            what: "locking frame memory",
            capability: "CAP_IPC_LOCK, or raise 'ulimit -l'",
        },
        other => OpenError::Io { what, source: other.into() },
    }
}

/// A socket with its memory and rings.
pub(crate) struct XskSocket {
    pub(crate) rx: Consumer<XdpDesc>,
    pub(crate) tx: Producer<XdpDesc>,
    pub(crate) fill: Producer<u64>,
    pub(crate) completion: Consumer<u64>,
    fd: OwnedFd,
}

/// Entries of the rings: powers of two.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RingSizes {
    /// Entries of the transmit ring.
    pub(crate) tx: u32,
    /// Entries of the completion ring.
    pub(crate) completion: u32,
    /// Entries of the receive ring.
    pub(crate) rx: u32,
    /// Entries of the fill ring.
    pub(crate) fill: u32,
}

impl RingSizes {
    /// Rings that can never be full with this many chunks.
    ///
    /// The rings that the kernel consumes have room for every chunk twice. The kernel marks an
    /// entry as consumed only after it has handed the chunk on. So a quick caller may return a
    /// chunk while its former entry still counts.
    pub(crate) fn new(tx_chunks: u32, rx_chunks: u32) -> Self {
        let (completion, rx) = (tx_chunks.next_power_of_two(), rx_chunks.next_power_of_two());
        Self { tx: 2 * completion, completion, rx, fill: 2 * rx }
    }
}

impl XskSocket {
    /// Opens a socket, registers the arena in chunks of `chunk` bytes, and makes the rings. Only
    /// this needs `CAP_NET_RAW`.
    pub(crate) fn create(arena: &Arena, chunk: usize, sizes: RingSizes) -> SetupResult<OwnedFd> {
        let step = |what| move |errno| SetupError { what, errno };
        let fd = rustix::net::socket_with(
            AddressFamily::XDP,
            SocketType::RAW,
            SocketFlags::CLOEXEC,
            None,
        )
        .map_err(step("opening an AF_XDP socket"))?;
        let memory = XdpUmemReg {
            addr: arena.base().as_ptr() as u64,
            len: arena.len() as u64,
            chunk_size: chunk as u32,
            headroom: 0,
            flags: XdpUmemRegFlags::empty(),
            tx_metadata_len: 0,
        };
        sockopt::set_xdp_umem_reg(&fd, memory).map_err(step("registering frame memory"))?;
        let rings = step("making the rings");
        sockopt::set_xdp_umem_fill_ring_size(&fd, sizes.fill).map_err(rings)?;
        sockopt::set_xdp_umem_completion_ring_size(&fd, sizes.completion).map_err(rings)?;
        sockopt::set_xdp_rx_ring_size(&fd, sizes.rx).map_err(rings)?;
        sockopt::set_xdp_tx_ring_size(&fd, sizes.tx).map_err(rings)?;
        // Before Linux 6.17 one call sends 32 frames, and `flush` calls again.
        let _ = set(&fd, libc::SOL_XDP, XDP_MAX_TX_SKB_BUDGET, sizes.tx as c_int);
        // In the copy modes, frames in flight count against the socket's send buffer. A page of
        // data and its description take less than two pages. If the kernel grants less, flushes
        // continue where the last one stopped.
        let queued = 2 * chunk * sizes.completion as usize;
        if sockopt::set_socket_send_buffer_size_force(&fd, queued).is_err() {
            let _ = sockopt::set_socket_send_buffer_size(&fd, queued);
        }
        Ok(fd)
    }

    /// Maps the rings of a socket of any process. They continue at their present positions.
    ///
    /// # Safety
    /// No other user may use the rings while this value exists, and they must have these sizes or
    /// larger ones.
    pub(crate) unsafe fn map(fd: OwnedFd, sizes: RingSizes) -> SetupResult<Self> {
        let rings = |errno| SetupError { what: "making the rings", errno };
        let at = sockopt::xdp_mmap_offsets(&fd).map_err(rings)?;
        let map = |page, offset, size, entry| RingMapping::new(&fd, page, offset, size, entry);
        let (word, desc) = (size_of::<u64>(), size_of::<XdpDesc>());
        let (rx_map, rx_at) = map(XDP_PGOFF_RX_RING, at.rx, sizes.rx, desc)?;
        let (tx_map, tx_at) = map(XDP_PGOFF_TX_RING, at.tx, sizes.tx, desc)?;
        let (fill_map, fill_at) = map(XDP_UMEM_PGOFF_FILL_RING, at.fr, sizes.fill, word)?;
        let (done_map, done_at) =
            map(XDP_UMEM_PGOFF_COMPLETION_RING, at.cr, sizes.completion, word)?;
        // SAFETY: each mapping holds a ring of that many entries at the offsets that the kernel
        // stated, aligned by the kernel, and lives as long as the ring; the caller vouches for
        // there being no other user on this side.
        let (rx, tx, fill, completion) = unsafe {
            (
                Consumer::new(rx_map.base, &rx_at, sizes.rx, rx_map.kept()),
                Producer::new(tx_map.base, &tx_at, sizes.tx, tx_map.kept()),
                Producer::new(fill_map.base, &fill_at, sizes.fill, fill_map.kept()),
                Consumer::new(done_map.base, &done_at, sizes.completion, done_map.kept()),
            )
        };
        Ok(Self { rx, tx, fill, completion, fd })
    }

    /// Binds to a queue of an interface.
    pub(crate) fn bind(
        &self,
        interface: u32,
        queue: u32,
        flags: SocketAddrXdpFlags,
    ) -> SetupResult<()> {
        let address = SocketAddrXdp::new(flags, interface, queue);
        rustix::net::bind(&self.fd, &address)
            .map_err(|errno| SetupError { what: "binding the AF_XDP socket", errno })
    }

    /// Whether the kernel confirms that no frame is copied.
    pub(crate) fn is_zero_copy(&self) -> bool {
        sockopt::xdp_options(&self.fd)
            .is_ok_and(|options| options.contains(XdpOptionsFlags::XDP_OPTIONS_ZEROCOPY))
    }

    /// Turns busy polling on (Linux's `networking/napi.rst`, "Busy polling").
    pub(crate) fn prefer_busy_poll(&self, micros: u32, budget: u16) -> Result<(), Errno> {
        let micros = c_int::try_from(micros).unwrap_or(c_int::MAX);
        set(&self.fd, libc::SOL_SOCKET, SO_PREFER_BUSY_POLL, 1)?;
        set(&self.fd, libc::SOL_SOCKET, SO_BUSY_POLL, micros)?;
        set(&self.fd, libc::SOL_SOCKET, SO_BUSY_POLL_BUDGET, budget.into())
    }

    /// Turns busy polling off: calls wake the driver again.
    pub(crate) fn no_busy_poll(&self) -> Result<(), Errno> {
        set(&self.fd, libc::SOL_SOCKET, SO_PREFER_BUSY_POLL, 0)?;
        set(&self.fd, libc::SOL_SOCKET, SO_BUSY_POLL, 0)
    }

    /// Rings the doorbell for frames in the transmit ring. In the copy modes the kernel sends them
    /// now.
    #[inline]
    pub(crate) fn doorbell(&self) -> Result<(), Errno> {
        rustix::net::send(&self.fd, &[], SendFlags::DONTWAIT).map(drop)
    }

    /// Drives the driver in the caller's context, or reports entries in the fill ring to it.
    #[inline]
    pub(crate) fn drive(&self) -> Result<(), Errno> {
        rustix::net::recv(&self.fd, &mut [0u8; 0][..], RecvFlags::DONTWAIT).map(drop)
    }

    pub(crate) fn statistics(&self) -> Result<XdpStatistics, Errno> {
        sockopt::xdp_statistics(&self.fd)
    }

    /// Returns only the socket. Its rings are unmapped.
    pub(crate) fn into_fd(self) -> OwnedFd {
        self.fd
    }
}

impl AsFd for XskSocket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

/// A ring's memory, shared with the kernel.
struct RingMapping {
    base: NonNull<u8>,
    len: usize,
}

// SAFETY: plain memory that any thread may access or unmap.
unsafe impl Send for RingMapping {}

impl RingMapping {
    fn new(
        fd: &OwnedFd,
        page: u64,
        at: XdpRingOffset,
        size: u32,
        entry: usize,
    ) -> SetupResult<(Self, Offsets)> {
        let offsets = Offsets {
            producer: at.producer as usize,
            consumer: at.consumer as usize,
            flags: at.flags.map(|at| at as usize),
            entries: at.desc as usize,
        };
        let len = offsets.entries + size as usize * entry;
        let access = ProtFlags::READ | ProtFlags::WRITE;
        let flags = MapFlags::SHARED | MapFlags::POPULATE;
        // SAFETY: a mapping at an address of the kernel's choice aliases nothing of ours.
        let base = unsafe { rustix::mm::mmap(std::ptr::null_mut(), len, access, flags, fd, page) };
        let base = base.and_then(|base| NonNull::new(base.cast()).ok_or(Errno::NOMEM));
        base.map(|base| (Self { base, len }, offsets))
            .map_err(|errno| SetupError { what: "mapping the rings", errno })
    }

    fn kept(self) -> Box<dyn Any + Send> {
        Box::new(self)
    }
}

impl Drop for RingMapping {
    fn drop(&mut self) {
        // SAFETY: our own mapping; the ring that points into it owns this value and is gone.
        let _ = unsafe { rustix::mm::munmap(self.base.as_ptr().cast(), self.len) };
    }
}

fn set(fd: &OwnedFd, level: c_int, name: c_int, value: c_int) -> Result<(), Errno> {
    let length = size_of::<c_int>() as libc::socklen_t;
    // SAFETY: pointer and length describe one integer that lives across the call.
    let result =
        unsafe { libc::setsockopt(fd.as_raw_fd(), level, name, (&raw const value).cast(), length) };
    if result < 0 {
        let error = std::io::Error::last_os_error();
        return Err(Errno::from_io_error(&error).unwrap_or(Errno::IO));
    }
    Ok(())
}
