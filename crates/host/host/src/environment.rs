//! The environment, as far as it may say what a program opens and whom it trusts.

use std::ffi::OsString;

/// The value of a variable. `None` if it is not set or is empty, and in a program with more rights
/// than its user (set-user-id, file capabilities), since that user controls the variable.
pub fn variable(name: &str) -> Option<OsString> {
    // SAFETY: reads a number that the kernel gave this process.
    let privileged = unsafe { libc::getauxval(libc::AT_SECURE) } != 0;
    std::env::var_os(name).filter(|value| !value.is_empty() && !privileged)
}
