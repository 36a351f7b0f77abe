//! The CPUs that the calling thread may use (sched_setaffinity(2)). Threads and processes that it
//! starts inherit them.

use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};
use std::io;

/// The CPUs that the calling thread may use, in order; CPU 0 if the kernel does not say.
pub fn allowed() -> Vec<usize> {
    match sched_getaffinity(None) {
        Ok(set) => (0..CpuSet::MAX_CPU).filter(|&cpu| set.is_set(cpu)).collect(),
        Err(_) => vec![0],
    }
}

/// Keeps the calling thread to these CPUs.
pub fn keep_to(cpus: &[usize]) -> io::Result<()> {
    let mut set = CpuSet::new();
    if cpus.iter().any(|&cpu| cpu >= CpuSet::MAX_CPU) {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    cpus.iter().for_each(|&cpu| set.set(cpu));
    Ok(sched_setaffinity(None, &set)?)
}

/// Pins the calling thread to one CPU.
pub fn pin(cpu: usize) -> io::Result<()> {
    keep_to(&[cpu])
}

/// Does something with the calling thread pinned to a CPU, if there is one, such as starting a
/// process, which stays there; then the thread may run where it could before. What cannot be pinned
/// is done all the same.
pub fn pinned<T>(cpu: Option<usize>, work: impl FnOnce() -> T) -> T {
    let _saved = SavedAffinity::save();
    let _ = cpu.map(pin);
    work()
}

/// The CPUs that the calling thread could use. Dropping it gives them back to the thread that drops
/// it.
#[derive(Debug)]
pub struct SavedAffinity(CpuSet);

impl SavedAffinity {
    /// As they are now.
    pub fn save() -> io::Result<Self> {
        Ok(Self(sched_getaffinity(None)?))
    }
}

impl Drop for SavedAffinity {
    fn drop(&mut self) {
        // If this fails the thread merely stays on its CPU.
        let _ = sched_setaffinity(None, &self.0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_is_pinned_for_a_while_and_then_as_before() {
        let before = allowed();
        let last = before.last().copied();
        assert_eq!(pinned(last, allowed), [last.unwrap()]);
        assert_eq!(allowed(), before);
        assert_eq!(pinned(None, allowed), before);
        // What does not exist leaves the thread where it is.
        assert_eq!(pinned(Some(CpuSet::MAX_CPU - 1), || 7), 7);
        assert_eq!(allowed(), before);
        assert!(keep_to(&[CpuSet::MAX_CPU]).is_err() && keep_to(&[usize::MAX]).is_err());
    }
}
