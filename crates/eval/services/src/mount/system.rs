//! How one guest shares its files and another one mounts them: NFS by their kernels, smbd with the
//! kernel's CIFS, and `gigae share` with `gigae mount`.

use gigae_eval_model::mount_figure::MountSystem;
use gigae_uml::{HERE, INTERFACE, MODULES_AT};
use std::net::Ipv4Addr;
use std::path::Path;

use crate::own::{ETHERTYPE, SOCKET};
use crate::service::ServerPlace;
use crate::smb;

/// Where the server has its file system.
pub(super) const EXPORT: &str = "/mnt/disk";

/// Where a guest mounts it.
pub(super) const MOUNTED: &str = "/mnt/files";

/// The port of rpc.mountd, so that clients need not ask for it.
const MOUNTD: u16 = 20048;

/// The port of nfsd.
const NFSD: u16 = 2049;

/// Where smbd has its configuration and its state.
const SAMBA: &str = "/run/smb";

/// The kernel's CIFS, and the algorithms that it asks for: they sign, encrypt and identify.
const CIFS_MODULES: &str = "hmac cmac ctr gcm ghash-generic sha512_generic cifs";

/// What a script waits for, it looks at ten times a second, and gives up after so many times.
const LOOKS: u32 = 300;

/// The server and its addresses.
#[derive(Clone, Debug)]
pub(super) struct Server {
    pub(super) ip: Ipv4Addr,
    pub(super) mac: [u8; 6],
    /// gigae's program, by its path on this machine.
    pub(super) program: String,
}

/// Makes the file system, on a RAID-5 if the plan says so, and exports it by NFS. With `fsid=0` the
/// export is the root of version 4. Nobody waits for clients of an earlier server, so its grace
/// period ends at once. The server and its network of 24 bits may mount it.
pub(super) fn export_script(raid: bool, network: Ipv4Addr) -> String {
    let (make, device) = match raid {
        true => (RAID, "/dev/md0"),
        false => ("", "/dev/loop0"),
    };
    format!(
        "set -e\n\
         mkdir -p {EXPORT} {MOUNTED}\n\
         {make}\
         mkfs.ext4 -q -F -E nodiscard,lazy_itable_init=0,lazy_journal_init=0 {device}\n\
         mount -t ext4 {device} {EXPORT}\n\
         mount -t tmpfs tmpfs /var/lib/nfs\n\
         mkdir -p /var/lib/nfs/v4recovery /var/lib/nfs/rpc_pipefs /run/rpcbind\n\
         touch /var/lib/nfs/etab /var/lib/nfs/rmtab\n\
         mount -t nfsd nfsd /proc/fs/nfsd\n\
         rpcbind\n\
         rpc.mountd --port {MOUNTD}\n\
         exportfs -i -o rw,sync,no_root_squash,no_subtree_check,fsid=0 '{network}/24:{EXPORT}' \
         '127.0.0.1:{EXPORT}'\n\
         rpc.nfsd --no-udp --grace-time 10 --lease-time 10 8\n\
         echo Y >/proc/fs/nfsd/v4_end_grace || true\n",
    )
}

/// Removes all files, but for what ext4 keeps.
pub(super) fn clear_script() -> String {
    format!("find {EXPORT} -mindepth 1 -maxdepth 1 ! -name lost+found -exec rm -rf {{}} +")
}

/// Makes the array. The disks are new, so all of them are zero, which is what a RAID-5 of zeros
/// has: nothing needs to be synchronised (`--assume-clean`).
const RAID: &str = "export MDADM_NO_UDEV=1\n\
     mkdir -p /run/mdadm\n\
     mdadm --create /dev/md0 --run --assume-clean --level=5 --raid-devices=3 \
     /dev/loop0 /dev/loop1 /dev/loop2\n";

impl Server {
    /// gigae's program as a guest sees it, in quotation marks for the shell.
    fn quoted(&self) -> String {
        format!("'{HERE}{}'", self.program.replace('\'', "'\\''"))
    }

    /// Starts what shares the files, if that is not the kernel. It runs until the guest ends.
    pub(super) fn share_script(&self, system: MountSystem) -> Option<String> {
        match system {
            MountSystem::Nfs42 | MountSystem::Nfs3 => None,
            MountSystem::Cifs => Some(self.samba_script()),
            MountSystem::Gigae => Some(self.own_script()),
        }
    }

    /// Starts smbd, configured as on the ground without mounts.
    fn samba_script(&self) -> String {
        let place = ServerPlace {
            directory: Path::new(SAMBA),
            log: &Path::new(SAMBA).join("log"),
            export: Path::new(EXPORT),
            ip: self.ip,
            port: smb::PORT,
            password: smb::PASSWORD,
            interfaces: INTERFACE,
            writable: true,
        };
        let file = format!("{SAMBA}/conf");
        let start = format!("smbd {}", smb::server_words(&file).join(" "));
        format!(
            "set -e\n\
             mkdir -p {SAMBA}\n\
             cat >{file} <<'END'\n\
             {configuration}END\n\
             printf '{password}\\n{password}\\n' | pdbedit {add} >/dev/null\n\
             {start}",
            configuration = smb::configuration(&place),
            password = smb::PASSWORD,
            add = smb::user_words(&file).join(" "),
            start = background(&start, "smbd", &listens(smb::PORT))
        )
    }

    fn own_script(&self) -> String {
        let arguments = format!("--interface {INTERFACE} --ethertype {ETHERTYPE}");
        let rights = "--writable --trust-every-node";
        let start = format!("{} share {arguments} {rights} {EXPORT}", self.quoted());
        background(&start, "share", &format!("grep -q '{SOCKET}' /proc/net/unix"))
    }

    /// Mounts the files in a guest, by NFS with further options; `local` is the server itself. CIFS
    /// goes by the server's own address in any case: smbd has no other.
    pub(super) fn mount_script(&self, system: MountSystem, options: &str, local: bool) -> String {
        let options = if options.is_empty() { String::new() } else { format!(",{options}") };
        let ip = if local { Ipv4Addr::LOCALHOST } else { self.ip };
        match system {
            MountSystem::Nfs42 => {
                format!("mount -t nfs -o vers=4.2{options} {ip}:/ {MOUNTED}")
            }
            MountSystem::Nfs3 => format!(
                "mount -t nfs -o vers=3,nolock,proto=tcp,port={NFSD},mountproto=tcp,\
                 mountport={MOUNTD}{options} {ip}:{EXPORT} {MOUNTED}"
            ),
            MountSystem::Cifs => format!(
                "[ -e /proc/fs/cifs ] || modprobe -d {MODULES_AT} -a {CIFS_MODULES}\n\
                 mount -i -t cifs -o ip={ip},username={user},password={password},vers=3.1.1 \
                 //{ip}/{share} {MOUNTED}",
                ip = self.ip,
                user = smb::USER,
                password = smb::PASSWORD,
                share = smb::SHARE
            ),
            MountSystem::Gigae => {
                let mac = self.mac.map(|byte| format!("{byte:02x}")).join(":");
                let arguments = format!("--interface {INTERFACE} --ethertype {ETHERTYPE}");
                let start =
                    format!("{} mount --writable {arguments} {mac}: {MOUNTED}", self.quoted());
                background(&start, "mount", &format!("grep -q ' {MOUNTED} fuse' /proc/mounts"))
            }
        }
    }
}

/// Unmounts them, and waits for the program that has shown them, if there is one.
pub(super) fn unmount_script(system: MountSystem) -> String {
    let wait = match system {
        MountSystem::Nfs42 | MountSystem::Nfs3 | MountSystem::Cifs => "",
        MountSystem::Gigae => {
            "while kill -0 $(cat /run/mount.pid) 2>/dev/null; do sleep 0.1; done\n"
        }
    };
    format!("umount {MOUNTED} || exit\n{wait}")
}

/// The mount option for so many connections of NFS.
pub(super) fn connections(nconnect: u32) -> String {
    if nconnect > 1 { format!("nconnect={nconnect}") } else { String::new() }
}

/// Fails unless NFS has as many connections as the plan wants, if that is more than one. The kernel
/// makes each of them when it uses it first, so they are counted after the program.
pub(super) fn count_script(nconnect: u32) -> Option<String> {
    // In /proc/net/tcp, the other end comes before the state; 01 is an established connection.
    let script = format!(
        "made=$(grep -c ':{NFSD:04X} 01 ' /proc/net/tcp)\n\
         [ $made = {nconnect} ] || {{ echo $made of {nconnect} connections; exit 1; }}"
    );
    (nconnect > 1).then_some(script)
}

/// Whether a program waits for connections at a port of IPv4.
pub(super) fn listens(port: u16) -> String {
    format!("grep -q ':{port:04X} 00000000:0000 0A' /proc/net/tcp")
}

/// Starts a program and waits until a condition is true. What it says is in `/run/NAME.log`, its
/// number in `/run/NAME.pid`.
pub(super) fn background(start: &str, name: &str, until: &str) -> String {
    format!(
        "{start} </dev/null >/run/{name}.log 2>&1 &\n\
         echo $! >/run/{name}.pid\n\
         looks=0\n\
         until {until}; do\n\
         looks=$((looks + 1))\n\
         if [ $looks -gt {LOOKS} ] || ! kill -0 $! 2>/dev/null; then\n\
         cat /run/{name}.log\n\
         exit 1\n\
         fi\n\
         sleep 0.1\n\
         done\n"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn server() -> Server {
        Server {
            ip: Ipv4Addr::new(198, 18, 0, 130),
            mac: [2, 0, 0, 0x80, 0, 2],
            program: "/opt/it's/gigae".into(),
        }
    }

    #[test]
    fn version_3_asks_no_portmapper_and_version_4_has_its_own_root() {
        assert_eq!(
            server().mount_script(MountSystem::Nfs42, "", false),
            "mount -t nfs -o vers=4.2 198.18.0.130:/ /mnt/files"
        );
        let third = server().mount_script(MountSystem::Nfs3, "", false);
        assert!(third.contains("nolock") && third.contains("mountport=20048"), "{third}");
        assert!(third.ends_with("198.18.0.130:/mnt/disk /mnt/files"), "{third}");
        let local = server().mount_script(MountSystem::Nfs42, "", true);
        assert!(local.contains(" 127.0.0.1:/ "), "{local}");
        assert_eq!(server().share_script(MountSystem::Nfs3), None);
    }

    #[test]
    fn gigae_names_the_server_by_its_address_and_its_program_by_a_path_of_the_guest() {
        let mount = server().mount_script(MountSystem::Gigae, "", false);
        let words = "'/mnt/here/opt/it'\\''s/gigae' mount --writable --interface vec0 --ethertype 0x88b5 \
                     02:00:00:80:00:02: /mnt/files ";
        assert!(mount.starts_with(words), "{mount}");
        let share = server().share_script(MountSystem::Gigae).unwrap();
        assert!(share.contains("/gigae' share ") && share.contains(" /mnt/disk <"), "{share}");
        assert!(unmount_script(MountSystem::Gigae).contains("/run/mount.pid"));
        assert!(!unmount_script(MountSystem::Nfs42).contains("pid"));
    }

    #[test]
    fn several_connections_are_asked_for_and_counted() {
        for system in [MountSystem::Nfs42, MountSystem::Nfs3] {
            let mount = server().mount_script(system, &connections(4), false);
            assert!(mount.contains(",nconnect=4 198.18.0.130:/"), "{mount}");
            let mount = server().mount_script(system, &connections(1), false);
            assert!(!mount.contains("connect"), "{mount}");
        }
        assert_eq!(count_script(1), None);
        // Two connections to nfsd, one that is being closed, one to another port, and nfsd's own.
        let table = "  sl  local_address rem_address   st tx_queue\n\
             0: 8200120A:03E5 8300120A:0801 01 00000000:00000000 00:00000000\n\
             1: 8200120A:03E6 8300120A:0801 01 00000000:00000000 00:00000000\n\
             2: 8200120A:03E7 8300120A:0801 06 00000000:00000000 00:00000000\n\
             3: 8200120A:03E8 8300120A:4E50 01 00000000:00000000 00:00000000\n\
             4: 8200120A:0801 8300120A:03E5 01 00000000:00000000 00:00000000\n";
        let place = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(&place, table).unwrap();
        let run = |wanted: u32| {
            let file = place.path().to_str().unwrap();
            let script = count_script(wanted).unwrap().replace("/proc/net/tcp", file);
            std::process::Command::new("sh").args(["-c", &script]).output().unwrap()
        };
        assert!(run(2).status.success());
        let output = run(4);
        assert_eq!(String::from_utf8_lossy(&output.stdout), "2 of 4 connections\n");
        assert!(!output.status.success() && !run(3).status.success());
    }

    #[test]
    fn samba_is_configured_as_without_mounts_and_the_kernel_mounts_it_by_itself() {
        let share = server().share_script(MountSystem::Cifs).unwrap();
        for line in [
            "\npath = /mnt/disk\nread only = no\nEND\n",
            "\ninterfaces = 198.18.0.130\n",
            "\nprivate dir = /run/smb\n",
            "\nprintf 'gigae\\ngigae\\n' | pdbedit ",
            "grep -q ':01BD 00000000:0000 0A' /proc/net/tcp",
            "smbd --foreground --no-process-group --configfile /run/smb/conf <",
            "--configfile /run/smb/conf --create --password-from-stdin --user root >",
        ] {
            assert!(share.contains(line), "{line}: {share}");
        }
        for local in [false, true] {
            let mount = server().mount_script(MountSystem::Cifs, "", local);
            assert!(mount.contains("mount -i -t cifs -o ip=198.18.0.130,"), "{mount}");
            assert!(mount.ends_with(" //198.18.0.130/files /mnt/files"), "{mount}");
        }
    }

    #[test]
    fn an_array_is_made_only_where_the_plan_wants_one() {
        let network = Ipv4Addr::new(198, 18, 7, 0);
        let (plain, raid) = (export_script(false, network), export_script(true, network));
        assert!(plain.contains(" '198.18.7.0/24:/mnt/disk' "), "{plain}");
        assert!(plain.contains("mount -t ext4 /dev/loop0 /mnt/disk\n") && !plain.contains("mdadm"));
        assert!(raid.contains("mount -t ext4 /dev/md0 /mnt/disk\n"), "{raid}");
        let made = raid.find("mdadm --create").unwrap();
        assert!(made < raid.find("mkfs.ext4").unwrap(), "{raid}");
    }
}
