//! File systems that a kernel mounts: a server and a client as guests (User-mode Linux), each by a
//! node of the virtual network.
//!
//! ```text
//!   client, node 1                     server, node 2
//!   fio, bonnie++, stat                nfsd, smbd, gigae share
//!   NFS, CIFS, FUSE  ─ virtual link ─  ext4
//!                                      /dev/loop0, a file; or a RAID-5 over three of them
//! ```
//!
//! - [`fio`], [`bonnie`] and `stat` are the programs that use them, and read what these print.
//! - `system` is how the files are shared and mounted.
//! - `clients` has a second client, which sees what the first one writes.
//! - [`share`] is what guests cost: the same round trip and stream inside and outside.
//!
//! A test begins with cold caches: what the client has mounted is mounted again, and the server
//! drops its page cache. This machine still has the pages of the disks' files.

pub mod bonnie;
mod clients;
pub mod fio;
mod job;
pub mod share;
mod stat;
mod system;
mod value;

pub use value::MountValue;

use crate::error::ServiceError;
use crate::installed::find;
use crate::store::FileStore;
use gigae_eval_model::mount_figure::{MountCell, MountPlace, MountSystem, MountTest};
use gigae_eval_model::plan::{GuestsPlan, Plan};
use gigae_eval_model::service::OWN;
use gigae_fabric::Node;
use gigae_host::{affinity, user};
use gigae_uml::{Guest, GuestError, GuestLink, Machine};
use job::{Job, Step};
use rustix::process::geteuid;
use std::net::Ipv4Addr;
use std::path::PathBuf;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};
use system::{EXPORT, MOUNTED, Server};

/// The programs that guests run, and Debian's package of each. Those of [`gigae_uml`] come first.
const PROGRAMS: &[(&str, &str)] = &[
    ("mkfs.ext4", "e2fsprogs"),
    ("rpc.nfsd", "nfs-kernel-server"),
    ("rpc.mountd", "nfs-kernel-server"),
    ("exportfs", "nfs-kernel-server"),
    ("mount.nfs", "nfs-common"),
    ("rpcbind", "rpcbind"),
    ("fio", "fio"),
    ("bonnie++", "bonnie++"),
    ("sockperf", "sockperf"),
    ("iperf3", "iperf3"),
];

/// The program that a RAID-5 needs beside these, and its package; those that CIFS needs.
const RAID: &[(&str, &str)] = &[("mdadm", "mdadm")];
const SAMBA: &[(&str, &str)] = &[("smbd", "samba"), ("pdbedit", "samba")];

/// All that a plan with `[[mount]]` needs, with or without a RAID-5 and CIFS.
fn programs(raid: bool, cifs: bool) -> impl Iterator<Item = (&'static str, &'static str)> {
    let further = [(raid, RAID), (cifs, SAMBA)].into_iter().filter(|(needed, _)| *needed);
    let further = further.flat_map(|(_, programs)| programs);
    gigae_uml::PROGRAMS.iter().chain(PROGRAMS).chain(further).copied()
}

/// Refuses to mount where programs of a plan are missing. The error names the packages.
pub fn installed(plan: &Plan) -> Result<(), ServiceError> {
    let cifs = plan.mount.iter().any(|mount| mount.systems.contains(&MountSystem::Cifs));
    let missing: Vec<_> =
        programs(plan.guests.raid, cifs).filter(|(program, _)| find(program).is_none()).collect();
    if missing.is_empty() {
        return Ok(());
    }
    let mut packages: Vec<&str> = missing.iter().map(|(_, package)| *package).collect();
    packages.dedup();
    Err(ServiceError::Missing {
        programs: missing.iter().map(|(program, _)| *program).collect::<Vec<_>>().join(", "),
        packages: packages.join(" "),
    })
}

/// Modules of the server's kernel. It has NFS, too, for mounts of its own exports.
const SERVER_MODULES: &[&str] = &["ext4", "raid456", "nfsd", "nfs", "nfsv4", "nfsv3"];

/// Modules of the client's kernel.
const CLIENT_MODULES: &[&str] = &["nfs", "nfsv4", "nfsv3", "fuse"];

/// What a guest's addresses add to those of its node: `above` to the last byte of the IP address,
/// and `mark` is the fourth byte of the MAC address. Nodes and ports of switches have less.
#[derive(Clone, Copy)]
struct GuestAddress {
    above: u8,
    mark: u8,
}
const FIRST: GuestAddress = GuestAddress { above: 128, mark: 0x80 };
const SECOND: GuestAddress = GuestAddress { above: 192, mark: 0x81 };

/// Memory of the second client in MiB: it opens small files only.
const SECOND_MIB: u64 = 128;

/// Time for what should take a few seconds.
const SHORT: Duration = Duration::from_secs(120);

/// Beside that, a test has so many seconds for each MiB, and for each 1,024 files.
const PER_MIB: u64 = 2;
const PER_FILES: u64 = 240;

/// What a script that counts connections is for.
const COUNT: &str = "use all connections of nconnect";

/// Bytes of the files that are compared.
const CHECKED: u32 = 4 << 20;

/// What has to be true of this machine: guests read all of its files, which only root can.
pub fn possible() -> Result<(), ServiceError> {
    match geteuid().is_root() && !user::in_user_namespace() {
        true => Ok(()),
        false => Err(ServiceError::Unavailable(
            "guests that mount file systems read this machine's programs as root; run this as root"
                .into(),
        )),
    }
}

/// Where the guests are.
pub struct MountNodes<'a> {
    /// The client's node and the server's.
    pub nodes: [&'a Node; 2],
    /// Their CPUs.
    pub cpus: [Option<usize>; 2],
    /// MTU of the link.
    pub mtu: u32,
}

/// What is mounted where.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Mounted {
    place: MountPlace,
    system: MountSystem,
    nconnect: u32,
}

/// A server and a client that run, and a second client while a test needs it. They end with this
/// value.
pub struct MountLab<'a> {
    client: Guest,
    server: Guest,
    /// The second client. It would take time of the first one's processor.
    second: Option<Guest>,
    /// Further options of the second client's NFS mounts.
    second_options: &'static str,
    place: &'a MountNodes<'a>,
    directory: PathBuf,
    guests: GuestsPlan,
    ips: [Ipv4Addr; 2],
    source: Server,
    /// What the server shares beside NFS.
    shared: Vec<MountSystem>,
    mounted: Option<Mounted>,
    /// Files whose hash was compared at the other end.
    pub verified: u64,
    checked: Vec<Mounted>,
}

/// What a test gave.
#[derive(Clone, Debug, PartialEq)]
pub struct MountMeasured {
    /// Its figures.
    pub values: Vec<MountValue>,
    /// The program's command line.
    pub command: String,
}

/// The address of a node's guest.
fn guest_ip(node: &Node, guest: GuestAddress) -> Ipv4Addr {
    let [a, b, c, number] = node.ipv4.octets();
    Ipv4Addr::new(a, b, c, number + guest.above)
}

/// The network of a node, which its guest is in, too.
fn network(node: &Node) -> Ipv4Addr {
    let [a, b, c, _] = node.ipv4.octets();
    Ipv4Addr::new(a, b, c, 0)
}

/// The MAC address of a node's guest.
fn guest_mac(node: &Node, guest: GuestAddress) -> [u8; 6] {
    let mut mac = node.mac;
    mac[3] = guest.mark;
    mac
}

/// Boots a guest on the link.
fn boot(
    machine: Machine<'_>,
    place: &MountNodes<'_>,
    (which, address): (usize, GuestAddress),
    interrupted: &AtomicBool,
) -> Result<Guest, ServiceError> {
    let node = place.nodes[which];
    let link = GuestLink {
        interface: node.interface,
        mac: guest_mac(node, address),
        ip: guest_ip(node, address),
        mtu: place.mtu,
    };
    let machine = Machine { link: Some(link), ..machine };
    let _inside = node.enter().map_err(|error| ServiceError::Unavailable(error.to_string()))?;
    Ok(affinity::pinned(place.cpus[which], || Guest::boot(&machine, interrupted))?)
}

/// Makes the directory where files are mounted.
fn make_mount_point(client: &mut Guest, interrupted: &AtomicBool) -> Result<(), ServiceError> {
    client.run("make a directory", &format!("mkdir -p {MOUNTED}"), SHORT, interrupted)?;
    Ok(())
}

impl<'a> MountLab<'a> {
    /// Bytes that the disks need.
    pub fn needs(guests: &GuestsPlan) -> u64 {
        guests.disks() as u64 * (guests.disk_mib << 20)
    }

    /// Boots both guests and has the server export its file system. The calling thread must live as
    /// long as they do.
    pub fn start(
        store: &FileStore,
        guests: &GuestsPlan,
        place: &'a MountNodes<'a>,
        interrupted: &AtomicBool,
    ) -> Result<Self, ServiceError> {
        possible()?;
        let disks = vec![guests.disk_mib << 20; guests.disks()];
        let [server, client] = guests.memory_mib;
        let machine = |name, memory_mib, disks, modules| Machine {
            name,
            directory: store.directory(),
            memory_mib,
            disks,
            modules,
            link: None,
        };
        let server = machine("server", server, disks, SERVER_MODULES);
        let mut server = boot(server, place, (1, FIRST), interrupted)?;
        let client = machine("client", client, Vec::new(), CLIENT_MODULES);
        let mut client = boot(client, place, (0, FIRST), interrupted)?;
        let script = system::export_script(guests.raid, network(place.nodes[1]));
        server.run("export a file system", &script, SHORT, interrupted)?;
        make_mount_point(&mut client, interrupted)?;
        let ips = place.nodes.map(|node| guest_ip(node, FIRST));
        let missing = || ServiceError::Unavailable("this program has no path".into());
        let program = find(OWN).ok_or_else(missing)?;
        let source = Server { ip: ips[1], mac: guest_mac(place.nodes[1], FIRST), program };
        let (shared, checked) = (Vec::new(), Vec::new());
        Ok(Self {
            client,
            server,
            second: None,
            second_options: "",
            place,
            directory: store.directory().to_owned(),
            guests: *guests,
            ips,
            source,
            shared,
            mounted: None,
            verified: 0,
            checked,
        })
    }

    /// The release of the guests' kernel.
    pub fn kernel(&self) -> &str {
        self.server.kernel()
    }

    /// Has the second client mount NFS with further options. Without them, its mounts are the
    /// usual ones; with `nocto`, it may open what is old.
    pub fn mount_second_with(&mut self, options: &'static str) {
        self.second_options = options;
    }

    /// Both guests, the client first, and their addresses.
    pub(crate) fn ends(&mut self) -> ([&mut Guest; 2], [Ipv4Addr; 2]) {
        ([&mut self.client, &mut self.server], self.ips)
    }

    /// Does a test once, with cold caches. One that does not end in time ends its guest.
    pub fn measure(
        &mut self,
        cell: &MountCell,
        interrupted: &AtomicBool,
    ) -> Result<MountMeasured, ServiceError> {
        let measured = self.once(cell, interrupted).map_err(|error| advised(error, cell));
        if measured.as_ref().is_err_and(leaves_guests) {
            // What a failed test has left would take room of the next one.
            let script = system::clear_script();
            match self.server.run("remove what a test left", &script, SHORT, interrupted) {
                Err(error) if !error.leaves_guest() => return Err(error.into()),
                _ => {}
            }
        }
        measured
    }

    fn once(
        &mut self,
        cell: &MountCell,
        interrupted: &AtomicBool,
    ) -> Result<MountMeasured, ServiceError> {
        let directory = self.reach(cell, interrupted)?;
        let job = match cell.test {
            MountTest::Fio { pattern, mib } => Job::fio(directory, pattern, mib),
            MountTest::Bonnie { mib, files, bytes } => {
                let memory = self.guests.memory_of(cell.place);
                Job::bonnie(directory, [mib, memory], files, bytes)
            }
            MountTest::Stat { files } => Job::stat(directory, files),
            MountTest::TwoClients { openings, looks } => {
                return self.two_clients(cell, (openings, looks), interrupted);
            }
        };
        self.second = None;
        let most = patience(&cell.test);
        if let Some(step) = &job.make {
            self.step(cell.place, step, most, interrupted)?;
        }
        self.cool(interrupted)?;
        let program = cell.test.program();
        let script = job.script.as_ref().unwrap_or(&job.command);
        let begin = Instant::now();
        let what = format!("run {program}");
        let said = self.at(cell.place).run(&what, script, most, interrupted)?;
        let seconds = begin.elapsed().as_secs_f64();
        let values =
            (job.read)(&said, seconds).ok_or_else(|| ServiceError::no_figure(program, &said))?;
        if values.is_empty() {
            return Err(ServiceError::TooSoon(program));
        }
        if let Some(script) = system::count_script(cell.nconnect) {
            self.at(cell.place).run(COUNT, &script, SHORT, interrupted)?;
        }
        if let Some(step) = &job.remove {
            self.step(cell.place, step, most, interrupted)?;
        }
        Ok(MountMeasured { values, command: job.command })
    }

    fn step(
        &mut self,
        place: MountPlace,
        step: &Step,
        most: Duration,
        interrupted: &AtomicBool,
    ) -> Result<(), ServiceError> {
        let guest = if step.at_server { &mut self.server } else { self.at(place) };
        guest.run(step.what, &step.script, most, interrupted)?;
        Ok(())
    }

    /// The guest in which programs run.
    fn at(&mut self, place: MountPlace) -> &mut Guest {
        match place {
            MountPlace::Network => &mut self.client,
            MountPlace::Localhost | MountPlace::Disk => &mut self.server,
        }
    }

    /// Has the files where the cell wants them; the directory. What is mounted the first time is
    /// compared.
    fn reach(
        &mut self,
        cell: &MountCell,
        interrupted: &AtomicBool,
    ) -> Result<&'static str, ServiceError> {
        let wanted = cell.system.filter(|_| cell.place != MountPlace::Disk);
        let wanted = wanted.map(|system| {
            let (place, nconnect) = (cell.place, cell.nconnect);
            Mounted { place, system, nconnect }
        });
        if self.mounted != wanted {
            self.leave(interrupted)?;
            if let Some(wanted) = wanted {
                self.mount(wanted, interrupted)?;
                if !self.checked.contains(&wanted) {
                    self.check(wanted, interrupted)?;
                    self.checked.push(wanted);
                }
            }
        }
        Ok(if wanted.is_some() { MOUNTED } else { EXPORT })
    }

    fn mount(&mut self, wanted: Mounted, interrupted: &AtomicBool) -> Result<(), ServiceError> {
        let Mounted { place, system, nconnect } = wanted;
        if !self.shared.contains(&system)
            && let Some(script) = self.source.share_script(system)
        {
            let what = format!("share files for {}", system.title());
            self.server.run(&what, &script, SHORT, interrupted)?;
            self.shared.push(system);
        }
        let what = format!("mount files by {}", system.title());
        let options = system::connections(nconnect);
        let script = self.source.mount_script(system, &options, place != MountPlace::Network);
        self.at(place).run(&what, &script, SHORT, interrupted)?;
        self.mounted = Some(wanted);
        Ok(())
    }

    fn leave(&mut self, interrupted: &AtomicBool) -> Result<(), ServiceError> {
        let Some(Mounted { place, system, .. }) = self.mounted else { return Ok(()) };
        let script = system::unmount_script(system);
        match self.at(place).run("unmount files", &script, SHORT, interrupted) {
            Ok(_) => self.mounted = None,
            Err(error @ GuestError::Failed { .. }) => {
                // The next test would use what is still mounted, with warm caches.
                self.at(place).end();
                return Err(ServiceError::StaysMounted(error));
            }
            Err(error) => return Err(error.into()),
        }
        Ok(())
    }

    /// Empties the caches: unmounts and mounts again, and the server writes and drops its pages.
    fn cool(&mut self, interrupted: &AtomicBool) -> Result<(), ServiceError> {
        let mounted = self.mounted;
        self.leave(interrupted)?;
        let script = "sync && echo 3 >/proc/sys/vm/drop_caches";
        self.server.run("drop its page cache", script, SHORT, interrupted)?;
        match mounted {
            Some(mounted) => self.mount(mounted, interrupted),
            None => Ok(()),
        }
    }

    /// Compares a file of the server as the mount shows it, and one that was written by the mount
    /// as the server has it.
    fn check(
        &mut self,
        Mounted { place, system, .. }: Mounted,
        interrupted: &AtomicBool,
    ) -> Result<(), ServiceError> {
        let make =
            |file: String| format!("head -c {CHECKED} /dev/urandom >{file} && sha256sum <{file}");
        let hash = |file: String| format!("sha256sum <{file}");
        let differs = |what| ServiceError::Differs { system: system.title(), what };
        let here = make(format!("{EXPORT}/check"));
        let here = self.server.run("make a file", &here, SHORT, interrupted)?;
        let there = hash(format!("{MOUNTED}/check"));
        let there = self.at(place).run("read a mounted file", &there, SHORT, interrupted)?;
        if here != there {
            return Err(differs("a file that was read"));
        }
        self.verified += 1;
        let there = make(format!("{MOUNTED}/back"));
        let there = self.at(place).run("write a mounted file", &there, SHORT, interrupted)?;
        self.cool(interrupted)?;
        let here = hash(format!("{EXPORT}/back"));
        let here = self.server.run("read a file", &here, SHORT, interrupted)?;
        if here != there {
            return Err(differs("a file that was written"));
        }
        self.verified += 1;
        let remove = format!("rm -f {EXPORT}/check {EXPORT}/back");
        self.server.run("remove files", &remove, SHORT, interrupted)?;
        Ok(())
    }
}

/// How long a test may take.
fn patience(test: &MountTest) -> Duration {
    SHORT + Duration::from_secs(test.needs() * PER_MIB + u64::from(test.files()) * PER_FILES)
}

/// Says which test was late and what to change.
fn advised(error: ServiceError, cell: &MountCell) -> ServiceError {
    match error {
        ServiceError::Guest(source @ GuestError::Late { .. }) => {
            ServiceError::TestLate { test: cell.title(), source: Box::new(source) }
        }
        other => other,
    }
}

/// Whether the guests of an error can still be used.
pub fn leaves_guests(error: &ServiceError) -> bool {
    match error {
        ServiceError::Guest(error) => GuestError::leaves_guest(error),
        ServiceError::NoFigure { .. }
        | ServiceError::TooSoon(_)
        | ServiceError::SecondClient(_) => true,
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_late_test_says_what_to_change_in_the_plan() {
        let test = MountTest::Bonnie { mib: 256, files: 0, bytes: false };
        let cell = MountCell { place: MountPlace::Disk, system: None, nconnect: 1, test };
        let late = GuestError::Late {
            guest: "server".into(),
            what: "run bonnie++".into(),
            seconds: 1,
            last: String::new(),
        };
        let error = advised(late.into(), &cell);
        assert!(!leaves_guests(&error) && !error.is_fatal());
        let text = error.to_string();
        assert!(text.contains("smaller files") && text.contains("bonnie++ 256 MiB"), "{text}");
        assert!(!text.contains('\n'), "{text}");
        let other = advised(ServiceError::TooSoon("fio"), &cell);
        assert!(matches!(other, ServiceError::TooSoon("fio")));
    }

    #[test]
    fn only_what_a_plan_uses_has_to_be_installed() {
        let has = |program: &str, raid, cifs| programs(raid, cifs).any(|(name, _)| name == program);
        assert!(has("smbd", false, true) && has("pdbedit", false, true));
        assert!(!has("smbd", true, false) && has("mdadm", true, false));
        assert!(!has("mdadm", false, true) && has("fio", false, false));
    }

    #[test]
    fn larger_tests_may_take_longer() {
        let small = patience(&MountTest::Bonnie { mib: 0, files: 1, bytes: false });
        let large = patience(&MountTest::Bonnie { mib: 64, files: 2, bytes: false });
        assert!(small > SHORT && large > small);
    }
}
