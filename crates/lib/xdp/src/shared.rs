//! XDP programs on interfaces, shared by the links of this process.
//!
//! An interface has one program, and each link of the process has one of its queues. The first link
//! loads and attaches the program, later ones add their filter and socket to its maps, and the last
//! one detaches it. Links of other processes cannot share it: they have no descriptor of the maps.

use crate::attached;
use crate::bpf::Attached;
use crate::program::Program;
use gigae_wire::MacAddr;
use std::collections::BTreeSet;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

/// A program on an interface.
pub(crate) struct SharedProgram {
    program: Mutex<Program>,
    /// In what mode: native in the driver, and for frames in several buffers.
    pub(crate) native: bool,
    pub(crate) several: bool,
    /// The interface's address, to which frames must go.
    pub(crate) mac: MacAddr,
    /// Queues that links have.
    queues: Mutex<BTreeSet<u32>>,
    /// Keeps it attached. `None` if the interface does.
    _attached: Option<Attached>,
}

/// Which interface: those of different network namespaces may have the same number.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Place {
    namespace: (u64, u64),
    interface: u32,
    /// A child of fork(2) has the descriptors of its parent, but no link of its own.
    process: u32,
}

impl Place {
    /// An interface of the calling thread's namespace.
    fn of(interface: u32) -> io::Result<Self> {
        let namespace = rustix::fs::fstat(gigae_host::netns::own()?)?;
        let namespace = (namespace.st_dev, namespace.st_ino);
        Ok(Self { namespace, interface, process: std::process::id() })
    }
}

/// The programs of this process.
pub(crate) struct Programs(Vec<(Place, Weak<SharedProgram>)>);

/// All programs of this process. Keep the guard while a program is attached: another link of the
/// interface then shares it instead of being refused.
pub(crate) fn programs() -> MutexGuard<'static, Programs> {
    static PROGRAMS: Mutex<Programs> = Mutex::new(Programs(Vec::new()));
    PROGRAMS.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Programs {
    /// The program on an interface of the calling thread's namespace, if it is still attached.
    pub(crate) fn on(&mut self, interface: u32) -> io::Result<Option<Arc<SharedProgram>>> {
        self.0.retain(|(_, program)| program.strong_count() > 0);
        let wanted = Place::of(interface)?;
        let Some(at) = self.0.iter().position(|(place, _)| *place == wanted) else {
            return Ok(None);
        };
        let found = self.0[at].1.upgrade();
        let is_there = |shared: &Arc<SharedProgram>| {
            attached::program(interface) == Some(shared.program().id())
        };
        if found.as_ref().is_some_and(is_there) {
            return Ok(found);
        }
        // Somebody detached it. The links that have it notice; new ones need a program of their
        // own.
        self.0.swap_remove(at);
        Ok(None)
    }

    /// Takes in a program that was just attached there.
    pub(crate) fn add(&mut self, interface: u32, program: &Arc<SharedProgram>) -> io::Result<()> {
        self.0.push((Place::of(interface)?, Arc::downgrade(program)));
        Ok(())
    }
}

impl SharedProgram {
    /// A program that was just attached.
    pub(crate) fn new(
        program: Program,
        attached: Option<Attached>,
        (native, several): (bool, bool),
        mac: MacAddr,
    ) -> Arc<Self> {
        let (program, queues) = (Mutex::new(program), Mutex::default());
        Arc::new(Self { program, native, several, mac, queues, _attached: attached })
    }

    /// The program itself.
    pub(crate) fn program(&self) -> MutexGuard<'_, Program> {
        self.program.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn queues(&self) -> MutexGuard<'_, BTreeSet<u32>> {
        self.queues.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether a link has this queue.
    pub(crate) fn is_claimed(&self, queue: u32) -> bool {
        self.queues().contains(&queue)
    }

    /// Has a queue for one link; `None` if another link has it.
    pub(crate) fn claim(self: &Arc<Self>, queue: u32) -> Option<ClaimedQueue> {
        let free = self.queues().insert(queue);
        let process = std::process::id();
        free.then(|| ClaimedQueue { program: Arc::clone(self), queue, process })
    }
}

/// A queue of an interface, and the program there. Dropping it gives the queue back. Dropping that
/// of the last queue detaches the program.
pub(crate) struct ClaimedQueue {
    pub(crate) program: Arc<SharedProgram>,
    queue: u32,
    /// A child of fork(2) drops it without any effect.
    process: u32,
}

impl Drop for ClaimedQueue {
    fn drop(&mut self) {
        if std::process::id() != self.process {
            return;
        }
        // From now on frames go to the stack. If the kernel refuses, they do so when the socket is
        // closed, which follows.
        let _ = self.program.program().pass(self.queue);
        self.program.queues().remove(&self.queue);
    }
}
