//! Kernels, from Debian's packages. Nothing is installed: they are unpacked below the cache, with lists
//! and a cache of their own for apt, so that the machine's stay as they are.

use super::modules::Modules;
use super::{LabError, file, output};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Says where packages come from; without it, from where this machine has its own.
const MIRROR: &str = "DEBIAN_MIRROR";

/// Whose signatures are trusted.
const KEYRING: &str = "/usr/share/keyrings/debian-archive-keyring.gpg";

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
    if !unpacked.join("done").exists() {
        fs::create_dir_all(&unpacked).map_err(file("making", &unpacked))?;
        output(Command::new("dpkg-deb").arg("-x").arg(&package).arg(&unpacked))?;
        let done = unpacked.join("done");
        fs::write(&done, "").map_err(file("writing", &done))?;
    }
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
    let told = fs::read_to_string(apt.directory.join("package")).unwrap_or_default();
    let known = apt.directory.join("archives").join(told.trim());
    if !told.trim().is_empty() && known.exists() {
        return Ok((stem(&known), known));
    }
    apt.run("apt-get", &["update"])?;
    let about = apt.run("apt-cache", &["show", "--no-all-versions", NEWEST])?;
    let package = depends(&about).ok_or_else(|| {
        LabError::Package(format!(
            "suite '{suite}' has no {NEWEST}; choose bookworm, bookworm-backports or trixie, or set {MIRROR} to the URI of an archive of Debian's"
        ))
    })?;
    apt.run("apt-get", &["download", &package])?;
    let archives = apt.directory.join("archives");
    let found = fs::read_dir(&archives)
        .map_err(file("reading", &archives))?
        .flatten()
        .map(|entry| entry.path())
        .find(|path| stem(path).starts_with(&format!("{package}_")))
        .ok_or_else(|| LabError::Package(format!("apt-get did not fetch {package}; try again")))?;
    let note = apt.directory.join("package");
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

/// The archive that [`MIRROR`] says, or else the first of this machine's own.
fn mirror() -> Result<String, LabError> {
    if let Ok(said) = std::env::var(MIRROR) {
        return Ok(said);
    }
    let mut own = Command::new("apt-get");
    own.args(["indextargets", "--format", "$(REPO_URI)", "Created-By: Packages"]);
    let own = String::from_utf8_lossy(&output(&mut own)?).into_owned();
    let first = own.lines().next().map(|uri| uri.trim_end_matches('/').to_owned());
    first.ok_or_else(|| {
        LabError::Package(format!(
            "apt knows of no archive; set {MIRROR} to the URI of one of Debian's"
        ))
    })
}

/// apt with a directory of its own and one suite.
struct Apt {
    directory: PathBuf,
    options: Vec<String>,
}

impl Apt {
    fn new(suite: &str, cache: &Path) -> Result<Self, LabError> {
        let directory = cache.join("apt").join(suite);
        for part in ["lists/partial", "cache/archives/partial", "archives"] {
            let path = directory.join(part);
            fs::create_dir_all(&path).map_err(file("making", &path))?;
        }
        let directory = directory.canonicalize().map_err(file("finding", &directory))?;
        let mirror = mirror()?;
        let sources = directory.join("sources.list");
        let line = format!("deb [signed-by={KEYRING}] {mirror} {suite} main\n");
        fs::write(&sources, line).map_err(file("writing", &sources))?;
        let at = |part: &str| directory.join(part).display().to_string();
        let options = vec![
            format!("Dir::Etc::sourcelist={}", at("sources.list")),
            "Dir::Etc::sourceparts=/dev/null".into(),
            format!("Dir::State::lists={}", at("lists")),
            format!("Dir::Cache={}", at("cache")),
            // The user that apt would become may not read this directory.
            "APT::Sandbox::User=root".into(),
        ];
        Ok(Self { directory, options })
    }

    fn run(&self, program: &str, arguments: &[&str]) -> Result<String, LabError> {
        let mut command = Command::new(program);
        self.options.iter().for_each(|option| {
            command.args(["-o", option]);
        });
        command.args(arguments).current_dir(self.directory.join("archives"));
        Ok(String::from_utf8_lossy(&output(&mut command)?).into_owned())
    }
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
