//! Notes in a file which modes self-tests saw refused, so the next link does not try them again.
//!
//! A self-test attaches a program to try a mode. Many drivers restart their NIC for that, and its
//! carrier is away for seconds. So a self-test notes which modes were refused, for this driver,
//! MTU, queue and kernel release. For [`GOOD_FOR`] no other self-test tries them again, unless they
//! are asked for by name or no other mode works.
//!
//! The chosen mode passes its own test in any case. So a wrong note can only keep a better mode
//! from being tried. Only this process's user can write a note: the directory and the file must
//! belong to that user, and no other user may be able to write them ([`own_files`]). A file of
//! another kernel or of another format is not read. Without such a directory nothing is noted.

use gigae_host::own_files::{self, OwnDirectory};
use std::path::Path;
use std::time::Duration;

/// Modes may become possible without a new kernel: by other settings of the NIC, or by new
/// firmware.
const GOOD_FOR: Duration = Duration::from_secs(3600);

/// Most bytes of a file. Each of at most six candidates has a line.
const LONGEST: usize = 4096;

/// Most characters of a reason.
const REASON: usize = 300;

/// The format of the file, in its first line.
const FORM: &str = "gigae self-test 1";

/// What earlier self-tests noted about a driver, and what this one adds.
pub(crate) struct Notes {
    /// The directory, and the file's name in it.
    place: Option<(OwnDirectory, String)>,
    release: String,
    /// What was refused, and why.
    refusals: Vec<(String, String)>,
    /// The age of the notes, if they are from an earlier self-test.
    age: Option<Duration>,
    changed: bool,
}

impl Notes {
    /// Reads the notes about a driver from a directory, which is made if it does not exist. Some
    /// ten system calls.
    pub(crate) fn read(directory: Option<&Path>, driver: &str, mtu: usize, queue: u32) -> Self {
        let release = gigae_host::proc::kernel_release();
        let mut notes = Self { place: None, release, refusals: vec![], age: None, changed: false };
        if !own_files::is_plain(driver) {
            return notes;
        }
        let Some(directory) = directory else { return notes };
        let Ok(opened) = OwnDirectory::open(directory) else { return notes };
        let file = format!("{driver}-{mtu}-{queue}");
        if let Some((text, age)) = opened.read(&file, LONGEST, GOOD_FOR)
            && let Some(refusals) = parse(&text, &notes.release)
        {
            (notes.refusals, notes.age) = (refusals, Some(age));
        }
        notes.place = Some((opened, file));
        notes
    }

    /// Whether an earlier self-test noted anything.
    pub(crate) fn are_there(&self) -> bool {
        self.age.is_some()
    }

    /// Why an earlier self-test saw this candidate refused, if it did.
    pub(crate) fn why(&self, candidate: &str) -> Option<String> {
        let (minutes, (directory, file)) = (self.age?.as_secs() / 60, self.place.as_ref()?);
        let (_, why) = self.refusals.iter().find(|(of, _)| of == candidate)?;
        let path = directory.path_of(file);
        Some(format!("{why}; noted {minutes} minutes ago in {}", path.display()))
    }

    /// This self-test saw the candidate refused.
    pub(crate) fn refused(&mut self, candidate: &str, why: &str) {
        self.works(candidate);
        let why = why.chars().map(|c| if c.is_control() { ' ' } else { c }).take(REASON).collect();
        self.refusals.push((candidate.to_owned(), why));
        self.changed = true;
    }

    /// This self-test saw the candidate work.
    pub(crate) fn works(&mut self, candidate: &str) {
        let before = self.refusals.len();
        self.refusals.retain(|(of, _)| of != candidate);
        self.changed |= self.refusals.len() != before;
    }

    /// Forgets everything, so all candidates are tried again.
    pub(crate) fn forget(&mut self) {
        self.changed |= !self.refusals.is_empty();
        (self.refusals, self.age) = (vec![], None);
    }

    /// Writes the notes for later self-tests, if there is anything new. If writing fails, they try
    /// again.
    pub(crate) fn keep(self) {
        let Some((directory, file)) = self.place.as_ref().filter(|_| self.changed) else {
            return;
        };
        let _ = match self.refusals.is_empty() {
            true => directory.remove(file),
            false => directory.write(file, &self.text()),
        };
    }

    fn text(&self) -> String {
        let line = |(candidate, why): &(String, String)| format!("{candidate}\t{why}\n");
        let lines: String = self.refusals.iter().map(line).collect();
        format!("{FORM}\t{}\n{lines}", self.release)
    }
}

/// The lines after the first, which must be of this format and this kernel.
fn parse(text: &str, release: &str) -> Option<Vec<(String, String)>> {
    let mut lines = text.lines();
    let (form, of) = lines.next()?.split_once('\t')?;
    if form != FORM || of != release || release.is_empty() {
        return None;
    }
    let fits = |why: &str| why.chars().count() <= REASON && !why.chars().any(char::is_control);
    let refusal = |line: &str| {
        let (candidate, why) = line.split_once('\t')?;
        fits(why).then(|| (candidate.to_owned(), why.to_owned()))
    };
    lines.map(refusal).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::{self, File};
    use std::os::unix::fs::{PermissionsExt, chown, symlink};
    use std::path::PathBuf;
    use std::time::SystemTime;

    const FILE: &str = "igb-1500-0";

    fn notes(directory: &Path) -> Notes {
        Notes::read(Some(directory), "igb", 1500, 0)
    }

    /// A directory of notes in which zero-copy is noted as refused.
    fn noted() -> (tempfile::TempDir, PathBuf) {
        let place = tempfile::tempdir().unwrap();
        let directory = place.path().canonicalize().unwrap().join("notes");
        let mut first = notes(&directory);
        assert!(!first.are_there() && first.why("zero-copy").is_none());
        first.refused("zero-copy", "binding:\nnot supported");
        assert!(first.why("zero-copy").is_none(), "this self-test's own are no earlier ones");
        first.keep();
        (place, directory)
    }

    #[test]
    fn what_was_refused_is_known_to_the_next_self_test_until_it_works() {
        let (_place, directory) = noted();
        let mut next = notes(&directory);
        let why = next.why("zero-copy").unwrap();
        assert!(why.starts_with("binding: not supported; noted 0 minutes ago in /"), "{why}");
        assert!(why.ends_with(FILE) && next.why("native").is_none(), "{why}");
        assert_eq!(fs::read_dir(&directory).unwrap().count(), 1, "no other file is left");
        next.works("zero-copy");
        next.keep();
        assert!(!notes(&directory).are_there() && !directory.join(FILE).exists());
    }

    #[test]
    fn notes_are_of_one_driver_mtu_queue_and_kernel() {
        let (_place, directory) = noted();
        let there =
            |driver, mtu, queue| Notes::read(Some(&directory), driver, mtu, queue).are_there();
        assert!(there("igb", 1500, 0));
        assert!(!there("igc", 1500, 0) && !there("igb", 9000, 0) && !there("igb", 1500, 1));
        assert!(!there("../igb", 1500, 0) && !there("", 1500, 0));
        let text = fs::read_to_string(directory.join(FILE)).unwrap();
        let (_, rest) = text.split_once('\n').unwrap();
        fs::write(directory.join(FILE), format!("{FORM}\t5.10.0-other\n{rest}")).unwrap();
        assert!(!there("igb", 1500, 0), "of another kernel");
    }

    #[test]
    fn old_notes_and_those_of_the_future_are_not_read() {
        let (_place, directory) = noted();
        let hour = Duration::from_secs(3601);
        for time in [SystemTime::now() - hour, SystemTime::now() + hour] {
            let file = File::options().write(true).open(directory.join(FILE)).unwrap();
            file.set_modified(time).unwrap();
            assert!(!notes(&directory).are_there());
        }
    }

    #[test]
    fn a_file_that_is_none_of_ours_is_not_read() {
        let (_place, directory) = noted();
        let path = directory.join(FILE);
        let good = fs::read_to_string(&path).unwrap();
        for bad in [
            String::new(),
            "zero-copy\tno\n".into(),
            format!("{good}no tab\n"),
            format!("{good}native\t\x1b[2J\n"),
            format!("{good}native\t{}\n", "x".repeat(REASON + 1)),
            format!("{good}{}", "native\tno\n".repeat(LONGEST / 8)),
            good.replace("self-test 1", "self-test 2"),
        ] {
            fs::write(&path, bad).unwrap();
            assert!(!notes(&directory).are_there());
        }
        fs::write(&path, [0xff, 0xfe]).unwrap();
        assert!(!notes(&directory).are_there(), "no text");
    }

    #[test]
    fn nothing_that_others_can_write_is_believed() {
        let (place, directory) = noted();
        let path = directory.join(FILE);
        let permit = |path: &Path, mode| {
            fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
        };
        for mode in [0o620, 0o602] {
            permit(&path, mode);
            assert!(!notes(&directory).are_there(), "{mode:o}");
        }
        permit(&path, 0o600);
        for mode in [0o770, 0o707] {
            permit(&directory, mode);
            assert!(!notes(&directory).are_there(), "{mode:o}");
        }
        permit(&directory, 0o700);
        assert!(notes(&directory).are_there());
        // Links to the file, to the directory, and to a parent of it.
        let aside = directory.join("aside");
        fs::rename(&path, &aside).unwrap();
        symlink(&aside, &path).unwrap();
        assert!(!notes(&directory).are_there());
        fs::rename(&aside, &path).unwrap();
        let link = place.path().join("link");
        symlink(&directory, &link).unwrap();
        assert!(notes(&directory).are_there() && !notes(&link).are_there());
        let way = place.path().join("way");
        symlink(directory.parent().unwrap(), &way).unwrap();
        assert!(!notes(&way.join("notes")).are_there());
        // Files of another user.
        if rustix::process::geteuid().is_root() {
            chown(&path, Some(1), None).unwrap();
            assert!(!notes(&directory).are_there());
            chown(&path, Some(0), None).unwrap();
            chown(&directory, Some(1), None).unwrap();
            assert!(!notes(&directory).are_there());
        }
    }

    #[test]
    fn nothing_is_written_through_a_link() {
        let (place, directory) = noted();
        let (path, victim) = (directory.join(FILE), place.path().join("victim"));
        fs::write(&victim, "mine").unwrap();
        fs::remove_file(&path).unwrap();
        symlink(&victim, &path).unwrap();
        let mut later = notes(&directory);
        later.refused("native", "no");
        later.keep();
        assert_eq!(fs::read_to_string(&victim).unwrap(), "mine");
        assert!(notes(&directory).why("native").is_some(), "the link was replaced");
    }

    #[test]
    fn without_a_directory_nothing_is_noted() {
        let mut none = Notes::read(None, "igb", 1500, 0);
        none.refused("zero-copy", "no");
        none.keep();
        let mut nowhere = notes(Path::new("/proc/no-such/notes"));
        nowhere.refused("zero-copy", "no");
        nowhere.keep();
    }
}
