//! Programs in the directories of `PATH`.

use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;

/// The executable file of this name in a directory of `PATH`, or else in one of the further
/// directories.
pub fn find(program: &str, further: &[&str]) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let executable = |file: &PathBuf| {
        file.metadata().is_ok_and(|it| it.is_file() && it.permissions().mode() & 0o111 != 0)
    };
    let places = std::env::split_paths(&path).chain(further.iter().map(PathBuf::from));
    places.map(|place| place.join(program)).find(executable)
}
