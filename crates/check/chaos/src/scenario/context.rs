//! What every scenario begins with.

use crate::bench::{Bench, Setup, StepResult};
use oorandom::Rand64;
use std::path::Path;

/// What a scenario is given.
pub(super) struct ScenarioContext<'a> {
    /// The program that has the workload as a command.
    pub(super) program: &'a Path,
    pub(super) setup: Setup,
    /// For what is decided before there is a bench.
    pub(super) random: Rand64,
}

impl ScenarioContext<'_> {
    /// What concerns no link in particular happens to two as one, too, unless these are UDP
    /// sockets.
    pub(super) fn perhaps_trunk(&mut self) {
        if self.random.rand_range(0..3) == 0 && !self.setup.backends.contains(&"udp") {
            self.setup.trunk();
        }
    }

    pub(super) fn bench(self) -> StepResult<Bench> {
        Bench::new(self.program, self.setup, |_| {})
    }
}
