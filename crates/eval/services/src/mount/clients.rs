//! Two clients of one server: what one has written and closed, the other one opens, or looks at.
//!
//! The run itself keeps the order: it begins to open when the program that has written has ended.
//! Both clients are guests of their own, on the same node, so they share no cache.
//!
//! - *Openings.* The second client has the file in its cache. The first one writes other bytes of
//!   the same size over it, calls fsync(2) and closes it. Then the second one opens and reads it.
//!   What it reads has to be new (close-to-open).
//! - *Looks.* The second client has just asked for the attributes. The first one makes the file
//!   longer, calls fsync(2) and closes it. Then the second one calls statx(2) again and again until
//!   the size is the new one. It never opens the file, so its system may answer from its cache.

use super::system::{self, MOUNTED};
use super::{CLIENT_MODULES, MountLab, MountMeasured, MountValue, SECOND, SECOND_MIB, SHORT};
use super::{boot, prepare};
use crate::error::ServiceError;
use gigae_eval_model::mount_figure::{MountCell, MountTest};
use gigae_eval_model::stats;
use gigae_uml::{Guest, Machine};
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

/// The file, in the mounted directory.
const FILE: &str = "two-clients";

/// It has so many lines, all with the same number: 64 KiB, several pages.
const LINES: u32 = 8192;

/// Seconds for new attributes to be seen: NFS may keep them for a minute.
const SEEN: u64 = 120;

/// Writes a number over the file, and closes it.
fn write_script(number: u32) -> String {
    format!(
        "yes {number:07} | head -n {LINES} | \
         dd of={MOUNTED}/{FILE} bs=64k iflag=fullblock conv=notrunc,fsync status=none"
    )
}

/// Opens the file; its numbers.
fn open_script() -> String {
    format!("uniq <{MOUNTED}/{FILE}")
}

/// Makes the file longer, and closes it; its size.
fn lengthen_script() -> String {
    format!(
        "echo | dd of={MOUNTED}/{FILE} oflag=append conv=notrunc,fsync status=none && {}",
        size_script()
    )
}

fn size_script() -> String {
    format!("stat -c %s {MOUNTED}/{FILE}")
}

/// Ends when the size is seen.
fn await_script(size: u64) -> String {
    format!(
        "end=$(($(date +%s) + {SEEN}))\n\
         until [ \"$({})\" = {size} ]; do\n\
         [ $(date +%s) -lt $end ] || {{ echo the new size was not seen in {SEEN} s; exit 1; }}\n\
         sleep 0.02\n\
         done",
        size_script()
    )
}

/// Whether an opening has read all new bytes and nothing else.
fn is_new(said: &str, number: u32) -> bool {
    said.trim_end() == format!("{number:07}")
}

impl MountLab<'_> {
    /// Both figures, with cold caches at the begin.
    pub(super) fn two_clients(
        &mut self,
        cell: &MountCell,
        (openings, looks): (u32, u32),
        interrupted: &AtomicBool,
    ) -> Result<MountMeasured, ServiceError> {
        self.reach(cell, interrupted)?;
        self.cool(interrupted)?;
        // Whatever fails, the next test gets a second client without a mount.
        let mut second = match self.second.take() {
            Some(second) => second,
            None => self.boot_second(interrupted)?,
        };
        let system = cell.system.expect("it is over the network");
        let mount = self.source.mount_script(system, cell.nconnect, false);
        second.run(&format!("mount files by {}", system.title()), &mount, SHORT, interrupted)?;
        let old = self.openings(&mut second, openings, interrupted)?;
        let seen = self.looks(&mut second, looks, interrupted)?;
        second.run("unmount files", &system::unmount_script(system), SHORT, interrupted)?;
        let remove = format!("rm -f {MOUNTED}/{FILE}");
        self.client.run("remove a file", &remove, SHORT, interrupted)?;
        self.second = Some(second);
        let (least, most) = seen
            .iter()
            .fold((f64::MAX, 0.0_f64), |(least, most), one| (least.min(*one), most.max(*one)));
        let value = |what, unit, value, range| MountValue { what, unit, value, range, cpu: None };
        let median = stats::median(&seen).expect("there are looks");
        let values = vec![
            value("old contents", "openings", f64::from(old), None),
            value("new attributes seen after", "s", median, Some([least, most])),
        ];
        let command = format!("dd conv=notrunc,fsync; uniq {MOUNTED}/{FILE}; {}", size_script());
        Ok(MountMeasured { values, command })
    }

    fn boot_second(&self, interrupted: &AtomicBool) -> Result<Guest, ServiceError> {
        let machine = Machine {
            name: "second",
            directory: &self.directory,
            memory_mib: SECOND_MIB,
            disks: Vec::new(),
            modules: CLIENT_MODULES,
            link: None,
        };
        let mut second = boot(machine, self.place, (0, SECOND), interrupted)?;
        prepare(&mut second, interrupted)?;
        Ok(second)
    }

    /// How many openings had something else than the new contents.
    fn openings(
        &mut self,
        second: &mut Guest,
        openings: u32,
        interrupted: &AtomicBool,
    ) -> Result<u32, ServiceError> {
        let mut old = 0;
        // The first one fills the cache of the second client.
        for number in 0..=openings {
            self.client.run("write a file", &write_script(number), SHORT, interrupted)?;
            let said = second.run("open a file", &open_script(), SHORT, interrupted)?;
            old += u32::from(number > 0 && !is_new(&said, number));
        }
        Ok(old)
    }

    /// Seconds from the end of the program that has written until the new size was seen.
    fn looks(
        &mut self,
        second: &mut Guest,
        looks: u32,
        interrupted: &AtomicBool,
    ) -> Result<Vec<f64>, ServiceError> {
        let mut seen = Vec::new();
        for _ in 0..looks {
            second.run("look at a file", &size_script(), SHORT, interrupted)?;
            let said = self.client.run("write a file", &lengthen_script(), SHORT, interrupted)?;
            let begin = Instant::now();
            let program = MountTest::TwoClients { openings: 1, looks }.program();
            let no_size = |_| ServiceError::NoFigure { program, said: said.trim().to_owned() };
            let size = said.trim().parse().map_err(no_size)?;
            second.run(
                "see a new size",
                &await_script(size),
                SHORT + Duration::from_secs(SEEN),
                interrupted,
            )?;
            seen.push(begin.elapsed().as_secs_f64());
        }
        Ok(seen)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(script: &str, at: &str) -> String {
        let script = script.replace(MOUNTED, at);
        let output = std::process::Command::new("sh").arg("-c").arg(script).output().unwrap();
        assert!(output.status.success() && output.stderr.is_empty(), "{output:?}");
        String::from_utf8(output.stdout).unwrap()
    }

    #[test]
    fn what_was_written_is_told_from_what_was_there_before() {
        let place = tempfile::tempdir().unwrap();
        let at = place.path().display().to_string();
        run(&write_script(0), &at);
        let said = run(&open_script(), &at);
        assert!(is_new(&said, 0) && !is_new(&said, 1), "{said}");
        run(&write_script(1), &at);
        assert!(is_new(&run(&open_script(), &at), 1));
        let size = std::fs::metadata(place.path().join(FILE)).unwrap().len();
        assert_eq!(size, u64::from(LINES) * 8, "of the same size");
        // A page of the former contents, or none.
        assert!(!is_new("0000001\n0000000\n", 1) && !is_new("", 1));
        let longer = run(&lengthen_script(), &at);
        assert_eq!(longer.trim(), (size + 1).to_string());
        run(&await_script(size + 1), &at);
    }
}
