//! Knobs that are a file with a number: attributes of the interface in sysfs, and sysctls.
//!
//! `/proc/sys/net` shows the calling thread's namespace; what is the whole machine's is only in the first one.

use super::knob::{Absent, Knob, number};
use super::place::Place;
use gigae_eval_model::knobs::Belongs;
use std::fs;
use std::io;

/// A number in a file.
pub(super) struct Number {
    name: &'static str,
    about: &'static str,
    file: File,
    most: u32,
    values: &'static str,
}

enum File {
    /// Below the interface's directory in sysfs.
    Sysfs(&'static str),
    /// Below `/proc/sys`; the whole machine's.
    Sysctl(&'static str),
}

/// Networking in the kernel's documentation, `networking/napi.rst`.
pub(super) const NAPI_DEFER: Number = Number {
    name: "napi-defer-hard-irqs",
    about: "empty polls before interrupts are allowed again; with gro-flush-timeout",
    file: File::Sysfs("napi_defer_hard_irqs"),
    most: 10_000,
    values: "0 to 10000 polls",
};
pub(super) const GRO_FLUSH: Number = Number {
    name: "gro-flush-timeout",
    about: "nanoseconds until the kernel polls by itself, and lets joined frames go",
    file: File::Sysfs("gro_flush_timeout"),
    most: 10_000_000,
    values: "0 to 10000000 nanoseconds",
};
/// The kernel's documentation, `admin-guide/sysctl/net.rst`.
pub(super) const BUSY_POLL: Number = Number {
    name: "busy-poll",
    about: "microseconds for which poll(2) drives the driver before it sleeps",
    file: File::Sysctl("net/core/busy_poll"),
    most: 10_000,
    values: "0 to 10000 microseconds",
};
pub(super) const BUSY_READ: Number = Number {
    name: "busy-read",
    about: "microseconds for which a read drives the driver before it sleeps",
    file: File::Sysctl("net/core/busy_read"),
    most: 10_000,
    values: "0 to 10000 microseconds",
};

impl Knob for Number {
    fn name(&self) -> &'static str {
        self.name
    }

    fn about(&self) -> &'static str {
        self.about
    }

    fn belongs(&self) -> Belongs {
        match self.file {
            File::Sysfs(_) => Belongs::Kernel,
            File::Sysctl(_) => Belongs::Machine,
        }
    }

    fn values(&self) -> &'static str {
        self.values
    }

    fn accepts(&self, value: &str) -> bool {
        number(value).is_some_and(|value| value <= self.most)
    }

    fn read(&self, place: &Place) -> Result<String, Absent> {
        let text = match self.file {
            File::Sysfs(file) => place.sys_read(file),
            File::Sysctl(file) => fs::read_to_string(place.proc.join("sys").join(file)),
        };
        text.map(|text| text.trim().to_owned()).map_err(|error| match error.kind() {
            io::ErrorKind::NotFound => Absent::new("this kernel does not have it here"),
            _ => Absent::of(&error),
        })
    }

    fn exact(&self, _place: &Place, value: &str) -> Result<String, Absent> {
        Ok(value.to_owned())
    }

    fn write(&self, place: &mut Place, exact: &str) -> io::Result<()> {
        match self.file {
            File::Sysfs(file) => place.sys_write(file, exact),
            File::Sysctl(file) => fs::write(place.proc.join("sys").join(file), exact),
        }
    }

    fn commands(&self, place: &Place, exact: &str) -> Vec<String> {
        vec![match self.file {
            File::Sysfs(file) => {
                format!("echo {exact} > /sys/class/net/{}/{file}", place.interface)
            }
            File::Sysctl(file) => format!("sysctl -w {}={exact}", file.replace('/', ".")),
        }]
    }
}
