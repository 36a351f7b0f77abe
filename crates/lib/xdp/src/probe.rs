//! Chooses a mode: tries the candidates in order, tests each, and reports why better ones were
//! refused.
//!
//! The test shows that *this side* works: the program loads, attaches and classifies frames, the
//! socket binds and the kernel confirms the mode, frames of full length leave and complete. Whether
//! frames arrive unchanged needs a peer, and is not tested here.
//!
//! A frame uses one buffer if it can. If the MTU allows more than a chunk holds, or the driver has
//! less room (it refuses the program then), the mode is also tried with several buffers.

use crate::attached;
use crate::candidate_error::{CandidateError, failed, refused};
use crate::config::{BusyPoll, XdpConfig};
use crate::link::XdpLink;
use crate::notes::Notes;
use crate::parts::{Description, LinkParts};
use crate::program::{self, Program};
use crate::selftest::{NO_COMPLETION, NOT_TRIED, busy_poll, classifies, transmits};
use crate::shared::{self, ClaimedQueue, SharedProgram};
use crate::socket::{RingSizes, SetupError, XskSocket, opening};
use crate::umem::{CHUNK, LONGEST, MAX_FRAMES, SEGMENT, Umem};
use crate::within::within;
use gigae_host::user;
use gigae_link::{Arena, Interface, LentMemory, Mode, OpenError};
use rustix::io::Errno;
use rustix::net::xdp::SocketAddrXdpFlags;
use std::io;
use std::os::fd::AsFd;
use std::sync::Arc;
use std::time::Duration;
use tracing::debug;

/// A closed socket gives its queue up in a kernel task that runs a little later and waits for the
/// lock over all interfaces: milliseconds. While many XDP programs are attached and namespaces
/// removed on a busy machine, that lock was seen to be taken for 20 s, since each of these waits
/// for the kernel's RCU while it holds the lock. Counts from the first refusal, since bind(2) waits
/// for that lock, too. A queue in use is refused without this wait, since its owner's program is
/// found first.
const QUEUE_FREE_WITHIN: Duration = Duration::from_secs(60);

/// The program of a process that was killed is detached with the last copy of its descriptor. A
/// child that was forked just before has copies until it executes its own program: milliseconds on
/// a busy machine.
const PROGRAM_GONE_WITHIN: Duration = Duration::from_millis(300);

/// igb and others restart when a program is attached, and then negotiate the link again.
const CARRIER_WITHIN: Duration = Duration::from_secs(5);

/// The MTU for which every driver has room in one buffer.
const STANDARD_MTU: usize = 1500;

/// What is known about a driver, by the name that `ethtool -i` shows.
struct Quirk {
    driver: &'static str,
    /// Modes to try, in order.
    modes: &'static [Mode],
    why: &'static str,
}

/// Drivers for which "zero-copy, native, generic" is not the right order.
const QUIRKS: &[Quirk] = &[
    Quirk {
        driver: "veth",
        modes: &[Mode::XdpGeneric, Mode::XdpNative],
        why: "on a veth native mode is slower and takes segmentation offload from its peer's TCP",
    },
    Quirk { driver: "macvlan", modes: &[Mode::XdpGeneric], why: "a macvlan has generic mode only" },
    Quirk {
        driver: "tun",
        modes: &[Mode::XdpNative, Mode::XdpGeneric],
        why: "a tap has no zero-copy",
    },
    Quirk {
        driver: "vmxnet3",
        modes: &[Mode::XdpGeneric],
        why: "in vmxnet3's native mode the kernel's TCP stalls (seen with Linux 6.12)",
    },
    Quirk {
        driver: "igc",
        modes: &[Mode::XdpNative, Mode::XdpGeneric],
        why: "igc's zero-copy starves the frames that pass to the kernel",
    },
    Quirk {
        driver: "ixgbe",
        modes: &[Mode::XdpNative, Mode::XdpGeneric],
        why: "ixgbe's zero-copy can stall transmission",
    },
];

/// Drivers of interfaces whose other end is this machine's kernel or hypervisor. It interrupts as
/// soon as there is a frame, so busy polling saves no waiting. With busy polling, the kernel also
/// looks into the queue at every doorbell: a round trip takes a fifth longer on virtio, and a third
/// longer on vmxnet3 (docs/reference/nic-lab.md).
const WITHOUT_HARDWARE: &[&str] = &["veth", "macvlan", "tun", "virtio_net", "vmxnet3"];

/// Modes in which a driver does not carry frames in several buffers reliably, and what goes wrong.
const LONG_FRAMES_FAIL: &[(&str, Mode, &str)] = &[(
    "virtio_net",
    Mode::XdpNative,
    "virtio_net drops such frames while there is other traffic (seen with Linux 6.12)",
)];

/// For all other drivers.
const BEST_FIRST: &[Mode] = &[Mode::XdpZeroCopy, Mode::XdpNative, Mode::XdpGeneric];

/// See [`XdpLink::open`].
pub(crate) fn open(config: &XdpConfig, lent: Option<&LentMemory>) -> Result<XdpLink, OpenError> {
    let found = Interface::find(&config.interface)?;
    let needed = config.filter.least_mtu();
    if found.mtu < needed {
        let (interface, mtu) = (found.name, found.mtu);
        return Err(OpenError::MtuTooSmall { interface, mtu, needed });
    }
    match shared_on(&found)?.filter(|_| lent.is_none()) {
        Some(shared) if shared.is_claimed(config.queue) => {
            let (interface, queue) = (found.name, config.queue);
            return Err(OpenError::QueueBusy { interface, queue });
        }
        Some(_) => {}
        None => refuse_other_programs(&found, config.queue)?,
    }
    let driver = found.driver().unwrap_or_default();
    let quirk = QUIRKS.iter().find(|quirk| quirk.driver == driver);
    let asked = config.mode.map(|mode| [mode]);
    let modes = match &asked {
        Some(mode) => &mode[..],
        None => quirk.map_or(BEST_FIRST, |quirk| quirk.modes),
    };
    let modes = match modes.iter().position(|&mode| mode == Mode::XdpGeneric) {
        Some(generic) if asked.is_none() && !config.generic => &modes[..generic],
        _ => modes,
    };
    let hardware = !WITHOUT_HARDWARE.contains(&driver.as_str());
    let first = match quirk {
        _ if asked.is_some() => Some("asked for"),
        quirk => quirk.map(|quirk| quirk.why),
    };
    let (driver, mtu) = (&driver[..], found.mtu);
    let attempts = Attempts { config, driver, mtu, modes, hardware, first, lent };
    let mut notes = Notes::read(config.notes.as_deref(), driver, mtu, config.queue);
    let reasons = loop {
        match attempts.choose(&mut notes)? {
            ProbeResult::Link(link) => {
                notes.keep();
                return Ok(*link);
            }
            // The caller has something better than generic mode, and opens that.
            ProbeResult::Nothing(reasons) if asked.is_none() && !config.generic => {
                notes.keep();
                let (interface, why) = (found.name, reasons.join("; "));
                return Err(OpenError::OnlyGeneric { interface, why });
            }
            // What was refused earlier may work now.
            ProbeResult::Nothing(_) if notes.are_there() && asked.is_none() => notes.forget(),
            ProbeResult::Nothing(reasons) => break reasons,
        }
    };
    let lower = match found.mtu + ETHERNET > SEGMENT {
        true => {
            let (name, mtu) = (&found.name, SEGMENT - ETHERNET);
            format!("lower the MTU with 'ip link set {name} mtu {mtu}' or ")
        }
        false => String::new(),
    };
    let source = format!("{}; {lower}use the packet backend", reasons.join("; "));
    Err(OpenError::Io { what: "opening an AF_XDP link", source: io::Error::other(source) })
}

/// A mode, and in how many chunks a received frame may be: tried together.
#[derive(Clone, Copy)]
struct Candidate {
    mode: Mode,
    buffers: Buffers,
}

/// The modes to try, and what is known before they are tried.
struct Attempts<'a> {
    config: &'a XdpConfig,
    driver: &'a str,
    mtu: usize,
    modes: &'a [Mode],
    hardware: bool,
    /// The first of the reasons.
    first: Option<&'a str>,
    /// Memory that another process lends.
    lent: Option<&'a LentMemory>,
}

/// What came of trying the candidates.
enum ProbeResult {
    Link(Box<XdpLink>),
    /// None passed the self-test, for these reasons.
    Nothing(Vec<String>),
}

impl Attempts<'_> {
    /// The first candidate that passes the self-test, or why none does.
    fn choose(&self, notes: &mut Notes) -> Result<ProbeResult, OpenError> {
        let asked = self.config.mode.is_some();
        let mut reasons: Vec<String> = self.first.map(str::to_owned).into_iter().collect();
        for candidate in self.all() {
            let Candidate { mode, buffers } = candidate;
            let name = format!("{mode}{}", buffers.suffix());
            let known = fails(self.driver, mode, buffers).map(str::to_owned);
            if let Some(why) = known.or_else(|| notes.why(&name)).filter(|_| !asked) {
                debug!(interface = %self.config.interface, mode = %name, %why, "mode left out");
                reasons.push(format!("{name} left out ({why})"));
                continue;
            }
            let driven = format!("busy polling in {name}");
            let no_completion =
                notes.why(&driven).filter(|_| self.config.busy_poll == BusyPoll::Auto);
            let quiet = XdpConfig { busy_poll: BusyPoll::Off, ..self.config.clone() };
            let config = if no_completion.is_some() { &quiet } else { self.config };
            match attempt(config, candidate, self.hardware, self.lent) {
                Ok((mut link, left_off)) => {
                    if reasons.is_empty() {
                        reasons.push("the best mode there is".to_owned());
                    }
                    notes.works(&name);
                    match left_off.as_deref() {
                        Some(NO_COMPLETION) => notes.refused(&driven, NO_COMPLETION),
                        _ if link.busy => notes.works(&driven),
                        _ => {}
                    }
                    reasons.extend(limits(&link, buffers));
                    reasons.extend(left_off.or(no_completion));
                    link.info.reason = reasons.join("; ");
                    debug!(interface = %self.config.interface, mode = %name, "mode chosen");
                    return Ok(ProbeResult::Link(Box::new(link)));
                }
                Err(CandidateError::Final(error)) => return Err(error),
                Err(CandidateError::Mode(why)) => {
                    debug!(interface = %self.config.interface, mode = %name, %why, "mode refused");
                    if !asked {
                        notes.refused(&name, &why);
                    }
                    reasons.push(format!("{name} refused ({why})"));
                }
                Err(CandidateError::Transient(why)) => {
                    debug!(interface = %self.config.interface, mode = %name, %why, "mode failed");
                    reasons.push(format!("{name} failed ({why})"));
                }
            }
        }
        Ok(ProbeResult::Nothing(reasons))
    }

    fn all(&self) -> impl Iterator<Item = Candidate> {
        let all = buffers(self.config, self.mtu);
        self.modes
            .iter()
            .flat_map(move |&mode| all.iter().map(move |&buffers| Candidate { mode, buffers }))
    }
}

/// Why a driver's mode is not tried unless asked for.
fn fails(driver: &str, mode: Mode, buffers: Buffers) -> Option<&'static str> {
    let known = |(of, in_mode, _): &&(&str, Mode, &str)| *of == driver && *in_mode == mode;
    let found = LONG_FRAMES_FAIL.iter().find(known).filter(|_| buffers == Buffers::Several);
    found.map(|(_, _, why)| *why)
}

/// In how many chunks a received frame may be.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Buffers {
    One,
    Several,
}

impl Buffers {
    /// The suffix of a mode's name.
    fn suffix(self) -> &'static str {
        match self {
            Self::One => "",
            Self::Several => " with frames in several buffers",
        }
    }

    fn longest(self) -> usize {
        match self {
            Self::One => SEGMENT,
            Self::Several => LONGEST,
        }
    }
}

/// What to try in each mode: one buffer if the frames fit, since programs for several buffers cost
/// the kernel's own traffic more.
fn buffers(config: &XdpConfig, mtu: usize) -> &'static [Buffers] {
    match mtu {
        _ if !config.long_frames || mtu <= STANDARD_MTU => &[Buffers::One],
        _ if mtu + ETHERNET <= SEGMENT => &[Buffers::One, Buffers::Several],
        _ => &[Buffers::Several],
    }
}

/// Remarks for people about a link that works.
fn limits(link: &XdpLink, buffers: Buffers) -> Vec<String> {
    let mut limits = Vec::new();
    if buffers == Buffers::Several {
        let mtu = link.interface.mtu;
        limits.push(format!("frames of MTU {mtu} are in several buffers"));
    }
    if link.interface.mtu + ETHERNET > link.info.max_frame {
        limits.push(format!("frames are limited to {} bytes", link.info.max_frame));
    }
    limits
}

/// Ethernet header.
const ETHERNET: usize = 14;

/// Tries one mode, from loading the program to frames that left. Also returns why there is no busy
/// polling, if there should be.
fn attempt(
    config: &XdpConfig,
    candidate: Candidate,
    hardware: bool,
    lent: Option<&LentMemory>,
) -> Result<(XdpLink, Option<String>), CandidateError> {
    let Candidate { mode, buffers } = candidate;
    let mut flags = match mode {
        Mode::XdpZeroCopy => SocketAddrXdpFlags::XDP_ZEROCOPY,
        Mode::XdpNative | Mode::XdpGeneric => SocketAddrXdpFlags::XDP_COPY,
        other => return Err(refused("choosing a mode", format!("{other} is not an AF_XDP mode"))),
    };
    let interface = Interface::find(&config.interface)?;
    let had_carrier = interface.has_carrier();
    let native = mode != Mode::XdpGeneric;
    let stays = lent.is_some();
    let claimed = load(config, candidate, &interface, stays)?;
    let id = claimed.program.program().id();
    let (parts, arena) = parts(config, candidate, interface, lent, id)?;
    // SAFETY: the parts are new, and this is their only use; memory of another process is written
    // and not read.
    let mut link = unsafe { XdpLink::assemble(parts, arena) }?;
    let program = Arc::clone(&claimed.program);
    // What stays on the interface ends with that.
    link.program = (!stays).then_some(claimed);
    if had_carrier {
        let _ = within(CARRIER_WITHIN, || link.interface.has_carrier());
    }
    flags.set(SocketAddrXdpFlags::XDP_USE_NEED_WAKEUP, config.need_wakeup);
    flags.set(SocketAddrXdpFlags::XDP_USE_SG, buffers == Buffers::Several);
    // Before binding: stmmac never recovers from an empty fill ring.
    for address in link.umem.with_kernel() {
        link.socket.fill.push(address);
    }
    link.socket.fill.publish();
    bind(&link, config, flags)?;
    if mode == Mode::XdpZeroCopy && !link.socket.is_zero_copy() {
        return Err(refused("zero-copy", "the kernel copies anyway"));
    }
    let mut program = program.program();
    program
        .steer(config.queue, &config.filter, link.socket.as_fd())
        .map_err(|e| failed("steering frames to the socket", e))?;
    classifies(&program, &link, config)?;
    drop(program);
    let carrier = link.interface.has_carrier();
    let useful = hardware && native;
    link.busy = busy_poll(&link, config.busy_poll, useful && carrier)?;
    let left_off = match carrier {
        true => transmits(&mut link, config)?,
        false if useful && config.busy_poll == BusyPoll::Auto => Some(NOT_TRIED.to_owned()),
        false => None,
    };
    link.must_poll |= link.busy;
    Ok((link, left_off))
}

/// The program that a link of this process has on an interface.
fn shared_on(interface: &Interface) -> Result<Option<Arc<SharedProgram>>, OpenError> {
    let what = "looking for the XDP program of this process";
    shared::programs().on(interface.index).map_err(|source| OpenError::Io { what, source })
}

/// Has the queue of the interface's program for the link. Loads and attaches the program, unless a
/// link of this process has done so. A descriptor keeps it attached, or the interface itself
/// (`stays`).
fn load(
    config: &XdpConfig,
    Candidate { mode, buffers }: Candidate,
    interface: &Interface,
    stays: bool,
) -> Result<ClaimedQueue, CandidateError> {
    let (several, native) = (buffers == Buffers::Several, mode != Mode::XdpGeneric);
    let mut programs = shared::programs();
    let place = |source| OpenError::Io { what: "looking for the interface", source };
    if !stays && let Some(shared) = programs.on(interface.index).map_err(place)? {
        return share(&shared, config, interface.mac, (native, several));
    }
    let program = Program::load(interface.mac, config.queue, several);
    let program = program.map_err(|e| match e.raw_os_error() {
        Some(libc::EINVAL) if several => refused("loading the XDP program", "needs Linux 5.18"),
        _ => loading(e).into(),
    })?;
    let attached = match stays {
        true => program.attach_for_good(interface.index, native).map(|()| None),
        false => program.attach(interface.index, native).map(Some),
    };
    let attached = attached.map_err(|e| attaching(e, interface, config))?;
    let shared = SharedProgram::new(program, attached, (native, several), interface.mac);
    if !stays {
        programs.add(interface.index, &shared).map_err(place)?;
    }
    Ok(shared.claim(config.queue).expect("nobody else has a queue of a new program"))
}

/// Has a queue of a program that another link of this process has attached.
fn share(
    shared: &Arc<SharedProgram>,
    config: &XdpConfig,
    mac: gigae_wire::MacAddr,
    mode: (bool, bool),
) -> Result<ClaimedQueue, CandidateError> {
    const WHAT: &str = "sharing the interface's program";
    let queues = shared.program().queues();
    if mac != shared.mac {
        return Err(failed(WHAT, "the interface had another MAC address when it was attached"));
    }
    if (shared.native, shared.several) != mode {
        return Err(failed(WHAT, "another link of this process has attached it for another mode"));
    }
    if config.queue >= queues {
        return Err(failed(WHAT, format!("it has room for {queues} queues")));
    }
    let (interface, queue) = (config.interface.clone(), config.queue);
    let busy = OpenError::QueueBusy { interface, queue };
    shared.claim(queue).ok_or(CandidateError::Final(busy))
}

/// Makes memory and socket, not yet bound together. After the program, which a driver may refuse:
/// megabytes of memory take longer than everything else.
fn parts(
    config: &XdpConfig,
    Candidate { mode, buffers }: Candidate,
    interface: Interface,
    lent: Option<&LentMemory>,
    program: u32,
) -> Result<(LinkParts, Arena), CandidateError> {
    let several = buffers == Buffers::Several;
    let max_frame = (interface.mtu + ETHERNET).min(buffers.longest());
    // The longest frame must fit.
    let tx = config.tx_frames.clamp(max_frame.div_ceil(CHUNK), MAX_FRAMES) as u32;
    let rx = config.rx_frames.clamp(max_frame.div_ceil(SEGMENT), MAX_FRAMES) as u32;
    let bytes = Umem::bytes(tx, rx);
    let (what, arena) = match lent {
        // SAFETY: from here on frames are written to test the mode, and none is read.
        Some(memory) => ("taking frame memory", unsafe { memory.filled(bytes) }),
        None if config.huge_pages => (
            "allocating frame memory in huge pages (see /proc/sys/vm/nr_hugepages)",
            Arena::shared(bytes, true),
        ),
        None => ("allocating frame memory", Arena::shared(bytes, false)),
    };
    let arena = arena.map_err(|source| OpenError::Io { what, source })?;
    let socket = XskSocket::create(&arena, CHUNK, RingSizes::new(tx, rx)).map_err(opening)?;
    let description = Description {
        interface: interface.name.clone(),
        index: interface.index,
        lower: interface.lower,
        mac: interface.mac,
        mtu: interface.mtu as u32,
        mode,
        max_frame: max_frame as u32,
        several,
        tx_frames: tx,
        rx_frames: rx,
        rx_ready: config.rx_ready.clamp(1, rx as usize) as u32,
        program,
        busy: false,
        need_wakeup: config.need_wakeup,
        reason: String::new(),
    };
    let control = interface.control;
    Ok((LinkParts { description, socket, control }, arena))
}

fn loading(source: io::Error) -> OpenError {
    match source.raw_os_error() {
        Some(libc::EPERM | libc::EACCES) => OpenError::MissingCapability {
            // Whatever capabilities the process has there.
            what: match user::in_user_namespace() {
                true => "loading an XDP program in a user namespace",
                false => "loading an XDP program",
            },
            capability: "CAP_BPF and CAP_NET_ADMIN",
        },
        Some(libc::ENOSYS) => {
            OpenError::Unsupported { what: "bpf(2)", instead: "use the packet backend" }
        }
        _ => OpenError::Io { what: "loading the XDP program", source },
    }
}

fn attaching(error: io::Error, interface: &Interface, config: &XdpConfig) -> CandidateError {
    match error.raw_os_error() {
        Some(libc::EPERM | libc::EACCES) => CandidateError::Final(OpenError::MissingCapability {
            what: "attaching an XDP program",
            capability: "CAP_NET_ADMIN",
        }),
        Some(libc::EBUSY | libc::EEXIST) => match refuse_other_programs(interface, config.queue) {
            Err(foreign) => CandidateError::Final(foreign),
            Ok(()) => failed("attaching the program", error),
        },
        _ => refused("attaching the program", error),
    }
}

/// Fails if a program is already attached to the interface, of another process or foreign.
fn refuse_other_programs(interface: &Interface, queue: u32) -> Result<(), OpenError> {
    let name = || interface.name.clone();
    let _ = within(PROGRAM_GONE_WITHIN, || attached::program(interface.index).is_none());
    match attached::program(interface.index) {
        None => Ok(()),
        Some(id) if program::is_ours(id) => Err(OpenError::QueueBusy { interface: name(), queue }),
        Some(program) => Err(OpenError::ForeignProgram { interface: name(), program }),
    }
}

fn bind(
    link: &XdpLink,
    config: &XdpConfig,
    flags: SocketAddrXdpFlags,
) -> Result<(), CandidateError> {
    let (index, queue) = (link.interface.index, config.queue);
    let mut result = Ok(());
    let _ = within(QUEUE_FREE_WITHIN, || {
        result = link.socket.bind(index, queue, flags);
        !matches!(result, Err(SetupError { errno: Errno::BUSY, .. }))
    });
    result.map_err(|SetupError { what, errno: e }| match e {
        Errno::BUSY => {
            let interface = link.info.interface.clone();
            CandidateError::Final(OpenError::QueueBusy { interface, queue })
        }
        Errno::NETDOWN => {
            CandidateError::Final(OpenError::InterfaceDown(link.info.interface.clone()))
        }
        // Also how a kernel before 5.4 refuses the wake-up flag.
        Errno::INVAL if queue > 0 => refused(what, format!("{e} (is there a queue {queue}?)")),
        Errno::INVAL if flags.contains(SocketAddrXdpFlags::XDP_USE_SG) => {
            refused(what, format!("{e} (frames in several buffers need Linux 6.6)"))
        }
        other => refused(what, other),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use gigae_wire::Envelope;

    #[test]
    fn an_interface_that_was_busy_is_tried_again() {
        let channels = gigae_link::ChannelSet::EMPTY;
        let filter = gigae_link::Filter { envelope: Envelope::DEFAULT, channels };
        let (lo, config) = (Interface::find("lo").unwrap(), XdpConfig::new("lo", filter));
        let answer = |code| attaching(io::Error::from_raw_os_error(code), &lo, &config);
        assert!(matches!(answer(libc::EBUSY), CandidateError::Transient(_)));
        assert!(matches!(answer(libc::EOPNOTSUPP), CandidateError::Mode(_)));
    }

    #[test]
    fn only_long_frames_of_virtio_in_native_mode_are_left_out() {
        let (native, several) = (Mode::XdpNative, Buffers::Several);
        assert!(fails("virtio_net", native, several).is_some());
        assert!(fails("virtio_net", native, Buffers::One).is_none());
        assert!(fails("virtio_net", Mode::XdpGeneric, several).is_none());
        assert!(fails("igb", native, several).is_none());
    }
}
