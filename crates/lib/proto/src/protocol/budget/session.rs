//! What the budget knows of one session.

use super::LONG;
use gigae_wire::SeqNo;

/// A demand that is less by so many powers of two is that of another message. That of a long queue
/// is sometimes less by one.
const ANOTHER: u8 = 2;

/// By which power of two the credit of a peer that does not use it in time is reduced at most.
const MOST_HALVINGS: u8 = 7;

/// What the budget knows of one session, and what this end says and was told of its own demand.
#[derive(Clone, Copy, Debug, Default, Hash)]
pub(crate) struct SessionBudget {
    /// The last demand that this end has told the peer.
    pub(crate) told: u8,
    /// The peer tells this end to wait before it asks.
    pub(crate) is_patient: bool,
    /// What the peer last said of the frames that it could send with more credit.
    pub(crate) demand: u8,
    /// The most that it said of the message that it sends now, and frames granted since then.
    pub(super) said: u8,
    pub(crate) given: u32,
    /// It counts among those that want more than they have.
    pub(crate) wants: bool,
    /// Its credit, as far as it counts.
    pub(crate) counted: u32,
    /// It left its credit unused for long, and has sent nothing since. Its credit does not count,
    /// and it gets no more.
    pub(crate) is_idle: bool,
    /// How often its largest credit is halved for that.
    pub(crate) halvings: u8,
    /// One past the highest number received when it was last looked at.
    pub(crate) used_to: SeqNo,
    /// The first frame without credit when it began to be watched, and when that was, in
    /// microseconds; 0 if it has not wanted more all the time since.
    pub(crate) mark: Option<(SeqNo, u32)>,
    /// It is in the list of those that are watched, and in one of the queues.
    pub(crate) is_watched: bool,
    pub(crate) is_queued: bool,
    /// A frame is missing, and how many had arrived by then.
    pub(super) missing_since: Option<u32>,
    /// One more than the number of the measurement in which one was last lost.
    pub(super) missed_in: u32,
}

impl SessionBudget {
    /// Which queue it waits in. One that gets more than it said that it wanted is not short.
    pub(super) fn class(&self) -> usize {
        let given = u32::BITS - self.given.leading_zeros();
        let is_longer = given > u32::from(self.said);
        usize::try_from(if is_longer { given } else { self.demand.into() })
            .map_or(LONG.into(), |class| class.min(LONG.into()))
    }

    /// The peer has said its demand. One that is far less than before is that of another message.
    pub(crate) fn note_demand(&mut self) {
        if self.demand == 0 || self.demand + ANOTHER <= self.said {
            (self.said, self.given) = (0, 0);
        }
        self.said = self.said.max(self.demand);
    }

    /// Its credit was watched: it was used in time, or not.
    pub(crate) fn reconsider(&mut self, is_used: bool) {
        self.is_idle = !is_used && self.counted > 0;
        self.halvings = match is_used {
            true => self.halvings.saturating_sub(1),
            false => (self.halvings + 1).min(MOST_HALVINGS),
        };
    }

    /// The session is over. What is in a list is thrown out when its turn comes.
    pub(crate) fn end(&mut self) {
        let Self { is_watched, is_queued, .. } = *self;
        *self = Self { is_watched, is_queued, ..Self::default() };
    }
}
