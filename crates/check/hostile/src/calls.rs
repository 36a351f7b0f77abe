//! Sequences of calls of the C library.

use crate::meter::within;

/// Two endpoints of 128 frames, which are not counted, and 512 KiB unexpected messages at each.
const MEMORY: usize = 8 << 20;

/// The C API's entries in any order, with handles, tickets and numbers of any value. See the module
/// of that name in the C library.
///
/// # Panics
/// If a call panics inside, answers with a value that is not a code, changes a message that is
/// held, leaves an endpoint that cannot be closed, or needs too much memory.
pub fn calls(input: &[u8]) {
    within(MEMORY, || gigae_entries::calls::run(input));
}
