//! Mounted file systems: what the network makes of creating small files, what a switch does, and
//! `gigae mount` beside NFS; what a second client sees.

use super::access::cables_beside_switches;
use gigae_eval_model::mount_figure::{MountFigure, MountPlace, MountSystem, MountTest};
use gigae_eval_model::number::{percent, short};
use gigae_eval_model::results::Results;

/// The figures that are compared, of bonnie++'s small files in order.
const CREATE: &str = "create, sequential";

fn creates(results: &Results, place: MountPlace) -> impl Iterator<Item = &MountFigure> {
    results.mounts.iter().filter(move |one| one.what == CREATE && one.cell.place == place)
}

/// How many repetitions two figures have at least, and what that makes of their difference; the
/// ground.
fn conditions(one: &MountFigure, other: &MountFigure) -> String {
    let n = one.repetitions.len().min(other.repetitions.len());
    let spread = match one.ci95.zip(other.ci95) {
        None => ", so there is no interval",
        Some(([low, high], [other_low, other_high])) if low <= other_high && other_low <= high => {
            ", within the spread"
        }
        Some(_) => "",
    };
    format!("n = {n}{spread}; ground: {}, User-mode Linux", one.ground.name())
}

/// For each link and version of NFS: files created per second beside those of the same server
/// without a network.
pub(super) fn mounts(results: &Results) -> Vec<String> {
    let of = |one: &MountFigure| {
        let by = one.cell.by()?;
        let local = creates(results, MountPlace::Localhost).find(|other| {
            (&other.link, other.cell.system, other.cell.nconnect, &other.cell.test)
                == (&one.link, one.cell.system, one.cell.nconnect, &one.cell.test)
        })?;
        Some(format!(
            "By {} over the network, a guest creates {} files per second ({}), {} of the {} that the server itself creates by the same without a network, where client and server share a processor ({}).",
            by,
            short(one.median),
            one.link,
            percent(one.median / local.median),
            short(local.median),
            conditions(one, local),
        ))
    };
    creates(results, MountPlace::Network).filter_map(of).collect()
}

/// For each cable beside a switch of the same kind, and each system: the same small files.
pub(super) fn direct(results: &Results) -> Vec<String> {
    let trip = |link: &str| {
        let share = results.guests.iter().find(|share| share.link == link);
        share.map(|share| share.trip_us[0])
    };
    let of = |[cable, switch]: [&str; 2]| {
        let on = |link: &str| {
            let link = link.to_owned();
            creates(results, MountPlace::Network).filter(move |one| one.link == link)
        };
        let trips = trip(cable).zip(trip(switch)).map(|(direct, switched)| {
            format!(", with round trips of {} and {} us", short(direct), short(switched))
        });
        let trips = trips.unwrap_or_default();
        let say = move |one: &MountFigure| {
            let other = on(switch).find(|other| other.cell == one.cell)?;
            Some(format!(
                "By {}, a guest creates {} files per second over a cable and {} over a switch{trips} ({cable}, {switch}; {}).",
                one.cell.by()?,
                short(one.median),
                short(other.median),
                conditions(one, other),
            ))
        };
        on(cable).filter_map(say).collect::<Vec<_>>()
    };
    cables_beside_switches(results).into_iter().flat_map(of).collect()
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
            let of = |one: &MountFigure| (one.cell.place, one.cell.nconnect);
            (&other.link, &other.cell.test, &other.what, of(other))
                == (&one.link, &one.cell.test, &one.what, of(one))
        })?;
        // Looking changes nothing.
        let disk = match one.what.starts_with("stat") {
            true => "",
            false => "; NFS's server waits for the disk, gigae's does not",
        };
        Some(format!(
            "{} per second over the network ({}): {} by gigae mount, {} by NFS 4.2, {} times as many{disk} ({}).",
            one.what,
            one.link,
            short(one.median),
            short(nfs.median),
            short(one.median / nfs.median),
            conditions(one, nfs),
        ))
    };
    by(MountSystem::Gigae).filter_map(of).collect()
}

/// For each link: how many openings had something else than what another client had closed.
pub(super) fn clients(results: &Results) -> Vec<String> {
    let of = |one: &MountFigure| match one.cell.test {
        MountTest::TwoClients { openings, .. } if one.unit == "openings" => {
            let all = u64::from(openings) * one.repetitions.len() as u64;
            let old: f64 = one.repetitions.iter().sum();
            Some((one.link.clone(), old, format!("{} {old:.0} of {all}", one.cell.by()?)))
        }
        _ => None,
    };
    let found: Vec<_> = results.mounts.iter().filter_map(of).collect();
    let mut links: Vec<&String> = found.iter().map(|(link, ..)| link).collect();
    links.dedup();
    let say = |link: &String| {
        let here = || found.iter().filter(|(other, ..)| other == link);
        let each: Vec<&str> = here().map(|(.., words)| words.as_str()).collect();
        let seen = match here().any(|(_, old, _)| *old > 0.0) {
            true => "some were old",
            false => "none was old",
        };
        format!(
            "Openings by a second client that read old contents of a file which the first one had closed: {}; {seen} ({link}; ground: mount, User-mode Linux).",
            each.join(", ")
        )
    };
    links.into_iter().map(say).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use gigae_eval_model::mount_figure::{GuestShare, MountCell};
    use gigae_eval_model::plan::LinkPlan;
    use gigae_eval_model::service::Ground;

    fn figure(link: &str, place: MountPlace, median: f64) -> MountFigure {
        let test = MountTest::Bonnie { mib: 0, files: 1, bytes: false };
        MountFigure {
            ground: Ground::Mount,
            link: link.into(),
            cell: MountCell { place, system: Some(MountSystem::Nfs42), nconnect: 1, test },
            what: CREATE.into(),
            unit: "/s".into(),
            median,
            ci95: None,
            repetitions: vec![median],
            cpu: None,
            range: None,
            command: String::new(),
            doubts: Vec::new(),
        }
    }

    #[test]
    fn the_network_is_compared_with_the_server_alone_and_a_cable_with_a_switch() {
        let mut results = gigae_eval_model::testing::first();
        let link = |cable| LinkPlan { cable, ..LinkPlan::default() };
        // Neither a switch with a delay nor one with other frames nor one that goes down is the
        // cable's pair.
        let far = LinkPlan { delay_us: Some(500), ..LinkPlan::default() };
        let jumbo = LinkPlan { mtu: 9000, ..LinkPlan::default() };
        let down = LinkPlan { down_ms: Some(500), ..LinkPlan::default() };
        let links = [
            ("a down", down),
            ("a far", far),
            ("a jumbo", jumbo),
            ("cable", link(true)),
            ("bare", link(false)),
        ];
        results.plan.link = links.map(|(name, link)| (name.to_owned(), link)).into();
        results.mounts = vec![
            figure("cable", MountPlace::Network, 330.0),
            figure("bare", MountPlace::Network, 300.0),
            figure("bare", MountPlace::Localhost, 600.0),
            figure("a far", MountPlace::Network, 20.0),
            figure("a down", MountPlace::Network, 280.0),
            figure("a jumbo", MountPlace::Network, 290.0),
        ];
        for place in [MountPlace::Network, MountPlace::Localhost] {
            let mut several = figure("several", place, 200.0);
            several.cell.nconnect = 4;
            results.mounts.push(several);
        }
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
        assert_eq!(said.len(), 2, "on the same link alone: {said:?}");
        assert!(said[1].starts_with("By NFS 4.2, nconnect 4 over the network, "), "{said:?}");
        assert!(said[0].contains("300 files per second (bare), 50 % of the 600"), "{said:?}");
        assert!(said[0].contains("share a processor (n = 1, so there is no interval;"), "{said:?}");
        let said = direct(&results);
        assert_eq!(said.len(), 1, "{said:?}");
        assert!(
            said[0].contains("330 files per second over a cable and 300 over a switch, with round trips of 90.0 and 100 us"),
            "{said:?}"
        );
    }

    #[test]
    fn figures_whose_intervals_meet_are_within_the_spread() {
        let with = |ci95, n| MountFigure {
            ci95: Some(ci95),
            repetitions: vec![1.0; n],
            ..figure("switch", MountPlace::Network, 1.0)
        };
        let said = conditions(&with([1.0, 3.0], 6), &with([2.0, 4.0], 5));
        assert_eq!(said, "n = 5, within the spread; ground: mount, User-mode Linux");
        let said = conditions(&with([1.0, 3.0], 6), &with([4.0, 5.0], 6));
        assert_eq!(said, "n = 6; ground: mount, User-mode Linux");
    }

    #[test]
    fn openings_with_old_contents_of_all_systems_are_in_one_sentence() {
        let mut results = gigae_eval_model::testing::first();
        let of = |system, old: &[f64], unit: &str| {
            let mut one = figure("switch", MountPlace::Network, old[0]);
            one.cell.system = Some(system);
            one.cell.test = MountTest::TwoClients { openings: 20, looks: 3 };
            MountFigure { unit: unit.into(), repetitions: old.to_vec(), ..one }
        };
        results.mounts = vec![
            of(MountSystem::Nfs3, &[0.0, 0.0], "openings"),
            of(MountSystem::Nfs3, &[3.0], "s"),
            of(MountSystem::Cifs, &[0.0], "openings"),
        ];
        let said = clients(&results);
        assert_eq!(said.len(), 1);
        assert!(said[0].contains(": NFS 3 0 of 40, CIFS 0 of 20; none was old"), "{said:?}");
        results.mounts.push(of(MountSystem::Gigae, &[2.0], "openings"));
        let said = clients(&results);
        assert!(said[0].contains("gigae mount 2 of 20; some were old"), "{said:?}");
    }

    #[test]
    fn gigae_mount_is_compared_with_nfs_on_the_same_link_in_the_same_test() {
        let mut results = gigae_eval_model::testing::first();
        let by = |system, link: &str, files, median| {
            let mut one = figure(link, MountPlace::Network, median);
            one.cell = MountCell {
                place: MountPlace::Network,
                system: Some(system),
                nconnect: 1,
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
        // Several connections are another mount.
        let mut several = by(MountSystem::Nfs42, "switch", 4, 10.0);
        several.cell.nconnect = 4;
        results.mounts.insert(0, several);
        let said = own(&results);
        assert_eq!(said.len(), 1);
        assert!(said[0].contains("2.50 times as many") && said[0].contains("(switch)"), "{said:?}");
    }
}
