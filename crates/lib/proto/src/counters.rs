//! What the protocol counts.

use gigae_wire::Discard;

/// Events since the protocol began. All counts are of frames unless they say otherwise.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ProtocolCounters {
    /// Messages accepted for sending.
    pub messages_sent: u64,
    /// Messages that the application received.
    pub messages_received: u64,
    /// Data frames delivered in order; several messages may share one.
    pub frames_delivered: u64,
    /// Messages handed back as failed.
    pub messages_failed: u64,
    /// Data frames that were retransmitted.
    pub retransmissions: u64,
    /// Retransmission timeouts that fired.
    pub timeouts: u64,
    /// Times that a sender had something to send and no credit (STOP).
    pub stops: u64,
    /// Frames that carried only acknowledgement and credit.
    pub acks_sent: u64,
    /// Probes for a lost GO.
    pub probes: u64,
    /// Sessions in which frames as long as both ends accept do not arrive.
    pub black_holes: u64,
    /// Sessions that came up.
    pub sessions: u64,
    /// Resets sent to peers that used a session unknown here.
    pub resets: u64,
    /// Short frames discarded.
    pub short: u64,
    /// Frames in another envelope discarded.
    pub not_ours: u64,
    /// Frames of another protocol version discarded.
    pub version: u64,
    /// Frames with a wrong checksum discarded.
    pub checksum: u64,
    /// Malformed frames discarded.
    pub malformed: u64,
    /// Frames for another port or channel discarded.
    pub port: u64,
    /// Frames of an unknown or former epoch discarded.
    pub epoch: u64,
    /// Frames that had already arrived.
    pub duplicates: u64,
    /// Frames outside the window or the credit.
    pub window: u64,
    /// Frames out of order dropped by go-back-N.
    pub out_of_order: u64,
    /// Proposals refused because the session table was full.
    pub refused: u64,
}

impl ProtocolCounters {
    /// Counts a discarded frame under its reason.
    pub fn discard(&mut self, reason: Discard) {
        *match reason {
            Discard::Short => &mut self.short,
            Discard::NotOurs => &mut self.not_ours,
            Discard::Version(_) => &mut self.version,
            Discard::Checksum => &mut self.checksum,
            Discard::Port | Discard::Channel => &mut self.port,
            Discard::Epoch => &mut self.epoch,
            Discard::Duplicate => &mut self.duplicates,
            Discard::Window => &mut self.window,
            Discard::OutOfOrder => &mut self.out_of_order,
            Discard::Sessions => &mut self.refused,
            _ => &mut self.malformed,
        } += 1;
    }

    /// Frames discarded for any reason.
    pub fn discarded(&self) -> u64 {
        self.short
            + self.not_ours
            + self.version
            + self.checksum
            + self.malformed
            + self.port
            + self.epoch
            + self.duplicates
            + self.window
            + self.out_of_order
            + self.refused
    }
}
