//! A port that goes down once, as if its cable were pulled and put in again.

use crate::{Fabric, FabricError, netns, tool, topology};
use std::fs;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::sleep;
use std::time::Duration;

/// How often the port's counters are read.
const LOOK: Duration = Duration::from_millis(2);

impl Fabric {
    /// Waits until so many bytes have passed the port of node `number`, both ways together, and
    /// takes it down for a time. The node's interface stays up and has no carrier meanwhile; frames
    /// to it are lost. `false`: the work that was watched ended before that, and the port was not
    /// down.
    ///
    /// Only of a fabric with a bridge: a cable has no ports.
    pub fn interrupt(
        &self,
        number: u16,
        bytes: u64,
        time: Duration,
        ended: &AtomicBool,
    ) -> Result<bool, FabricError> {
        let port = topology::port(number);
        netns::inside(&topology::switch_name(&self.config().prefix), || {
            let begin = passed(&port)?;
            while passed(&port)?.saturating_sub(begin) < bytes {
                if ended.load(Ordering::Relaxed) {
                    return Ok(false);
                }
                sleep(LOOK);
            }
            tool::batch("ip", &format!("link set dev {port} down\n"))?;
            sleep(time);
            tool::batch("ip", &format!("link set dev {port} up\n"))?;
            Ok(true)
        })
    }
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
