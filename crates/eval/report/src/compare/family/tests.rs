use super::*;

/// Values that differ from each other and repeat from run to run.
fn noise(random: &mut Rand32) -> f64 {
    // The sum of twelve is normal enough.
    (0..12).map(|_| f64::from(random.rand_float())).sum::<f64>() - 6.0
}

/// A cell of `n` and `m` units that scatter by `scatter`, the second side higher by `change`.
fn row(random: &mut Rand32, n: usize, m: usize, scatter: f64, change: f64) -> Row {
    let mut values = |count, above: f64| -> Vec<Option<f64>> {
        (0..count).map(|_| Some(above + scatter * noise(random))).collect()
    };
    Row { reference: values(n, 0.0), other: values(m, change) }
}

#[test]
fn every_parting_comes_once_and_the_measured_one_first() {
    for (n, m, all) in [(1, 1, 2), (4, 4, 70), (3, 5, 56), (6, 6, 924)] {
        let found = partings(n, m, MOST);
        assert_eq!(found.len(), all);
        assert!(found[0].iter().enumerate().all(|(unit, first)| *first == (unit < n)));
        assert!(found.iter().all(|parting| parting.iter().filter(|first| **first).count() == n));
        let own = found.iter().filter(|parting| is_own(parting, n)).count();
        assert_eq!(own, if n == m { 2 } else { 1 }, "{n} and {m}");
        let mut distinct = found;
        distinct.sort();
        distinct.dedup();
        assert_eq!(distinct.len(), all);
    }
}

#[test]
fn too_many_partings_are_drawn_alike_each_time() {
    let drawn = partings(12, 12, 1000);
    assert_eq!(drawn.len(), 1000);
    assert_eq!(drawn, partings(12, 12, 1000));
    assert!(drawn.iter().all(|parting| parting.iter().filter(|first| **first).count() == 12));
}

#[test]
fn four_runs_are_the_fewest_with_power_and_five_with_two_comparisons() {
    assert_eq!((fewest(level(1)), fewest(level(2)), fewest(level(7))), (4, 5, 6));
    assert!(!has_power(3, 3, level(1)) && has_power(4, 4, level(1)));
    assert!(has_power(3, 5, level(1)) && !has_power(1, 100, level(1)));
    let mut random = Rand32::new(1);
    let rows = [row(&mut random, 3, 3, 0.001, 1.0)];
    assert_eq!(judge(&rows, level(1)), [None]);
    assert_eq!(judge(&[], level(1)), []);
}

#[test]
fn a_clear_difference_is_as_rare_as_can_be_and_none_is_not_rare() {
    let mut random = Rand32::new(1);
    let mut rows: Vec<Row> = (0..17).map(|_| row(&mut random, 4, 4, 0.01, 0.0)).collect();
    rows.push(row(&mut random, 4, 4, 0.01, 0.5));
    // What never varies, and what is not there.
    rows.push(Row { reference: vec![Some(1.0); 4], other: vec![Some(1.0); 4] });
    rows.push(Row { reference: vec![Some(1.0); 4], other: vec![None, None, Some(1.0), None] });
    let judged = judge(&rows, level(1));
    let p = |cell: usize| judged[cell].map(|judged| judged.p);
    assert_eq!(p(17), Some(2.0 / 70.0));
    assert!((0..17).all(|cell| p(cell).unwrap() > 0.05), "{judged:?}");
    assert_eq!((p(18), p(19)), (Some(1.0), None));
}

#[test]
fn what_could_have_been_seen_is_seen() {
    let (mut random, mut seen) = (Rand32::new(2), 0);
    for _ in 0..50 {
        let mut rows: Vec<Row> = (0..12).map(|_| row(&mut random, 4, 4, 0.02, 0.0)).collect();
        let before = judge(&rows, level(1))[0].unwrap();
        if before.p <= level(1) {
            continue;
        }
        // Moved so that what is estimated is a little more than that.
        let present = |values: &[Option<f64>]| values.iter().flatten().copied().collect::<Vec<_>>();
        let (reference, other) = (present(&rows[0].reference), present(&rows[0].other));
        let now = super::super::shift(&reference, &other).unwrap().estimate;
        let by = before.visible * 1.02 - now;
        rows[0].other.iter_mut().flatten().for_each(|value| *value += by);
        seen += u32::from(judge(&rows, level(1))[0].unwrap().p <= level(1));
    }
    assert!(seen >= 40, "{seen} of 50");
}

#[test]
fn cells_that_all_move_together_are_judged_as_if_there_were_one() {
    let mut random = Rand32::new(3);
    let one = row(&mut random, 4, 4, 0.01, 0.03);
    let alone = judge(std::slice::from_ref(&one), level(1))[0].unwrap().p;
    let many = judge(&vec![one; 30], level(1));
    assert!(many.iter().all(|judged| judged.unwrap().p == alone), "{many:?}");
}
