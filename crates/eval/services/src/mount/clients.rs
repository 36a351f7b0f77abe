//! Two clients of one server: what one has written and closed, the other one opens, or looks at.
//!
//! The run itself keeps the order: it begins to open when the program that has written has ended.
//! Both clients are guests of their own, on the same node, so they share no cache.
//!
//! - *Openings.* The second client has the file in its cache. The first one writes other bytes of
//!   the same size over it and closes it, without fsync(2). Then the second one opens and reads it.
//!   What it reads has to be new (close-to-open).
//! - *Looks.* The second client has just asked for the attributes. The first one makes the file
//!   longer and closes it. Then the second one calls statx(2) again and again until the size is the
//!   new one. It never opens the file, so its system may answer from its cache.

use super::system::{self, MOUNTED};
use super::{
    CLIENT_MODULES, COUNT, MountLab, MountMeasured, MountValue, SECOND, SECOND_MIB, SHORT,
};
use super::{boot, make_mount_point};
use crate::error::ServiceError;
use gigae_eval_model::mount_figure::MountCell;
use gigae_eval_model::stats;
use gigae_uml::{Guest, GuestError, Machine};
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

/// The file, in the mounted directory.
const FILE: &str = "two-clients";

/// It has so many lines, all with the same number: 64 KiB, several pages.
const LINES: u32 = 8192;
const LINE_BYTES: u64 = 8;

/// Seconds for new attributes to be seen: NFS may keep them for a minute.
const SEEN: u64 = 120;

/// Writes a number over the file, and closes it.
fn write_script(number: u32) -> String {
    format!(
        "yes {number:07} | head -n {LINES} | \
         dd of={MOUNTED}/{FILE} bs=64k iflag=fullblock conv=notrunc status=none"
    )
}

/// Opens the file; its numbers.
fn open_script() -> String {
    format!("uniq <{MOUNTED}/{FILE}")
}

/// Makes the file longer by a byte, and closes it.
fn lengthen_script() -> String {
    format!("echo | dd of={MOUNTED}/{FILE} oflag=append conv=notrunc status=none")
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
        let options = [&system::connections(cell.nconnect), self.second_options];
        let options: Vec<&str> = options.into_iter().filter(|one| !one.is_empty()).collect();
        let mount = self.source.mount_script(system, &options.join(","), false);
        let what = format!("mount files by {}", system.title());
        second.run(&what, &mount, SHORT, interrupted).map_err(of_second)?;
        let old = self.openings(&mut second, openings, interrupted)?;
        let seen = self.looks(&mut second, looks, interrupted)?;
        if let Some(script) = system::count_script(cell.nconnect) {
            self.client.run(COUNT, &script, SHORT, interrupted)?;
            second.run(COUNT, &script, SHORT, interrupted).map_err(of_second)?;
        }
        let unmount = system::unmount_script(system);
        second.run("unmount files", &unmount, SHORT, interrupted).map_err(of_second)?;
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
        let command = format!("dd conv=notrunc; uniq {MOUNTED}/{FILE}; {}", size_script());
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
        let booted = boot(machine, self.place, (0, SECOND), interrupted).and_then(|mut second| {
            make_mount_point(&mut second, interrupted)?;
            Ok(second)
        });
        booted.map_err(|error| match error {
            ServiceError::Guest(error) => of_second(error),
            error => error,
        })
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
            let said = second.run("open a file", &open_script(), SHORT, interrupted);
            let said = said.map_err(of_second)?;
            old += u32::from(number > 0 && !is_new(&said, number));
        }
        Ok(old)
    }

    /// Seconds until the new size was seen, from the end of the program that has written. It has
    /// closed the file some milliseconds before, which do not count.
    fn looks(
        &mut self,
        second: &mut Guest,
        looks: u32,
        interrupted: &AtomicBool,
    ) -> Result<Vec<f64>, ServiceError> {
        let mut seen = Vec::new();
        let patience = SHORT + Duration::from_secs(SEEN);
        for look in 1..=looks {
            second.run("look at a file", &size_script(), SHORT, interrupted).map_err(of_second)?;
            self.client.run("write a file", &lengthen_script(), SHORT, interrupted)?;
            let begin = Instant::now();
            let script = await_script(u64::from(LINES) * LINE_BYTES + u64::from(look));
            second.run("see a new size", &script, patience, interrupted).map_err(of_second)?;
            seen.push(begin.elapsed().as_secs_f64());
        }
        Ok(seen)
    }
}

/// What goes wrong in the second client costs its test alone.
fn of_second(error: GuestError) -> ServiceError {
    match error {
        GuestError::Interrupted => error.into(),
        error => ServiceError::SecondClient(error),
    }
}

#[cfg(test)]
mod tests {
    use super::super::leaves_guests;
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
        assert_eq!(size, u64::from(LINES) * LINE_BYTES, "of the same size");
        // A page of the former contents, or none.
        assert!(!is_new("0000001\n0000000\n", 1) && !is_new("", 1));
        assert_eq!(run(&lengthen_script(), &at), "");
        run(&await_script(size + 1), &at);
    }

    #[test]
    fn trouble_with_the_second_client_leaves_the_other_guests() {
        let late = GuestError::Late {
            guest: "second".into(),
            what: "boot".into(),
            seconds: 1,
            last: String::new(),
        };
        let error = of_second(late);
        assert!(leaves_guests(&error) && !error.is_fatal(), "{error}");
        let text = error.to_string();
        assert!(text.contains("second client") && !text.contains('\n'), "{text}");
        assert!(of_second(GuestError::Interrupted).is_interruption());
    }
}
