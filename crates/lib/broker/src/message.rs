//! One message over a sequenced-packet socket, with or without descriptors (unix(7), `SCM_RIGHTS`).

use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::io::Errno;
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, ReturnFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags,
};
use std::io::{IoSlice, IoSliceMut};
use std::mem::MaybeUninit;

use crate::protocol::DESCRIPTORS;

/// Sends a message with descriptors, completely or not at all, without waiting for room.
pub(crate) fn send(
    socket: &impl AsFd,
    bytes: &[u8],
    descriptors: &[BorrowedFd<'_>],
) -> Result<(), Errno> {
    let mut room = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(DESCRIPTORS))];
    let mut control = SendAncillaryBuffer::new(&mut room);
    if !descriptors.is_empty() && !control.push(SendAncillaryMessage::ScmRights(descriptors)) {
        return Err(Errno::TOOBIG);
    }
    let flags = SendFlags::NOSIGNAL | SendFlags::DONTWAIT;
    rustix::net::sendmsg(socket, &[IoSlice::new(bytes)], &mut control, flags).map(drop)
}

/// Receives a message: its length and its descriptors. Refuses longer messages and those with more
/// descriptors, and closes what came.
pub(crate) fn receive(
    socket: &impl AsFd,
    bytes: &mut [u8],
) -> Result<(usize, Vec<OwnedFd>), Errno> {
    let mut room = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(DESCRIPTORS))];
    let mut control = RecvAncillaryBuffer::new(&mut room);
    let got = rustix::io::retry_on_intr(|| {
        let into = &mut [IoSliceMut::new(bytes)];
        rustix::net::recvmsg(socket, into, &mut control, RecvFlags::CMSG_CLOEXEC)
    })?;
    let mut descriptors = Vec::new();
    for message in control.drain() {
        if let RecvAncillaryMessage::ScmRights(received) = message {
            descriptors.extend(received);
        }
    }
    match got.flags.intersects(ReturnFlags::TRUNC | ReturnFlags::CTRUNC) {
        true => Err(Errno::MSGSIZE),
        false => Ok((got.bytes, descriptors)),
    }
}

/// The length of the next message of a non-blocking socket, of which only the part that fits is
/// read; zero at the end. The kernel closes descriptors that come with it, as there is no room for
/// them.
pub(crate) fn receive_plain(socket: &impl AsFd, bytes: &mut [u8]) -> Result<usize, Errno> {
    let flags = RecvFlags::DONTWAIT | RecvFlags::TRUNC;
    let (_, length) = rustix::net::recv(socket, bytes, flags)?;
    Ok(length)
}
