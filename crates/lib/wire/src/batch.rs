//! Several messages in one frame (`PROTOCOL.md` §2, kind Batch). Two bytes in front of each message
//! give its length.
//!
//! Nothing is aligned: a message of eight bytes takes ten of the frame.

use crate::Discard;
use core::ops::Range;

/// Bytes in front of each message: its length, big-endian.
pub const PREFIX_LEN: usize = 2;

/// The prefix of a message of `len` bytes.
#[inline]
pub const fn prefix(len: u16) -> [u8; PREFIX_LEN] {
    len.to_be_bytes()
}

/// Checks the payload of a Batch: at least one message, each within the payload, nothing behind the
/// last. About a nanosecond per message.
#[inline]
pub fn check(payload: &[u8]) -> Result<(), Discard> {
    let mut rest = payload;
    loop {
        let (prefix, messages) = rest.split_first_chunk().ok_or(Discard::Malformed)?;
        let len = usize::from(u16::from_be_bytes(*prefix));
        rest = messages.get(len..).ok_or(Discard::Malformed)?;
        if rest.is_empty() {
            return Ok(());
        }
    }
}

/// Where the message lies whose prefix is at `at`. `None` at the end of the payload, or for a
/// message outside of it, which [`check`] would refuse. The next prefix follows the message.
#[inline]
pub fn message_at(payload: &[u8], at: usize) -> Option<Range<usize>> {
    let prefix = payload.get(at..)?.first_chunk::<PREFIX_LEN>()?;
    let start = at + PREFIX_LEN;
    let end = start + usize::from(u16::from_be_bytes(*prefix));
    (end <= payload.len()).then_some(start..end)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::vec::Vec;

    fn messages(payload: &[u8]) -> Vec<Vec<u8>> {
        let mut at = 0;
        let mut all = Vec::new();
        while let Some(range) = message_at(payload, at) {
            at = range.end;
            all.push(payload[range].to_vec());
        }
        all
    }

    #[test]
    fn a_payload_is_refused_unless_its_messages_fill_it_exactly() {
        assert_eq!(check(&[0, 0]), Ok(()), "an empty message");
        assert_eq!(check(&[0, 1, 7, 0, 2, 8, 9]), Ok(()));
        for bad in [&[][..], &[0], &[0, 1], &[0, 1, 7, 0], &[0, 1, 7, 0, 1], &[0xff, 0xff, 7]] {
            assert_eq!(check(bad), Err(Discard::Malformed), "{bad:?}");
        }
    }

    proptest! {
        #[test]
        fn what_is_put_in_comes_out(all in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..50), 1..40)) {
            let mut payload = Vec::new();
            for message in &all {
                payload.extend(prefix(message.len() as u16));
                payload.extend(message);
            }
            prop_assert_eq!(check(&payload), Ok(()));
            prop_assert_eq!(messages(&payload), all);
        }

        #[test]
        fn arbitrary_bytes_never_panic(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            let sum: usize = messages(&bytes).iter().map(|m| m.len() + PREFIX_LEN).sum();
            prop_assert!(check(&bytes).is_err() || sum == bytes.len());
        }
    }
}
