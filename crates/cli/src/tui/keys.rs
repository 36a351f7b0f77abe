//! Keys, as terminals send them (ECMA-48 and what xterm made of it).

/// A key that means something here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum KeyPress {
    /// `q`, or Ctrl-C, which is not a signal while there is a view.
    End,
    /// `?` or `h`.
    Help,
    Up,
    Down,
    PageUp,
    PageDown,
    First,
    Last,
}

/// How long an escape sequence may be; a longer one is none of a key.
const LONGEST: usize = 16;

/// Takes the keys out of what was read. The beginning of an escape sequence stays for the next
/// time; what means nothing is passed over.
pub(super) fn keys(read: &mut Vec<u8>) -> Vec<KeyPress> {
    let mut found = Vec::new();
    let mut at = 0;
    while at < read.len() {
        let left = &read[at..];
        match sequence(left) {
            Some(0) if left.len() < LONGEST => break,
            Some(0) => at += 1,
            Some(length) => {
                found.extend(named(&left[..length]));
                at += length;
            }
            None => {
                found.extend(plain(left[0]));
                at += 1;
            }
        }
    }
    read.drain(..at);
    found
}

/// The length of the escape sequence at the beginning: `None` if no sequence is there, 0 if it goes
/// on.
fn sequence(bytes: &[u8]) -> Option<usize> {
    match bytes {
        [0x1b] | [0x1b, b'O'] => Some(0),
        [0x1b, b'O', _, ..] => Some(3),
        // Parameters, then a final byte (ECMA-48, 5.4).
        [0x1b, b'[', rest @ ..] => {
            Some(rest.iter().position(|byte| (0x40..=0x7e).contains(byte)).map_or(0, |end| end + 3))
        }
        // Escape alone, and whatever was pressed after it.
        [0x1b, ..] => Some(1),
        _ => None,
    }
}

fn named(sequence: &[u8]) -> Option<KeyPress> {
    Some(match &sequence[1..] {
        b"[A" | b"OA" => KeyPress::Up,
        b"[B" | b"OB" => KeyPress::Down,
        b"[5~" => KeyPress::PageUp,
        b"[6~" => KeyPress::PageDown,
        b"[H" | b"OH" | b"[1~" | b"[7~" => KeyPress::First,
        b"[F" | b"OF" | b"[4~" | b"[8~" => KeyPress::Last,
        _ => return None,
    })
}

fn plain(byte: u8) -> Option<KeyPress> {
    Some(match byte {
        b'q' | b'Q' | 0x03 => KeyPress::End,
        b'?' | b'h' => KeyPress::Help,
        b'k' => KeyPress::Up,
        b'j' => KeyPress::Down,
        b' ' => KeyPress::PageDown,
        b'g' => KeyPress::First,
        b'G' => KeyPress::Last,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all(bytes: &[u8]) -> (Vec<KeyPress>, Vec<u8>) {
        let mut read = bytes.to_vec();
        (keys(&mut read), read)
    }

    #[test]
    fn arrows_and_pages_come_as_every_terminal_sends_them() {
        use KeyPress::*;
        let parsed = all(b"\x1b[A\x1bOB\x1b[5~\x1b[6~\x1b[H\x1b[4~jkq\x03?");
        assert_eq!(parsed.0, [Up, Down, PageUp, PageDown, First, Last, Down, Up, End, End, Help]);
        assert!(parsed.1.is_empty());
    }

    #[test]
    fn a_sequence_that_is_cut_waits_for_its_rest() {
        for cut in [&b"\x1b"[..], b"\x1b[", b"\x1b[5", b"\x1bO"] {
            assert_eq!(all(cut), (vec![], cut.to_vec()));
        }
        let mut read = b"\x1b[".to_vec();
        assert!(keys(&mut read).is_empty());
        read.extend(b"Bq");
        assert_eq!(keys(&mut read), [KeyPress::Down, KeyPress::End]);
    }

    #[test]
    fn what_means_nothing_is_passed_over_and_never_kept_for_long() {
        // Escape and then q; a function key; text with more than ASCII; a sequence without an end.
        assert_eq!(all(b"\x1bq").0, [KeyPress::End]);
        assert_eq!(all(b"\x1b[15~xyz\xc3\xa4q").0, [KeyPress::End]);
        let endless = [&b"\x1b["[..], &[b'1'; 40], b"q"].concat();
        assert_eq!(all(&endless).1, b"");
        let endless = [&b"\x1b["[..], &[b'1'; 40]].concat();
        assert!(all(&endless).1.len() < LONGEST);
    }
}
