//! The secret that both ends share, and its file.

use super::error::ControlError;
use data_encoding::{HEXLOWER, HEXLOWER_PERMISSIVE};
use sha2::{Digest, Sha256};
use std::fmt;
use std::fs::OpenOptions;
use std::io::Write;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::Path;

/// Where it is by default.
pub const KEY_FILE: &str = "/etc/gigae/key";

/// Bytes of randomness in a key that is made here.
const RANDOM: usize = 32;
/// Fewest bytes of a key: what cannot be guessed.
pub(super) const SHORTEST: usize = 16;
/// Largest key file that is read.
pub(super) const LONGEST: usize = 4096;

/// Set apart from whatever else may be made of the same bytes.
const DOMAIN: &[u8] = b"gigae control connection, key of version 1\0";

/// A secret that both ends share.
#[derive(Clone)]
pub struct Key(Vec<u8>);

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Key")
    }
}

impl Key {
    /// A fresh random key.
    pub fn random() -> Result<Self, ControlError> {
        random::<RANDOM>().map(|bytes| Self(bytes.to_vec()))
    }

    /// The contents of a file, without white space at its ends. A file that everybody can read is
    /// refused: what is in it is not a secret. A group may: systemd's credentials look as if one
    /// could.
    pub fn read(file: &Path) -> Result<Self, ControlError> {
        let failed = |source| ControlError::KeyFile { file: file.display().to_string(), source };
        let bytes = std::fs::read(file).map_err(failed)?;
        let mode = std::fs::metadata(file).map_err(failed)?.mode() & 0o777;
        if mode & 0o007 != 0 {
            return Err(ControlError::KeyOpen { file: file.display().to_string(), mode });
        }
        Self::from_bytes(bytes.trim_ascii())
    }

    /// Writes a fresh key into a new file that only its owner can read, and makes the file's
    /// directory if it is missing. A file that exists is left as it is.
    pub fn create(file: &Path) -> Result<(), ControlError> {
        let failed = |source| ControlError::KeyWrite { file: file.display().to_string(), source };
        let line = Self::random()?.to_hex() + "\n";
        if let Some(directory) = file.parent().filter(|at| !at.as_os_str().is_empty()) {
            std::fs::create_dir_all(directory).map_err(failed)?;
        }
        let options = OpenOptions::new().write(true).create_new(true).mode(0o600).open(file);
        let mut file = options.map_err(failed)?;
        file.write_all(line.as_bytes()).and_then(|()| file.sync_all()).map_err(failed)
    }

    /// A key from outside, checked for its length.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, ControlError> {
        if (SHORTEST..=LONGEST).contains(&bytes.len()) {
            Ok(Self(bytes.to_vec()))
        } else {
            Err(ControlError::KeyLength(bytes.len()))
        }
    }

    /// The key as one line of text, for a file or the pipe to a child.
    pub fn to_hex(&self) -> String {
        HEXLOWER.encode(&self.0)
    }

    /// Reads back what [`Key::to_hex`] wrote.
    pub fn from_hex(text: &str) -> Result<Self, ControlError> {
        let bytes = HEXLOWER_PERMISSIVE.decode(text.as_bytes());
        Self::from_bytes(&bytes.map_err(|_| ControlError::Garbled("a malformed key"))?)
    }

    /// What the handshake mixes in: as long as it wants it, whatever the file holds.
    pub(super) fn shared(&self) -> [u8; 32] {
        Sha256::new().chain_update(DOMAIN).chain_update(&self.0).finalize().into()
    }
}

pub(super) fn random<const N: usize>() -> Result<[u8; N], ControlError> {
    let mut bytes = [0; N];
    getrandom::fill(&mut bytes).map_err(|_| ControlError::Random)?;
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn a_key_is_written_once_for_its_owner_alone() {
        let place = tempfile::tempdir().unwrap();
        let file = place.path().join("new/key");
        Key::create(&file).unwrap();
        let mode = std::fs::metadata(&file).unwrap().permissions().mode() & 0o777;
        let text = std::fs::read_to_string(&file).unwrap();
        assert_eq!((mode, text.len()), (0o600, 65), "{text}");
        let key = Key::read(&file).unwrap();
        let again = Key::create(&file).unwrap_err().to_string();
        assert!(again.contains("exists") && again.lines().count() == 1, "{again}");
        assert_eq!(Key::read(&file).unwrap().shared(), key.shared(), "it was overwritten");
        let other = place.path().join("other");
        Key::create(&other).unwrap();
        assert_ne!(Key::read(&other).unwrap().shared(), key.shared());
    }

    #[test]
    fn a_file_that_everybody_can_read_is_no_secret() {
        let place = tempfile::tempdir().unwrap();
        let file = place.path().join("key");
        Key::create(&file).unwrap();
        for mode in [0o604, 0o666, 0o777] {
            std::fs::set_permissions(&file, std::fs::Permissions::from_mode(mode)).unwrap();
            let error = Key::read(&file).unwrap_err().to_string();
            assert!(error.contains("chmod 600") && error.lines().count() == 1, "{error}");
        }
    }

    #[test]
    fn keys_that_are_too_short_are_refused() {
        let error = Key::from_bytes(b"short").unwrap_err().to_string();
        assert!(error.contains("5 bytes") && error.lines().count() == 1, "{error}");
        let key = Key::random().unwrap();
        assert_eq!(Key::from_hex(&key.to_hex()).unwrap().to_hex(), key.to_hex());
        for wrong in ["0g", "é", "0", "00"] {
            assert!(Key::from_hex(wrong).is_err(), "{wrong}");
        }
    }
}
