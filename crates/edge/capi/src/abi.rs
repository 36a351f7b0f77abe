//! The types and numbers of `gigae.h`, as Rust sees them. `abi_tests.rs` has a C compiler compare
//! both.

use gigae::Reason;
use std::ffi::{c_char, c_int, c_void};

/// `gigae_endpoint`: never a real object, see [`crate::handle`].
#[repr(C)]
pub struct EndpointHandle {
    _opaque: [u8; 0],
}

/// `gigae_options`: never a real object.
#[repr(C)]
pub struct OptionsHandle {
    _opaque: [u8; 0],
}

/// `gigae_cluster`: never a real object.
#[repr(C)]
pub struct ClusterHandle {
    _opaque: [u8; 0],
}

/// Words of `gigae_buffer` and `gigae_message` for the library: two are in use, two are reserved.
pub(crate) const OPAQUE: usize = 4;

/// `gigae_buffer`. All zero when it holds nothing.
#[repr(C)]
pub struct Buffer {
    pub(crate) data: *mut c_void,
    pub(crate) capacity: usize,
    /// The endpoint's handle and the ticket.
    pub(crate) opaque: [u64; OPAQUE],
}

/// `gigae_message`. All zero when it holds nothing.
#[repr(C)]
pub struct Message {
    pub(crate) data: *const c_void,
    pub(crate) len: usize,
    pub(crate) from: u32,
    pub(crate) reserved: u32,
    /// The endpoint's handle and the ticket.
    pub(crate) opaque: [u64; OPAQUE],
}

impl Buffer {
    pub(crate) const EMPTY: Self =
        Self { data: std::ptr::null_mut(), capacity: 0, opaque: [0; OPAQUE] };
}

impl Message {
    pub(crate) const EMPTY: Self =
        Self { data: std::ptr::null(), len: 0, from: 0, reserved: 0, opaque: [0; OPAQUE] };
}

/// `GIGAE_ANYBODY`
pub(crate) const ANYBODY: u32 = u32::MAX;

/// `GIGAE_MAX_OPERATION`: the limit of the library underneath.
pub(crate) const MAX_OPERATION: usize = 1 << 30;

/// `gigae_tagged`.
#[repr(C)]
pub struct Tagged {
    pub(crate) tag: u64,
    pub(crate) len: usize,
    pub(crate) from: u32,
    pub(crate) reserved: u32,
}

/// `gigae_place`.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct RemoteAddress {
    pub(crate) key: u64,
    pub(crate) offset: u64,
    pub(crate) peer: u32,
    pub(crate) reserved: u32,
}

/// `gigae_completion`. All zero when no completion is there.
#[repr(C)]
pub struct Completion {
    pub(crate) id: u64,
    pub(crate) context: *mut c_void,
    pub(crate) tag: u64,
    pub(crate) value: u64,
    pub(crate) len: usize,
    pub(crate) total: usize,
    pub(crate) peer: u32,
    pub(crate) status: c_int,
    pub(crate) reason: c_int,
    pub(crate) reserved: u32,
}

/// `gigae_notice`.
#[repr(C)]
#[derive(Default)]
pub struct Notice {
    pub(crate) key: u64,
    pub(crate) offset: u64,
    pub(crate) value: u64,
    pub(crate) peer: u32,
    pub(crate) len: u32,
}

impl Completion {
    pub(crate) const EMPTY: Self = Self {
        id: 0,
        context: std::ptr::null_mut(),
        tag: 0,
        value: 0,
        len: 0,
        total: 0,
        peer: 0,
        status: 0,
        reason: GIGAE_REASON_OTHER,
        reserved: 0,
    };
}

/// Bytes of [`Failure::why`]: the longest reason, with an IPv6 address, and room to spare.
pub(crate) const WHY: usize = 240;

/// `gigae_failure`.
#[repr(C)]
pub struct Failure {
    pub(crate) to: u32,
    pub(crate) reason: c_int,
    pub(crate) len: usize,
    pub(crate) why: [c_char; WHY],
}

/// Bytes of [`Path::interface`] (`IFNAMSIZ` of linux/if.h).
pub(crate) const INTERFACE: usize = 16;

/// `gigae_path`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Path {
    pub(crate) interface: [u8; INTERFACE],
    pub(crate) frames_sent: u64,
    pub(crate) frames_received: u64,
    pub(crate) frames_dropped: u64,
    pub(crate) frames_lost: u64,
    pub(crate) deaths: u64,
    pub(crate) returns: u64,
    pub(crate) reserved: [u64; 2],
}

impl From<&gigae::PathStatistics> for Path {
    fn from(path: &gigae::PathStatistics) -> Self {
        let mut interface = [0; INTERFACE];
        crate::clip::copy(&path.info.interface, &mut interface);
        Self {
            interface,
            frames_sent: path.link.tx_frames,
            frames_received: path.link.rx_frames,
            frames_dropped: path.link.rx_dropped,
            frames_lost: path.counters.lost,
            deaths: path.counters.deaths,
            returns: path.counters.returns,
            reserved: [0; 2],
        }
    }
}

/// Declares `gigae_counts`, its names for the comparison with the header, and how it is filled.
macro_rules! counts {
    ($($field:ident <- $($from:ident).+,)*) => {
        /// `gigae_counts`. New fields go to the end.
        #[repr(C)]
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        pub struct Counts { $(pub(crate) $field: u64,)* }

        impl Counts {
            /// The fields in order.
            #[cfg(test)]
            pub(crate) const FIELDS: &[&str] = &[$(stringify!($field),)*];
        }

        impl From<gigae::Counters> for Counts {
            fn from(counters: gigae::Counters) -> Self {
                Self { $($field: counters.$($from).+,)* }
            }
        }
    };
}

counts! {
    messages_sent <- protocol.messages_sent,
    messages_received <- protocol.messages_received,
    messages_failed <- protocol.messages_failed,
    frames_copied <- copied,
    data_frames_received <- protocol.frames_delivered,
    retransmissions <- protocol.retransmissions,
    timeouts <- protocol.timeouts,
    stops <- protocol.stops,
    acks_sent <- protocol.acks_sent,
    probes <- protocol.probes,
    sessions <- protocol.sessions,
    resets <- protocol.resets,
    discarded_short <- protocol.short,
    discarded_not_ours <- protocol.not_ours,
    discarded_version <- protocol.version,
    discarded_checksum <- protocol.checksum,
    discarded_malformed <- protocol.malformed,
    discarded_port <- protocol.port,
    discarded_epoch <- protocol.epoch,
    discarded_duplicate <- protocol.duplicates,
    discarded_window <- protocol.window,
    discarded_out_of_order <- protocol.out_of_order,
    discarded_refused <- protocol.refused,
    frames_sent <- link.tx_frames,
    frames_received <- link.rx_frames,
    frames_dropped <- link.rx_dropped,
    frames_invalid <- link.tx_invalid,
    doorbells <- link.doorbells,
    drives <- link.drives,
    waits <- link.waits,
    wakeups <- link.wakeups,
    clock_reads <- clock_reads,
    black_holes <- protocol.black_holes,
    messages_unasked <- operations.unasked,
    messages_offered <- operations.offered,
    messages_unexpected <- operations.unexpected,
    operations_refused <- operations.refused,
    operations_invalid <- operations.invalid,
    operations_wrong_keys <- operations.wrong_keys,
    messages_dropped <- operations.dropped,
    memory_frames_sent <- link.memory_tx_frames,
    memory_frames_received <- link.memory_rx_frames,
    memory_full <- link.memory_full,
    progress_turns <- progress_turns,
    progress_wakeups <- progress_wakeups,
    frames_placed <- operations.placed,
    frames_misplaced <- operations.misplaced,
    messages_lent <- operations.lent,
    messages_fetched <- operations.fetched,
    operations_direct <- operations.direct,
}

/// Declares numbers of the header, and a list of them for the comparison.
macro_rules! numbers {
    ($($(#[doc = $doc:literal])* $name:ident = $value:literal,)*) => {
        $($(#[doc = $doc])* pub(crate) const $name: c_int = $value;)*

        /// All of them with their names.
        #[cfg(test)]
        pub(crate) const NUMBERS: &[(&str, c_int)] = &[$((stringify!($name), $name),)*];
    };
}

numbers! {
    /// `Rights::READ`
    GIGAE_RIGHT_READ = 1,
    /// `Rights::WRITE`
    GIGAE_RIGHT_WRITE = 2,
    /// `Rights::ATOMIC`
    GIGAE_RIGHT_ATOMIC = 4,
    /// `Wait::Adaptive`
    GIGAE_WAIT_ADAPTIVE = 0,
    /// `Wait::Spin`
    GIGAE_WAIT_SPIN = 1,
    /// `Wait::Sleep`
    GIGAE_WAIT_SLEEP = 2,
    /// `Backend::Auto`
    GIGAE_BACKEND_AUTO = 0,
    /// `Backend::Xdp`
    GIGAE_BACKEND_XDP = 1,
    /// `Backend::XdpMode(Mode::XdpZeroCopy)`
    GIGAE_BACKEND_XDP_ZERO_COPY = 2,
    /// `Backend::XdpMode(Mode::XdpNative)`
    GIGAE_BACKEND_XDP_NATIVE = 3,
    /// `Backend::XdpMode(Mode::XdpGeneric)`
    GIGAE_BACKEND_XDP_GENERIC = 4,
    /// `Backend::Packet`
    GIGAE_BACKEND_PACKET = 5,
    /// `Backend::Udp`
    GIGAE_BACKEND_UDP = 6,
    /// `Sharing::Alone`
    GIGAE_SHARING_ALONE = 0,
    /// `Sharing::Auto`
    GIGAE_SHARING_AUTO = 1,
    /// `Sharing::Child`
    GIGAE_SHARING_CHILD = 2,
    /// `Progress::Auto`
    GIGAE_PROGRESS_AUTO = 0,
    /// `Progress::Manual`
    GIGAE_PROGRESS_MANUAL = 1,
    /// `BrokerUse::Auto`
    GIGAE_BROKER_AUTO = 0,
    /// `BrokerUse::Never`
    GIGAE_BROKER_NEVER = 1,
    /// `BrokerUse::Only`
    GIGAE_BROKER_ONLY = 2,
    /// `BusyPoll::Auto`
    GIGAE_BUSY_POLL_AUTO = 0,
    /// `BusyPoll::Off`
    GIGAE_BUSY_POLL_OFF = 1,
    /// `BusyPoll::On`
    GIGAE_BUSY_POLL_ON = 2,
    /// A reason that is newer than the header
    GIGAE_REASON_OTHER = 0,
    /// `Reason::Timeout`
    GIGAE_REASON_TIMEOUT = 1,
    /// `Reason::Reset`
    GIGAE_REASON_RESET = 2,
    /// `Reason::Version`
    GIGAE_REASON_VERSION = 3,
    /// `Reason::TooLong`
    GIGAE_REASON_TOO_LONG = 4,
    /// `Reason::Closed`
    GIGAE_REASON_CLOSED = 5,
}

/// The header's number of a reason.
pub(crate) fn reason(reason: Reason) -> c_int {
    match reason {
        Reason::Timeout => GIGAE_REASON_TIMEOUT,
        Reason::Reset => GIGAE_REASON_RESET,
        Reason::Version(_) => GIGAE_REASON_VERSION,
        Reason::TooLong(_) => GIGAE_REASON_TOO_LONG,
        Reason::Closed => GIGAE_REASON_CLOSED,
        _ => GIGAE_REASON_OTHER,
    }
}
