//! Chooses a mode: tries the candidates in order, tests each, and says what refused the better
//! ones.
//!
//! The test shows that *this side* works: the program loads, attaches and tells frames apart, the
//! socket binds and the kernel confirms the mode, frames of full length leave and complete. Whether
//! frames arrive unchanged takes a peer, and is not tested here.
//!
//! A frame lies in one buffer if it can. If the MTU asks for more than a chunk holds, or the driver for
//! less (it refuses the program then), a mode is tried with frames in several.

use crate::attached;
use crate::link::{BusyPoll, XdpConfig, XdpLink};
use crate::parts::{Description, Parts};
use crate::program::{self, Program, Verdict};
use crate::socket::{RingSizes, XskSocket};
use crate::umem::{CHUNK, SEGMENT, Umem};
use gigae_link::{Arena, Counters, Interface, Link, Mode, OpenError, Posted, TxFrame};
use gigae_wire::{Envelope, MacAddr};
use rustix::io::Errno;
use rustix::net::xdp::SocketAddrXdpFlags;
use std::fmt::Display;
use std::io;
use std::os::fd::AsFd;
use std::time::{Duration, Instant};

/// Most frames of a kind: both kinds together take 512 MiB.
pub(crate) const MAX_FRAMES: usize = 1 << 16;

/// A closed socket gives its queue up in a task of the kernel's that runs a little later and waits
/// for the lock under which all interfaces are changed: milliseconds, but a second while many
/// namespaces are being removed. A queue in use is refused without this wait, since its owner's
/// program is seen before.
const QUEUE_FREE_WITHIN: Duration = Duration::from_secs(10);

/// A program goes with the last copy of its link's descriptor, and a process that another thread has
/// just forked has copies until it begins its own program: milliseconds on a busy machine.
const PROGRAM_GONE_WITHIN: Duration = Duration::from_millis(300);

/// Completions come with the driver's coalescing, milliseconds at most; this long only if never.
const COMPLETE_WITHIN: Duration = Duration::from_millis(500);

/// Frames that must complete one after the other.
const FRAMES: usize = 4;

/// Why there is no busy polling on hardware.
const IN_VAIN: &str = "no busy polling, with which a frame did not complete";
const NOT_TRIED: &str = "no busy polling, which cannot be tried without a carrier";

/// igb and others restart when a program is attached, and then negotiate the link anew.
const CARRIER_WITHIN: Duration = Duration::from_secs(5);

/// Pause between looks at something that takes a while.
const PAUSE: Duration = Duration::from_micros(100);

/// Longest frame in bytes that is carried in several buffers: more than the jumbo frames of hardware
/// (9,216 mostly). The MTU of a virtual interface may be 65,535, which would take a whole ring.
pub(crate) const LONGEST: usize = 4 * SEGMENT;

/// The MTU for which every driver has room in one buffer.
const STANDARD_MTU: usize = 1500;

/// What is known of a driver, by the name that `ethtool -i` shows.
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

/// Drivers of interfaces whose other end is this machine's kernel or hypervisor. It interrupts as soon as there is a
/// frame, so that busy polling saves no waiting, while the kernel looks into the queue at every doorbell on its account:
/// a round trip on virtio takes a fifth longer with it, on vmxnet3 a third (docs/niclab.md).
const WITHOUT_HARDWARE: &[&str] = &["veth", "macvlan", "tun", "virtio_net", "vmxnet3"];

/// Modes in which a driver does not carry frames in several buffers reliably, and what happens.
const LONG_FRAMES_FAIL: &[(&str, Mode, &str)] = &[(
    "virtio_net",
    Mode::XdpNative,
    "virtio_net drops such frames while there is other traffic (seen with Linux 6.12)",
)];

/// For all other drivers.
const BEST_FIRST: &[Mode] = &[Mode::XdpZeroCopy, Mode::XdpNative, Mode::XdpGeneric];

/// Why a candidate was not taken.
enum Refusal {
    /// Try the next one. Says why on one line.
    Mode(String),
    /// No other mode would do better.
    Final(OpenError),
}

impl From<OpenError> for Refusal {
    fn from(error: OpenError) -> Self {
        Self::Final(error)
    }
}

fn refused(what: &str, why: impl Display) -> Refusal {
    Refusal::Mode(format!("{what}: {why}"))
}

/// See [`XdpLink::open`].
pub(crate) fn open(config: &XdpConfig) -> Result<XdpLink, OpenError> {
    let found = Interface::find(&config.interface)?;
    let needed = config.filter.least_mtu();
    if found.mtu < needed {
        let (interface, mtu) = (found.name, found.mtu);
        return Err(OpenError::MtuTooSmall { interface, mtu, needed });
    }
    refuse_other_programs(&found, config.queue)?;
    let driver = found.driver().unwrap_or_default();
    let quirk = QUIRKS.iter().find(|quirk| quirk.driver == driver);
    let asked = config.mode.map(|mode| [mode]);
    let candidates = match &asked {
        Some(mode) => &mode[..],
        None => quirk.map_or(BEST_FIRST, |quirk| quirk.modes),
    };
    let mut reasons: Vec<String> = Vec::new();
    match (quirk, asked) {
        (_, Some(_)) => reasons.push("asked for".to_owned()),
        (Some(quirk), None) => reasons.push(quirk.why.to_owned()),
        (None, None) => {}
    }
    let hardware = !WITHOUT_HARDWARE.contains(&driver.as_str());
    for &mode in candidates {
        for &buffers in buffers(config, found.mtu) {
            if let Some(why) = fails(&driver, mode, buffers).filter(|_| asked.is_none()) {
                reasons.push(format!("{mode}{} left out ({why})", buffers.suffix()));
                continue;
            }
            match attempt(config, mode, buffers, hardware) {
                Ok((mut link, left_off)) => {
                    if reasons.is_empty() {
                        reasons.push("the best mode there is".to_owned());
                    }
                    reasons.extend(limits(&link, buffers));
                    reasons.extend(left_off);
                    link.info.reason = reasons.join("; ");
                    return Ok(link);
                }
                Err(Refusal::Final(error)) => return Err(error),
                Err(Refusal::Mode(why)) => {
                    reasons.push(format!("{mode}{} refused ({why})", buffers.suffix()));
                }
            }
        }
    }
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

/// Why a driver's mode is not to be tried unasked.
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
    /// Behind the name of a mode.
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

/// What to try in each mode: one buffer wherever the frames fit, since programs for several cost the
/// kernel's own traffic more.
fn buffers(config: &XdpConfig, mtu: usize) -> &'static [Buffers] {
    match mtu {
        _ if !config.long_frames || mtu <= STANDARD_MTU => &[Buffers::One],
        _ if mtu + ETHERNET <= SEGMENT => &[Buffers::One, Buffers::Several],
        _ => &[Buffers::Several],
    }
}

/// What else a person should know of a link that works.
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

/// One mode, from loading the program to frames that left. Also why there is no busy polling, where there would be.
fn attempt(
    config: &XdpConfig,
    mode: Mode,
    buffers: Buffers,
    hardware: bool,
) -> Result<(XdpLink, Option<String>), Refusal> {
    let mut flags = match mode {
        Mode::XdpZeroCopy => SocketAddrXdpFlags::XDP_ZEROCOPY,
        Mode::XdpNative | Mode::XdpGeneric => SocketAddrXdpFlags::XDP_COPY,
        other => return Err(refused("choosing a mode", format!("{other} is none of AF_XDP's"))),
    };
    let interface = Interface::find(&config.interface)?;
    let had_carrier = interface.has_carrier();
    let (mut program, parts) = parts(config, mode, buffers, interface)?;
    // SAFETY: the parts are new, and this is their only use.
    let mut link = unsafe { XdpLink::assemble(parts) }?;
    let native = mode != Mode::XdpGeneric;
    if had_carrier {
        let _ = within(CARRIER_WITHIN, || link.interface.has_carrier());
    }
    flags.set(SocketAddrXdpFlags::XDP_USE_NEED_WAKEUP, config.need_wakeup);
    flags.set(SocketAddrXdpFlags::XDP_USE_SG, buffers == Buffers::Several);
    // Before binding: stmmac never recovers from having found it empty.
    for address in link.umem.with_kernel() {
        link.socket.fill.push(address);
    }
    link.socket.fill.publish();
    bind(&link, config, flags)?;
    if mode == Mode::XdpZeroCopy && !link.socket.is_zero_copy() {
        return Err(refused("zero-copy", "the kernel copies all the same"));
    }
    program
        .steer(config.queue, link.socket.as_fd())
        .map_err(|e| refused("steering frames to the socket", e))?;
    classifies(&program, &link, config)?;
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

/// Memory, socket and program, attached to the interface, but not yet bound together.
fn parts(
    config: &XdpConfig,
    mode: Mode,
    buffers: Buffers,
    interface: Interface,
) -> Result<(Program, Parts), Refusal> {
    let several = buffers == Buffers::Several;
    let max_frame = (interface.mtu + ETHERNET).min(buffers.longest());
    // The longest frame must find room.
    let tx = config.tx_frames.clamp(max_frame.div_ceil(CHUNK), MAX_FRAMES) as u32;
    let rx = config.rx_frames.clamp(max_frame.div_ceil(SEGMENT), MAX_FRAMES) as u32;
    // What a driver may refuse comes first: megabytes of memory take longer than all the rest.
    let program = Program::load(&config.filter, interface.mac, config.queue, several);
    let program = program.map_err(|e| match e.raw_os_error() {
        Some(libc::EINVAL) if several => refused("loading the XDP program", "needs Linux 5.18"),
        _ => loading(e).into(),
    })?;
    let attached = program
        .attach(interface.index, mode != Mode::XdpGeneric)
        .map_err(|e| attaching(e, &interface, config))?;
    let what = match config.huge_pages {
        true => "allocating frame memory in huge pages (see /proc/sys/vm/nr_hugepages)",
        false => "allocating frame memory",
    };
    let (arena, memory) = Arena::shared(Umem::bytes(tx, rx), config.huge_pages)
        .map_err(|source| OpenError::Io { what, source })?;
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
        program: program.id(),
        busy: false,
        need_wakeup: config.need_wakeup,
        reason: String::new(),
    };
    let control = interface.control;
    Ok((program, Parts { description, socket, memory, program: attached, control }))
}

pub(crate) fn opening((what, e): (&'static str, Errno)) -> OpenError {
    match e {
        Errno::PERM | Errno::ACCESS => {
            OpenError::MissingCapability { what, capability: "CAP_NET_RAW" }
        }
        Errno::AFNOSUPPORT | Errno::PROTONOSUPPORT => OpenError::Unsupported {
            what: "AF_XDP (CONFIG_XDP_SOCKETS)",
            instead: "use the packet backend",
        },
        // How the kernel says that RLIMIT_MEMLOCK does not cover the memory to be registered.
        Errno::NOBUFS => OpenError::MissingCapability {
            what: "locking frame memory",
            capability: "CAP_IPC_LOCK, or raise 'ulimit -l'",
        },
        other => OpenError::Io { what, source: other.into() },
    }
}

fn loading(source: io::Error) -> OpenError {
    match source.raw_os_error() {
        Some(libc::EPERM | libc::EACCES) => OpenError::MissingCapability {
            what: "loading an XDP program",
            capability: "CAP_BPF and CAP_NET_ADMIN",
        },
        Some(libc::ENOSYS) => {
            OpenError::Unsupported { what: "bpf(2)", instead: "use the packet backend" }
        }
        _ => OpenError::Io { what: "loading the XDP program", source },
    }
}

fn attaching(error: io::Error, interface: &Interface, config: &XdpConfig) -> Refusal {
    match error.raw_os_error() {
        Some(libc::EPERM | libc::EACCES) => Refusal::Final(OpenError::MissingCapability {
            what: "attaching an XDP program",
            capability: "CAP_NET_ADMIN",
        }),
        Some(libc::EBUSY | libc::EEXIST) => match refuse_other_programs(interface, config.queue) {
            Err(foreign) => Refusal::Final(foreign),
            Ok(()) => refused("attaching the program", error),
        },
        _ => refused("attaching the program", error),
    }
}

/// Fails when a program is attached to the interface already, ours or another.
fn refuse_other_programs(interface: &Interface, queue: u32) -> Result<(), OpenError> {
    let name = || interface.name.clone();
    let _ = within(PROGRAM_GONE_WITHIN, || attached::program(interface.index).is_none());
    match attached::program(interface.index) {
        None => Ok(()),
        Some(id) if program::is_ours(id) => Err(OpenError::QueueBusy { interface: name(), queue }),
        Some(program) => Err(OpenError::ForeignProgram { interface: name(), program }),
    }
}

fn bind(link: &XdpLink, config: &XdpConfig, flags: SocketAddrXdpFlags) -> Result<(), Refusal> {
    let (index, queue) = (link.interface.index, config.queue);
    let mut result = Ok(());
    let _ = within(QUEUE_FREE_WITHIN, || {
        result = link.socket.bind(index, queue, flags);
        !matches!(result, Err((_, Errno::BUSY)))
    });
    result.map_err(|(what, e)| match e {
        Errno::BUSY => {
            let interface = link.info.interface.clone();
            Refusal::Final(OpenError::QueueBusy { interface, queue })
        }
        Errno::NETDOWN => Refusal::Final(OpenError::InterfaceDown(link.info.interface.clone())),
        // Also how a kernel before 5.4 refuses the wake-up flag.
        Errno::INVAL if queue > 0 => refused(what, format!("{e} (is there a queue {queue}?)")),
        Errno::INVAL if flags.contains(SocketAddrXdpFlags::XDP_USE_SG) => {
            refused(what, format!("{e} (frames in several buffers need Linux 6.6)"))
        }
        other => refused(what, other),
    })
}

/// The program in the kernel takes a matching frame and passes others.
fn classifies(program: &Program, link: &XdpLink, config: &XdpConfig) -> Result<(), Refusal> {
    let ours = matching_frame(config, link.info.mac);
    let mut foreign = ours.clone();
    foreign[..6].copy_from_slice(&[0xff; 6]);
    let mut longest = ours.clone();
    if link.assembly.is_some() {
        longest.resize(link.info.max_frame, 0);
    }
    // A test runs on queue 0, which has a socket only if that is the link's.
    let expected = if config.queue == 0 && !config.filter.channels.is_empty() {
        Verdict::Redirect
    } else {
        Verdict::Pass
    };
    for (frame, expected) in [(&ours, expected), (&longest, expected), (&foreign, Verdict::Pass)] {
        match program.judge(frame) {
            Ok(verdict) if verdict == expected => {}
            Ok(other) => return Err(refused("testing the program", format!("it says {other:?}"))),
            Err(e) => return Err(refused("testing the program", e)),
        }
    }
    Ok(())
}

/// A frame that the link's filter takes.
fn matching_frame(config: &XdpConfig, mac: MacAddr) -> Vec<u8> {
    let mut frame = vec![0; 80];
    frame[..6].copy_from_slice(&mac.0);
    frame[6..12].copy_from_slice(&mac.0);
    let channel = config.filter.channels.iter().next().unwrap_or(0);
    match config.filter.envelope {
        Envelope::Ethernet { ethertype } => {
            frame[12..14].copy_from_slice(&ethertype.to_be_bytes());
            frame[14 + 5] = channel;
        }
        Envelope::Udp { port } => {
            frame[12..15].copy_from_slice(&[0x08, 0x00, 0x45]);
            frame[23] = 17;
            frame[36..38].copy_from_slice(&port.to_be_bytes());
            frame[42 + 5] = channel;
        }
    }
    frame
}

fn busy_poll(link: &XdpLink, wanted: BusyPoll, useful: bool) -> Result<bool, OpenError> {
    match wanted {
        BusyPoll::Off => Ok(false),
        BusyPoll::Auto if !useful => Ok(false),
        BusyPoll::Auto => {
            let (micros, budget) = BusyPoll::AUTOMATIC;
            Ok(link.socket.prefer_busy_poll(micros, budget).is_ok())
        }
        BusyPoll::On { micros, budget } => match link.socket.prefer_busy_poll(micros, budget) {
            Ok(()) => Ok(true),
            Err(Errno::PERM) => Err(OpenError::MissingCapability {
                what: "busy polling so long",
                capability: "CAP_NET_ADMIN",
            }),
            Err(e) => Err(OpenError::Io { what: "turning busy polling on", source: e.into() }),
        },
    }
}

/// Frames of full length leave and complete one by one, if need be without busy polling: why that is off then.
///
/// A kernel that is driven so looks into the queue that receives, and into no other: an igb with one queue, whose
/// driver serves sending and receiving apart then, sends nothing in zero-copy mode but when it looks after its
/// queues, every two seconds. One frame may be in luck.
///
/// They go from the interface's own address to the same address: a switch learns nothing that it
/// would not learn from any other frame of ours, and finds that their destination is where they
/// came from, so they go nowhere else; a macvlan has them back from the kernel, which completes them too. Should one
/// come back, its header of zeros is of no version of the protocol.
fn transmits(link: &mut XdpLink, config: &XdpConfig) -> Result<Option<String>, Refusal> {
    let Envelope::Ethernet { ethertype } = (match config.filter.envelope {
        Envelope::Udp { .. } => Envelope::DEFAULT,
        ethernet => ethernet,
    }) else {
        return Ok(None);
    };
    let mac = link.info.mac.0;
    let mut frame = vec![0; link.info.max_frame];
    frame[..6].copy_from_slice(&mac);
    frame[6..12].copy_from_slice(&mac);
    frame[12..14].copy_from_slice(&ethertype.to_be_bytes());
    let mut left_off = None;
    for _ in 0..FRAMES {
        let mut posted = post(link, &frame);
        let mut done = completes(link, &mut posted)?;
        if !done && link.busy && config.busy_poll == BusyPoll::Auto {
            link.socket.no_busy_poll().map_err(|e| refused("ending busy polling", e))?;
            link.busy = false;
            left_off = Some(IN_VAIN.to_owned());
            done = completes(link, &mut posted)?;
        }
        if !done {
            return Err(refused("transmitting", "a frame did not complete"));
        }
    }
    if link.socket.statistics().is_ok_and(|counts| counts.tx_invalid_descs > 0) {
        return Err(refused("transmitting", "the kernel does not take the frame's descriptors"));
    }
    // What came back was there before it was complete: the kernel copies frames on that way.
    let mut back = Vec::new();
    while link.poll(&mut back, 64).is_ok_and(|count| count > 0) {
        back.drain(..).for_each(|frame| link.recycle(frame));
    }
    link.counters = Counters::default();
    Ok(left_off)
}

/// Whether the kernel gives all of a frame back.
fn completes(link: &mut XdpLink, posted: &mut Vec<Posted>) -> Result<bool, Refusal> {
    let mut result = Ok(());
    let done = within(COMPLETE_WITHIN, || {
        result = link.flush().map(drop);
        for token in std::mem::take(posted) {
            match link.reclaim(token) {
                Ok(frame) => link.give_back(frame),
                Err(still) => posted.push(still),
            }
        }
        posted.is_empty() || result.is_err()
    });
    result.map(|()| done).map_err(|e| refused("transmitting", e))
}

/// Posts a frame in as few segments as it needs.
fn post(link: &mut XdpLink, bytes: &[u8]) -> Vec<Posted> {
    let arena = link.umem.arena.clone();
    let chunks = bytes.chunks(CHUNK);
    let last = chunks.len() - 1;
    let write = |mut frame: TxFrame, chunk: &[u8]| {
        arena.bytes_mut(&mut frame)[..chunk.len()].copy_from_slice(chunk);
        frame
    };
    chunks
        .enumerate()
        .map(|(i, chunk)| {
            let frame = write(link.take().expect("room for the longest frame"), chunk);
            if i < last {
                link.post_segment(frame, 0..chunk.len())
            } else {
                link.post(frame, 0..chunk.len())
            }
        })
        .collect()
}

/// Looks until `done` says so or the time is up; whether it did.
fn within(time: Duration, mut done: impl FnMut() -> bool) -> bool {
    let end = Instant::now() + time;
    loop {
        if done() {
            return true;
        }
        if Instant::now() >= end {
            return false;
        }
        std::thread::sleep(PAUSE);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_long_frames_of_virtio_in_native_mode_are_left_out() {
        let (native, several) = (Mode::XdpNative, Buffers::Several);
        assert!(fails("virtio_net", native, several).is_some());
        assert!(fails("virtio_net", native, Buffers::One).is_none());
        assert!(fails("virtio_net", Mode::XdpGeneric, several).is_none());
        assert!(fails("igb", native, several).is_none());
    }
}
