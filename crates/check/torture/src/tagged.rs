//! The checker of tagged messages (`PROTOCOL.md` 9.2 to 9.4, 9.6, 9.7).
//!
//! Each message is taken at most once, whole or truncated as its receive says, by a receive that
//! wants it. Of two receives that want the same, the one posted first gets what was sent first. A
//! message that completed at its sender can be received as long as its receiver's life lasts.

use crate::body::{self, Id};
use crate::lives::Lives;
use crate::messages::StreamPlace;
use crate::pair::NodePair;
use crate::violation::{CheckResult, Class, Violation};
use gigae::Wanted;
use std::collections::BTreeMap;

/// A tag says everything: the class (4 bits), and life (12), node and number of the sender.
const CLASS: u32 = 60;

/// Bodies of tagged messages differ from plain ones with the same identity.
const MARK: u16 = 0x8000;

/// Which messages a receive wants.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Want {
    /// Of this class only.
    pub class: Option<u8>,
    /// Of this node only.
    pub from: Option<u16>,
}

impl Want {
    fn takes(self, class: u8, from: u16) -> bool {
        self.class.is_none_or(|c| c == class) && self.from.is_none_or(|f| f == from)
    }

    /// What the library is asked for; the peer of `from` is the caller's business.
    pub fn wanted(self) -> Wanted {
        match self.class {
            Some(class) => {
                Wanted { tag: u64::from(class) << CLASS, ignore: !(0xf << CLASS), ..Wanted::ANY }
            }
            None => Wanted::ANY,
        }
    }
}

/// A receive that was posted.
#[derive(Clone, Copy, Debug)]
pub struct Post {
    /// Which of its node's life.
    pub index: u32,
    /// What it wants.
    pub want: Want,
    /// Bytes that it has room for.
    pub room: usize,
}

/// How a receive ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    /// With all of the message.
    Whole,
    /// With its beginning.
    Truncated,
    /// The sender was lost on the way.
    Lost,
}

/// What the completion of a receive says.
#[derive(Clone, Copy, Debug)]
pub struct ReceiveReport {
    /// The message's tag.
    pub tag: u64,
    /// Bytes that came.
    pub len: usize,
    /// Bytes that were sent.
    pub total: usize,
    /// How it ended.
    pub ending: Ending,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum MessageState {
    Started,
    /// Nothing is said of it, unless it is lost.
    Injected,
    Done,
    Lost,
    Cancelled,
}

#[derive(Clone, Copy, Debug)]
struct Message {
    at: u64,
    len: u32,
    class: u8,
    state: MessageState,
    delivered: bool,
    lost_on_the_way: bool,
}

#[derive(Clone, Copy, Debug)]
struct Receipt {
    post: Post,
    place: StreamPlace,
    class: u8,
}

/// See the module's description.
#[derive(Debug, Default)]
pub struct TaggedMessages {
    lives: Lives,
    messages: BTreeMap<NodePair, Vec<Vec<Message>>>,
    /// How many of a life's injected messages to another were said to be lost.
    lost: BTreeMap<(u16, u16, u16), usize>,
    /// What the present life of a receiver has taken of a sender.
    taken: BTreeMap<NodePair, (u16, Vec<Receipt>)>,
    scratch: Vec<u8>,
    /// Messages received and found right.
    pub delivered: u64,
}

/// The tag of a message of a class.
pub fn tag(class: u8, id: Id) -> u64 {
    u64::from(class) << CLASS
        | u64::from(id.life) << 48
        | u64::from(id.from) << 32
        | u64::from(id.number)
}

/// The message that a tag names, for a receiver.
fn named(tag: u64, to: u16) -> (u8, Id) {
    let life = (tag >> 48) as u16 & 0xfff;
    let id = Id { from: (tag >> 32) as u16, life, to, number: tag as u32 };
    ((tag >> CLASS) as u8, id)
}

/// A message's bytes.
pub fn body(id: Id, len: usize) -> Vec<u8> {
    let mut out = vec![0; len];
    body::write(Id { to: id.to | MARK, ..id }, &mut out);
    out
}

impl TaggedMessages {
    /// A world of `nodes` nodes, none of which is open.
    pub fn new(nodes: usize) -> Self {
        Self { lives: Lives::new(nodes), ..Self::default() }
    }

    /// A node opens its endpoint.
    pub fn opened(&mut self, node: u16) {
        self.lives.opened(node);
    }

    /// A node's endpoint is gone.
    pub fn gone(&mut self, node: u16, now: u64) {
        self.lives.gone(node, now);
    }

    /// What the next message of a node to another is.
    pub fn next(&self, from: u16, to: u16) -> Id {
        let life = self.lives.of(from).number;
        let lives = self.messages.get(&NodePair { from, to });
        let sent = lives.and_then(|lives| lives.get(usize::from(life)));
        Id { from, life, to, number: sent.map_or(0, |s| s.len() as u32) }
    }

    /// That message was started.
    pub fn started(&mut self, id: Id, class: u8, len: usize, now: u64) {
        let lives = self.messages.entry(NodePair::of(id)).or_default();
        if lives.len() <= usize::from(id.life) {
            lives.resize_with(usize::from(id.life) + 1, Vec::new);
        }
        let (state, delivered, lost_on_the_way) = (MessageState::Started, false, false);
        let len = len as u32;
        let message = Message { at: now, len, class, state, delivered, lost_on_the_way };
        lives[usize::from(id.life)].push(message);
    }

    /// That message was injected.
    pub fn injected(&mut self, id: Id, class: u8, len: usize, now: u64) {
        self.started(id, class, len, now);
        if let Some(message) = self.message(id) {
            message.state = MessageState::Injected;
        }
    }

    /// One of a node's injected messages to another is said to be lost; which one is not said.
    pub fn lost_injected(&mut self, from: u16, to: u16) {
        let life = self.lives.of(from).number;
        *self.lost.entry((from, to, life)).or_default() += 1;
    }

    fn message(&mut self, id: Id) -> Option<&mut Message> {
        let lives = self.messages.get_mut(&NodePair::of(id))?;
        lives.get_mut(usize::from(id.life))?.get_mut(id.number as usize)
    }

    /// A send was completed, with success or because the peer was lost.
    pub fn ended(&mut self, id: Id, success: bool) -> CheckResult {
        let broken = |class, what| Err(Violation::new(class, NodePair::of(id), what));
        let Some(message) = self.message(id) else {
            return broken(Class::Torn, format!("{id:?} was completed and never started"));
        };
        if message.state != MessageState::Started {
            return broken(Class::Doubled, format!("{id:?} was completed twice"));
        }
        if success && message.lost_on_the_way {
            let what = format!("{id:?} is complete, and its receive reported a loss");
            return broken(Class::Lost, what);
        }
        message.state = if success { MessageState::Done } else { MessageState::Lost };
        Ok(())
    }

    /// A send was cancelled before anything of it had gone out.
    pub fn cancelled(&mut self, id: Id) -> CheckResult {
        let state = self.message(id).map(|message| &mut message.state);
        match state {
            Some(state @ MessageState::Started) => {
                *state = MessageState::Cancelled;
                Ok(())
            }
            _ => {
                let what = format!("{id:?} was cancelled and had not been going on");
                Err(Violation::new(Class::Doubled, NodePair::of(id), what))
            }
        }
    }

    /// A receive was completed: its sender, what was said of it, and its memory.
    pub fn received(
        &mut self,
        pair: NodePair,
        post: Post,
        said: ReceiveReport,
        memory: &[u8],
    ) -> CheckResult {
        let NodePair { from, to } = pair;
        let ReceiveReport { tag, len, total, ending } = said;
        let (class, id) = named(tag, to);
        let broken = |class, what: String| Err(Violation::new(class, pair, what));
        let life = self.lives.of(to).number;
        let Some(&mut message) = self.message(id) else {
            return broken(Class::Torn, format!("tag {tag:#x} was never sent"));
        };
        if id.from != from || message.class != class || !post.want.takes(class, from) {
            return broken(Class::Torn, format!("{id:?} of class {class} for {post:?}"));
        }
        if message.delivered {
            return broken(Class::Doubled, format!("tagged {id:?} was received twice"));
        }
        if message.state == MessageState::Cancelled {
            return broken(Class::Torn, format!("tagged {id:?} was cancelled and received"));
        }
        if ending == Ending::Lost {
            if message.state == MessageState::Done {
                let what = format!("tagged {id:?} was complete, and its receive lost it");
                return broken(Class::Lost, what);
            }
            if let Some(message) = self.message(id) {
                message.lost_on_the_way = true;
            }
            return Ok(());
        }
        let whole = total <= post.room;
        let right = total == message.len as usize
            && len == total.min(post.room)
            && whole == (ending == Ending::Whole);
        if !right {
            let what = format!("tagged {id:?}: {len} of {total} bytes, {ending:?}, for {post:?}");
            return broken(Class::Torn, what);
        }
        let mut scratch = std::mem::take(&mut self.scratch);
        scratch.resize(total, 0);
        body::write(Id { to: id.to | MARK, ..id }, &mut scratch);
        if memory.get(..len) != Some(&scratch[..len]) {
            return broken(Class::Torn, format!("tagged {id:?}: other bytes than were sent"));
        }
        self.scratch = scratch;
        let taken = self.taken.entry(pair).or_default();
        if taken.0 != life {
            *taken = (life, Vec::new());
        }
        let one = Receipt { post, place: StreamPlace::of(id), class };
        // The earlier receive wanted the earlier message, and the later one got it.
        let crossed = |a: &Receipt, b: &Receipt| {
            a.post.index < b.post.index && a.place > b.place && a.post.want.takes(b.class, from)
        };
        if let Some(other) = taken.1.iter().find(|o| crossed(o, &one) || crossed(&one, o)) {
            return broken(Class::Order, format!("tagged: {one:?} and {other:?}"));
        }
        taken.1.push(one);
        if let Some(message) = self.message(id) {
            message.delivered = true;
        }
        self.delivered += 1;
        Ok(())
    }

    /// Everything is over, and every open node has received all that was there to be received.
    pub fn settle(&self) -> CheckResult {
        for (&pair, lives) in &self.messages {
            let NodePair { from, to } = pair;
            let receiver = self.lives.of(to);
            for (life, messages) in lives.iter().enumerate() {
                let mut silent = 0;
                for (number, m) in messages.iter().enumerate() {
                    let missing = m.state == MessageState::Done && !m.delivered;
                    let broken = |class, what: &str| {
                        let what = format!("tagged {number} of life {life} {what}: {m:?}");
                        Err(Violation::new(class, pair, what))
                    };
                    if missing && receiver.is_open && m.at > receiver.former_end {
                        return broken(Class::Lost, "was complete and is not there");
                    }
                    if missing && !receiver.is_open && m.at > receiver.end {
                        return broken(Class::Epoch, "was complete with no endpoint there");
                    }
                    let sender = self.lives.of(from);
                    let present = sender.is_open && usize::from(sender.number) == life;
                    let gone = m.state == MessageState::Injected && !m.delivered;
                    let there = receiver.is_open && m.at > receiver.former_end;
                    silent += usize::from(gone && there && present);
                    if present && m.state == MessageState::Started {
                        return broken(Class::Hung, "was never completed");
                    }
                }
                let reported =
                    self.lost.get(&(from, to, life as u16)).map_or(0, |&reported| reported);
                if silent > reported {
                    let what =
                        format!("{silent} injected messages are missing, {reported} were reported");
                    return Err(Violation::new(Class::Lost, pair, what));
                }
            }
        }
        Ok(())
    }
}
