//! Mounted file systems: what the network makes of creating small files, what a switch does, and
//! `gigae mount` beside NFS.

use gigae_eval_model::mount_figure::{MountFigure, MountPlace, MountSystem};
use gigae_eval_model::number::{percent, short};
use gigae_eval_model::results::Results;

/// The figures that are compared, of bonnie++'s small files in order.
const CREATE: &str = "create, sequential";

fn creates(results: &Results, place: MountPlace) -> impl Iterator<Item = &MountFigure> {
    results.mounts.iter().filter(move |one| one.what == CREATE && one.cell.place == place)
}

/// For each link and version of NFS: files created per second beside those of the same server
/// without a network.
pub(super) fn mounts(results: &Results) -> Vec<String> {
    let of = |one: &MountFigure| {
        let system = one.cell.system?;
        let local = creates(results, MountPlace::Localhost).find(|other| {
            (other.cell.system, &other.cell.test) == (one.cell.system, &one.cell.test)
        })?;
        Some(format!(
            "By {} over the network, a guest creates {} files per second ({}), {} of the {} that the server itself creates by the same without a network (ground: {}, User-mode Linux).",
            system.title(),
            short(one.median),
            one.link,
            percent(one.median / local.median),
            short(local.median),
            one.ground.name(),
        ))
    };
    creates(results, MountPlace::Network).filter_map(of).collect()
}

/// For each version of NFS: a direct cable against a switch without a rate.
pub(super) fn direct(results: &Results) -> Vec<String> {
    let is_cable = |link: &str| results.plan.link.get(link).is_some_and(|link| link.cable);
    let is_bare = |link: &str| {
        results.plan.link.get(link).is_some_and(|link| !link.cable && link.rate_mbit.is_none())
    };
    let of = |one: &MountFigure| {
        let system = one.cell.system?;
        let switch = creates(results, MountPlace::Network)
            .find(|other| is_bare(&other.link) && other.cell == one.cell)?;
        let trip = |link: &str| {
            let share = results.guests.iter().find(|share| share.link == link);
            share.map(|share| share.trip_us[0])
        };
        let trips = trip(&one.link).zip(trip(&switch.link));
        let trips = trips.map(|(direct, switched)| {
            format!(", with round trips of {} and {} us", short(direct), short(switched))
        });
        Some(format!(
            "By {}, a guest creates {} files per second over a cable and {} over a switch{} (ground: {}, User-mode Linux).",
            system.title(),
            short(one.median),
            short(switch.median),
            trips.unwrap_or_default(),
            one.ground.name(),
        ))
    };
    creates(results, MountPlace::Network).filter(|one| is_cable(&one.link)).filter_map(of).collect()
}

/// For each link: figures of small files by `gigae mount` beside those of the same test by NFS.
pub(super) fn own(results: &Results) -> Vec<String> {
    let small = |one: &&MountFigure| one.unit == "/s" && one.cell.test.files() > 0;
    let by = |system: MountSystem| {
        let of = move |one: &&MountFigure| one.cell.system == Some(system);
        results.mounts.iter().filter(small).filter(of)
    };
    let of = |one: &MountFigure| {
        let nfs = by(MountSystem::Nfs42).find(|other| {
            (&other.link, &other.cell.test, &other.what, other.cell.place)
                == (&one.link, &one.cell.test, &one.what, one.cell.place)
        })?;
        Some(format!(
            "{} per second over the network ({}): {} by gigae mount, {} by NFS 4.2, {} times as many (ground: {}, User-mode Linux).",
            one.what,
            one.link,
            short(one.median),
            short(nfs.median),
            short(one.median / nfs.median),
            one.ground.name(),
        ))
    };
    by(MountSystem::Gigae).filter_map(of).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use gigae_eval_model::mount_figure::{GuestShare, MountCell, MountTest};
    use gigae_eval_model::plan::LinkPlan;
    use gigae_eval_model::service::Ground;

    fn figure(link: &str, place: MountPlace, median: f64) -> MountFigure {
        let test = MountTest::Bonnie { mib: 0, files: 1, bytes: false };
        MountFigure {
            ground: Ground::Mount,
            link: link.into(),
            cell: MountCell { place, system: Some(MountSystem::Nfs42), test },
            what: CREATE.into(),
            unit: "/s".into(),
            median,
            repetitions: vec![median],
            cpu: None,
            range: None,
            command: String::new(),
        }
    }

    #[test]
    fn the_network_is_compared_with_the_server_alone_and_a_cable_with_a_switch() {
        let mut results = gigae_eval_model::testing::first();
        let link = |cable| LinkPlan { cable, ..LinkPlan::default() };
        results.plan.link = [("cable".to_owned(), link(true)), ("bare".to_owned(), link(false))]
            .into_iter()
            .collect();
        results.mounts = vec![
            figure("cable", MountPlace::Network, 330.0),
            figure("bare", MountPlace::Network, 300.0),
            figure("bare", MountPlace::Localhost, 600.0),
        ];
        results.guests = ["cable", "bare"]
            .map(|link| GuestShare {
                link: link.into(),
                kernel: "6.1".into(),
                trip_us: [if link == "cable" { 90.0 } else { 100.0 }, 20.0],
                stream: [100.0, 900.0],
                call_us: [10.0, 0.1],
                verified: 2,
            })
            .into();
        let said = mounts(&results);
        assert_eq!(said.len(), 2);
        assert!(said[1].contains("300 files per second (bare), 50 % of the 600"), "{said:?}");
        let said = direct(&results);
        assert_eq!(said.len(), 1);
        assert!(
            said[0].contains("330 files per second over a cable and 300 over a switch, with round trips of 90.0 and 100 us"),
            "{said:?}"
        );
    }

    #[test]
    fn gigae_mount_is_compared_with_nfs_on_the_same_link_in_the_same_test() {
        let mut results = gigae_eval_model::testing::first();
        let by = |system, link: &str, files, median| {
            let mut one = figure(link, MountPlace::Network, median);
            one.cell = MountCell {
                place: MountPlace::Network,
                system: Some(system),
                test: MountTest::Stat { files },
            };
            MountFigure { what: "stat, by name".into(), ..one }
        };
        results.mounts = vec![
            by(MountSystem::Nfs42, "cable", 4, 1.0),
            by(MountSystem::Nfs42, "switch", 1, 1.0),
            by(MountSystem::Nfs3, "switch", 4, 1.0),
            by(MountSystem::Nfs42, "switch", 4, 1000.0),
            by(MountSystem::Gigae, "switch", 4, 2500.0),
        ];
        let said = own(&results);
        assert_eq!(said.len(), 1);
        assert!(said[0].contains("2.50 times as many") && said[0].contains("(switch)"), "{said:?}");
    }
}
