//! Options. A new option takes a function of four lines here and one declaration in the header.

use crate::abi::*;
use crate::error::{EntryResult, Error, answer};
use crate::handle::{HandleTable, contain};
use crate::text;
use gigae::{Backend, BrokerUse, BusyPoll, Envelope, Mode, Options, Progress, Sharing, Wait};
use std::ffi::{c_char, c_int, c_void};
use std::ptr;
use std::time::Duration;

/// All options of the process.
pub(crate) static OPTIONS: HandleTable<Options> = HandleTable::new(2);

/// Most interfaces that can be combined (`PROTOCOL.md` §11).
const MOST_INTERFACES: usize = 8;

/// Makes options with everything at its default. See the header.
///
/// # Safety
/// Pointers are NULL or as the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gigae_options_new(
    interface: *const c_char,
    options: *mut *mut OptionsHandle,
) -> c_int {
    answer(contain(|| {
        // SAFETY: the caller's promise. NULL is noticed before anything is made.
        unsafe { text::put(options, ptr::null_mut(), "where to put the options")? };
        // SAFETY: the caller's promise.
        let interface = unsafe { text::take(interface, "the interface's name")? };
        let handle = OPTIONS.insert(Box::new(Options::new(interface)))?;
        // SAFETY: the caller's promise.
        unsafe { text::put(options, ptr::without_provenance_mut(handle), "the options")? };
        Ok(0)
    }))
}

/// Makes options for several interfaces combined. See the header.
///
/// # Safety
/// Pointers are NULL or as the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gigae_options_trunk(
    interfaces: *const *const c_char,
    count: usize,
    options: *mut *mut OptionsHandle,
) -> c_int {
    answer(contain(|| {
        // SAFETY: the caller's promise. NULL is noticed before anything is made.
        unsafe { text::put(options, ptr::null_mut(), "where to put the options")? };
        if !(1..=MOST_INTERFACES).contains(&count) {
            return Err(Error::invalid("give from 1 to 8 interfaces"));
        }
        if interfaces.is_null() {
            return Err(Error::null("the list of interfaces"));
        }
        // SAFETY: the caller's promise: `count` pointers.
        let interfaces = unsafe { std::slice::from_raw_parts(interfaces, count) };
        let names = interfaces.iter().map(|&interface| {
            // SAFETY: the caller's promise.
            unsafe { text::take(interface, "an interface's name") }
        });
        let made = Options::trunk(names.collect::<EntryResult<Vec<_>>>()?);
        let handle = OPTIONS.insert(Box::new(made))?;
        // SAFETY: the caller's promise.
        unsafe { text::put(options, ptr::without_provenance_mut(handle), "the options")? };
        Ok(0)
    }))
}

/// Frees options. See the header.
#[unsafe(no_mangle)]
pub extern "C" fn gigae_options_free(options: *mut OptionsHandle) -> c_int {
    answer(contain(|| {
        drop(OPTIONS.remove(options.addr(), |_| Ok(()))?);
        Ok(0)
    }))
}

/// Changes options, or returns an error and leaves them unchanged.
fn change(options: *mut OptionsHandle, how: impl FnOnce(Options) -> EntryResult<Options>) -> c_int {
    answer(OPTIONS.with(options.addr(), |options| {
        *options = how(options.clone())?;
        Ok(0)
    }))
}

/// See the header, as for all that follow.
#[unsafe(no_mangle)]
pub extern "C" fn gigae_options_port(options: *mut OptionsHandle, port: u16) -> c_int {
    change(options, |o| Ok(o.port(port)))
}

/// The channels to open.
///
/// # Safety
/// Pointers are NULL or as the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gigae_options_channels(
    options: *mut OptionsHandle,
    channels: *const u8,
    count: usize,
) -> c_int {
    change(options, |o| {
        if !(1..=256).contains(&count) {
            return Err(Error::invalid("give from 1 to 256 channels"));
        }
        // SAFETY: the caller's promise.
        let channels = unsafe { text::bytes(channels.cast::<c_void>(), count)? };
        Ok(o.channels(channels.iter().copied()))
    })
}

/// The EtherType.
#[unsafe(no_mangle)]
pub extern "C" fn gigae_options_ethertype(options: *mut OptionsHandle, ethertype: u16) -> c_int {
    /// Smaller numbers are lengths (IEEE Std 802.3, clause 3.2.6).
    const LEAST: u16 = 0x0600;
    change(options, |o| {
        if ethertype < LEAST {
            return Err(Error::invalid(format!(
                "0x{ethertype:04x} is not an EtherType; give one from 0x0600 on"
            )));
        }
        Ok(o.envelope(Envelope::Ethernet { ethertype }))
    })
}

/// The UDP envelope.
#[unsafe(no_mangle)]
pub extern "C" fn gigae_options_udp(options: *mut OptionsHandle, port: u16) -> c_int {
    change(options, |o| match port {
        0 => Err(Error::invalid("0 is not a UDP port; give one from 1 on")),
        _ => Ok(o.envelope(Envelope::Udp { port })),
    })
}

/// The kernel interface.
#[unsafe(no_mangle)]
pub extern "C" fn gigae_options_backend(options: *mut OptionsHandle, backend: c_int) -> c_int {
    change(options, |o| {
        Ok(o.backend(match backend {
            GIGAE_BACKEND_AUTO => Backend::Auto,
            GIGAE_BACKEND_XDP => Backend::Xdp,
            GIGAE_BACKEND_XDP_ZERO_COPY => Backend::XdpMode(Mode::XdpZeroCopy),
            GIGAE_BACKEND_XDP_NATIVE => Backend::XdpMode(Mode::XdpNative),
            GIGAE_BACKEND_XDP_GENERIC => Backend::XdpMode(Mode::XdpGeneric),
            GIGAE_BACKEND_PACKET => Backend::Packet,
            GIGAE_BACKEND_UDP => Backend::Udp,
            _ => return Err(Error::invalid(format!("{backend} is not a gigae_backend"))),
        }))
    })
}

/// Whether the NIC is shared.
#[unsafe(no_mangle)]
pub extern "C" fn gigae_options_sharing(options: *mut OptionsHandle, sharing: c_int) -> c_int {
    change(options, |o| {
        Ok(o.sharing(match sharing {
            GIGAE_SHARING_ALONE => Sharing::Alone,
            GIGAE_SHARING_AUTO => Sharing::Auto,
            GIGAE_SHARING_CHILD => Sharing::Child,
            _ => return Err(Error::invalid(format!("{sharing} is not a gigae_sharing"))),
        }))
    })
}

/// Whether a broker opens the links.
#[unsafe(no_mangle)]
pub extern "C" fn gigae_options_broker(options: *mut OptionsHandle, broker: c_int) -> c_int {
    change(options, |o| {
        Ok(o.broker(match broker {
            GIGAE_BROKER_AUTO => BrokerUse::Auto,
            GIGAE_BROKER_NEVER => BrokerUse::Never,
            GIGAE_BROKER_ONLY => BrokerUse::Only,
            _ => return Err(Error::invalid(format!("{broker} is not a gigae_broker"))),
        }))
    })
}

/// Whether frames to endpoints of this node go through memory.
#[unsafe(no_mangle)]
pub extern "C" fn gigae_options_local(options: *mut OptionsHandle, on: c_int) -> c_int {
    change(options, |o| Ok(o.local(on != 0)))
}

/// Whether long messages go by a UDP socket.
#[unsafe(no_mangle)]
pub extern "C" fn gigae_options_bulk(options: *mut OptionsHandle, on: c_int) -> c_int {
    change(options, |o| Ok(o.bulk(on != 0)))
}

/// Which side acts while the program makes no calls.
#[unsafe(no_mangle)]
pub extern "C" fn gigae_options_progress(options: *mut OptionsHandle, progress: c_int) -> c_int {
    change(options, |o| {
        Ok(o.progress(match progress {
            GIGAE_PROGRESS_AUTO => Progress::Auto,
            GIGAE_PROGRESS_MANUAL => Progress::Manual,
            _ => return Err(Error::invalid(format!("{progress} is not a gigae_progress_mode"))),
        }))
    })
}

/// The NIC's receive queue.
#[unsafe(no_mangle)]
pub extern "C" fn gigae_options_queue(options: *mut OptionsHandle, queue: u32) -> c_int {
    change(options, |o| Ok(o.queue(queue)))
}

/// A waiting style.
pub(crate) fn wait(style: c_int) -> EntryResult<Wait> {
    Ok(match style {
        GIGAE_WAIT_ADAPTIVE => Wait::Adaptive,
        GIGAE_WAIT_SPIN => Wait::Spin,
        GIGAE_WAIT_SLEEP => Wait::Sleep,
        _ => return Err(Error::invalid(format!("{style} is not a gigae_wait"))),
    })
}

/// The waiting style.
#[unsafe(no_mangle)]
pub extern "C" fn gigae_options_wait(options: *mut OptionsHandle, style: c_int) -> c_int {
    change(options, |o| Ok(o.wait(wait(style)?)))
}

/// Busy polling.
#[unsafe(no_mangle)]
pub extern "C" fn gigae_options_busy_poll(
    options: *mut OptionsHandle,
    mode: c_int,
    microseconds: u32,
    budget: u16,
) -> c_int {
    change(options, |o| {
        Ok(o.busy_poll(match mode {
            GIGAE_BUSY_POLL_AUTO => BusyPoll::Auto,
            GIGAE_BUSY_POLL_OFF => BusyPoll::Off,
            GIGAE_BUSY_POLL_ON => BusyPoll::On { micros: microseconds, budget },
            _ => return Err(Error::invalid(format!("{mode} is not a gigae_busy_poll"))),
        }))
    })
}

/// When a peer is lost.
#[unsafe(no_mangle)]
pub extern "C" fn gigae_options_peer_timeout(
    options: *mut OptionsHandle,
    microseconds: u64,
) -> c_int {
    change(options, |o| match microseconds {
        0 => Err(Error::invalid("with a peer timeout of 0 every peer is lost at once")),
        _ => Ok(o.peer_timeout(Duration::from_micros(microseconds))),
    })
}

/// How long closing waits.
#[unsafe(no_mangle)]
pub extern "C" fn gigae_options_linger(options: *mut OptionsHandle, microseconds: u64) -> c_int {
    change(options, |o| Ok(o.linger(Duration::from_micros(microseconds))))
}

/// Go-back-N instead of selective repeat.
#[unsafe(no_mangle)]
pub extern "C" fn gigae_options_go_back_n(options: *mut OptionsHandle) -> c_int {
    change(options, |o| Ok(o.go_back_n()))
}

/// Whether small messages share a frame.
#[unsafe(no_mangle)]
pub extern "C" fn gigae_options_aggregate(options: *mut OptionsHandle, on: c_int) -> c_int {
    change(options, |o| Ok(o.aggregate(on != 0)))
}

/// Whether the checksum covers the messages.
#[unsafe(no_mangle)]
pub extern "C" fn gigae_options_payload_checksum(options: *mut OptionsHandle, on: c_int) -> c_int {
    change(options, |o| Ok(o.payload_checksum(on != 0)))
}

/// Whether long messages are sent from the program's memory.
#[unsafe(no_mangle)]
pub extern "C" fn gigae_options_lend(options: *mut OptionsHandle, on: c_int) -> c_int {
    change(options, |o| Ok(o.lend(on != 0)))
}
