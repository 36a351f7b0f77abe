//! Requests and replies as tagged messages of an endpoint.
//!
//! Each request that this end sends has a receive for its reply, which is posted before. So a reply
//! of any length goes straight into its memory. Some receives wait for others' requests.

use gigae::{Completion, Endpoint, LinkError, OpError, OpId, Peer, RecvError, SendError, Wanted};
use gigae_eval_session::remark::remark;
use gigae_share::{MAX_REPLY, Outgoing, Server, Source};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fd::BorrowedFd;
use rustix::io::Errno;
use std::collections::VecDeque;
use std::hash::{BuildHasher, DefaultHasher, Hash, Hasher, RandomState};
use std::time::{Duration, Instant};

/// The tag of requests. That of a reply is the request's number and [`REPLY`].
const REQUEST: u64 = 1 << 63;

/// In the tags of replies.
const REPLY: u64 = 1 << 62;

/// Receives for requests. Others' requests wait in the endpoint until one is free.
const RECEIVES: usize = 8;

/// Longest sleep: so soon Ctrl-C is seen.
const LOOK: Duration = Duration::from_millis(100);

/// Most of the time outside of [`Exchange::wait`] that counts each time. While this end writes to a
/// slow disk, or is stopped, the other end is not silent.
const MOST_WORK: Duration = Duration::from_millis(20);

/// Buffers for replies that are kept: those of a fetcher, and as many again for a client.
const MOST_SPARE: usize = 64;

/// What an operation of the endpoint is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Purpose {
    /// Receives a request.
    Receive,
    /// Sends a request of this number.
    Ask(Peer, u32),
    /// Receives the reply to it.
    Hear(Peer, u32),
    /// Sends a reply.
    Reply(Peer),
}

/// What has happened.
pub(crate) enum Event {
    /// A peer asks for something. The message is to be [given back](Exchange::served).
    Request(Peer, Vec<u8>, usize),
    /// A reply has arrived. Its memory is to be [recycled](Exchange::recycle).
    Reply(Peer, u32, Vec<u8>, usize),
    /// A reply will not come.
    Unanswered(Peer, u32),
    /// The session with a peer has ended: it, or the network, has failed.
    Lost(Peer),
}

/// An endpoint that asks and answers.
pub(crate) struct Exchange {
    endpoint: Endpoint,
    /// In the order in which they were started. A number may come twice while completions wait;
    /// the first one is the one that has ended.
    operations: VecDeque<(OpId, Purpose)>,
    pub(crate) server: Server<Peer>,
    spare: Vec<Vec<u8>>,
    /// This node's interface is down, and nothing has come since.
    is_down: bool,
    began: Instant,
    /// Time that counts, until this moment.
    counted: Duration,
    until: Instant,
}

/// A number of this machine's start.
fn boot() -> u64 {
    let id = std::fs::read("/proc/sys/kernel/random/boot_id").unwrap_or_default();
    let mut hasher = DefaultHasher::new();
    id.hash(&mut hasher);
    hasher.finish()
}

impl Exchange {
    /// Also answers requests of this length, if that is wanted.
    pub(crate) fn new(endpoint: Endpoint, answers: Option<usize>) -> Result<Self, String> {
        let mut exchange = Self {
            endpoint,
            operations: VecDeque::new(),
            server: Server::new(RandomState::new().build_hasher().finish(), boot()),
            spare: Vec::new(),
            is_down: false,
            began: Instant::now(),
            counted: Duration::ZERO,
            until: Instant::now(),
        };
        if let Some(longest) = answers {
            for _ in 0..RECEIVES {
                exchange.served(vec![0; longest])?;
            }
        }
        Ok(exchange)
    }

    pub(crate) fn endpoint(&self) -> &Endpoint {
        &self.endpoint
    }

    /// The time since the beginning.
    pub(crate) fn elapsed(&self) -> Duration {
        self.began.elapsed()
    }

    /// The same without the time in which this end could not hear the other one, as it was when
    /// this end last waited, or began to. So the clock is read twice for each wait and not more.
    pub(crate) fn now(&self) -> Duration {
        self.counted
    }

    /// The time until now counts, up to this much.
    fn count(&mut self, most: Duration) {
        let now = Instant::now();
        self.counted += (now - self.until).min(most);
        self.until = now;
    }

    /// Replies that are waited for, from all peers.
    pub(crate) fn expected(&self) -> usize {
        self.operations.iter().filter(|(_, purpose)| matches!(purpose, Purpose::Hear(..))).count()
    }

    /// Sends a request.
    pub(crate) fn ask(&mut self, peer: Peer, request: Outgoing) -> Result<(), String> {
        let Outgoing { number, message } = request;
        let mut memory = self.buffer();
        memory.resize(MAX_REPLY, 0);
        let wanted = Wanted::tag(REPLY | u64::from(number)).from(peer);
        let hears = self.endpoint.start_recv(wanted, memory);
        self.started(hears, Purpose::Hear(peer, number))?;
        let asks = self.endpoint.start_send(peer, REQUEST, message);
        self.started(asks, Purpose::Ask(peer, number))
    }

    /// Stops waiting for replies to earlier requests, except for those that have begun to arrive.
    pub(crate) fn forget(&mut self, peer: Peer, before: u32) {
        for (id, purpose) in &self.operations {
            if let Purpose::Hear(from, number) = purpose
                && *from == peer
                && *number < before
            {
                self.endpoint.cancel(*id);
            }
        }
    }

    /// Answers a request as the server does. What only the caller can answer comes back.
    pub(crate) fn answer(
        &mut self,
        peer: Peer,
        request: &[u8],
        source: &mut impl Source,
    ) -> Result<Option<gigae_share::Answer>, String> {
        let mut out = self.buffer();
        match self.server.handle(peer, request, source, &mut out) {
            gigae_share::Answer::Reply(number) => self.reply(peer, number, out).map(|()| None),
            gigae_share::Answer::Ignore | gigae_share::Answer::Later => {
                self.recycle(out);
                Ok(None)
            }
            answer => {
                self.recycle(out);
                Ok(Some(answer))
            }
        }
    }

    /// Sends a reply.
    pub(crate) fn reply(&mut self, peer: Peer, number: u32, reply: Vec<u8>) -> Result<(), String> {
        let replies = self.endpoint.start_send(peer, REPLY | u64::from(number), reply);
        self.started(replies, Purpose::Reply(peer))
    }

    /// A request was answered: its memory receives the next one.
    pub(crate) fn served(&mut self, memory: Vec<u8>) -> Result<(), String> {
        let receives = self.endpoint.start_recv(Wanted::tag(REQUEST), memory);
        self.started(receives, Purpose::Receive)
    }

    /// Memory for a reply.
    pub(crate) fn buffer(&mut self) -> Vec<u8> {
        self.spare.pop().unwrap_or_else(|| Vec::with_capacity(MAX_REPLY))
    }

    /// Keeps memory for later replies.
    pub(crate) fn recycle(&mut self, buffer: Vec<u8>) {
        if self.spare.len() < MOST_SPARE && buffer.capacity() >= MAX_REPLY {
            self.spare.push(buffer);
        }
    }

    fn started(&mut self, started: gigae::Started, purpose: Purpose) -> Result<(), String> {
        self.operations.push_back((started.map_err(|error| error.to_string())?, purpose));
        Ok(())
    }

    /// What has happened; waits until this time, but not longer than [`LOOK`].
    pub(crate) fn wait(&mut self, until: Duration) -> Result<Option<Event>, String> {
        self.count(MOST_WORK);
        let left = until.saturating_sub(self.now()).min(LOOK);
        if self.operations.is_empty() {
            // The endpoint would not wait: nothing of it could end.
            std::thread::sleep(left);
            self.count(LOOK);
            return Ok(None);
        }
        let found = match self.endpoint.take_completion() {
            Some(completion) => Ok(Some(completion)),
            None => self.endpoint.completion_timeout(left),
        };
        let completion = match self.unless_down(found)? {
            Some(completion) => completion,
            None => {
                std::thread::sleep(left);
                None
            }
        };
        self.count(LOOK);
        match completion {
            Some(completion) => self.ended(completion),
            None => Ok(None),
        }
    }

    /// The same, but also until `wakes` is readable.
    pub(crate) fn wait_or(
        &mut self,
        until: Duration,
        wakes: BorrowedFd<'_>,
    ) -> Result<Option<Event>, String> {
        self.count(MOST_WORK);
        let left = until.saturating_sub(self.now()).min(LOOK);
        // Makes no progress: what is called before the sleep does.
        let mut completion = self.endpoint.take_completion();
        let mut fds = vec![PollFd::from_borrowed_fd(wakes, PollFlags::IN)];
        let left = match &completion {
            Some(_) => Duration::ZERO,
            None => {
                let most = self.endpoint.prepare_to_wait().map_err(|error| match error {
                    SendError::Link(error) => RecvError::Link(error),
                    _ => RecvError::Failed,
                });
                match self.unless_down(most)? {
                    Some(most) => {
                        let fd = self.endpoint.fd();
                        fds.extend(fd.map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN)));
                        most.map_or(left, |most| most.min(left))
                    }
                    None => left,
                }
            }
        };
        if completion.is_none() {
            let mut has_come = true;
            if !left.is_zero() {
                let timeout = Timespec::try_from(left).map_err(|error| error.to_string())?;
                match poll(&mut fds, Some(&timeout)) {
                    // Only the other descriptor: the endpoint has nothing to do.
                    Ok(1) if !fds[0].revents().is_empty() => has_come = false,
                    Ok(_) | Err(Errno::INTR) => {}
                    Err(error) => return Err(format!("cannot wait for the network: {error}")),
                }
            }
            self.count(LOOK);
            if has_come {
                let found = self.endpoint.try_completion();
                completion = self.unless_down(found)?.flatten();
            }
        }
        match completion {
            Some(completion) => self.ended(completion),
            None => Ok(None),
        }
    }

    /// What a call of the endpoint has returned. `None` if this node's interface is down: it may
    /// come back. That is said once.
    fn unless_down<T>(&mut self, found: Result<T, RecvError>) -> Result<Option<T>, String> {
        match found {
            Ok(found) => Ok(Some(found)),
            Err(RecvError::Link(error @ LinkError::Down(_))) => {
                if !std::mem::replace(&mut self.is_down, true) {
                    remark(&error.to_string());
                }
                Ok(None)
            }
            Err(error) => Err(error.to_string()),
        }
    }

    /// What has happened already.
    pub(crate) fn take(&mut self) -> Result<Option<Event>, String> {
        match self.endpoint.take_completion() {
            Some(completion) => self.ended(completion),
            None => Ok(None),
        }
    }

    fn ended(&mut self, completion: Completion) -> Result<Option<Event>, String> {
        let Completion { id, peer, len, memory, result, .. } = completion;
        let Some(at) = self.operations.iter().position(|(started, _)| *started == id) else {
            return Ok(None);
        };
        let Some((_, purpose)) = self.operations.remove(at) else { return Ok(None) };
        let memory = memory.and_then(gigae::Memory::into_vec).unwrap_or_default();
        if result.is_ok() && matches!(purpose, Purpose::Receive | Purpose::Hear(..)) {
            self.is_down = false;
        }
        Ok(match (purpose, result, peer) {
            (Purpose::Receive, Ok(()), Some(peer)) => Some(Event::Request(peer, memory, len)),
            // Longer than a request may be, or cut off.
            (Purpose::Receive, ..) => {
                self.served(memory)?;
                None
            }
            (Purpose::Ask(peer, number), Err(_), _) => {
                self.forget(peer, number + 1);
                Some(Event::Lost(peer))
            }
            (Purpose::Ask(..), Ok(()), _) => None,
            (Purpose::Hear(peer, number), Ok(()), _) => {
                Some(Event::Reply(peer, number, memory, len))
            }
            // Longer than any reply: nothing of it counts.
            (Purpose::Hear(peer, number), Err(OpError::Truncated), _) => {
                Some(Event::Reply(peer, number, memory, 0))
            }
            (Purpose::Hear(peer, number), Err(_), _) => {
                self.recycle(memory);
                Some(Event::Unanswered(peer, number))
            }
            (Purpose::Reply(peer), ..) => {
                self.server.sent(peer);
                self.recycle(memory);
                None
            }
        })
    }
}
