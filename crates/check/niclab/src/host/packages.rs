//! Kernels, from Debian's packages. Nothing is installed: they are unpacked below the cache.

use super::apt::{self, Apt, MIRROR};
use super::modules::Modules;
use super::{LabError, file, output};
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Command;

/// What names the newest kernel of a suite.
const NEWEST: &str = "linux-image-amd64";

/// What a kernel's package consists of since 7.x; before, it has all of it itself. The base says
/// which modules the kernel has built in.
const PARTS: [&str; 3] = ["linux-base-", "linux-binary-", "linux-modules-"];

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

/// Fetches and unpacks a kernel: of a suite ("bookworm", "bookworm-backports", "trixie"), or of a
/// package's file. What is there already is not fetched again.
pub fn fetch(asked: &str, cache: &Path) -> Result<Kernel, LabError> {
    let packages = match asked.ends_with(".deb") {
        true => vec![PathBuf::from(asked)],
        false => newest(asked, cache)?,
    };
    let name = packages.first().map(|package| stem(package)).unwrap_or_default();
    let unpacked = cache.join("kernels").join(&name);
    apt::unpack(&packages, &unpacked)?;
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

/// The kernel's release and file: in `boot`, or since 7.x beside its modules.
fn image(unpacked: &Path) -> Result<(String, PathBuf), LabError> {
    let entries = |place: &str| fs::read_dir(unpacked.join(place)).into_iter().flatten().flatten();
    let name = |path: &Path| path.file_name().unwrap_or_default().to_string_lossy().into_owned();
    for path in entries("boot").map(|entry| entry.path()) {
        if let Some(release) = name(&path).strip_prefix("vmlinuz-") {
            return Ok((release.to_owned(), path));
        }
    }
    for directory in entries("usr/lib/modules").map(|entry| entry.path()) {
        let path = directory.join("vmlinuz");
        if path.exists() {
            return Ok((name(&directory), path));
        }
    }
    Err(LabError::Package(format!(
        "{} has no kernel; name a 'linux-image' of Debian's",
        unpacked.display()
    )))
}

/// The kernel that a boot image unpacks, as a file beside it: under emulation that would take most
/// of a guest's start. None if it is packed in a way unknown here.
fn plain(image: &Path) -> Result<Option<PathBuf>, LabError> {
    let plain = image.with_file_name("plain");
    if !plain.exists() {
        let bytes = fs::read(image).map_err(file("reading", image))?;
        let Some((packed, program)) = packed(&bytes) else { return Ok(None) };
        let part = image.with_file_name("part");
        fs::write(&part, packed).map_err(file("writing", &part))?;
        let source = File::open(&part).map_err(file("reading", &part))?;
        let unpacked = output(Command::new(program).arg("-dc").stdin(source))?;
        fs::write(&part, unpacked).map_err(file("writing", &part))?;
        fs::rename(&part, &plain).map_err(file("writing", &plain))?;
    }
    Ok(Some(plain))
}

/// What is packed in a boot image (the kernel's arch/x86/boot.rst: `setup_sects`, `payload_offset`
/// and `payload_length`, whose last four bytes are the length of what comes out), and the program
/// that unpacks it.
fn packed(image: &[u8]) -> Option<(&[u8], &'static str)> {
    const PROGRAMS: [(&[u8], &str); 2] = [(b"\xfd7zXZ", "xz"), (b"\x28\xb5\x2f\xfd", "zstd")];
    let word = |at: usize| Some(u32::from_le_bytes(*image.get(at..)?.first_chunk()?) as usize);
    let sectors = usize::from(*image.get(0x1f1)?);
    let start = (sectors + 1) * 512 + word(0x248)?;
    let end = start.checked_add(word(0x24c)?)?.checked_sub(4)?;
    let packed = image.get(start..end)?;
    let (_, program) = PROGRAMS.iter().find(|(begin, _)| packed.starts_with(begin))?;
    Some((packed, program))
}

/// The files of the packages of a suite's newest kernel.
fn newest(suite: &str, cache: &Path) -> Result<Vec<PathBuf>, LabError> {
    let apt = Apt::new(suite, cache)?;
    let note = apt.directory.join("package");
    let report = fs::read_to_string(&note).unwrap_or_default();
    let known: Option<Vec<PathBuf>> = report.lines().map(|name| apt.file(name)).collect();
    if let Some(known) = known.filter(|known| !known.is_empty()) {
        return Ok(known);
    }
    apt.update()?;
    let image = depends(&apt.show(NEWEST)?, &["linux-image-"]).pop().ok_or_else(|| {
        LabError::Package(format!(
            "suite '{suite}' has no {NEWEST}; choose bookworm, bookworm-backports, trixie or trixie-backports, or set {MIRROR} to the URI of an archive of Debian's"
        ))
    })?;
    let mut packages = vec![image.clone()];
    packages.extend(depends(&apt.show(&image)?, &PARTS));
    let names: Vec<&str> = packages.iter().map(String::as_str).collect();
    let found = apt.download(&names)?;
    let names: Vec<_> = found.iter().filter_map(|path| path.file_name()?.to_str()).collect();
    fs::write(&note, names.join("\n")).map_err(file("writing", &note))?;
    Ok(found)
}

/// Of the packages that one depends on, those whose names begin so.
fn depends(about: &str, begins: &[&str]) -> Vec<String> {
    let line = about.lines().find_map(|line| line.strip_prefix("Depends: ")).unwrap_or_default();
    let names = line.split(',').filter_map(|name| name.split_whitespace().next());
    names
        .filter(|name| begins.iter().any(|begin| name.starts_with(begin)))
        .map(str::to_owned)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_kernel_is_what_the_package_of_that_name_depends_on() {
        let about = "Package: linux-image-amd64\nDepends: linux-image-6.1.0-37-amd64 (= 6.1.140-1)\nSize: 1\n";
        assert_eq!(depends(about, &["linux-image-"]), ["linux-image-6.1.0-37-amd64"]);
        assert!(depends("Package: x\n", &["linux-image-"]).is_empty());
        let about = "Depends: dracut | initramfs-tools (>= 1), linux-base (>= 4), linux-base-7 (= 1), linux-binary-7 (= 1), linux-modules-7\n";
        assert_eq!(depends(about, &PARTS), ["linux-base-7", "linux-binary-7", "linux-modules-7"]);
    }

    #[test]
    fn a_kernel_is_in_boot_or_beside_its_modules() {
        let directory = tempfile::tempdir().unwrap();
        assert!(image(directory.path()).unwrap_err().to_string().contains("has no kernel"));
        for (place, release) in
            [("usr/lib/modules/7.3/vmlinuz", "7.3"), ("boot/vmlinuz-6.1", "6.1")]
        {
            let path = directory.path().join(place);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(&path, "").unwrap();
            assert_eq!(image(directory.path()).unwrap(), (release.to_owned(), path));
        }
    }

    #[test]
    fn what_is_packed_in_a_boot_image_is_where_its_header_says() {
        let mut image = vec![0; 2048];
        image[0x1f1] = 1;
        image[0x248..0x24c].copy_from_slice(&16_u32.to_le_bytes());
        image[0x24c..0x250].copy_from_slice(&24_u32.to_le_bytes());
        assert_eq!(packed(&image), None, "packed by nothing known");
        image[1040..1046].copy_from_slice(b"\xfd7zXZ\0");
        assert_eq!(packed(&image).map(|(packed, by)| (packed.len(), by)), Some((20, "xz")));
        image[1040..1044].copy_from_slice(b"\x28\xb5\x2f\xfd");
        assert_eq!(packed(&image).map(|(_, by)| by), Some("zstd"));
        image[0x24c..0x250].copy_from_slice(&u32::MAX.to_le_bytes());
        assert_eq!(packed(&image), None, "beyond its end");
        assert_eq!(packed(&image[..100]), None);
    }
}
