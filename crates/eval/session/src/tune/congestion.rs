//! TCP's congestion control, per socket: only the measured connections have it, and nothing is left
//! to put back.

use super::interface::TunedInterface;
use super::knob::{Absent, Knob, KnobForm};
use gigae_eval_model::knobs::KnobOwner;
use gigae_eval_model::transport;
use std::fs;
use std::io;

pub(super) struct Congestion;

pub(super) const CONGESTION_CONTROL: Congestion = Congestion;

/// Longest name that the kernel knows, `TCP_CA_NAME_MAX` of linux/tcp.h.
const LONGEST: usize = 15;

/// What programs without CAP_NET_ADMIN may choose from; with it, all that are there.
const ALLOWED: &str = "sys/net/ipv4/tcp_allowed_congestion_control";

impl Knob for Congestion {
    fn form(&self) -> &KnobForm {
        &KnobForm {
            name: "congestion-control",
            about: "TCP's congestion control, of the measured connections only",
            belongs: KnobOwner::Program,
            values: "a name that tcp_available_congestion_control has, like \"bbr\"",
        }
    }

    fn accepts(&self, value: &str) -> bool {
        (1..=LONGEST).contains(&value.len())
            && value.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"_-".contains(&byte))
    }

    fn read(&self, nic: &TunedInterface) -> Result<String, Absent> {
        let set = nic.congestion.clone();
        Ok(set.unwrap_or_else(|| transport::CONGESTION_CONTROL.to_owned()))
    }

    fn exact(&self, nic: &TunedInterface, value: &str) -> Result<String, Absent> {
        let there = |file: &str| {
            let names = fs::read_to_string(nic.proc.join(file)).unwrap_or_default();
            names.split_whitespace().any(|name| name == value)
        };
        let available = ALLOWED.replace("allowed", "available");
        match (there(ALLOWED), there(&available)) {
            (true, _) => Ok(value.to_owned()),
            (false, true) if rustix::process::geteuid().is_root() => Ok(value.to_owned()),
            (false, true) => Err(Absent(format!("{ALLOWED} does not have it; run as root"))),
            (false, false) => Err(Absent::new("this kernel does not have it; load its module")),
        }
    }

    fn write(&self, nic: &mut TunedInterface, exact: &str) -> io::Result<()> {
        nic.congestion = (exact != transport::CONGESTION_CONTROL).then(|| exact.to_owned());
        Ok(())
    }

    fn commands(&self, _place: &TunedInterface, exact: &str) -> Vec<String> {
        vec![format!("sysctl -w net.ipv4.tcp_congestion_control={exact}")]
    }
}
