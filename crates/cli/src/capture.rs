//! `gigae capture`: the frames of endpoints as a pcapng file.

use crate::endpoints::EndpointSelector;
use crate::outcome::end;
use clap::Args;
use gigae_observe::pcapng::{CaptureWriter, CapturedFrame, InterfaceDescription};
use gigae_observe::{Activity, Capture, CaptureRecord, ObservedEndpoint};
use std::collections::HashSet;
use std::fs::File;
use std::io::{self, BufWriter, IsTerminal, Write};
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// Between two looks into the rings: a fraction of the time in which a Gigabit Ethernet fills one.
const LOOK: Duration = Duration::from_millis(5);

/// Between two times of saying that frames are wanted.
const RENEW: Duration = Duration::from_millis(200);

/// Between two searches for endpoints that were opened in the meantime.
const SEARCH: Duration = Duration::from_secs(1);

/// So long frames wait for earlier ones of other endpoints, which were stamped and not yet in their
/// ring.
const HOLD: Duration = Duration::from_millis(2);

/// Frames of an endpoint that are taken at a time, so that one that never ends cannot starve
/// others.
const AT_ONCE: usize = 16_384;

/// Capture the frames of endpoints on this machine, as pcapng.
///
/// Frames of AF_XDP bypass the kernel's network stack, so tcpdump does not see them. This command
/// writes frames as on the wire: sent frames when the endpoint hands them to the NIC,
/// retransmissions included, and received frames before they are checked. It captures all endpoints
/// of yours (root: all), and those that are opened while it runs.
///
/// Watch it live with 'gigae capture | tshark -r -', and with the dissector gigae.lua
/// (docs/how-to/watch.md). Ends with Ctrl-C, or when no endpoint is left.
#[derive(Args, Debug)]
pub struct CaptureArgs {
    #[command(flatten)]
    which: EndpointSelector,
    /// File to write; '-' is standard output
    #[arg(short = 'w', long = "write", default_value = "-", value_name = "FILE")]
    write: PathBuf,
    /// Keep this many bytes of each frame; 0 keeps all
    #[arg(long, default_value_t = 0, value_name = "BYTES")]
    snaplen: u32,
    /// Stop after this many frames
    #[arg(long, value_name = "FRAMES")]
    count: Option<u64>,
    /// Stop after this many seconds
    #[arg(long, value_name = "SECONDS", value_parser = seconds)]
    duration: Option<Duration>,
}

/// A time of more than nothing and less than a year.
pub fn seconds(text: &str) -> Result<Duration, String> {
    const YEAR: f64 = 365.0 * 86_400.0;
    let seconds = text.parse().ok().filter(|&seconds: &f64| seconds > 0.0 && seconds < YEAR);
    seconds
        .map(Duration::from_secs_f64)
        .ok_or_else(|| "give a number of seconds, as 0.5 or 10".into())
}

/// Runs `gigae capture`.
pub fn run(args: &CaptureArgs, interrupted: &AtomicBool) -> ExitCode {
    end(capture(args, interrupted))
}

fn capture(args: &CaptureArgs, interrupted: &AtomicBool) -> Result<(), String> {
    let to_stdout = args.write.as_os_str() == "-";
    if to_stdout && io::stdout().is_terminal() {
        return Err(
            "frames are not text for a terminal; give -w FILE, or pipe into 'tshark -r -'".into()
        );
    }
    let endpoints = args.which.some()?;
    let cannot = |error: io::Error| format!("writing {}: {error}", args.write.display());
    let out: Box<dyn Write> = if to_stdout {
        Box::new(io::stdout())
    } else {
        Box::new(File::create(&args.write).map_err(cannot)?)
    };
    let writer = CaptureWriter::new(BufWriter::with_capacity(1 << 20, out)).map_err(cannot)?;
    let mut session = Session {
        args,
        writer,
        taken: Vec::new(),
        known: HashSet::new(),
        pending: Vec::new(),
        frames: 0,
        gone: 0,
    };
    for endpoint in endpoints {
        session.add(endpoint, true)?;
    }
    // A script that started this may wait for the line.
    let plural = if session.taken.len() == 1 { "" } else { "s" };
    eprintln!("gigae: capturing {} endpoint{plural}", session.taken.len());
    let ended = session.run(interrupted);
    let dropped =
        session.gone + session.taken.iter().map(|taken| taken.capture.dropped()).sum::<u64>();
    eprintln!("{} frames, {dropped} dropped", session.frames);
    match ended {
        // The reader has seen enough.
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        ended => ended.map_err(cannot),
    }
}

/// An endpoint whose frames are taken.
struct Captured {
    capture: Capture,
    /// Numbers of its links in the file; none for a link that is not meant.
    interfaces: Vec<Option<u32>>,
}

/// A frame that waits to be written.
struct PendingFrame {
    interface: u32,
    record: CaptureRecord,
    bytes: Vec<u8>,
}

struct Session<'a> {
    args: &'a CaptureArgs,
    writer: CaptureWriter<BufWriter<Box<dyn Write>>>,
    taken: Vec<Captured>,
    /// Endpoints that were taken or refused.
    known: HashSet<u64>,
    pending: Vec<PendingFrame>,
    frames: u64,
    /// Dropped frames of endpoints that are gone.
    gone: u64,
}

impl Session<'_> {
    fn add(&mut self, endpoint: ObservedEndpoint, must: bool) -> Result<(), String> {
        if !self.known.insert(endpoint.key) {
            return Ok(());
        }
        let whole = self.args.snaplen == 0;
        let snaplen = if whole { usize::MAX } else { self.args.snaplen as usize };
        let capture = match endpoint.capture(snaplen) {
            Ok(capture) => capture,
            Err(error) if must => return Err(error.to_string()),
            Err(error) => {
                eprintln!("gigae: {error}");
                return Ok(());
            }
        };
        let mut interfaces = Vec::new();
        let ObservedEndpoint { about, pid, command, .. } = &capture.endpoint;
        for link in &about.links {
            let description = format!("{command}[{pid}], {}, port {}", link.mode, about.port);
            let interface = InterfaceDescription {
                name: Some(&link.interface),
                description: Some(&description),
                mac: Some(link.mac),
                snaplen: self.args.snaplen,
            };
            let number =
                self.args.which.means(&link.interface).then(|| self.writer.interface(interface));
            let number = number.transpose().map_err(|error| format!("writing: {error}"))?;
            interfaces.push(number);
        }
        self.taken.push(Captured { capture, interfaces });
        Ok(())
    }

    fn run(&mut self, interrupted: &AtomicBool) -> io::Result<()> {
        let end = self.args.duration.map(|duration| Instant::now() + duration);
        let (mut renew, mut search) = (Instant::now() + RENEW, Instant::now() + SEARCH);
        self.writer.flush()?;
        loop {
            self.take();
            self.write(HOLD)?;
            let now = Instant::now();
            let over = interrupted.load(Ordering::Relaxed) || end.is_some_and(|end| now >= end);
            if over || self.is_enough() || self.taken.is_empty() {
                self.take();
                return self.write(Duration::ZERO);
            }
            if now >= renew {
                renew = now + RENEW;
                self.renew();
            }
            if now >= search {
                search = now + SEARCH;
                for endpoint in self.args.which.now()? {
                    // `add` has reported a refusal.
                    let _ = self.add(endpoint, false);
                }
            }
            std::thread::sleep(LOOK);
        }
    }

    fn is_enough(&self) -> bool {
        self.args.count.is_some_and(|count| self.frames >= count)
    }

    /// Says that frames are wanted; lets go of endpoints that are gone, and of which everything was
    /// taken.
    fn renew(&mut self) {
        let mut i = 0;
        while i < self.taken.len() {
            if self.taken[i].capture.endpoint.activity() == Activity::Closed {
                self.take();
                let Captured { capture, .. } = self.taken.swap_remove(i);
                self.gone += capture.dropped();
                if capture.damaged > 0 {
                    eprintln!("gigae: process {} spoilt its frames", capture.endpoint.pid);
                }
            } else {
                if !self.taken[i].capture.look() {
                    eprintln!(
                        "gigae: this machine is too busy: some frames are missing and were not counted"
                    );
                }
                i += 1;
            }
        }
    }

    /// Takes what the rings hold.
    fn take(&mut self) {
        for Captured { capture, interfaces } in &mut self.taken {
            for _ in 0..AT_ONCE {
                let mut bytes = Vec::new();
                let Some(record) = capture.next(&mut bytes) else { break };
                if let Some(&Some(interface)) = interfaces.get(record.link) {
                    self.pending.push(PendingFrame { interface, record, bytes });
                }
            }
        }
        self.pending.sort_by_key(|frame| frame.record.at);
    }

    /// Writes what is older than this, in the order of time.
    fn write(&mut self, age: Duration) -> io::Result<()> {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let limit =
            if age.is_zero() { u64::MAX } else { (now.saturating_sub(age)).as_nanos() as u64 };
        let due = self.pending.partition_point(|frame| frame.record.at <= limit);
        for PendingFrame { interface, record, bytes } in self.pending.drain(..due) {
            if self.args.count.is_some_and(|count| self.frames >= count) {
                break;
            }
            self.writer.frame(&CapturedFrame {
                interface,
                at: record.at,
                direction: Some(record.direction),
                dropped: record.dropped.into(),
                original_len: record.original_len,
                bytes: &bytes,
            })?;
            self.frames += 1;
        }
        if due > 0 { self.writer.flush() } else { Ok(()) }
    }
}
