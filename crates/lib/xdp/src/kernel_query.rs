//! Asks the kernel something in a separate thread, since the kernel may answer late: the query
//! takes a lock that all changes of interfaces share, and some hold it for many seconds on a busy
//! machine. The caller goes on in the meantime.

use gigae_netlink::Modes;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

/// Longest wait at one look. The kernel mostly answers in some microseconds. A caller that never
/// sleeps also leaves its processor to the thread by this.
const LOOK: Duration = Duration::from_millis(1);

/// More than an answer of the kernel takes.
const STACK: usize = 256 << 10;

/// The programs, or `None` if the kernel did not say.
type QueryResult = Option<Modes>;

/// Where the thread puts the answer. Not a channel: that makes std describe the calling thread,
/// which a C program would have to count as a leak.
#[derive(Debug, Default)]
struct ResultSlot {
    answer: Mutex<Option<QueryResult>>,
    changed: Condvar,
}

/// A query that the kernel has not answered yet.
#[derive(Debug)]
pub(crate) struct KernelQuery {
    slot: Arc<ResultSlot>,
    thread: Option<JoinHandle<()>>,
    process: u32,
}

impl KernelQuery {
    /// Starts the thread. It takes no signals.
    pub(crate) fn ask(ask: impl FnOnce() -> QueryResult + Send + 'static) -> io::Result<Self> {
        let slot = Arc::new(ResultSlot::default());
        let put = Arc::clone(&slot);
        let answer = move || {
            // After a panic the kernel did not say.
            let answer = catch_unwind(AssertUnwindSafe(ask)).unwrap_or(None);
            *put.answer.lock().unwrap_or_else(PoisonError::into_inner) = Some(answer);
            put.changed.notify_one();
        };
        let thread = gigae_host::signals::blocked(|| {
            let thread = std::thread::Builder::new().name("gigae-question".into());
            thread.stack_size(STACK).spawn(answer)
        })?;
        Ok(Self { slot, thread: Some(thread), process: std::process::id() })
    }

    /// The answer, if it is there within a millisecond.
    pub(crate) fn answer(&self) -> Option<QueryResult> {
        let answer = self.slot.answer.lock().unwrap_or_else(PoisonError::into_inner);
        let wait = self.slot.changed.wait_timeout_while(answer, LOOK, |answer| answer.is_none());
        *wait.unwrap_or_else(PoisonError::into_inner).0
    }
}

impl Drop for KernelQuery {
    /// Waits for the thread, so that libraries loaded by dlopen(3) can be unloaded. The link's end
    /// takes the same lock of the kernel anyway. A child of fork(2) has no such thread.
    fn drop(&mut self) {
        if let Some(thread) = self.thread.take()
            && self.process == std::process::id()
        {
            // It does not panic.
            let _ = thread.join();
        }
    }
}
