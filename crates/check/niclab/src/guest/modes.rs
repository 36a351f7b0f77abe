//! Which modes a driver has, by opening them.

use super::serial::Serial;
use super::testbed::{MTU, Testbed};
use crate::job::{Job, Opened, Report};
use gigae::{Backend, Mode, Options, Wait};
use std::time::Duration;

/// AF_XDP's modes and AF_PACKET, by name.
pub(super) const BACKENDS: [(&str, Backend); 5] = [
    ("auto", Backend::Auto),
    ("zero-copy", Backend::XdpMode(Mode::XdpZeroCopy)),
    ("native", Backend::XdpMode(Mode::XdpNative)),
    ("generic", Backend::XdpMode(Mode::XdpGeneric)),
    ("packet", Backend::Packet),
];

/// MTUs worth trying: the usual one, and the longest that the card has.
pub(super) fn mtus(job: &Job) -> Vec<u32> {
    if job.mtu > MTU { vec![MTU, job.mtu] } else { vec![MTU] }
}

/// The options of an endpoint of the lab.
pub(super) fn options(interface: &str, backend: Backend) -> Options {
    Options::new(interface).backend(backend).wait(Wait::Adaptive).linger(Duration::from_millis(200))
}

/// Opens every mode at every MTU and reports the outcome.
pub(super) fn run(job: &Job, testbed: &Testbed, serial: &Serial) -> Result<(), String> {
    for mtu in mtus(job) {
        set_mtu(testbed, mtu)?;
        for (asked, backend) in BACKENDS {
            let (mode, reason) = try_open(testbed, backend);
            serial.send(&Report::Opened(Opened { asked: asked.into(), mtu, mode, reason }));
        }
    }
    Ok(())
}

/// Sets the MTU of both cards.
pub(super) fn set_mtu(testbed: &Testbed, mtu: u32) -> Result<(), String> {
    for end in &testbed.ends {
        end.mtu(mtu).map_err(|error| format!("MTU {mtu} is refused: {error}"))?;
    }
    for end in &testbed.ends {
        end.await_carrier().map_err(|error| format!("at MTU {mtu}: {error}"))?;
    }
    Ok(())
}

/// The mode that is reached on both cards, and why; or what refuses it.
pub(super) fn try_open(testbed: &Testbed, backend: Backend) -> (Option<String>, String) {
    for end in &testbed.ends {
        let opened = end.enter().map_err(|error| error.to_string()).and_then(|_inside| {
            let endpoint = options(&end.interface, backend).open().map_err(|e| e.to_string())?;
            Ok((endpoint.link().mode.to_string(), endpoint.link().reason.clone()))
        });
        match opened {
            Ok((mode, reason)) if std::ptr::eq(end, &testbed.ends[1]) => {
                return (Some(mode), reason);
            }
            Ok(_) => {}
            Err(why) => return (None, why),
        }
    }
    (None, "there is no card".into())
}

/// The inventory of the first card.
pub(super) fn inventory(testbed: &Testbed, serial: &Serial) -> Result<(), String> {
    let end = &testbed.ends[0];
    let _inside = end.enter().map_err(|error| error.to_string())?;
    let nics = gigae_nic::inventory(Some(&end.interface)).map_err(|error| error.to_string())?;
    serial.send(&Report::Inventory(gigae_nic::table(&nics)));
    Ok(())
}
