//! `gigae share`.

use crate::files::exchange::{Event, Exchange};
use crate::files::jobs::{Jobs, Push};
use crate::files::node::NodeArgs;
use crate::outcome::{CommandError, EXIT_CODES, finish};
use clap::Args;
use gigae_eval_session::remark::remark;
use gigae_share::{Answer, Fault, MAX_CHANGE, Server};
use gigae_tree::Export;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// After so long without requests, files that were read are closed.
const CLOSE_AFTER: Duration = Duration::from_secs(2);

/// Share a directory with other nodes, for 'gigae cp' and 'gigae mount'.
///
/// Nodes read what this user may read in the directory. Nothing outside it is read: symlinks that
/// lead out are refused. Sessions are not authenticated, so every node of the network can read it.
/// Root's share also shows files that only root may read.
#[derive(Args, Clone, Debug)]
#[command(after_help = EXIT_CODES)]
pub struct ShareArgs {
    /// The directory
    #[arg(value_name = "DIR")]
    directory: PathBuf,
    /// Let nodes also write there: 'gigae cp FILE NODE:DIR', 'gigae mount --writable'
    #[arg(long, requires = "trust_every_node")]
    writable: bool,
    /// Sessions are not authenticated: with --writable, every node of this network can replace or
    /// remove any file in the directory. Say that you accept this
    #[arg(long, requires = "writable")]
    trust_every_node: bool,
    #[command(flatten)]
    node: NodeArgs,
}

/// Runs `gigae share`. `interrupted` is set by the caller's signal handler.
pub fn share(args: &ShareArgs, interrupted: &AtomicBool) -> ExitCode {
    finish(serve(args, interrupted).map_err(CommandError::Error))
}

fn serve(args: &ShareArgs, interrupted: &AtomicBool) -> Result<(), String> {
    let shown = args.directory.display();
    let mut export = Export::open(&args.directory)
        .map_err(|error| format!("cannot share '{shown}': {error}; name a directory"))?;
    if args.writable {
        export = export.writable();
    }
    let site = args.node.site()?;
    let endpoint = site.server()?;
    let _held = site.claim(&endpoint)?;
    let mut exchange = Exchange::new(endpoint, Some(MAX_CHANGE))?;
    let own = exchange.endpoint().identity();
    let ip = own.ip.map(|ip| format!(", {ip}")).unwrap_or_default();
    let how = if args.writable { "to read and write" } else { "read-only" };
    remark(&format!("sharing '{shown}' {how} on {}{ip}; end with Ctrl-C", own.mac));
    let mut jobs = Jobs::default();
    let mut used = Duration::ZERO;
    while !interrupted.load(Ordering::Relaxed) {
        let next = jobs.ask(&mut exchange)?;
        let mut event = match export.wakes() {
            Some(wakes) => exchange.wait_or(next, wakes)?,
            None => exchange.wait(next)?,
        };
        for synced in export.synced() {
            if synced.is_lost {
                exchange.server.lost();
            }
            for (peer, number, out) in exchange.server.finished(synced.work, synced.result) {
                exchange.reply(peer, number, out)?;
            }
        }
        if event.is_none() && exchange.now() > used + CLOSE_AFTER {
            export.close_files();
        }
        while let Some(happened) = event
            && !interrupted.load(Ordering::Relaxed)
        {
            let now = exchange.now();
            used = now;
            match happened {
                Event::Request(peer, memory, len) => {
                    match exchange.answer(peer, &memory[..len], &mut export)? {
                        None => {}
                        Some(Answer::Take { number, id, sources, to, ignore_times, exact }) => {
                            let push = Push { id, sources, to, ignore_times, exact };
                            let begun = match args.writable {
                                true => jobs.begin(&mut exchange, peer, push, &export)?,
                                false => Err(Fault::ReadOnly),
                            };
                            let mut out = exchange.buffer();
                            Server::<()>::taken(begun, &mut out);
                            exchange.reply(peer, number, out)?;
                        }
                        Some(Answer::Status(number)) => jobs.asked(&mut exchange, peer, number)?,
                        Some(Answer::Cancel { number, id }) => {
                            let status = jobs.cancel(&mut exchange, peer, id);
                            let mut out = exchange.buffer();
                            Server::<()>::status(status.as_ref().map_err(|f| *f), &mut out);
                            exchange.reply(peer, number, out)?;
                        }
                        Some(Answer::Reply(_) | Answer::Later | Answer::Ignore) => {
                            unreachable!("answered")
                        }
                    }
                    exchange.served(memory)?;
                }
                Event::Reply(peer, number, memory, len) => {
                    jobs.reply(now, peer, number, &memory[..len]);
                    exchange.recycle(memory);
                }
                Event::Unanswered(peer, number) => jobs.unanswered(peer, number),
                Event::Lost(peer) => jobs.lost(now, peer),
            }
            // What the client waits for goes out before the next request is looked at.
            event = if jobs.is_idle() { exchange.take()? } else { None };
        }
    }
    Ok(())
}
