//! What is right of a received message, and which counters of an endpoint a soak looks at.

use gigae_body::Id;
use gigae_eval_model::soak::{DeviationKind, GigaeCounters};

/// Judges a plain message: it must be the next, whole. Else what is wrong, and which is the next
/// then.
pub(super) fn check_message(
    expected: Id,
    size: usize,
    message: &[u8],
    scratch: &mut Vec<u8>,
) -> Result<(), (DeviationKind, u32, String)> {
    if message.len() == size && gigae_body::is(expected, message, scratch) {
        return Ok(());
    }
    let number = expected.number;
    let named = gigae_body::name(message).filter(|named| Id { number, ..*named } == expected);
    Err(match named.map(|named| named.number) {
        Some(later) if later > number => (
            DeviationKind::Lost,
            later + 1,
            format!("{} are missing from {number} on", later - number),
        ),
        Some(earlier) if earlier < number => (
            DeviationKind::Order,
            number,
            format!("{earlier} came again, in the place of {number}"),
        ),
        _ => {
            let len = message.len();
            let what = format!("{number} has {len} bytes of {size}, or others than were sent");
            (DeviationKind::Torn, number + 1, what)
        }
    })
}

/// The counters of an endpoint that a soak looks at.
pub(super) fn counters(all: &::gigae::Counters) -> GigaeCounters {
    let ::gigae::Counters { protocol, link, .. } = all;
    let damaged = protocol.short + protocol.version + protocol.checksum + protocol.malformed;
    GigaeCounters {
        frames_sent: link.tx_frames,
        frames_received: link.rx_frames,
        retransmissions: protocol.retransmissions,
        timeouts: protocol.timeouts,
        stops: protocol.stops,
        failed: protocol.messages_failed,
        black_holes: protocol.black_holes,
        damaged,
        discarded: protocol.discarded() - damaged,
        dropped: link.rx_dropped,
        invalid: link.tx_invalid,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use gigae_eval_model::traffic::{Stream, Traffic};

    const TRAFFIC: Traffic = Traffic { seed: 3, round: 0, rate: 1e6, message: 1468 };

    fn message(number: u32, from: u8) -> (Id, Vec<u8>) {
        let id = TRAFFIC.id(Stream::Message, from, 0, number);
        let mut bytes = vec![0; TRAFFIC.size(Stream::Message, id)];
        gigae_body::write(id, &mut bytes);
        (id, bytes)
    }

    /// What is said when `bytes` come in the place of message `number`.
    fn instead(number: u32, bytes: &[u8]) -> Result<(), (DeviationKind, u32)> {
        let (id, expected) = message(number, 1);
        let checked = check_message(id, expected.len(), bytes, &mut Vec::new());
        checked.map_err(|(kind, next, _)| (kind, next))
    }

    /// The first message from a number on that is long enough to name itself.
    fn named(from: u32) -> u32 {
        (from..).find(|number| message(*number, 1).1.len() >= gigae_body::NAMED).unwrap()
    }

    #[test]
    fn an_honest_message_is_the_next() {
        (0..200).for_each(|number| assert_eq!(instead(number, &message(number, 1).1), Ok(())));
    }

    #[test]
    fn a_lost_and_a_repeated_message_are_distinguished() {
        let later = named(7);
        assert_eq!(instead(5, &message(later, 1).1), Err((DeviationKind::Lost, later + 1)));
        let earlier = named(3);
        let next = earlier + 2;
        assert_eq!(instead(next, &message(earlier, 1).1), Err((DeviationKind::Order, next)));
    }

    #[test]
    fn a_lying_body_is_torn_at_every_length() {
        for number in 0..200 {
            let mut bytes = message(number, 1).1;
            let last = bytes.len() - 1;
            bytes[last] ^= 0x40;
            assert_eq!(instead(number, &bytes), Err((DeviationKind::Torn, number + 1)));
            bytes[last] ^= 0x40;
            bytes.push(0);
            assert_eq!(instead(number, &bytes), Err((DeviationKind::Torn, number + 1)));
        }
        // Another end's message is none of this one's.
        assert_eq!(instead(4, &message(4, 2).1), Err((DeviationKind::Torn, 5)));
    }
}
