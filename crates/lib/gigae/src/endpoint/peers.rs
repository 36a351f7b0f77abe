//! The calls that find other endpoints (`PROTOCOL.md` §10).

use super::Endpoint;
use super::waiting::Pause;
use crate::error::DiscoverError;
use crate::neighbour::Neighbour;
use std::time::{Duration, Instant};

impl Endpoint {
    /// Asks all endpoints on the wire who they are; what they answer shows in
    /// [`neighbours`](Self::neighbours) as it is received. Question and answer may be lost, so ask
    /// more than once. Endpoints answer by themselves while they make progress; those on this very
    /// interface do not hear it, and of several on one other interface only one may. In the UDP
    /// envelope the interface's IPv4 subnet is asked. 1 system call.
    pub fn ask(&self) -> Result<(), DiscoverError> {
        self.engine().ask()
    }

    /// The endpoints that have answered since this one was opened, by name. Allocates.
    pub fn neighbours(&self) -> Vec<Neighbour> {
        let mut all = self.engine().neighbours().to_vec();
        all.sort_by(|a, b| (&a.name, a.mac, a.port).cmp(&(&b.name, b.mac, b.port)));
        all
    }

    /// What this endpoint answers when others ask who it is.
    pub fn identity(&self) -> Neighbour {
        self.engine().identity()
    }

    /// [Asks](Self::ask) every 100 ms for so long, and returns who has answered.
    pub fn discover(&self, time: Duration) -> Result<Vec<Neighbour>, DiscoverError> {
        const ASK_EVERY: Duration = Duration::from_millis(100);
        let end = Instant::now() + time;
        while Instant::now() < end {
            self.ask()?;
            let next = end.min(Instant::now() + ASK_EVERY);
            let mut pause = Pause::default();
            while pause.pass(self, Some(next))? {
                self.engine().progress()?;
            }
        }
        Ok(self.neighbours())
    }
}
