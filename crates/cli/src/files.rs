//! Files of other nodes: what `gigae share`, `gigae cp` and `gigae mount` have in common.

pub(crate) mod exchange;
pub(crate) mod jobs;
pub(crate) mod location;
pub(crate) mod node;
