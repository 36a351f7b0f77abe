//! Credit for several senders: what their frames change in the [budget](super::budget), and who
//! gets credit from it (`PROTOCOL.md` 6.5 to 6.9).

use super::Protocol;
use super::budget::micros;
use crate::PeerId;
use crate::session::Session;
use gigae_wire::{Epoch, Flags, Header, Kind};

impl<T, R> Session<T, R> {
    /// What a header says of this end's demand, and whether the peer should wait.
    #[cold]
    pub(super) fn credit_flags(&mut self, is_rationed: bool) -> Flags {
        let demand = self.send.as_ref().map_or(0, |send| send.demand());
        let keeps = self.send.as_ref().is_some_and(|send| send.keeps_credit());
        self.budget.told = demand;
        let waits = is_rationed && self.budget.demand > 0;
        let room = self.receive.as_ref().is_some_and(|receive| !receive.is_narrow());
        let flags = if waits { Flags::WAIT } else { Flags::NONE };
        let flags = flags.with(if room { Flags::ROOM } else { Flags::NONE });
        flags.with(if keeps { Flags::KEEP } else { Flags::NONE }).with_demand(demand)
    }
}

/// # Credit for several senders
impl<T, R> Protocol<T, R> {
    /// Whether credit is shared: this end has several peers, or has heard of one that has.
    #[inline]
    pub fn is_shared(&self) -> bool {
        self.shares.is_shared
    }

    /// The same for a frame that has come, which may say so.
    #[inline(always)]
    pub(super) fn shares_credit(&mut self, header: &Header) -> bool {
        if !self.shares.is_shared && header.flags.shares_credit() {
            self.shares.share_credit(&self.config);
        }
        self.shares.is_shared
    }

    /// This end is stopped. The peer learns at once that it wants more, unless it knows.
    #[cold]
    pub(super) fn say_demand(&mut self, peer: PeerId) {
        let session = &mut self.sessions[peer.0 as usize];
        if session.budget.told == 0
            && let Some(receive) = &mut session.receive
        {
            receive.ask();
            self.enqueue(peer);
        }
    }

    /// A frame has come from a peer: what it wants, and what credit it has. `data` is the length of
    /// its payload, if it has data.
    #[cold]
    #[inline(never)]
    pub(super) fn demanded(&mut self, peer: PeerId, header: &Header, data: Option<usize>) {
        let session = &mut self.sessions[peer.0 as usize];
        if !session.is_up() {
            return;
        }
        session.share_queues();
        session.set_told_to_wait(header.flags.has(Flags::WAIT));
        if let Some(send) = &mut session.send {
            send.set_keeps(header.flags.has(Flags::ROOM));
        }
        let Some(receive) = &mut session.receive else { return };
        receive.set_kept(header.flags.has(Flags::KEEP));
        let mut demand = header.flags.demand();
        // One that never says its demand asks when it is stopped.
        let asks = header.kind == Kind::Ack && header.flags.has(Flags::ASK);
        if demand == 0 && asks && !header.seq.is_before(receive.granted()) {
            demand = 1;
        }
        let of = &mut session.budget;
        self.budget.note_missing(of, receive.missing());
        let is_rationed = self.budget.is_rationed();
        if let Some(length) = data {
            let is_divided = header.flags.has(Flags::DIVIDED);
            self.budget.note_frame(peer, length, is_divided, self.now);
            self.budget.note_used(of, receive.highest(), is_divided, self.now);
        }
        let before = std::mem::replace(&mut of.demand, demand);
        if demand == 0 && before == 0 {
            return;
        }
        of.note_demand();
        // A lone sender always has enough, unless its receiver's program is slow.
        let has_enough = receive.outstanding() >= receive.window() / 2;
        if !is_rationed && demand == before && of.wants && has_enough {
            return;
        }
        self.update(peer);
        self.want(peer);
        self.grant();
        // It may have been given credit before it was stopped, without knowing.
        let session = &mut self.sessions[peer.0 as usize];
        if let Some(receive) = &mut session.receive
            && demand > 0
        {
            receive.go();
            if receive.is_due(false) {
                self.enqueue(peer);
            }
        }
    }

    /// A session ends: nothing of it counts any more.
    pub(super) fn leave_budget(&mut self, peer: PeerId) {
        if !self.shares.is_shared {
            return;
        }
        let of = &mut self.sessions[peer.0 as usize].budget;
        self.budget.wanting -= u32::from(of.wants);
        self.budget.outstanding -= of.counted;
        of.end();
        self.budget.ration(self.now);
        self.grant();
    }

    /// Counts what a peer has and wants.
    fn update(&mut self, peer: PeerId) {
        let session = &mut self.sessions[peer.0 as usize];
        let (budget, of) = (&mut self.budget, &mut session.budget);
        let Some(receive) = &session.receive else { return };
        let outstanding = receive.outstanding();
        // What is left for short messages only is not unused.
        if receive.highest() != of.used_to || outstanding == 0 {
            of.used_to = receive.highest();
            of.is_idle = false;
        }
        if of.demand == 0
            && let Some((_, since)) = &mut of.mark
        {
            *since = 0;
        }
        let counts = of.demand > 0 && !of.is_idle;
        // One whose frames the program does not take has nothing to wait for here.
        let wants = counts && (outstanding > 0 || receive.has_room());
        let credit = if counts { outstanding } else { 0 };
        let before = std::mem::replace(&mut of.counted, credit);
        budget.outstanding = budget.outstanding - before + credit;
        let before = std::mem::replace(&mut of.wants, wants);
        budget.wanting = budget.wanting + u32::from(wants) - u32::from(before);
        if credit > 0 && !of.is_watched {
            of.is_watched = true;
            of.mark.get_or_insert((receive.granted_but_reserve(), micros(self.now)));
            budget.watch(peer, self.now);
        }
        budget.ration(self.now);
    }

    /// Queues a peer that may get more credit.
    fn want(&mut self, peer: PeerId) {
        let session = &mut self.sessions[peer.0 as usize];
        let of = &mut session.budget;
        let Some(receive) = session.receive.as_ref().filter(|_| of.wants && !of.is_queued) else {
            return;
        };
        let is_rationed = self.budget.is_rationed();
        let may_get = match is_rationed {
            true => self.budget.may_get(of),
            false => of.counted < (receive.window() / 2).max(1),
        };
        if may_get && receive.has_room() {
            self.budget.queue(peer, of);
        }
    }

    /// Gives credit as far as the budget allows.
    fn grant(&mut self) {
        loop {
            let is_rationed = self.budget.is_rationed();
            let frames = if is_rationed { self.budget.grant() } else { Some(0) };
            let Some(frames) = frames else { return };
            let Some(peer) = self.budget.next() else {
                if is_rationed {
                    self.budget.nobody_waits(self.now);
                }
                return;
            };
            let session = &mut self.sessions[peer.0 as usize];
            let of = &mut session.budget;
            of.is_queued = false;
            let Some(receive) = session.receive.as_mut().filter(|_| of.wants) else { continue };
            let given = if is_rationed {
                receive.grant(frames.min(self.budget.most(of).saturating_sub(of.counted)))
            } else {
                receive.grant_all(1 << of.demand)
            };
            of.given = of.given.saturating_add(given);
            self.update(peer);
            if given > 0 {
                self.want(peer);
                self.touch(peer);
                self.enqueue(peer);
            }
            // Else there is no room, or it has enough. It comes back with its next frame, or when
            // the program gives one back.
        }
    }

    /// The application is done with a message.
    #[cold]
    #[inline(never)]
    pub(super) fn release_shared(&mut self, most: u32, peer: PeerId, epoch: Epoch) {
        let session = &mut self.sessions[peer.0 as usize];
        let demand = session.budget.demand;
        let Some(receive) = session.receive.as_mut().filter(|_| session.local == epoch) else {
            return;
        };
        let unasked = if demand > 0 { 0 } else { self.budget.unasked(self.now) };
        let change = receive.release_shared(most, unasked, self.budget.is_rationed());
        self.shares.granted = self.shares.granted.wrapping_add_signed(change);
        if receive.is_due(false) {
            self.enqueue(peer);
        }
        if demand > 0 {
            // There may be room for more now.
            self.update(peer);
            self.want(peer);
            self.grant();
        }
    }

    /// The clock was read while credit is rationed. What peers have not used for long does not
    /// count any more.
    #[cold]
    #[inline(never)]
    pub(super) fn advance_budget(&mut self) {
        self.budget.advance(self.now);
        while self.budget.is_rationed()
            && let Some(peer) = self.budget.overdue(self.now)
        {
            let session = &mut self.sessions[peer.0 as usize];
            let of = &mut session.budget;
            of.is_watched = false;
            if let Some(receive) = &mut session.receive {
                of.reconsider(of.mark.is_none());
                // Perhaps the acknowledgement that gave it was lost.
                if of.is_idle {
                    receive.ask();
                    self.enqueue(peer);
                }
            }
            self.update(peer);
            self.want(peer);
        }
        self.grant();
    }
}
