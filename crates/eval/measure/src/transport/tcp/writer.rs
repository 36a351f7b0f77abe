//! How messages are written to a TCP socket: each by its own call, or gathered or cut into writes
//! of one length, with or without a copy by the kernel.

use super::zerocopy::Completions;
use crate::channel::{Calls, TransportError};
use crate::transport::common::{ahead, message, try_again};
use gigae_eval_model::note::Zerocopy;
use gigae_eval_model::plan::TcpOptions;
use socket2::Socket;
use std::time::Duration;

pub(super) struct Writer {
    size: usize,
    /// Messages are made here, in turn: one in each, or as many as fit into a write.
    memories: Vec<Vec<u8>>,
    turn: usize,
    /// How much of the present memory is made, and how much of that is written.
    made: usize,
    written: usize,
    /// Most bytes of a write.
    most: usize,
    /// What the kernel still reads; absent: it copies.
    completions: Option<Completions>,
    pub(super) calls: Calls,
}

impl Writer {
    /// `in_turn`: several memories take turns.
    pub(super) fn new(size: usize, options: TcpOptions, in_turn: bool) -> Self {
        let most = options.write.map_or(usize::MAX, |write| write as usize);
        let gathered = match options.write {
            Some(_) => (most / size).max(1),
            None => 1,
        };
        let length = gathered * size;
        let turns = if in_turn || options.zerocopy { ahead(length) } else { 1 };
        Self {
            size,
            memories: vec![message(size).repeat(gathered); turns],
            turn: 0,
            made: 0,
            written: 0,
            most,
            completions: options.zerocopy.then(|| Completions::new(turns)),
            calls: Calls::default(),
        }
    }

    /// Makes a message, and writes what makes a write; `false` if there is no room now.
    pub(super) fn write(&mut self, socket: &Socket, number: u32) -> Result<bool, TransportError> {
        if self.made == self.memories[self.turn].len() {
            if !self.push(socket)? {
                return Ok(false);
            }
            self.turn = (self.turn + 1) % self.memories.len();
            (self.made, self.written) = (0, 0);
        }
        if self.made == 0 && !self.is_free(socket)? {
            return Ok(false);
        }
        let memory = &mut self.memories[self.turn];
        memory[self.made..self.made + 4].copy_from_slice(&number.to_le_bytes());
        self.made += self.size;
        if self.made == memory.len() {
            self.push(socket)?;
        }
        Ok(true)
    }

    /// Writes all that is made; `false` if there is no room now.
    #[inline]
    pub(super) fn push(&mut self, socket: &Socket) -> Result<bool, TransportError> {
        while self.written < self.made {
            self.calls.all += 1;
            let end = self.made.min(self.written.saturating_add(self.most));
            let bytes = &self.memories[self.turn][self.written..end];
            let flags = if self.completions.is_some() { libc::MSG_ZEROCOPY } else { 0 };
            match socket.send_with_flags(bytes, flags) {
                Ok(bytes) => {
                    self.calls.send += 1;
                    self.written += bytes;
                    if let Some(completions) = &mut self.completions {
                        completions.wrote(self.turn);
                    }
                }
                Err(error) if try_again(&error) => return Ok(false),
                // No memory for further completions, or to lock further pages.
                Err(error) if error.raw_os_error() == Some(libc::ENOBUFS) && self.reads() => {
                    self.reap(socket)?;
                    return Ok(false);
                }
                Err(error) => return Err(TransportError::io("sending by TCP")(error)),
            }
        }
        Ok(true)
    }

    /// Whether the kernel still reads any memory.
    fn reads(&self) -> bool {
        self.completions.as_ref().is_some_and(Completions::is_waiting)
    }

    /// Takes the completions that are there.
    fn reap(&mut self, socket: &Socket) -> Result<(), TransportError> {
        match &mut self.completions {
            Some(completions) => completions.reap(socket, &mut self.calls),
            None => Ok(()),
        }
    }

    /// Whether the kernel does not read the present memory any more.
    fn is_free(&mut self, socket: &Socket) -> Result<bool, TransportError> {
        let busy = |own: &Self| own.completions.as_ref().is_some_and(|one| one.has(own.turn));
        if busy(self) {
            self.reap(socket)?;
        }
        Ok(!busy(self))
    }

    /// Whether all is written, and the kernel has said what became of it.
    pub(super) fn settled(&mut self, socket: &Socket) -> Result<bool, TransportError> {
        if !self.push(socket)? {
            return Ok(false);
        }
        self.reap(socket)?;
        Ok(!self.reads())
    }

    /// Sleeps until the kernel has completions, for so long at most.
    pub(super) fn wait(
        &mut self,
        socket: &Socket,
        nap: Option<Duration>,
    ) -> Result<(), TransportError> {
        match (&self.completions, nap) {
            (Some(completions), Some(nap)) if completions.is_waiting() => {
                self.calls.all += 1;
                completions.wait(socket, nap)
            }
            _ => Ok(()),
        }
    }

    /// What became of writes without a copy, as far as the kernel has said it by now; `None` where
    /// the kernel was to copy.
    pub(super) fn zerocopy(&mut self, socket: &Socket) -> Option<Zerocopy> {
        // What cannot be read is not counted; the next write says why.
        let _ = self.reap(socket);
        self.completions.as_ref().map(|completions| completions.outcome)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Read;
    use std::net::{TcpListener, TcpStream};

    fn connection() -> (Socket, TcpStream) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let here = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        (here.into(), listener.accept().unwrap().0)
    }

    /// Writes messages of `size` and gives the numbers that the peer finds at their beginnings.
    fn numbers(writer: &mut Writer, size: usize, count: u32) -> Vec<u32> {
        let (socket, mut peer) = connection();
        super::super::zerocopy::allow(&socket).unwrap();
        let reading = std::thread::spawn(move || {
            let mut bytes = vec![0; count as usize * size];
            peer.read_exact(&mut bytes).unwrap();
            let number = |one: &[u8]| u32::from_le_bytes(*one.first_chunk().unwrap());
            bytes.chunks(size).map(number).collect()
        });
        for number in 0..count {
            while !writer.write(&socket, number).unwrap() {
                writer.wait(&socket, Some(Duration::from_millis(5))).unwrap();
            }
        }
        while !writer.settled(&socket).unwrap() {
            writer.wait(&socket, Some(Duration::from_millis(5))).unwrap();
        }
        reading.join().unwrap()
    }

    #[test]
    fn a_write_has_as_many_short_messages_as_fit_and_a_part_of_a_long_one() {
        let options = TcpOptions { write: Some(4096), ..TcpOptions::default() };
        let sizes = [(8, 1200, 3), (1400, 5, 3), (4096, 3, 3), (10_000, 2, 6)];
        for (size, count, writes) in sizes {
            let mut writer = Writer::new(size, options, false);
            assert_eq!(numbers(&mut writer, size, count), (0..count).collect::<Vec<_>>());
            assert_eq!(writer.calls.send, writes, "{size}");
        }
        let mut writer = Writer::new(8, TcpOptions::default(), false);
        assert_eq!(numbers(&mut writer, 8, 3), [0, 1, 2]);
        assert_eq!(writer.calls.send, 3);
    }

    #[test]
    fn a_write_that_finds_no_room_is_a_call_that_sends_nothing() {
        let mut writer = Writer::new(4096, TcpOptions::default(), false);
        let (socket, _peer) = connection();
        socket.set_nonblocking(true).unwrap();
        for number in 0.. {
            if !writer.write(&socket, number).unwrap() {
                break;
            }
        }
        let before = writer.calls;
        assert!(!writer.push(&socket).unwrap());
        let expected = Calls { all: before.all + 1, ..before };
        assert_eq!(writer.calls, expected);
        assert!(before.send < before.all, "{before:?}");
    }

    #[test]
    fn no_memory_is_written_again_while_the_kernel_reads_it_and_every_write_is_accounted_for() {
        let options = TcpOptions { zerocopy: true, ..TcpOptions::default() };
        let size = 256 << 10;
        let mut writer = Writer::new(size, options, true);
        // Each of the four memories is used several times: a number would be overwritten.
        assert_eq!(numbers(&mut writer, size, 20), (0..20).collect::<Vec<_>>());
        let Zerocopy { writes, copied } = writer.zerocopy(&connection().0).unwrap();
        assert_eq!(writes, writer.calls.send);
        assert!(copied <= writes);
    }

    /// A slow machine makes fewer round trips than there are memories, and nothing else asks the
    /// kernel.
    #[test]
    fn a_few_writes_are_accounted_for_although_no_memory_was_used_again() {
        let options = TcpOptions { zerocopy: true, ..TcpOptions::default() };
        let mut writer = Writer::new(8, options, true);
        let (socket, mut peer) = connection();
        super::super::zerocopy::allow(&socket).unwrap();
        for number in 0..3 {
            assert!(writer.write(&socket, number).unwrap());
        }
        peer.read_exact(&mut [0; 24]).unwrap();
        while writer.zerocopy(&socket).unwrap().writes < 3 {
            writer.wait(&socket, Some(Duration::from_millis(5))).unwrap();
        }
    }
}
