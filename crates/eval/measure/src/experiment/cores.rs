//! Streams at once, each between two threads with an endpoint or a socket of their own. The loops
//! are those of a [`stream`](super::stream). The figure is the goodput of all streams together.

pub use super::stream::{answer, ask};

use super::{Method, incast};

pub(super) const METHOD: Method = incast::METHOD;
