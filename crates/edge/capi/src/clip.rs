//! Cuts text to the room that C code gives.

/// Copies text into a buffer of C code. Cuts too long text between characters, always ends it with
/// NUL (if there is any room), and replaces a NUL in the text by `?`.
pub(crate) fn copy(text: &str, into: &mut [u8]) {
    let Some(room) = into.len().checked_sub(1) else { return };
    let mut len = text.len().min(room);
    while !text.is_char_boundary(len) {
        len -= 1;
    }
    for (to, &from) in into.iter_mut().zip(&text.as_bytes()[..len]) {
        *to = if from == 0 { b'?' } else { from };
    }
    into[len] = 0;
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cut(text: &str, size: usize) -> Vec<u8> {
        let mut buffer = vec![b'#'; size];
        copy(text, &mut buffer);
        buffer
    }

    #[test]
    fn text_is_cut_to_fit_and_ended() {
        assert_eq!(cut("four", 6), b"four\0#");
        assert_eq!(cut("four", 5), b"four\0");
        assert_eq!(cut("four", 4), b"fou\0");
        assert_eq!(cut("four", 1), b"\0");
        assert_eq!(cut("four", 0), b"");
        assert_eq!(cut("f\u{fc}r", 3), b"f\0#");
        assert_eq!(cut("a\0b", 4), b"a?b\0");
    }
}
