//! Slurm between hosts: `munged`, `slurmctld` on the first host and a `slurmd` on each, for one job
//! of `srun`.
//!
//! All of it is a job of [`Hosts::run`], so the daemons end with it. Each host has its own name and
//! network, so each `slurmd` is that of an ordinary node. What the daemons keep in files lies in
//! the hosts' directory, apart for each node (`%n`), since the nodes have one file system.

use crate::Error;
use crate::hosts::{Finished, Hosts};
use std::fmt::Write;
use std::fs;
use std::path::Path;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

/// How ranks exchange what they say of themselves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exchange {
    /// `--mpi=pmi2`
    Pmi2,
    /// `--mpi=pmix`
    Pmix,
    /// `--mpi=none`
    None,
}

impl Exchange {
    /// As `srun` takes it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Pmi2 => "pmi2",
            Self::Pmix => "pmix",
            Self::None => "none",
        }
    }
}

/// What the distribution's packages have, and what they are called.
const PROGRAMS: [(&str, &str); 4] = [
    ("munged", "munge"),
    ("slurmctld", "slurmctld"),
    ("slurmd", "slurmd"),
    ("srun", "slurm-client"),
];

/// Starts the daemons and waits until all nodes are idle; then the job. What daemons say is in
/// files, whose ends are shown if the nodes do not come up.
const SCRIPT: &str = r#"
head -c 1024 /dev/urandom > "$SLURM_PLACE/key" && chmod 600 "$SLURM_PLACE/key" || exit 1
munged -f --key-file="$SLURM_PLACE/key" --socket="$SLURM_PLACE/munge.sock" \
    --pid-file="$SLURM_PLACE/munged.pid" --log-file="$SLURM_PLACE/munged.log" \
    --seed-file="$SLURM_PLACE/seed" || exit 1
slurmctld -D >/dev/null 2>&1 &
for node in $SLURM_HOSTS; do
    mkdir -p "$SLURM_PLACE/tmp.$node"
    /run/enter "$node" slurmd -D >/dev/null 2>&1 &
done
wanted=$(echo $SLURM_HOSTS | wc -w)
left=600
until [ "$(sinfo -h -N -o %T 2>/dev/null | grep -c '^idle$')" = "$wanted" ]; do
    left=$((left - 1))
    if [ $left = 0 ]; then
        tail -n 5 "$SLURM_PLACE"/*.log >&2
        exit 1
    fi
    sleep 0.1
done
exec "$@"
"#;

/// Runs a program by `srun`, a rank on each host, to its end, whatever its exit status.
pub fn run(
    hosts: &Hosts,
    exchange: Exchange,
    program: &[&str],
    limit: Duration,
    interrupted: &AtomicBool,
) -> Result<Finished, Error> {
    for (name, package) in PROGRAMS {
        // Daemons are not in every user's PATH.
        let further = ["/usr/sbin", "/usr/local/sbin"].map(|place| Path::new(place).join(name));
        if gigae_host::path::find(name, &[]).is_none() && !further.iter().any(|one| one.is_file()) {
            return Err(format!("{name} is not installed; run: tools/need {name}={package}"));
        }
    }
    let count = hosts.fabric().config().nodes;
    let place = hosts.place().join("slurm");
    fs::create_dir_all(place.join("state")).map_err(|error| failed(&place, &error))?;
    let write = |name: &str, text: &str| {
        let file = place.join(name);
        fs::write(&file, text).map(|()| file.clone()).map_err(|error| failed(&file, &error))
    };
    let configuration = write("slurm.conf", &configuration(hosts, &place))?;
    // Nothing of a control group is used, but slurmd has no plug-in that says so.
    write("cgroup.conf", "CgroupPlugin=cgroup/v1\nCgroupAutomount=no\n")?;
    let script = write("run", SCRIPT)?;
    let names: Vec<String> = (1..=count).map(|host| format!("n{host}")).collect();
    let number = count.to_string();
    let mut argv: Vec<String> = vec![
        "env".into(),
        "PATH=/usr/sbin:/usr/bin:/sbin:/bin:/usr/local/sbin:/usr/local/bin".into(),
        format!("SLURM_CONF={}", configuration.display()),
        format!("SLURM_PLACE={}", place.display()),
        format!("SLURM_HOSTS={}", names.join(" ")),
        "sh".into(),
        script.display().to_string(),
    ];
    let srun = ["srun", "-K", "-N", &number, "-n", &number, "--mpi", exchange.name()];
    argv.extend(srun.iter().chain(program).map(|&word| word.to_owned()));
    hosts.run(&argv, limit, interrupted)
}

fn failed(path: &Path, error: &std::io::Error) -> Error {
    format!("writing {}: {error}", path.display())
}

fn configuration(hosts: &Hosts, place: &Path) -> String {
    let place = place.display();
    let address = |host: u16| hosts.fabric().node(host).ipv4;
    let mut text = format!(
        "ClusterName=gigae\n\
         SlurmctldHost=n1({})\n\
         SlurmUser=root\n\
         AuthType=auth/munge\n\
         CredType=cred/munge\n\
         AuthInfo=socket={place}/munge.sock\n\
         StateSaveLocation={place}/state\n\
         SlurmctldPidFile={place}/slurmctld.pid\n\
         SlurmctldLogFile={place}/slurmctld.log\n\
         SlurmdSpoolDir={place}/spool.%n\n\
         SlurmdPidFile={place}/slurmd.%n.pid\n\
         SlurmdLogFile={place}/slurmd.%n.log\n\
         TmpFS={place}/tmp.%n\n\
         ProctrackType=proctrack/linuxproc\n\
         TaskPlugin=task/none\n\
         MailProg=/bin/true\n\
         ReturnToService=2\n\
         SlurmdParameters=config_overrides\n\
         KillWait=1\n",
        address(1)
    );
    let count = hosts.fabric().config().nodes;
    for host in 1..=count {
        let _ = writeln!(text, "NodeName=n{host} NodeAddr={} CPUs=1 State=UNKNOWN", address(host));
    }
    text.push_str("PartitionName=all Nodes=ALL Default=YES State=UP\n");
    text
}
