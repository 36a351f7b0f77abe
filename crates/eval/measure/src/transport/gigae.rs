//! GigaE messages: the library's public interface, used as any program would use it.

use super::bulk;
use super::common::{self, busy_poll, message, read};
use super::raw::unavailable;
use crate::channel::{Calls, Channel, NAP, ReceivedMessage, Side, Slept, Task, TransportError};
use crate::end::Opening;
use crate::end::Probe;
use crate::in_memory::InMemoryLink;
use crate::site::{ChannelAddress, Site};
use ::gigae::{
    Backend, DrainError, Endpoint, Envelope, MacAddr, Mode, Options, Peer, RecvError, SendError,
    TrySendError,
};
use gigae_eval_model::note::Note;
use gigae_eval_model::plan;
use gigae_eval_model::plan::{GigaeOptions, Recovery, Wait};
use std::time::{Duration, Instant};

/// A peer that is silent for so long ends a repetition; the default is for programs that compute in
/// between.
const PEER_TIMEOUT: Duration = Duration::from_secs(2);

/// Transmit and receive frames of a link in memory: as an endpoint has over AF_PACKET.
const MEMORY_FRAMES: usize = 1024;

/// The UDP port of endpoints over UDP sockets: RoCEv2's, which networks for such messages let pass.
const UDP_PORT: u16 = 4791;

/// Opens one end.
pub(super) fn open(
    site: &Site,
    task: &Task,
    _side: Side,
) -> Result<Box<dyn Opening>, TransportError> {
    let endpoint = idle(options(site, task.wait, &task.setting.gigae()))?;
    let (address, channel) = (site.address(0), site.thread);
    Ok(Box::new(GigaeOpening { endpoint, address, channel, task: task.clone() }))
}

pub(crate) fn options(site: &Site, wait: Wait, own: &GigaeOptions) -> Options {
    with_settings(options_of(site, own.backend), wait, own)
}

/// All settings but those of the link.
fn with_settings(options: Options, wait: Wait, own: &GigaeOptions) -> Options {
    let wait = match wait {
        Wait::Spin => ::gigae::Wait::Spin,
        Wait::Sleep => ::gigae::Wait::Sleep,
        Wait::Adaptive => ::gigae::Wait::Adaptive,
    };
    let options = options
        .wait(wait)
        .aggregate(own.aggregate)
        .payload_checksum(own.checksum)
        .lend(own.lend)
        .shared_credit(own.shared_credit)
        .busy_poll(busy_poll(own.busy_poll));
    match own.recovery {
        Recovery::Selective => options,
        Recovery::GoBackN => options.go_back_n(),
    }
}

/// The links of an end.
fn options_of(site: &Site, own: plan::Backend) -> Options {
    let options = Options::trunk(site.interfaces())
        .backend(backend(own))
        .channels([site.thread])
        .queue(site.thread.into());
    if own == plan::Backend::Udp {
        let port = UDP_PORT + u16::from(site.thread);
        return options.envelope(Envelope::Udp { port });
    }
    options
}

fn backend(backend: plan::Backend) -> Backend {
    match backend {
        plan::Backend::Auto => Backend::Auto,
        plan::Backend::Generic => Backend::XdpMode(Mode::XdpGeneric),
        plan::Backend::Native => Backend::XdpMode(Mode::XdpNative),
        plan::Backend::Packet => Backend::Packet,
        plan::Backend::Udp => Backend::Udp,
    }
}

/// Opens an endpoint that waits for nothing when it is closed: at the end of a repetition
/// everything that counts has been counted.
pub(crate) fn idle(options: Options) -> Result<Endpoint, TransportError> {
    options.peer_timeout(PEER_TIMEOUT).linger(Duration::ZERO).open().map_err(unavailable)
}

/// An endpoint that does nothing but be there.
pub(super) fn idle_endpoint(site: &Site, mode: plan::Backend) -> Result<Endpoint, TransportError> {
    idle(options_of(site, mode))
}

struct GigaeOpening {
    endpoint: Endpoint,
    address: ChannelAddress,
    /// The channel of both ends.
    channel: u8,
    task: Task,
}

impl Opening for GigaeOpening {
    fn address(&self) -> ChannelAddress {
        self.address.clone()
    }

    fn join(self: Box<Self>, peer: &ChannelAddress) -> Result<Box<dyn Probe>, TransportError> {
        let by_ip = self.task.setting.gigae().backend == plan::Backend::Udp;
        let peer = match by_ip {
            true => ::gigae::Address::from(peer.ip),
            false => ::gigae::Address::from(MacAddr(peer.mac)),
        };
        let peer = self
            .endpoint
            .peer(peer.channel(self.channel))
            .map_err(|error| TransportError::Unavailable(error.to_string()))?;
        if self.task.size > self.endpoint.max_message() {
            return Ok(Box::new(bulk::Tagged::new(self.endpoint, peer, &self.task)?));
        }
        Ok(Box::new(GigaeChannel::new(self.endpoint, peer, &self.task)))
    }
}

/// Both ends of a channel by a link in memory: the library without a kernel. The channels of two
/// numbers have nothing to do with each other.
pub fn in_memory(number: u8, task: &Task) -> Result<[Box<dyn Probe>; 2], TransportError> {
    let options = with_settings(Options::new("memory"), task.wait, &task.setting.gigae());
    let options = options.peer_timeout(PEER_TIMEOUT).linger(Duration::ZERO);
    let links = InMemoryLink::pair(number, &options.filter(), MEMORY_FRAMES, MEMORY_FRAMES)
        .map_err(TransportError::io("mapping frame memory"))?;
    let open = |link| options.clone().open_on(vec![Box::new(link)]).map_err(unavailable);
    let [a, b] = links.map(open);
    let (a, b) = (a?, b?);
    let peer = |of: &Endpoint, other: &Endpoint| {
        let peer = of.peer(::gigae::Address::from(other.link().mac));
        peer.map_err(|error| TransportError::Unavailable(error.to_string()))
    };
    let (to_b, to_a) = (peer(&a, &b)?, peer(&b, &a)?);
    Ok([(a, to_b), (b, to_a)].map(|(endpoint, peer)| {
        Box::new(GigaeChannel::new(endpoint, peer, task)) as Box<dyn Probe>
    }))
}

struct GigaeChannel {
    endpoint: Endpoint,
    peer: Peer,
    spin: bool,
    nap: Duration,
    /// Whether `slept` must know when the last receive slept. Only the receiver of a stream asks. A
    /// round trip does not, and so needs no empty poll before it sleeps.
    reports_sleep: bool,
    slept: Slept,
    /// Messages are made and read here instead of in place.
    copies: Option<Box<Copies>>,
}

/// A program's own buffers.
struct Copies {
    outgoing: Vec<u8>,
    incoming: Vec<u8>,
}

impl GigaeChannel {
    /// A channel for messages that fit a frame.
    fn new(endpoint: Endpoint, peer: Peer, task: &Task) -> Self {
        Self {
            endpoint,
            peer,
            spin: task.wait == Wait::Spin,
            nap: task.nap(),
            reports_sleep: task.experiment.is_goodput(),
            slept: Slept::Unknown,
            copies: task.setting.gigae().copy.then(|| {
                let size = task.size;
                Box::new(Copies { outgoing: message(size), incoming: message(size) })
            }),
        }
    }
}

const LOST: TransportError = TransportError::PeerGone("acknowledged no more messages");

/// Something of the library's has failed.
pub(crate) fn failed<E: std::fmt::Display>(what: &'static str) -> impl Fn(E) -> TransportError {
    move |error| TransportError::Io { what, source: std::io::Error::other(error.to_string()) }
}

fn not_sent(error: SendError) -> TransportError {
    match error {
        SendError::Failed => LOST,
        other => failed("sending by gigae")(other),
    }
}

impl Channel for GigaeChannel {
    #[inline]
    fn send(&mut self, number: u32, size: usize) -> Result<bool, TransportError> {
        let buffer = if self.spin {
            self.endpoint.try_buffer()
        } else {
            Some(self.endpoint.buffer().map_err(not_sent)?)
        };
        let Some(mut buffer) = buffer else {
            self.endpoint.progress().map_err(not_sent)?;
            return Ok(false);
        };
        if let Some(copies) = &self.copies {
            buffer[..size].copy_from_slice(&copies.outgoing[..size]);
        }
        buffer[..4].copy_from_slice(&number.to_le_bytes());
        if !self.spin {
            // Waits in the endpoint's own style while the window is full; a peer that is gone ends
            // it.
            return buffer.queue(self.peer, size).map(|()| true).map_err(not_sent);
        }
        match buffer.try_queue(self.peer, size) {
            Ok(()) => Ok(true),
            Err(TrySendError::WouldBlock(buffer)) => {
                drop(buffer);
                self.endpoint.progress().map_err(not_sent)?;
                Ok(false)
            }
            Err(TrySendError::Refused(error)) => Err(not_sent(error)),
        }
    }

    #[inline]
    fn flush(&mut self) -> Result<(), TransportError> {
        self.endpoint.flush().map_err(not_sent)
    }

    #[inline]
    fn receive(&mut self) -> Result<Option<ReceivedMessage>, TransportError> {
        let mut message = match self.spin || self.reports_sleep {
            true => self.endpoint.try_recv(),
            false => self.endpoint.recv_timeout(self.nap),
        };
        if !self.spin && self.reports_sleep {
            self.slept = Slept::No;
            if let Ok(None) = message {
                self.slept = Slept::From(Instant::now());
                message = self.endpoint.recv_timeout(self.nap);
            }
        }
        match message {
            Ok(message) => Ok(message.and_then(|message| {
                let bytes = message.len();
                let number = match &mut self.copies {
                    None => read(&message),
                    Some(copies) => {
                        let incoming = copies.incoming.get_mut(..bytes)?;
                        incoming.copy_from_slice(&message);
                        read(incoming)
                    }
                };
                Some(ReceivedMessage { number: number?, bytes })
            })),
            Err(RecvError::Failed) => Err(LOST),
            Err(error) => Err(failed("receiving by gigae")(error)),
        }
    }

    fn slept(&self) -> Slept {
        self.slept
    }

    fn settled(&mut self) -> Result<bool, TransportError> {
        match self.endpoint.drain(NAP) {
            Ok(()) => Ok(true),
            Err(DrainError::Timeout(_)) => Ok(false),
            Err(_) => Err(LOST),
        }
    }

    fn calls(&self) -> Calls {
        let link = self.endpoint.counters().link;
        common::calls(&link)
    }

    fn repeated(&self) -> u64 {
        self.endpoint.counters().protocol.retransmissions
    }

    fn note(&mut self) -> Option<Note> {
        Some(common::note(self.endpoint.link()))
    }
}
