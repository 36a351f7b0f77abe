//! A test by one program: what it finds, what it does, what it says, and what is left of it.

use super::value::MountValue;
use super::{bonnie, fio, stat};
use gigae_eval_model::mount_figure::FioPattern;

/// A script, and where it runs.
pub(super) struct Step {
    /// At the server; else where the program runs.
    pub(super) at_server: bool,
    pub(super) what: &'static str,
    pub(super) script: String,
}

/// What a program says, and how many seconds it took.
type Read = Box<dyn Fn(&str, f64) -> Option<Vec<MountValue>>>;

pub(super) struct Job {
    /// Makes the files that the program finds. Then they are in no cache.
    pub(super) make: Option<Step>,
    /// The command that results name.
    pub(super) command: String,
    /// What runs, if that is more.
    pub(super) script: Option<String>,
    pub(super) read: Read,
    /// Removes what is left.
    pub(super) remove: Option<Step>,
}

impl Job {
    pub(super) fn fio(directory: &str, pattern: FioPattern, mib: u64) -> Self {
        let command = fio::words(directory, pattern, mib).join(" ");
        Self {
            make: Some(Step {
                at_server: false,
                what: "make a file for fio",
                script: format!("{command} --create_only=1 >/dev/null && sync"),
            }),
            command,
            script: None,
            read: Box::new(move |said, _| fio::read(pattern, said)),
            remove: Some(Step {
                at_server: false,
                what: "remove a file",
                script: format!("rm -f {directory}/{}", fio::FILE),
            }),
        }
    }

    /// `sizes`: MiB of files and of the guest's memory.
    pub(super) fn bonnie(directory: &str, sizes: [u64; 2], files: u32, bytes: bool) -> Self {
        let read = |said: &str, value| {
            let mut values = bonnie::read(said)?;
            if !values.is_empty() {
                let (what, unit) = ("whole run", "s");
                values.push(MountValue { what, unit, value, range: None, cpu: None });
            }
            Some(values)
        };
        Self {
            make: None,
            command: bonnie::words(directory, sizes, files, bytes).join(" "),
            script: None,
            read: Box::new(read),
            remove: None,
        }
    }

    pub(super) fn stat(directory: &str, files: u32) -> Self {
        let at_server = true;
        Self {
            make: Some(Step {
                at_server,
                what: "make small files",
                script: stat::make_script(files),
            }),
            command: stat::words(directory).join(" "),
            script: Some(stat::script(directory, files)),
            read: Box::new(move |said, _| stat::read(files, said)),
            remove: Some(Step {
                at_server,
                what: "remove small files",
                script: stat::remove_script(),
            }),
        }
    }
}
