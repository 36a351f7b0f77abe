//! Which of the settings tried is better, and what it costs.
//!
//! Three figures count: the round trip of the smallest message, the goodput of the largest, and
//! what a KB of that takes of both CPUs. A setting is *better* or *worse* in one of them only where
//! the 95 % intervals do not overlap. Its worth is the product of the ratios of those in which it
//! differs; the others count as the same.

use crate::experiment::Experiment;
use crate::plan::Condition;
use crate::results::{Estimate, Series};
use crate::trials::Trial;

/// The figures that count; absent where they were not measured.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Objectives {
    /// Microseconds.
    pub trip: Option<Estimate>,
    /// 10^6 bytes per second.
    pub goodput: Option<Estimate>,
    /// Microseconds of CPU per KB, at both ends together.
    pub demand: Option<Estimate>,
}

/// How one figure compares with the present one: the ratio, seen so that more than 1 is better.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum RatioChange {
    /// The intervals do not overlap, and it is better.
    Better(f64),
    /// The intervals do not overlap, and it is worse.
    Worse(f64),
    /// The intervals overlap.
    Same,
    /// One of them is missing.
    Unknown,
}

/// How a setting compares with the present one.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Judgement {
    /// The round trip.
    pub trip: RatioChange,
    /// The goodput.
    pub goodput: RatioChange,
    /// The CPU per KB.
    pub demand: RatioChange,
}

/// The cells of one transport that count: its smallest round trip and its largest stream.
pub fn cells<'a>(
    series: &'a [Series],
    link: &str,
    by: &str,
) -> (Option<&'a Series>, Option<&'a Series>) {
    let of = |experiment| {
        series.iter().filter(move |one| {
            (one.experiment, one.transport.as_str(), one.link.as_str()) == (experiment, by, link)
                && one.condition == Condition::default()
                && one.median > 0.0
        })
    };
    let trip = of(Experiment::Rtt).min_by_key(|one| one.size);
    // Of several of one size, the first.
    let stream = of(Experiment::Stream).rev().max_by_key(|one| one.size);
    (trip, stream)
}

impl Objectives {
    /// Those of one transport.
    pub fn of(series: &[Series], link: &str, by: &str) -> Self {
        let (trip, stream) = cells(series, link, by);
        let figure = |one: &Series| Estimate { median: one.median, ci95: one.ci95 };
        Self {
            trip: trip.map(figure),
            goodput: stream.map(figure),
            demand: stream.and_then(|one| one.cpu_per_kb),
        }
    }

    /// Set beside the present setting's.
    pub fn against(&self, present: &Self) -> Judgement {
        Judgement {
            trip: change(self.trip, present.trip, false),
            goodput: change(self.goodput, present.goodput, true),
            demand: change(self.demand, present.demand, false),
        }
    }

    /// Whether another is at least as good in every figure that both have, and better in one, by
    /// the medians.
    fn dominated_by(&self, other: &Self) -> bool {
        let pairs = [
            (self.trip, other.trip, false),
            (self.goodput, other.goodput, true),
            (self.demand, other.demand, false),
        ];
        let ratios: Vec<f64> = pairs
            .into_iter()
            .filter_map(|(mine, theirs, more)| {
                let (mine, theirs) = (mine?.median, theirs?.median);
                Some(if more { theirs / mine } else { mine / theirs })
            })
            .collect();
        ratios.iter().all(|ratio| *ratio >= 1.0) && ratios.iter().any(|ratio| *ratio > 1.0)
    }
}

fn change(now: Option<Estimate>, before: Option<Estimate>, more: bool) -> RatioChange {
    let (Some(now), Some(before)) = (now, before) else { return RatioChange::Unknown };
    if now.ci95[0] <= before.ci95[1] && before.ci95[0] <= now.ci95[1] {
        return RatioChange::Same;
    }
    let ratio = if more { now.median / before.median } else { before.median / now.median };
    if ratio > 1.0 { RatioChange::Better(ratio) } else { RatioChange::Worse(ratio) }
}

impl Judgement {
    fn all(&self) -> [RatioChange; 3] {
        [self.trip, self.goodput, self.demand]
    }

    /// Whether anything differs.
    pub fn differs(&self) -> bool {
        self.all()
            .iter()
            .any(|change| matches!(change, RatioChange::Better(_) | RatioChange::Worse(_)))
    }

    /// Whether something is worse.
    pub fn costs(&self) -> bool {
        self.all().iter().any(|change| matches!(change, RatioChange::Worse(_)))
    }

    /// The product of the ratios; above 1 where what is gained is more than what is lost.
    pub fn worth(&self) -> f64 {
        let ratio = |change: &RatioChange| match change {
            RatioChange::Better(ratio) | RatioChange::Worse(ratio) => *ratio,
            RatioChange::Same | RatioChange::Unknown => 1.0,
        };
        self.all().iter().map(ratio).product()
    }
}

/// Which of these no other one surpasses, by the medians of all three figures: the Pareto front.
pub fn front(all: &[Objectives]) -> Vec<bool> {
    let measured = |one: &Objectives| *one != Objectives::default();
    let open = |one: &Objectives| !all.iter().any(|other| one.dominated_by(other));
    all.iter().map(|one| measured(one) && open(one)).collect()
}

/// Of each knob, the value that is worth most, if it is worth anything: the best ones together.
/// `None` where nothing is better than the present setting.
pub fn best_together(
    trials: &[Trial],
    link: &str,
    by: &str,
    present: &Objectives,
) -> Option<Trial> {
    let worth = |trial: &Trial| Objectives::of(&trial.series, link, by).against(present).worth();
    let mut best: Vec<(f64, &Trial)> = Vec::new();
    let good = trials.iter().map(|trial| (worth(trial), trial)).filter(|(worth, _)| *worth > 1.0);
    for (worth, trial) in good {
        let knobs = |trial: &Trial| -> Vec<String> {
            trial.settings.iter().map(|set| set.knob.clone()).collect()
        };
        match best.iter_mut().find(|(_, other)| knobs(other) == knobs(trial)) {
            Some(other) if other.0 < worth => *other = (worth, trial),
            Some(_) => {}
            None => best.push((worth, trial)),
        }
    }
    if trials.iter().any(|trial| trial.settings.len() > 1) {
        // All combinations were tried already.
        best.sort_by(|a, b| b.0.total_cmp(&a.0));
        best.truncate(1);
    }
    let settings = best.iter().flat_map(|(_, trial)| trial.settings.iter().cloned()).collect();
    (!best.is_empty()).then(|| Trial { best: true, ..Trial::new(settings) })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn figure(median: f64) -> Option<Estimate> {
        Some(Estimate { median, ci95: [median * 0.98, median * 1.02] })
    }

    fn of(trip: f64, goodput: f64, demand: f64) -> Objectives {
        Objectives { trip: figure(trip), goodput: figure(goodput), demand: figure(demand) }
    }

    #[test]
    fn intervals_that_meet_are_no_difference() {
        let present = of(10.0, 100.0, 1.0);
        let same = of(10.3, 98.0, 1.01).against(&present);
        assert!(!same.differs() && !same.costs() && same.worth() == 1.0, "{same:?}");
        let mixed = of(5.0, 80.0, 1.0).against(&present);
        assert_eq!((mixed.trip, mixed.demand), (RatioChange::Better(2.0), RatioChange::Same));
        assert!(mixed.costs() && (mixed.worth() - 1.6).abs() < 1e-9, "{mixed:?}");
        let half = Objectives { goodput: None, ..of(20.0, 1.0, 1.0) }.against(&present);
        assert_eq!((half.goodput, half.trip), (RatioChange::Unknown, RatioChange::Worse(0.5)));
    }

    #[test]
    fn the_front_has_what_nothing_surpasses() {
        let all = [
            of(10.0, 100.0, 1.0),
            of(9.0, 100.0, 1.0),
            of(5.0, 50.0, 2.0),
            of(11.0, 90.0, 1.5),
            Objectives::default(),
        ];
        assert_eq!(front(&all), [false, true, true, false, false]);
    }
}
