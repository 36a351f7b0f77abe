//! What there is to tell about a window to somebody who looks at it. Nothing here is kept for that.

use super::SendWindow;
use crate::peer::PeerFigures;
use gigae_wire::SeqNo;

impl<T> SendWindow<T> {
    /// Adds what this side knows of a session whose first frame had this number.
    pub(crate) fn describe(&self, first: SeqNo, figures: &mut PeerFigures) {
        figures.frames_sent = self.sent.ahead_of(first).cast_unsigned();
        figures.unacknowledged = self.len();
        figures.queued = self.next.ahead_of(self.sent).cast_unsigned();
        figures.window = self.window.into();
        figures.credit = u32::try_from(self.limit.ahead_of(self.sent)).unwrap_or(0);
        figures.stopped = self.is_stopped();
        for path in self.paths() {
            let (flying, flight) = path.flight();
            figures.in_flight += flying;
            figures.flight += flight;
            figures.lost += path.counters.lost;
            figures.paths += u32::from(path.is_alive());
        }
        let alive = self.paths().find(|path| path.is_alive()).unwrap_or(&self.first);
        figures.round_trip = alive.rtt.smoothed();
        figures.timeout = alive.rtt.timeout();
    }
}
