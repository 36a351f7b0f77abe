//! A slower CPU: the measuring process in its own cgroup, with a quota of CPU time (`cpu.max`; the
//! kernel's documentation, `admin-guide/cgroup-v2.rst`).
//!
//! The quota is handed out in portions of 1 ms, the least that there are, so that an end stops for
//! short times and often. The cgroup is beside the process's own and has its number in its
//! name. That of a killed process is empty, slows no process, and is removed at the next start
//! ([`sweep`]).

use super::interface::TunedInterface;
use super::knob::{Absent, Knob, KnobForm, number};
use gigae_eval_model::knobs::KnobOwner;
use gigae_host::proc::process;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

pub(super) struct Quota;

pub(super) const CPU_QUOTA: Quota = Quota;

/// Microseconds of CPU time in a period: the least that the kernel takes.
const PORTION: u32 = 1000;

/// Without a quota.
const OFF: &str = "off";

/// What the names of these cgroups begin with.
const PREFIX: &str = "gigae-quota-";

/// The cgroup of this process.
fn own(proc: &Path) -> Result<PathBuf, Absent> {
    let read = |file| fs::read_to_string(proc.join("self").join(file)).unwrap_or_default();
    let (mounts, cgroups) = (read("mounts"), read("cgroup"));
    let mount = mounts.lines().map(|line| line.split(' ').collect::<Vec<_>>());
    let mount = mount.into_iter().find(|words| words.get(2) == Some(&"cgroup2"));
    let path = cgroups.lines().find_map(|line| line.strip_prefix("0::/"));
    match (mount, path) {
        (Some(words), Some(path)) => Ok(Path::new(words[1]).join(path)),
        _ => Err(Absent::new("there are no cgroups of version 2 here")),
    }
}

/// Where one for this process may be made: beside its own, or below the root.
fn parent(proc: &Path) -> Result<PathBuf, Absent> {
    let own = own(proc)?;
    let root = !own.join("cgroup.type").exists();
    let parent = if root { own.as_path() } else { own.parent().unwrap_or(&own) };
    let control = fs::read_to_string(parent.join("cgroup.subtree_control")).unwrap_or_default();
    if control.split_whitespace().any(|name| name == "cpu") {
        return Ok(parent.to_owned());
    }
    Err(Absent("the cgroup of this process has no CPU controller of version 2".to_owned()))
}

fn name() -> String {
    format!("{PREFIX}{}", std::process::id())
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
        let mine = parent(&nic.proc)?.join(name());
        let text = fs::read_to_string(mine.join("cpu.max")).unwrap_or_default();
        let words: Vec<f64> = text.split_whitespace().map_while(|word| word.parse().ok()).collect();
        Ok(match (nic.home.is_some(), &words[..]) {
            (true, [quota, period]) => format!("{:.0}", quota / period * 100.0),
            _ => OFF.to_owned(),
        })
    }

    fn write(&self, nic: &mut TunedInterface, exact: &str) -> io::Result<()> {
        let parent = parent(&nic.proc).map_err(|why| io::Error::other(why.0))?;
        let (mine, process) = (parent.join(name()), std::process::id().to_string());
        if let Some(percent) = number(exact) {
            fs::create_dir_all(&mine)?;
            let period = PORTION * 100 / percent.max(1);
            fs::write(mine.join("cpu.max"), format!("{PORTION} {period}"))?;
            if nic.home.is_none() {
                let home = own(&nic.proc).map_err(|why| io::Error::other(why.0))?;
                fs::write(mine.join("cgroup.procs"), process)?;
                nic.home = Some(home);
            }
            return Ok(());
        }
        if let Some(home) = &nic.home {
            fs::write(home.join("cgroup.procs"), process)?;
            nic.home = None;
        }
        // One that cannot be removed yet goes at the next start.
        let _ = fs::remove_dir(mine);
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
}

/// Removes the cgroups of processes that are gone.
pub(super) fn sweep() {
    let Ok(parent) = parent(Path::new("/proc")) else { return };
    for entry in fs::read_dir(parent).into_iter().flatten().flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        let pid = name.strip_prefix(PREFIX).and_then(|pid| pid.parse::<u32>().ok());
        if pid.is_some_and(|pid| !process::exists(pid)) {
            let _ = fs::remove_dir(entry.path());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A made-up hierarchy of which this process is in `group`, with these controllers for
    /// children.
    fn hierarchy(nic: &Path, group: &str, controllers: &str) -> TunedInterface {
        let (proc, mount) = (nic.join("proc"), nic.join("cgroup"));
        fs::create_dir_all(proc.join("self")).unwrap();
        let mounts = format!("none / ext4 rw 0 0\ncgroup2 {} cgroup2 rw 0 0\n", mount.display());
        fs::write(proc.join("self/mounts"), mounts).unwrap();
        fs::write(proc.join("self/cgroup"), format!("3:cpuset:/\n0::/{group}\n")).unwrap();
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
            let mut there = hierarchy(nic.path(), group, "memory cpu\n");
            let (mount, pid) = (nic.path().join("cgroup"), std::process::id().to_string());
            assert_eq!(CPU_QUOTA.read(&there).unwrap(), OFF);
            for (percent, max) in [("50", "1000 2000"), ("25", "1000 4000")] {
                CPU_QUOTA.write(&mut there, percent).unwrap();
                assert_eq!(CPU_QUOTA.read(&there).unwrap(), percent);
                let read = |file| fs::read_to_string(mount.join(name()).join(file)).unwrap();
                assert_eq!((read("cpu.max"), read("cgroup.procs")), (max.into(), pid.clone()));
            }
            CPU_QUOTA.write(&mut there, OFF).unwrap();
            assert_eq!(CPU_QUOTA.read(&there).unwrap(), OFF);
            let home = mount.join(group).join("cgroup.procs");
            assert_eq!(fs::read_to_string(home).unwrap(), pid);
        }
    }

    #[test]
    fn without_the_controller_there_is_no_quota() {
        let nic = tempfile::tempdir().unwrap();
        let there = hierarchy(nic.path(), "some.slice", "memory\n");
        assert!(CPU_QUOTA.read(&there).unwrap_err().0.contains("no CPU controller"));
        fs::write(nic.path().join("proc/self/mounts"), "none / ext4 rw 0 0\n").unwrap();
        assert!(CPU_QUOTA.read(&there).unwrap_err().0.contains("no cgroups"));
    }
}
