//! The broker's work: accepts connections, makes ports, takes them back.
//!
//! One thread, one `poll`: the broker never waits for a client. A client sends its request when it
//! has connected. The connection stays open as long as the client has the port. When it ends, also
//! by SIGKILL, the broker removes the interface. What clients may keep waiting, and for how long,
//! is bounded for each user and in all.
//!
//! Each turn handles all messages that came, which is short work, and at most one piece of long
//! work: making a port, or taking one back. [`FairQueue`](crate::fair_queue) chooses the user.
//!
//! ```text
//!          request          filled         its turn            end               gone
//!  Silent ────────▶ Filling ──────▶ Filled ───────▶ Has a port ───▶ (leaving) ───▶
//!     └──▶ Waits ──────┘
//!          for room
//! ```
//!
//! What a client asks for counts from its request until it is gone ([`lent`](crate::lent)).

use crate::fair_queue::FairQueue;
use crate::kernel::Kernel;
use crate::lent::{LentFiles, Loan};
use crate::message;
use crate::names::PeerProcess;
use crate::protocol::{Answer, REQUEST_LEN, Refusal, RefusalCode, Request, is_filled};
use crate::quotas::Quotas;
use gigae_link::{LentMemory, OpenError, Remaining};
use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::fd::{AsFd, OwnedFd};
use rustix::io::Errno;
use rustix::net::SocketFlags;
use std::io;
use std::time::{Duration, Instant};
use tracing::{debug, info};

/// Connections accepted in one turn.
const ACCEPTED_AT_ONCE: usize = 64;

/// Longest time until the request. A client asks at once, so this is for one that does not get the
/// processor.
const ASKS_WITHIN: Duration = Duration::from_secs(5);

/// Longest time for filling the memory: a client may fill up to 512 MiB, beside others that do the
/// same.
const FILLS_WITHIN: Duration = Duration::from_secs(30);

/// How long a request waits for resources that are about to be freed: the ports of a large node,
/// one after the other. A client waits for 30 s. And most waiting clients of one user.
const WAITS_FOR: Duration = Duration::from_secs(20);
const WAITING: usize = 256;

/// The cost of an order besides its work. The memory's inode occupies the kernel as long as the
/// client keeps its place (`O_PATH`), which the broker cannot see.
const ORDER: Duration = Duration::from_millis(10);

/// Pause between two checks for that.
const LOOK_EVERY: Duration = Duration::from_millis(10);

/// Most clients of one user without a request so far, and most clients of all users that have no
/// request or wait.
const SILENT_PER_USER: usize = 64;
const UNSERVED: usize = 1024;

/// A listening broker.
#[derive(Debug)]
pub struct Broker<K: Kernel> {
    kernel: K,
    quotas: Quotas,
    listener: OwnedFd,
    /// In the order of arrival.
    clients: Vec<Client<K::Interface>>,
    /// Loans of clients that have ended.
    leaving: Vec<Loan<K::Interface>>,
    lent_files: LentFiles,
    fair_queue: FairQueue,
    /// Number of loans so far.
    loans: u64,
}

#[derive(Debug)]
struct Client<I> {
    connection: OwnedFd,
    peer: PeerProcess,
    state: ClientState<I>,
}

#[derive(Debug)]
enum ClientState<I> {
    /// Connected at this time, and has not asked yet.
    Silent(Instant),
    /// Asked at this time, and waits for room or its user's time.
    Waits(Request, Instant),
    /// Has had its memory since this time, and has not filled it.
    Filling(PendingPort<I>, Instant),
    /// Has filled it, and waits for its turn.
    Filled(PendingPort<I>),
    /// It has a port.
    Has(Loan<I>),
    /// Will be removed.
    Over,
}

/// A port that is to be made.
#[derive(Debug)]
struct PendingPort<I> {
    request: Request,
    loan: Loan<I>,
}

impl<K: Kernel> Broker<K> {
    /// A broker without clients. The listening socket must be non-blocking.
    pub fn new(quotas: Quotas, listener: OwnedFd, kernel: K) -> io::Result<Self> {
        let (clients, leaving, lent_files) = (Vec::new(), Vec::new(), LentFiles::new()?);
        let fair_queue = FairQueue::default();
        Ok(Self { kernel, quotas, listener, clients, leaving, lent_files, fair_queue, loans: 0 })
    }

    /// Sleeps until there is something to do, at most `longest`. Then handles all messages and does
    /// one piece of work.
    pub fn turn(&mut self, longest: Duration, say: &mut dyn FnMut(&str)) -> io::Result<()> {
        let now = self.kernel.now();
        let (new_connections, ready) = self.sleep(longest.min(self.idle(now)))?;
        ready.into_iter().for_each(|client| self.receive(client));
        if new_connections {
            self.accept();
        }
        self.ask_again();
        let now = self.kernel.now();
        self.give_up(now);
        self.clients.retain(|client| !matches!(client.state, ClientState::Over));
        self.work(now, say);
        Ok(())
    }

    /// Leaves all ports as they are. Returns how many are in use.
    pub fn leave_in_use(mut self) -> usize {
        let has = |client: Client<_>| match client.state {
            ClientState::Has(loan) => loan.interface,
            _ => None,
        };
        self.clients.drain(..).filter_map(has).map(std::mem::forget).count()
    }

    /// The configuration, and what each user has.
    pub fn quotas(&self) -> &Quotas {
        &self.quotas
    }

    /// Loans of ended clients that are not gone yet.
    pub fn leaving(&self) -> usize {
        self.leaving.len()
    }

    /// Number of clients, and of users in the table of the fair queue.
    pub fn entries(&self) -> (usize, usize) {
        (self.clients.len(), self.fair_queue.len())
    }

    /// The kernel.
    pub fn kernel(&mut self) -> &mut K {
        &mut self.kernel
    }

    /// Time without work, unless a message comes.
    fn idle(&self, now: Instant) -> Duration {
        let dues = self.leaving.iter().map(|loan| loan.due().saturating_duration_since(now));
        let waits =
            self.clients.iter().any(|client| matches!(client.state, ClientState::Waits(..)));
        let room = waits.then_some(LOOK_EVERY);
        let turn = self.fair_queue.next(self.workers(now), now).map(|(_, wait)| wait);
        // Work that is due waits for its user's turn.
        let dues = dues.filter(|due| !due.is_zero()).min();
        [dues, room, turn].into_iter().flatten().min().unwrap_or(Duration::MAX)
    }

    /// Whether a client connects, and which clients have sent something or ended.
    fn sleep(&self, time: Duration) -> io::Result<(bool, Vec<usize>)> {
        let seconds = i64::try_from(time.as_secs()).unwrap_or(i64::MAX);
        let time = Timespec { tv_sec: seconds, tv_nsec: time.subsec_nanos().into() };
        let sockets = self.clients.iter().map(|client| client.connection.as_fd());
        let sockets = std::iter::once(self.listener.as_fd()).chain(sockets);
        let mut fds: Vec<_> =
            sockets.map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN)).collect();
        match rustix::event::poll(&mut fds, Some(&time)) {
            Ok(_) => {}
            Err(Errno::INTR) => return Ok((false, Vec::new())),
            Err(e) => return Err(e.into()),
        }
        let has = |fd: &PollFd<'_>| !fd.revents().is_empty();
        let clients = fds[1..].iter().enumerate().filter(|(_, fd)| has(fd));
        Ok((has(&fds[0]), clients.map(|(i, _)| i).collect()))
    }

    fn accept(&mut self) {
        for _ in 0..ACCEPTED_AT_ONCE {
            let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
            let connection = match rustix::net::accept_with(&self.listener, flags) {
                Ok(connection) => connection,
                // All descriptors are in use; some will be free again.
                Err(Errno::MFILE | Errno::NFILE) => return std::thread::sleep(LOOK_EVERY),
                Err(_) => return,
            };
            let Ok(peer) = self.kernel.peer(&connection) else { continue };
            if let Err(refusal) = self.admit(&peer) {
                refuse(&connection, &peer, refusal);
                continue;
            }
            let state = ClientState::Silent(self.kernel.now());
            self.clients.push(Client { connection, peer, state });
            self.receive(self.clients.len() - 1);
        }
    }

    /// Whether one more client may wait. If its user has too many, the oldest of them ends.
    fn admit(&mut self, peer: &PeerProcess) -> Result<(), Refusal> {
        self.quotas.allows(peer)?;
        let is_silent = |client: &Client<_>| matches!(client.state, ClientState::Silent(_));
        let waits = |client: &Client<_>| matches!(client.state, ClientState::Waits(..));
        if self.clients.iter().filter(|c| is_silent(c) || waits(c)).count() >= UNSERVED {
            return Err(Refusal::new(RefusalCode::Busy, "too many requests wait; try again"));
        }
        let is_own = |client: &&mut Client<_>| is_silent(client) && client.peer.uid == peer.uid;
        let mut own: Vec<_> = self.clients.iter_mut().filter(is_own).collect();
        if own.len() >= SILENT_PER_USER {
            own[0].state = ClientState::Over;
        }
        Ok(())
    }

    /// Handles a client's message or end.
    fn receive(&mut self, client: usize) {
        let mut bytes = [0; REQUEST_LEN + 1];
        let Client { connection, peer, state } = &mut self.clients[client];
        let length = match message::receive_plain(connection, &mut bytes) {
            Err(Errno::AGAIN | Errno::INTR) => return,
            Ok(length) if length > 0 => length,
            _ => return self.end(client),
        };
        // Longer than any message, if it was cut.
        let bytes = bytes.get(..length).unwrap_or_default();
        match (std::mem::replace(state, ClientState::Over), Request::parse(bytes)) {
            (ClientState::Silent(_), Ok(request)) => {
                asked(peer, &request);
                let now = self.kernel.now();
                self.ask(client, request, now, true);
            }
            (ClientState::Silent(_), Err(e)) => {
                refuse(connection, peer, Refusal::new(RefusalCode::Malformed, e))
            }
            (ClientState::Filling(order, _), _) if is_filled(bytes) => {
                *state = ClientState::Filled(order)
            }
            // A client has nothing else to send.
            (other, _) => {
                *state = other;
                self.end(client);
            }
        }
    }

    /// Reserves what a client asks for, and sends it the memory.
    fn ask(&mut self, client: usize, request: Request, since: Instant, first: bool) {
        let now = self.kernel.now();
        let Client { connection, peer, state } = &mut self.clients[client];
        let reserved = match self.fair_queue.next(std::iter::once(peer.uid), now) {
            Some((_, Duration::ZERO)) => {
                self.loans += 1;
                order(&mut self.quotas, peer, &request, self.loans, now)
            }
            _ => Err(Refusal::new(
                RefusalCode::Busy,
                "this user's requests take too much of the broker's time; try again later",
            )),
        };
        match reserved {
            Ok((order, memory)) => {
                self.fair_queue.charge(peer.uid, ORDER, now);
                let sent = message::send(connection, &Answer::Memory.bytes(), &[memory.as_fd()]);
                *state = ClientState::Filling(order, now);
                if sent.is_err() {
                    self.end(client);
                }
            }
            Err(refusal) if self.may_wait(client, &request, refusal.why, since) => {
                let Client { peer, state, .. } = &mut self.clients[client];
                if first {
                    debug!(uid = peer.uid, pid = peer.pid, why = ?refusal.why, "waits for room");
                }
                *state = ClientState::Waits(request, since);
            }
            Err(refusal) => {
                let Client { connection, peer, state } = &mut self.clients[client];
                refuse(connection, peer, refusal);
                *state = ClientState::Over;
            }
        }
    }

    /// Whether a client that asked at this time should wait: for its user's time, or for what
    /// others leave.
    fn may_wait(&self, client: usize, request: &Request, why: RefusalCode, since: Instant) -> bool {
        let (uid, now) = (self.clients[client].peer.uid, self.kernel.now());
        let waits = |c: &&Client<_>| c.peer.uid == uid && matches!(c.state, ClientState::Waits(..));
        // What others leave helps only if the others have too much.
        let others = self.quotas.has_room(uid, request);
        let helps = |loan: &Loan<_>| others || loan.grant.uid() == uid;
        let comes = match why {
            RefusalCode::Busy => true,
            RefusalCode::Limit => self.leaving.iter().any(|loan| helps(loan) && loan.goes(now)),
            _ => false,
        };
        comes
            && now.saturating_duration_since(since) < WAITS_FOR
            && self.clients.iter().filter(waits).count() <= WAITING
    }

    /// Asks again for the waiting clients.
    fn ask_again(&mut self) {
        for client in 0..self.clients.len() {
            if let ClientState::Waits(request, since) = &self.clients[client].state {
                let (request, since) = (request.clone(), *since);
                self.ask(client, request, since, false);
            }
        }
    }

    /// Ends clients that were silent for too long.
    fn give_up(&mut self, now: Instant) {
        let over = |since: &Instant, time| now.saturating_duration_since(*since) > time;
        for client in 0..self.clients.len() {
            match &self.clients[client].state {
                ClientState::Silent(since) if over(since, ASKS_WITHIN) => self.end(client),
                ClientState::Filling(_, since) if over(since, FILLS_WITHIN) => self.end(client),
                _ => {}
            }
        }
    }

    /// Hangs up. What the client was lent is taken back in its user's turn.
    fn end(&mut self, client: usize) {
        match std::mem::replace(&mut self.clients[client].state, ClientState::Over) {
            ClientState::Filling(order, _) | ClientState::Filled(order) => {
                self.leaving.push(order.loan)
            }
            ClientState::Has(loan) => self.leaving.push(loan),
            ClientState::Silent(_) | ClientState::Waits(..) | ClientState::Over => {}
        }
    }

    /// Users that have work to do, one entry for each piece of work.
    fn workers(&self, now: Instant) -> impl Iterator<Item = u32> {
        let due = self.leaving.iter().filter(move |loan| loan.due() <= now);
        let filled = |client: &&Client<_>| matches!(client.state, ClientState::Filled(_));
        let orders = self.clients.iter().filter(filled).map(|client| client.peer.uid);
        due.map(|loan| loan.grant.uid()).chain(orders)
    }

    /// Does one piece of work, if a user has a turn. What a user leaves comes before what it wants,
    /// since it makes room.
    fn work(&mut self, now: Instant, say: &mut dyn FnMut(&str)) {
        let Some((user, Duration::ZERO)) = self.fair_queue.next(self.workers(now), now) else {
            return;
        };
        let is_due = |loan: &Loan<_>| loan.grant.uid() == user && loan.due() <= now;
        match self.leaving.iter().position(is_due) {
            Some(loan) => self.take_back(loan, say),
            None => {
                let next = |client: &Client<_>| {
                    client.peer.uid == user && matches!(client.state, ClientState::Filled(_))
                };
                if let Some(client) = self.clients.iter().position(next) {
                    self.make(client, say);
                }
            }
        }
        let end = self.kernel.now();
        self.fair_queue.charge(user, end.saturating_duration_since(now), end);
    }

    /// Makes the port for which a client waits, and passes it on.
    fn make(&mut self, client: usize, say: &mut dyn FnMut(&str)) {
        let Client { connection, peer, state } = &mut self.clients[client];
        let ClientState::Filled(order) = std::mem::replace(state, ClientState::Over) else {
            return;
        };
        let PendingPort { request, mut loan } = order;
        let made = self.kernel.make(&request, &self.quotas.config().nics, &loan.memory);
        let made = made.map_err(for_others).and_then(|made| {
            let files = [made.socket.as_fd(), made.claim.as_fd()];
            let watched = self.lent_files.watch(loan.id, files);
            watched.map(|()| made).map_err(|e| format!("watching the port: {e}"))
        });
        let made = match made {
            Ok(made) => made,
            Err(text) => {
                self.leaving.push(loan);
                return refuse(connection, peer, Refusal::new(RefusalCode::Failed, text));
            }
        };
        let name = made.description.interface.clone();
        say(&format!("{name} on {} is user {}'s (process {})", made.nic, peer.uid, peer.pid));
        info!(uid = peer.uid, pid = peer.pid, nic = %made.nic, child = %name, "a port is lent");
        let descriptors = [made.socket.as_fd(), made.claim.as_fd()];
        let sent = message::send(connection, &Answer::Port(made.description).bytes(), &descriptors);
        (loan.interface, loan.name) = (Some(made.interface), Some(name));
        *state = ClientState::Has(loan);
        if sent.is_err() {
            self.end(client);
        }
    }

    /// Removes the interface of an ended client, and removes the loan when everything is gone.
    fn take_back(&mut self, loan: usize, say: &mut dyn FnMut(&str)) {
        let leaving = &mut self.leaving[loan];
        let name = leaving.name.clone().unwrap_or_default();
        if leaving.remove(self.kernel.now()) {
            info!(uid = leaving.grant.uid(), child = %name, "a port is taken back");
            say(&format!("{name} is removed"));
        }
        match leaving.left(&mut self.lent_files) {
            Remaining::Nothing => {
                let Loan { grant, .. } = self.leaving.swap_remove(loan);
                self.quotas.release(grant);
            }
            Remaining::Something => leaving.wait(self.kernel.now()),
            Remaining::Unknown => {
                // The reservation still counts against the quotas.
                let Loan { grant, .. } = self.leaving.swap_remove(loan);
                let user = grant.uid();
                say(&format!(
                    "user {user} sealed the memory of {name}, so the broker cannot know who has it: it counts until this broker ends"
                ));
            }
        }
    }
}

/// Reserves a port and makes its memory. Returns the client's descriptor of it, too.
fn order<I>(
    quotas: &mut Quotas,
    peer: &PeerProcess,
    request: &Request,
    number: u64,
    now: Instant,
) -> Result<(PendingPort<I>, OwnedFd), Refusal> {
    let grant = quotas.grant(peer, request)?;
    let memory = LentMemory::new(request.memory());
    match memory.and_then(|memory| memory.lend().map(|theirs| (memory, theirs))) {
        Ok((memory, theirs)) => {
            let loan = Loan::new(number, grant, memory, now);
            Ok((PendingPort { request: request.clone(), loan }, theirs))
        }
        Err(e) => {
            quotas.release(grant);
            Err(Refusal::new(RefusalCode::Failed, format_args!("making frame memory: {e}")))
        }
    }
}

/// The failure as a client may see it: what the broker lacks is not the client's business.
fn for_others(error: OpenError) -> String {
    match error {
        OpenError::MissingCapability { what, capability } => format!(
            "{what} is not permitted to the broker itself, which lacks {capability}; ask the administrator of this machine"
        ),
        error => error.to_string(),
    }
}

fn asked(peer: &PeerProcess, request: &Request) {
    if request.is_query() {
        return;
    }
    let Request { interface, ethertype, tx_frames, rx_frames, .. } = request;
    let (uid, pid, bytes) = (peer.uid, peer.pid, request.memory());
    debug!(uid, pid, ?interface, ethertype, tx_frames, rx_frames, bytes, "a port is asked for");
}

fn refuse(connection: &OwnedFd, peer: &PeerProcess, refusal: Refusal) {
    if refusal.why != RefusalCode::Nothing {
        debug!(uid = peer.uid, pid = peer.pid, why = ?refusal.why, text = ?refusal.text, "refused");
    }
    // A client that does not read it does not learn the reason.
    let _ = message::send(connection, &Answer::Refusal(refusal).bytes(), &[]);
}
