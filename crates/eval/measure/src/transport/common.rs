//! What several transports do in the same way.

use crate::channel::{Calls, Task};
use ::gigae::BusyPoll;
use gigae_eval_model::note::Note;
use gigae_eval_model::plan;
use gigae_eval_model::wait::Wait;
use gigae_link::{Info, LinkCounters};
use std::io;

/// Nothing to do now, try again: a full or empty socket, a nap that ended, a signal.
pub(crate) fn try_again(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut | io::ErrorKind::Interrupted
    )
}

/// Sets a socket to spin or to nap.
pub(super) fn set_waiting(socket: &socket2::Socket, task: &Task) -> io::Result<()> {
    socket.set_nonblocking(task.wait == Wait::Spin)?;
    if task.wait != Wait::Spin {
        socket.set_read_timeout(Some(task.nap()))?;
        socket.set_write_timeout(Some(task.nap()))?;
    }
    Ok(())
}

/// A message of the largest size, ready to be numbered and sent.
pub(super) fn message(size: usize) -> Vec<u8> {
    (0..size.max(4)).map(|index| index as u8).collect()
}

/// Messages of a size that an end has going at a time: a mebibyte, as a TCP socket's buffers hold
/// once they have grown, and enough messages that the next one is known before one ends.
///
/// Each has its own memory, which takes its turn: the data of a program's messages do not lie in
/// the cache because the last message was there.
pub(crate) fn ahead(size: usize) -> usize {
    ((1 << 20) / size.max(1)).clamp(4, 128)
}

/// Reads a message as a program that wants its data does, a byte of every cache line, and returns
/// the number in its first four bytes.
///
/// Without this a link that leaves the data where another CPU wrote them would seem quicker than
/// one that brings them, and what the program pays later would be counted nowhere.
#[inline]
pub(super) fn read(message: &[u8]) -> Option<u32> {
    const CACHE_LINE: usize = 64;
    let lines = message.iter().step_by(CACHE_LINE).chain(message.last());
    std::hint::black_box(lines.fold(0, |sum, byte| sum ^ byte));
    message.first_chunk().map(|bytes| u32::from_le_bytes(*bytes))
}

/// What a link has counted.
pub(super) fn calls(link: &LinkCounters) -> Calls {
    Calls {
        all: link.doorbells + link.drives + link.waits,
        send: link.doorbells,
        sent: link.tx_frames,
        ..Calls::default()
    }
}

/// What a link says about itself.
pub(super) fn note(info: &Info) -> Note {
    Note::Link { mode: info.mode.to_string(), reason: info.reason.clone() }
}

/// A plan's busy polling as the library takes it.
pub(super) fn busy_poll(busy_poll: plan::BusyPoll) -> BusyPoll {
    match busy_poll {
        plan::BusyPoll::Auto => BusyPoll::Auto,
        plan::BusyPoll::Off => BusyPoll::Off,
        plan::BusyPoll::On(plan::BusyPollOn { micros, budget }) => BusyPoll::On { micros, budget },
    }
}
