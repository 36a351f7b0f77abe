//! What programs are told of the provider: its name, its version and its limits.

/// The provider's name, which is the fabric's too.
pub(crate) const NAME: &str = "gigae";

/// The provider's version as libfabric has it: two numbers of 16 bits.
pub(crate) const VERSION: u32 = 1;

/// Longest operation in bytes.
pub(crate) const MAX_OPERATION: usize = 1 << 30;

/// Pieces of memory that an operation may have.
pub(crate) const MOST_PIECES: usize = 4;

/// Longest data that are copied when they are handed over, in bytes. More would cost more than waiting.
pub(crate) const INJECT_SIZE: usize = 4096;

/// Sends and accesses to remote memory that may be going on; further ones are told to come again. Less
/// than the uses after which the library uses an operation's number again.
pub(crate) const MOST_SENDS: usize = 2048;
