//! What two neighbours say about registered memory, on the connection from the one that asks to the
//! owner. Everything else that comes on a connection is a doorbell.

use gigae_memfd::SharedMemory;
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::io::Errno;
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, ReturnFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags,
};
use std::io::{IoSlice, IoSliceMut};
use std::mem::MaybeUninit;

/// First word of a question for a region, and of its answer.
const ASK: u64 = u64::from_ne_bytes(*b"gigaeask");
const ANSWER: u64 = u64::from_ne_bytes(*b"gigaereg");

const ASK_WORDS: usize = 2;
const ANSWER_WORDS: usize = 8;

/// Bits of an answer.
const READ: u64 = 1;
const WRITE: u64 = 2;

/// A neighbour wants to use the region with this key.
#[derive(Debug)]
pub(crate) struct Ask {
    pub(crate) region: u64,
    /// The page of [`AccessWords`](crate::access_words::AccessWords), with the first question.
    pub(crate) page: Option<OwnedFd>,
}

/// What neighbours may do with a region without its owner.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DirectRights {
    /// Reading.
    pub read: bool,
    /// Writing.
    pub write: bool,
}

/// How a neighbour may use a region.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Permit {
    pub(crate) region: u64,
    pub(crate) slot: usize,
    /// The number of the permit; not zero.
    pub(crate) number: u64,
    /// Where the region begins in the memory, and its length, in bytes.
    pub(crate) start: usize,
    pub(crate) len: usize,
    /// Length of the memory.
    pub(crate) words: usize,
    pub(crate) rights: DirectRights,
}

/// A message of a connection.
struct Received {
    words: [u64; ANSWER_WORDS],
    count: usize,
    fd: Option<OwnedFd>,
}

/// The next message. `AGAIN` if none waits; `PIPE` if the other end is gone.
fn receive(socket: &OwnedFd) -> Result<Received, Errno> {
    let mut bytes = [0; 8 * ANSWER_WORDS];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut ancillary = RecvAncillaryBuffer::new(&mut space);
    let flags = RecvFlags::CMSG_CLOEXEC | RecvFlags::DONTWAIT;
    let received =
        rustix::net::recvmsg(socket, &mut [IoSliceMut::new(&mut bytes)], &mut ancillary, flags)?;
    if received.bytes == 0 {
        return Err(Errno::PIPE);
    }
    let mut descriptors = ancillary.drain().filter_map(|message| match message {
        RecvAncillaryMessage::ScmRights(descriptors) => Some(descriptors),
        _ => None,
    });
    let fd = descriptors.next().and_then(|mut descriptors| descriptors.next());
    let mut words = [0; ANSWER_WORDS];
    for (word, bytes) in words.iter_mut().zip(bytes.as_chunks::<8>().0) {
        *word = u64::from_ne_bytes(*bytes);
    }
    let whole = !received.flags.contains(ReturnFlags::TRUNC) && received.bytes.is_multiple_of(8);
    Ok(Received { words, count: if whole { received.bytes / 8 } else { 0 }, fd })
}

fn send(socket: &OwnedFd, words: &[u64], fd: Option<BorrowedFd<'_>>) -> Result<(), Errno> {
    let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_ne_bytes()).collect();
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut ancillary = SendAncillaryBuffer::new(&mut space);
    let descriptors = fd.map(|fd| [fd]);
    if let Some(descriptors) = &descriptors {
        ancillary.push(SendAncillaryMessage::ScmRights(descriptors));
    }
    let flags = SendFlags::NOSIGNAL | SendFlags::DONTWAIT;
    rustix::net::sendmsg(socket, &[IoSlice::new(&bytes)], &mut ancillary, flags)?;
    Ok(())
}

impl Ask {
    /// Asks for a region. The first question passes the page.
    pub(crate) fn send(
        socket: &OwnedFd,
        region: u64,
        page: Option<BorrowedFd<'_>>,
    ) -> Result<(), Errno> {
        send(socket, &[ASK, region], page)
    }

    /// The next message of a connection: `None` if it is a doorbell.
    pub(crate) fn receive(socket: &OwnedFd) -> Result<Option<Self>, Errno> {
        let Received { words, count, fd: page } = receive(socket)?;
        let is_ask = count == ASK_WORDS && words[0] == ASK;
        Ok(is_ask.then_some(Self { region: words[1], page }))
    }
}

impl Permit {
    /// Tells the neighbour how it may use a region, and passes the memory.
    pub(crate) fn send(&self, socket: &OwnedFd, memory: BorrowedFd<'_>) -> Result<(), Errno> {
        let Self { region, slot, number, start, len, words, rights } = *self;
        let rights = (u64::from(rights.read) * READ) | (u64::from(rights.write) * WRITE);
        let [slot, start, len, words] = [slot, start, len, words].map(|n| n as u64);
        let message = [ANSWER, region, slot, number, start, len, words, rights];
        send(socket, &message, Some(memory))
    }

    /// The next message of a connection: `None` if it is no permit, or one that makes no sense.
    pub(crate) fn receive(socket: &OwnedFd) -> Result<Option<(Self, OwnedFd)>, Errno> {
        let Received { words: message, count, fd } = receive(socket)?;
        let [kind, region, slot, number, start, len, words, rights] = message;
        let Some(fd) = fd.filter(|_| count == ANSWER_WORDS && kind == ANSWER) else {
            return Ok(None);
        };
        let rights = DirectRights { read: rights & READ != 0, write: rights & WRITE != 0 };
        let number_of = |n: u64| usize::try_from(n).ok();
        let permit = || {
            let (slot, start, len) = (number_of(slot)?, number_of(start)?, number_of(len)?);
            let words = number_of(words)?;
            let fits = start.checked_add(len)? <= words.checked_mul(8)?;
            let valid = fits && slot < crate::access_words::SLOTS && number != 0;
            valid.then_some(Self { region, slot, number, start, len, words, rights })
        };
        Ok(permit().map(|permit| (permit, fd)))
    }

    /// Maps the memory that came with the permit.
    pub(crate) fn map(&self, memory: impl AsFd) -> std::io::Result<SharedMemory> {
        match self.rights.write {
            true => SharedMemory::map(memory, self.words),
            false => SharedMemory::map_to_read(memory, self.words),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};

    fn pair() -> (OwnedFd, OwnedFd) {
        let flags = SocketFlags::CLOEXEC;
        socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None).unwrap()
    }

    #[test]
    fn what_is_asked_and_permitted_arrives_and_all_else_is_a_doorbell() {
        let (a, b) = pair();
        let (memory, fd) = SharedMemory::create("gigae-test", 16).unwrap();
        Ask::send(&a, 7, Some(fd.as_fd())).unwrap();
        Ask::send(&a, 8, None).unwrap();
        rustix::net::send(&a, &[1], SendFlags::empty()).unwrap();
        let asked = Ask::receive(&b).unwrap().unwrap();
        assert_eq!((asked.region, asked.page.is_some()), (7, true));
        let asked = Ask::receive(&b).unwrap().unwrap();
        assert_eq!((asked.region, asked.page.is_some()), (8, false));
        assert!(Ask::receive(&b).unwrap().is_none(), "a doorbell");
        assert_eq!(Ask::receive(&b).unwrap_err(), Errno::AGAIN);
        let rights = DirectRights { read: true, write: false };
        let (slot, number, start, len, words) = (1, 9, 5, 123, 16);
        let permit = Permit { region: 7, slot, number, start, len, words, rights };
        permit.send(&b, fd.as_fd()).unwrap();
        let (read, fd) = Permit::receive(&a).unwrap().unwrap();
        assert_eq!(read, permit);
        memory.write(5, b"here");
        let (mapped, mut bytes) = (read.map(fd).unwrap(), [0; 4]);
        mapped.read(5, &mut bytes);
        assert_eq!(&bytes, b"here");
        drop(b);
        assert_eq!(Permit::receive(&a).unwrap_err(), Errno::PIPE);
    }

    #[test]
    fn a_permit_that_reaches_beyond_its_memory_is_none() {
        let (a, b) = pair();
        let (_memory, fd) = SharedMemory::create("gigae-test", 16).unwrap();
        let rights = DirectRights { read: true, write: true };
        let good = Permit { region: 7, slot: 0, number: 1, start: 0, len: 128, words: 16, rights };
        for wrong in [
            Permit { len: 129, ..good },
            Permit { start: 1, ..good },
            Permit { start: usize::MAX, ..good },
            Permit { words: usize::MAX / 8 + 1, ..good },
            Permit { slot: crate::access_words::SLOTS, ..good },
            Permit { number: 0, ..good },
        ] {
            wrong.send(&b, fd.as_fd()).unwrap();
            assert!(Permit::receive(&a).unwrap().is_none(), "{wrong:?}");
        }
        good.send(&b, fd.as_fd()).unwrap();
        assert!(Permit::receive(&a).unwrap().is_some());
        // It is as long as another memory.
        let other = Permit { words: 1 << 30, ..good };
        other.send(&b, fd.as_fd()).unwrap();
        let (permit, fd) = Permit::receive(&a).unwrap().unwrap();
        assert!(permit.map(fd).is_err());
    }
}
