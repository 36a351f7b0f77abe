//! Which CPUs have the work of receiving: Receive Packet Steering of the queues, and the affinity
//! of the interface's interrupts (the kernel's documentation, `networking/scaling.rst`,
//! `core-api/irq/irq-affinity.rst`).
//!
//! Plans say it in words: `off`, `same` (the measuring thread's CPU), `other` (all but that),
//! `all`; interrupts also `spread` (each its own CPU, one after the other). The exact value has a
//! list of CPUs for each queue or interrupt.

use super::interface::TunedInterface;
use super::knob::{Absent, Knob, KnobForm};
use gigae_eval_model::knobs::KnobOwner;
use std::fs;
use std::io;

/// Receive Packet Steering.
pub(super) struct Rps;

pub(super) const RPS: Rps = Rps;

/// Interrupt affinity.
pub(super) struct Irq;

pub(super) const IRQ: Irq = Irq;

/// The CPUs that a word means at this end.
fn cpus(nic: &TunedInterface, word: &str) -> Result<Vec<usize>, Absent> {
    let pinned =
        || nic.cpu.ok_or_else(|| Absent::new("the measuring thread has no CPU of its own"));
    match word {
        "off" => Ok(Vec::new()),
        "all" => Ok(nic.cpus.clone()),
        "same" => Ok(vec![pinned()?]),
        _ => {
            let pinned = pinned()?;
            let others: Vec<usize> =
                nic.cpus.iter().copied().filter(|cpu| *cpu != pinned).collect();
            let alone = Absent::new("there is no other CPU");
            if others.is_empty() { Err(alone) } else { Ok(others) }
        }
    }
}

/// A set of CPUs as the kernel writes it: hexadecimal words of 32 bits, the last one first.
fn mask(cpus: &[usize]) -> String {
    let words = cpus.iter().max().map_or(1, |most| most / 32 + 1);
    let word = |number: usize| {
        let mine = cpus.iter().filter(|cpu| **cpu / 32 == number);
        mine.fold(0_u32, |bits, cpu| bits | 1 << (cpu % 32))
    };
    let text: Vec<String> =
        (0..words).rev().map(|number| format!("{:08x}", word(number))).collect();
    text.join(",")
}

/// The CPUs of a mask; `None` for what is none.
fn unmask(text: &str) -> Option<Vec<usize>> {
    let words: Vec<&str> = text.trim().split(',').collect();
    let mut cpus = Vec::new();
    for (number, word) in words.iter().rev().enumerate() {
        let bits = u32::from_str_radix(word, 16).ok()?;
        cpus.extend((0..32).filter(|bit| bits >> bit & 1 == 1).map(|bit| number * 32 + bit));
    }
    Some(cpus)
}

/// CPUs in a row: `0-1`, `3`; `none` for an empty set.
fn list(cpus: &[usize]) -> String {
    let mut parts: Vec<(usize, usize)> = Vec::new();
    for &cpu in cpus {
        match parts.last_mut() {
            Some((_, last)) if *last + 1 == cpu => *last = cpu,
            _ => parts.push((cpu, cpu)),
        }
    }
    let said = |(first, last): &(usize, usize)| match first == last {
        true => first.to_string(),
        false => format!("{first}-{last}"),
    };
    if parts.is_empty() {
        "none".into()
    } else {
        parts.iter().map(said).collect::<Vec<_>>().join(",")
    }
}

/// The parts of an exact value that has several: queue or interrupt and its CPUs, policy and its
/// frequency.
pub(super) fn parts(exact: &str) -> impl Iterator<Item = (&str, &str)> {
    exact.split(';').filter_map(|part| part.split_once('='))
}

/// For people: one list if all have the same.
fn said(exact: &str) -> String {
    let mut lists: Vec<&str> = parts(exact).map(|(_, cpus)| cpus).collect();
    lists.dedup();
    match lists[..] {
        ["none"] => "off".to_owned(),
        [one] => format!("CPU {one}"),
        _ => exact.replace(';', ", "),
    }
}

fn accepted(value: &str, besides: &str) -> bool {
    matches!(value, "same" | "other" | "all") || value == besides
}

impl Rps {
    fn queues(nic: &TunedInterface) -> Result<Vec<String>, Absent> {
        let names = nic.sys_list("queues").map_err(|error| Absent::of(&error))?;
        let queues: Vec<String> =
            names.into_iter().filter(|name| name.starts_with("rx-")).collect();
        if queues.is_empty() { Err(Absent::new("it has no receive queues")) } else { Ok(queues) }
    }
}

impl Knob for Rps {
    fn form(&self) -> &KnobForm {
        &KnobForm {
            name: "rps",
            about: "CPUs to which the kernel hands received frames on (Receive Packet Steering)",
            belongs: KnobOwner::Kernel,
            values: "\"off\", \"same\" (the measuring thread's CPU), \"other\" or \"all\"",
        }
    }

    fn accepts(&self, value: &str) -> bool {
        accepted(value, "off")
    }

    fn read(&self, nic: &TunedInterface) -> Result<String, Absent> {
        let mut all = Vec::new();
        for queue in Self::queues(nic)? {
            let text = nic.sys_read(&format!("queues/{queue}/rps_cpus"));
            let text = text.map_err(|_| Absent::new("this kernel has no RPS"))?;
            let cpus =
                unmask(&text).ok_or_else(|| Absent(format!("'{text}' is not a set of CPUs")))?;
            all.push(format!("{queue}={}", list(&cpus)));
        }
        Ok(all.join(";"))
    }

    fn exact(&self, nic: &TunedInterface, value: &str) -> Result<String, Absent> {
        let cpus = list(&cpus(nic, value)?);
        let queues = Self::queues(nic)?;
        Ok(queues.iter().map(|queue| format!("{queue}={cpus}")).collect::<Vec<_>>().join(";"))
    }

    fn write(&self, nic: &mut TunedInterface, exact: &str) -> io::Result<()> {
        for (queue, cpus) in parts(exact) {
            let mask = mask(&unlist(cpus).ok_or(io::ErrorKind::InvalidInput)?);
            nic.sys_write(&format!("queues/{queue}/rps_cpus"), &mask)?;
        }
        Ok(())
    }

    fn say(&self, exact: &str) -> String {
        said(exact)
    }

    fn commands(&self, nic: &TunedInterface, exact: &str) -> Vec<String> {
        let line = |(queue, cpus): (&str, &str)| {
            let mask = mask(&unlist(cpus).unwrap_or_default());
            format!("echo {mask} > /sys/class/net/{}/queues/{queue}/rps_cpus", nic.interface)
        };
        parts(exact).map(line).collect()
    }
}

/// The CPUs of a list; `None` for what is none.
fn unlist(text: &str) -> Option<Vec<usize>> {
    if text == "none" {
        return Some(Vec::new());
    }
    let mut cpus = Vec::new();
    for part in text.split(',') {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let (first, last): (usize, usize) = (first.parse().ok()?, last.parse().ok()?);
        cpus.extend(first..=last.min(first + 4096));
    }
    Some(cpus)
}

impl Irq {
    fn file(nic: &TunedInterface, irq: impl std::fmt::Display) -> std::path::PathBuf {
        nic.proc.join(format!("irq/{irq}/smp_affinity_list"))
    }
}

impl Knob for Irq {
    fn form(&self) -> &KnobForm {
        &KnobForm {
            name: "irq-affinity",
            about: "CPUs that may have the interface's interrupts",
            belongs: KnobOwner::Machine,
            values: "\"same\" (the measuring thread's CPU), \"other\", \"all\" or \"spread\"",
        }
    }

    fn accepts(&self, value: &str) -> bool {
        accepted(value, "spread")
    }

    fn read(&self, nic: &TunedInterface) -> Result<String, Absent> {
        let mut all = Vec::new();
        for irq in &nic.irqs {
            // Vectors that were never asked for have no directory.
            if let Ok(text) = fs::read_to_string(Self::file(nic, irq)) {
                all.push(format!("{irq}={}", text.trim()));
            }
        }
        if all.is_empty() { Err(Absent::new("it has no interrupts")) } else { Ok(all.join(";")) }
    }

    fn exact(&self, nic: &TunedInterface, value: &str) -> Result<String, Absent> {
        let now = self.read(nic)?;
        let irqs = parts(&now).map(|(irq, _)| irq);
        let all: Vec<String> = if value == "spread" {
            let cpus = nic.cpus.iter().cycle();
            irqs.zip(cpus).map(|(irq, cpu)| format!("{irq}={cpu}")).collect()
        } else {
            let cpus = list(&cpus(nic, value)?);
            irqs.map(|irq| format!("{irq}={cpus}")).collect()
        };
        Ok(all.join(";"))
    }

    fn write(&self, nic: &mut TunedInterface, exact: &str) -> io::Result<()> {
        parts(exact).try_for_each(|(irq, cpus)| fs::write(Self::file(nic, irq), cpus))
    }

    fn say(&self, exact: &str) -> String {
        said(exact)
    }

    fn commands(&self, _place: &TunedInterface, exact: &str) -> Vec<String> {
        let line = |(irq, cpus)| format!("echo {cpus} > /proc/irq/{irq}/smp_affinity_list");
        parts(exact).map(line).collect()
    }

    fn note(&self, nic: &TunedInterface) -> Option<String> {
        let named = |entry: fs::DirEntry| {
            let name = fs::read_to_string(entry.path().join("comm")).ok()?;
            (name.trim() == "irqbalance").then_some(())
        };
        let found = fs::read_dir(&nic.proc).ok()?.flatten().find_map(named);
        found
            .map(|()| "irqbalance runs and may move them meanwhile; stop it for a while".to_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sets_of_cpus_survive_both_ways_of_writing_them() {
        for cpus in [vec![], vec![0], vec![0, 1, 3], vec![31, 32], vec![0, 70]] {
            assert_eq!(unmask(&mask(&cpus)).unwrap(), cpus);
            assert_eq!(unlist(&list(&cpus)).unwrap(), cpus);
        }
        assert_eq!((mask(&[0, 1]), mask(&[33])), ("00000003".into(), "00000002,00000000".into()));
        assert_eq!((list(&[0, 1, 3]), list(&[])), ("0-1,3".into(), "none".into()));
        assert!(unmask("CPU").is_none() && unlist("a-b").is_none());
    }

    /// An interface whose `/proc` is a directory with two interrupts, and its measuring thread on
    /// CPU 1.
    fn nic(proc: &std::path::Path) -> TunedInterface {
        for irq in [40, 41] {
            let directory = proc.join(format!("irq/{irq}"));
            fs::create_dir_all(&directory).unwrap();
            fs::write(directory.join("smp_affinity_list"), "0-3\n").unwrap();
        }
        let lo = TunedInterface::new("lo").unwrap();
        let (irqs, cpus) = (vec![40, 41, 42], vec![0, 1, 2, 3]);
        TunedInterface { proc: proc.into(), irqs, cpus, cpu: Some(1), ..lo }
    }

    #[test]
    fn interrupts_go_to_the_cpus_that_a_word_means() {
        let proc = tempfile::tempdir().unwrap();
        let mut nic = nic(proc.path());
        assert_eq!(IRQ.read(&nic).unwrap(), "40=0-3;41=0-3");
        assert_eq!(IRQ.exact(&nic, "same").unwrap(), "40=1;41=1");
        let other = IRQ.exact(&nic, "other").unwrap();
        assert_eq!(other, "40=0,2-3;41=0,2-3");
        assert_eq!(IRQ.exact(&nic, "spread").unwrap(), "40=0;41=1");
        IRQ.write(&mut nic, &other).unwrap();
        assert_eq!(IRQ.read(&nic).unwrap(), other);
        assert_eq!(IRQ.say(&other), "CPU 0,2-3");
        assert_eq!(IRQ.commands(&nic, "40=1"), ["echo 1 > /proc/irq/40/smp_affinity_list"]);
        assert_eq!(IRQ.note(&nic), None);
        fs::create_dir(proc.path().join("77")).unwrap();
        fs::write(proc.path().join("77/comm"), "irqbalance\n").unwrap();
        assert!(IRQ.note(&nic).unwrap().contains("irqbalance"));
    }

    #[test]
    fn software_has_no_interrupts() {
        let nic = TunedInterface::new("lo").unwrap();
        assert_eq!(IRQ.read(&nic), Err(Absent::new("it has no interrupts")));
    }
}
