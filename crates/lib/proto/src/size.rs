//! How long the frames to a peer may be (`PROTOCOL.md` §12). Both ends may accept more than a
//! switch between them, which drops longer frames silently. So this end asks before it uses a
//! length that not every network carries.

use crate::time::{Instant, Since};
use gigae_wire::PathId;

/// After this many questions whose short frame was answered and whose long frame was not, such long
/// frames count as dropped by the network. Loss alone does that once in 800 sessions at 30 % loss,
/// and once in 10^17 at 1 %.
const STRIKES: u8 = 10;

/// First wait in nanoseconds for the answer to a question; doubled with each repetition.
const INTERVAL: u64 = 1_000_000;

/// Longest wait in nanoseconds between two questions.
const LONGEST_INTERVAL: u64 = 100_000_000;

/// Most answers that wait to be sent: both of a question, and both of its repetition.
const MOST_ANSWERS: usize = 4;

/// Bytes at the beginning of a question, and all bytes of an answer.
pub(crate) const ECHO: usize = 4;

/// The contents of a Probe, which an Echo repeats: the number of the question, and the length of
/// the frame's payload.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Echo {
    round: u16,
    pub(crate) len: u16,
}

impl Echo {
    pub(crate) fn to_bytes(self) -> [u8; ECHO] {
        let ([a, b], [c, d]) = (self.round.to_be_bytes(), self.len.to_be_bytes());
        [a, b, c, d]
    }

    pub(crate) fn parse(payload: &[u8]) -> Option<Self> {
        let &[a, b, c, d] = payload.first_chunk()?;
        Some(Self { round: u16::from_be_bytes([a, b]), len: u16::from_be_bytes([c, d]) })
    }
}

/// The frame to send next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SizeFrame {
    /// A Probe, padded to its length, by this path.
    Question(Echo, PathId),
    /// An Echo, by the path of its question.
    Answer(Echo, PathId),
}

/// What this end asks.
#[derive(Clone, Debug, Hash)]
struct LengthProbe {
    /// The lengths in question, the longer one first. The second is zero if there is only one.
    lengths: [u16; 2],
    /// Both frames go by this path if it is alive. After silence the next path is tried.
    path: PathId,
    round: u16,
    strikes: u8,
    /// Whether the long frame and the short one behind it are due.
    long: bool,
    short: bool,
    /// Since when both have been in flight, and how long to wait for the answer.
    since: Since,
    wait: u64,
}

/// The questions and answers of one session about the length of its frames.
#[derive(Clone, Debug, Default, Hash)]
pub(crate) struct Sizes {
    asking: Option<LengthProbe>,
    /// A message waits for the answer, so the question is repeated.
    pub(crate) wanted: bool,
    answers: Vec<(Echo, PathId)>,
}

impl Sizes {
    /// Asks whether frames with payloads of these lengths arrive, the longer one first, by this
    /// path. Answers that wait go out as before.
    pub(crate) fn ask(&mut self, lengths: [u16; 2], path: PathId) {
        let asking = LengthProbe {
            lengths,
            path,
            round: 0,
            strikes: 0,
            long: true,
            short: true,
            since: Since::Never,
            wait: INTERVAL,
        };
        (self.asking, self.wanted) = (Some(asking), false);
    }

    /// Whether nothing is asked and no answer is due.
    pub(crate) fn is_over(&self) -> bool {
        self.asking.is_none() && self.answers.is_empty()
    }

    /// Whether there is a frame to send now.
    pub(crate) fn is_due(&self) -> bool {
        !self.answers.is_empty() || self.asking.as_ref().is_some_and(|a| a.long || a.short)
    }

    /// The next frame to send, counted as sent.
    pub(crate) fn next(&mut self) -> Option<SizeFrame> {
        if !self.answers.is_empty() {
            let (echo, path) = self.answers.remove(0);
            return Some(SizeFrame::Answer(echo, path));
        }
        let asking = self.asking.as_mut().filter(|asking| asking.long || asking.short)?;
        let len = if asking.long { asking.lengths[0] } else { ECHO as u16 };
        if asking.long {
            asking.long = false;
        } else {
            asking.short = false;
            asking.since.start();
        }
        Some(SizeFrame::Question(Echo { round: asking.round, len }, asking.path))
    }

    /// The peer asks, by this path.
    pub(crate) fn on_question(&mut self, echo: Echo, path: PathId) {
        if self.answers.len() < MOST_ANSWERS {
            self.answers.push((echo, path));
        }
    }

    /// The peer has received a frame of a question. Returns the length that this settles, or zero
    /// if every length in question vanishes.
    pub(crate) fn on_answer(&mut self, echo: Echo) -> Option<u16> {
        let asking = self.asking.as_mut()?;
        if echo.len >= asking.lengths[0] {
            self.asking = None;
            return Some(echo.len);
        }
        if echo.round != asking.round {
            return None;
        }
        // The short frame went behind the long one and has arrived.
        asking.round = asking.round.wrapping_add(1);
        asking.strikes += 1;
        if asking.strikes == STRIKES {
            asking.strikes = 0;
            asking.lengths = [asking.lengths[1], 0];
            if asking.lengths[0] == 0 {
                self.asking = None;
                return Some(0);
            }
        }
        (asking.long, asking.short) = (true, true);
        (asking.since, asking.wait) = (Since::Never, INTERVAL);
        None
    }

    /// The clock was read.
    pub(crate) fn stamp(&mut self, now: Instant) {
        if let Some(asking) = &mut self.asking {
            asking.since.stamp(now);
        }
    }

    /// When a question has to be repeated.
    pub(crate) fn deadline(&self) -> Instant {
        self.asking.as_ref().map_or(Instant::NEVER, |asking| asking.since.after(asking.wait))
    }

    /// Repeats the question if it is time, by the next of `paths` paths. No data are in flight
    /// whose loss would show that the last path does not work.
    pub(crate) fn expire(&mut self, now: Instant, paths: u8) {
        if let Some(asking) = self.asking.as_mut().filter(|a| now >= a.since.after(a.wait)) {
            asking.since = Since::Never;
            asking.wait = (asking.wait * 2).min(LONGEST_INTERVAL);
            asking.path = asking.path.after(1, paths);
            (asking.long, asking.short) = (true, true);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asking(lengths: [u16; 2], path: PathId) -> Sizes {
        let mut sizes = Sizes::default();
        sizes.ask(lengths, path);
        sizes
    }

    fn sent(sizes: &mut Sizes) -> Vec<u16> {
        std::iter::from_fn(|| match sizes.next()? {
            SizeFrame::Question(echo, _) => Some(echo.len),
            SizeFrame::Answer(..) => None,
        })
        .collect()
    }

    #[test]
    fn what_arrives_is_settled_by_the_first_answer() {
        let mut sizes = asking([8968, 3794], PathId::FIRST);
        assert_eq!(sent(&mut sizes), [8968, 4]);
        assert_eq!(sizes.on_answer(Echo { round: 0, len: 8968 }), Some(8968));
        assert!(sizes.is_over() && !sizes.is_due());
        assert_eq!(sizes.on_answer(Echo { round: 0, len: 4 }), None);
    }

    #[test]
    fn what_vanishes_is_given_up_after_ten_rounds_and_the_next_length_is_tried() {
        let mut sizes = asking([8968, 3794], PathId::FIRST);
        for round in 0..10 {
            assert_eq!(sent(&mut sizes), [8968, 4], "round {round}");
            assert_eq!(sizes.on_answer(Echo { round, len: 4 }), None);
            // A copy of an answer counts once.
            assert_eq!(sizes.on_answer(Echo { round, len: 4 }), None);
        }
        for round in 10..19 {
            assert_eq!(sent(&mut sizes), [3794, 4], "round {round}");
            assert_eq!(sizes.on_answer(Echo { round, len: 4 }), None);
        }
        assert_eq!(sent(&mut sizes), [3794, 4]);
        assert_eq!(sizes.on_answer(Echo { round: 19, len: 4 }), Some(0));
    }

    #[test]
    fn silence_is_no_proof_and_a_late_answer_counts() {
        let mut sizes = asking([3794, 0], PathId::FIRST);
        let mut now = Instant(0);
        for _ in 0..20 {
            assert_eq!(sent(&mut sizes), [3794, 4]);
            sizes.stamp(now);
            now = sizes.deadline();
            assert!(now < Instant::NEVER);
            sizes.expire(now, 1);
        }
        assert_eq!(sizes.on_answer(Echo { round: 0, len: 4 }), None);
        assert_eq!(sizes.on_answer(Echo { round: 0, len: 3794 }), Some(3794));
    }

    #[test]
    fn answers_that_wait_are_bounded() {
        let mut sizes = Sizes::default();
        let path = PathId::new(1);
        for round in 0..10 {
            sizes.on_question(Echo { round, len: 4 }, path);
        }
        let answers: Vec<_> = std::iter::from_fn(|| sizes.next()).collect();
        assert_eq!(answers.len(), MOST_ANSWERS);
        assert_eq!(answers[0], SizeFrame::Answer(Echo { round: 0, len: 4 }, path));
    }
}
