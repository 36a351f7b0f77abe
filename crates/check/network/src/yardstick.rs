//! Small models of published protocols, to compare with. Each is our own, made from what was
//! published, and leaves out what its comments say.

mod homa;
mod ranges;

pub use homa::{Homa, HomaConfig, HomaFrame};
