//! What went over the simulated wire, as a pcapng file (draft-ietf-opsawg-pcapng) that Wireshark
//! and tcpdump read.

use pcap_file::DataLink;
use pcap_file::pcapng::PcapNgWriter;
use pcap_file::pcapng::blocks::enhanced_packet::EnhancedPacketBlock;
use pcap_file::pcapng::blocks::interface_description::{
    InterfaceDescriptionBlock, InterfaceDescriptionOption,
};
use std::borrow::Cow;
use std::io::{self, Write};
use std::time::Duration;

/// Writes one interface's frames with nanosecond stamps.
pub(crate) struct Capture {
    writer: PcapNgWriter<Box<dyn Write + Send>>,
}

/// `if_tsresol` of nanoseconds: ten to the minus nine.
const NANOSECONDS: u8 = 9;

impl Capture {
    pub(crate) fn new(out: Box<dyn Write + Send>) -> io::Result<Self> {
        let mut writer = PcapNgWriter::new(out).map_err(io::Error::other)?;
        let interface = InterfaceDescriptionBlock {
            linktype: DataLink::ETHERNET,
            snaplen: 0,
            options: vec![InterfaceDescriptionOption::IfTsResol(NANOSECONDS)],
        };
        writer.write_pcapng_block(interface).map_err(io::Error::other)?;
        Ok(Self { writer })
    }

    pub(crate) fn frame(&mut self, at: u64, frame: &[u8]) -> io::Result<()> {
        let block = EnhancedPacketBlock {
            interface_id: 0,
            timestamp: Duration::from_nanos(at),
            original_len: u32::try_from(frame.len()).expect("frames are short"),
            data: Cow::Borrowed(frame),
            options: vec![],
        };
        self.writer.write_pcapng_block(block).map_err(io::Error::other)?;
        Ok(())
    }
}

impl std::fmt::Debug for Capture {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Capture")
    }
}
