//! Where files are: a path of this host, or `NODE:PATH`.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::PathBuf;

/// Bytes of a MAC address as text.
const MAC: usize = 17;

/// A file as the command line names it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Location {
    /// A path of this host.
    Here(PathBuf),
    /// A node, and a path in what it shares. Empty: all of that.
    There(String, Vec<u8>),
}

impl Location {
    /// A colon before the first slash ends a node's name or address. An IPv6 address is in
    /// brackets.
    pub(crate) fn parse(text: &OsStr) -> Self {
        let bytes = text.as_bytes();
        let here = || Self::Here(PathBuf::from(text));
        let colon = match bytes {
            [b'[', ..] => bytes.iter().position(|&b| b == b']').map(|at| at + 1),
            _ if is_mac(bytes) => Some(MAC),
            _ => bytes.iter().position(|&b| b == b':' || b == b'/'),
        };
        let Some(colon) = colon.filter(|&at| at > 0 && bytes.get(at) == Some(&b':')) else {
            return here();
        };
        let Ok(node) = str::from_utf8(&bytes[..colon]) else { return here() };
        let node = node.trim_start_matches('[').trim_end_matches(']').to_owned();
        // What is shared is the root of all paths.
        let mut path = &bytes[colon + 1..];
        while let [b'/', rest @ ..] = path {
            path = rest;
        }
        while let [rest @ .., b'/'] = path {
            path = rest;
        }
        Self::There(node, if path == b"." { Vec::new() } else { path.to_vec() })
    }
}

impl Location {
    /// The path, if it is one of this host.
    pub(crate) fn here(&self) -> Option<&std::path::Path> {
        match self {
            Self::Here(path) => Some(path),
            Self::There(..) => None,
        }
    }
}

fn is_mac(bytes: &[u8]) -> bool {
    let text = bytes.get(..MAC).and_then(|bytes| str::from_utf8(bytes).ok());
    text.is_some_and(|text| text.parse::<gigae::MacAddr>().is_ok())
}

/// The last part of a path in a share; `None` if there is none, as in `..`.
pub(crate) fn name(path: &[u8]) -> Option<Vec<u8>> {
    let name = path.rsplit(|&byte| byte == b'/').next()?;
    gigae_share::valid_name(name).then(|| name.to_vec())
}

/// Bytes as a path.
pub(crate) fn path(bytes: &[u8]) -> PathBuf {
    PathBuf::from(OsString::from_vec(bytes.to_vec()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_colon_before_the_first_slash_ends_a_node() {
        let there = |text: &str, node: &str, path: &str| {
            let expected = Location::There(node.into(), path.into());
            assert_eq!(Location::parse(OsStr::new(text)), expected, "{text}");
        };
        there("n2:a/b", "n2", "a/b");
        there("n2:", "n2", "");
        there("n2:/a//", "n2", "a");
        there("n2:a:b", "n2", "a:b");
        there("198.18.0.2:a", "198.18.0.2", "a");
        there("[fd00::2]:a", "fd00::2", "a");
        there("02:00:00:00:00:02:a", "02:00:00:00:00:02", "a");
        for text in ["a", "./a:b", "/a:b", ":a", "a/b:c", "[a", ""] {
            assert_eq!(Location::parse(OsStr::new(text)), Location::Here(text.into()), "{text}");
        }
    }

    #[test]
    fn a_path_that_is_not_utf8_stays_as_it_is() {
        let text = OsStr::from_bytes(b"n2:a\xff");
        assert_eq!(Location::parse(text), Location::There("n2".into(), b"a\xff".to_vec()));
    }
}
