//! File services: what each is and which programs it needs, as data. How each is configured and
//! run is a file in the crate `gigae-eval-services`.

use serde::{Deserialize, Serialize};

/// A file service.
#[derive(Debug)]
pub struct ServiceSpec {
    /// Its name in plans and results.
    pub name: &'static str,
    /// Its name in sentences.
    pub title: &'static str,
    /// What it is, in a few words for people.
    pub about: &'static str,
    /// The programs that it needs, and Debian's package of each: the server's is the first, the
    /// client's the last.
    pub programs: &'static [(&'static str, &'static str)],
    /// Libraries that its server loads, by their paths beneath a directory of libraries, and
    /// Debian's package of each.
    pub libraries: &'static [(&'static str, &'static str)],
    /// Whether its copies can be signed and encrypted.
    pub protects: bool,
    /// Why its server has to run as the machine's root; absent: it does not.
    pub needs_root: Option<&'static str>,
    /// What its client's clock counts, in milliseconds.
    pub clock_ms: f64,
    /// Whether its client also fetches to `/dev/null`, and over connections that it has used
    /// before.
    pub streams: bool,
    /// Which ways its client transfers whole directories.
    pub trees: &'static [Direction],
    /// Whether a program can read and write within a file (`[[access]]`).
    pub accesses: bool,
    /// Whether its operations on names can be measured (`[[metadata]]`).
    pub names: bool,
}

const BOTH: &[Direction] = &[Direction::Get, Direction::Put];

/// What gigae's own file transfer is called in plans and results.
pub const OWN: &str = "gigae";

/// All services.
pub const SERVICES: &[ServiceSpec] = &[
    ServiceSpec {
        name: "ftp",
        title: "FTP",
        about: "vsftpd and curl: passive transfers with a password, sent by sendfile(2)",
        programs: &[("vsftpd", "vsftpd"), ("curl", "curl")],
        libraries: &[],
        protects: false,
        needs_root: None,
        clock_ms: 0.001,
        streams: true,
        trees: &[Direction::Get],
        accesses: false,
        names: false,
    },
    ServiceSpec {
        name: "smb",
        title: "SMB",
        about: "smbd and smbclient (Samba): one user with a password",
        programs: &[("smbd", "samba"), ("pdbedit", "samba"), ("smbclient", "smbclient")],
        libraries: &[],
        protects: true,
        needs_root: Some("becomes other users"),
        clock_ms: 1.0,
        streams: true,
        trees: BOTH,
        accesses: false,
        names: false,
    },
    ServiceSpec {
        name: "nfs",
        title: "NFS",
        about: "NFS-Ganesha and nfs-cp of libnfs: NFS version 3 over TCP, without a mount",
        programs: &[
            ("ganesha.nfsd", "nfs-ganesha"),
            ("rpcbind", "rpcbind"),
            ("nfs-cp", "libnfs-utils"),
        ],
        libraries: &[("ganesha/libfsalvfs.so", "nfs-ganesha-vfs")],
        protects: false,
        needs_root: Some("opens files by their handles"),
        clock_ms: CLIENTS_LIFE_MS,
        streams: false,
        trees: &[],
        accesses: true,
        names: true,
    },
    ServiceSpec {
        name: "lftp",
        title: "lftp",
        about: "vsftpd and lftp: 4 connections for a file, 8 for a tree, one to send a file",
        programs: &[("vsftpd", "vsftpd"), ("lftp", "lftp")],
        libraries: &[],
        protects: false,
        needs_root: None,
        clock_ms: CLIENTS_LIFE_MS,
        streams: false,
        trees: BOTH,
        accesses: false,
        names: false,
    },
    ServiceSpec {
        name: "rsync",
        title: "rsync's daemon",
        about: "rsync --daemon and rsync: one module with a password",
        programs: &[("rsync", "rsync")],
        libraries: &[],
        protects: false,
        needs_root: None,
        clock_ms: CLIENTS_LIFE_MS,
        streams: false,
        trees: BOTH,
        accesses: false,
        names: false,
    },
    ServiceSpec {
        name: "rsync-ssh",
        title: "rsync over ssh",
        about: "sshd and rsync: OpenSSH with a key, its usual cipher",
        programs: &[
            ("sshd", "openssh-server"),
            ("ssh-keygen", "openssh-client"),
            ("ssh", "openssh-client"),
            ("rsync", "rsync"),
        ],
        libraries: &[],
        protects: false,
        needs_root: Some("lets the user root in"),
        clock_ms: CLIENTS_LIFE_MS,
        streams: false,
        trees: BOTH,
        accesses: false,
        names: false,
    },
    ServiceSpec {
        name: "scp",
        title: "scp",
        about: "sshd and scp: OpenSSH with a key, its usual cipher and protocol",
        programs: &[
            ("sshd", "openssh-server"),
            ("ssh-keygen", "openssh-client"),
            ("ssh", "openssh-client"),
            ("scp", "openssh-client"),
        ],
        libraries: &[],
        protects: false,
        needs_root: Some("lets the user root in"),
        clock_ms: CLIENTS_LIFE_MS,
        streams: false,
        trees: BOTH,
        accesses: false,
        names: false,
    },
    ServiceSpec {
        name: OWN,
        title: "gigae cp",
        about: "gigae share and gigae cp of this program, in Ethernet frames",
        programs: &[(OWN, OWN)],
        libraries: &[],
        protects: false,
        needs_root: None,
        clock_ms: 0.001,
        streams: false,
        trees: BOTH,
        accesses: false,
        names: false,
    },
];

/// Of clients that do not say how long a transfer took, their whole life is the transfer. The
/// run looks for their end at this interval.
const CLIENTS_LIFE_MS: f64 = 1.0;

/// Finds a service.
pub fn by_name(name: &str) -> Option<&'static ServiceSpec> {
    SERVICES.iter().find(|service| service.name == name)
}

/// All names, for messages to people.
pub fn names() -> String {
    SERVICES.iter().map(|service| service.name).collect::<Vec<_>>().join(", ")
}

/// How the client reaches the files. Figures of different grounds never share a ratio.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Ground {
    /// A program transfers whole files; no file system is mounted.
    Transfer,
    /// A kernel mounts a file system, and programs use it.
    Mount,
    /// As [`Transfer`](Self::Transfer), between two emulated cards of a guest of the NIC lab, in
    /// its virtual time.
    Lab,
}

impl Ground {
    /// The name in results.
    pub fn name(self) -> &'static str {
        match self {
            Self::Transfer => "transfer",
            Self::Mount => "mount",
            Self::Lab => "lab",
        }
    }
}

/// Where a copy goes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Sink {
    /// To `/dev/null`: the disk of the client plays no part.
    #[default]
    Null,
    /// Into a new file, as the client leaves it. The kernel may write it to the disk later.
    Disk,
}

impl Sink {
    /// The name in plans and results.
    pub fn name(self) -> &'static str {
        match self {
            Self::Null => "null",
            Self::Disk => "disk",
        }
    }
}

/// Which end has the file at first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Direction {
    /// The server: the client fetches it.
    #[default]
    Get,
    /// The client: it sends the file.
    Put,
}

impl Direction {
    /// The name in plans and results.
    pub fn name(self) -> &'static str {
        match self {
            Self::Get => "get",
            Self::Put => "put",
        }
    }

    /// Whether the client fetches.
    pub fn is_get(&self) -> bool {
        *self == Self::Get
    }
}

/// Over which connection a file comes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Connection {
    /// A new one, with its login.
    #[default]
    New,
    /// One that has already brought another file.
    Kept,
}

impl Connection {
    /// The name in plans and results.
    pub fn name(self) -> &'static str {
        match self {
            Self::New => "new",
            Self::Kept => "kept",
        }
    }
}

/// What protects a copy on its way.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Protection {
    /// Nothing.
    #[default]
    Off,
    /// Every packet is signed.
    Sign,
    /// Every packet is encrypted.
    Encrypt,
}

impl Protection {
    /// The name in plans and results.
    pub fn name(self) -> &'static str {
        match self {
            Self::Off => "off",
            Self::Sign => "sign",
            Self::Encrypt => "encrypt",
        }
    }

    /// Whether there is none.
    pub fn is_off(&self) -> bool {
        *self == Self::Off
    }
}
