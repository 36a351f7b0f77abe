//! Packages of Debian's archive, fetched by apt with its own lists and cache: nothing is installed,
//! and those of the machine stay as they are.

use super::{LabError, file, output};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Says where packages come from; without it, from where this machine has its own.
pub(super) const MIRROR: &str = "DEBIAN_MIRROR";

/// Whose signatures are trusted.
const KEYRING: &str = "/usr/share/keyrings/debian-archive-keyring.gpg";

/// apt with its own directory and one suite.
pub(super) struct Apt {
    /// Where it keeps everything.
    pub(super) directory: PathBuf,
    options: Vec<String>,
}

impl Apt {
    /// Of a suite ("bookworm-backports"), below the cache. Fetches nothing.
    pub(super) fn new(suite: &str, cache: &Path) -> Result<Self, LabError> {
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
            // What is installed would be chosen before a suite of backports.
            "Dir::State::status=/dev/null".into(),
            format!("Dir::State::lists={}", at("lists")),
            format!("Dir::Cache={}", at("cache")),
            // The user that apt would become may not read this directory.
            "APT::Sandbox::User=root".into(),
        ];
        Ok(Self { directory, options })
    }

    /// Fetches the suite's list of packages.
    pub(super) fn update(&self) -> Result<(), LabError> {
        self.run("apt-get", &["update"]).map(drop)
    }

    /// What the list says of a package; nothing if it has none of that name.
    pub(super) fn show(&self, package: &str) -> Result<String, LabError> {
        self.run("apt-cache", &["show", "--no-all-versions", package])
    }

    /// Where the file of this name is, if it was fetched.
    pub(super) fn file(&self, name: &str) -> Option<PathBuf> {
        let path = self.directory.join("archives").join(name);
        (!name.is_empty() && path.exists()).then_some(path)
    }

    /// Fetches packages; their files.
    pub(super) fn download(&self, packages: &[&str]) -> Result<Vec<PathBuf>, LabError> {
        // Of what lies there already, apt would not say the name.
        let elsewhere = &self.directory;
        let plan = [&["--print-uris", "download"], packages].concat();
        let planned = self.run_in(elsewhere, "apt-get", &plan)?;
        self.run("apt-get", &[&["download"], packages].concat())?;
        let missing = || {
            LabError::Package(format!("apt-get did not fetch {}; try again", packages.join(", ")))
        };
        let files = files(&planned);
        match files.len() == packages.len() {
            true => files.iter().map(|name| self.file(name).ok_or_else(missing)).collect(),
            false => Err(missing()),
        }
    }

    fn run(&self, program: &str, arguments: &[&str]) -> Result<String, LabError> {
        self.run_in(&self.directory.join("archives"), program, arguments)
    }

    fn run_in(
        &self,
        directory: &Path,
        program: &str,
        arguments: &[&str],
    ) -> Result<String, LabError> {
        let mut command = Command::new(program);
        self.options.iter().for_each(|option| {
            command.args(["-o", option]);
        });
        command.args(arguments).current_dir(directory);
        Ok(String::from_utf8_lossy(&output(&mut command)?).into_owned())
    }
}

/// Names of the files in what `--print-uris` says: `'URI' NAME SIZE HASH`.
fn files(planned: &str) -> Vec<String> {
    let of = |line: &str| {
        let (_, rest) = line.strip_prefix('\'')?.split_once("' ")?;
        Some(rest.split_whitespace().next()?.to_owned())
    };
    planned.lines().filter_map(of).collect()
}

/// Unpacks a package into a directory, once: a second time nothing happens.
pub(super) fn unpack(packages: &[PathBuf], directory: &Path) -> Result<(), LabError> {
    let done = directory.join("done");
    if done.exists() {
        return Ok(());
    }
    fs::create_dir_all(directory).map_err(file("making", directory))?;
    for package in packages {
        output(Command::new("dpkg-deb").arg("-x").arg(package).arg(directory))?;
    }
    fs::write(&done, "").map_err(file("writing", &done))
}

/// The archive that [`MIRROR`] says, or else the first of this machine's own.
fn mirror() -> Result<String, LabError> {
    if let Ok(said) = std::env::var(MIRROR) {
        return Ok(said);
    }
    let mut own = Command::new("apt-get");
    own.args(["indextargets", "--format", "$(REPO_URI)", "Created-By: Packages"]);
    let own = String::from_utf8_lossy(&output(&mut own)?).into_owned();
    archive(&own).ok_or_else(|| {
        LabError::Package(format!(
            "apt knows of no archive; set {MIRROR} to the URI of one of Debian's"
        ))
    })
}

/// Of the URIs that a machine's packages come from, a line each, the archive itself and not that of
/// security updates or of another vendor's packages, as far as names show.
fn archive(uris: &str) -> Option<String> {
    let all = || uris.lines().map(|uri| uri.trim_end_matches('/'));
    all().find(|uri| uri.ends_with("/debian")).or_else(|| all().next()).map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_the_archives_of_a_machine_debians_own_is_taken() {
        let uris = "http://a/debian-security/\nhttp://a/debian/\n";
        assert_eq!(archive(uris).as_deref(), Some("http://a/debian"));
        assert_eq!(archive("http://a/mirror/\n").as_deref(), Some("http://a/mirror"));
        assert_eq!(archive(""), None);
    }

    #[test]
    fn files_are_named_by_what_apt_plans_to_fetch() {
        let planned =
            "'http://a/pool/q_1%253a10_amd64.deb' q_1%3a10_amd64.deb 12 SHA256:ab\nNote\n";
        assert_eq!(files(planned), ["q_1%3a10_amd64.deb"]);
    }

    #[test]
    fn what_was_unpacked_is_not_unpacked_again_and_what_is_no_package_is_an_error() {
        let directory = tempfile::tempdir().unwrap();
        let broken = directory.path().join("broken.deb");
        fs::write(&broken, "none").unwrap();
        let root = directory.path().join("root");
        assert!(unpack(std::slice::from_ref(&broken), &root).is_err());
        fs::write(root.join("done"), "").unwrap();
        assert!(unpack(&[broken], &root).is_ok());
    }
}
