//! The provider's name, version and limits.

/// The provider's name, and the fabric's.
pub(crate) const NAME: &str = "gigae";

/// The provider's version as libfabric has it: two numbers of 16 bits.
pub(crate) const VERSION: u32 = 1;

/// Longest operation in bytes.
pub(crate) const MAX_OPERATION: usize = 1 << 30;

/// Most pieces of memory of an operation.
pub(crate) const MOST_PIECES: usize = 4;

/// Longest data in bytes that are copied at the start of an operation. Copying more would cost more
/// than waiting.
pub(crate) const INJECT_SIZE: usize = 4096;

/// Longest message in bytes that is copied when it is sent, so that it is complete for its sender
/// at once, as it is over TCP. It would otherwise wait for an acknowledgement.
pub(crate) const COPIED_SIZE: usize = 32 << 10;

/// Most copies of messages beyond [`INJECT_SIZE`] at a time: half a megabyte, which stays in the
/// cache. With 64 of them, many messages of 32 KiB at a time went a third slower. Further ones are
/// sent from the program's memory.
pub(crate) const MOST_COPIES: usize = 16;

/// Most sends and remote accesses in progress. Further ones return FI_EAGAIN. Less than the uses
/// after which the library reuses an operation's number.
pub(crate) const MOST_SENDS: usize = 2048;
