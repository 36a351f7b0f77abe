//! `fio`: its arguments for a cell, and its output (JSON).

use crate::service::words;
use gigae_eval_model::access::AccessCell;
use gigae_eval_model::plan::connections;
use serde::Deserialize;
use std::collections::BTreeMap;

/// Bytes that are written and compared at a time where only that is wanted.
const CHECKED_BLOCK: u64 = 64 << 10;

/// At most so many bytes are written and compared.
const CHECKED: u64 = 16 << 20;

/// The percentiles that are asked for, and their names in the output.
const PERCENTILES: [&str; 3] = ["50.000000", "99.000000", "99.900000"];

/// What a run of fio measured.
#[derive(Clone, Debug, PartialEq)]
pub struct FioRun {
    /// The reads, if there were any.
    pub read: Option<FioSide>,
    /// The writes, if there were any.
    pub write: Option<FioSide>,
    /// 50 %, 99 % and 99.9 % of the waits for the disk were no longer, in microseconds.
    pub fsync: Option<[f64; 3]>,
    /// How many such waits there were.
    pub waits: u64,
    /// CPU time of the measuring threads, in seconds, without their start.
    pub cpu: f64,
}

/// Its reads or its writes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct FioSide {
    /// Bytes.
    pub bytes: u64,
    /// Bytes per second.
    pub rate: f64,
    /// Operations per second.
    pub operations: f64,
    /// 50 %, 99 % and 99.9 % of the operations were no slower, in microseconds.
    pub percentiles: [f64; 3],
}

/// What all runs have: the file by its network block device, and output for programs. fio leaves
/// no file behind.
fn usual(socket: &str) -> Vec<String> {
    let mut all = words(["--name=gigae", "--ioengine=nbd", "--thread", "--group_reporting"]);
    all.push(format!("--uri=nbd+unix:///?socket={socket}"));
    all.extend(words(["--output-format=json", "--eta=never", "--verify_state_save=0"]));
    all
}

/// The arguments for a cell. Each connection has its own part of the file.
pub(crate) fn arguments(cell: &AccessCell, socket: &str) -> Vec<String> {
    let mut all = usual(socket);
    let connections = connections(cell.depth);
    let part = cell.size / u64::from(connections) / cell.block * cell.block;
    all.extend([
        format!("--rw={}", cell.pattern.name()),
        format!("--bs={}", cell.block),
        format!("--iodepth={}", cell.depth / connections),
        format!("--numjobs={connections}"),
        format!("--size={part}"),
        format!("--offset_increment={part}"),
    ]);
    all.extend(words(["--lat_percentiles=1", "--clat_percentiles=0"]));
    all.extend(words(["--percentile_list=50:99:99.9"]));
    if let Some(seconds) = cell.seconds {
        all.extend(words(["--time_based", &format!("--runtime={:.0}ms", seconds * 1e3)]));
    }
    if cell.fsync > 0 {
        all.push(format!("--fsync={}", cell.fsync));
    }
    all
}

/// Whether the last line of a run says that bytes that were read back differ (EILSEQ).
pub(crate) fn says_difference(last: &str) -> bool {
    last.starts_with("verify:") || last.contains("err=84")
}

/// Writes the first part of a file of this size, reads it back and compares: bytes and arguments.
pub(crate) fn check(size: u64, socket: &str) -> (u64, Vec<String>) {
    let mut all = usual(socket);
    all.extend(words(["--rw=randwrite", "--iodepth=4", "--verify=sha256", "--verify_fatal=1"]));
    let block = CHECKED_BLOCK.min(size);
    let bytes = size.min(CHECKED) / block * block;
    all.extend([format!("--bs={block}"), format!("--size={bytes}")]);
    (bytes, all)
}

/// What it printed; `None` if that makes no sense. Lines before the JSON object are for people. A
/// run that only compares has no percentiles.
pub(crate) fn read(said: &str, measures: bool) -> Option<FioRun> {
    let begin = if said.starts_with('{') { 0 } else { said.find("\n{")? };
    let mut values = serde_json::Deserializer::from_str(&said[begin..]).into_iter::<Output>();
    let [job] = &values.next()?.ok()?.jobs[..] else { return None };
    let cpu = (job.usr_cpu + job.sys_cpu) / 100.0 * job.job_runtime as f64 / 1e3;
    let run = FioRun {
        read: job.read.side(measures)?,
        write: job.write.side(measures)?,
        fsync: job.sync.as_ref().and_then(|sync| sync.lat_ns.micros()),
        waits: job.sync.as_ref().map_or(0, |sync| sync.total_ios),
        cpu,
    };
    (job.error == 0 && cpu.is_finite() && cpu >= 0.0).then_some(run)
}

#[derive(Deserialize)]
struct Output {
    jobs: Vec<Job>,
}

#[derive(Deserialize)]
struct Job {
    error: i64,
    read: Direction,
    write: Direction,
    sync: Option<Waits>,
    usr_cpu: f64,
    sys_cpu: f64,
    /// Of all threads together, in milliseconds.
    job_runtime: u64,
}

#[derive(Deserialize)]
struct Direction {
    io_bytes: u64,
    bw_bytes: f64,
    iops: f64,
    total_ios: u64,
    lat_ns: Distribution,
}

#[derive(Deserialize)]
struct Waits {
    total_ios: u64,
    lat_ns: Distribution,
}

#[derive(Deserialize)]
struct Distribution {
    #[serde(default)]
    percentile: BTreeMap<String, f64>,
}

impl Distribution {
    fn micros(&self) -> Option<[f64; 3]> {
        let mut micros = [0.0; 3];
        for (value, name) in micros.iter_mut().zip(PERCENTILES) {
            *value = self.percentile.get(name)? / 1e3;
        }
        Some(micros)
    }
}

impl Direction {
    /// `Some(None)`: there were none; `None`: the figures make no sense.
    fn side(&self, measures: bool) -> Option<Option<FioSide>> {
        if self.total_ios == 0 {
            return Some(None);
        }
        let good = |value: f64| value.is_finite() && value > 0.0;
        let percentiles = self.lat_ns.micros().or((!measures).then_some([0.0; 3]))?;
        let (bytes, rate, operations) = (self.io_bytes, self.bw_bytes, self.iops);
        let sense = bytes > 0 && good(rate) && good(operations);
        sense.then_some(Some(FioSide { bytes, rate, operations, percentiles }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use gigae_eval_model::access::{Export, Pattern, Way};

    fn cell(pattern: Pattern, depth: u32) -> AccessCell {
        AccessCell {
            service: "nfs".into(),
            way: Way::Network,
            pattern,
            size: 3 << 20,
            block: 4096,
            depth,
            export: Export::Async,
            fsync: 0,
            seconds: None,
        }
    }

    #[test]
    fn a_deep_queue_is_shared_by_connections_with_their_own_parts_of_the_file() {
        let said = arguments(&cell(Pattern::Randread, 48), "/place/nbd").join(" ");
        for words in [
            "--uri=nbd+unix:///?socket=/place/nbd",
            "--rw=randread --bs=4096 --iodepth=16 --numjobs=3 --size=1048576 --offset_increment=1048576",
        ] {
            assert!(said.contains(words), "{said}");
        }
        assert!(!said.contains("--time_based") && !said.contains("--fsync"), "{said}");
        let mut timed = cell(Pattern::Write, 1);
        (timed.seconds, timed.fsync) = (Some(0.5), 8);
        let said = arguments(&timed, "/place/nbd").join(" ");
        assert!(said.contains("--numjobs=1 --size=3145728"), "{said}");
        assert!(said.ends_with("--time_based --runtime=500ms --fsync=8"), "{said}");
    }

    /// Of fio 3.33: two connections, 16 at a time each, reads and writes with waits for the disk.
    const MEASURED: &str = include_str!("../fixtures/fio.json");

    #[test]
    fn what_fio_printed_of_a_measured_run_is_read() {
        assert!(MEASURED.starts_with("fio: connected"), "lines for people come first");
        let run = read(MEASURED, true).unwrap();
        let (reads, writes) = (run.read.unwrap(), run.write.unwrap());
        assert_eq!((reads.bytes, reads.rate, reads.operations), (495_616, 49_561_600.0, 12_100.0));
        assert_eq!(reads.percentiles, [350.208, 1449.984, 1515.52]);
        assert_eq!((writes.bytes, writes.percentiles[0]), (552_960, 399.36));
        assert_eq!(run.fsync, Some([1073.152, 2211.84, 2244.608]));
        assert!((run.cpu - 0.002).abs() < 1e-6, "{run:?}");
    }

    #[test]
    fn a_run_that_only_compares_has_no_percentiles() {
        let text = include_str!("../fixtures/fio-verify.json");
        let run = read(text, false).unwrap();
        assert_eq!([run.read, run.write].map(|side| side.unwrap().bytes), [1 << 20; 2]);
        assert_eq!((run.fsync, read(text, true)), (None, None));
    }

    #[test]
    fn what_fio_should_not_print_is_refused() {
        let with = |good: &str, bad: &str| {
            assert!(MEASURED.contains(good), "{good}");
            MEASURED.replacen(good, bad, 1)
        };
        let cases = [
            String::new(),
            "fio: failed\n".to_owned(),
            "{}".to_owned(),
            MEASURED[..MEASURED.len() / 2].to_owned(),
            with("\"jobs\" : [", "\"jobs\" : [], \"x\" : ["),
            with("\"error\" : 0", "\"error\" : 5"),
            with("\"bw_bytes\" : 49561600", "\"bw_bytes\" : 0"),
            with("\"99.900000\"", "\"99.800000\""),
        ];
        for text in cases {
            assert_eq!(read(&text, true), None, "{text}");
        }
        let none = with("\"total_ios\" : 121", "\"total_ios\" : 0");
        assert_eq!(read(&none, true).unwrap().read, None);
    }

    #[test]
    fn what_is_compared_is_a_whole_number_of_blocks() {
        let size = |bytes| check(bytes, "/s").1.last().unwrap().clone();
        assert_eq!(size(1 << 30), format!("--size={}", 16 << 20));
        assert_eq!(size((1 << 20) + 512), format!("--size={}", 1 << 20));
        assert_eq!(size(512), "--size=512");
    }
}
