//! Statistics that assume nothing about the distribution.
//!
//! The interval of a median comes from order statistics (the sign test turned round; see
//! Hahn and Meeker, *Statistical Intervals*, section 5.2): exact for every continuous distribution.
//! Percentiles come from a histogram with three significant digits (HdrHistogram). There are no
//! means of medians, no standard deviations and no removal of outliers here.

use hdrhistogram::Histogram;
use serde::{Deserialize, Serialize};
use std::cmp::Ordering;

/// The level that every interval aims at.
pub const CONFIDENCE: f64 = 0.95;

/// A confidence interval of a median.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Interval {
    /// Lower end.
    pub low: f64,
    /// Upper end.
    pub high: f64,
    /// Probability that it covers the true median; below [`CONFIDENCE`] for fewer than six values.
    pub coverage: f64,
}

impl Interval {
    /// Half the width, as a share of `median`; infinite for a median of zero.
    pub fn relative_half_width(&self, median: f64) -> f64 {
        if median == 0.0 { f64::INFINITY } else { (self.high - self.low) / 2.0 / median.abs() }
    }
}

/// The median, of an even number of values the mean of the middle two; `None` without values.
pub fn median(values: &[f64]) -> Option<f64> {
    median_of(&mut values.to_vec())
}

/// The same where the values may change their places, without sorting them all.
pub fn median_of(values: &mut [f64]) -> Option<f64> {
    let [below, at] = middle(values, f64::total_cmp)?;
    Some(f64::midpoint(at, below))
}

/// The same of integers.
pub fn median_of_integers(values: &[u32]) -> Option<f64> {
    let [below, at] = middle(&mut values.to_vec(), Ord::cmp)?;
    Some(f64::midpoint(f64::from(at), f64::from(below)))
}

/// The middle two of these values, or twice the one in the middle; `None` without values.
fn middle<T: Copy>(values: &mut [T], mut order: impl FnMut(&T, &T) -> Ordering) -> Option<[T; 2]> {
    let (half, even) = (values.len() / 2, values.len().is_multiple_of(2));
    if values.is_empty() {
        return None;
    }
    let (low, at, _) = values.select_nth_unstable_by(half, &mut order);
    let below = if even { low.iter().copied().max_by(order)? } else { *at };
    Some([below, *at])
}

/// From the lowest to the highest of some ranges; `None` without any.
pub fn range(ranges: impl Iterator<Item = [f64; 2]>) -> Option<[f64; 2]> {
    ranges.reduce(|[low, high], [lower, higher]| [low.min(lower), high.max(higher)])
}

/// The narrowest symmetric interval of order statistics that covers the median with at least
/// [`CONFIDENCE`]; the whole range, with the coverage that it has, where there are too few values.
pub fn median_interval(values: &[f64]) -> Option<Interval> {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let n = sorted.len();
    if n == 0 {
        return None;
    }
    // P(Binomial(n, 1/2) <= k), summed up from k = 0; n is at most a thousand, so 0.5^n is
    // representable.
    let mut probability = 0.5f64.powi(i32::try_from(n).ok()?);
    let mut tail = probability;
    let mut best = (0, 1.0 - 2.0 * tail);
    for k in 1..n / 2 {
        probability *= (n - k + 1) as f64 / k as f64;
        tail += probability;
        let coverage = 1.0 - 2.0 * tail;
        if coverage < CONFIDENCE {
            break;
        }
        best = (k, coverage);
    }
    let (k, coverage) = best;
    Some(Interval { low: sorted[k], high: sorted[n - 1 - k], coverage: coverage.max(0.0) })
}

/// All samples of one cell.
///
/// Values are unsigned integers in the smallest sensible unit (nanoseconds, bytes per millisecond);
/// [`Summary`] scales them. Recording costs about 10 ns and never allocates after a while.
#[derive(Debug)]
pub struct Distribution {
    histogram: Histogram<u64>,
    min: u64,
    max: u64,
    sum: f64,
}

impl Default for Distribution {
    fn default() -> Self {
        // Three digits: an error of at most 0.1 %, far below what repetitions differ by.
        let histogram = Histogram::new(3).expect("three digits are a valid precision");
        Self { histogram, min: u64::MAX, max: 0, sum: 0.0 }
    }
}

impl Distribution {
    /// Adds one value.
    pub fn record(&mut self, value: u64) {
        // The histogram grows with its values; it only refuses what no address space could hold.
        self.histogram.record(value).expect("the histogram grows");
        self.min = self.min.min(value);
        self.max = self.max.max(value);
        self.sum += value as f64;
    }

    /// The figures of all values, each multiplied by `scale`; `None` without values.
    pub fn summary(&self, scale: f64) -> Option<Summary> {
        let n = self.histogram.len();
        if n == 0 {
            return None;
        }
        let at =
            |q: f64| self.histogram.value_at_quantile(q).clamp(self.min, self.max) as f64 * scale;
        Some(Summary {
            p50: at(0.5),
            p90: at(0.9),
            p99: at(0.99),
            p999: at(0.999),
            min: self.min as f64 * scale,
            max: self.max as f64 * scale,
            mean: self.sum / n as f64 * scale,
            n,
        })
    }
}

/// Figures of a distribution.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Summary {
    /// Median.
    pub p50: f64,
    /// 90th percentile.
    pub p90: f64,
    /// 99th percentile.
    pub p99: f64,
    /// 99.9th percentile.
    pub p999: f64,
    /// Smallest value.
    pub min: f64,
    /// Largest value.
    pub max: f64,
    /// Arithmetic mean.
    pub mean: f64,
    /// Number of values.
    pub n: u64,
}

/// By how much the last quarter of a run differs from the first one, as a share of its median:
/// a run that had settled gives nearly zero. `None` for fewer than eight values.
pub fn drift(values: &[u32]) -> Option<f64> {
    let quarter = values.len() / 4;
    if quarter < 2 {
        return None;
    }
    let first = median_of_integers(&values[..quarter])?;
    let last = median_of_integers(&values[values.len() - quarter..])?;
    (first > 0.0).then(|| (last - first).abs() / first)
}

/// A straight line through points, found without regard to how far the odd one lies off.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct FittedLine {
    /// The value at zero.
    pub fixed: f64,
    /// By how much it grows per unit.
    pub slope: f64,
    /// How far the farthest point lies off, as a share of its value.
    pub worst: f64,
}

impl FittedLine {
    /// The value at `x`.
    pub fn at(&self, x: f64) -> f64 {
        self.fixed + self.slope * x
    }
}

/// A point of a plane.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PlanePoint {
    /// Its abscissa.
    pub x: f64,
    /// Its ordinate.
    pub y: f64,
}

/// The line whose slope is the median of the slopes between all pairs of points, each weighed by
/// its distance (Sievers 1978, after Theil and Sen), and whose height is the median of what is
/// left. `None` with fewer than three different abscissas.
pub fn robust_line(points: &[PlanePoint]) -> Option<FittedLine> {
    let mut slopes: Vec<(f64, f64)> = Vec::new();
    for (number, one) in points.iter().enumerate() {
        for other in &points[number + 1..] {
            let distance = (other.x - one.x).abs();
            if distance > 0.0 {
                slopes.push(((other.y - one.y) / (other.x - one.x), distance));
            }
        }
    }
    let mut places: Vec<f64> = points.iter().map(|point| point.x).collect();
    places.sort_by(f64::total_cmp);
    places.dedup();
    if places.len() < 3 {
        return None;
    }
    slopes.sort_by(|a, b| a.0.total_cmp(&b.0));
    let half = slopes.iter().map(|slope| slope.1).sum::<f64>() / 2.0;
    let mut weight = 0.0;
    let slope = slopes.iter().find_map(|(slope, distance)| {
        weight += distance;
        (weight >= half).then_some(*slope)
    })?;
    let rests: Vec<f64> = points.iter().map(|point| point.y - slope * point.x).collect();
    let fixed = median(&rests)?;
    let off = |&PlanePoint { x, y }: &PlanePoint| {
        (y - fixed - slope * x).abs() / y.abs().max(f64::MIN_POSITIVE)
    };
    Some(FittedLine { fixed, slope, worst: points.iter().map(off).fold(0.0, f64::max) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_found_in_spite_of_a_point_far_off() {
        let on = |x: f64| PlanePoint { x, y: 3.0 + x * 0.01 };
        let mut points: Vec<PlanePoint> = (0..9).map(|step| on(f64::from(step) * 100.0)).collect();
        let line = robust_line(&points).unwrap();
        assert!((line.fixed - 3.0).abs() < 1e-9 && (line.slope - 0.01).abs() < 1e-12, "{line:?}");
        assert!(line.worst < 1e-9 && (line.at(1000.0) - 13.0).abs() < 1e-9, "{line:?}");
        points[4].y = 700.0;
        let line = robust_line(&points).unwrap();
        assert!((line.fixed - 3.0).abs() < 1e-9 && (line.slope - 0.01).abs() < 1e-12, "{line:?}");
        assert!(line.worst > 0.9, "{line:?}");
    }

    #[test]
    fn points_that_are_close_together_hardly_determine_a_slope() {
        // Noise of 0.1 between 4 and 8 bytes would be a slope of 0.025; the others say 0.001.
        let points = [(4.0, 2.0), (8.0, 2.1), (12.0, 2.0), (1000.0, 3.0), (2000.0, 4.0)];
        let points = points.map(|(x, y)| PlanePoint { x, y });
        let line = robust_line(&points).unwrap();
        assert!((line.slope - 0.001).abs() < 1e-4, "{line:?}");
    }

    #[test]
    fn two_points_are_no_line() {
        let points = [(1.0, 1.0), (2.0, 2.0), (2.0, 3.0)].map(|(x, y)| PlanePoint { x, y });
        assert_eq!(robust_line(&points), None);
        assert_eq!(robust_line(&[]), None);
    }

    #[test]
    fn the_median_of_an_even_number_lies_between_the_middle_two() {
        assert_eq!(median(&[4.0, 1.0, 3.0, 2.0]), Some(2.5));
        assert_eq!(median(&[3.0, 1.0, 2.0]), Some(2.0));
        assert_eq!(median(&[]), None);
        assert_eq!(median_of_integers(&[4, 1, 3, 2]), Some(2.5));
        assert_eq!(median_of_integers(&[3, 1, 2]), Some(2.0));
        assert_eq!(median_of_integers(&[]), None);
    }

    #[test]
    fn five_values_cannot_reach_95_percent_and_six_can() {
        // 1 - 2/2^n is the coverage of the whole range.
        let five = median_interval(&[1.0, 2.0, 3.0, 4.0, 5.0]).unwrap();
        assert_eq!((five.low, five.high, five.coverage), (1.0, 5.0, 0.9375));
        let six = median_interval(&[1.0, 2.0, 3.0, 4.0, 5.0, 6.0]).unwrap();
        assert_eq!((six.low, six.high, six.coverage), (1.0, 6.0, 0.96875));
    }

    #[test]
    fn the_interval_of_twenty_values_runs_from_the_sixth_to_the_fifteenth() {
        // The tabled ranks for n = 20 at 95 % (coverage 95.86 %).
        let values: Vec<f64> = (1..=20).rev().map(f64::from).collect();
        let interval = median_interval(&values).unwrap();
        assert_eq!((interval.low, interval.high), (6.0, 15.0));
        assert!((interval.coverage - 0.958_61).abs() < 1e-4, "{interval:?}");
    }

    #[test]
    fn one_value_has_an_interval_without_coverage() {
        let interval = median_interval(&[7.0]).unwrap();
        assert_eq!((interval.low, interval.high, interval.coverage), (7.0, 7.0, 0.0));
    }

    #[test]
    fn a_thousand_values_have_a_narrow_interval() {
        let values: Vec<f64> = (0..1000).map(f64::from).collect();
        let interval = median_interval(&values).unwrap();
        // n/2 -+ 0.98 sqrt(n): about the 469th and the 531st.
        assert!((467.0..=469.0).contains(&interval.low), "{interval:?}");
        assert!((530.0..=532.0).contains(&interval.high), "{interval:?}");
    }

    #[test]
    fn percentiles_of_a_uniform_distribution_are_where_they_belong() {
        let mut samples = Distribution::default();
        (1..=100_000).for_each(|value| samples.record(value));
        let summary = samples.summary(0.001).unwrap();
        for (found, expected) in
            [(summary.p50, 50.0), (summary.p90, 90.0), (summary.p99, 99.0), (summary.p999, 99.9)]
        {
            assert!((found - expected).abs() / expected < 0.002, "{found} instead of {expected}");
        }
        assert_eq!((summary.min, summary.max, summary.n), (0.001, 100.0, 100_000));
        assert!((summary.mean - 50.0005).abs() < 1e-6);
    }

    #[test]
    fn percentiles_never_leave_the_range_of_the_values() {
        let mut samples = Distribution::default();
        samples.record(1_000_003);
        let summary = samples.summary(1.0).unwrap();
        assert_eq!((summary.p50, summary.p999), (1_000_003.0, 1_000_003.0));
    }

    #[test]
    fn a_run_that_becomes_slower_shows_drift_and_a_steady_one_does_not() {
        let steady = vec![10; 100];
        assert_eq!(drift(&steady), Some(0.0));
        let slower: Vec<u32> = (100..200).collect();
        assert!(drift(&slower).unwrap() > 0.5);
        assert_eq!(drift(&[1, 2, 3]), None);
    }
}
