//! The mounted files of a plan: its cells, and what makes no sense.

use super::form::Plan;
use super::mount::{GuestsPlan, MountPlan};
use crate::mount_figure::{MountCell, MountPlace, MountSystem, MountTest};

/// Memory of a guest in MiB: with less it does not start.
const MEMORY: [u64; 2] = [96, 16 << 10];

/// MiB of each of the server's disks.
const DISK: [u64; 2] = [32, 64 << 10];

/// MiB of a test's files.
const FILES: [u64; 2] = [1, 64 << 10];

/// How many times 1,024 files.
const MOST_FILES: u32 = 256;

/// Connections of a mount: the kernel takes no more.
const CONNECTIONS: [u32; 2] = [1, 16];

/// Openings and looks of two clients.
const OPENINGS: [u32; 2] = [1, 1000];
const LOOKS: [u32; 2] = [1, 20];

/// Of the file system, this share is for files; the rest is its own.
const USABLE: f64 = 0.85;

fn check(mount: &MountPlan, plan: &Plan) -> Result<(), String> {
    if let Some(name) = mount.links.iter().find(|name| !plan.link.contains_key(*name)) {
        return Err(format!("unknown link '{name}'"));
    }
    if mount.links.iter().any(|name| plan.is_loopback(name)) {
        return Err("a loopback has no second node for the server".into());
    }
    if mount.links.is_empty() || mount.cells().is_empty() {
        return Err("no list may be empty".into());
    }
    if mount.repetitions.is_some_and(|times| !(1..=100).contains(&times)) {
        return Err("repetitions must be from 1 to 100".into());
    }
    if mount.systems.contains(&MountSystem::Gigae) && mount.places != [MountPlace::Network] {
        return Err("gigae mount is measured over the network only".into());
    }
    if !mount.nconnect.iter().all(|n| (CONNECTIONS[0]..=CONNECTIONS[1]).contains(n)) {
        return Err(format!("nconnect must be from {} to {}", CONNECTIONS[0], CONNECTIONS[1]));
    }
    let by_network = mount.places == [MountPlace::Network];
    let by_nfs = by_network && mount.systems.iter().all(|system| system.is_nfs());
    if mount.nconnect.iter().any(|n| *n > 1) && !by_nfs {
        return Err("nconnect is for NFS over the network; give it a [[mount]] of its own".into());
    }
    let two = |test: &MountTest| matches!(test, MountTest::TwoClients { .. });
    if mount.tests.iter().any(two) && !by_network {
        return Err("two-clients are over the network only; leave out places".into());
    }
    mount.tests.iter().try_for_each(|test| check_test(test, &plan.guests))?;
    mount.cells().iter().try_for_each(|cell| check_memory(cell, &plan.guests))
}

/// A guest keeps what it has written, so it would read files from its memory.
fn check_memory(cell: &MountCell, guests: &GuestsPlan) -> Result<(), String> {
    let MountTest::Bonnie { mib: mib @ 1.., .. } = cell.test else { return Ok(()) };
    let needed = 2 * guests.memory_of(cell.place);
    if mib < needed {
        return Err(format!(
            "'{}' needs files of {needed} MiB, twice the memory of its guest; give more mib, or a smaller memory_mib",
            cell.title()
        ));
    }
    Ok(())
}

fn check_test(test: &MountTest, guests: &GuestsPlan) -> Result<(), String> {
    let within = |[least, most]: [u64; 2], value: u64| (least..=most).contains(&value);
    match *test {
        MountTest::Fio { mib, .. } if !within(FILES, mib) => {
            return Err(format!("mib must be from {} to {}", FILES[0], FILES[1]));
        }
        MountTest::Bonnie { mib: 0, files: 0, .. } => {
            return Err("bonnie++ needs mib or files".into());
        }
        MountTest::Bonnie { files, .. } if files > MOST_FILES => {
            return Err(format!("files must be {MOST_FILES} at most"));
        }
        MountTest::Stat { files } if !(1..=MOST_FILES).contains(&files) => {
            return Err(format!("files of stat must be from 1 to {MOST_FILES}"));
        }
        MountTest::TwoClients { openings, looks } => {
            for (what, value, [least, most]) in
                [("openings", openings, OPENINGS), ("looks", looks, LOOKS)]
            {
                if !(least..=most).contains(&value) {
                    return Err(format!("{what} must be from {least} to {most}"));
                }
            }
        }
        _ => {}
    }
    let room = guests.room_mib() as f64 * USABLE;
    if test.needs() as f64 > room {
        let title = test.title();
        return Err(format!(
            "'{title}' needs more than the {room:.0} MiB of the server's disks; give a larger disk_mib"
        ));
    }
    Ok(())
}

impl Plan {
    /// The cells on a link, with the repetitions of each, in the plan's order; `link` is `None`
    /// between two machines.
    pub fn mount_cells(&self, link: Option<&str>) -> Vec<(MountCell, u32)> {
        let here = |mount: &&MountPlan| {
            link.is_none_or(|link| mount.links.iter().any(|name| name == link))
        };
        let mut all: Vec<(MountCell, u32)> = Vec::new();
        for mount in self.mount.iter().filter(here) {
            for cell in mount.cells() {
                if !all.iter().any(|(other, _)| *other == cell) {
                    all.push((cell, mount.repetitions.unwrap_or(self.repetitions)));
                }
            }
        }
        all
    }

    /// Leaves out what was printed of what it does not measure any more.
    pub(super) fn leave_mount_papers(&mut self) {
        let mounts = &self.mount;
        self.mount_paper.retain(|paper| mounts.iter().any(|one| one.measures(&paper.of)));
    }

    /// Checks mounts and what papers printed of them; the error says what is wrong.
    pub(super) fn check_mounts(&self) -> Result<(), String> {
        let within = |[least, most]: [u64; 2], value: u64| (least..=most).contains(&value);
        let guests = &self.guests;
        if !guests.memory_mib.iter().all(|mib| within(MEMORY, *mib)) {
            return Err(format!("guests: memory_mib must be from {} to {}", MEMORY[0], MEMORY[1]));
        }
        if !within(DISK, guests.disk_mib) {
            return Err(format!("guests: disk_mib must be from {} to {}", DISK[0], DISK[1]));
        }
        for mount in &self.mount {
            check(mount, self).map_err(|why| format!("mount: {why}"))?;
        }
        for paper in &self.mount_paper {
            if !self.source.contains_key(&paper.source) {
                return Err(format!("mount_paper '{}': unknown source", paper.source));
            }
            if !self.mount.iter().any(|mount| mount.measures(&paper.of)) {
                let (source, at) = (&paper.source, &paper.at);
                return Err(format!("mount_paper '{source} {at}': no [[mount]] measures it"));
            }
        }
        Ok(())
    }
}
