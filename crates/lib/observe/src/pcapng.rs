//! Writes frames as a pcapng file (draft-ietf-opsawg-pcapng) for Wireshark and tcpdump, with
//! nanosecond timestamps.

use crate::Direction;
use pcap_file::DataLink;
use pcap_file::pcapng::PcapNgWriter;
use pcap_file::pcapng::blocks::enhanced_packet::{EnhancedPacketBlock, EnhancedPacketOption};
use pcap_file::pcapng::blocks::interface_description::{
    InterfaceDescriptionBlock, InterfaceDescriptionOption,
};
use std::borrow::Cow;
use std::fmt;
use std::io::{self, Write};
use std::time::Duration;

/// `if_tsresol` of nanoseconds: ten to the minus nine.
const NANOSECONDS: u8 = 9;

/// `epb_flags`: received, and sent.
const INBOUND: u32 = 1;
const OUTBOUND: u32 = 2;

/// The description of an interface in a file.
#[derive(Clone, Copy, Debug, Default)]
pub struct InterfaceDescription<'a> {
    /// Its name.
    pub name: Option<&'a str>,
    /// Whose it is.
    pub description: Option<&'a str>,
    /// Its address.
    pub mac: Option<[u8; 6]>,
    /// Longest part of a frame in bytes; 0: no limit.
    pub snaplen: u32,
}

/// A frame to be written.
#[derive(Clone, Copy, Debug)]
pub struct CapturedFrame<'a> {
    /// The interface's number, in the order in which interfaces were added.
    pub interface: u32,
    /// Nanoseconds since 1970, or of virtual time.
    pub at: u64,
    /// The frame's direction, seen from the interface.
    pub direction: Option<Direction>,
    /// Frames that were missed before this one on its interface.
    pub dropped: u64,
    /// Bytes in the whole frame.
    pub original_len: usize,
    /// The captured bytes.
    pub bytes: &'a [u8],
}

/// Writes a file block by block. The file is valid after each.
pub struct CaptureWriter<W: Write> {
    writer: PcapNgWriter<W>,
    interfaces: u32,
}

impl<W: Write> CaptureWriter<W> {
    /// Begins a file.
    pub fn new(out: W) -> io::Result<Self> {
        let writer = PcapNgWriter::new(out).map_err(io_error)?;
        Ok(Self { writer, interfaces: 0 })
    }

    /// Adds an interface and returns its number.
    pub fn interface(&mut self, interface: InterfaceDescription) -> io::Result<u32> {
        use InterfaceDescriptionOption as Option;
        let text = |text: &str| Cow::Owned::<str>(text.to_owned());
        let mut options = vec![Option::IfTsResol(NANOSECONDS)];
        options.extend(interface.name.map(|name| Option::IfName(text(name))));
        options.extend(interface.description.map(|about| Option::IfDescription(text(about))));
        options.extend(interface.mac.map(|mac| Option::IfMacAddr(Cow::Owned(mac.to_vec()))));
        let linktype = DataLink::ETHERNET;
        let block = InterfaceDescriptionBlock { linktype, snaplen: interface.snaplen, options };
        self.writer.write_pcapng_block(block).map_err(io_error)?;
        self.interfaces += 1;
        Ok(self.interfaces - 1)
    }

    /// Writes a frame.
    pub fn frame(&mut self, frame: &CapturedFrame) -> io::Result<()> {
        let mut options = Vec::new();
        options.extend(frame.direction.map(|direction| {
            EnhancedPacketOption::Flags(match direction {
                Direction::In => INBOUND,
                Direction::Out => OUTBOUND,
            })
        }));
        if frame.dropped > 0 {
            let plural = if frame.dropped == 1 { "" } else { "s" };
            let comment = format!("{} frame{plural} missed before this one", frame.dropped);
            options.push(EnhancedPacketOption::DropCount(frame.dropped));
            options.push(EnhancedPacketOption::Comment(comment.into()));
        }
        let block = EnhancedPacketBlock {
            interface_id: frame.interface,
            timestamp: Duration::from_nanos(frame.at),
            original_len: u32::try_from(frame.original_len).unwrap_or(u32::MAX),
            data: Cow::Borrowed(frame.bytes),
            options,
        };
        self.writer.write_pcapng_block(block).map_err(io_error)?;
        Ok(())
    }

    /// Hands all that was written on.
    pub fn flush(&mut self) -> io::Result<()> {
        self.writer.get_mut().flush()
    }
}

/// The original I/O error. Callers must be able to recognize a closed pipe.
fn io_error(error: pcap_file::PcapError) -> io::Error {
    match error {
        pcap_file::PcapError::IoError(error) => error,
        other => io::Error::other(other),
    }
}

impl<W: Write> fmt::Debug for CaptureWriter<W> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CaptureWriter")
            .field("interfaces", &self.interfaces)
            .finish_non_exhaustive()
    }
}
