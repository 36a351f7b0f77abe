//! Being found by `gigae discover`.

use gigae::{Backend, Endpoint, OpenError, Options, Wait};

/// Answers `gigae discover` while no client is there; during a measurement, its frames would cost
/// the measured ones a filter each, so it is closed then.
pub struct Presence {
    options: Option<Options>,
    endpoint: Option<Endpoint>,
    /// Whether to try to open it: once between two clients, since what refuses it, the lack of a
    /// permission or of the interface, hardly ever passes by itself.
    due: bool,
}

/// The channel of an endpoint that only answers: programs take theirs from zero on.
const PRESENCE_CHANNEL: u8 = 254;

impl Presence {
    /// Answers for the interface and the name in the options, where that is permitted (CAP_NET_RAW,
    /// or the UDP envelope, in which a socket needs nothing), from now on: what is said to serve
    /// can be found.
    pub fn new(options: Options) -> Self {
        let options =
            options.channels([PRESENCE_CHANNEL]).backend(Backend::Packet).wait(Wait::Sleep);
        let mut presence = Self { options: Some(options), endpoint: None, due: true };
        presence.progress();
        presence
    }

    /// Answers no one.
    pub fn none() -> Self {
        Self { options: None, endpoint: None, due: false }
    }

    /// Whether it answers at present, and so must be looked at often.
    pub(super) fn is_open(&self) -> bool {
        self.endpoint.is_some()
    }

    /// Takes in questions and answers them.
    pub(super) fn progress(&mut self) {
        if std::mem::take(&mut self.due) {
            self.endpoint = self.options.clone().and_then(open);
        }
        if self.endpoint.as_ref().is_some_and(|endpoint| endpoint.progress().is_err()) {
            self.endpoint = None;
        }
    }

    /// A client is there.
    pub(super) fn close(&mut self) {
        (self.endpoint, self.due) = (None, true);
    }
}

/// By AF_PACKET, which works beside any endpoint that the interface has, or by a UDP socket.
fn open(options: Options) -> Option<Endpoint> {
    match options.clone().open() {
        Err(OpenError::MissingCapability { .. }) => options.backend(Backend::Udp).open().ok(),
        opened => opened.ok(),
    }
}
