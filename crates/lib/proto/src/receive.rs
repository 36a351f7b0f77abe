//! The receiving half of a session: order, duplicates, credit and acknowledgement
//! (`PROTOCOL.md` §5 and §6).
//!
//! Credit is the papers' STOP and GO as a number. The sender may send up to `granted`, which counts
//! buffers that really exist. Frames that the application has not released yet still occupy
//! buffers, so they hold the credit back. With [shared credit](ProtocolConfig::shared_credit) the
//! sender may get less than there is room for.

mod early;
mod shared;

use crate::ProtocolConfig;
use crate::time::{Instant, Since};
use gigae_wire::{Discard, SeqNo};

/// Frames of credit at the beginning of a session. It grows with each frame received, so the first
/// credit of many new peers together stays small.
const INITIAL_WINDOW: u32 = 64;

/// The same with shared credit. 20 peers that all use theirs at once send 486 kB, less than the
/// buffer of a usual switch port. A sender that wants more says so.
const SHARED_WINDOW: u32 = 16;

/// Frames out of order for which there is room at first, when the first one arrives.
const FEWEST_KEPT: usize = 16;

/// What a data frame carries, which decides where it goes when its turn comes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum DataKind {
    Messages,
    Operations,
}

/// A frame kept out of order.
#[derive(Clone, Debug, Hash)]
struct KeptFrame<R> {
    /// `None` if it was delivered already.
    buffer: Option<R>,
    kind: DataKind,
    /// It lies in the memory of the socket for bulk data.
    is_bulk: bool,
}

/// See the module's description.
#[derive(Clone, Debug, Hash)]
pub(crate) struct ReceiveWindow<R> {
    /// Number of the next frame in order.
    next: SeqNo,
    /// First number for which no credit was given.
    granted: SeqNo,
    /// First number that is refused. At the beginning of a session with shared credit this is more
    /// than `granted`: an offer may have promised it.
    limit: SeqNo,
    /// First number for which there is no buffer, where credit is shared.
    room: SeqNo,
    /// The credit limit in the last header that went out.
    advertised: SeqNo,
    /// Frames delivered and not yet released by the application.
    held: u32,
    /// Frames for which credit may be given beyond what is held.
    window: u32,
    /// By how much it may still grow because the sender was stopped.
    wanted: u32,
    /// Frames kept out of order, by number: a power of two, as many as the farthest one was ahead.
    /// Empty until the first one arrives.
    kept: Box<[Option<KeptFrame<R>>]>,
    kept_count: u32,
    /// Those of them that were delivered already, and one past the highest of them.
    early_count: u32,
    early: SeqNo,
    /// Those of them in the memory of the socket for bulk data, and by how much that number has
    /// changed since the last call of [`bulk_change`](Self::bulk_change).
    kept_bulk: u32,
    bulk_change: i32,
    /// The frame that is being taken lies in that memory.
    pub(crate) is_bulk: bool,
    /// The operations of that frame may be carried out before those of others, but not before those
    /// of the frame so many numbers before; 0: there is none.
    pub(crate) overtakes: Option<u8>,
    /// Memory for them was allocated since the last call of [`has_new_table`](Self::has_new_table).
    new_table: bool,
    /// One past the highest number received.
    highest: SeqNo,
    /// The frame that arrived last.
    latest: SeqNo,
    /// Frames received since the last acknowledgement went out.
    unacknowledged: u16,
    /// When the first of them arrived.
    waiting: Since,
    /// An acknowledgement should go out at once.
    urgent: bool,
    /// It needs a report, because something is missing.
    gap: bool,
    /// Frames come by several paths, so a missing one is probably in flight. There are no more
    /// reports than acknowledgements then.
    patient: bool,
    /// The peer keeps its last credit for short messages.
    keeps: bool,
}

/// Frames of credit that a new session begins with. Hello and HelloAck advertise them, and they are
/// not withdrawn.
pub(crate) fn initial_credit(config: &ProtocolConfig) -> u16 {
    let most = config.receive_frames.min(config.receive_window.into());
    let first = if config.shared_credit { SHARED_WINDOW } else { INITIAL_WINDOW };
    u16::try_from(first.min(most)).expect("at most 64")
}

/// An acknowledgement that is owed.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PendingAck {
    unacknowledged: u16,
    waiting: Since,
    urgent: bool,
}

impl<R> ReceiveWindow<R> {
    /// `credit` is at most the [first credit](initial_credit).
    pub(crate) fn new(first: SeqNo, credit: u16, config: &ProtocolConfig) -> Self {
        let window = INITIAL_WINDOW.min(config.receive_frames.min(config.receive_window.into()));
        Self {
            next: first,
            granted: first + u32::from(credit),
            limit: first + u32::from(initial_credit(config)),
            room: first + window,
            advertised: first + u32::from(credit),
            held: 0,
            window,
            wanted: 0,
            kept: Box::default(),
            kept_count: 0,
            early_count: 0,
            early: first,
            kept_bulk: 0,
            bulk_change: 0,
            is_bulk: false,
            overtakes: None,
            new_table: false,
            highest: first,
            latest: first,
            unacknowledged: 0,
            waiting: Since::Never,
            urgent: false,
            gap: false,
            patient: false,
            keeps: false,
        }
    }

    /// Says whether frames come by several paths and so overtake each other.
    pub(crate) fn expect_disorder(&mut self, expect: bool) {
        self.patient = expect;
    }

    /// Whether a frame is the next in order, and within what was promised.
    #[inline]
    pub(crate) fn is_next(&self, seq: SeqNo) -> bool {
        seq == self.next && seq.is_before(self.limit)
    }

    /// Takes a data frame out of `buffer`. A frame in order is delivered with everything that was
    /// kept behind it. A frame out of order is kept if it is within the reorder window. Any other
    /// frame stays in `buffer`.
    #[inline]
    pub(crate) fn take(
        &mut self,
        seq: SeqNo,
        buffer: &mut Option<R>,
        kind: DataKind,
        reorder_window: u16,
        deliver: impl FnMut(R, DataKind),
    ) -> Result<(), Discard> {
        let ahead = seq.ahead_of(self.next);
        if ahead < 0 {
            self.urgent = true;
            return Err(Discard::Duplicate);
        }
        if !seq.is_before(self.limit) {
            self.urgent = true;
            return Err(Discard::Window);
        }
        self.latest = seq;
        if ahead > 0 {
            let ahead = ahead.cast_unsigned();
            return self.out_of_order(seq, ahead, buffer, kind, reorder_window);
        }
        self.in_order(buffer.take().expect("a data frame comes with its buffer"), kind, deliver);
        Ok(())
    }

    /// The same for a frame that [is the next](Self::is_next), while none is kept: the caller
    /// delivers it. An acknowledgement is due now or later, after `ack_every` frames at the latest.
    #[inline(always)]
    pub(crate) fn take_next(&mut self, ack_every: u16) {
        self.latest = self.next;
        self.is_bulk = false;
        self.advance();
        self.in_order_done();
        self.gap = false;
        self.schedule(ack_every);
    }

    #[inline]
    fn in_order(&mut self, buffer: R, kind: DataKind, mut deliver: impl FnMut(R, DataKind)) {
        deliver(buffer, kind);
        self.advance();
        while self.kept_count > 0 {
            let at = self.next.0 as usize & (self.kept.len() - 1);
            let Some(KeptFrame { buffer, kind, is_bulk }) = self.kept[at].take() else { break };
            self.kept_count -= 1;
            self.bulk_change -= i32::from(is_bulk);
            if let Some(buffer) = buffer {
                deliver(buffer, kind);
                self.advance();
            } else {
                self.early_count -= 1;
                self.next += 1;
            }
        }
        self.in_order_done();
        self.gap = self.kept_count > 0;
        if self.gap {
            self.urgent |= self.is_missing();
        }
    }

    /// All that is in order now was taken.
    #[inline]
    fn in_order_done(&mut self) {
        if self.highest.is_before(self.next) {
            self.highest = self.next;
        }
    }

    #[inline]
    fn advance(&mut self) {
        self.next += 1;
        self.held += 1;
        self.unacknowledged = self.unacknowledged.saturating_add(1);
    }

    #[cold]
    fn out_of_order(
        &mut self,
        seq: SeqNo,
        ahead: u32,
        buffer: &mut Option<R>,
        kind: DataKind,
        reorder_window: u16,
    ) -> Result<(), Discard> {
        self.urgent |= !self.patient;
        self.gap = true;
        self.unacknowledged = self.unacknowledged.saturating_add(u16::from(self.patient));
        if reorder_window == 0 {
            return Err(Discard::OutOfOrder);
        }
        if ahead > u32::from(reorder_window) {
            return Err(Discard::Window);
        }
        if ahead as usize > self.kept.len() {
            self.grow(ahead as usize);
        }
        let at = seq.0 as usize & (self.kept.len() - 1);
        if self.kept[at].is_some() {
            return Err(Discard::Duplicate);
        }
        let is_bulk = self.is_bulk;
        self.kept[at] = Some(KeptFrame { buffer: buffer.take(), kind, is_bulk });
        self.kept_count += 1;
        self.bulk_change += i32::from(is_bulk);
        let highest = if self.overtakes.is_some() { &mut self.early } else { &mut self.highest };
        if !seq.is_before(*highest) {
            *highest = seq + 1;
        }
        Ok(())
    }

    /// Makes room for a frame that is so far ahead of the next one. The next one is never kept, so
    /// that many places are enough.
    fn grow(&mut self, ahead: usize) {
        let before = self.kept.len();
        let count = ahead.next_power_of_two().max(FEWEST_KEPT);
        let mut kept: Box<[_]> = std::iter::repeat_with(|| None).take(count).collect();
        let mut seq = self.next;
        for _ in 0..before {
            seq += 1;
            let frame = self.kept[seq.0 as usize & (before - 1)].take();
            kept[seq.0 as usize & (count - 1)] = frame;
        }
        self.kept = kept;
        self.new_table |= before == 0;
    }

    /// The application is done with one delivered frame. `most` is the largest window that the
    /// endpoint's receive frames allow this peer now. The window grows only while the sender uses
    /// more than half of it, or after it [was stopped](Self::stopped_sender). A peer that asks and
    /// waits for the answer then needs few frames, and those stay in the cache. With several paths
    /// the window always grows: a slow path needs room before it is seen to use it.
    ///
    /// Returns by how much the window has changed.
    #[inline]
    pub(crate) fn release(&mut self, most: u32) -> i32 {
        self.held = self.held.saturating_sub(1);
        let before = self.window;
        let used = self.patient
            || self.wanted > 0
            || self.advertised.ahead_of(self.next).cast_unsigned() < before - before / 2;
        self.wanted = self.wanted.saturating_sub(1);
        self.window = (before + u32::from(used)).min(most);
        let edge = SeqNo(self.next.0.wrapping_sub(self.held)) + self.window;
        if self.granted.is_before(edge) {
            self.granted = edge;
            self.limit = edge;
            self.room = edge;
        }
        // GO: the peer is stopped, or soon will be, because it does not know of this room.
        let unadvertised = self.granted.ahead_of(self.advertised).cast_unsigned();
        let left = self.advertised.ahead_of(self.next);
        if left <= 0 || (unadvertised >= self.window / 2 && left.cast_unsigned() <= self.window / 4)
        {
            self.urgent = true;
        }
        self.window.cast_signed() - before.cast_signed()
    }

    /// The sender has used all credit that it knew of. So the window is too small for the time that
    /// an acknowledgement takes, and doubles. What is left of it here does not show that: a frame
    /// that is on its way and one that was never sent look the same.
    #[inline]
    pub(crate) fn stopped_sender(&mut self) {
        self.wanted = self.window;
    }

    /// Frames for which credit may be given beyond what is held.
    #[inline]
    pub(crate) fn window(&self) -> u32 {
        self.window
    }

    /// After a frame: whether an acknowledgement is due now or later.
    #[inline]
    pub(crate) fn schedule(&mut self, every: u16) {
        if self.unacknowledged >= every {
            self.urgent = true;
        } else if self.unacknowledged > 0 {
            self.waiting.start();
        }
    }

    /// The clock was read.
    #[inline]
    pub(crate) fn stamp(&mut self, now: Instant) {
        self.waiting.stamp(now);
    }

    /// Number of the next frame in order: all before it have arrived.
    pub(crate) fn next(&self) -> SeqNo {
        self.next
    }

    /// The peer asked for an acknowledgement.
    pub(crate) fn ask(&mut self) {
        self.urgent = true;
    }

    /// Frames kept out of order.
    #[inline]
    pub(crate) fn kept(&self) -> u32 {
        self.kept_count
    }

    /// Those of them in the memory of the socket for bulk data.
    pub(crate) fn kept_bulk(&self) -> u32 {
        self.kept_bulk
    }

    /// By how much that has changed since the last call.
    pub(crate) fn bulk_change(&mut self) -> i32 {
        let change = std::mem::take(&mut self.bulk_change);
        self.kept_bulk = self.kept_bulk.wrapping_add_signed(change);
        change
    }

    /// Frames delivered and not released.
    pub(crate) fn held(&self) -> u32 {
        self.held
    }

    /// The deadline for an acknowledgement if no message carries it.
    #[inline]
    pub(crate) fn acknowledge_by(&self, delay: u64) -> Instant {
        self.waiting.after(delay)
    }

    /// Whether an acknowledgement should go out at once. `idle` says that nothing else will carry
    /// it soon.
    #[inline]
    pub(crate) fn is_due(&self, idle: bool) -> bool {
        self.urgent || (idle && self.unacknowledged > 0)
    }

    /// Whether the next acknowledgement must be an Ack frame: data frames carry no report.
    #[inline]
    pub(crate) fn has_gap(&self) -> bool {
        self.gap && self.urgent
    }

    /// Acknowledgement and credit for a header that goes out now. If a report is due, only an Ack
    /// makes it no longer due.
    #[inline]
    pub(crate) fn fields(&mut self, is_ack: bool) -> (SeqNo, u16) {
        self.advertised = self.granted;
        if is_ack || !self.gap {
            self.unacknowledged = 0;
            self.waiting = Since::Never;
            self.urgent = false;
        }
        let credit = self.granted.ahead_of(self.next).max(0);
        (self.next, u16::try_from(credit).unwrap_or(u16::MAX))
    }

    /// What is owed to the peer, for a header that goes out on a slow way: [`owe`](Self::owe) it
    /// again after its [`fields`](Self::fields).
    pub(crate) fn owed(&self) -> PendingAck {
        PendingAck {
            unacknowledged: self.unacknowledged,
            waiting: self.waiting,
            urgent: self.urgent,
        }
    }

    /// See [`owed`](Self::owed).
    pub(crate) fn owe(&mut self, owed: PendingAck) {
        let PendingAck { unacknowledged, waiting, urgent } = owed;
        (self.unacknowledged, self.waiting, self.urgent) = (unacknowledged, waiting, urgent);
    }

    /// Frees the memory for frames out of order, if it is allocated and empty.
    #[cold]
    pub(crate) fn shrink(&mut self) -> bool {
        let gives = self.kept_count == 0 && self.has_table();
        if gives {
            self.kept = Box::default();
        }
        gives
    }

    /// Whether memory for frames out of order was allocated since the last call.
    pub(crate) fn has_new_table(&mut self) -> bool {
        std::mem::take(&mut self.new_table)
    }

    /// Whether memory for frames out of order is allocated.
    pub(crate) fn has_table(&self) -> bool {
        !self.kept.is_empty()
    }

    /// Whether a delayed acknowledgement waits, and since when is known.
    #[inline]
    pub(crate) fn waits(&self) -> bool {
        matches!(self.waiting, Since::At(_))
    }

    /// Hands out the frames kept out of order: the session is over.
    pub(crate) fn drain(&mut self) -> impl Iterator<Item = R> + '_ {
        (self.kept_count, self.early_count) = (0, 0);
        self.kept.iter_mut().filter_map(Option::take).filter_map(|kept| kept.buffer)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use gigae_wire::AckReport;

    fn window() -> ReceiveWindow<u32> {
        let config = ProtocolConfig { shared_credit: false, ..ProtocolConfig::default() };
        ReceiveWindow::new(SeqNo(u32::MAX - 2), 64, &config)
    }

    fn take(w: &mut ReceiveWindow<u32>, offset: u32, reorder: u16) -> (Vec<u32>, Option<Discard>) {
        let mut out = Vec::new();
        let seq = SeqNo(u32::MAX - 2) + offset;
        let taken = w.take(seq, &mut Some(offset), DataKind::Messages, reorder, |r, _| out.push(r));
        let refused = taken.err();
        (out, refused)
    }

    #[test]
    fn frames_are_delivered_in_order_across_the_wrap() {
        let mut w = window();
        assert_eq!(take(&mut w, 1, 8), (vec![], None));
        assert_eq!(take(&mut w, 4, 8), (vec![], None));
        assert_eq!(take(&mut w, 0, 8), (vec![0, 1], None));
        assert_eq!(take(&mut w, 3, 8), (vec![], None));
        assert_eq!(take(&mut w, 2, 8), (vec![2, 3, 4], None));
        assert_eq!(take(&mut w, 2, 8).1, Some(Discard::Duplicate));
    }

    #[test]
    fn the_farthest_frame_of_the_reorder_window_does_not_hide_the_nearest() {
        let mut w = window();
        assert_eq!(take(&mut w, 8, 8), (vec![], None));
        assert_eq!(take(&mut w, 9, 8).1, Some(Discard::Window));
        for i in 1..8 {
            assert_eq!(take(&mut w, i, 8), (vec![], None), "{i}");
        }
        assert_eq!(take(&mut w, 0, 8).0, (0..=8).collect::<Vec<_>>());
    }

    #[test]
    fn the_table_of_frames_out_of_order_is_as_long_as_the_farthest_is_ahead() {
        let mut w = window();
        for (ahead, places) in [(1, 16), (16, 16), (17, 32), (5, 32), (63, 64)] {
            assert_eq!(take(&mut w, ahead, 64), (vec![], None), "{ahead}");
            assert_eq!(w.kept.len(), places, "{ahead}");
        }
        assert_eq!(take(&mut w, 0, 64).0, [0, 1], "none is lost");
        for i in (2..63).filter(|i| ![5, 16, 17].contains(i)) {
            take(&mut w, i, 64);
        }
        assert_eq!((w.kept(), w.next()), (0, SeqNo(u32::MAX - 2) + 64));
    }

    #[test]
    fn without_a_reorder_window_nothing_out_of_order_is_kept() {
        let mut w = window();
        assert_eq!(take(&mut w, 1, 0), (vec![], Some(Discard::OutOfOrder)));
        let mut report = [0; 4 + AckReport::MAX_BITMAP];
        assert_eq!(w.write_report(&mut report), 4);
        assert_eq!(report[..4], (u32::MAX - 1).to_be_bytes());
        assert_eq!(take(&mut w, 0, 0), (vec![0], None));
    }

    #[test]
    fn a_report_tells_what_is_held_beyond_the_gap() {
        let mut w = window();
        for i in [2, 5] {
            assert_eq!(take(&mut w, i, 8), (vec![], None));
        }
        let mut report = [0; 4 + AckReport::MAX_BITMAP];
        let len = w.write_report(&mut report);
        let offsets: Vec<_> =
            AckReport::parse(&report[..len]).unwrap().unwrap().offsets().collect();
        assert_eq!(offsets, [2, 5]);
        assert_eq!(w.fields(true).0, SeqNo(u32::MAX - 2));
    }

    #[test]
    fn the_window_doubles_once_for_a_sender_that_was_stopped() {
        let mut w = window();
        for i in 0..200 {
            if i == 20 {
                w.stopped_sender();
            }
            assert_eq!(take(&mut w, i, 8), (vec![i], None));
            w.release(256);
            w.fields(true);
        }
        assert_eq!(w.window(), 2 * INITIAL_WINDOW);
    }

    /// Far ahead of the room that it had first, numbers would wrap.
    #[test]
    fn a_lone_sender_gets_all_the_room_once() {
        let mut w = ReceiveWindow::new(SeqNo(0), 16, &ProtocolConfig::default());
        w.open();
        assert_eq!(w.granted, SeqNo(64));
        for i in 0..100 {
            assert!(w.take(SeqNo(i), &mut Some(i), DataKind::Messages, 8, |_, _| ()).is_ok());
            w.release(64);
        }
        assert_eq!((w.granted, w.room), (SeqNo(164), SeqNo(164)));
    }

    #[test]
    fn credit_runs_out_while_the_application_holds_and_comes_back_when_it_releases() {
        let config = ProtocolConfig { receive_window: 4, ..ProtocolConfig::default() };
        let mut w = ReceiveWindow::new(SeqNo(0), 4, &config);
        for i in 0..4 {
            assert!(w.take(SeqNo(i), &mut Some(i), DataKind::Messages, 8, |_, _| ()).is_ok());
        }
        assert_eq!(w.fields(true), (SeqNo(4), 0), "STOP");
        let fifth = w.take(SeqNo(4), &mut Some(4), DataKind::Messages, 8, |_, _| ());
        assert_eq!(fifth, Err(Discard::Window));
        w.fields(true);
        assert!(!w.is_due(true));
        w.release(4);
        assert!(w.is_due(false), "GO goes out by itself");
        assert_eq!(w.fields(true), (SeqNo(4), 1));
    }
}
