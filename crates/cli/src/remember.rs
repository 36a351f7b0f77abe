//! `gigae eval --remember`: which backend had the shorter round trip, noted for later endpoints.

use crate::outcome::CommandError;
use gigae::MeasuredBackends;
use gigae_eval_model::environment::{EndEnvironment, LinkEnvironment};
use gigae_eval_model::experiment::Experiment;
use gigae_eval_model::plan::{Backend, Condition, Plan, Wait};
use gigae_eval_model::results::{Results, Series};
use std::time::Duration;

/// Bytes of the messages that decide: short ones, whose round trips are mostly the kernel's.
const SIZE: usize = 8;

/// Refuses a plan in which nothing could be remembered, before it runs.
pub(crate) fn check(plan: &Plan, runs: u32) -> Result<(), CommandError> {
    if runs > 1 {
        return Err(CommandError::Error(
            "--remember notes one run: leave out --runs, and compare runs before you remember one"
                .into(),
        ));
    }
    let named = |backend| plan.gigae.values().any(|options| options.backend == backend);
    match named(Backend::Packet) && named(Backend::Generic) {
        true => Ok(()),
        false => Err(CommandError::Error(
            "--remember needs a plan that measures gigae over both backends; use --plan backend"
                .into(),
        )),
    }
}

/// Notes what was measured on each link. Returns what to say about it, a line for each link.
pub(crate) fn remember(results: &Results) -> String {
    let line = |link: &LinkEnvironment| match decide(results, link) {
        Ok(measured) => note(measured, &link.local),
        Err(why) => format!("nothing remembered about {}: {why}\n", link.name),
    };
    results.environment.link.iter().map(line).collect()
}

fn note(measured: MeasuredBackends, end: &EndEnvironment) -> String {
    let EndEnvironment { driver, mtu, kernel, .. } = end;
    let chosen = match measured.prefers_generic() {
        true => {
            "endpoints that choose for themselves will take generic mode, which slows TCP and long messages"
        }
        false => "endpoints that choose for themselves will take AF_PACKET",
    };
    match measured.remember(driver, *mtu) {
        Ok(path) => format!(
            "{measured}; {chosen}, where the driver ({driver}) has no better mode, with MTU {mtu} and Linux {kernel}, for 30 days at most; to forget it, remove {}\n",
            path.display()
        ),
        Err(error) => format!("nothing remembered about {driver}: {error}\n"),
    }
}

/// What was measured on a link, or why that decides nothing.
fn decide(results: &Results, link: &LinkEnvironment) -> Result<MeasuredBackends, String> {
    let of = |backend, name| {
        let found = results.series.iter().find(|series| {
            series.link == link.name
                && is_trip(series)
                && backend_of(series, results) == Some(backend)
        });
        found.ok_or_else(|| format!("no round trip of {SIZE} B over {name} was measured"))
    };
    let packet = of(Backend::Packet, "AF_PACKET")?;
    let generic = of(Backend::Generic, "AF_XDP's generic mode")?;
    let time = |series: &Series| Duration::from_nanos((series.median * 1e3) as u64);
    let measured = MeasuredBackends { packet: time(packet), generic: time(generic) };
    if packet.ci95[0] <= generic.ci95[1] && generic.ci95[0] <= packet.ci95[1] {
        return Err(format!(
            "the ranges of both backends overlap ({}, {}); repeat it, or use a plan with more repetitions",
            range(packet),
            range(generic)
        ));
    }
    Ok(measured)
}

fn is_trip(series: &Series) -> bool {
    series.experiment == Experiment::Rtt
        && series.transport == "gigae"
        && series.size == SIZE
        && series.wait == Wait::Spin
        && series.condition == Condition::default()
}

fn backend_of(series: &Series, results: &Results) -> Option<Backend> {
    let options = results.plan.gigae.get(series.variant.as_ref()?)?;
    Some(options.backend)
}

fn range(series: &Series) -> String {
    let [from, to] = series.ci95;
    format!("{from:.2} to {to:.2} {}", series.unit)
}

#[cfg(test)]
mod tests {
    use super::*;
    use gigae_eval_model::testing;

    /// Round trips of 8 B over both backends, with their ranges.
    fn results(packet: [f64; 3], generic: [f64; 3]) -> Results {
        let mut results = testing::first();
        results.plan = Plan::load("backend").unwrap();
        let like = results.series.iter().find(|series| is_trip(series)).unwrap().clone();
        let link = results.environment.link.iter().find(|link| link.name == like.link).unwrap();
        results.environment.link = vec![link.clone()];
        let of = |variant: &str, [from, median, to]: [f64; 3]| Series {
            variant: Some(variant.into()),
            median,
            ci95: [from, to],
            ..like.clone()
        };
        let longer = Series { size: 1400, ..of("packet", [1.0, 1.0, 1.0]) };
        results.series = vec![longer, of("packet", packet), of("generic", generic)];
        results
    }

    fn decided(results: &Results) -> Result<MeasuredBackends, String> {
        decide(results, &results.environment.link[0])
    }

    #[test]
    fn the_shorter_round_trip_decides() {
        let measured = decided(&results([3.3, 3.4, 3.5], [2.7, 2.75, 2.8])).unwrap();
        assert!(measured.prefers_generic());
        assert_eq!(measured.packet, Duration::from_nanos(3_400));
        assert_eq!(measured.generic, Duration::from_nanos(2_750));
        let measured = decided(&results([2.2, 2.22, 2.3], [2.35, 2.42, 2.5])).unwrap();
        assert!(!measured.prefers_generic());
    }

    #[test]
    fn ranges_that_overlap_decide_nothing() {
        let why = decided(&results([2.7, 3.4, 3.5], [2.5, 2.7, 2.8])).unwrap_err();
        assert!(why.contains("2.70 to 3.50 us, 2.50 to 2.80 us"), "{why}");
    }

    #[test]
    fn without_one_of_the_backends_nothing_is_decided() {
        let mut results = results([3.3, 3.4, 3.5], [2.7, 2.75, 2.8]);
        results.series.pop();
        assert!(decided(&results).unwrap_err().contains("generic mode was measured"));
        assert!(remember(&results).starts_with("nothing remembered about "));
        assert!(check(&results.plan, 1).is_ok());
        assert!(check(&results.plan, 2).is_err(), "one of several runs");
        results.plan.gigae.remove("generic");
        assert!(check(&results.plan, 1).is_err());
    }
}
