//! What follows from round trips.

use super::text::{by_size, bytes, differ, mark_doubtful, name, of_name, plain};
use gigae_eval_model::duration::nanoseconds;
use gigae_eval_model::experiment::Experiment;
use gigae_eval_model::number::{percent, short};
use gigae_eval_model::plan::{Condition, Wait};
use gigae_eval_model::results::{Results, Series};
use gigae_eval_model::stats;
use gigae_eval_model::stats::FittedLine;

/// A round trip that grows by less over all sizes is said to be the same for all of them.
const FLAT: f64 = 0.10;

/// If a point lies farther off a line than this, it is not a line.
const BENT: f64 = 0.15;

/// Which transport answers first, and how far behind TCP is.
pub(super) fn quickest(results: &Results) -> Vec<String> {
    results.links().into_iter().filter_map(|link| quickest_on(results, link)).collect()
}

fn quickest_on(results: &Results, link: &str) -> Option<String> {
    let all = plain(results, Experiment::Rtt, link, Wait::Spin);
    let size = all.iter().map(|one| one.size).min()?;
    let mut here: Vec<&Series> = all.into_iter().filter(|one| one.size == size).collect();
    here.sort_by(|a, b| a.median.total_cmp(&b.median));
    let (first, second) = (here.first()?, here.get(1)?);
    let lead = if differ(first, second) {
        format!("{} answers {} first", name(&first.transport), bytes(size))
    } else {
        let both = (name(&first.transport), name(&second.transport));
        format!("{} and {} answer {} first and do not differ", both.0, both.1, bytes(size))
    };
    let tcp = here.iter().copied().find(|one| one.transport == "tcp" && differ(one, first));
    let behind = tcp.map_or(String::new(), |tcp| {
        let times = tcp.median / first.median;
        format!("; TCP takes {} us, {} times as long", short(tcp.median), short(times))
    });
    let sentence = format!("{lead}: {} us{behind} ({link}, spin).", short(first.median));
    Some(mark_doubtful(sentence, &[*first, *second, tcp.unwrap_or(first)]))
}

/// What it costs to sleep while waiting.
pub(super) fn asleep(results: &Results) -> Vec<String> {
    let mut sentences = Vec::new();
    for link in results.links() {
        let polling = plain(results, Experiment::Rtt, link, Wait::Spin);
        let sleeping = plain(results, Experiment::Rtt, link, Wait::Sleep);
        for transport in ["tcp", "gigae"] {
            let polling = by_size(&polling, transport);
            let pair = polling.iter().find_map(|polling| {
                let size = polling.size;
                Some((
                    *polling,
                    *by_size(&sleeping, transport).iter().find(|one| one.size == size)?,
                ))
            });
            let Some((polling, sleeping)) = pair else { continue };
            let whose = of_name(transport);
            let size = bytes(polling.size);
            let sentence = if differ(polling, sleeping) {
                format!(
                    "Sleeping instead of polling makes {whose} round trip of {size} {} us instead of {} us ({link}).",
                    short(sleeping.median),
                    short(polling.median)
                )
            } else {
                format!(
                    "{whose} round trip of {size} does not differ, sleeping or polling ({link})."
                )
            };
            sentences.push(mark_doubtful(sentence, &[polling, sleeping]));
        }
    }
    sentences
}

/// What TCP takes of a round trip beyond what answers without it.
pub(super) fn tcp_share(results: &Results) -> Vec<String> {
    results.links().into_iter().filter_map(|link| tcp_share_on(results, link)).collect()
}

fn tcp_share_on(results: &Results, link: &str) -> Option<String> {
    let all = plain(results, Experiment::Rtt, link, Wait::Spin);
    let tcp = by_size(&all, "tcp");
    let (below, what) = [
        ("icmp", "ICMP ECHO, which the remote kernel answers by itself,"),
        ("packet", "a raw frame (AF_PACKET)"),
    ]
    .into_iter()
    .find(|(transport, _)| !by_size(&all, transport).is_empty())?;
    let below = by_size(&all, below);
    let (tcp, below) = tcp.iter().find_map(|tcp| {
        below.iter().find(|below| below.size == tcp.size).map(|below| (*tcp, *below))
    })?;
    let size = bytes(tcp.size);
    if !differ(tcp, below) || tcp.median <= below.median {
        let sentence = format!(
            "TCP/IP costs nothing that shows in a round trip of {size}: it takes {} us, {what} {} us ({link}, spin).",
            short(tcp.median),
            short(below.median)
        );
        return Some(mark_doubtful(sentence, &[tcp, below]));
    }
    let cost = tcp.median - below.median;
    let sentence = format!(
        "TCP/IP costs {} us of a {} us round trip of {size} ({}), the answering program included: {what} takes {} us ({link}, spin).",
        short(cost),
        short(tcp.median),
        percent(cost / tcp.median),
        short(below.median)
    );
    Some(mark_doubtful(sentence, &[tcp, below]))
}

/// How round trips depend on the message size.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Growth {
    /// Hardly at all.
    Flat,
    /// By so much per byte.
    Straight,
    /// In some other way.
    Bent,
}

/// A transport's round trips as a fixed cost and a cost per byte.
pub struct Fit<'a> {
    /// The first of its cells, for its name and conditions.
    pub of: &'a Series,
    /// All of them.
    pub curve: Vec<&'a Series>,
    /// Smallest and largest size.
    pub sizes: (usize, usize),
    /// Microseconds over bytes.
    pub line: FittedLine,
    /// What the line says.
    pub growth: Growth,
}

impl Fit<'_> {
    /// By how much more the largest message takes than the smallest, as a share.
    pub fn rise(&self) -> f64 {
        let (least, most) = (self.line.at(self.sizes.0 as f64), self.line.at(self.sizes.1 as f64));
        most / least - 1.0
    }
}

/// The fits of all round trips that were measured at three sizes or more, within one frame where
/// the transport knows frames: beyond it there is more than one to pay for.
pub fn fits(results: &Results) -> Vec<Fit<'_>> {
    let mut found: Vec<Fit<'_>> = Vec::new();
    for link in &results.environment.link {
        let trips = results.series.iter().filter(|series| {
            (series.experiment, &series.link) == (Experiment::Rtt, &link.name)
                && series.median > 0.0
                && series.size <= link.mtu
        });
        let mut curves: Vec<Vec<&Series>> = Vec::new();
        for series in trips {
            let same = |curve: &&mut Vec<&Series>| {
                (curve[0].label(), curve[0].wait) == (series.label(), series.wait)
            };
            match curves.iter_mut().find(same) {
                Some(curve) => curve.push(series),
                None => curves.push(vec![series]),
            }
        }
        found.extend(curves.iter().filter_map(|curve| fit(curve)));
    }
    found
}

fn fit<'a>(curve: &[&'a Series]) -> Option<Fit<'a>> {
    let point = |series: &&Series| stats::PlanePoint { x: series.size as f64, y: series.median };
    let points: Vec<stats::PlanePoint> = curve.iter().map(point).collect();
    let line = stats::robust_line(&points)?;
    let sizes = curve.iter().map(|series| series.size);
    let sizes = (sizes.clone().min()?, sizes.max()?);
    let mut fit =
        Fit { of: curve[0], curve: curve.to_vec(), sizes, line, growth: Growth::Straight };
    fit.growth = match (line.worst, fit.rise()) {
        (worst, _) if worst > BENT => Growth::Bent,
        (_, rise) if rise.abs() < FLAT => Growth::Flat,
        _ => Growth::Straight,
    };
    Some(fit)
}

/// Whether an ECHO takes the same whatever its size, or longer the larger it is; TCP in runs
/// without ECHO.
pub(super) fn echo_by_size(results: &Results) -> Vec<String> {
    let all = fits(results);
    let plain =
        |fit: &&Fit<'_>| fit.of.wait == Wait::Spin && fit.of.condition == Condition::default();
    let of = |transport: &str| -> Vec<&Fit<'_>> {
        all.iter().filter(plain).filter(|fit| fit.of.transport == transport).collect()
    };
    let chosen = match of("icmp") {
        echo if echo.is_empty() => of("tcp"),
        echo => echo,
    };
    chosen.into_iter().map(|fit| mark_doubtful(say_fit(fit), &fit.curve)).collect()
}

fn say_fit(fit: &Fit<'_>) -> String {
    let what = name(&fit.of.transport);
    let (least, most) = (bytes(fit.sizes.0), bytes(fit.sizes.1));
    let at = format!("{}, {}", fit.of.link, fit.of.wait.name());
    let costs =
        format!("{} us and {} per byte", short(fit.line.fixed), nanoseconds(fit.line.slope * 1e3));
    let rise = percent(fit.rise().abs());
    match fit.growth {
        Growth::Flat => format!(
            "{what} takes the same whatever its size: {} us, {rise} of a difference between {least} and {most} ({at}).",
            short(fit.line.at(fit.sizes.0 as f64))
        ),
        Growth::Straight => format!(
            "{what} grows with its size: {costs}, so that {most} take {rise} longer than {least} ({at})."
        ),
        Growth::Bent => format!(
            "{what} neither stays the same nor grows evenly with its size: {costs} miss one size by {} ({at}).",
            percent(fit.line.worst)
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{cell, results};
    use super::*;
    use gigae_eval_model::plan::TcpOptions;

    /// A round trip, in microseconds.
    struct Trip {
        transport: &'static str,
        size: usize,
        us: f64,
    }

    fn trip(transport: &'static str, size: usize, us: f64) -> Trip {
        Trip { transport, size, us }
    }

    fn with(trips: &[Trip]) -> Results {
        let mut all = results(&["cable"]);
        let series = trips
            .iter()
            .map(|Trip { transport, size, us }| cell(&all, Experiment::Rtt, transport, *size, *us));
        all.series = series.collect();
        all
    }

    #[test]
    fn tcp_is_charged_with_what_it_takes_beyond_an_echo() {
        let trips = [trip("tcp", 8, 5.3), trip("icmp", 8, 2.2), trip("packet", 8, 1.0)];
        let found = tcp_share(&with(&trips));
        assert_eq!(
            found,
            [
                "TCP/IP costs 3.10 us of a 5.30 us round trip of 8 B (58 %), the answering program included: \
              ICMP ECHO, which the remote kernel answers by itself, takes 2.20 us (cable, spin)."
            ]
        );
        let raw = tcp_share(&with(&[trip("tcp", 8, 5.0), trip("packet", 8, 2.5)]));
        assert!(raw[0].contains("(50 %)") && raw[0].contains("a raw frame"), "{raw:?}");
        let same = tcp_share(&with(&[trip("tcp", 8, 2.21), trip("icmp", 8, 2.2)]));
        assert!(same[0].contains("nothing that shows"), "{same:?}");
        assert!(tcp_share(&with(&[trip("tcp", 8, 5.0), trip("icmp", 64, 2.0)])).is_empty());
    }

    #[test]
    fn of_several_settings_the_papers_stands_for_tcp() {
        let mut all = with(&[trip("tcp", 8, 9.0), trip("tcp", 8, 5.0), trip("icmp", 8, 2.5)]);
        all.plan.tcp.insert("untuned".into(), TcpOptions::default());
        let papers = TcpOptions { nodelay: true, buffer: Some(131_072), ..TcpOptions::default() };
        all.plan.tcp.insert("papers".into(), papers);
        all.series[0].variant = Some("untuned".into());
        all.series[1].variant = Some("papers".into());
        let found = tcp_share(&all);
        assert!(found[0].contains("of a 5.00 us round trip"), "{found:?}");
    }

    #[test]
    fn the_quickest_is_named_unless_two_do_not_differ() {
        let trips = [trip("tcp", 8, 6.8), trip("gigae", 8, 2.6), trip("udp", 64, 1.0)];
        let found = quickest(&with(&trips));
        assert_eq!(
            found,
            [
                "gigae answers 8 B first: 2.60 us; TCP takes 6.80 us, 2.62 times as long (cable, spin)."
            ]
        );
        let found = quickest(&with(&[trip("xdp", 8, 2.6), trip("gigae", 8, 2.62)]));
        assert_eq!(
            found,
            ["raw AF_XDP and gigae answer 8 B first and do not differ: 2.60 us (cable, spin)."]
        );
        assert!(quickest(&with(&[trip("tcp", 8, 6.8)])).is_empty());
    }

    #[test]
    fn sleeping_is_charged_only_where_it_shows() {
        let mut all = with(&[trip("tcp", 8, 6.0), trip("tcp", 8, 16.0)]);
        all.series[1].wait = Wait::Sleep;
        assert_eq!(
            asleep(&all),
            [
                "Sleeping instead of polling makes TCP's round trip of 8 B 16.0 us instead of 6.00 us (cable)."
            ]
        );
        all.series[1].median = 6.05;
        all.series[1].ci95 = [5.9, 6.2];
        assert!(asleep(&all)[0].contains("does not differ"), "{:?}", asleep(&all));
    }

    #[test]
    fn an_echo_is_flat_straight_or_neither() {
        let echo = |us: &dyn Fn(f64) -> f64| {
            let sizes = [8, 256, 512, 768, 1024, 1472];
            let all = with(&sizes.map(|size| trip("icmp", size, us(size as f64))));
            (fits(&all)[0].growth, echo_by_size(&all).remove(0))
        };
        let (growth, text) = echo(&|size| 20.0 + size * 0.001);
        assert_eq!(growth, Growth::Flat);
        assert!(text.contains("the same whatever its size: 20.0 us, 7 %"), "{text}");
        let (growth, text) = echo(&|size| 20.0 + size * 0.016);
        assert_eq!(growth, Growth::Straight);
        assert!(text.contains("20.0 us and 16.0 ns per byte"), "{text}");
        let (growth, text) = echo(&|size| if size > 700.0 { 60.0 } else { 20.0 });
        assert_eq!(growth, Growth::Bent);
        assert!(text.contains("neither"), "{text}");
    }

    #[test]
    fn messages_beyond_a_frame_are_not_on_the_line() {
        let all = with(&[
            trip("tcp", 8, 5.0),
            trip("tcp", 700, 5.7),
            trip("tcp", 1400, 6.4),
            trip("tcp", 65_536, 400.0),
        ]);
        let fit = &fits(&all)[0];
        assert_eq!(fit.sizes, (8, 1400));
        assert!((fit.line.slope - 0.001).abs() < 1e-4, "{:?}", fit.line);
    }
}
