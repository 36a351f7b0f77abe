//! What several of the examples need.

/// The value in the middle, of an even number of values the mean of the middle two.
///
/// The evaluator's median is the same, but is not used: no library, and so no example of one, needs
/// the evaluator.
pub(crate) fn median(values: impl IntoIterator<Item = f64>) -> f64 {
    let mut values: Vec<f64> = values.into_iter().collect();
    values.sort_by(f64::total_cmp);
    f64::midpoint(values[(values.len() - 1) / 2], values[values.len() / 2])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_even_number_of_values_has_the_mean_of_the_middle_two_as_its_median() {
        for (values, middle) in
            [(&[3.0, 1.0, 2.0][..], 2.0), (&[4.0, 1.0, 2.0, 8.0], 3.0), (&[7.0], 7.0)]
        {
            assert_eq!(median(values.iter().copied()), middle, "{values:?}");
        }
    }
}
