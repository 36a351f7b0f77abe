//! What was measured about backends on this machine, noted in a file for [`Backend::Auto`].
//!
//! On one processor AF_PACKET has the shorter round trip, on another AF_XDP's generic mode, so
//! nothing can be assumed. An endpoint cannot measure it when it is opened: a round trip takes a
//! peer that answers, and two CPUs for a second. So `gigae eval --plan backend --remember` measures
//! it, and this note tells later endpoints. A note is for one driver, MTU and kernel release, for
//! [`GOOD_FOR`] at most, and it is gone when the machine restarts. Only this process's user can
//! write it ([`own_files`]).
//!
//! A note can only choose between two backends that both pass their own tests at each opening.
//!
//! [`Backend::Auto`]: crate::Backend::Auto

use gigae_host::own_files::{self, OwnDirectory};
use gigae_host::proc::kernel_release;
use gigae_link::{Interface, OpenError};
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Settings of the interface and firmware change without a new kernel.
const GOOD_FOR: Duration = Duration::from_secs(30 * 24 * 3600);

/// Most bytes of a file: a line for the format and the kernel, one for the figures.
const LONGEST: usize = 512;

/// The format of the file, in its first line.
const FORM: &str = "gigae backends 1";

/// Longest plausible round trip, and the longest that is read.
const MOST: Duration = Duration::from_secs(1);

/// Generic mode must be shorter by this share of AF_PACKET's round trip: it costs long messages and
/// the kernel's TCP something. Two per cent.
const LEAST_GAIN: u32 = 50;

/// Round trips of short messages over the two backends that [`Backend::Auto`] chooses between where
/// a driver has no XDP mode of its own.
///
/// [`Backend::Auto`]: crate::Backend::Auto
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MeasuredBackends {
    /// Over AF_PACKET.
    pub packet: Duration,
    /// Over AF_XDP in generic mode.
    pub generic: Duration,
}

impl MeasuredBackends {
    /// Whether generic mode is the better choice for short messages.
    pub fn prefers_generic(&self) -> bool {
        self.generic + self.packet / LEAST_GAIN <= self.packet
    }

    /// Notes the figures for later endpoints of this user on interfaces of this driver and MTU, on
    /// the kernel that runs now. Returns the path of the file.
    pub fn remember(&self, driver: &str, mtu: usize) -> io::Result<PathBuf> {
        let directory = own_files::usual_directory().ok_or_else(|| {
            io::Error::new(io::ErrorKind::NotFound, "XDG_RUNTIME_DIR names no directory")
        })?;
        self.write(&directory, driver, mtu)
    }

    fn write(&self, directory: &Path, driver: &str, mtu: usize) -> io::Result<PathBuf> {
        let file = file(driver, mtu)
            .ok_or_else(|| io::Error::new(io::ErrorKind::InvalidInput, "no driver is known"))?;
        let directory = OwnDirectory::open(directory)?;
        let (packet, generic) = (self.packet.as_nanos(), self.generic.as_nanos());
        let text = format!("{FORM}\t{}\n{packet}\t{generic}\n", kernel_release());
        directory.write(&file, &text)?;
        Ok(directory.path_of(&file))
    }

    /// What is noted for an interface.
    pub(crate) fn of(interface: &str) -> Option<Self> {
        let interface = Interface::find(interface).ok()?;
        let directory = own_files::usual_directory().filter(|path| path.exists())?;
        Self::read(&directory, &interface.driver()?, interface.mtu)
    }

    fn read(directory: &Path, driver: &str, mtu: usize) -> Option<Self> {
        let directory = OwnDirectory::open(directory).ok()?;
        let (text, _) = directory.read(&file(driver, mtu)?, LONGEST, GOOD_FOR)?;
        parse(&text, &kernel_release())
    }
}

/// Why an endpoint has its link, for [`gigae_link::Info::reason`].
#[derive(Default)]
pub(crate) struct Choice {
    /// What refused a better one.
    pub(crate) refused: Option<OpenError>,
    /// What was measured before, if that had a say.
    pub(crate) measured: Option<MeasuredBackends>,
}

impl fmt::Display for MeasuredBackends {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let micros = |time: Duration| time.as_secs_f64() * 1e6;
        let (packet, generic) = (micros(self.packet), micros(self.generic));
        write!(
            f,
            "measured here, a round trip takes {packet:.2} us over AF_PACKET and {generic:.2} us over AF_XDP's generic mode"
        )
    }
}

/// The name of the file, unless the driver's name is none for a file.
fn file(driver: &str, mtu: usize) -> Option<String> {
    own_files::is_plain(driver).then(|| format!("{driver}-{mtu}.backends"))
}

/// The figures of a note of this format and this kernel.
fn parse(text: &str, release: &str) -> Option<MeasuredBackends> {
    let mut lines = text.lines();
    let (form, of) = lines.next()?.split_once('\t')?;
    let (packet, generic) = lines.next()?.split_once('\t')?;
    if form != FORM || of != release || release.is_empty() || lines.next().is_some() {
        return None;
    }
    let time = |text: &str| {
        let time = Duration::from_nanos(text.parse().ok()?);
        (Duration::ZERO < time && time <= MOST).then_some(time)
    };
    Some(MeasuredBackends { packet: time(packet)?, generic: time(generic)? })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::{PermissionsExt, symlink};

    const FIGURES: MeasuredBackends = measured(3_400, 2_740);

    const fn measured(packet: u64, generic: u64) -> MeasuredBackends {
        MeasuredBackends {
            packet: Duration::from_nanos(packet),
            generic: Duration::from_nanos(generic),
        }
    }

    fn noted() -> (tempfile::TempDir, PathBuf, PathBuf) {
        let place = tempfile::tempdir().unwrap();
        let directory = place.path().canonicalize().unwrap().join("notes");
        let path = FIGURES.write(&directory, "veth", 1500).unwrap();
        (place, directory, path)
    }

    #[test]
    fn generic_mode_must_be_two_per_cent_shorter() {
        assert!(FIGURES.prefers_generic() && measured(1_000, 980).prefers_generic());
        assert!(!measured(1_000, 981).prefers_generic());
        assert!(!measured(2_270, 2_340).prefers_generic());
    }

    #[test]
    fn a_note_is_of_one_driver_mtu_and_kernel() {
        let (_place, directory, path) = noted();
        let there = |driver, mtu| MeasuredBackends::read(&directory, driver, mtu);
        assert_eq!(there("veth", 1500), Some(FIGURES));
        for (driver, mtu) in [("tun", 1500), ("veth", 9000), ("", 1500), ("../veth", 1500)] {
            assert_eq!(there(driver, mtu), None);
        }
        for driver in ["", "../veth"] {
            assert!(FIGURES.write(&directory, driver, 1500).is_err());
        }
        let text = fs::read_to_string(&path).unwrap();
        fs::write(&path, text.replacen(&kernel_release(), "5.10.0-other", 1)).unwrap();
        assert_eq!(there("veth", 1500), None, "of another kernel");
    }

    #[test]
    fn a_note_that_is_not_of_this_form_is_not_read() {
        let good = format!("{FORM}\t6.18\n3400\t2740\n");
        assert_eq!(parse(&good, "6.18"), Some(FIGURES));
        for bad in [
            String::new(),
            good.replace("backends 1", "backends 2"),
            good.replace("2740", "0"),
            good.replace("2740", "-2740"),
            good.replace("2740", "1000000001"),
            good.replace("2740", "99999999999999999999999"),
            good.replace("2740", "2740\t1"),
            good.replace("3400\t", "3400 "),
            format!("{good}more\n"),
        ] {
            assert_eq!(parse(&bad, "6.18"), None, "{bad:?}");
        }
        assert_eq!(parse(&good.replace("6.18", ""), ""), None, "of no known kernel");
        let (_place, directory, path) = noted();
        fs::write(&path, "x".repeat(LONGEST + 1)).unwrap();
        assert_eq!(MeasuredBackends::read(&directory, "veth", 1500), None);
    }

    #[test]
    fn a_note_that_others_could_write_is_not_read() {
        let (_place, directory, path) = noted();
        let there = || MeasuredBackends::read(&directory, "veth", 1500).is_some();
        let permit = |path: &Path, mode| {
            fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
        };
        for (changed, bad, good) in [(&path, 0o602, 0o600), (&directory, 0o720, 0o700)] {
            assert!(there());
            permit(changed, bad);
            assert!(!there(), "{}", changed.display());
            permit(changed, good);
        }
        let aside = directory.join("aside");
        fs::rename(&path, &aside).unwrap();
        symlink(&aside, &path).unwrap();
        assert!(!there(), "by a symbolic link");
        FIGURES.write(&directory, "veth", 1500).unwrap();
        assert!(there() && fs::symlink_metadata(&path).unwrap().is_file(), "the link is replaced");
    }
}
