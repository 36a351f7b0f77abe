//! Files of a process.

use super::{read, value};
use std::fs;
use std::time::Duration;

/// Parts of `/proc/PID/stat` (proc_pid_stat(5)).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stat {
    /// `R` for running, `Z` for a zombie, and so on.
    pub state: char,
    /// The process that started it.
    pub parent: u32,
    /// CPU time of all its threads so far, in its own code and in the kernel for it.
    pub cpu_time: Duration,
    /// The same of the processes that it has started and waited for, and of theirs.
    pub children_time: Duration,
    /// When it was started, in clock ticks after boot: no other process of this number has the
    /// same.
    pub started: u64,
}

impl Stat {
    /// Of a process; `None` if no process has this id.
    pub fn of(pid: u32) -> Option<Self> {
        Self::parse(&read(&format!("/proc/{pid}/stat")))
    }

    /// The second field, the program's name in brackets, may itself hold blanks and brackets.
    fn parse(stat: &str) -> Option<Self> {
        let field: Vec<&str> = stat.rsplit_once(')')?.1.split_whitespace().collect();
        // The manual page counts from one and begins two fields earlier.
        let number = |place: usize| field.get(place - 3)?.parse::<u64>().ok();
        let time = |first: usize| {
            let ticks = number(first)? + number(first + 1)?;
            let each = rustix::param::clock_ticks_per_second().max(1);
            Some(Duration::from_millis(ticks * 1000 / each))
        };
        Some(Self {
            state: field.first()?.chars().next()?,
            parent: u32::try_from(number(4)?).ok()?,
            cpu_time: time(14)?,
            children_time: time(16)?,
            started: number(22)?,
        })
    }
}

/// Whether there is a process of this number, be it a zombie. True if that is not known: the
/// caller may take away what the process left behind.
pub fn exists(pid: u32) -> bool {
    fs::exists(format!("/proc/{pid}")).unwrap_or(true)
}

/// Whether a process runs, and is not a zombie that only waits to be noticed.
pub fn is_alive(pid: u32) -> bool {
    Stat::of(pid).is_some_and(|stat| stat.state != 'Z')
}

/// Whether this process has no other thread than the calling one; false if that is not known.
pub fn is_single_threaded() -> bool {
    value(&read("/proc/self/status"), "Threads") == Some("1")
}

/// What a process calls itself; nothing if no process has this id.
pub fn command(pid: u32) -> String {
    read(&format!("/proc/{pid}/comm")).trim_end().to_owned()
}

/// The effective capabilities in the text of `/proc/PID/status`, a bit for each.
pub fn capabilities(status: &str) -> Option<u64> {
    u64::from_str_radix(value(status, "CapEff")?, 16).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Instant;

    #[test]
    fn a_name_may_hold_anything_and_the_fields_behind_it_are_found() {
        let rest = "S 7 1 1 0 -1 0 0 0 0 0 30 12 5 3 20 0 1 0 4711 0";
        let found = Stat::parse(&format!("9 (a) b ) c) {rest}")).unwrap();
        assert_eq!((found.state, found.parent, found.started), ('S', 7, 4711));
        let ticks = rustix::param::clock_ticks_per_second();
        assert_eq!(found.cpu_time, Duration::from_millis(42 * 1000 / ticks));
        assert_eq!(found.children_time, Duration::from_millis(8 * 1000 / ticks));
        for text in ["", "9 (a)", "9 (a) S", "9 (a) S 7 1"] {
            assert_eq!(Stat::parse(text), None, "{text}");
        }
    }

    #[test]
    fn cpu_time_is_that_of_the_process() {
        let cpu_time = || Stat::of(std::process::id()).unwrap().cpu_time;
        let (before, end) = (cpu_time(), Instant::now() + Duration::from_secs(20));
        // However little of a processor there is for it: it shows in the end.
        while cpu_time() < before + Duration::from_millis(20) {
            assert!(Instant::now() < end);
        }
    }

    #[test]
    fn capabilities_are_read_as_the_kernel_writes_them() {
        let status = "Name:\tx\nCapEff:\t0000000000003000\nCapBnd:\t1\n";
        assert_eq!((capabilities(status), capabilities("")), (Some(0x3000), None));
    }

    #[test]
    fn this_process_is_alive_and_has_a_name() {
        let pid = std::process::id();
        assert!(exists(pid) && is_alive(pid) && !command(pid).is_empty());
        assert!(!exists(0) && !is_alive(0) && Stat::of(0).is_none());
    }
}
