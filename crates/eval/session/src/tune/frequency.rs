//! A slower CPU: the highest frequency that the CPUs may take (`scaling_max_freq` of each policy;
//! the kernel's documentation, `admin-guide/pm/cpufreq.rst`).
//!
//! Plans say it as a percentage of the highest that the hardware has. The exact value has kHz for
//! each policy, a policy being the CPUs that change together.

use super::interface::TunedInterface;
use super::knob::{Absent, Knob, KnobForm, number};
use super::steering::parts;
use gigae_eval_model::knobs::KnobOwner;
use std::fs;
use std::io;
use std::path::Path;

pub(super) struct Frequency;

pub(super) const CPU_FREQUENCY: Frequency = Frequency;

/// The least that the hardware has.
const LOWEST: &str = "lowest";

/// The policies' names, in order of their numbers.
fn policies(nic: &TunedInterface) -> Result<Vec<String>, Absent> {
    let entries = fs::read_dir(&nic.cpufreq).into_iter().flatten().flatten();
    let names = entries.map(|entry| entry.file_name().to_string_lossy().into_owned());
    let mut names: Vec<String> = names.filter(|name| name.starts_with("policy")).collect();
    names.sort_by_key(|name| (name.len(), name.clone()));
    let none = "the kernel does not set the frequency of these CPUs";
    if names.is_empty() { Err(Absent::new(none)) } else { Ok(names) }
}

/// A file of a policy, in kHz.
fn khz(directory: &Path, file: &str) -> Result<u64, Absent> {
    let text = fs::read_to_string(directory.join(file)).map_err(|error| Absent::of(&error))?;
    let text = text.trim();
    text.parse().map_err(|_| Absent(format!("'{text}' is not a frequency")))
}

impl Knob for Frequency {
    fn form(&self) -> &KnobForm {
        &KnobForm {
            name: "cpu-frequency",
            about: "percent of their highest frequency that the CPUs may take: slower CPUs",
            belongs: KnobOwner::Machine,
            values: "10 to 100 percent, or \"lowest\"",
        }
    }

    fn accepts(&self, value: &str) -> bool {
        value == LOWEST || number(value).is_some_and(|percent| (10..=100).contains(&percent))
    }

    fn read(&self, nic: &TunedInterface) -> Result<String, Absent> {
        let limit = |policy: &String| {
            let khz = khz(&nic.cpufreq.join(policy), "scaling_max_freq")?;
            Ok(format!("{policy}={khz}"))
        };
        let all: Result<Vec<String>, Absent> = policies(nic)?.iter().map(limit).collect();
        Ok(all?.join(";"))
    }

    /// Never less than the hardware has.
    fn exact(&self, nic: &TunedInterface, value: &str) -> Result<String, Absent> {
        let percent = u64::from(number(value).unwrap_or(0));
        let limit = |policy: &String| {
            let directory = nic.cpufreq.join(policy);
            let (least, most) =
                (khz(&directory, "cpuinfo_min_freq")?, khz(&directory, "cpuinfo_max_freq")?);
            Ok(format!("{policy}={}", (most * percent / 100).max(least)))
        };
        let all: Result<Vec<String>, Absent> = policies(nic)?.iter().map(limit).collect();
        Ok(all?.join(";"))
    }

    fn write(&self, nic: &mut TunedInterface, exact: &str) -> io::Result<()> {
        parts(exact).try_for_each(|(policy, khz)| {
            fs::write(nic.cpufreq.join(policy).join("scaling_max_freq"), khz)
        })
    }

    /// One figure if all have the same.
    fn say(&self, exact: &str) -> String {
        let mut limits: Vec<&str> = parts(exact).map(|(_, khz)| khz).collect();
        limits.dedup();
        let mhz = |khz: &str| khz.parse::<f64>().map_or(0.0, |khz| khz / 1000.0);
        let said: Vec<String> = limits.iter().map(|khz| format!("{:.0}", mhz(khz))).collect();
        format!("{} MHz", said.join(", "))
    }

    fn commands(&self, nic: &TunedInterface, exact: &str) -> Vec<String> {
        let line = |(policy, khz): (&str, &str)| {
            let file = nic.cpufreq.join(policy).join("scaling_max_freq");
            format!("echo {khz} > {}", file.display())
        };
        parts(exact).map(line).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A machine with two policies whose CPUs have 0.8 to 3 GHz.
    fn machine(directory: &Path) -> TunedInterface {
        for policy in ["policy0", "policy10"] {
            let policy = directory.join(policy);
            fs::create_dir_all(&policy).unwrap();
            for (file, khz) in [
                ("cpuinfo_min_freq", "800000\n"),
                ("cpuinfo_max_freq", "3000000\n"),
                ("scaling_max_freq", "3000000\n"),
            ] {
                fs::write(policy.join(file), khz).unwrap();
            }
        }
        TunedInterface { cpufreq: directory.into(), ..TunedInterface::new("lo").unwrap() }
    }

    #[test]
    fn all_cpus_get_a_lower_limit_and_the_former_one_back() {
        let directory = tempfile::tempdir().unwrap();
        let mut nic = machine(directory.path());
        let before = CPU_FREQUENCY.read(&nic).unwrap();
        assert_eq!(before, "policy0=3000000;policy10=3000000");
        assert_eq!(CPU_FREQUENCY.exact(&nic, "100").unwrap(), before);
        let half = CPU_FREQUENCY.exact(&nic, "50").unwrap();
        assert_eq!(half, "policy0=1500000;policy10=1500000");
        CPU_FREQUENCY.write(&mut nic, &half).unwrap();
        assert_eq!(CPU_FREQUENCY.read(&nic).unwrap(), half);
        assert_eq!(CPU_FREQUENCY.say(&half), "1500 MHz");
        let line = &CPU_FREQUENCY.commands(&nic, &half)[1];
        assert!(line.ends_with("/policy10/scaling_max_freq"), "{line}");
        CPU_FREQUENCY.write(&mut nic, &before).unwrap();
        assert_eq!(CPU_FREQUENCY.read(&nic).unwrap(), before);
    }

    #[test]
    fn no_limit_is_below_what_the_hardware_has() {
        let directory = tempfile::tempdir().unwrap();
        let nic = machine(directory.path());
        for value in ["lowest", "10"] {
            let least = CPU_FREQUENCY.exact(&nic, value).unwrap();
            assert_eq!(least, "policy0=800000;policy10=800000");
        }
        let refused = ["0", "101", "slow"];
        assert!(refused.iter().all(|value| !CPU_FREQUENCY.accepts(value)));
    }

    #[test]
    fn a_machine_whose_frequency_is_not_the_kernels_says_so() {
        let nothing = tempfile::tempdir().unwrap();
        let nic =
            TunedInterface { cpufreq: nothing.path().into(), ..TunedInterface::new("lo").unwrap() };
        assert!(CPU_FREQUENCY.read(&nic).unwrap_err().0.contains("does not set the frequency"));
    }
}
