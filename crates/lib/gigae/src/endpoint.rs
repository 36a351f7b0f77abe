//! The endpoint: what a program holds.

// In the order in which a program calls what is in them: the documentation keeps it.
mod peers;

mod messages;

mod operations;

mod waiting;

mod closing;

mod counters;

mod descriptor;

use crate::engine::Engine;
use crate::error::SendError;
use crate::links::Arenas;
use crate::measured::Choice;
use crate::resolve::Reservation;
use crate::sharing::ClaimedPort;
use crate::wait::{Wait, Waiter};
use descriptor::Descriptor;
use gigae_link::{ChannelSet, Info, Mode, OpenError};
use gigae_progress::{Attended, Guard, Owner};
use gigae_wire::PathId;
use std::cell::RefCell;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

pub use counters::{Counters, PathStatistics, Usage};

/// What an endpoint is made of, besides its engine.
pub(crate) struct EndpointSettings {
    pub(crate) channels: ChannelSet,
    pub(crate) wait: Wait,
    pub(crate) linger: Duration,
    /// The process's thread acts for the endpoint, unless the network is simulated.
    pub(crate) attended: bool,
    pub(crate) reservation: Option<Reservation>,
}

/// Sends and receives messages over one interface, or several as one. See the crate's description.
///
/// Call its methods in this order:
///
/// | step | methods |
/// |---|---|
/// | open | [`open`](Self::open), or [`Options::open`](crate::Options::open) with settings |
/// | find peers | [`peer`](Self::peer) by address; [`ask`](Self::ask) or [`discover`](Self::discover) who is there |
/// | send | [`send`](Self::send); [`queue`](Self::queue) and [`flush`](Self::flush) for streams; [`buffer`](Self::buffer) without a copy |
/// | receive | [`recv`](Self::recv), [`recv_timeout`](Self::recv_timeout) or [`try_recv`](Self::try_recv), again and again |
/// | look after failures | [`take_failure`](Self::take_failure), when a call says that messages failed |
/// | operations | `start_...`, then [`completion`](Self::completion) or [`try_completion`](Self::try_completion) for each; [`register`](Self::register) memory for peers |
/// | wait | blocking calls do so by themselves; an event loop calls [`prepare_to_wait`](Self::prepare_to_wait), sleeps on [`fd`](Self::fd) and receives until nothing is left |
/// | close | [`drain`](Self::drain), if everything must have arrived; then drop the endpoint |
///
/// One thread at a time uses it (it is `Send` and not `Sync`). Messages and buffers borrow from it.
pub struct Endpoint {
    engine: Owner<Engine>,
    /// The process's thread acts for it while the program does not.
    attended: Option<Attended>,
    arenas: Arenas,
    info: Info,
    channels: ChannelSet,
    max_message: usize,
    waiter: RefCell<Waiter>,
    linger: Duration,
    /// The UDP port, kept from the kernel's stack, and the way to ask the kernel for routes.
    /// `None` in an Ethernet envelope, and where no kernel is asked.
    reservation: Option<Reservation>,
    /// What a program sleeps on. Lending it borrows no engine.
    fd: Option<Descriptor>,
}

/// # What it is
impl Endpoint {
    /// The link underneath: its mode, why that mode, its address. Of several, the first: its
    /// address names the endpoint.
    pub fn link(&self) -> &Info {
        &self.info
    }

    /// Longest message in bytes: what one frame holds.
    #[inline]
    pub fn max_message(&self) -> usize {
        self.max_message
    }
}

impl Endpoint {
    pub(crate) fn new(mut engine: Engine, settings: EndpointSettings) -> Result<Self, OpenError> {
        let info = engine.links.info(PathId::FIRST).clone();
        let failed = |what| move |source| OpenError::Io { what, source };
        let links = engine.links.fds().map_err(failed("duplicating the links' descriptors"))?;
        let wakeup = match &links {
            Some(_) if settings.attended => {
                Some(engine.wakeup_descriptor().map_err(failed(WATCHING))?)
            }
            _ => None,
        };
        let arenas = engine.links.arenas.clone();
        let max_message = engine.proto.config().max_payload.into();
        let engine =
            Owner::new(engine, links.is_some()).map_err(failed("mapping the endpoint's lock"))?;
        let (mut attended, mut fd) = (None, None);
        if let Some(links) = links {
            if wakeup.is_some() {
                let thread = gigae_progress::attend(&engine, Arc::clone(&links));
                attended = Some(thread.map_err(failed("starting the progress thread"))?);
            }
            fd = Some(Descriptor::new(links, wakeup).map_err(failed(WATCHING))?);
        }
        Ok(Self {
            arenas,
            channels: settings.channels,
            max_message,
            waiter: RefCell::new(waiter(settings.wait, fd.is_none())),
            linger: settings.linger,
            engine,
            attended,
            info,
            reservation: settings.reservation,
            fd,
        })
    }

    /// Says why the link is not a better one.
    pub(crate) fn instead_of(mut self, Choice { refused, measured }: Choice) -> Self {
        if let Some(OpenError::OnlyGeneric { why, .. }) = refused {
            let than = match measured {
                Some(measured) => measured.to_string(),
                None => "which costs long messages and TCP more than it saves".to_owned(),
            };
            self.info.reason = format!("AF_XDP has generic mode only, {than}: {why}");
        } else if let (None, Some(measured)) = (&refused, measured) {
            self.info.reason = format!("{measured}; {}", self.info.reason);
        } else if let Some(refused) = refused {
            let which = if self.info.mode == Mode::Udp { "AF_PACKET" } else { "AF_XDP" };
            self.info.reason = format!("{which} was refused: {refused}");
        }
        let shares = self.engine().links.ports.first().and_then(ClaimedPort::reason);
        if let Some(shares) = shares {
            self.info.reason = format!("{}; {shares}", self.info.reason);
        }
        self
    }

    #[inline(always)]
    pub(crate) fn engine(&self) -> Guard<'_, Engine> {
        self.engine.enter()
    }

    /// The same for a call that only looks at something. Every eighth one is also a poll: a program
    /// that looks twice in a millisecond, so that the thread does not act for it, answers its peers
    /// within 4 ms.
    #[inline]
    pub(crate) fn look(&self) -> Guard<'_, Engine> {
        let mut engine = self.engine();
        engine.look(8);
        engine
    }

    /// Takes what polls have brought. Every 64th call that finds nothing is also a poll, for
    /// programs that make no other.
    #[inline]
    pub(crate) fn take<T>(&self, take: impl FnOnce(&mut Engine) -> Option<T>) -> Option<T> {
        let mut engine = self.engine();
        let taken = take(&mut engine);
        if taken.is_none() {
            engine.look(1);
        }
        taken
    }

    /// The same for what is dropped: `None` in a child of fork(2).
    #[inline(always)]
    pub(crate) fn engine_to_drop(&self) -> Option<Guard<'_, Engine>> {
        self.engine.enter_to_drop()
    }

    pub(crate) fn arenas(&self) -> &Arenas {
        &self.arenas
    }

    #[inline]
    pub(crate) fn check_len(&self, len: usize) -> Result<(), SendError> {
        let max = self.max_message;
        if len > max { Err(SendError::TooLong { len, max }) } else { Ok(()) }
    }
}

/// No spinning on a simulated link: its time moves only while a caller sleeps.
fn waiter(style: Wait, simulated: bool) -> Waiter {
    Waiter::new(if simulated && style == Wait::Spin { Wait::Sleep } else { style })
}

const WATCHING: &str = "watching the links and the progress thread";

impl fmt::Debug for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Endpoint").field("link", &self.info).finish_non_exhaustive()
    }
}
