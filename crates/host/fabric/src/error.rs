//! Why a fabric could not be built, changed, found or removed; one line each.

use std::io;

use gigae_host::user;

/// Why an operation on a fabric failed. Every message is one line and says what to do next.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FabricError {
    /// A setting cannot be built.
    #[error("{0}")]
    Config(String),
    /// The process may not make network namespaces.
    #[error(
        "a fabric needs CAP_SYS_ADMIN and CAP_NET_ADMIN for its network namespaces; run as root, for example with sudo"
    )]
    Privileges,
    /// An ordinary user's fabric needs a user namespace, and the user may not make one here.
    #[error(
        "an ordinary user's virtual network takes a user namespace, which cannot be made: {why}"
    )]
    UserNamespace {
        /// What forbids it, and who can allow it.
        why: String,
    },
    /// The kernel keeps it for root outside of user namespaces.
    #[error("{what} in a user namespace is not permitted; run as root")]
    NeedsRoot {
        /// What was attempted.
        what: &'static str,
    },
    /// A program that the set-up needs is not installed.
    #[error("the program `{program}` was not found; install it: apt-get install {package}")]
    Program {
        /// The program's name.
        program: &'static str,
        /// The Debian package that holds it.
        package: &'static str,
    },
    /// There is a fabric with this prefix already.
    #[error(
        "a fabric with the prefix {prefix} exists already; remove it with `gigae fabric down --prefix {prefix}` or choose another prefix"
    )]
    InUse {
        /// The prefix.
        prefix: String,
    },
    /// A namespace of a name that the fabric needs exists and does not carry the fabric's mark.
    #[error(
        "the network namespace {name} exists and was not made by gigae; choose another prefix, or remove it yourself with `ip netns del {name}`"
    )]
    Foreign {
        /// The namespace's name.
        name: String,
    },
    /// There is no fabric with this prefix.
    #[error(
        "there is no fabric with the prefix {prefix}; create one with `gigae fabric up --prefix {prefix}`"
    )]
    Absent {
        /// The prefix.
        prefix: String,
    },
    /// The process that delays frames is gone.
    #[error(
        "the forwarder of the fabric {prefix} has ended, so no frame passes; see whether memory ran out, and create the fabric again"
    )]
    ForwarderEnded {
        /// The prefix.
        prefix: String,
    },
    /// `ip` or `tc` refused a line.
    #[error("`{program} {line}` failed: {message}; the kernel may lack a part (veth, bridge, tbf)")]
    Tool {
        /// The program.
        program: &'static str,
        /// The line that it was given.
        line: String,
        /// What it said.
        message: String,
    },
    /// The kernel refused something.
    #[error("{what}: {source}")]
    System {
        /// What was attempted.
        what: String,
        /// The kernel's answer.
        source: io::Error,
    },
    /// The impairment program could not be loaded, attached or read.
    #[error(
        "{what} failed: {message}; impairments need CAP_BPF and a kernel with clsact and BPF classifiers (5.12 or later)"
    )]
    Bpf {
        /// What was attempted.
        what: &'static str,
        /// What the loader said.
        message: String,
    },
}

impl FabricError {
    pub(crate) fn config(message: impl Into<String>) -> FabricError {
        FabricError::Config(message.into())
    }

    pub(crate) fn system(what: impl Into<String>, source: impl Into<io::Error>) -> FabricError {
        FabricError::System { what: what.into(), source: source.into() }
    }

    /// What the kernel refused to do with namespaces and mounts: mostly for lack of privileges.
    pub(crate) fn privileged(what: impl Into<String>, source: impl Into<io::Error>) -> FabricError {
        match source.into() {
            error if error.kind() == io::ErrorKind::PermissionDenied => FabricError::Privileges,
            error => FabricError::system(what, error),
        }
    }

    pub(crate) fn bpf(what: &'static str, error: impl std::error::Error) -> FabricError {
        if user::in_user_namespace() {
            return FabricError::NeedsRoot { what };
        }
        let mut message = error.to_string();
        let mut cause = error.source();
        while let Some(inner) = cause {
            let text = inner.to_string();
            if !message.contains(&text) {
                message = format!("{message}: {text}");
            }
            cause = inner.source();
        }
        // A verifier log has many lines; the last ones hold the reason.
        let message = message.split_whitespace().collect::<Vec<_>>().join(" ");
        FabricError::Bpf { what, message }
    }
}
