//! A slower CPU: the measuring process in its own cgroup, with a quota of CPU time: `cpu.max` of
//! version 2 (the kernel's documentation, `admin-guide/cgroup-v2.rst`), and where the CPU
//! controller is in version 1, `cpu.cfs_quota_us` (`scheduler/sched-bwc.rst`).
//!
//! The quota is handed out in portions of 1 ms, the least that there are, so that an end stops for
//! short times and often. The cgroup has the number of the process in its name. In version 2 it is
//! beside the process's own. In version 1 it is below it, so that a limit of the process's own
//! cgroup still holds.
//!
//! The kernel removes no cgroup of a killed process. That cgroup is empty and slows no process. The
//! run's guardian removes it ([`remove_of`]), or else the next start that is in the
//! same parent cgroup ([`sweep`]), unless another process has its number then.

use super::interface::TunedInterface;
use super::knob::{Absent, Knob, KnobForm, number};
use gigae_eval_model::knobs::KnobOwner;
use gigae_host::proc::process;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

pub(super) struct Quota;

pub(super) const CPU_QUOTA: Quota = Quota;

/// Microseconds of CPU time in a period: the least that the kernel takes.
const PORTION: u32 = 1000;

/// Without a quota.
const OFF: &str = "off";

/// What the names of these cgroups begin with.
const PREFIX: &str = "gigae-quota-";

/// A cgroup can be removed a moment after its last process has ended; it is tried this often.
const TRIES: u32 = 400;

/// The pause between two of these.
const PAUSE: Duration = Duration::from_millis(5);

/// The two interfaces of control groups.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Version {
    One,
    Two,
}

/// Where the cgroup of a process is, and where one with a quota may be made for it.
#[derive(Debug)]
struct Hierarchy {
    version: Version,
    own: PathBuf,
    parent: PathBuf,
}

impl Hierarchy {
    /// Those that are mounted, version 2 first, whether they have the CPU controller or not.
    fn mounted(proc: &Path) -> Vec<Self> {
        let read = |file| fs::read_to_string(proc.join("self").join(file)).unwrap_or_default();
        let (mounts, cgroups) = (read("mounts"), read("cgroup"));
        let of = |version| Self::of(&mounts, &cgroups, version);
        [Version::Two, Version::One].into_iter().filter_map(of).collect()
    }

    fn of(mounts: &str, cgroups: &str, version: Version) -> Option<Self> {
        let has_cpu = |list: &str| list.split(',').any(|one| one == "cpu");
        let mut mounts = mounts.lines().map(|line| line.split(' ').collect::<Vec<_>>());
        let mount = mounts.find(|words| match version {
            Version::Two => words.get(2) == Some(&"cgroup2"),
            Version::One => {
                words.get(2) == Some(&"cgroup") && words.get(3).is_some_and(|all| has_cpu(all))
            }
        })?;
        let path = cgroups.lines().find_map(|line| {
            let mut parts = line.splitn(3, ':').skip(1);
            let (controllers, path) = (parts.next()?, parts.next()?);
            let mine = match version {
                Version::Two => controllers.is_empty(),
                Version::One => has_cpu(controllers),
            };
            mine.then(|| path.trim_start_matches('/'))
        })?;
        let mount = Path::new(mount[1]);
        // A container may see its own cgroup as the root.
        let own =
            Some(mount.join(path)).filter(|own| own.is_dir()).unwrap_or_else(|| mount.to_owned());
        let beside = || match own.join("cgroup.type").exists() {
            true => own.parent().unwrap_or(&own).to_owned(),
            // Only the root has no such file.
            false => own.clone(),
        };
        let parent = match version {
            Version::Two => beside(),
            // While the process is in the one with a quota, that one is its own.
            Version::One if is_of_a_run(&own) => own.parent()?.to_owned(),
            Version::One => own.clone(),
        };
        Some(Self { version, own, parent })
    }

    /// The one whose cgroups can have a quota.
    fn with_quota(proc: &Path) -> Result<Self, Absent> {
        let mut mounted = Self::mounted(proc);
        if mounted.is_empty() {
            return Err(Absent::new("there are no cgroups here"));
        }
        let found = mounted.iter().position(Self::has_quota);
        found.map(|place| mounted.swap_remove(place)).ok_or_else(|| {
            Absent::new("the cgroup of this process has no CPU controller with quotas")
        })
    }

    fn has_quota(&self) -> bool {
        match self.version {
            Version::Two => {
                let file = self.parent.join("cgroup.subtree_control");
                let control = fs::read_to_string(file).unwrap_or_default();
                control.split_whitespace().any(|name| name == "cpu")
            }
            // The root of the hierarchy has this file only if the kernel has quotas.
            Version::One => self.parent.join("cpu.cfs_quota_us").exists(),
        }
    }

    /// The cgroup with the quota of this process.
    fn mine(&self) -> PathBuf {
        self.parent.join(name(std::process::id()))
    }

    /// The quota of this process's cgroup as a percentage.
    fn percent(&self) -> Option<String> {
        let read = |file| fs::read_to_string(self.mine().join(file)).unwrap_or_default();
        let text = match self.version {
            Version::Two => read("cpu.max"),
            Version::One => read("cpu.cfs_quota_us") + " " + &read("cpu.cfs_period_us"),
        };
        let words: Vec<f64> = text.split_whitespace().map_while(|word| word.parse().ok()).collect();
        match words[..] {
            [quota, period] if quota > 0.0 => Some(format!("{:.0}", quota / period * 100.0)),
            _ => None,
        }
    }

    /// Version 1 refuses more than a cgroup above has.
    fn advise(&self, error: io::Error) -> io::Error {
        if error.kind() != io::ErrorKind::InvalidInput {
            return error;
        }
        let limit = self.own.ancestors().find_map(|group| {
            let number = |file| {
                let text = fs::read_to_string(group.join(file)).ok()?;
                text.trim().parse::<f64>().ok()
            };
            let (quota, period) = (number("cpu.cfs_quota_us")?, number("cpu.cfs_period_us")?);
            (quota > 0.0 && period > 0.0).then(|| quota / period * 100.0)
        });
        let limited = limit.map_or("less than that".into(), |percent| format!("{percent:.0} %"));
        let said = format!(
            "the control group of this process is limited to {limited}; choose a smaller cpu-quota"
        );
        io::Error::new(error.kind(), said)
    }

    fn set(&self, percent: u32) -> io::Result<()> {
        let mine = self.mine();
        fs::create_dir_all(&mine).map_err(|error| {
            let said = format!("make a control group: {error}; run this as root");
            io::Error::new(error.kind(), said)
        })?;
        let period = PORTION * 100 / percent.max(1);
        match self.version {
            Version::Two => write(&mine, "cpu.max", &format!("{PORTION} {period}")),
            Version::One => {
                write(&mine, "cpu.cfs_period_us", &period.to_string())?;
                write(&mine, "cpu.cfs_quota_us", &PORTION.to_string())
                    .map_err(|error| self.advise(error))
            }
        }
    }
}

fn name(pid: u32) -> String {
    format!("{PREFIX}{pid}")
}

fn is_of_a_run(group: &Path) -> bool {
    group.file_name().is_some_and(|name| name.to_string_lossy().starts_with(PREFIX))
}

/// The error names the file.
fn write(group: &Path, file: &str, text: &str) -> io::Result<()> {
    fs::write(group.join(file), text).map_err(|error| {
        let next = match error.kind() {
            io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem => {
                "; run this as root where control groups can be written"
            }
            _ => "",
        };
        io::Error::new(error.kind(), format!("{file}: {error}{next}"))
    })
}

impl Knob for Quota {
    fn form(&self) -> &KnobForm {
        &KnobForm {
            name: "cpu-quota",
            about: "percent of a CPU's time that the measuring process may have: a slower CPU",
            belongs: KnobOwner::Program,
            values: "5 to 95 percent, or \"off\"",
        }
    }

    fn accepts(&self, value: &str) -> bool {
        let percent = number(value);
        value == OFF || percent.is_some_and(|percent| (5..=95).contains(&percent))
    }

    fn read(&self, nic: &TunedInterface) -> Result<String, Absent> {
        let found = Hierarchy::with_quota(&nic.proc)?;
        let inside = nic.home.is_some() || is_of_a_run(&found.own);
        Ok(found.percent().filter(|_| inside).unwrap_or(OFF.to_owned()))
    }

    fn write(&self, nic: &mut TunedInterface, exact: &str) -> io::Result<()> {
        let found = Hierarchy::with_quota(&nic.proc).map_err(|why| io::Error::other(why.0))?;
        let (mine, process) = (found.mine(), std::process::id().to_string());
        if let Some(percent) = number(exact) {
            found.set(percent)?;
            if nic.home.is_none() {
                write(&mine, "cgroup.procs", &process)?;
                nic.home = Some(found.own);
            }
            return Ok(());
        }
        if let Some(home) = &nic.home {
            write(home, "cgroup.procs", &process)?;
            // What this process has started in the meantime goes with it.
            let others = fs::read_to_string(mine.join("cgroup.procs")).unwrap_or_default();
            for other in others.lines() {
                let _ = write(home, "cgroup.procs", other);
            }
            nic.home = None;
        }
        remove(&mine);
        Ok(())
    }

    fn say(&self, exact: &str) -> String {
        if exact == OFF { exact.to_owned() } else { format!("{exact} %") }
    }

    /// It is of use only to see what a slower machine would give.
    fn commands(&self, _place: &TunedInterface, exact: &str) -> Vec<String> {
        let line = format!("systemd-run --scope -p CPUQuota={exact}% COMMAND");
        Some(line).filter(|_| exact != OFF).into_iter().collect()
    }

    fn leaves_something(&self) -> bool {
        true
    }
}

/// Removes an empty cgroup. One that cannot be removed yet goes at the next start.
fn remove(group: &Path) {
    for _ in 0..TRIES {
        match fs::remove_dir(group) {
            Err(error) if error.kind() == io::ErrorKind::ResourceBusy => std::thread::sleep(PAUSE),
            _ => return,
        }
    }
}

/// Removes the cgroup of a process that has just ended.
pub(super) fn remove_of(pid: u32) {
    for found in Hierarchy::mounted(Path::new("/proc")) {
        remove(&found.parent.join(name(pid)));
    }
}

/// Removes the cgroups of processes that are gone.
pub(super) fn sweep() {
    for found in Hierarchy::mounted(Path::new("/proc")) {
        for entry in fs::read_dir(found.parent).into_iter().flatten().flatten() {
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

    /// Made-up hierarchies of which this process is in `group`. Version 2 has these controllers for
    /// children. Version 1 is there with `one`.
    fn hierarchy(nic: &Path, group: &str, controllers: &str, one: bool) -> TunedInterface {
        let (proc, mount) = (nic.join("proc"), nic.join("cgroup"));
        fs::create_dir_all(proc.join("self")).unwrap();
        let mut mounts =
            format!("none / ext4 rw 0 0\ncgroup2 {} cgroup2 rw 0 0\n", mount.display());
        let mut cgroups = format!("3:cpuset:/\n0::/{group}\n");
        if one {
            let first = nic.join("first");
            mounts += &format!("cgroup {} cgroup rw,relatime,cpuset 0 0\n", nic.display());
            mounts += &format!("cgroup {} cgroup rw,relatime,cpu,cpuacct 0 0\n", first.display());
            cgroups += &format!("2:cpu,cpuacct:/{group}\n");
            fs::create_dir_all(first.join(group)).unwrap();
            fs::write(first.join(group).join("cpu.cfs_quota_us"), "-1\n").unwrap();
        }
        fs::write(proc.join("self/mounts"), mounts).unwrap();
        fs::write(proc.join("self/cgroup"), cgroups).unwrap();
        let own = mount.join(group);
        fs::create_dir_all(&own).unwrap();
        if !group.is_empty() {
            fs::write(own.join("cgroup.type"), "domain\n").unwrap();
        }
        fs::write(mount.join("cgroup.subtree_control"), controllers).unwrap();
        TunedInterface { proc, ..TunedInterface::new("lo").unwrap() }
    }

    #[test]
    fn a_process_goes_into_a_cgroup_with_its_quota_and_back() {
        for group in ["", "some.slice"] {
            let nic = tempfile::tempdir().unwrap();
            let mut there = hierarchy(nic.path(), group, "memory cpu\n", true);
            let (mount, pid) = (nic.path().join("cgroup"), std::process::id());
            assert_eq!(CPU_QUOTA.read(&there).unwrap(), OFF);
            for (percent, max) in [("50", "1000 2000"), ("25", "1000 4000")] {
                CPU_QUOTA.write(&mut there, percent).unwrap();
                assert_eq!(CPU_QUOTA.read(&there).unwrap(), percent);
                let read = |file| fs::read_to_string(mount.join(name(pid)).join(file)).unwrap();
                assert_eq!((read("cpu.max"), read("cgroup.procs")), (max.into(), pid.to_string()));
            }
            CPU_QUOTA.write(&mut there, OFF).unwrap();
            assert_eq!(CPU_QUOTA.read(&there).unwrap(), OFF);
            let home = mount.join(group).join("cgroup.procs");
            assert_eq!(fs::read_to_string(home).unwrap(), pid.to_string());
        }
    }

    #[test]
    fn where_version_2_has_no_cpu_controller_version_1_is_taken() {
        for group in ["", "some.slice"] {
            let nic = tempfile::tempdir().unwrap();
            let mut there = hierarchy(nic.path(), group, "memory\n", true);
            let (own, pid) = (nic.path().join("first").join(group), std::process::id());
            assert_eq!(CPU_QUOTA.read(&there).unwrap(), OFF);
            for (percent, period) in [("50", "2000"), ("80", "1250")] {
                CPU_QUOTA.write(&mut there, percent).unwrap();
                assert_eq!(CPU_QUOTA.read(&there).unwrap(), percent);
                // Below the process's own, whose limits so hold for it, too.
                let read = |file| fs::read_to_string(own.join(name(pid)).join(file)).unwrap();
                assert_eq!(read("cpu.cfs_period_us"), period);
                assert_eq!(read("cpu.cfs_quota_us"), "1000");
                assert_eq!(read("cgroup.procs"), pid.to_string());
            }
            // From within it is the same one.
            let file = nic.path().join("proc/self/cgroup");
            let before = fs::read_to_string(&file).unwrap();
            fs::write(&file, format!("2:cpu,cpuacct:/{group}/{}\n", name(pid))).unwrap();
            assert_eq!(CPU_QUOTA.read(&there).unwrap(), "80");
            CPU_QUOTA.write(&mut there, OFF).unwrap();
            fs::write(&file, before).unwrap();
            assert_eq!(CPU_QUOTA.read(&there).unwrap(), OFF);
            let home = fs::read_to_string(own.join("cgroup.procs")).unwrap();
            assert_eq!(home, pid.to_string());
        }
    }

    #[test]
    fn a_refused_quota_names_the_limit_above() {
        let nic = tempfile::tempdir().unwrap();
        let there = hierarchy(nic.path(), "some.slice", "memory\n", true);
        let found = Hierarchy::with_quota(&there.proc).unwrap();
        let refused = |kind: io::ErrorKind| found.advise(kind.into()).to_string();
        assert!(refused(io::ErrorKind::InvalidInput).contains("limited to less than that"));
        fs::write(found.own.join("cpu.cfs_quota_us"), "50000\n").unwrap();
        fs::write(found.own.join("cpu.cfs_period_us"), "100000\n").unwrap();
        assert!(refused(io::ErrorKind::InvalidInput).contains("limited to 50 %; choose a smaller"));
        assert!(!refused(io::ErrorKind::NotFound).contains("limited"));
    }

    #[test]
    fn without_the_controller_there_is_no_quota() {
        let nic = tempfile::tempdir().unwrap();
        let there = hierarchy(nic.path(), "some.slice", "memory\n", true);
        fs::remove_file(nic.path().join("first/some.slice/cpu.cfs_quota_us")).unwrap();
        assert!(CPU_QUOTA.read(&there).unwrap_err().0.contains("no CPU controller"));
        let there = hierarchy(nic.path(), "some.slice", "memory\n", false);
        assert!(CPU_QUOTA.read(&there).unwrap_err().0.contains("no CPU controller"));
        fs::write(nic.path().join("proc/self/mounts"), "none / ext4 rw 0 0\n").unwrap();
        assert!(CPU_QUOTA.read(&there).unwrap_err().0.contains("no cgroups"));
    }
}
