//! Frames as a capture file, for Wireshark.

use crate::frame::SHORTEST;
use crate::{Frame, PortId, Time};
use gigae_observe::pcapng::{CaptureWriter, CapturedFrame, InterfaceDescription};
use std::io::{self, Write};

/// The EtherType for experiments of one's own (IEEE 802, 88B5).
const ETHERTYPE: [u8; 2] = [0x88, 0xB5];
/// Bytes of the checksum, which captures do not have.
const CHECKSUM: u32 = 4;

/// Writes the frames that some ports send, as pcapng. Each port is an interface of the file.
///
/// A model's frame ([`Trace::new`]) has an Ethernet header, with the addresses 02:00 and the host's
/// number, and what the protocol writes for its payload. The rest of its bytes counts in its length
/// and is not in the file. Of a protocol with whole frames ([`Trace::of_whole_frames`]), all bytes
/// are in the file.
pub struct Trace<P> {
    writer: CaptureWriter<Box<dyn Write + Send>>,
    /// Sorted, with the interfaces' numbers.
    ports: Vec<(PortId, u32)>,
    write: fn(&P, &mut Vec<u8>),
    /// `write` writes whole frames, from the destination address on.
    is_whole: bool,
    bytes: Vec<u8>,
    error: Option<io::Error>,
}

impl<P> Trace<P> {
    /// Begins a file for some ports. `write` appends the bytes of a payload.
    pub fn new(
        out: Box<dyn Write + Send>,
        ports: &[PortId],
        write: fn(&P, &mut Vec<u8>),
    ) -> io::Result<Self> {
        let mut writer = CaptureWriter::new(out)?;
        let mut numbered = Vec::new();
        for &port in ports {
            let name = format!("port {port}");
            let about = InterfaceDescription { name: Some(&name), ..Default::default() };
            numbered.push((port, writer.interface(about)?));
        }
        numbered.sort_unstable();
        let (is_whole, bytes, error) = (false, Vec::new(), None);
        Ok(Self { writer, ports: numbered, write, is_whole, bytes, error })
    }

    /// Begins a file for some ports of hosts whose payload is a whole frame. `write` appends the
    /// frame, from its destination address on, without checksum. It is padded to the shortest
    /// length.
    pub fn of_whole_frames(
        out: Box<dyn Write + Send>,
        ports: &[PortId],
        write: fn(&P, &mut Vec<u8>),
    ) -> io::Result<Self> {
        Ok(Self { is_whole: true, ..Self::new(out, ports, write)? })
    }

    /// Writes a frame when its transmission begins.
    pub(crate) fn frame(&mut self, at: Time, port: PortId, frame: &Frame<P>) {
        let Ok(found) = self.ports.binary_search_by_key(&port, |&(port, _)| port) else { return };
        self.bytes.clear();
        if !self.is_whole {
            for host in [frame.destination, frame.source] {
                self.bytes.extend([2, 0]);
                self.bytes.extend(host.to_be_bytes());
            }
            self.bytes.extend(ETHERTYPE);
        }
        (self.write)(&frame.payload, &mut self.bytes);
        let original_len = (frame.length.max(SHORTEST) - CHECKSUM) as usize;
        if self.is_whole {
            self.bytes.resize(original_len, 0);
        } else {
            self.bytes.truncate(original_len);
        }
        let captured = CapturedFrame {
            interface: self.ports[found].1,
            at: at.nanos(),
            direction: None,
            dropped: 0,
            original_len,
            bytes: &self.bytes,
        };
        if let Err(error) = self.writer.frame(&captured) {
            self.error.get_or_insert(error);
        }
    }

    /// Ends the file. Fails if any frame could not be written.
    pub fn finish(mut self) -> io::Result<()> {
        match self.error {
            Some(error) => Err(error),
            None => self.writer.flush(),
        }
    }
}
