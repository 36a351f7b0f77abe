//! A port that goes down once, as if its cable were pulled and put in again.

use crate::{Fabric, FabricError, netns, tool, topology};
use std::fs;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::sleep;
use std::time::{Duration, Instant};

/// How often the port's counters are read, and whether the watched work has ended.
const LOOK: Duration = Duration::from_millis(2);

/// An outage that is to come. Its bytes count from [`Fabric::outage`] on.
#[derive(Debug)]
pub struct Outage {
    switch: String,
    port: String,
    /// Bytes that had passed the port before.
    begin: u64,
}

impl Fabric {
    /// Prepares an outage of the port of node `number`. Begin the work that it is to disturb after
    /// this.
    ///
    /// Only of a fabric with a bridge: a cable has no ports.
    pub fn outage(&self, number: u16) -> Result<Outage, FabricError> {
        let (switch, port) = (topology::switch_name(&self.config().prefix), topology::port(number));
        let begin = netns::inside(&switch, || passed(&port))?;
        Ok(Outage { switch, port, begin })
    }

    /// Brings the port of node `number` up. Nothing happens to one that is up.
    pub fn bring_up(&self, number: u16) -> Result<(), FabricError> {
        let port = topology::port(number);
        netns::inside(&topology::switch_name(&self.config().prefix), || set(&port, "up"))
    }
}

impl Outage {
    /// Waits until so many bytes have passed the port, both ways together, and takes it down for a
    /// time. The node's interface stays up and has no carrier meanwhile; frames to it are lost.
    ///
    /// `false`: the work ended before the port was down or while it was, so it was not disturbed.
    /// Then the outage ends early. After an error the port may be down: see [`Fabric::bring_up`].
    pub fn disturb(
        self,
        bytes: u64,
        time: Duration,
        ended: &AtomicBool,
    ) -> Result<bool, FabricError> {
        netns::inside(&self.switch, || {
            while passed(&self.port)?.saturating_sub(self.begin) < bytes {
                if ended.load(Ordering::Relaxed) {
                    return Ok(false);
                }
                sleep(LOOK);
            }
            let down = PortDown::take(&self.port)?;
            let begin = Instant::now();
            while begin.elapsed() < time && !ended.load(Ordering::Relaxed) {
                sleep(LOOK.min(time));
            }
            let met = !ended.load(Ordering::Relaxed);
            down.end()?;
            Ok(met)
        })
    }
}

/// A port that is down. Dropping it brings the port up.
struct PortDown<'a>(Option<&'a str>);

impl<'a> PortDown<'a> {
    fn take(port: &'a str) -> Result<Self, FabricError> {
        // Also if `ip` fails after it has done it.
        let down = Self(Some(port));
        set(port, "down")?;
        Ok(down)
    }

    fn end(mut self) -> Result<(), FabricError> {
        self.0.take().map_or(Ok(()), |port| set(port, "up"))
    }
}

impl Drop for PortDown<'_> {
    fn drop(&mut self) {
        if let Some(port) = self.0 {
            // The caller returns an error of its own.
            let _ = set(port, "up");
        }
    }
}

fn set(port: &str, state: &str) -> Result<(), FabricError> {
    tool::batch("ip", &format!("link set dev {port} {state}\n"))
}

/// Bytes that a port has received and sent.
fn passed(port: &str) -> Result<u64, FabricError> {
    let failed = |error| FabricError::system("reading the counters of a port", error);
    let text = fs::read_to_string("/proc/thread-self/net/dev").map_err(failed)?;
    count(&text, port).ok_or_else(|| failed(std::io::ErrorKind::NotFound.into()))
}

/// The same of `/proc/net/dev`: received bytes are the first of its counters, sent ones the ninth.
fn count(text: &str, port: &str) -> Option<u64> {
    let of = |line: &str| Some(line.trim().strip_prefix(port)?.strip_prefix(':')?.to_owned());
    let line = text.lines().find_map(of)?;
    let value = |index: usize| line.split_whitespace().nth(index)?.parse::<u64>().ok();
    Some(value(0)? + value(8)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_of_a_port_are_those_of_both_ways() {
        let text = "Inter-| Receive\n face |bytes\n    p1: 5 1 1 1 1 1 1 1 30 1\n   p10: 7 0 0 0 0 0 0 0 9\n";
        assert_eq!((count(text, "p1"), count(text, "p10")), (Some(35), Some(16)));
        assert_eq!((count(text, "p2"), count("p1: 5", "p1")), (None, None));
    }
}
