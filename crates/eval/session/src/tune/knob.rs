//! What a knob is.

use super::interface::TunedInterface;
use gigae_eval_model::knobs::KnobOwner;
use std::io;

/// What a knob is, in plans and for people.
#[derive(Clone, Copy)]
pub struct KnobForm {
    /// Its name in plans and results.
    pub name: &'static str,
    /// What it does, in a few words.
    pub about: &'static str,
    /// Whose setting it is.
    pub belongs: KnobOwner,
    /// The values that make sense, in words.
    pub values: &'static str,
}

/// Something that can be read and set.
///
/// Values are texts. An *exact* one is as [`Knob::read`] gives it and can be compared and put back;
/// a plan may also use words whose exact value depends on the end, like `all` CPUs.
pub trait Knob: Sync {
    /// What it is.
    fn form(&self) -> &KnobForm;

    /// Its name in plans and results.
    fn name(&self) -> &'static str {
        self.form().name
    }

    /// Whether a plan may ask for this value.
    fn accepts(&self, value: &str) -> bool;

    /// The exact value, or why this setting has no value here.
    fn read(&self, nic: &TunedInterface) -> Result<String, Absent>;

    /// A plan's value as [`Knob::read`] would give it here.
    fn exact(&self, nic: &TunedInterface, value: &str) -> Result<String, Absent> {
        let _ = nic;
        Ok(value.to_owned())
    }

    /// Sets an exact value.
    fn write(&self, nic: &mut TunedInterface, exact: &str) -> io::Result<()>;

    /// An exact value for people.
    fn say(&self, exact: &str) -> String {
        exact.to_owned()
    }

    /// The command lines that set an exact value by hand.
    fn commands(&self, nic: &TunedInterface, exact: &str) -> Vec<String>;

    /// Whether a killed process leaves something of it that its guardian must remove, although the
    /// setting itself ends with the process.
    fn leaves_something(&self) -> bool {
        false
    }

    /// What else to know about it here.
    fn note(&self, nic: &TunedInterface) -> Option<String> {
        let _ = nic;
        None
    }
}

/// Why a knob, or a value of it, is not to be had here, in one line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Absent(pub String);

impl Absent {
    pub(super) fn new(why: &str) -> Self {
        Self(why.to_owned())
    }

    /// What a driver or the kernel answered.
    pub(super) fn of(error: &io::Error) -> Self {
        match error.raw_os_error() {
            Some(libc::EOPNOTSUPP) => Self::new("the driver does not have it"),
            _ => Self(format!("the kernel does not report it: {error}")),
        }
    }
}

/// Whole numbers in decimal, without signs or leading zeros.
pub(super) fn number(value: &str) -> Option<u32> {
    let plain = value == "0" || !value.starts_with('0');
    let digits = !value.is_empty() && value.bytes().all(|byte| byte.is_ascii_digit());
    value.parse().ok().filter(|_| plain && digits)
}
