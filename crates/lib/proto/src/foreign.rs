//! What is known of a frame of another version of the protocol.

use gigae_wire::Epoch;

/// What all versions have at the same places of a frame (`PROTOCOL.md` 4.6).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ForeignFrame {
    /// The version; the upper half of byte 4.
    pub version: u8,
    /// The kind; the lower half of byte 4. Five means Reset.
    pub kind: u8,
    /// The channel; byte 5.
    pub channel: u8,
    /// A number of the sender's choice; bytes 12 to 15. In a Hello, its epoch.
    pub src_epoch: Epoch,
    /// In a Reset, that number of the frame that it answers; bytes 16 to 19.
    pub dst_epoch: Epoch,
}

impl ForeignFrame {
    /// Reads a frame behind its envelope. `None` if it is too short.
    pub fn parse(frame: &[u8]) -> Option<Self> {
        let &[_, _, _, _, kind, channel, _, _, _, _, _, _, ref epochs @ ..] = frame else {
            return None;
        };
        let (epochs, _) = epochs.as_chunks();
        let &[src_epoch, dst_epoch, ..] = epochs else { return None };
        Some(Self {
            version: kind >> 4,
            kind: kind & 15,
            channel,
            src_epoch: Epoch(u32::from_be_bytes(src_epoch)),
            dst_epoch: Epoch(u32::from_be_bytes(dst_epoch)),
        })
    }
}
