//! Lines for standard error. A live view that draws there holds them back until it ends.

use std::io::{self, Write};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// The lines held back; absent while none are.
static HELD: Mutex<Option<Vec<String>>> = Mutex::new(None);

fn held() -> MutexGuard<'static, Option<Vec<String>>> {
    HELD.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Writes a line to standard error, or holds it back. Unlike `eprintln`, it does not panic when
/// no one reads it: a server must not end because its terminal did.
pub fn remark(text: &str) {
    let line = format!("gigae: {text}");
    match &mut *held() {
        Some(lines) => lines.push(line),
        None => drop(writeln!(io::stderr(), "{line}")),
    }
}

/// Holds lines back from now on.
pub fn hold() {
    held().get_or_insert_default();
}

/// Writes the lines that were held back, and from now on each at once.
pub fn release() {
    // Not held any more while they are written: it may take a while until someone reads them.
    let lines = held().take().unwrap_or_default();
    for line in lines {
        // There may be no reader.
        let _ = writeln!(io::stderr(), "{line}");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_held_back_until_they_are_released() {
        hold();
        remark("a line");
        assert_eq!(held().clone(), Some(vec!["gigae: a line".to_owned()]));
        release();
        assert_eq!(*held(), None);
    }
}
