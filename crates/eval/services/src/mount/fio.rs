//! fio: its arguments, and the rates in its JSON.

use super::value::MountValue;
use gigae_eval_model::mount_figure::FioPattern;
use serde_json::Value;

/// The file that it uses, in the mounted directory.
pub(super) const FILE: &str = "fio.0";

/// Its arguments: one process, 4 KiB at a time by pread(2) and pwrite(2), through the page cache.
pub(super) fn words(directory: &str, pattern: FioPattern, mib: u64) -> Vec<String> {
    let all = [
        "fio".to_owned(),
        "--name=files".to_owned(),
        format!("--filename={directory}/{FILE}"),
        format!("--rw={}", pattern.name()),
        format!("--size={mib}m"),
        "--bs=4k".to_owned(),
        "--ioengine=psync".to_owned(),
        "--output-format=json".to_owned(),
        "--eta=never".to_owned(),
    ];
    all.into()
}

/// The rates of its only job; `None` if they are not there. Least and most are those of the pieces
/// of half a second that it counts by itself.
pub(super) fn read(pattern: FioPattern, said: &str) -> Option<Vec<MountValue>> {
    // It writes notes before and behind.
    let (begin, end) = (said.find('{')?, said.rfind('}')?);
    let report: Value = serde_json::from_str(said.get(begin..=end)?).ok()?;
    let job = report["jobs"].get(0)?;
    if job["error"].as_i64()? != 0 {
        return None;
    }
    let names: &[(&str, &'static str)] = match pattern {
        FioPattern::Read => &[("read", "sequential read")],
        FioPattern::RandRead => &[("read", "random read")],
        FioPattern::RandRw => {
            &[("read", "random read/write: read"), ("write", "random read/write: write")]
        }
    };
    let one = |&(key, what): &(&str, &'static str)| {
        let side = &job[key];
        let kib = |name: &str| Some(side[name].as_f64()? * 1024.0 / 1e6);
        let value = side["bw_bytes"].as_f64()? / 1e6;
        // Shorter runs than a piece have none.
        let pieces = side["bw_samples"].as_u64().unwrap_or(0) > 1;
        let range = kib("bw_min").zip(kib("bw_max")).map(|(least, most)| [least, most]);
        let range = range.filter(|_| pieces);
        (value > 0.0).then_some(MountValue { what, unit: "MB/s", value, range, cpu: None })
    };
    names.iter().map(one).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const SAID: &str = include_str!("../../fixtures/fio-randrw.json");

    #[test]
    fn the_rates_of_both_directions_are_read() {
        let found = read(FioPattern::RandRw, SAID).unwrap();
        assert_eq!(found.len(), 2);
        assert!(found[0].what.ends_with("read") && found[1].what.ends_with("write"));
        for one in &found {
            let [least, most] = one.range.unwrap();
            assert!(least <= one.value * 1.05 && one.value <= most * 1.05, "{one:?}");
            assert_eq!(one.unit, "MB/s");
        }
        assert_eq!(read(FioPattern::RandRead, SAID).unwrap()[0].value, found[0].value);
    }

    #[test]
    fn what_makes_no_sense_has_no_figure() {
        for said in ["", "{}", "fio: failed", "{\"jobs\": []}"] {
            assert_eq!(read(FioPattern::Read, said), None, "{said}");
        }
        let failed = SAID.replace("\"error\" : 0", "\"error\" : 28");
        assert_ne!(failed, SAID);
        assert_eq!(read(FioPattern::Read, &failed), None);
    }

    #[test]
    fn its_file_and_size_are_those_of_the_test() {
        let words = words("/mnt/nfs", FioPattern::RandRead, 128).join(" ");
        assert!(words.contains("--filename=/mnt/nfs/fio.0 --rw=randread --size=128m"), "{words}");
    }
}
