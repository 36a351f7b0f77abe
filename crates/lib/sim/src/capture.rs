//! Writes the frames of the simulated wire to a pcapng file.

use gigae_observe::pcapng::{CaptureWriter, CapturedFrame, InterfaceDescription};
use std::io::{self, Write};

/// Writes the frames of one wire with their virtual time.
#[derive(Debug)]
pub(crate) struct CaptureFile {
    writer: CaptureWriter<Box<dyn Write + Send>>,
}

impl CaptureFile {
    pub(crate) fn new(out: Box<dyn Write + Send>) -> io::Result<Self> {
        let mut writer = CaptureWriter::new(out)?;
        writer.interface(InterfaceDescription {
            name: Some("simulated"),
            ..InterfaceDescription::default()
        })?;
        Ok(Self { writer })
    }

    pub(crate) fn frame(&mut self, at: u64, frame: &[u8]) -> io::Result<()> {
        let (original_len, bytes) = (frame.len(), frame);
        let (interface, direction, dropped) = (0, None, 0);
        self.writer.frame(&CapturedFrame { interface, at, direction, dropped, original_len, bytes })
    }
}
