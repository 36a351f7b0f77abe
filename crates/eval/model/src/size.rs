//! Message sizes.

use crate::transport::TransportSpec;
use serde::{Deserialize, Serialize};

/// A message size.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(untagged)]
pub enum Size {
    /// Bytes of payload.
    Bytes(usize),
    /// The largest payload that the transport fits into one frame (`"frame"` in a plan).
    #[serde(serialize_with = "frame_word")]
    Frame,
}

impl Size {
    /// The size in bytes for this transport on a link of this MTU.
    pub fn bytes(self, transport: &TransportSpec, mtu: usize) -> usize {
        match self {
            Self::Bytes(bytes) => bytes,
            Self::Frame => transport.frame_payload(mtu),
        }
    }
}

fn frame_word<S: serde::Serializer>(serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str("frame")
}

impl<'de> Deserialize<'de> for Size {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        #[serde(untagged)]
        enum Raw {
            Bytes(usize),
            Word(String),
        }
        match Raw::deserialize(deserializer) {
            Ok(Raw::Bytes(bytes)) => Ok(Self::Bytes(bytes)),
            Ok(Raw::Word(word)) if word == "frame" => Ok(Self::Frame),
            _ => Err(serde::de::Error::custom("a size is a number of bytes or \"frame\"")),
        }
    }
}
