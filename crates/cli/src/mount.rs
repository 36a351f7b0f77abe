//! `gigae mount`.

use crate::cp;
use crate::files::exchange::{Event, Exchange};
use crate::files::location::Location;
use crate::files::node::NodeArgs;
use crate::outcome::{CommandError, EXIT_CODES, finish};
use clap::Args;
use gigae::Peer;
use gigae_eval_session::remark::remark;
use gigae_mount::{Mounted, Mountpoint, Options, unmount_if_there};
use gigae_share::{
    Caller, Change, Changed, Done, Fault, Inode, Kind, Reply, Request, Ticket, Want, printable,
};
use std::ffi::{OsStr, OsString};
use std::hash::{BuildHasher, Hasher, RandomState};
use std::io::Read;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitCode, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// Show the files of a node that shares them in a directory of this host.
///
/// Programs read them like other files. Opening a file asks the node, so a program sees what was
/// written and closed before. With --writable, what a program writes is at the node when it has
/// closed the file. Names and attributes may be a second old. All files belong to the user who
/// mounts; their permissions are those at the node. Symlinks stay symlinks: they lead to
/// files of this host.
///
/// The command runs until Ctrl-C or 'umount MOUNTPOINT'. Needs root, or fusermount3 (package
/// 'fuse3').
///
/// NODE is a name in the cluster file, a MAC address, or an IP address with --udp. DIR is relative
/// to the directory that 'gigae share' shares there; empty means all of it.
#[derive(Args, Clone, Debug)]
#[command(after_help = EXIT_CODES)]
pub struct MountArgs {
    /// The node and the directory there
    #[arg(value_name = "NODE:DIR")]
    files: OsString,
    /// The directory of this host in which the files are seen
    #[arg(value_name = "MOUNTPOINT")]
    mountpoint: PathBuf,
    /// Programs may also change files, if the node shares them with --writable
    #[arg(long)]
    writable: bool,
    /// Also let other users of this host use it, as the files' permissions allow
    #[arg(long)]
    allow_other: bool,
    /// A program that waits for a node that does not answer gets an error after so many seconds
    #[arg(long, default_value_t = 30, value_name = "SECONDS", value_parser = clap::value_parser!(u64).range(1..=86_400))]
    patience: u64,
    #[command(flatten)]
    node: NodeArgs,
    /// For the second process, which this command starts: wait for the end of standard input, then
    /// unmount MOUNTPOINT. In the place of NODE:DIR it gets the identity of the mount
    #[arg(long, hide = true)]
    unmount_later: bool,
}

/// Runs `gigae mount`. `interrupted` is set by the caller's signal handler.
pub fn mount(args: &MountArgs, interrupted: &AtomicBool) -> ExitCode {
    finish(match args.unmount_later {
        true => unmount_later(&args.files.to_string_lossy(), &args.mountpoint),
        false => run(args, interrupted),
    })
}

fn error(text: impl Into<String>) -> CommandError {
    CommandError::Error(text.into())
}

/// Ctrl-C before it is mounted.
fn interrupted_early() -> CommandError {
    CommandError::Interrupted("interrupted; nothing is mounted".into())
}

fn run(args: &MountArgs, interrupted: &AtomicBool) -> Result<(), CommandError> {
    let Location::There(node, directory) = Location::parse(&args.files) else {
        return Err(error(format!("'{}': write NODE:DIR", args.files.display())));
    };
    let site = args.node.site().map_err(error)?;
    let (mut exchange, peer) = cp::connect(&site, &node, false)?;
    let patience = Duration::from_secs(args.patience);
    let first_number = (RandomState::new().build_hasher().finish() >> 33) as u32;
    let request = Request::Stat { path: directory.clone() };
    let asks = (request, first_number, patience);
    let mut looked = look(&mut exchange, peer, asks, interrupted)?;
    let shown = args.files.display();
    if args.writable
        && let Ok(root) = &looked
    {
        // Changes nothing, but fails if nothing can be changed.
        let (path, id) = (directory.clone(), root.id);
        let change = Change::Set { path, id, mode: None, size: None, modified: None };
        let request = Request::Change { ticket: Ticket::default(), change };
        let asks = (request, first_number + 500, patience);
        looked = look(&mut exchange, peer, asks, interrupted)?;
    }
    let root = looked.map_err(|fault| match fault {
        Fault::Escapes => error(format!(
            "'{shown}': the path leads out of the shared directory, or has a symlink; name where \
             that leads"
        )),
        fault => error(format!("'{shown}': {fault}")),
    })?;
    match root.attributes.kind {
        Kind::Directory => {}
        Kind::Symlink => {
            return Err(error(format!("'{shown}' is a symlink; name where it leads")));
        }
        _ => return Err(error(format!("'{shown}' is not a directory; name the one it is in"))),
    }
    let options = Options {
        source: node.clone(),
        writable: args.writable,
        allow_other: args.allow_other,
        patience,
        // Behind those of the first look.
        first_number: first_number + 1000,
        client: RandomState::new().build_hasher().finish(),
    };
    let (mountpoint, mut mounted) =
        Mountpoint::mount(&args.mountpoint, (directory, &root), &options)?;
    let mut watcher = Watcher::start(&mountpoint);
    if let Err(cause) = &watcher {
        remark(&format!("if this command is killed, its mount stays: {cause}"));
    }
    remark(&format!(
        "'{shown}' is mounted {} on '{}'; end with Ctrl-C or umount",
        if args.writable { "to read and write" } else { "read-only" },
        mountpoint.path().display()
    ));
    let mut server = Serving { peer, node: &node, patience, silent: false, lost: 0 };
    let served = server.serve(&mut exchange, &mut mounted, interrupted);
    // Before the endpoint, which may wait for the node.
    let unmounted = mountpoint.unmount();
    let written = server.finish(&mut exchange, &mut mounted);
    if let Ok(watcher) = &mut watcher
        && mountpoint.is_gone()
    {
        watcher.end();
    }
    drop(watcher);
    served?;
    unmounted?;
    written?;
    match server.lost {
        0 => Ok(()),
        1 => Err(error("a file is not written whole; write it again")),
        lost => Err(error(format!("{lost} files are not written whole; write them again"))),
    }
}

/// What is to be mounted.
fn look(
    exchange: &mut Exchange,
    peer: Peer,
    (request, first_number, patience): (Request, u32, Duration),
    interrupted: &AtomicBool,
) -> Result<Result<Inode, Fault>, CommandError> {
    let mut caller = Caller::new(patience, first_number);
    caller.ask(exchange.now(), request, ());
    while !interrupted.load(Ordering::Relaxed) {
        let now = exchange.now();
        if let Some(((), fault)) = caller.failed(now) {
            return Ok(Err(fault));
        }
        let until = match caller.next(now) {
            Want::Send(request) => {
                exchange.ask(peer, request).map_err(error)?;
                continue;
            }
            Want::Forget(before) => {
                exchange.forget(peer, before);
                continue;
            }
            Want::Wait(until) => until,
            Want::Nothing => now,
        };
        match exchange.wait(until).map_err(error)? {
            Some(Event::Reply(_, number, memory, len)) => {
                let now = exchange.now();
                match caller.reply(now, number, &memory[..len]) {
                    Some((
                        (),
                        Ok(
                            Reply::Stat(inode, _)
                            | Reply::Changed(Changed {
                                done: Done { inode: Some(inode), .. }, ..
                            }),
                        ),
                    )) => return Ok(Ok(inode)),
                    Some(((), Ok(_))) => return Ok(Err(Fault::Nonsense)),
                    Some(((), Err(fault))) => return Ok(Err(fault)),
                    None => {}
                }
            }
            Some(Event::Unanswered(_, number)) => caller.unanswered(number),
            Some(Event::Lost(_)) => caller.lost(exchange.now()),
            Some(Event::Request(..)) | None => {}
        }
    }
    Err(interrupted_early())
}

/// Answers the kernel.
struct Serving<'a> {
    peer: Peer,
    node: &'a str,
    patience: Duration,
    /// The node does not answer.
    silent: bool,
    /// Files that are not written whole.
    lost: usize,
}

impl Serving<'_> {
    /// Until it is unmounted or interrupted.
    fn serve(
        &mut self,
        exchange: &mut Exchange,
        mounted: &mut Mounted,
        interrupted: &AtomicBool,
    ) -> Result<(), CommandError> {
        while !interrupted.load(Ordering::Relaxed) && !mounted.has_ended() {
            self.turn(exchange, mounted)?;
        }
        Ok(())
    }

    /// Until everything that programs have written is at the node, or has failed.
    fn finish(
        &mut self,
        exchange: &mut Exchange,
        mounted: &mut Mounted,
    ) -> Result<(), CommandError> {
        mounted.end(exchange.now());
        while !mounted.is_written() {
            self.turn(exchange, mounted)?;
        }
        self.say_lost(mounted);
        Ok(())
    }

    fn say_lost(&mut self, mounted: &mut Mounted) {
        while let Some((path, fault)) = mounted.trouble() {
            self.lost += 1;
            remark(&format!("'{}' is not written whole: {fault}", printable(&path)));
        }
    }

    fn turn(&mut self, exchange: &mut Exchange, mounted: &mut Mounted) -> Result<(), CommandError> {
        mounted.take_calls(exchange.now());
        let until = loop {
            match mounted.next(exchange.now()) {
                Want::Send(request) => exchange.ask(self.peer, request).map_err(error)?,
                Want::Forget(before) => exchange.forget(self.peer, before),
                Want::Wait(until) => break until,
                Want::Nothing => break Duration::MAX,
            }
        };
        if mounted.is_silent() != self.silent {
            self.silent = !self.silent;
            let node = self.node;
            remark(&match self.silent {
                true => format!(
                    "'{node}' has not answered for {} s: programs get an I/O error until it does; \
                     start 'gigae share' there",
                    self.patience.as_secs()
                ),
                false => format!("'{node}' answers again"),
            });
        }
        self.say_lost(mounted);
        if mounted.has_ended() && mounted.is_written() {
            return Ok(());
        }
        let mut event = exchange.wait_or(until, mounted.wakes()).map_err(error)?;
        while let Some(happened) = event {
            let now = exchange.now();
            match happened {
                Event::Reply(_, number, memory, len) => {
                    mounted.reply(now, number, &memory[..len]);
                    exchange.recycle(memory);
                }
                Event::Unanswered(_, number) => mounted.unanswered(number),
                Event::Lost(lost) if lost == self.peer => mounted.lost(now),
                Event::Lost(_) | Event::Request(..) => {}
            }
            event = exchange.take().map_err(error)?;
        }
        Ok(())
    }
}

/// A process that unmounts when this one has ended, however that ends. The kernel would keep the
/// mount, and each use of it would fail.
struct Watcher(Child);

impl Watcher {
    fn start(mountpoint: &Mountpoint) -> std::io::Result<Self> {
        let identity = OsStr::new(mountpoint.identity());
        let path = mountpoint.path().as_os_str();
        let mut command = Command::new("/proc/self/exe");
        command
            .args([OsStr::new("mount"), OsStr::new("--unmount-later"), OsStr::new("--")])
            .args([identity, path])
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            // Ctrl-C is for the command alone.
            .process_group(0);
        Ok(Self(command.spawn()?))
    }

    /// Nothing is left to unmount.
    fn end(&mut self) {
        // It fails only if the process has ended.
        let _ = self.0.kill();
    }
}

impl Drop for Watcher {
    fn drop(&mut self) {
        drop(self.0.stdin.take());
        // It ends by itself.
        let _ = self.0.wait();
    }
}

/// The watcher's part. It holds the directory that `/` is, not the one that it was started in.
fn unmount_later(identity: &str, path: &Path) -> Result<(), CommandError> {
    std::env::set_current_dir("/")?;
    let mut rest = Vec::new();
    std::io::stdin().lock().read_to_end(&mut rest)?;
    Ok(unmount_if_there(identity, path)?)
}
