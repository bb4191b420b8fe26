//! Cycles: found to a fraction of a step, and not found where there are none.

use tidegate_forecast::{Series, seasons};

use crate::generated::{burst, by_second, poisson, sine, walk};
use crate::with_gaps;

/// The length of the strongest cycle.
fn found(series: &Series) -> Option<f64> {
    seasons(series.history()).first().map(|season| season.period)
}

/// So exact must a length be that over the whole series a cycle is at most so many steps away from where it is.
fn assert_found(name: &str, series: &Series, period: f64, most_off: f64) {
    let cycles = series.history().values.len() as f64 / period;
    let found = found(series).unwrap_or_else(|| panic!("{name}: no cycle"));
    let off = (found - period).abs() * cycles;
    assert!(off <= most_off, "{name}: found {found} for {period}, {off:.2} steps off after {cycles:.1} cycles");
}

fn seconds(count: u32) -> impl Iterator<Item = f64> {
    (0..count).map(f64::from)
}

#[test]
fn bursts_are_found_to_a_step_over_the_whole_series_whole_and_fractional() {
    let random = &mut fastrand::Rng::with_seed(1);
    for period in [10.0, 37.4, 45.25, 60.0, 61.7, 120.0, 299.0] {
        let at = |second| burst(second, period, period / 6.0, 100.0, 500.0);
        assert_found("even", &by_second(seconds(2_400).map(at)), period, 1.0);
        let counted = by_second(seconds(2_400).map(|second| poisson(random, at(second))));
        assert_found("counted", &counted, period, 1.0);
        assert_found("with gaps", &with_gaps(&counted, 0.2, random), period, 1.0);
    }
}

#[test]
fn sines_are_found_to_a_twentieth_of_a_cycle_over_the_whole_series() {
    let random = &mut fastrand::Rng::with_seed(2);
    for period in [24.0, 47.3, 90.0, 288.0, 601.5] {
        let at = |second| sine(second, period, 100.0, 500.0);
        assert_found("even", &by_second(seconds(3_600).map(at)), period, period / 20.0);
        let counted = by_second(seconds(3_600).map(|second| poisson(random, at(second))));
        assert_found("counted", &counted, period, period / 20.0);
        assert_found("with gaps", &with_gaps(&counted, 0.2, random), period, period / 20.0);
    }
}

#[test]
fn three_cycles_are_enough() {
    let random = &mut fastrand::Rng::with_seed(3);
    for period in [30.0, 60.0, 100.0] {
        let at = |second| burst(second, period, period / 5.0, 100.0, 400.0);
        let counted = by_second(seconds(3 * period as u32).map(|second| poisson(random, at(second))));
        assert_found("burst", &counted, period, 2.0);
        let at = |second| sine(second, period, 100.0, 400.0);
        let counted = by_second(seconds(3 * period as u32).map(|second| poisson(random, at(second))));
        assert_found("sine", &counted, period, period / 10.0);
    }
}

#[test]
fn a_long_gap_hides_no_cycle() {
    let random = &mut fastrand::Rng::with_seed(4);
    let mut series = Series::new(1, 10_000);
    for second in (0..1_800).filter(|second| !(600..1_000).contains(second)) {
        series.put(second, poisson(random, burst(second as f64, 60.0, 10.0, 100.0, 500.0)));
    }
    assert_found("burst", &series, 60.0, 1.0);
}

#[test]
fn a_cycle_upon_a_trend_is_found() {
    let random = &mut fastrand::Rng::with_seed(5);
    let at = |second: f64| second / 5.0 + sine(second, 80.0, 100.0, 300.0);
    assert_found("trend", &by_second(seconds(2_400).map(|second| poisson(random, at(second)))), 80.0, 8.0);
}

#[test]
fn two_cycles_at_once_are_both_found() {
    let random = &mut fastrand::Rng::with_seed(6);
    let at = |second| sine(second, 500.0, 100.0, 500.0) + burst(second, 110.0, 20.0, 0.0, 200.0);
    let series = by_second(seconds(2_000).map(|second| poisson(random, at(second))));
    let mut periods: Vec<f64> = seasons(series.history()).iter().map(|season| season.period).collect();
    periods.sort_by(f64::total_cmp);
    assert_eq!(periods.len(), 2, "{periods:?}");
    assert!((periods[0] - 110.0).abs() < 1.0 && (periods[1] - 500.0).abs() < 15.0, "{periods:?}");
}

#[test]
fn a_cycle_too_long_for_full_resolution_is_found_among_means() {
    let random = &mut fastrand::Rng::with_seed(7);
    let at = |second| sine(second, 5_000.0, 100.0, 500.0);
    assert_found("long", &by_second(seconds(20_000).map(|second| poisson(random, at(second)))), 5_000.0, 500.0);
}

#[test]
fn nothing_is_found_where_there_is_nothing() {
    let random = &mut fastrand::Rng::with_seed(8);
    for length in [0, 1, 2, 5, 8, 100, 5_000] {
        assert_eq!(found(&by_second(vec![7.0; length])), None, "constant, {length} long");
        assert_eq!(found(&by_second(vec![0.0; length])), None, "nothing, {length} long");
    }
    for length in [3, 6, 10, 40, 300, 2_400] {
        let counted = (0..20).filter(|_| found(&by_second((0..length).map(|_| poisson(random, 200.0)))).is_some());
        let counted = counted.count();
        assert!(counted <= 1, "{counted} of 20 in noise, {length} long");
    }
    let mut gaps = Series::new(1, 10_000);
    gaps.put(0, 5.0);
    gaps.put(5_000, 5.0);
    assert_eq!(found(&gaps), None);
    assert_eq!(found(&Series::new(1, 10)), None);
}

#[test]
fn few_random_walks_look_like_cycles() {
    let mistaken = (0..40_u64).filter(|seed| {
        let random = &mut fastrand::Rng::with_seed(100 + seed);
        found(&by_second(walk(random).take(2_400))).is_some()
    });
    let mistaken = mistaken.count();
    assert!(mistaken <= 10, "{mistaken} of 40");
}
