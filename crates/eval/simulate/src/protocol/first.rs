//! Models with two classes in switches: short messages, and frames without data, go first.

use gigae_network::workload::{Message, MessageHost};
use gigae_network::yardstick::{HomaFrame, WindowFrame};
use gigae_network::{Context, Frame, Host, PortId, Trace};
use std::fmt::Debug;
use std::io::{self, Write};

/// The priority of what goes first.
const FIRST: u8 = 7;

/// What a model's frame says about its message.
pub(super) trait Lengthy: Debug {
    /// The length of the message whose bytes the frame has. `None`: it has no bytes.
    fn message_length(&self) -> Option<u32>;
}

impl Lengthy for HomaFrame {
    fn message_length(&self) -> Option<u32> {
        match self {
            Self::Data { length, .. } => Some(*length),
            Self::Grant { .. } | Self::Resend { .. } | Self::Done { .. } => None,
        }
    }
}

impl Lengthy for WindowFrame {
    fn message_length(&self) -> Option<u32> {
        match self {
            Self::Data { length, .. } => Some(*length),
            Self::Ack { .. } => None,
        }
    }
}

/// A host whose frames may have a priority in switches.
pub(super) struct First<H> {
    host: H,
    /// Messages below this length go first; `None`: all frames have the same priority.
    below: Option<u32>,
}

impl<H> First<H> {
    pub(super) fn new(host: H, below: Option<u32>) -> Self {
        Self { host, below }
    }
}

impl<H: Host> Host for First<H>
where
    H::Payload: Lengthy,
{
    type Payload = H::Payload;

    fn receive(&mut self, frame: Frame<H::Payload>, context: &mut Context<'_>) {
        self.host.receive(frame, context);
    }

    fn timer(&mut self, token: u64, context: &mut Context<'_>) {
        self.host.timer(token, context);
    }

    fn next_frame(&mut self, context: &mut Context<'_>) -> Option<Frame<H::Payload>> {
        let frame = self.host.next_frame(context)?;
        let goes_first = |below| frame.payload.message_length().is_none_or(|bytes| bytes < below);
        let priority = if self.below.is_some_and(goes_first) { FIRST } else { frame.priority };
        Some(Frame { priority, ..frame })
    }
}

impl<H: MessageHost> MessageHost for First<H>
where
    H::Payload: Lengthy,
{
    fn send(&mut self, number: u32, message: &Message, context: &mut Context<'_>) {
        self.host.send(number, message, context);
    }
}

/// Begins a capture file. A model's payload is there as text, because it has no bytes.
pub(super) fn trace<P: Debug>(
    out: Box<dyn Write + Send>,
    ports: &[PortId],
) -> io::Result<Trace<P>> {
    Trace::new(out, ports, |payload, bytes| {
        // Memory takes any number of bytes.
        let _ = write!(bytes, "{payload:?}");
    })
}
