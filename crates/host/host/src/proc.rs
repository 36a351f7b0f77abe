//! Files of proc(5). What belongs to a process is in [`process`], what belongs to a network in
//! [`net`]; this module has what belongs to the machine.

pub mod net;
pub mod process;

use std::fs;

/// The CPUs' times.
pub const STAT: &str = "/proc/stat";

/// How often each interrupt came.
pub const INTERRUPTS: &str = "/proc/interrupts";

/// The same of soft interrupts.
pub const SOFTIRQS: &str = "/proc/softirqs";

/// Ticks of one line of `/proc/stat`, as seconds.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct CpuTimes {
    /// Work of any thread.
    pub work: f64,
    /// Hard and soft interrupts.
    pub interrupts: f64,
    /// Withheld by a hypervisor.
    pub steal: f64,
    /// All of it.
    pub total: f64,
}

/// A file, or nothing where it cannot be read.
pub fn read(path: &str) -> String {
    fs::read_to_string(path).unwrap_or_default()
}

/// What follows the first `name:` of a file of such lines: `/proc/self/status`, `/proc/meminfo`,
/// `/proc/cpuinfo`.
pub fn value<'a>(text: &'a str, name: &str) -> Option<&'a str> {
    text.lines().find_map(|line| {
        let (found, value) = line.split_once(':')?;
        (found.trim() == name).then(|| value.trim())
    })
}

/// The kernel's release, as `uname -r` says it.
pub fn kernel_release() -> String {
    read("/proc/sys/kernel/osrelease").trim().to_owned()
}

/// The model of the CPU in the text of `/proc/cpuinfo`.
pub fn cpu_model(cpuinfo: &str) -> String {
    let value = |name| value(cpuinfo, name);
    // x86 has a model name; many ARM kernels only have numbers.
    let numbers =
        || Some(format!("implementer {} part {}", value("CPU implementer")?, value("CPU part")?));
    let model = value("model name").map(str::to_owned).or_else(numbers);
    model.unwrap_or_else(|| std::env::consts::ARCH.to_owned())
}

/// The times of one CPU, or of all of them together, in the text of `/proc/stat`.
pub fn cpu_times(stat: &str, cpu: Option<usize>) -> CpuTimes {
    let name = cpu.map_or_else(|| "cpu".to_owned(), |cpu| format!("cpu{cpu}"));
    let line = stat.lines().find(|line| line.split_whitespace().next() == Some(&name));
    let ticks = rustix::param::clock_ticks_per_second() as f64;
    // user nice system idle iowait irq softirq steal (proc_stat(5)); guest time is part of user.
    let field: Vec<f64> = line
        .into_iter()
        .flat_map(|line| line.split_whitespace().skip(1))
        .map(|text| text.parse().unwrap_or(0.0) / ticks)
        .collect();
    let at = |index: usize| field.get(index).copied().unwrap_or(0.0);
    CpuTimes {
        work: at(0) + at(1) + at(2),
        interrupts: at(5) + at(6),
        steal: at(7),
        total: field.iter().take(8).sum(),
    }
}

/// Interrupts of a device in the text of `/proc/interrupts`, by the names that its lines may have;
/// `None` if it has no line.
pub fn device_interrupts(interrupts: &str, names: &[String]) -> Option<u64> {
    let belongs = |line: &&str| {
        line.split_whitespace().any(|word| {
            names.iter().any(|name| {
                word.strip_prefix(name.as_str())
                    .is_some_and(|rest| rest.is_empty() || rest.starts_with('-'))
                    || word.ends_with(&format!("pci:{name}"))
            })
        })
    };
    let mut lines = interrupts.lines().skip(1).filter(belongs).peekable();
    lines.peek()?;
    Some(
        lines
            .flat_map(|line| {
                line.split_whitespace().skip(1).map_while(|word| word.parse::<u64>().ok())
            })
            .sum(),
    )
}

/// Soft interrupts of receiving in the text of `/proc/softirqs`, of one CPU or of all.
pub fn receive_softirqs(softirqs: &str, cpu: Option<usize>) -> u64 {
    let counts: Vec<u64> = value(softirqs, "NET_RX")
        .unwrap_or_default()
        .split_whitespace()
        .map(|text| text.parse().unwrap_or(0))
        .collect();
    match cpu {
        Some(cpu) => counts.get(cpu).copied().unwrap_or(0),
        None => counts.iter().sum(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TIMES: &str = "cpu  100 0 50 1000 20 3 7 5 0 0\ncpu0 60 0 20 500 10 1 2 5 0 0\ncpu1 40 0 30 500 10 2 5 0 0 0\n";

    #[test]
    fn the_line_of_the_right_cpu_is_read() {
        let ticks = rustix::param::clock_ticks_per_second() as f64;
        let close = |found: f64, ticks_found: f64| (found * ticks - ticks_found).abs() < 1e-9;
        let one = cpu_times(TIMES, Some(1));
        assert!(close(one.work, 70.0) && close(one.interrupts, 7.0) && one.steal == 0.0, "{one:?}");
        let all = cpu_times(TIMES, None);
        assert!(close(all.work, 150.0) && close(all.steal, 5.0) && close(all.total, 1185.0));
        assert_eq!(cpu_times(TIMES, Some(7)), CpuTimes::default());
    }

    #[test]
    fn a_value_is_found_by_its_whole_name() {
        let text = "MemTotalX: 1\nMemTotal:       16384 kB\nUid:\t1\t2\t3\t4\n";
        assert_eq!(value(text, "MemTotal"), Some("16384 kB"));
        assert_eq!((value(text, "Uid"), value(text, "Gid")), (Some("1\t2\t3\t4"), None));
    }

    #[test]
    fn the_cpu_is_named_on_machines_with_and_without_a_model_name() {
        assert_eq!(cpu_model("processor: 0\nmodel name\t: A CPU\n"), "A CPU");
        let arm = cpu_model("CPU implementer : 0x41\nCPU part : 0xd0c\n");
        assert_eq!(arm, "implementer 0x41 part 0xd0c");
        assert_eq!(cpu_model(""), std::env::consts::ARCH);
    }

    #[test]
    fn interrupt_lines_belong_to_a_device_by_queue_name_or_bus_address() {
        let text = "      CPU0 CPU1\n 37: 5 6 PCI-MSIX 0-edge eth1-TxRx-0\n 38: 1 1 PCI-MSIX 1-edge eth1\n 39: 9 9 x eth10\n 40: 2 3 x mlx5_comp0@pci:0000:03:00.0\n";
        assert_eq!(device_interrupts(text, &["eth1".into()]), Some(13));
        assert_eq!(device_interrupts(text, &["eth9".into(), "0000:03:00.0".into()]), Some(5));
        assert_eq!(device_interrupts(text, &["eth2".into()]), None);
    }

    #[test]
    fn receive_soft_interrupts_are_those_of_the_cpu() {
        let text = "      CPU0 CPU1\n NET_TX: 1 1\n NET_RX: 10 20\n";
        assert_eq!(receive_softirqs(text, Some(1)), 20);
        assert_eq!(receive_softirqs(text, None), 30);
    }
}
