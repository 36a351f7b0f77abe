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
    /// The programs that it needs, and Debian's package of each; the server's is the first.
    pub programs: &'static [(&'static str, &'static str)],
    /// Whether its copies can be signed and encrypted.
    pub protects: bool,
    /// Whether its server has to run as the machine's root.
    pub needs_root: bool,
    /// What its client's clock counts, in milliseconds.
    pub clock_ms: f64,
}

/// All services.
pub const SERVICES: &[ServiceSpec] = &[
    ServiceSpec {
        name: "ftp",
        title: "FTP",
        about: "vsftpd and curl: passive transfers of an anonymous user, sent by sendfile(2)",
        programs: &[("vsftpd", "vsftpd"), ("curl", "curl")],
        protects: false,
        needs_root: false,
        clock_ms: 0.001,
    },
    ServiceSpec {
        name: "smb",
        title: "SMB",
        about: "smbd and smbclient (Samba): one user with a password",
        programs: &[("smbd", "samba"), ("pdbedit", "samba"), ("smbclient", "smbclient")],
        protects: true,
        needs_root: true,
        clock_ms: 1.0,
    },
];

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
}

impl Ground {
    /// The name in results.
    pub fn name(self) -> &'static str {
        match self {
            Self::Transfer => "transfer",
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
