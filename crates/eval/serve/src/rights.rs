//! What a server gives up before it answers anybody.

use super::ServeConfig;
use gigae_confine::{CapabilitySet, Confined, Confinement, Ports, lift_limits};
use gigae_eval_services::fence::{self, PROGRAMS};
use gigae_eval_session::programs;
use gigae_eval_session::programs::process;
use std::io;

/// What measuring takes: attaching an XDP program, raw frames and ICMP, loading the program. What
/// the process does not have it cannot keep; it measures without it.
const MEASURING: CapabilitySet =
    CapabilitySet::NET_ADMIN.union(CapabilitySet::NET_RAW).union(CapabilitySet::BPF);

/// Who a server of root's becomes: this user if the machine has it, else `nobody`.
const USER: &str = "gigae-serve";

/// Confines this process, which must have one thread, for good. `one_port` as in `--one-port`.
pub fn confine(config: &ServeConfig, one_port: bool) -> io::Result<Confined> {
    let locking = if lift_limits() { CapabilitySet::empty() } else { CapabilitySet::IPC_LOCK };
    let mut kept = MEASURING | locking;
    // It never connects by TCP: no client can point it at another machine.
    // Long messages go from memory that is lent to the kernel.
    let mut needs = Confinement::new().call(libc::SYS_bpf).call(libc::SYS_vmsplice);
    needs = needs.connect(Ports::None);
    // Each measured connection has its own port, or all have the one that listens already.
    let own_ports = !one_port || config.programs || config.files.is_some();
    needs = needs.bind(if own_ports { Ports::Any } else { Ports::None });
    if config.tuning {
        // Settings are files of root's in /sys and /proc. Those of a network namespace need a sysfs
        // of that namespace, which needs CAP_SYS_ADMIN and lies beneath no directory that Landlock
        // could allow.
        kept |= CapabilitySet::SYS_ADMIN;
        // The root of a hierarchy of control groups may have mode 555, and a slower CPU is a group
        // below it.
        kept |= CapabilitySet::DAC_OVERRIDE;
        needs = needs.all_files();
        for call in [libc::SYS_fsopen, libc::SYS_fsconfig, libc::SYS_fsmount, libc::SYS_setns] {
            needs = needs.call(call);
        }
    } else {
        needs = needs.user(USER).read("/proc").read("/sys");
    }
    if config.programs {
        let files = programs::all().iter().filter_map(|one| process::find(one.form().files[1]));
        let places = files.chain(PROGRAMS.map(Into::into));
        needs = places.fold(needs, Confinement::run);
        // iperf3 and netperf make files there.
        needs = needs.read("/etc").read("/dev").write("/dev/null").write("/tmp");
    }
    if let Some(directory) = &config.files {
        needs = fence::needs(needs, directory)?;
    }
    let has = rustix::thread::capabilities(None)?.permitted;
    needs.keep(kept & has).apply()
}
