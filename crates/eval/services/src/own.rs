//! gigae's own file transfer: `gigae share` and `gigae cp`, as processes of the program that
//! measures.
//!
//! Both use Ethernet frames on all interfaces of the node. They do not read the cluster file's
//! envelope.

use crate::service::{Fetch, ServerPlace, Service, Transfer, UPLOADS, words};
use gigae_eval_model::service::{OWN, ServiceSpec, by_name};
use gigae_host::proc;
use std::io;
use std::path::Path;
use std::time::Duration;

pub(crate) struct Own;

/// The EtherType of the frames: the usual one of the library.
pub(crate) const ETHERTYPE: &str = "0x88b5";

/// `gigae share` has a socket of this name while it serves.
pub(crate) const SOCKET: &str = "@gigae share ";

impl Service for Own {
    fn spec(&self) -> &'static ServiceSpec {
        by_name(OWN).expect("the model has it")
    }

    fn is_ready(&self, _port: u16, _log: &Path) -> bool {
        proc::read("/proc/thread-self/net/unix").contains(SOCKET)
    }

    /// On a virtual network all nodes are this run's. Between machines, the server's owner accepts
    /// this.
    fn configure(&self, place: &ServerPlace<'_>) -> io::Result<Vec<String>> {
        let mut all = words(["share", "--interface", place.interfaces, "--ethertype", ETHERTYPE]);
        if place.writable {
            all.extend(words(["--writable", "--trust-every-node"]));
        }
        all.push(place.export.display().to_string());
        Ok(all)
    }

    fn version(&self) -> &'static str {
        "\"$1\" --version"
    }

    fn fetch(&self, fetch: &Fetch<'_>) -> Vec<String> {
        let node = fetch.mac.map(|byte| format!("{byte:02x}")).join(":");
        let mut all = words(["cp", "--json", "--interface", fetch.interfaces]);
        all.extend(words(["--ethertype", ETHERTYPE]));
        match fetch.sends {
            None => all.extend([format!("{node}:{}", fetch.file), fetch.into().into_owned()]),
            Some(from) => all.extend([from.display().to_string(), format!("{node}:{UPLOADS}")]),
        }
        all
    }

    /// Its time begins when its endpoint is open, so connecting is part of it. What is before is
    /// the rest of the client's life: its start, its endpoint, and its end.
    fn read(&self, _fetch: &Fetch<'_>, said: &str, whole: Duration) -> Option<Transfer> {
        let said: serde_json::Value = serde_json::from_str(said).ok()?;
        let (seconds, bytes) = (said["seconds"].as_f64()?, said["bytes"].as_u64()?);
        let complete = said["complete"].as_bool()? && seconds > 0.0;
        let before = (whole.as_secs_f64() - seconds).max(0.0);
        complete.then_some(Transfer { before: Some(before), seconds, bytes })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::service::testing::{fetch, sent, tree};

    #[test]
    fn the_server_is_named_by_its_address() {
        let last = |fetch: &Fetch<'_>| {
            let words = Own.fetch(fetch);
            words[words.len() - 2..].join(" ")
        };
        assert_eq!(last(&tree()), "02:00:00:00:00:02:200x20 /copies/0");
        assert_eq!(last(&sent()), "/export/20 02:00:00:00:00:02:in");
    }

    #[test]
    fn a_copy_that_is_not_complete_has_no_figures() {
        let read = |said: &str| Own.read(&fetch(), said, Duration::from_secs(2));
        let found = read("{\"seconds\": 1.5, \"bytes\": 20, \"complete\": true}").unwrap();
        assert_eq!((found.before, found.seconds, found.bytes), (Some(0.5), 1.5, 20));
        for said in ["", "{}", "{\"seconds\": 1.5, \"bytes\": 20, \"complete\": false}"] {
            assert_eq!(read(said), None, "{said}");
        }
    }
}
