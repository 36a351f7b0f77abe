//! Kernels, from Debian's packages. Nothing is installed: they are unpacked below the cache.

use super::apt::{self, Apt, MIRROR};
use super::modules::Modules;
use super::{LabError, file};
use std::fs;
use std::path::{Path, PathBuf};

/// What names the newest kernel of a suite.
const NEWEST: &str = "linux-image-amd64";

/// A kernel that was unpacked.
#[derive(Debug)]
pub struct Kernel {
    /// What was asked for.
    pub asked: String,
    /// Its release, as `uname -r` says it.
    pub release: String,
    /// Debian's version of the package.
    pub version: String,
    /// The file to boot.
    pub image: PathBuf,
    /// Its modules.
    pub modules: Modules,
}

/// Fetches and unpacks a kernel: of a suite ("bookworm", "bookworm-backports", "trixie"), or of a package's
/// file. What is there already is not fetched again.
pub fn fetch(asked: &str, cache: &Path) -> Result<Kernel, LabError> {
    let (name, package) = match asked.ends_with(".deb") {
        true => (stem(Path::new(asked)), PathBuf::from(asked)),
        false => newest(asked, cache)?,
    };
    let unpacked = cache.join("kernels").join(&name);
    apt::unpack(&[package], &unpacked)?;
    let (release, image) = image(&unpacked)?;
    let directory = ["lib/modules", "usr/lib/modules"]
        .map(|place| unpacked.join(place).join(&release))
        .into_iter()
        .find(|directory| directory.is_dir())
        .ok_or_else(|| {
            LabError::Package(format!(
                "package '{name}' has no modules; name a 'linux-image' of Debian's"
            ))
        })?;
    let version = name.split('_').nth(1).unwrap_or("unknown").replace("%3a", ":");
    Ok(Kernel {
        asked: asked.to_owned(),
        release,
        version,
        image,
        modules: Modules::find(&directory)?,
    })
}

fn stem(path: &Path) -> String {
    path.file_stem().unwrap_or_default().to_string_lossy().into_owned()
}

/// The kernel's file and release.
fn image(unpacked: &Path) -> Result<(String, PathBuf), LabError> {
    let boot = unpacked.join("boot");
    for entry in fs::read_dir(&boot).map_err(file("reading", &boot))? {
        let path = entry.map_err(file("reading", &boot))?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        if let Some(release) = name.strip_prefix("vmlinuz-") {
            return Ok((release.to_owned(), path));
        }
    }
    Err(LabError::Package(format!(
        "{} has no kernel; name a 'linux-image' of Debian's",
        boot.display()
    )))
}

/// The package's name and file of the newest kernel of a suite.
fn newest(suite: &str, cache: &Path) -> Result<(String, PathBuf), LabError> {
    let apt = Apt::new(suite, cache)?;
    let note = apt.directory.join("package");
    let told = fs::read_to_string(&note).unwrap_or_default();
    if let Some(known) = apt.file(told.trim()) {
        return Ok((stem(&known), known));
    }
    apt.update()?;
    let package = depends(&apt.show(NEWEST)?).ok_or_else(|| {
        LabError::Package(format!(
            "suite '{suite}' has no {NEWEST}; choose bookworm, bookworm-backports, trixie or trixie-backports, or set {MIRROR} to the URI of an archive of Debian's"
        ))
    })?;
    let found = apt.download(&[&package])?.remove(0);
    let name = found.file_name().unwrap_or_default().to_string_lossy().into_owned();
    fs::write(&note, name).map_err(file("writing", &note))?;
    Ok((stem(&found), found))
}

/// The kernel's package that the newest one's name stands for.
fn depends(about: &str) -> Option<String> {
    let line = about.lines().find_map(|line| line.strip_prefix("Depends: "))?;
    let package = line.split(',').map(str::trim).find(|name| name.starts_with("linux-image-"))?;
    package.split_whitespace().next().map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_kernel_is_what_the_package_of_that_name_depends_on() {
        let about = "Package: linux-image-amd64\nDepends: linux-image-6.1.0-37-amd64 (= 6.1.140-1)\nSize: 1\n";
        assert_eq!(depends(about).as_deref(), Some("linux-image-6.1.0-37-amd64"));
        assert_eq!(depends("Package: x\n"), None);
    }
}
