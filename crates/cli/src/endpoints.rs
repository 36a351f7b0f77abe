//! The endpoints of this machine, for the commands that look at them.

use clap::Args;
use gigae_host::proc::process;
use gigae_observe::{FoundEndpoints, ObservedEndpoint, find};
use std::collections::BTreeSet;

/// Which endpoints are meant.
#[derive(Args, Debug)]
pub(crate) struct EndpointSelector {
    /// Only endpoints of this process
    #[arg(long, value_name = "PID")]
    pid: Option<u32>,
    /// Only endpoints on this interface
    #[arg(long, value_name = "IFACE")]
    nic: Option<String>,
}

impl EndpointSelector {
    /// Those that there are now, perhaps none.
    pub(crate) fn now(&self) -> std::io::Result<Vec<ObservedEndpoint>> {
        let mut found = find(self.pid)?.endpoints;
        found
            .retain(|endpoint| endpoint.about.links.iter().any(|link| self.means(&link.interface)));
        Ok(found)
    }

    /// Whether this interface's frames are meant. One that shares a NIC, such as `gigae0@eth1`, has
    /// two names.
    pub(crate) fn means(&self, interface: &str) -> bool {
        let is = |nic: &str| nic == interface || interface.split('@').any(|name| name == nic);
        self.nic.as_deref().is_none_or(is)
    }

    /// The endpoints found, at least one; or why this process sees no endpoint, and what to do.
    pub(crate) fn some(&self) -> Result<Vec<ObservedEndpoint>, String> {
        let found = find(self.pid).map_err(|error| format!("looking through /proc: {error}"))?;
        let wanted = self.now().map_err(|error| format!("looking through /proc: {error}"))?;
        if wanted.is_empty() { Err(self.obstacle(&found)) } else { Ok(wanted) }
    }

    fn obstacle(&self, found: &FoundEndpoints) -> String {
        if let Some(nic) = self.nic.as_deref().filter(|_| !found.endpoints.is_empty()) {
            let all = found.endpoints.iter().flat_map(|endpoint| &endpoint.about.links);
            let names: BTreeSet<_> = all.map(|link| &link.interface[..]).collect();
            let names = names.into_iter().collect::<Vec<_>>().join(", ");
            return format!("no endpoint that can be looked at is on {nic}; some are on {names}");
        }
        if let Some(pid) = found.foreign.first() {
            return format!(
                "process {pid} uses another release of the library; use that release's gigae command"
            );
        }
        match (self.pid, found.denied) {
            (Some(pid), 0) if !process::exists(pid) => {
                format!("there is no process {pid}; leave --pid out to see all endpoints")
            }
            (Some(pid), 0) => {
                format!("process {pid} has no endpoint open; leave --pid out to see all")
            }
            (Some(pid), _) => {
                format!("process {pid} belongs to another user; run this as that user or as root")
            }
            (None, 0) => {
                "no endpoint is open on this machine; start a program that uses one first".into()
            }
            (None, denied) => format!(
                "no endpoint of this user's is open, and {denied} processes of others cannot be looked into; \
                 start a program first, or run this as root"
            ),
        }
    }
}
