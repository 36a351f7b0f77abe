//! What gigae's own programs need of a process that has given up root.

use rustix::thread::{
    CapabilitySets, capabilities, clear_ambient_capability_set,
    configure_capability_in_ambient_set, set_capabilities,
};

/// Does this with the calling thread's capabilities being such that a program of another user than
/// root keeps them (capabilities(7)). Where that is refused, the program does without.
pub(crate) fn kept<T>(work: impl FnOnce() -> T) -> T {
    let former = capabilities(None).ok();
    if let Some(former) = former {
        let inheritable = former.permitted;
        let _ = set_capabilities(None, CapabilitySets { inheritable, ..former });
        for one in former.permitted.iter() {
            let _ = configure_capability_in_ambient_set(one, true);
        }
    }
    let done = work();
    let _ = clear_ambient_capability_set();
    let _ = former.map(|former| set_capabilities(None, former));
    done
}
