//! Where a knob turns: one interface as one end sees it, and the ways to it.
//!
//! `/sys/class/net` shows the network namespace in which it was mounted, not that of the thread. So
//! a sysfs of the thread's own namespace is made (fsopen(2), Linux 5.2), which is mounted nowhere
//! and goes with its descriptor. Where that is not permitted, `/sys` is taken if it shows the very
//! same interface.

use gigae_eval_measure::site::Site;
use gigae_host::affinity;
use gigae_nic::ethtool::Ethtool;
use rustix::fs::{Mode, OFlags};
use rustix::mount::{FsMountFlags, FsOpenFlags, MountAttrFlags};
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::OwnedFd;
use std::path::PathBuf;

/// An interface and what belongs to it. It belongs to the namespace of the thread that made it, and
/// must be used by that thread.
pub struct TunedInterface {
    /// Name of the interface.
    pub interface: String,
    /// Its number. It differs from that of a later interface of the same name.
    pub index: u32,
    /// The CPU of the measuring thread, if it is pinned.
    pub cpu: Option<usize>,
    /// The CPUs that this program may use.
    pub cpus: Vec<usize>,
    /// Whether it is part of a virtual network of our own.
    pub virtual_link: bool,
    /// The driver.
    pub(super) ethtool: Ethtool,
    /// What sysfs has, or why it cannot be reached.
    pub(super) sys: Result<OwnedFd, String>,
    /// Where proc(5) is.
    pub(super) proc: PathBuf,
    /// Where sysfs has the policies of the CPUs' frequencies.
    pub(super) cpufreq: PathBuf,
    /// The interface's interrupts.
    pub(super) irqs: Vec<u32>,
    /// The congestion control of the program's own TCP sockets, if it is not the usual one.
    pub(super) congestion: Option<String>,
    /// The cgroup from which the process came, while it is in its own cgroup.
    pub(super) home: Option<PathBuf>,
}

impl TunedInterface {
    /// The interface of this name in the calling thread's namespace.
    pub fn new(interface: &str) -> io::Result<Self> {
        let ethtool = Ethtool::new()?;
        let index = ethtool.index(interface).ok_or(io::ErrorKind::NotFound)?;
        let found = gigae_nic::inventory(Some(interface)).ok();
        let irqs = found.and_then(|nics| nics.into_iter().next()).map(|nic| nic.irqs);
        let sys = sysfs(&ethtool, interface, index).map_err(|error| error.to_string());
        Ok(Self {
            interface: interface.to_owned(),
            index,
            cpu: None,
            cpus: affinity::allowed(),
            virtual_link: false,
            ethtool,
            sys,
            proc: PathBuf::from("/proc"),
            cpufreq: PathBuf::from("/sys/devices/system/cpu/cpufreq"),
            irqs: irqs.unwrap_or_default(),
            congestion: None,
            home: None,
        })
    }

    /// All interfaces of an end.
    pub fn of(site: &Site) -> io::Result<Vec<Self>> {
        let nic = |interface| {
            let nic = Self::new(interface)?;
            Ok(Self { cpu: site.cpu, virtual_link: site.virtual_link, ..nic })
        };
        site.interfaces().map(nic).collect()
    }

    /// Reads a file of sysfs below the interface's directory, without the newline.
    pub(super) fn sys_read(&self, file: &str) -> io::Result<String> {
        let mut text = String::new();
        self.sys_open(file, OFlags::RDONLY)?.read_to_string(&mut text)?;
        Ok(text.trim().to_owned())
    }

    /// Writes a file of sysfs below the interface's directory.
    pub(super) fn sys_write(&self, file: &str, value: &str) -> io::Result<()> {
        self.sys_open(file, OFlags::WRONLY)?.write_all(value.as_bytes())
    }

    /// The names in a directory of sysfs below the interface's own, sorted.
    pub(super) fn sys_list(&self, directory: &str) -> io::Result<Vec<String>> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY;
        let mut names = Vec::new();
        for entry in rustix::fs::Dir::read_from(self.sys_open(directory, flags)?)? {
            let name = entry?.file_name().to_string_lossy().into_owned();
            if !name.starts_with('.') {
                names.push(name);
            }
        }
        names.sort_by_key(|name| (name.len(), name.clone()));
        Ok(names)
    }

    fn sys_open(&self, file: &str, flags: OFlags) -> io::Result<File> {
        let sys = self.sys.as_ref().map_err(|why| io::Error::other(why.clone()))?;
        let path = format!("class/net/{}/{file}", self.interface);
        Ok(rustix::fs::openat(sys, path, flags | OFlags::CLOEXEC, Mode::empty())?.into())
    }
}

/// A sysfs in which the interface is the thread's.
fn sysfs(ethtool: &Ethtool, interface: &str, index: u32) -> io::Result<OwnedFd> {
    match own_sysfs() {
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
            let sys: OwnedFd = File::open("/sys")?.into();
            let shown = |file: &str| {
                let path = format!("class/net/{interface}/{file}");
                let file = rustix::fs::openat(&sys, path, OFlags::CLOEXEC, Mode::empty()).ok()?;
                let mut text = String::new();
                File::from(file).read_to_string(&mut text).ok()?;
                Some(text.trim().to_owned())
            };
            let same = shown("ifindex") == Some(index.to_string())
                && shown("address") == ethtool.mac(interface);
            if same { Ok(sys) } else { Err(error) }
        }
        other => other,
    }
}

/// A sysfs of the calling thread's network namespace, mounted nowhere. Needs CAP_SYS_ADMIN.
fn own_sysfs() -> io::Result<OwnedFd> {
    let context = rustix::mount::fsopen("sysfs", FsOpenFlags::FSOPEN_CLOEXEC)?;
    rustix::mount::fsconfig_create(&context)?;
    let flags = FsMountFlags::FSMOUNT_CLOEXEC;
    let attributes = MountAttrFlags::MOUNT_ATTR_NODEV
        | MountAttrFlags::MOUNT_ATTR_NOEXEC
        | MountAttrFlags::MOUNT_ATTR_NOSUID;
    Ok(rustix::mount::fsmount(context, flags, attributes)?)
}
