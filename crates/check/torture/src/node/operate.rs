//! What a program does with operations: it starts, completes and cancels them, and takes notices.

use super::{Checkers, Context, Node, Pending, broken};
use crate::body;
use crate::memory::{AccessEnding, Swap, WORDS};
use crate::notices::NoticedRange;
use crate::pair::NodePair;
use crate::scenario::{percent, pick, steep};
use crate::tagged::{self, Ending, Post, ReceiveReport, Want};
use crate::violation::{CheckResult, Class, Violation};
use gigae::{Completion, OpError, OpId, Peer, Started, Status};

/// Operations that a node has going on at once, receives aside.
const MOST_OPERATIONS: usize = 64;

/// One tagged message in this many is injected, if that can be.
const INJECT_EVERY: u32 = 3;

/// Receives that a node keeps posted.
const MOST_POSTED: usize = 32;

/// Longest messages of the classes 0 and 1; the scenario says that of class 2.
const CLASSES: [usize; 2] = [1000, 32 << 10];

impl Node {
    pub(super) fn completed(
        &mut self,
        completion: Completion,
        context: &mut Context<'_>,
    ) -> CheckResult {
        let Completion { id, peer, tag, len, total, value, memory, result, .. } = completion;
        if let (OpId::INJECTED, Some(peer)) = (id, peer) {
            if !matches!(result, Err(OpError::Lost(_))) {
                return Err(broken(self.me, format!("an injected message ended: {result:?}")));
            }
            let to = self.name(peer, context)?;
            context.checkers.figures.lost_operations += 1;
            context.checkers.tagged.lost_injected(self.me, to);
            return Ok(());
        }
        let Some(pending) = self.pending.remove(&id) else {
            let what = format!("{id:?} was completed twice or never started");
            return Err(Violation::new(Class::Doubled, NodePair::of_one(self.me), what));
        };
        let me = self.me;
        // A cancelled one ends as such and in no other way.
        if self.cancelled.remove(&id) != (result == Err(OpError::Cancelled)) {
            return Err(broken(me, format!("{pending:?} ended: {result:?}")));
        }
        if result.is_err_and(|e| e == OpError::Cancelled) {
            context.checkers.figures.cancelled += 1;
            match pending {
                Pending::Send(id) => return context.checkers.tagged.cancelled(id),
                _ => self.posted -= 1,
            }
            return Ok(());
        }
        let peer = peer.map(|peer| self.name(peer, context)).transpose()?;
        let from = peer.unwrap_or(me);
        let pair = NodePair { from: me, to: from };
        context.note("completed", pair, u64::from(result.is_ok()), len);
        let memory = memory.and_then(gigae::Memory::into_vec).unwrap_or_default();
        let figures = &mut context.checkers.figures;
        figures.lost_operations += u64::from(matches!(result, Err(OpError::Lost(_))));
        let refused = matches!(result, Err(OpError::Refused(Status::Key)));
        figures.refused += u64::from(refused);
        figures.bytes += len as u64 * u64::from(!matches!(pending, Pending::Send(_)));
        let ending = match result {
            Ok(()) => AccessEnding::Done,
            Err(OpError::Lost(_)) => AccessEnding::Lost,
            Err(OpError::Refused(Status::Key)) => AccessEnding::NoKey,
            Err(OpError::Refused(Status::Busy)) => AccessEnding::Busy,
            Err(OpError::Truncated) if matches!(pending, Pending::Receive(_)) => AccessEnding::Done,
            Err(e) => return Err(broken(me, format!("{pending:?} ended: {e}"))),
        };
        let done = ending == AccessEnding::Done;
        let Checkers { tagged, regions, notices, figures, .. } = &mut *context.checkers;
        match pending {
            Pending::Send(id) => return tagged.ended(id, done),
            Pending::Receive(post) => {
                self.posted -= 1;
                figures.received += u64::from(done);
                let ending = match result {
                    Ok(()) => Ending::Whole,
                    Err(OpError::Truncated) => Ending::Truncated,
                    Err(_) => Ending::Lost,
                };
                let said = ReceiveReport { tag, len, total, ending };
                return tagged.received(NodePair { from, to: me }, post, said, &memory);
            }
            Pending::Write(access) => {
                regions.written(access, ending)?;
                notices.ended(access, ending)?;
            }
            Pending::Read(access) => regions.was_read(access, &memory, ending)?,
            Pending::Add(access, word, operand) => {
                regions.added(access, word, operand, value, ending)?;
            }
            Pending::Swap(access, swap) => {
                let now = if value == swap.expected { swap.token } else { value };
                if done {
                    self.seen.insert((from, swap.word), now);
                }
                regions.swapped(access, swap, value, ending)?;
            }
        }
        figures.remote += u64::from(done);
        if refused {
            // It has a new one.
            self.keys.remove(&from);
            self.seen.retain(|&(owner, _), _| owner != from);
        }
        Ok(())
    }

    /// Starts an operation, or posts receives.
    pub(super) fn operate(&mut self, to: u16, context: &mut Context<'_>) -> CheckResult {
        if self.posted < MOST_POSTED {
            self.post(context)?;
        }
        if percent(context.random, 5) {
            self.cancel(context);
        }
        if self.pending.len() - self.posted >= MOST_OPERATIONS {
            return Ok(());
        }
        let [_, peer] = self.peer(to, context)?;
        let other = context.others[usize::from(to)];
        let (life, key) = *self.keys.entry(to).or_insert((other.life, other.key));
        let (now, r) = (context.now, &mut *context.random);
        let pair = NodePair { from: self.me, to };
        let area = context.scenario.area as u64;
        let (id, pending) = match r.rand_range(0..10) {
            0..=3 => return self.send_tagged(to, peer, context),
            4..=5 => {
                let len = steep(r, 1, area) as usize;
                let offset = r.rand_range(0..area - len as u64 + 1) as usize;
                let mut bytes = vec![0; len];
                body::stream(r.rand_u64(), &mut bytes);
                let regions = &mut context.checkers.regions;
                let access = regions.write(pair, life, offset, &bytes, now);
                let place = (regions.start(self.me) + offset) as u64;
                let notice = access.number.is_multiple_of(4).then_some(access.number.into());
                if notice.is_some() {
                    context.checkers.notices.started(access, place, len);
                }
                let id = self.endpoint.start_write(peer, key, place, bytes, notice);
                (id, Pending::Write(access))
            }
            6..=7 => {
                let len = steep(r, 1, area) as usize;
                let offset = r.rand_range(0..area - len as u64 + 1) as usize;
                let regions = &mut context.checkers.regions;
                let access = regions.read(pair, life, offset, len, now);
                let place = (regions.start(self.me) + offset) as u64;
                let id = self.endpoint.start_read(peer, key, place, vec![0; len]);
                (id, Pending::Read(access))
            }
            8 => {
                let (word, operand) = (r.rand_range(0..WORDS.into()) as u16, r.rand_range(1..1000));
                let access = context.checkers.regions.add(pair, life, now);
                let id = self.endpoint.start_fetch_add(peer, key, u64::from(word) * 8, operand);
                (id, Pending::Add(access, word, operand))
            }
            _ => {
                let word = r.rand_range(0..WORDS.into()) as u16;
                let expected = *self.seen.entry((to, word)).or_insert(0);
                let (access, token) = context.checkers.regions.swap(pair, life, word, now);
                let place = u64::from(WORDS + word) * 8;
                let id = self.endpoint.start_compare_swap(peer, key, place, expected, token);
                (id, Pending::Swap(access, Swap { word, expected, token }))
            }
        };
        context.note("starts an operation", pair, 0, 0);
        self.enter(id, pending)
    }

    /// An operation was started.
    fn enter(&mut self, started: Started, pending: Pending) -> CheckResult {
        let id = started.map_err(|e| broken(self.me, e))?;
        self.recent.push(id);
        match self.pending.insert(id, pending) {
            None => Ok(()),
            Some(other) => Err(broken(self.me, format!("{id:?} is still that of {other:?}"))),
        }
    }

    fn send_tagged(&mut self, to: u16, peer: Peer, context: &mut Context<'_>) -> CheckResult {
        let class = pick(context.random, &[0, 0, 0, 1, 1, 2]);
        let longest = CLASSES.get(usize::from(class)).map_or(context.scenario.longest, |&l| l);
        let len = context.random.rand_range(0..longest as u64 + 1) as usize;
        let id = context.checkers.tagged.next(self.me, to);
        context.note("sends tagged", NodePair::of(id), id.number.into(), len);
        let body = tagged::body(id, len);
        context.checkers.figures.tagged += 1;
        let inject = id.number.is_multiple_of(INJECT_EVERY);
        if inject && self.endpoint.inject(peer, tagged::tag(class, id), &body) {
            context.checkers.tagged.injected(id, class, len, context.now);
            return Ok(());
        }
        let started = self.endpoint.start_send(peer, tagged::tag(class, id), body);
        context.checkers.tagged.started(id, class, len, context.now);
        self.enter(started, Pending::Send(id))
    }

    fn post(&mut self, context: &mut Context<'_>) -> CheckResult {
        let r = &mut *context.random;
        let class = pick(r, &[None, Some(0), Some(0), Some(1), Some(1), Some(2), Some(2)]);
        let most = class.map_or(CLASSES[1], |class| {
            CLASSES.get(usize::from(class)).map_or(context.scenario.longest, |&l| l)
        });
        let room = if percent(r, 80) { most } else { r.rand_range(0..most as u64 + 1) as usize };
        let ahead = 1 + r.rand_range(0..context.scenario.partners.into());
        let nodes = context.others.len() as u64;
        let from = ((u64::from(self.me) + nodes - ahead) % nodes) as u16;
        // One that names a sender which then vanishes stays posted; others must remain.
        let named = self.posted < MOST_POSTED / 2 && percent(r, 40);
        let want = Want { class, from: named.then_some(from) };
        self.post_one(want, room, context)
    }

    fn post_one(&mut self, want: Want, room: usize, context: &mut Context<'_>) -> CheckResult {
        let mut wanted = want.wanted();
        if let Some(from) = want.from {
            let [_, peer] = self.peer(from, context)?;
            wanted = wanted.from(peer);
        }
        let post = Post { index: self.posts, want, room };
        let id = self.endpoint.start_recv(wanted, vec![0; room]);
        self.posts += 1;
        self.posted += 1;
        self.enter(id, Pending::Receive(post))
    }

    /// Cancels a send or a receive, often the last one: the first frame of others has gone.
    fn cancel(&mut self, context: &mut Context<'_>) {
        self.recent.retain(|id| self.pending.contains_key(id));
        let Some(last) = self.recent.len().checked_sub(1) else { return };
        let any = context.random.rand_range(0..last as u64 + 1) as usize;
        let id = self.recent[if percent(context.random, 50) { last } else { any }];
        if self.endpoint.cancel(id) {
            self.cancelled.insert(id);
        }
    }

    /// Cancels all receives: what then remains has to be completed by itself.
    pub(crate) fn withdraw(&mut self) {
        self.withdrawn = true;
        for id in std::mem::take(&mut self.recent) {
            let is_receive = matches!(self.pending.get(&id), Some(Pending::Receive(_)));
            if is_receive && !self.cancelled.contains(&id) && self.endpoint.cancel(id) {
                self.cancelled.insert(id);
            }
        }
    }

    /// Receives what is there and what no receive wants. In the end only.
    pub(crate) fn receive_the_rest(&mut self, context: &mut Context<'_>) -> CheckResult {
        while self.endpoint.peek(gigae::Wanted::ANY).is_some() {
            let any = Want { class: None, from: None };
            self.post_one(any, context.scenario.longest.max(CLASSES[1]), context)?;
        }
        Ok(())
    }

    /// Takes the notices of writes: each once and in the order in which its writer started them.
    pub(crate) fn take_notices(&mut self, context: &mut Context<'_>) -> CheckResult {
        while let Some(notice) = self.endpoint.try_notice().map_err(|e| broken(self.me, e))? {
            let pair = NodePair { from: self.name(notice.peer, context)?, to: self.me };
            context.note("notice", pair, notice.value, notice.len as usize);
            if notice.key != self.key {
                return Err(broken(self.me, format!("{notice:?} is about no memory of its own")));
            }
            let place = NoticedRange { offset: notice.offset, len: notice.len };
            context.checkers.figures.notices += 1;
            context.checkers.notices.taken(pair, notice.value, place)?;
        }
        Ok(())
    }
}
