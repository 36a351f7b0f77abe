//! Names and paths, which are bytes: Linux allows every byte but `/` and zero.

/// Longest name of a file (`NAME_MAX`).
pub const MAX_NAME: usize = 255;

/// Longest path, without the zero at its end (`PATH_MAX`).
pub const MAX_PATH: usize = 4095;

/// Whether this names something in a directory, and not the directory itself, what is above it, or
/// anything further away.
pub fn valid_name(name: &[u8]) -> bool {
    !name.is_empty()
        && name.len() <= MAX_NAME
        && name != b"."
        && name != b".."
        && !name.iter().any(|&byte| byte == b'/' || byte == 0)
}

/// Whether the kernel can be asked for this path. Empty: the export itself. It may well lead out
/// of the export; the kernel refuses that.
pub fn valid_path(path: &[u8]) -> bool {
    path.len() <= MAX_PATH && !path.contains(&0)
}

/// The path of a name in a directory.
pub fn join(directory: &[u8], name: &[u8]) -> Vec<u8> {
    match directory {
        [] => name.to_vec(),
        [.., b'/'] => [directory, name].concat(),
        _ => [directory, b"/", name].concat(),
    }
}

/// A name that is there twice.
pub fn duplicate<'a>(names: impl Iterator<Item = &'a [u8]>) -> Option<&'a [u8]> {
    let mut seen = std::collections::HashSet::new();
    names.into_iter().find(|name| !seen.insert(*name))
}

/// A name or path for people: what is not UTF-8, and what would control a terminal, is escaped.
pub fn printable(path: &[u8]) -> String {
    let mut text = String::with_capacity(path.len());
    for chunk in path.utf8_chunks() {
        for character in chunk.valid().chars() {
            if character.is_control() || turns_text(character) {
                text.extend(character.escape_default());
            } else {
                text.push(character);
            }
        }
        text.extend(chunk.invalid().iter().map(|byte| format!("\\x{byte:02x}")));
    }
    text
}

/// Whether it changes the direction of the text around it, so that a name looks like another one.
fn turns_text(character: char) -> bool {
    matches!(character, '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_that_leads_elsewhere_is_not_valid() {
        let long = [b'a'; MAX_NAME + 1];
        for name in [&b""[..], b".", b"..", b"a/b", b"/", b"a\0", &long] {
            assert!(!valid_name(name), "{}", printable(name));
        }
        for name in [&b"a"[..], b"...", b"\xff\xfe", b"a b\n", &long[..MAX_NAME]] {
            assert!(valid_name(name), "{}", printable(name));
        }
    }

    #[test]
    fn names_that_are_joined_make_a_path() {
        assert_eq!(join(b"", b"a"), b"a");
        assert_eq!(join(b"a", b"b"), b"a/b");
        assert_eq!(join(b"/", b"b"), b"/b");
    }

    #[test]
    fn what_would_control_a_terminal_is_escaped() {
        assert_eq!(printable(b"a\x1b[2Jb\xff\xc3\xa4"), "a\\u{1b}[2Jb\\xff\u{e4}");
        assert_eq!(printable("a\u{202e}txt".as_bytes()), "a\\u{202e}txt");
    }
}
