//! The layout of the shared memory, in words of 64 bits in the machine's byte order. [`VERSION`]
//! changes with any of it.

/// "gigaeobs" as a number. Written last, when the rest of the header is complete.
pub(crate) const MAGIC: u64 = u64::from_be_bytes(*b"gigaeobs");

/// Version of this layout.
pub(crate) const VERSION: u64 = 1;

// The header, one page.
pub(crate) const AT_MAGIC: usize = 0;
pub(crate) const AT_VERSION: usize = 1;
pub(crate) const AT_OPENED: usize = 2;
pub(crate) const AT_PORT: usize = 3;
pub(crate) const AT_WIRE: usize = 4;
pub(crate) const AT_CHANNELS: usize = 5;
pub(crate) const AT_LINK_COUNT: usize = 9;
pub(crate) const AT_NAMES_LEN: usize = 10;
pub(crate) const AT_LINKS: usize = 16;
/// Of a link: name (2), mode (2), address, longest frame.
pub(crate) const LINK_WORDS: usize = 8;
pub(crate) const AT_NAMES: usize = AT_LINKS + super::MOST_LINKS * LINK_WORDS;
pub(crate) const HEADER_WORDS: usize = 512;

// Control, one page. What different sides write lies in different cache lines.
/// Until when an observer looks, in nanoseconds of the monotonic clock.
pub(crate) const AT_UNTIL: usize = 512;
/// Until when an observer captures frames.
pub(crate) const AT_CAPTURE_UNTIL: usize = 513;
/// Bytes to capture of each frame.
pub(crate) const AT_SNAPLEN: usize = 514;
/// Words of the ring that the observer has read.
pub(crate) const AT_TAIL: usize = 528;
/// Words of the ring that the endpoint has written, and frames that found no room.
pub(crate) const AT_HEAD: usize = 544;
pub(crate) const AT_DROPPED: usize = 545;
/// 1 while the endpoint sleeps until a frame comes; 2 when it was closed.
pub(crate) const AT_STATE: usize = 546;
pub(crate) const ASLEEP: u64 = 1;
pub(crate) const CLOSED: u64 = 2;

/// The statistics, see `statistics.rs`.
pub(crate) const AT_STATISTICS: usize = 1024;
pub(crate) const STATISTICS_WORDS: usize = 7 * 1024;

/// The ring: a power of two, 8 MiB. A Gigabit Ethernet fills it in 65 ms, and an observer looks
/// every few.
pub(crate) const AT_RING: usize = AT_STATISTICS + STATISTICS_WORDS;
pub(crate) const RING_WORDS: usize = 1 << 20;

pub(crate) const TOTAL_WORDS: usize = AT_RING + RING_WORDS;

const _: () = assert!(RING_WORDS.is_power_of_two() && AT_RING.is_multiple_of(512));
