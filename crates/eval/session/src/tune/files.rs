//! Knobs that are a file with a number: attributes of the interface in sysfs, and sysctls.
//!
//! `/proc/sys/net` shows the calling thread's namespace; what is the whole machine's is only in the
//! first one.

use super::interface::TunedInterface;
use super::knob::{Absent, Knob, KnobForm, number};
use gigae_eval_model::knobs::KnobOwner;
use std::fs;
use std::io;

/// A number in a file.
pub(super) struct Number {
    form: KnobForm,
    file: File,
    most: u32,
}

enum File {
    /// Below the interface's directory in sysfs.
    Sysfs(&'static str),
    /// Below `/proc/sys`; the whole machine's.
    Sysctl(&'static str),
}

/// Networking in the kernel's documentation, `networking/napi.rst`.
pub(super) const NAPI_DEFER: Number = Number {
    form: KnobForm {
        name: "napi-defer-hard-irqs",
        about: "empty polls before interrupts are allowed again; with gro-flush-timeout",
        belongs: KnobOwner::Kernel,
        values: "0 to 10000 polls",
    },
    file: File::Sysfs("napi_defer_hard_irqs"),
    most: 10_000,
};
pub(super) const GRO_FLUSH: Number = Number {
    form: KnobForm {
        name: "gro-flush-timeout",
        about: "nanoseconds until the kernel polls by itself, and lets joined frames go",
        belongs: KnobOwner::Kernel,
        values: "0 to 10000000 nanoseconds",
    },
    file: File::Sysfs("gro_flush_timeout"),
    most: 10_000_000,
};
/// The kernel's documentation, `admin-guide/sysctl/net.rst`.
pub(super) const BUSY_POLL: Number = Number {
    form: KnobForm {
        name: "busy-poll",
        about: "microseconds for which poll(2) drives the driver before it sleeps",
        belongs: KnobOwner::Machine,
        values: "0 to 10000 microseconds",
    },
    file: File::Sysctl("net/core/busy_poll"),
    most: 10_000,
};
pub(super) const BUSY_READ: Number = Number {
    form: KnobForm {
        name: "busy-read",
        about: "microseconds for which a read drives the driver before it sleeps",
        belongs: KnobOwner::Machine,
        values: "0 to 10000 microseconds",
    },
    file: File::Sysctl("net/core/busy_read"),
    most: 10_000,
};

impl Knob for Number {
    fn form(&self) -> &KnobForm {
        &self.form
    }

    fn accepts(&self, value: &str) -> bool {
        number(value).is_some_and(|value| value <= self.most)
    }

    fn read(&self, nic: &TunedInterface) -> Result<String, Absent> {
        let text = match self.file {
            File::Sysfs(file) => nic.sys_read(file),
            File::Sysctl(file) => fs::read_to_string(nic.proc.join("sys").join(file)),
        };
        text.map(|text| text.trim().to_owned()).map_err(|error| match error.kind() {
            io::ErrorKind::NotFound => Absent::new("this kernel does not have it here"),
            _ => Absent::of(&error),
        })
    }

    fn write(&self, nic: &mut TunedInterface, exact: &str) -> io::Result<()> {
        match self.file {
            File::Sysfs(file) => nic.sys_write(file, exact),
            File::Sysctl(file) => fs::write(nic.proc.join("sys").join(file), exact),
        }
    }

    fn commands(&self, nic: &TunedInterface, exact: &str) -> Vec<String> {
        vec![match self.file {
            File::Sysfs(file) => {
                format!("echo {exact} > /sys/class/net/{}/{file}", nic.interface)
            }
            File::Sysctl(file) => format!("sysctl -w {}={exact}", file.replace('/', ".")),
        }]
    }
}
