//! Describes a window for people who look. Nothing is kept only for that.

use super::SendWindow;
use crate::peer::PeerSnapshot;
use gigae_wire::SeqNo;

impl<T> SendWindow<T> {
    /// Adds this side's part of a session whose first frame had this number.
    pub(crate) fn describe(&self, first: SeqNo, snapshot: &mut PeerSnapshot) {
        snapshot.frames_sent = self.sent.ahead_of(first).cast_unsigned();
        snapshot.unacknowledged = self.len();
        snapshot.queued = self.next.ahead_of(self.sent).cast_unsigned();
        snapshot.window = self.window.into();
        snapshot.credit = u32::try_from(self.limit.ahead_of(self.sent)).unwrap_or(0);
        snapshot.stopped = self.is_stopped();
        for path in self.paths() {
            let (in_flight, flight) = path.flight();
            snapshot.in_flight += in_flight;
            snapshot.flight += flight;
            snapshot.lost += path.counters.lost;
            snapshot.paths += u32::from(path.is_alive());
        }
        let alive = self.paths().find(|path| path.is_alive()).unwrap_or(&self.first);
        snapshot.round_trip = alive.rtt.smoothed();
        snapshot.timeout = alive.rtt.timeout();
    }
}
