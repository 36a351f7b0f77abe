//! Operations on the names of a server's files, one after the other, without a mount: libnfs sends
//! each to the server and waits for the answer. It keeps no answers, so every operation goes over
//! the link.
//!
//! After all files are made, renamed and removed, a second client lists the directory and must see
//! exactly that. This is not in the measured time.

use crate::error::ServiceError;
use crate::libnfs::{NfsClient, path};
use crate::server::FileServer;
use crate::store::FileStore;
use gigae_eval_model::metadata::{MetadataCell, Operation};
use gigae_eval_session::programs::ProgramError;
use gigae_fabric::Node;
use gigae_host::affinity;
use std::ffi::CString;
use std::fs;
use std::io;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Instant;

/// The directories of the files, in that which clients send to, begin like this. Each repetition
/// has its own: the server remembers for a while what was removed behind its back.
const DIRECTORY: &str = "in/names";

/// The number of the next repetition's directory.
static NEXT: AtomicU64 = AtomicU64::new(0);

/// How often the directory is listed in a repetition.
const LISTINGS: u32 = 10;

/// The times of one operation's calls, in microseconds, in their order.
#[derive(Clone, Debug, PartialEq)]
pub struct OperationTimes {
    /// Which operation.
    pub operation: Operation,
    /// From each call to its end.
    pub micros: Vec<f64>,
}

impl OperationTimes {
    /// Operations per second.
    pub fn rate(&self) -> f64 {
        self.micros.len() as f64 / (self.micros.iter().sum::<f64>() / 1e6)
    }

    /// The time that this share of the calls did not exceed.
    pub fn percentile(&self, share: f64) -> f64 {
        let mut sorted = self.micros.clone();
        sorted.sort_by(f64::total_cmp);
        let last = sorted.len().saturating_sub(1);
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a share")]
        let place = ((sorted.len() as f64 * share).ceil() as usize).saturating_sub(1).min(last);
        sorted.get(place).copied().unwrap_or(f64::NAN)
    }
}

/// What a repetition brought.
#[derive(Clone, Debug, PartialEq)]
pub struct NamesMeasured {
    /// The times of all operations.
    pub times: Vec<OperationTimes>,
    /// Names that a second client saw come, change and go.
    pub verified: u64,
}

/// Carries out a cell once, from the client's node and on its CPU. `store` has the server's files.
pub fn measure(
    (server, store): (&FileServer<'_>, &FileStore),
    (client, cpu): (&Node, Option<usize>),
    cell: &MetadataCell,
    interrupted: &AtomicBool,
) -> Result<NamesMeasured, ServiceError> {
    let _inside = client.enter().map_err(|error| ServiceError::Unavailable(error.to_string()))?;
    let work = || {
        let export = server.at.service.export().ok_or(io::ErrorKind::Unsupported)?;
        let mount = || NfsClient::mount(&server.at.ip.to_string(), export);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let directory = format!("{DIRECTORY}{number}");
        let names = Names::new(&directory, cell.files)?;
        let measured = names.measure(&mount()?, &mount()?, interrupted);
        if measured.is_err() {
            // What is left is on this machine, and asking the server might take long or hang.
            let _ = fs::remove_dir_all(store.export().join(directory));
        }
        measured
    };
    match affinity::pinned(cpu, work) {
        Ok(measured) => Ok(measured),
        Err(error) if error.kind() == io::ErrorKind::Interrupted => {
            Err(ProgramError::Interrupted.into())
        }
        Err(error) => Err(ServiceError::Unavailable(error.to_string())),
    }
}

/// The paths, made before anything is measured.
struct Names {
    directory: CString,
    first: Vec<CString>,
    second: Vec<CString>,
}

impl Names {
    fn new(directory: &str, files: u32) -> io::Result<Self> {
        let all = |word: &str| -> io::Result<Vec<CString>> {
            (0..files).map(|number| path(&format!("/{directory}/{word}{number}"))).collect()
        };
        let directory = path(&format!("/{directory}"))?;
        Ok(Self { directory, first: all("file")?, second: all("name")? })
    }

    fn measure(
        &self,
        client: &NfsClient,
        second: &NfsClient,
        interrupted: &AtomicBool,
    ) -> io::Result<NamesMeasured> {
        client.mkdir(&self.directory)?;
        let mut measured = NamesMeasured { times: Vec::new(), verified: 0 };
        for operation in Operation::ALL {
            measured.times.push(self.times(client, operation, interrupted)?);
            measured.verified += self.verify(second, operation)?;
        }
        client.rmdir(&self.directory)?;
        Ok(measured)
    }

    /// Compares what another client sees after all files had this operation; how many names that
    /// are.
    fn verify(&self, second: &NfsClient, operation: Operation) -> io::Result<u64> {
        let expected: &[CString] = match operation {
            Operation::Create => &self.first,
            Operation::Rename => &self.second,
            Operation::Delete => &[],
            Operation::Stat | Operation::List => return Ok(0),
        };
        let end = |path: &CString| -> Vec<u8> {
            path.as_bytes().rsplit(|byte| *byte == b'/').next().unwrap_or_default().to_vec()
        };
        let mut expected: Vec<Vec<u8>> = expected.iter().map(end).collect();
        let seen = second.list(&self.directory)?;
        let mut seen: Vec<Vec<u8>> = seen.into_iter().map(CString::into_bytes).collect();
        expected.sort();
        seen.sort();
        if seen != expected {
            let (seen, expected, word) = (seen.len(), expected.len(), operation.name());
            let why = format!("after {word}, a second client sees {seen} names, not {expected}");
            return Err(io::Error::other(why));
        }
        Ok(self.first.len() as u64)
    }

    fn times(
        &self,
        client: &NfsClient,
        operation: Operation,
        interrupted: &AtomicBool,
    ) -> io::Result<OperationTimes> {
        let calls = match operation {
            Operation::List => LISTINGS as usize,
            _ => self.first.len(),
        };
        let mut micros = Vec::with_capacity(calls);
        for number in 0..calls {
            if interrupted.load(Ordering::Relaxed) {
                return Err(io::ErrorKind::Interrupted.into());
            }
            let begin = Instant::now();
            self.call(client, operation, number)?;
            micros.push(begin.elapsed().as_secs_f64() * 1e6);
        }
        Ok(OperationTimes { operation, micros })
    }

    fn call(&self, client: &NfsClient, operation: Operation, number: usize) -> io::Result<()> {
        match operation {
            Operation::Create => client.create(&self.first[number]),
            Operation::Stat => client.stat(&self.first[number]),
            Operation::List => {
                let (found, made) = (client.list(&self.directory)?.len(), self.first.len());
                if found != made {
                    let why = format!("a listing has {found} names of {made} files");
                    return Err(io::Error::other(why));
                }
                Ok(())
            }
            Operation::Rename => client.rename(&self.first[number], &self.second[number]),
            Operation::Delete => client.delete(&self.second[number]),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_and_percentiles_are_those_of_the_calls() {
        let micros = (1..=200).map(f64::from).rev().collect();
        let times = OperationTimes { operation: Operation::Create, micros };
        assert_eq!((times.percentile(0.5), times.percentile(0.99)), (100.0, 198.0));
        assert!((times.rate() - 200.0 / 0.0201).abs() < 1e-6);
        let one = OperationTimes { operation: Operation::List, micros: vec![7.0] };
        assert_eq!((one.percentile(0.5), one.percentile(0.99)), (7.0, 7.0));
    }
}
