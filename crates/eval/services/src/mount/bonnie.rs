//! bonnie++: its arguments, and the figures in its line of comma-separated values.

use super::value::MountValue;

/// KiB/s in MB/s.
const KIB: f64 = 1024.0 / 1e6;

/// Its figures behind the description of the large files, in its order, each followed by the share
/// of a processor; `None` where that order has something else.
const LARGE: [(&str, &str); 6] = [
    ("bytes written", "MB/s"),
    ("blocks written", "MB/s"),
    ("blocks rewritten", "MB/s"),
    ("bytes read", "MB/s"),
    ("blocks read", "MB/s"),
    ("seeks", "/s"),
];

/// The same behind the description of the small files.
const SMALL: [(&str, &str); 6] = [
    ("create, sequential", "/s"),
    ("stat, sequential", "/s"),
    ("delete, sequential", "/s"),
    ("create, random", "/s"),
    ("stat, random", "/s"),
    ("delete, random", "/s"),
];

/// Its arguments. `-r` is the memory of the guest: bonnie++ refuses large files of less than twice
/// that.
pub(super) fn words(
    directory: &str,
    [mib, memory]: [u64; 2],
    files: u32,
    bytes: bool,
) -> Vec<String> {
    let mut all: Vec<String> =
        ["bonnie++", "-q", "-u", "root", "-m", "guest", "-d", directory].map(Into::into).into();
    all.extend(["-s".to_owned(), mib.to_string(), "-r".to_owned(), memory.to_string()]);
    all.extend(["-n".to_owned(), files.to_string()]);
    if !bytes {
        all.push("-f".to_owned());
    }
    all
}

/// The figures of its line; `None` if there is no line. Those that it does not give are left out:
/// of what it did not do, and of what was over too soon.
pub(super) fn read(said: &str) -> Option<Vec<MountValue>> {
    let line = said.lines().rev().find(|line| line.matches(',').count() > 30)?;
    let fields: Vec<&str> = line.split(',').collect();
    // Version 1.98 of the line has two fields more than 1.97: of the seeks.
    let shift = match *fields.first()? {
        "1.98" => 2,
        "1.97" => 0,
        _ => return None,
    };
    let (large, small) = (7 + shift, 24 + shift);
    let of = |first: usize, names: [(&'static str, &'static str); 6]| {
        let value = |index: usize| fields.get(first + 2 * index)?.parse::<f64>().ok();
        let one = |(index, (what, unit)): (usize, (&'static str, &'static str))| {
            let value = value(index).filter(|value| value.is_finite() && *value > 0.0)?;
            let value = if unit == "MB/s" { value * KIB } else { value };
            let cpu = fields.get(first + 2 * index + 1).and_then(|cpu| cpu.parse::<f64>().ok());
            let cpu = cpu.filter(|cpu| cpu.is_finite() && *cpu >= 0.0);
            Some(MountValue { what, unit, value, range: None, cpu })
        };
        names.into_iter().enumerate().filter_map(one).collect::<Vec<_>>()
    };
    Some([of(large, LARGE), of(small, SMALL)].concat())
}

#[cfg(test)]
mod tests {
    use super::*;

    const SAID: &str = include_str!("../../fixtures/bonnie.csv");

    #[test]
    fn figures_of_large_and_small_files_are_read() {
        let found = read(SAID).unwrap();
        let all: Vec<(&str, f64)> = found.iter().map(|one| (one.what, one.value)).collect();
        // The rest was over too soon, or left out by -f.
        assert_eq!(
            all,
            [
                ("blocks written", 396_096.0 * KIB),
                ("blocks rewritten", 2_386_297.0 * KIB),
                ("create, sequential", 58_701.0),
                ("delete, sequential", 92_391.0),
                ("create, random", 1934.0),
                ("delete, random", 92_069.0),
            ]
        );
        assert_eq!((found[0].cpu, found[3].cpu), (Some(82.0), Some(79.0)));
        // The form before has two fields less.
        let fields: Vec<&str> = SAID.trim().split(',').collect();
        let older = [&["1.97"], &fields[1..7], &fields[9..]].concat().join(",");
        assert_eq!(read(&older).unwrap(), found);
    }

    #[test]
    fn what_makes_no_sense_has_no_figure() {
        let commas = ",".repeat(40);
        for said in ["", "1.98,2.00", "Can't open file ./Bonnie.1", &commas] {
            assert_eq!(read(said), None, "{said}");
        }
        assert_eq!(read(&format!("1.98{commas}")), Some(Vec::new()));
        assert_eq!(read(&format!("1.98{}", ",+++++".repeat(48))), Some(Vec::new()));
    }

    #[test]
    fn it_is_told_the_memory_of_its_guest() {
        let words = words("/mnt/nfs", [384, 192], 1, false).join(" ");
        assert!(words.contains("-d /mnt/nfs -s 384 -r 192 -n 1 -f"), "{words}");
    }
}
