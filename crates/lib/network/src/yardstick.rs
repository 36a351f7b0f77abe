//! Small models of published protocols, to compare with. Each is our own, made from what was
//! published, and leaves out what its comments say.

mod dctcp;
mod homa;
mod ranges;
mod swift;
mod windowed;

pub use dctcp::Dctcp;
pub use homa::{Homa, HomaConfig, HomaFrame};
pub use swift::Swift;
pub use windowed::{Acked, Control, WindowFrame, Windowed};
