//! A guest that runs: started, given scripts, and ended on every way out.
//!
//! `unshare` makes a PID namespace, whose first process is a shell that waits for the guest's
//! kernel. (A kernel that dies ends itself by a signal, which the first process of a namespace
//! ignores.) Its processes are processes of this machine, too, and go with the namespace. The
//! kernel of this machine kills `unshare` when this process ends, and the namespace when `unshare`
//! does (prctl(2) `PR_SET_PDEATHSIG`).
//!
//! The namespace has mounts of its own, and all of them are read-only but for the guest's directory
//! ([`START`]). So this machine's kernel refuses what a guest tries to write elsewhere, however it
//! mounts hostfs. The guest's memory is a file of a tmpfs there, which has a limit of its own.

use crate::error::GuestError;
use crate::init::{DISK_FILES, MOST_DISKS, Machine, is_plain};
use crate::reply::{Reply, ReplyReader};
use gigae_host::path::find;
use gigae_host::proc::process;
use rustix::process::{Pid, Signal, kill_process};
use std::fs::{self, DirBuilder, File};
use std::io::{self, Read, Write};
use std::os::unix::fs::DirBuilderExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStderr, ChildStdin, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, sync_channel};
use std::time::{Duration, Instant};

/// Time to boot: a few seconds, on a busy machine a minute.
const BOOT: Duration = Duration::from_secs(120);

/// How often it is looked whether the caller was interrupted.
const LOOK: Duration = Duration::from_millis(20);

/// Time for the processes of a guest that was killed to be gone.
const GONE: Duration = Duration::from_secs(10);

/// Of a console or an output, this many last lines are shown, each with so many characters.
const LINES: usize = 3;
const LINE: usize = 160;

/// Chunks of output that wait to be taken.
const CHUNKS: usize = 64;

/// Where programs are, beside the directories of `PATH`.
const SYSTEM: [&str; 2] = ["/usr/sbin", "/sbin"];

/// A guest. It ends with this value, and with the thread that booted it.
#[derive(Debug)]
pub struct Guest {
    name: String,
    place: PathBuf,
    child: Child,
    stdin: Option<ChildStdin>,
    said: Receiver<Vec<u8>>,
    reader: ReplyReader,
    scripts: u32,
    kernel: String,
}

impl Drop for Guest {
    fn drop(&mut self) {
        self.end();
    }
}

impl Guest {
    /// Boots a guest on the CPUs and in the network of the calling thread, which must live as long.
    pub fn boot(machine: &Machine<'_>, interrupted: &AtomicBool) -> Result<Self, GuestError> {
        let place = machine.place();
        if !is_plain(&place) {
            return Err(GuestError::Directory(place.display().to_string()));
        }
        assert!(machine.disks.len() <= MOST_DISKS, "more disks than loop devices");
        let failed = |what| {
            let guest = machine.name.to_owned();
            move |source: io::Error| GuestError::Start { guest, what, source }
        };
        has_memory(machine)?;
        prepare(machine, &place).map_err(failed("write its files"))?;
        let console = File::create(place.join("console")).map_err(failed("write its console"))?;
        let mut command = command(machine)?;
        command.stdin(Stdio::piped()).stdout(console).stderr(Stdio::piped());
        // What a kernel writes into its directory when it dies stays in ours.
        command.current_dir(&place).env("LC_ALL", "C").env_remove("TMPDIR");
        // Ctrl-C at the terminal is for this process, which ends its guests.
        command.process_group(0);
        let mut child = command.spawn().map_err(failed("start it"))?;
        let stdin = child.stdin.take();
        let said = listen(child.stderr.take());
        let mut guest = Self {
            name: machine.name.to_owned(),
            place,
            child,
            stdin,
            said,
            reader: ReplyReader::default(),
            scripts: 0,
            kernel: String::new(),
        };
        match guest.reply("boot", (Instant::now() + BOOT, BOOT), interrupted)? {
            Reply::Ready => {}
            Reply::Done { .. } => return Err(guest.gone()),
        }
        guest.kernel = guest.run("say its version", "uname -r", BOOT, interrupted)?.trim().into();
        Ok(guest)
    }

    /// The release of its kernel.
    pub fn kernel(&self) -> &str {
        &self.kernel
    }

    /// The number of its first process on this machine. Its others are below that.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// Runs a shell script in it; what the script said, if it ended with status 0. `what` completes
    /// the sentence "the guest could not".
    pub fn run(
        &mut self,
        what: &str,
        script: &str,
        most: Duration,
        interrupted: &AtomicBool,
    ) -> Result<String, GuestError> {
        self.scripts += 1;
        let wanted = self.scripts;
        let start = |what, source| GuestError::Start { guest: self.name.clone(), what, source };
        let file = self.place.join(wanted.to_string());
        fs::write(file, script).map_err(|source| start("write a script", source))?;
        let line = format!("{wanted}\n");
        let sent = self.stdin.as_mut().map(|stdin| stdin.write_all(line.as_bytes()));
        if !matches!(sent, Some(Ok(()))) {
            return Err(self.gone());
        }
        // One for all replies: a guest that repeats others is late, too.
        let deadline = Instant::now() + most;
        loop {
            match self.reply(what, (deadline, most), interrupted)? {
                Reply::Done { number, status, said } if number == wanted => {
                    let said = String::from_utf8_lossy(&said).into_owned();
                    let guest = self.name.clone();
                    return match status {
                        0 => Ok(said),
                        _ => Err(GuestError::Failed {
                            guest,
                            what: what.to_owned(),
                            status,
                            last: last_lines(&said),
                        }),
                    };
                }
                _ => {}
            }
        }
    }

    /// Waits for the next reply; without it, the guest is ended.
    fn reply(
        &mut self,
        what: &str,
        (deadline, most): (Instant, Duration),
        interrupted: &AtomicBool,
    ) -> Result<Reply, GuestError> {
        loop {
            if interrupted.load(Ordering::Relaxed) {
                return Err(GuestError::Interrupted);
            }
            // A guest that says something else all the time is as late as one that is silent.
            if Instant::now() > deadline {
                self.end();
                return Err(GuestError::Late {
                    guest: self.name.clone(),
                    what: what.to_owned(),
                    seconds: most.as_secs(),
                    last: self.console(),
                });
            }
            match self.said.recv_timeout(LOOK) {
                Ok(bytes) => {
                    // One script at a time, so a chunk never has two replies.
                    if let Some(reply) = self.reader.take(&bytes).into_iter().next() {
                        return Ok(reply);
                    }
                }
                Err(RecvTimeoutError::Disconnected) => return Err(self.gone()),
                Err(RecvTimeoutError::Timeout) => {}
            }
        }
    }

    /// What is to be said of it when it has ended.
    fn gone(&mut self) -> GuestError {
        self.end();
        GuestError::Ended { guest: self.name.clone(), last: self.console() }
    }

    fn console(&self) -> String {
        let text = fs::read(self.place.join("console")).unwrap_or_default();
        last_lines(&String::from_utf8_lossy(&text))
    }

    /// Ends it; scripts fail from now on. The namespace first: `unshare` ends when all of its
    /// processes are gone.
    pub fn end(&mut self) {
        self.stdin = None;
        // Once it was waited for, its number may be that of another process.
        if !matches!(self.child.try_wait(), Ok(None)) {
            return;
        }
        for pid in children(self.child.id()) {
            let pid = i32::try_from(pid).ok().and_then(Pid::from_raw);
            let _ = pid.map(|pid| kill_process(pid, Signal::KILL));
        }
        let deadline = Instant::now() + GONE;
        while matches!(self.child.try_wait(), Ok(None)) && Instant::now() < deadline {
            std::thread::sleep(Duration::from_millis(1));
        }
        // Already gone is as good.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The first process of the namespace: makes all mounts read-only but for the guest's directory,
/// runs the kernel, and ends with it. Its arguments are that directory, the MiB of the tmpfs for
/// the guest's memory, and the kernel with its arguments.
///
/// - /proc is that of the namespace: by `/proc/1/root`, a guest would come to the mounts of another
///   namespace.
/// - The first column that is read is the fifth of `mountinfo`, in which spaces are `\040`. A mount
///   that another one covers cannot be changed, and no path leads to it.
/// - Without `CAP_SYS_ADMIN`, the kernel cannot change the mounts again.
const START: &str = r#"{
set -e
place=$1
export TMPDIR="$place/memory"
mount --bind "$place" "$place"
mount -t tmpfs -o "size=$2M,mode=700" tmpfs "$TMPDIR"
mount -t proc proc /proc
mounts=$(cat /proc/self/mountinfo)
while read -r _ _ _ _ point _; do
case $point in "$place" | "$TMPDIR") continue ;; esac
point=$(printf %b "$point")
mount -o remount,bind,ro "$point" || ! [ -e "$point" ]
done <<END
$mounts
END
cd "$place"
shift 2
set +e
} 2>&1
setpriv --bounding-set=-sys_admin -- "$@"
exit $?"#;

/// MiB of the tmpfs beside the guest's memory.
const SPARE: u64 = 16;

/// Refuses to boot what this machine has no memory for: the kernel would end some program.
fn has_memory(machine: &Machine<'_>) -> Result<(), GuestError> {
    let text = fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let needed = machine.memory_mib + SPARE;
    match available_mib(&text) {
        Some(free) if free < needed => {
            Err(GuestError::Memory { guest: machine.name.to_owned(), needed, free })
        }
        _ => Ok(()),
    }
}

/// MiB that programs can still have, of `/proc/meminfo`.
fn available_mib(text: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix("MemAvailable:"))?;
    Some(line.split_whitespace().next()?.parse::<u64>().ok()? / 1024)
}

/// Makes its directory with the script of its first process, and its disks.
fn prepare(machine: &Machine<'_>, place: &Path) -> io::Result<()> {
    // A former guest's scripts say nothing to this one.
    let _ = fs::remove_dir_all(place);
    let new = |path: &Path| DirBuilder::new().mode(0o700).create(path);
    new(place)?;
    new(&place.join("run"))?;
    new(&place.join("memory"))?;
    let disks = place.join(DISK_FILES);
    new(&disks)?;
    for (number, bytes) in machine.disks.iter().enumerate() {
        // Without blocks: they come when the guest writes to them.
        File::create(disks.join(number.to_string()))?.set_len(*bytes)?;
    }
    let init = place.join("init");
    fs::write(&init, machine.init())?;
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o700);
    fs::set_permissions(init, mode)
}

fn command(machine: &Machine<'_>) -> Result<Command, GuestError> {
    let mut paths = Vec::new();
    for &(program, package) in crate::PROGRAMS {
        let missing = || GuestError::Missing { program, package };
        paths.push(find(program, &SYSTEM).ok_or_else(missing)?);
    }
    let [kernel, unshare, setpriv, ..] = &paths[..] else { unreachable!("PROGRAMS has them") };
    let mut command = Command::new(setpriv);
    command.args(["--pdeathsig", "KILL", "--"]).arg(unshare);
    command.args(["--mount", "--pid", "--fork", "--kill-child=KILL", "--"]);
    command.args(["sh", "-c", START, "sh"]).arg(machine.place());
    command.arg((machine.memory_mib + SPARE).to_string());
    command.arg(kernel).args(machine.arguments());
    Ok(command)
}

/// The processes that a process has started and that have not ended.
fn children(parent: u32) -> Vec<u32> {
    let numbers = fs::read_dir("/proc").into_iter().flatten().flatten();
    let numbers = numbers.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    numbers
        .filter(|&pid| process::Stat::of(pid).is_some_and(|stat| stat.parent == parent))
        .collect()
}

/// Reads all that comes, in a thread that ends with the pipe.
fn listen(pipe: Option<ChildStderr>) -> Receiver<Vec<u8>> {
    let (sender, receiver) = sync_channel(CHUNKS);
    if let Some(mut pipe) = pipe {
        std::thread::spawn(move || {
            let mut piece = [0; 4096];
            while let Ok(some @ 1..) = pipe.read(&mut piece) {
                if sender.send(piece[..some].to_vec()).is_err() {
                    break;
                }
            }
        });
    }
    receiver
}

/// The last lines of a text in which there is something, in quotation marks and fit to be shown.
fn last_lines(text: &str) -> String {
    let shown = |line: &str| {
        let plain = line.chars().filter(|c| !c.is_control()).collect::<String>();
        plain.trim().chars().take(LINE).collect::<String>()
    };
    let lines: Vec<String> = text.lines().map(shown).filter(|line| !line.is_empty()).collect();
    match &lines[lines.len().saturating_sub(LINES)..] {
        [] => "(it said nothing)".to_owned(),
        last => last.iter().map(|line| format!("'{line}'")).collect::<Vec<_>>().join(" "),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_a_console_the_last_lines_are_shown_in_one() {
        assert_eq!(last_lines("a\n\n\x1b[1mb\r\nc\nd\n"), "'[1mb' 'c' 'd'");
        assert_eq!(last_lines(" \n"), "(it said nothing)");
    }

    #[test]
    fn children_are_those_that_a_process_has_started() {
        let mut child = Command::new("sleep").arg("1000").spawn().unwrap();
        assert!(children(std::process::id()).contains(&child.id()));
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(!children(std::process::id()).contains(&child.id()));
    }

    #[test]
    fn a_guest_for_which_there_is_no_memory_is_refused_before_anything_is_made() {
        assert_eq!(available_mib("MemTotal: 9 kB\nMemAvailable:  4096 kB\n"), Some(4));
        assert_eq!(available_mib("MemTotal: 9 kB\n"), None);
        let place = tempfile::tempdir().unwrap();
        let machine = Machine {
            name: "a",
            directory: place.path(),
            memory_mib: 1 << 40,
            disks: Vec::new(),
            modules: &[],
            link: None,
        };
        let error = Guest::boot(&machine, &AtomicBool::new(false)).unwrap_err().to_string();
        assert!(error.contains("memory_mib") && !error.contains('\n'), "{error}");
        assert!(!place.path().join("a").exists());
    }

    #[test]
    fn a_directory_that_the_kernel_cannot_name_is_refused_before_anything_is_made() {
        let place = tempfile::tempdir().unwrap();
        let directory = place.path().join("with space");
        let machine = Machine {
            name: "a",
            directory: &directory,
            memory_mib: 64,
            disks: Vec::new(),
            modules: &[],
            link: None,
        };
        let error = Guest::boot(&machine, &AtomicBool::new(false)).unwrap_err().to_string();
        assert!(error.contains("set TMPDIR") && !error.contains('\n'), "{error}");
        assert!(!directory.exists());
    }
}
