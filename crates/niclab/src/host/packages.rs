//! Kernels, from Debian's packages. Nothing is installed: they are unpacked below the cache.

use super::apt::{self, Apt, MIRROR};
use super::modules::Modules;
use super::{LabError, file, output};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

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
    let image = plain(&image)?.unwrap_or(image);
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

/// The kernel that a boot image unpacks, as a file beside it: under emulation that would take most of a guest's
/// start. None if it is packed in another way than xz's.
fn plain(image: &Path) -> Result<Option<PathBuf>, LabError> {
    let plain = image.with_file_name("plain");
    if !plain.exists() {
        let bytes = fs::read(image).map_err(file("reading", image))?;
        let Some(packed) = packed(&bytes) else { return Ok(None) };
        let part = image.with_file_name("part.xz");
        fs::write(&part, packed).map_err(file("writing", &part))?;
        let unpacked = output(Command::new("xz").arg("-dc").arg(&part))?;
        fs::write(&part, unpacked).map_err(file("writing", &part))?;
        fs::rename(&part, &plain).map_err(file("writing", &plain))?;
    }
    Ok(Some(plain))
}

/// What is packed in a boot image (the kernel's arch/x86/boot.rst: `setup_sects`, `payload_offset` and
/// `payload_length`, whose last four bytes are the length of what comes out), if xz can unpack it.
fn packed(image: &[u8]) -> Option<&[u8]> {
    const XZ: &[u8] = b"\xfd7zXZ";
    let word = |at: usize| Some(u32::from_le_bytes(*image.get(at..)?.first_chunk()?) as usize);
    let sectors = usize::from(*image.get(0x1f1)?);
    let start = (sectors + 1) * 512 + word(0x248)?;
    let end = start.checked_add(word(0x24c)?)?.checked_sub(4)?;
    image.get(start..end).filter(|packed| packed.starts_with(XZ))
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

    #[test]
    fn what_is_packed_in_a_boot_image_is_where_its_header_says() {
        let mut image = vec![0; 2048];
        image[0x1f1] = 1;
        image[0x248..0x24c].copy_from_slice(&16_u32.to_le_bytes());
        image[0x24c..0x250].copy_from_slice(&24_u32.to_le_bytes());
        assert_eq!(packed(&image), None, "not xz");
        image[1040..1046].copy_from_slice(b"\xfd7zXZ\0");
        assert_eq!(packed(&image).map(<[u8]>::len), Some(20));
        image[0x24c..0x250].copy_from_slice(&u32::MAX.to_le_bytes());
        assert_eq!(packed(&image), None, "beyond its end");
        assert_eq!(packed(&image[..100]), None);
    }
}
