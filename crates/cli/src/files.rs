//! File transfer: what `gigae share` and `gigae cp` have in common.

pub(crate) mod exchange;
pub(crate) mod jobs;
pub(crate) mod location;
pub(crate) mod node;
