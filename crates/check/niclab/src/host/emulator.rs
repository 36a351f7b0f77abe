//! QEMU: this machine's, or one that is fetched and not installed.

use super::apt::{self, Apt};
use super::{LabError, output};
use std::path::{Path, PathBuf};
use std::process::Command;

/// Its program.
const PROGRAM: &str = "qemu-system-x86_64";

/// The first version that divides the count of instructions among a guest's processors, as its
/// commit 83ecdb18eb65 ("accel/tcg/tcg-accel-ops-rr: ensure fairness with icount", May 2023) did.
/// In earlier ones the first processor, waiting for the second one to start, uses the count up.
const LEAST: [u32; 2] = [8, 1];

/// Where a newer one is than Debian 12's, built for the same libraries.
const SUITE: &str = "bookworm-backports";

/// What it consists of. Its libraries and its BIOS are those that the installed one came with.
const PACKAGES: [&str; 3] = ["qemu-system-x86", "qemu-system-common", "qemu-system-data"];

/// Of Debian's BIOS, which is a separate package.
const BIOS: &str = "/usr/share/seabios";

/// A QEMU that guests with several processors can be run on.
#[derive(Clone, Debug)]
pub struct Emulator {
    /// Its version, with what the distribution calls it.
    pub version: String,
    /// The program.
    pub program: PathBuf,
    /// Directories of its firmware, if it is not where it was built for.
    pub firmware: Vec<PathBuf>,
}

impl Emulator {
    /// This machine's, or the one of Debian's backports if this machine's is too old.
    pub fn find(cache: &Path) -> Result<Self, LabError> {
        let own = Self::at(PROGRAM.into(), Vec::new())?;
        if is_recent(&own.version) {
            return Ok(own);
        }
        Self::fetch(&own.version, cache).map_err(|error| {
            LabError::Package(format!(
                "QEMU here is {}, which cannot count instructions for two processors, and one of Debian's {SUITE} \
                 cannot be had ({error}); install QEMU {}.{} or later",
                own.version, LEAST[0], LEAST[1]
            ))
        })
    }

    /// One from the distribution's packages, unless it was fetched before, since `own` is too old.
    fn fetch(own: &str, cache: &Path) -> Result<Self, LabError> {
        let root = cache.join("qemu");
        if !root.join("done").exists() {
            println!("QEMU {own} cannot count for two processors: fetching a newer one");
            let apt = Apt::new(SUITE, cache)?;
            apt.update()?;
            apt::unpack(&apt.download(&PACKAGES)?, &root)?;
        }
        let firmware = vec![root.join("usr/share/qemu"), BIOS.into()];
        Self::at(root.join("usr/bin").join(PROGRAM), firmware)
    }

    /// The one of this program, which must run.
    fn at(program: PathBuf, firmware: Vec<PathBuf>) -> Result<Self, LabError> {
        let said = output(Command::new(&program).arg("--version"))?;
        let version = version(&String::from_utf8_lossy(&said));
        Ok(Self { version, program, firmware })
    }

    /// The command of a guest, of which only the machine is missing.
    pub fn command(&self) -> Command {
        let mut command = Command::new("setpriv");
        // QEMU ends with this process, even after SIGKILL.
        command.args(["--pdeathsig", "KILL", "--"]).arg(&self.program);
        self.firmware.iter().for_each(|directory| {
            command.arg("-L").arg(directory);
        });
        command
    }
}

/// The version in "QEMU emulator version 10.0.2 (Debian 1:10.0.2+ds-2)".
fn version(said: &str) -> String {
    said.split_whitespace().nth(3).unwrap_or("unknown").to_owned()
}

fn is_recent(version: &str) -> bool {
    let mut words = version.split('.').map(|word| word.parse().unwrap_or(0));
    [words.next().unwrap_or(0), words.next().unwrap_or(0)] >= LEAST
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_version_is_recent_if_its_count_is_shared_among_processors() {
        let said = "QEMU emulator version 7.2.22 (Debian 1:7.2+dfsg-7)\nCopyright (c) 2003-2022\n";
        assert_eq!(version(said), "7.2.22");
        for old in ["7.2.22", "8.0.5", "unknown", ""] {
            assert!(!is_recent(old), "{old}");
        }
        for new in ["8.1.0", "8.2.2", "10.0.2", "11"] {
            assert!(is_recent(new), "{new}");
        }
    }

    #[test]
    fn a_qemu_that_was_fetched_finds_its_firmware() {
        let emulator = Emulator {
            version: "10.0.2".into(),
            program: "q/usr/bin/qemu".into(),
            firmware: vec!["q/usr/share/qemu".into(), BIOS.into()],
        };
        let command = emulator.command();
        let words: Vec<_> = command.get_args().map(|word| word.to_string_lossy()).collect();
        let all = ["--pdeathsig", "KILL", "--", "q/usr/bin/qemu", "-L", "q/usr/share/qemu"];
        assert_eq!(
            (&words[..6], &words[6..]),
            (&all.map(Into::into)[..], &["-L".into(), BIOS.into()][..])
        );
    }
}
