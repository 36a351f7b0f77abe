//! The signals that the calling thread takes (pthread_sigmask(3)). Threads that it starts inherit
//! them.

/// Calls with all signals blocked. A thread started by the call takes none.
pub fn blocked<R>(call: impl FnOnce() -> R) -> R {
    // SAFETY: both sets are this function's own; pthread_sigmask(3) fails for no argument that is
    // given here.
    unsafe {
        let (mut all, mut before) = (std::mem::zeroed(), std::mem::zeroed());
        libc::sigfillset(&raw mut all);
        libc::pthread_sigmask(libc::SIG_SETMASK, &raw const all, &raw mut before);
        let result = call();
        libc::pthread_sigmask(libc::SIG_SETMASK, &raw const before, std::ptr::null_mut());
        result
    }
}
