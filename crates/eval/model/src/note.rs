//! What a transport says about itself. In results a note is a text, which is parsed where they are
//! read.

use serde::{Deserialize, Serialize};
use std::fmt;

/// What a transport says about itself.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "String", into = "String")]
pub enum Note {
    /// A TCP connection.
    Tcp {
        /// Name of its congestion control.
        congestion_control: String,
        /// SO_SNDBUF and SO_RCVBUF at the end of the measurement, in bytes.
        buffers: [usize; 2],
        /// What became of the writes with MSG_ZEROCOPY; absent without that.
        zerocopy: Option<Zerocopy>,
    },
    /// A UDP socket, with its buffers.
    Udp([usize; 2]),
    /// A link over raw frames: its mode, and why that one was chosen.
    Link {
        /// The mode.
        mode: String,
        /// The reason.
        reason: String,
    },
    /// What this version cannot read.
    Other(String),
}

/// What the kernel did with writes that it was to send without a copy.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Zerocopy {
    /// Writes that it is done with.
    pub writes: u64,
    /// Those of them that it copied after all (`SO_EE_CODE_ZEROCOPY_COPIED`).
    pub copied: u64,
}

impl Note {
    /// What became of a connection's writes with MSG_ZEROCOPY.
    pub fn zerocopy(&self) -> Option<Zerocopy> {
        match self {
            Self::Tcp { zerocopy, .. } => *zerocopy,
            _ => None,
        }
    }

    /// The congestion control of a TCP connection.
    pub fn congestion_control(&self) -> Option<&str> {
        match self {
            Self::Tcp { congestion_control, .. } => Some(congestion_control),
            _ => None,
        }
    }

    fn parse(text: &str) -> Option<Self> {
        let buffers = |text: &str| {
            let (send, receive) = text.strip_prefix("SO_SNDBUF ")?.split_once(", SO_RCVBUF ")?;
            Some([send.parse().ok()?, receive.parse().ok()?])
        };
        if let Some(text) = text.strip_prefix("congestion control ") {
            let (name, text) = text.split_once(", ")?;
            let (text, zerocopy) = match text.split_once(", MSG_ZEROCOPY ") {
                Some((text, zerocopy)) => (text, Some(Zerocopy::parse(zerocopy)?)),
                None => (text, None),
            };
            return Some(Self::Tcp {
                congestion_control: name.to_owned(),
                buffers: buffers(text)?,
                zerocopy,
            });
        }
        if let Some(buffers) = buffers(text) {
            return Some(Self::Udp(buffers));
        }
        let (mode, reason) = text.split_once(": ")?;
        Some(Self::Link { mode: mode.to_owned(), reason: reason.to_owned() })
    }
}

impl Zerocopy {
    fn parse(text: &str) -> Option<Self> {
        let (copied, writes) = text.strip_suffix(" writes copied")?.split_once(" of ")?;
        Some(Self { writes: writes.parse().ok()?, copied: copied.parse().ok()? })
    }
}

impl fmt::Display for Zerocopy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} of {} writes copied", self.copied, self.writes)
    }
}

impl From<String> for Note {
    /// A note that would be written in another way stays a text.
    fn from(text: String) -> Self {
        Self::parse(&text).filter(|note| note.to_string() == text).unwrap_or(Self::Other(text))
    }
}

impl From<Note> for String {
    fn from(note: Note) -> Self {
        note.to_string()
    }
}

impl fmt::Display for Note {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tcp { congestion_control, buffers: [send, receive], zerocopy } => {
                write!(
                    f,
                    "congestion control {congestion_control}, SO_SNDBUF {send}, SO_RCVBUF {receive}"
                )?;
                zerocopy.map_or(Ok(()), |zerocopy| write!(f, ", MSG_ZEROCOPY {zerocopy}"))
            }
            Self::Udp([send, receive]) => write!(f, "SO_SNDBUF {send}, SO_RCVBUF {receive}"),
            Self::Link { mode, reason } => write!(f, "{mode}: {reason}"),
            Self::Other(text) => f.write_str(text),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_note_is_read_and_written_as_the_same_text() {
        let note = |text: &str| Note::from(text.to_owned());
        let tcp = note("congestion control bbr, SO_SNDBUF 8192, SO_RCVBUF 4096");
        assert_eq!((tcp.congestion_control(), tcp.zerocopy()), (Some("bbr"), None));
        let text =
            "congestion control cubic, SO_SNDBUF 1, SO_RCVBUF 2, MSG_ZEROCOPY 3 of 4 writes copied";
        assert_eq!(note(text).zerocopy(), Some(Zerocopy { writes: 4, copied: 3 }));
        assert_eq!(note(text).to_string(), text);
        assert_eq!(note("SO_SNDBUF 1, SO_RCVBUF 2"), Note::Udp([1, 2]));
        assert!(
            matches!(note("xdp generic: on a veth: slow"), Note::Link { mode, .. } if mode == "xdp generic")
        );
        assert!(matches!(note("SO_SNDBUF 01, SO_RCVBUF 2"), Note::Other(_)));
        for text in ["congestion control", "SO_SNDBUF 01, SO_RCVBUF 2", "a: b: c", "plain", ""] {
            assert_eq!(note(text).to_string(), text);
        }
    }
}
