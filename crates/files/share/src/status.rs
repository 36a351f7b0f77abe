//! How far a push is, as a message.

use crate::bytes::{Malformed, Reader, Write};
use crate::error::Fault;
use crate::message::{MOST_PROBLEMS, fault, path};

/// How far a push is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Status {
    /// It has ended.
    pub over: bool,
    /// Files that are there.
    pub files: u64,
    /// Files that were there before.
    pub skipped: u64,
    /// Bytes that have arrived or were there before.
    pub bytes: u64,
    /// Of these, those that were there before.
    pub resumed: u64,
    /// Bytes of all files that were found up to now.
    pub total: u64,
    /// The paths that failed first, with the reason. `failed` counts all.
    pub problems: Vec<(Vec<u8>, Fault)>,
    /// How much has failed.
    pub failed: u64,
    /// What has ended it before everything was there.
    pub fatal: Option<Fault>,
    /// Temporary files that are left, as paths in the share.
    pub left: Vec<Vec<u8>>,
}

impl Status {
    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        out.push(u8::from(self.over));
        let Self { files, skipped, bytes, resumed, total, failed, .. } = self;
        for number in [files, skipped, bytes, resumed, total, failed] {
            out.put(&number.to_le_bytes());
        }
        out.push(self.fatal.map_or(0, |fault| fault as u8));
        let problems = &self.problems[..self.problems.len().min(MOST_PROBLEMS)];
        out.push(problems.len() as u8);
        for (path, fault) in problems {
            out.put_string(path);
            out.push(*fault as u8);
        }
        self.left.iter().take(MOST_PROBLEMS).for_each(|path| out.put_string(path));
    }

    pub(crate) fn decode(from: &mut Reader<'_>) -> Result<Self, Malformed> {
        let over = from.u8()? != 0;
        let mut numbers = [0; 6];
        for number in &mut numbers {
            *number = from.u64()?;
        }
        let [files, skipped, bytes, resumed, total, failed] = numbers;
        let fatal = match from.u8()? {
            0 => None,
            byte => Some(Fault::from_byte(byte).ok_or(Malformed)?),
        };
        let mut problems = Vec::new();
        for _ in 0..from.u8()? {
            problems.push((path(from)?, fault(from)?));
        }
        let mut left = Vec::new();
        while !from.0.is_empty() {
            left.push(path(from)?);
        }
        Ok(Self { over, files, skipped, bytes, resumed, total, problems, failed, fatal, left })
    }
}
