//! Values at equal steps.

use std::collections::BTreeMap;

use tidegate_forecast::Series;

fn known(series: &Series) -> Vec<(i64, f64)> {
    let history = series.history();
    history.known().map(|(index, value)| (history.start + index as i64 * i64::from(history.step), value)).collect()
}

#[test]
fn what_lies_between_two_values_is_a_gap_that_a_late_one_fills() {
    let mut series = Series::new(10, 100);
    assert!(series.put(1_003, 1.0) && series.put(1_049, 4.0));
    assert_eq!(series.history().values.len(), 5);
    assert_eq!(known(&series), [(1_000, 1.0), (1_040, 4.0)]);
    assert!(series.put(1_025, 2.0));
    assert_eq!(known(&series), [(1_000, 1.0), (1_020, 2.0), (1_040, 4.0)]);
}

#[test]
fn a_time_that_comes_again_has_the_newer_value_and_one_before_the_first_is_rejected() {
    let mut series = Series::new(1, 100);
    assert!(series.put(-5, 1.0) && series.put(-4, 2.0) && series.put(-5, 3.0));
    assert_eq!(known(&series), [(-5, 3.0), (-4, 2.0)]);
    assert!(!series.put(-6, 9.0));
    assert_eq!(series.history().end(), -3);
}

#[test]
fn an_invalid_load_is_rejected_and_changes_nothing() {
    let mut series = Series::new(7, 100);
    let bad = [f64::NAN, f64::INFINITY, f64::NEG_INFINITY, -1.0, -f64::MIN_POSITIVE, 1.000_1e9, f64::MAX];
    assert!(series.put(70, 0.0) && series.put(77, 1e9));
    for value in bad {
        assert!(!series.put(84, value), "{value}");
    }
    for second in [i64::MIN, i64::MIN + 1, -(1 << 60), 1 << 60, i64::MAX] {
        assert!(!series.put(second, 1.0), "{second}");
        assert!(!Series::new(7, 100).put(second, 1.0), "{second}, as the first");
    }
    assert_eq!(known(&series), [(70, 0.0), (77, 1e9)]);
}

#[test]
fn after_a_pause_longer_than_what_is_kept_nothing_of_before_is_left() {
    let mut series = Series::new(1, 10);
    (0..30).for_each(|second| assert!(series.put(second, 1.0)));
    assert!(series.put(1_000_000_000_000, 2.0));
    assert_eq!(known(&series), [(1_000_000_000_000, 2.0)]);
}

#[test]
fn a_day_of_seconds_takes_less_than_a_megabyte_however_long_it_runs() {
    let mut series = Series::new(1, 86_400);
    for second in 0..300_000 {
        series.put(second, 100.0);
    }
    assert_eq!(series.history().values.len(), 86_400);
    assert!(series.allocated_bytes() < 1 << 20, "{} bytes", series.allocated_bytes());
}

/// A map that forgets nothing but what lies behind its window is the definition.
#[test]
fn any_sequence_of_values_leaves_what_a_map_would_hold() {
    for seed in 0..20 {
        let mut random = fastrand::Rng::with_seed(seed);
        let (step, most) = (random.u32(1..400), random.usize(1..60));
        let (mut series, mut map) = (Series::new(step, most), BTreeMap::new());
        let (mut now, mut newest) = (random.i64(-5_000..5_000), i64::MIN);
        for _ in 0..2_000 {
            now += i64::from(step) * [1, 1, 1, 0, -1, 3, -20, 70][random.usize(..8)] + random.i64(-3..=3);
            let value = f64::from(random.u16(..));
            let index = now.div_euclid(i64::from(step));
            let is_first = map.is_empty();
            if series.put(now, value) && (is_first || index > newest - most as i64) {
                map.insert(index, value);
                newest = newest.max(index);
                map.retain(|index, _| *index > newest - most as i64);
            }
            let expected: Vec<(i64, f64)> =
                map.iter().map(|(index, value)| (index * i64::from(step), *value)).collect();
            assert_eq!(known(&series), expected, "seed {seed}");
            assert!(series.history().values.len() <= most, "seed {seed}");
        }
    }
}
