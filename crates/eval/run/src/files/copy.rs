//! One repetition: a copy by each client, on a link that may go down in the middle of it.

use super::FilesOnLink;
use super::room::SMALL;
use gigae_eval_model::cost::Cost;
use gigae_eval_model::file_figure::FileCell;
use gigae_eval_services::ServiceError;
use gigae_eval_services::client::{self, Clients, Fetched};
use gigae_eval_services::meter::EndMeter;
use gigae_eval_services::serving::ServingEnd;
use gigae_fabric::{Fabric, FabricError};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// The client's node, whose port goes down.
pub(super) const DISTURBED: u16 = 1;

/// What a repetition has brought.
pub(super) struct Copied {
    pub(super) fetched: Fetched,
    pub(super) server: Cost,
    pub(super) client: Cost,
    /// Bytes that the server read from its disk.
    pub(super) disk: Option<u64>,
    /// Compared copies.
    pub(super) verified: u64,
}

impl FilesOnLink<'_> {
    /// Copies once, measured and compared.
    pub(super) fn copy(
        &self,
        server: &mut dyn ServingEnd,
        cell: &FileCell,
        interrupted: &AtomicBool,
    ) -> Result<Copied, ServiceError> {
        let clients = EndMeter::clients(self.clients.clone(), self.cpus[1]);
        let failed = |error: FabricError| ServiceError::Unavailable(error.to_string());
        self.store.settle()?;
        server.begin()?;
        let begin = clients.read(None).map_err(failed)?;
        let fetched = match self.down {
            None => self.fetch(server, cell, interrupted)?,
            Some(down) => self.fetch_disturbed(server, cell, down, interrupted)?,
        };
        // The clients' end first: that of the server waits for its processes.
        let end = clients.read(None).map_err(failed)?;
        let spent = server.end()?;
        let file = self.file(cell.size, cell.files);
        let verified = client::verify(server, self.store, file, &fetched)?;
        let client = begin.until(&end);
        Ok(Copied { fetched, server: spent.cost, client, disk: spent.disk, verified })
    }

    pub(super) fn fetch(
        &self,
        server: &mut dyn ServingEnd,
        cell: &FileCell,
        interrupted: &AtomicBool,
    ) -> Result<Fetched, ServiceError> {
        let (hosts, [_, cpu]) = (&self.clients, self.cpus);
        let clients = Clients { hosts, cpu, small: self.file(SMALL, 1) };
        let file = self.file(cell.size, cell.files);
        client::fetch(server, self.store, file, cell, &clients, interrupted)
    }

    /// The same, while the link goes down once: when half of the bytes have passed.
    fn fetch_disturbed(
        &self,
        server: &mut dyn ServingEnd,
        cell: &FileCell,
        (fabric, down): (&Fabric, Duration),
        interrupted: &AtomicBool,
    ) -> Result<Fetched, ServiceError> {
        let outage = fabric.outage(DISTURBED).map_err(ServiceError::Outage)?;
        let (fetched, met) = beside(
            |ended| outage.disturb(cell.bytes() / 2, down, ended),
            || self.fetch(server, cell, interrupted),
        );
        disturbed(fetched, met)
    }
}

/// Does some work in this thread, and what disturbs it in another one, which hears when the work
/// has ended, also by a panic.
fn beside<D: Send, W>(
    disturb: impl FnOnce(&AtomicBool) -> D + Send,
    work: impl FnOnce() -> W,
) -> (W, D) {
    let ended = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let disturbing = scope.spawn(|| disturb(&ended));
        let end = SetOnDrop(&ended);
        let worked = work();
        drop(end);
        match disturbing.join() {
            Ok(disturbed) => (worked, disturbed),
            Err(panic) => std::panic::resume_unwind(panic),
        }
    })
}

struct SetOnDrop<'a>(&'a AtomicBool);

impl Drop for SetOnDrop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// What came of a copy and of the outage that should meet it. A port that cannot be controlled
/// says more than the client, which may have failed for it.
fn disturbed<T>(
    copied: Result<T, ServiceError>,
    met: Result<bool, FabricError>,
) -> Result<T, ServiceError> {
    match (copied, met) {
        (Err(error), _) if error.is_interruption() => Err(error),
        (_, Err(error)) => Err(ServiceError::Outage(error)),
        (Ok(_), Ok(false)) => Err(ServiceError::Unavailable(
            "the copy ended before the link went down or while it was down; plan a larger file"
                .into(),
        )),
        (copied, Ok(_)) => copied,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use gigae_eval_session::programs::ProgramError;
    use std::panic::{AssertUnwindSafe, catch_unwind};
    use std::time::Instant;

    /// Waits until the work has ended; `false` if it never hears of that.
    fn hears(ended: &AtomicBool) -> bool {
        let deadline = Instant::now() + Duration::from_secs(60);
        while !ended.load(Ordering::Relaxed) {
            if Instant::now() > deadline {
                return false;
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        true
    }

    #[test]
    fn what_disturbs_hears_of_the_end_also_after_a_panic() {
        assert_eq!(beside(hears, || 7), (7, true));
        let heard = AtomicBool::new(false);
        let panics = || beside(|ended| heard.store(hears(ended), Ordering::Relaxed), || panic!());
        assert!(catch_unwind(AssertUnwindSafe(panics)).is_err());
        assert!(heard.load(Ordering::Relaxed));
    }

    #[test]
    fn a_port_that_stays_down_says_more_than_the_client_that_failed_for_it() {
        let client = || ServiceError::Unavailable("the client failed".into());
        let interrupted = || ServiceError::from(ProgramError::Interrupted);
        let port = || Err(FabricError::NeedsRoot { what: "it" });
        let is_outage =
            |copied| matches!(disturbed::<()>(copied, port()), Err(ServiceError::Outage(_)));
        assert!(is_outage(Err(client())) && is_outage(Ok(())));
        for met in [port(), Ok(true), Ok(false)] {
            assert!(disturbed::<()>(Err(interrupted()), met).unwrap_err().is_interruption());
        }
        for met in [true, false] {
            let error = disturbed::<()>(Err(client()), Ok(met)).unwrap_err();
            assert_eq!(error.to_string(), "the client failed");
        }
        assert_eq!(disturbed(Ok(7), Ok(true)).unwrap(), 7);
        let error = disturbed(Ok(7), Ok(false)).unwrap_err().to_string();
        assert!(error.contains("while it was down; plan a larger file"), "{error}");
    }
}
