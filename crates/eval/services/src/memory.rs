//! Less memory and a slower disk for a server: a control group (cgroups(7)) that it is in.
//!
//! The page cache belongs to the group whose process first read a page, so a file that does not fit
//! into the group's memory is read from the disk again and again. Version 2 of control groups is
//! taken where its controllers are there, and else version 1. The groups have this process's number
//! in their names; those of processes that are gone are removed at the next start ([`sweep`]).

use crate::error::ServiceError;
use gigae_host::proc::process;
use std::fs;
use std::io;
use std::os::linux::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// What the names of these groups begin with.
const PREFIX: &str = "gigae-memory-";

/// A group is empty a moment after its last process was waited for; it is tried so often.
const TRIES: u32 = 100;

/// The pause between two of these.
const PAUSE: Duration = Duration::from_millis(5);

/// Controllers of version 2: of memory, and of reading from disks.
const CONTROLLERS: [&str; 2] = ["memory", "io"];

/// A control group for a server.
#[derive(Debug)]
pub struct MemoryLimit {
    groups: Vec<Group>,
}

/// A group of a hierarchy: version 2 has one for everything, version 1 one for each controller.
#[derive(Debug)]
struct Group {
    directory: PathBuf,
    procs: PathBuf,
    /// The file that throttles reading.
    reads: Option<&'static str>,
}

impl Drop for MemoryLimit {
    fn drop(&mut self) {
        for group in &self.groups {
            for _ in 0..TRIES {
                match fs::remove_dir(&group.directory) {
                    Err(error) if error.kind() == io::ErrorKind::ResourceBusy => {
                        std::thread::sleep(PAUSE);
                    }
                    // What cannot be removed now goes at the next start.
                    _ => break,
                }
            }
        }
    }
}

impl MemoryLimit {
    /// A group with this many bytes of memory, for a server of these files that this process is
    /// about to start. Files on no disk are never read from it, so nothing would tell whether they
    /// fit.
    pub fn new(files: &Path, bytes: u64) -> Result<Self, ServiceError> {
        device_of(files).map_err(|why| ServiceError::Unavailable(format!("memory_mib: {why}")))?;
        Self::below(&Hierarchies::here(), bytes)
    }

    fn below(hierarchies: &Hierarchies, bytes: u64) -> Result<Self, ServiceError> {
        let refused = |why: io::Error| {
            ServiceError::Unavailable(format!(
                "a server's memory cannot be limited here: {why}; it needs root, outside of a container"
            ))
        };
        let mut limit = Self { groups: Vec::new() };
        match &hierarchies.unified {
            Some(parent) => {
                let group = limit.make(parent, Some("io.max")).map_err(refused)?;
                write(&group.join("memory.max"), &bytes.to_string()).map_err(refused)?;
                // Without swap there is no such file.
                let _ = write(&group.join("memory.swap.max"), "0");
            }
            None => {
                let [memory, reads] = [&hierarchies.memory, &hierarchies.block];
                let lacks = hierarchies.lacks.as_deref().unwrap_or("there is none to mount");
                let missing = || io::Error::other(format!("no memory controller: {lacks}"));
                let parent = memory.as_ref().ok_or_else(missing).map_err(refused)?;
                let group = limit.make(parent, None).map_err(refused)?;
                let file = group.join("memory.limit_in_bytes");
                write(&file, &bytes.to_string()).map_err(refused)?;
                if let Some(parent) = reads {
                    let file = "blkio.throttle.read_bps_device";
                    limit.make(parent, Some(file)).map_err(refused)?;
                }
            }
        }
        Ok(limit)
    }

    fn make(&mut self, parent: &Path, reads: Option<&'static str>) -> io::Result<PathBuf> {
        let directory = parent.join(format!("{PREFIX}{}", std::process::id()));
        // One that is there may have a limit of its own for disks; an empty one can go.
        let _ = fs::remove_dir(&directory);
        fs::create_dir(&directory)?;
        let procs = directory.join("cgroup.procs");
        self.groups.push(Group { directory: directory.clone(), procs, reads });
        Ok(directory)
    }

    /// Reading the disk of this file takes at least so long from now on, in bytes per second.
    pub fn throttle(&mut self, file: &Path, bytes_per_second: f64) -> Result<(), ServiceError> {
        let refused = |why: io::Error| {
            ServiceError::Unavailable(format!(
                "reading from the disk cannot be slowed down here: {why}; leave out disk_mbit"
            ))
        };
        let group = self.groups.iter().find(|group| group.reads.is_some());
        let missing = || io::Error::other("there is no controller for block devices");
        let group = group.ok_or_else(missing).map_err(refused)?;
        let device = device_of(file).map_err(refused)?;
        let name = group.reads.unwrap_or_default();
        let line = match name {
            "io.max" => format!("{device} rbps={bytes_per_second:.0}"),
            _ => format!("{device} {bytes_per_second:.0}"),
        };
        write(&group.directory.join(name), &line).map_err(refused)
    }

    /// The files into which a process writes its number to be in the group.
    pub(crate) fn groups(&self) -> Vec<&Path> {
        self.groups.iter().map(|group| group.procs.as_path()).collect()
    }

    /// A shell script that joins the groups whose files are its first arguments, and becomes the
    /// program behind them.
    pub(crate) fn script(&self) -> &'static str {
        match self.groups.len() {
            1 => "echo $$ >\"$1\" && shift && exec \"$@\"",
            _ => "echo $$ >\"$1\" && echo $$ >\"$2\" && shift 2 && exec \"$@\"",
        }
    }
}

fn write(file: &Path, text: &str) -> io::Result<()> {
    let name = file.file_name().unwrap_or_default().to_string_lossy().into_owned();
    fs::write(file, text).map_err(|error| io::Error::other(format!("{name}: {error}")))
}

/// The disk that a file is on, as `MAJOR:MINOR`: only whole disks can be throttled, not partitions.
fn device_of(file: &Path) -> io::Result<String> {
    let number = fs::metadata(file)?.st_dev();
    let (major, minor) = (rustix::fs::major(number), rustix::fs::minor(number));
    let place = fs::canonicalize(format!("/sys/dev/block/{major}:{minor}"))
        .map_err(|_| io::Error::other("the files are on no disk; set TMPDIR"))?;
    let whole = if place.join("partition").exists() { place.parent() } else { Some(&*place) };
    let file = whole.unwrap_or(&place).join("dev");
    Ok(fs::read_to_string(file)?.trim().to_owned())
}

/// Where groups for this process's servers can be made.
#[derive(Debug, Default)]
struct Hierarchies {
    /// Of version 2, if it has the controllers.
    unified: Option<PathBuf>,
    /// What to do so that version 2 has them.
    lacks: Option<String>,
    /// The memory controller of version 1.
    memory: Option<PathBuf>,
    /// That of block devices.
    block: Option<PathBuf>,
}

impl Hierarchies {
    fn here() -> Self {
        let read = |file| fs::read_to_string(file).unwrap_or_default();
        Self::of(&read("/proc/self/mounts"), &read("/proc/self/cgroup"))
    }

    /// By the text of `/proc/self/mounts` and `/proc/self/cgroup`.
    fn of(mounts: &str, cgroups: &str) -> Self {
        let mounts: Vec<Vec<&str>> =
            mounts.lines().map(|line| line.split(' ').collect::<Vec<_>>()).collect();
        let mount = |kind: &str, option: &str| {
            let fits = |words: &&Vec<&str>| {
                words.get(2) == Some(&kind)
                    && (option.is_empty() || words.get(3).is_some_and(|all| has(all, option)))
            };
            mounts.iter().find(fits).and_then(|words| words.get(1)).map(PathBuf::from)
        };
        let own = |controller: &str| {
            cgroups.lines().find_map(|line| {
                let mut parts = line.splitn(3, ':').skip(1);
                let (names, path) = (parts.next()?, parts.next()?);
                let fits =
                    if controller.is_empty() { names.is_empty() } else { has(names, controller) };
                fits.then(|| path.trim_start_matches('/').to_owned())
            })
        };
        let version_1 = |name: &str| Some(mount("cgroup", name)?.join(own(name)?));
        let unified = mount("cgroup2", "").zip(own("")).map(|(root, path)| root.join(path));
        let (unified, lacks) = match unified.map(|own| above(&own)) {
            None => (None, None),
            Some(Ok(parent)) => (Some(parent), None),
            Some(Err(lacks)) => (None, Some(lacks)),
        };
        Self { unified, lacks, memory: version_1("memory"), block: version_1("blkio") }
    }
}

fn has(list: &str, name: &str) -> bool {
    list.split(',').any(|one| one == name)
}

/// Where a group of version 2 may be: in the first one above that of this process, or in the root,
/// that gives its members both controllers. A session's own group often lacks `io`. Else what the
/// root lacks.
fn above(own: &Path) -> Result<PathBuf, String> {
    // Only the root has no such file.
    let is_root = |group: &Path| !group.join("cgroup.type").exists();
    let first = if is_root(own) { own } else { own.parent().unwrap_or(own) };
    for group in first.ancestors() {
        let file = group.join("cgroup.subtree_control");
        let control = fs::read_to_string(&file).unwrap_or_default();
        let lacks = |name: &&&str| !control.split_whitespace().any(|one| one == **name);
        let lacks: Vec<String> =
            CONTROLLERS.iter().filter(lacks).map(|it| format!("+{it}")).collect();
        match (lacks.is_empty(), is_root(group)) {
            (true, _) => return Ok(group.to_owned()),
            (false, false) => {}
            (false, true) => {
                return Err(format!("write '{}' into {}", lacks.join(" "), file.display()));
            }
        }
    }
    Err("there are no control groups".to_owned())
}

/// Removes the groups of processes that are gone.
pub fn sweep() {
    let here = Hierarchies::here();
    for parent in [here.unified, here.memory, here.block].into_iter().flatten() {
        for entry in fs::read_dir(parent).into_iter().flatten().flatten() {
            let name = entry.file_name().to_string_lossy().into_owned();
            let pid = name.strip_prefix(PREFIX).and_then(|pid| pid.parse::<u32>().ok());
            if pid.is_some_and(|pid| !process::exists(pid)) {
                let _ = fs::remove_dir(entry.path());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(directory: &Path, file: &str) -> String {
        fs::read_to_string(directory.join(file)).unwrap()
    }

    #[test]
    fn version_2_is_taken_where_it_has_both_controllers() {
        let place = tempfile::tempdir().unwrap();
        let root = place.path().join("unified");
        // A session of systemd gives its members no `io`.
        fs::create_dir_all(root.join("user.slice/session.scope")).unwrap();
        for group in ["user.slice", "user.slice/session.scope"] {
            fs::write(root.join(group).join("cgroup.type"), "domain\n").unwrap();
        }
        fs::write(root.join("user.slice/cgroup.subtree_control"), "memory pids\n").unwrap();
        let mounts = format!(
            "x / ext4 rw 0 0\nx {0}/memory cgroup rw,memory 0 0\nx {0}/unified cgroup2 rw 0 0\n",
            place.path().display()
        );
        let cgroups = "4:memory:/\n0::/user.slice/session.scope\n";
        for (controllers, wanted) in [("cpu memory io\n", true), ("cpu memory\n", false)] {
            fs::write(root.join("cgroup.subtree_control"), controllers).unwrap();
            let found = Hierarchies::of(&mounts, cgroups);
            assert_eq!(found.unified.is_some(), wanted, "{controllers}");
            assert_eq!(found.memory, Some(place.path().join("memory/")));
        }
        let alone = Hierarchies::of(&mounts, "0::/user.slice/session.scope\n");
        let error = MemoryLimit::below(&alone, 1).unwrap_err().to_string();
        let file = root.join("cgroup.subtree_control");
        let wanted = format!("write '+io' into {};", file.display());
        assert!(error.contains(&wanted) && !error.contains('\n'), "{error}");
        fs::write(file, "memory io\n").unwrap();
        let mut limit = MemoryLimit::below(&Hierarchies::of(&mounts, cgroups), 64 << 20).unwrap();
        let group = limit.groups[0].directory.clone();
        assert_eq!(read(&group, "memory.max"), (64 << 20).to_string());
        assert_eq!((limit.groups().len(), group.parent()), (1, Some(&*root)));
        if device_of(place.path()).is_ok() {
            limit.throttle(place.path(), 6e6).unwrap();
            assert!(read(&group, "io.max").ends_with(" rbps=6000000"));
        }
    }

    #[test]
    fn version_1_has_a_group_for_each_controller() {
        let place = tempfile::tempdir().unwrap();
        for name in ["memory", "blkio"] {
            fs::create_dir_all(place.path().join(name).join("user")).unwrap();
        }
        let mounts = format!(
            "x {0}/memory cgroup rw,memory 0 0\nx {0}/blkio cgroup rw,blkio 0 0\n",
            place.path().display()
        );
        let found = Hierarchies::of(&mounts, "7:blkio:/user\n4:memory:/user\n");
        let limit = MemoryLimit::below(&found, 1 << 20).unwrap();
        assert_eq!(limit.groups().len(), 2);
        let group = &limit.groups[0].directory;
        assert_eq!(read(group, "memory.limit_in_bytes"), "1048576");
        assert_eq!(group.parent(), Some(&*place.path().join("memory/user")));
    }

    #[test]
    fn without_controllers_the_reason_is_one_line() {
        let error = MemoryLimit::below(&Hierarchies::default(), 1).unwrap_err().to_string();
        assert!(error.contains("no memory controller") && !error.contains('\n'), "{error}");
    }
}
