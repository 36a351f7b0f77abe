//! What several of the examples need.

/// The value in the middle, of an even number of values the upper one.
///
/// The evaluator's median is not used: no library, and so no example of one, needs the evaluator.
pub(crate) fn median(values: impl IntoIterator<Item = f64>) -> f64 {
    let mut values: Vec<f64> = values.into_iter().collect();
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}
