//! Which of many cells differ between two sides, with one false alarm in twenty families at most.
//!
//! What is drawn lots with are *units*: runs, or where there are too few of them repetitions. Under
//! the hypothesis that nothing differs any half of them could as well have been measured on the one
//! side as on the other. So all ways of parting them (or some thousands, drawn from a fixed seed)
//! say how far apart two sides come by chance. Units are moved whole, with all their cells:
//! whatever the cells of a unit have in common, because a neighbour was busy or memory lay badly,
//! stays together. In every parting the largest statistic of all cells counts, and a cell differs
//! if hardly any parting has one as large (Westfall and Young, *Resampling-Based Multiple Testing*,
//! 1993: the step-down maxT procedure, which holds the family's error whatever the cells have in
//! common).
//!
//! Why not Mann and Whitney's test for each cell with the correction of Holm: of four values
//! against four its smallest p is 2/70, so of more than one cell none could ever be found, and of
//! six against six none of more than
//! 23. Nothing here assumes a distribution either.

use gigae_eval_model::stats;
use oorandom::Rand32;

/// All partings are gone through up to this many, and this many are drawn where there are more.
const MOST: usize = 5000;

/// Fewer would make the smallest p too coarse.
const FEWEST: usize = 999;

/// At most this many differences between two values are formed: some seconds.
const MOST_WORK: usize = 500_000_000;

/// Drawn partings are the same each time.
const SEED: u64 = 1;

/// What a scatter is taken for at least, as a logarithm (0.1 %): counters may have none at all, and
/// nothing so small is of interest.
const FLOOR: f64 = 0.001;

/// The values of one cell on both sides, unit by unit, as logarithms; absent where a unit lacks it.
#[derive(Clone, Debug, Default)]
pub(super) struct Row {
    /// Of the reference.
    pub(super) reference: Vec<Option<f64>>,
    /// Of what is compared with it.
    pub(super) other: Vec<Option<f64>>,
}

/// What chance says about a cell.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct CellTest {
    /// Share of the partings in which the largest difference of the family, by its scatter, is as
    /// large.
    pub(super) p: f64,
    /// The smallest difference, as a logarithm, that this scatter would have let through.
    pub(super) visible: f64,
}

/// Judges all cells of a family at `level`; `None` for a cell with fewer than two values on a side,
/// and for all where there are so few units that no difference could reach the level.
pub(super) fn judge(rows: &[Row], level: f64) -> Vec<Option<CellTest>> {
    let units = rows.first().map_or((0, 0), |row| (row.reference.len(), row.other.len()));
    if !has_power(units.0, units.1, level) {
        return vec![None; rows.len()];
    }
    let work = rows.len() * units.0 * units.1;
    let most = (MOST_WORK / work).clamp(FEWEST, MOST);
    let partings = partings(units.0, units.1, most);
    // In an exhaustive list of halves the sides also stand exchanged, which gives the same
    // statistic.
    let own = partings.iter().filter(|parting| is_own(parting, units.0)).count();
    let allowed = ((level * partings.len() as f64 + 1e-9) as usize).max(own);
    let values: Vec<Vec<Option<f64>>> =
        rows.iter().map(|row| [&row.reference[..], &row.other].concat()).collect();
    let mut scratch = Scratch::default();
    let observed: Vec<Option<(f64, f64)>> =
        values.iter().map(|values| scratch.separation(values, &partings[0])).collect();
    // From the clearest difference on; cells without a statistic take no part.
    let statistic =
        |cell: usize| observed[cell].map_or(0.0, |(separation, scatter)| separation / scatter);
    let mut order: Vec<usize> = (0..rows.len()).filter(|&cell| observed[cell].is_some()).collect();
    order.sort_by(|&a, &b| statistic(b).total_cmp(&statistic(a)));
    let mut largest = vec![0.0f64; partings.len()];
    let mut p = vec![0.0; order.len()];
    let mut limits = vec![0.0; order.len()];
    for (place, &cell) in order.iter().enumerate().rev() {
        for (largest, parting) in largest.iter_mut().zip(&partings) {
            let found = scratch.separation(&values[cell], parting);
            *largest = largest.max(found.map_or(0.0, |(separation, scatter)| separation / scatter));
        }
        // The order of summation may differ between equal partings.
        let bar = statistic(cell) * (1.0 - 1e-9);
        let beyond = largest.iter().filter(|largest| **largest >= bar).count();
        p[place] = beyond as f64 / partings.len() as f64;
        limits[place] = limit(&largest, &partings, units.0, allowed - own);
    }
    let mut judged = vec![None; rows.len()];
    let (mut highest, mut last) = (0.0f64, None);
    for (place, &cell) in order.iter().enumerate() {
        highest = highest.max(p[place]);
        // Once a cell is not refused, those behind it are judged in its company.
        let limit = *last.get_or_insert(limits[place]);
        if highest <= level {
            last = None;
        }
        let scatter = observed[cell].map_or(0.0, |(_, scatter)| scatter);
        judged[cell] = Some(CellTest { p: highest, visible: limit * scatter });
    }
    judged
}

/// Whether a test of `n` and `m` units has any power at this level: whether the sides as they are,
/// alone among all partings, would be rare enough.
pub(super) fn has_power(n: usize, m: usize, level: f64) -> bool {
    let same = if n == m { 2.0 } else { 1.0 };
    n >= 2 && m >= 2 && same / choose(n + m, n) <= level + 1e-12
}

/// The fewest units on each of two equal sides with which a test has any power.
pub(super) fn fewest(level: f64) -> usize {
    (2..).find(|&n| has_power(n, n, level)).expect("ever more units make ever more partings")
}

/// The statistic above which no more than `allowed` of the other partings lie.
fn limit(largest: &[f64], partings: &[Vec<bool>], n: usize, allowed: usize) -> f64 {
    let others = largest.iter().zip(partings).filter(|(_, parting)| !is_own(parting, n));
    let mut others: Vec<f64> = others.map(|(largest, _)| *largest).collect();
    others.sort_by(|a, b| b.total_cmp(a));
    others.get(allowed).copied().unwrap_or(0.0)
}

/// Whether the sides stand as they were measured, or exchanged.
fn is_own(parting: &[bool], n: usize) -> bool {
    parting[..n].iter().all(|first| *first == parting[0])
        && parting[n..].iter().all(|first| *first != parting[0])
}

fn choose(n: usize, k: usize) -> f64 {
    (1..=k).map(|i| (n - k + i) as f64 / i as f64).product()
}

/// Which units are on the first side, in every parting; the first is as it was measured.
fn partings(n: usize, m: usize, most: usize) -> Vec<Vec<bool>> {
    let own: Vec<bool> = (0..n + m).map(|unit| unit < n).collect();
    let mut all = vec![own.clone()];
    if choose(n + m, n) <= most as f64 {
        // In descending order of the words: the largest is the first.
        let mut parting = own;
        while previous(&mut parting) {
            all.push(parting.clone());
        }
        return all;
    }
    let mut random = Rand32::new(SEED);
    all.extend((1..most).map(|_| {
        let mut parting = own.clone();
        for last in (1..parting.len()).rev() {
            let end = u32::try_from(last + 1).expect("a few hundred units");
            parting.swap(last, random.rand_range(0..end) as usize);
        }
        parting
    }));
    all
}

/// The next smaller word with as many units on the first side; `false` after the last.
fn previous(parting: &mut [bool]) -> bool {
    // The last "true, false" becomes "false, true", and what follows it becomes as large as can be.
    let Some(place) = parting.windows(2).rposition(|pair| pair[0] && !pair[1]) else {
        return false;
    };
    parting.swap(place, place + 1);
    parting[place + 2..].sort_unstable_by(|a, b| b.cmp(a));
    true
}

/// Memory that is used again and again.
#[derive(Default)]
struct Scratch {
    first: Vec<f64>,
    second: Vec<f64>,
    differences: Vec<f64>,
}

impl Scratch {
    /// How far apart the sides of a parting are (the median of all differences, without its sign),
    /// and how far their values lie from the middle of their side on average; `None` with fewer
    /// than two on a side.
    fn separation(&mut self, values: &[Option<f64>], parting: &[bool]) -> Option<(f64, f64)> {
        self.first.clear();
        self.second.clear();
        for (value, first) in values.iter().zip(parting) {
            let side = if *first { &mut self.first } else { &mut self.second };
            side.extend(*value);
        }
        if self.first.len() < 2 || self.second.len() < 2 {
            return None;
        }
        let count = (self.first.len() + self.second.len()) as f64;
        let away = deviations(&mut self.first) + deviations(&mut self.second);
        self.differences.clear();
        for value in &self.second {
            self.differences.extend(self.first.iter().map(|beside| value - beside));
        }
        Some((stats::median_of(&mut self.differences)?.abs(), away / count + FLOOR))
    }
}

/// The sum of the distances to the median. Sorts.
fn deviations(values: &mut [f64]) -> f64 {
    values.sort_unstable_by(f64::total_cmp);
    let half = values.len() / 2;
    let (low, high) = (&values[..half], &values[values.len() - half..]);
    high.iter().sum::<f64>() - low.iter().sum::<f64>()
}

/// The share of false alarms that a family of this many comparisons with one reference leaves to
/// each.
pub(super) fn level(comparisons: usize) -> f64 {
    (1.0 - stats::CONFIDENCE) / comparisons.max(1) as f64
}

#[cfg(test)]
mod tests;
