//! A machine's description: the kernel's command line, and the script that is the guest's first
//! process.

use crate::reply::MARK;
use std::fmt::Write;
use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};

/// Where a guest sees the directory with its scripts.
const SCRIPTS: &str = "/mnt/host";

/// The directory with the files that are its disks, and where a guest sees it.
pub(crate) const DISK_FILES: &str = "disks";
const DISKS: &str = "/mnt/disks";

/// The loop devices that a kernel makes by itself.
pub(crate) const MOST_DISKS: usize = 8;

/// Where a guest sees all files of this machine, also those beneath directories of its own.
pub const HERE: &str = "/mnt/here";

/// A guest's interface.
pub const INTERFACE: &str = "vec0";

/// Where a guest has its kernel's modules: `modprobe -d`.
pub const MODULES_AT: &str = "/mnt/modules";

/// Where Debian's package has the modules of its kernel.
const MODULES: &str = "/usr/lib/uml/modules";

/// What a guest is made of.
///
/// A disk is a loop device over a file of this machine, which the guest sees by hostfs. Reads and
/// writes by hostfs are system calls of the guest's kernel, which waits for them. The disks that
/// User-mode Linux has by itself (`ubd`) answer by interrupts. Linux 6.1 sometimes loses one, and
/// then all wait for ever.
#[derive(Clone, Debug)]
pub struct Machine<'a> {
    /// Its name, for messages; also that of a directory which is made.
    pub name: &'a str,
    /// A directory of the caller, in which the guest's own one is made.
    pub directory: &'a Path,
    /// Memory in MiB.
    pub memory_mib: u64,
    /// Bytes of each of its disks: `/dev/loop0`, `/dev/loop1` and so on, 8 at most. They are empty.
    pub disks: Vec<u64>,
    /// Modules that its kernel loads.
    pub modules: &'a [&'a str],
    /// Its network interface, if it has one.
    pub link: Option<GuestLink<'a>>,
}

/// A guest's interface ([`INTERFACE`]), which sends and receives by an interface of the namespace
/// in which the guest is started. It has its own MAC and IP address, so the namespace's own kernel
/// ignores its frames.
#[derive(Clone, Debug)]
pub struct GuestLink<'a> {
    /// The namespace's interface.
    pub interface: &'a str,
    /// The guest's MAC address.
    pub mac: [u8; 6],
    /// The guest's address, in a network of 24 bits.
    pub ip: Ipv4Addr,
    /// MTU in bytes.
    pub mtu: u32,
}

impl Machine<'_> {
    /// Its own directory.
    pub(crate) fn place(&self) -> PathBuf {
        self.directory.join(self.name)
    }

    /// The kernel's command line. Its first terminal is standard output, the second one takes
    /// scripts from standard input and answers on standard error. There are no others, and no
    /// windows.
    pub(crate) fn arguments(&self) -> Vec<String> {
        let place = self.place();
        let mut all = vec![
            format!("umid={}", self.name),
            format!("uml_dir={}/", place.join("run").display()),
            format!("mem={}M", self.memory_mib),
            "root=/dev/root".into(),
            "rootfstype=hostfs".into(),
            "rootflags=/".into(),
            "ro".into(),
            format!("init={}", place.join("init").display()),
            "con=null".into(),
            "ssl=null".into(),
            "con0=null,fd:1".into(),
            "con1=fd:0,fd:2".into(),
            "console=tty0".into(),
        ];
        all.extend(self.link.as_ref().map(|link| {
            let mac = link.mac.map(|byte| format!("{byte:02x}")).join(":");
            let (interface, mtu) = (link.interface, link.mtu);
            format!(
                "{INTERFACE}:transport=raw,ifname={interface},mac={mac},mtu={mtu},depth=128,gro=1"
            )
        }));
        all
    }

    /// The guest's first process: it mounts what every system has, loads modules, and then runs
    /// scripts by their numbers. With little memory, the kernel would refuse programs with large
    /// libraries, most of which they never use (`overcommit_memory`).
    pub(crate) fn init(&self) -> String {
        let mut text = format!(
            "#!/bin/sh\n\
             set -e\n\
             export LC_ALL=C PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin\n\
             mount -t proc proc /proc\n\
             mount -t sysfs sysfs /sys\n\
             mount -t devtmpfs dev /dev 2>/dev/null || [ -e /dev/tty1 ]\n\
             for place in /mnt /run /tmp /var/tmp; do mount -t tmpfs tmpfs $place; done\n\
             mkdir -p {SCRIPTS} {HERE} {MODULES_AT}/lib /run/lock\n\
             mount --bind / {HERE}\n\
             mount -r -t hostfs -o {place} none {SCRIPTS}\n\
             ln -s {MODULES} {MODULES_AT}/lib/modules\n\
             echo 1 >/proc/sys/vm/overcommit_memory\n\
             ip link set lo up\n",
            place = self.place().display(),
        );
        for module in self.modules {
            let _ = writeln!(text, "modprobe -d {MODULES_AT} {module}");
        }
        if let Some(link) = &self.link {
            let (ip, mtu) = (link.ip, link.mtu);
            let _ = writeln!(
                text,
                "ip link set {INTERFACE} mtu {mtu} up\nip address add {ip}/24 broadcast + dev {INTERFACE}"
            );
        }
        if !self.disks.is_empty() {
            let files = self.place().join(DISK_FILES);
            let _ = writeln!(
                text,
                "mkdir {DISKS}\n\
                 mount -t hostfs -o {} none {DISKS}\n\
                 modprobe -d {MODULES_AT} loop",
                files.display()
            );
        }
        for number in 0..self.disks.len() {
            let _ = writeln!(text, "losetup /dev/loop{number} {DISKS}/{number}");
        }
        // `read` takes byte after byte, so a script never reads the number of the next one.
        let _ = write!(
            text,
            "set +e\n\
             exec </dev/tty1 >/dev/tty1 2>&1\n\
             stty raw -echo\n\
             echo {MARK}ready\n\
             while read -r number; do\n\
             sh {SCRIPTS}/$number </dev/null >/run/said 2>&1\n\
             status=$?\n\
             base64 -w 96 /run/said | sed 's/^/{MARK} /'\n\
             echo {MARK}done $number $status\n\
             done\n"
        );
        text
    }
}

/// Whether the kernel's command line and the shell take a path as it is.
pub(crate) fn is_plain(path: &Path) -> bool {
    let plain = |c: char| c.is_ascii_alphanumeric() || "/._-".contains(c);
    path.is_absolute() && path.to_str().is_some_and(|text| text.chars().all(plain))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_machine_has_the_disks_and_the_link_that_were_asked_for() {
        let machine = Machine {
            name: "server",
            directory: Path::new("/var/tmp/x"),
            memory_mib: 192,
            disks: vec![1 << 20; 2],
            modules: &["raid456"],
            link: Some(GuestLink {
                interface: "eth0",
                mac: [2, 0, 0, 0x80, 0, 1],
                ip: Ipv4Addr::new(198, 18, 0, 129),
                mtu: 1500,
            }),
        };
        let words = machine.arguments().join(" ");
        for word in
            ["mem=192M", "ifname=eth0,mac=02:00:00:80:00:01,", "init=/var/tmp/x/server/init"]
        {
            assert!(words.contains(word), "{words}");
        }
        let init = machine.init();
        for line in [
            "modprobe -d /mnt/modules raid456\n",
            "add 198.18.0.129/24 ",
            "hostfs -o /var/tmp/x/server/disks none /mnt/disks\n",
            "losetup /dev/loop1 /mnt/disks/1\n",
        ] {
            assert!(init.contains(line), "{init}");
        }
        let alone = Machine { disks: Vec::new(), link: None, ..machine };
        assert!(!alone.arguments().join(" ").contains("vec0") && !alone.init().contains("vec0"));
        assert!(!alone.init().contains("disks"), "{}", alone.init());
    }

    #[test]
    fn the_first_process_is_a_script_that_a_shell_can_read() {
        let machine = Machine {
            name: "a",
            directory: Path::new("/b"),
            memory_mib: 64,
            disks: Vec::new(),
            modules: &[],
            link: None,
        };
        let place = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(place.path(), machine.init()).unwrap();
        let checked = std::process::Command::new("sh").arg("-n").arg(place.path()).output();
        let checked = checked.unwrap();
        assert!(checked.status.success() && checked.stderr.is_empty(), "{checked:?}");
    }

    #[test]
    fn paths_that_need_quotes_are_refused() {
        assert!(is_plain(Path::new("/var/tmp/gigae-files-1-0")));
        for path in ["relative", "/with space", "/it's", "/$(x)", "/a,b", "/\u{e9}"] {
            assert!(!is_plain(Path::new(path)), "{path}");
        }
    }
}
