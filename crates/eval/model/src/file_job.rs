//! A file server of another machine's, as both ends must know it.

use crate::plan::check_size;
use crate::service;
use serde::{Deserialize, Serialize};

/// Most different files and trees of a server.
const MOST_FILES: usize = 100;

/// Most bytes that a server keeps for a client, in files that it makes and in files that are sent.
const MOST_BYTES: u64 = 64 << 30;

/// A small file takes a block of the disk.
pub const BLOCK: u64 = 4096;

/// What a server is to have.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FileJob {
    /// The name of the service.
    pub service: String,
    /// The files that it makes: bytes, and how many such files. More than one are a tree.
    pub files: Vec<(u64, u32)>,
    /// Bytes of all that clients send. Absent: they send nothing, and may not.
    pub sent: Option<u64>,
}

impl FileJob {
    /// An error, in one line, if no server may have that.
    pub fn check(&self) -> Result<(), String> {
        if service::by_name(&self.service).is_none() {
            return Err(format!("unknown service '{}'", self.service));
        }
        if self.files.len() > MOST_FILES {
            return Err(format!("a server has at most {MOST_FILES} files and trees"));
        }
        self.files.iter().try_for_each(|&(size, files)| check_size(size, files))?;
        if self.bytes() > MOST_BYTES {
            let most = MOST_BYTES / 1_000_000;
            return Err(format!(
                "a server keeps at most {most} MB; take a plan with smaller files"
            ));
        }
        Ok(())
    }

    /// Bytes on the disk of all its files and of what is sent.
    pub fn bytes(&self) -> u64 {
        let made = self.files.iter().map(|&(size, files)| room(size, files));
        made.chain(self.sent).fold(0, u64::saturating_add)
    }
}

/// Bytes of a file or a tree on the disk.
pub fn room(size: u64, files: u32) -> u64 {
    match files {
        1 => size,
        files => size.next_multiple_of(BLOCK) * u64::from(files),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_job_is_bounded_in_files_and_bytes() {
        let job = |files: &[(u64, u32)], sent| FileJob {
            service: "ftp".into(),
            files: files.to_vec(),
            sent,
        };
        assert_eq!(job(&[(1000, 1), (1, 200)], Some(5)).bytes(), 1000 + 200 * BLOCK + 5);
        assert_eq!(job(&[(1000, 1), (1, 200)], Some(5)).check(), Ok(()));
        for (job, why) in [
            (FileJob { service: "telnet".into(), ..job(&[], None) }, "unknown service"),
            (job(&[(0, 1)], None), "sizes"),
            (job(&[(u64::MAX, 10_000)], None), "sizes"),
            (job(&[(1, 0)], None), "files"),
            (job(&[(1, 20_000)], None), "files"),
            (job(&[(4 << 30, 100)], None), "together"),
            (job(&[(1, 1); 101], None), "at most 100"),
            (job(&[(4 << 30, 1); 17], None), "at most 68719 MB"),
            (job(&[(1, 1)], Some(u64::MAX)), "at most 68719 MB"),
        ] {
            let error = job.check().unwrap_err();
            assert!(error.contains(why) && !error.contains('\n'), "{error}");
        }
    }
}
