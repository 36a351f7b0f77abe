//! By how much one sample is larger than another: the Hodges-Lehmann estimate and its interval.
//!
//! The estimate is the median of all differences between a value of the one and a value of the
//! other (Hodges and Lehmann 1963), the interval those of these differences at which the test of
//! Mann and Whitney would just not refuse (Hollander, Wolfe and Chicken, *Nonparametric Statistical
//! Methods*, section 4.3). It assumes that one is the other, moved, and nothing about its form;
//! ties make it wider than it need be.

use gigae_eval_model::stats;
use gigae_eval_model::stats::CONFIDENCE;

/// Beyond this many differences the interval's place comes from the normal approximation: it is off
/// by less than one of them then.
const MOST_EXACT: usize = 2500;

/// The two-sided normal quantile of [`CONFIDENCE`].
const QUANTILE: f64 = 1.959_964;

/// How far one sample lies above another.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Shift {
    /// The estimate.
    pub estimate: f64,
    /// Lower end of its interval.
    pub low: f64,
    /// Upper end.
    pub high: f64,
    /// Probability that the interval covers the true shift; below [`CONFIDENCE`] where there are
    /// fewer than four values each.
    pub coverage: f64,
}

/// How far `other` lies above `reference`; `None` where either is empty.
pub fn shift(reference: &[f64], other: &[f64]) -> Option<Shift> {
    let mut differences: Vec<f64> =
        other.iter().flat_map(|value| reference.iter().map(move |beside| value - beside)).collect();
    differences.sort_by(f64::total_cmp);
    let estimate = stats::median(&differences)?;
    let (place, coverage) = place(reference.len(), other.len());
    let (low, high) = (differences[place], differences[differences.len() - 1 - place]);
    Some(Shift { estimate, low, high, coverage })
}

/// How many of the sorted differences lie outside the interval at either end, and what it covers
/// then.
fn place(n: usize, m: usize) -> (usize, f64) {
    if n * m > MOST_EXACT {
        let (n, m) = (n as f64, m as f64);
        let spread = (n * m * (n + m + 1.0) / 12.0).sqrt();
        return (((n * m / 2.0) - QUANTILE * spread).floor().max(0.0) as usize, CONFIDENCE);
    }
    let ways = ways(n, m);
    let all: f64 = ways.iter().sum();
    let mut tail = ways[0] / all;
    let mut best = (0, 1.0 - 2.0 * tail);
    for (place, ways) in ways.iter().enumerate().take((n * m).div_ceil(2)).skip(1) {
        tail += ways / all;
        if 1.0 - 2.0 * tail < CONFIDENCE {
            break;
        }
        best = (place, 1.0 - 2.0 * tail);
    }
    (best.0, best.1.max(0.0))
}

/// For each number of pairs from 0 to `n * m`: in how many orders of `n` and `m` values this many
/// pairs have the second above the first: the distribution of Mann and Whitney's U, by their own
/// recurrence.
fn ways(n: usize, m: usize) -> Vec<f64> {
    // Of 0 and j values there is one order, without a pair.
    let mut row: Vec<Vec<f64>> = vec![vec![1.0]; m + 1];
    for i in 1..=n {
        let mut next: Vec<Vec<f64>> = vec![vec![1.0]];
        for j in 1..=m {
            // The largest value is of the first, above all j of the second, or of the second.
            let mut here = vec![0.0; i * j + 1];
            row[j].iter().enumerate().for_each(|(pairs, ways)| here[pairs + j] += ways);
            next[j - 1].iter().enumerate().for_each(|(pairs, ways)| here[pairs] += ways);
            next.push(here);
        }
        row = next;
    }
    row.swap_remove(m)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_intervals_lie_where_the_tables_of_mann_and_whitney_have_them() {
        // The largest U that is significant at 5 %, two-sided, of the published tables.
        for (n, m, critical) in
            [(4, 4, 0), (5, 5, 2), (6, 6, 5), (7, 7, 8), (8, 8, 13), (10, 10, 23), (5, 8, 6)]
        {
            let (place, coverage) = place(n, m);
            assert_eq!(place, critical, "{n} and {m}");
            assert!((CONFIDENCE..0.99).contains(&coverage), "{n} and {m}: {coverage}");
        }
        assert_eq!(place(3, 3), (0, 0.9));
        assert_eq!(ways(2, 2), [1.0, 1.0, 2.0, 1.0, 1.0]);
    }

    #[test]
    fn many_values_have_nearly_the_place_that_is_exact() {
        let (exact, _) = place(50, 50);
        let (n, m) = (50.0, 50.0);
        let spread: f64 = n * m * (n + m + 1.0) / 12.0;
        let near = n * m / 2.0 - QUANTILE * spread.sqrt();
        assert!((near - exact as f64).abs() < 2.0, "{near} and {exact}");
    }

    #[test]
    fn a_moved_sample_is_found_where_it_was_moved_to() {
        let reference = [1.0, 2.0, 4.0, 8.0, 16.0, 32.0];
        let moved: Vec<f64> = reference.iter().map(|value| value + 3.0).collect();
        let found = shift(&reference, &moved).unwrap();
        assert_eq!(found.estimate, 3.0);
        assert!(found.low < 3.0 && found.high > 3.0, "{found:?}");
        assert!((found.coverage - 0.9589).abs() < 1e-3, "{found:?}");
        assert_eq!(shift(&[], &moved), None);
    }

    #[test]
    fn an_odd_value_moves_the_estimate_by_next_to_nothing() {
        let reference = [10.0, 10.1, 10.2, 10.3, 10.4, 10.5];
        let mut other = reference;
        other[0] = 1000.0;
        let found = shift(&reference, &other).unwrap();
        assert!(found.estimate < 0.2, "{found:?}");
    }
}
