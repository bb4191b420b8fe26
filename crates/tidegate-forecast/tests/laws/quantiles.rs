//! Quantiles cover what they promise.

use tidegate_forecast::backtest::{Outcome, backtest};
use tidegate_forecast::{Forecaster, Settings};

use crate::generated::{Generated, all};

fn judged(generated: &Generated) -> Outcome {
    let settings = Settings::default();
    let history = generated.series.history();
    backtest(history, settings, settings.warm_up(), Forecaster::new(settings)).expect("long enough")
}

/// As `make forecast-table` judges it, of other load.
fn assert_combination_is_worth_it(generated: &Generated, outcome: &Outcome) {
    let mase = |name: &str| outcome.score(name).expect("a score").mase;
    let (together, best) = (mase("combination"), outcome.best_simple().expect("one").mase);
    assert!(together <= best * 1.05 || together <= best + 0.01, "{}: {together}, best {best}", generated.name);
    assert!(!generated.is_periodic || together <= 0.7 * mase("last"), "{}: {together}", generated.name);
}

/// Generated load of every kind, with what is promised for each: near for counted load; a walk has no level to learn
/// from, and what is never wrong has quantiles that are all the same.
#[test]
fn as_many_values_lie_below_a_quantile_as_it_promises_and_the_combination_is_as_good_as_the_best() {
    for generated in all(11) {
        let (name, outcome) = (generated.name, judged(&generated));
        assert_combination_is_worth_it(&generated, &outcome);
        let most_off = match name {
            "burst, even" => continue,
            "walk" | "walk, Poisson" => 0.1,
            _ => 0.04,
        };
        for score in &outcome.quantiles {
            let off = (score.covered - score.level).abs();
            assert!(off <= most_off, "{name}: {} of {}", score.covered, score.level);
        }
        assert!((outcome.within_band - 0.8).abs() <= 1.5 * most_off, "{name}: {} in 10–90 %", outcome.within_band);
        for score in outcome.peaks.iter().filter(|score| score.level >= 0.9) {
            let covered = score.covered;
            assert!((score.level - 0.15..=1.0).contains(&covered), "{name}: {covered} of {} peaks", score.level);
        }
    }
}

#[test]
fn too_short_a_series_can_not_be_judged_and_a_gap_is_judged_once() {
    let generated = all(13).swap_remove(1);
    let history = generated.series.history();
    let settings = Settings::default();
    let judge = |values: &[f32]| {
        let history = tidegate_forecast::History { values, ..history };
        backtest(history, settings, 300, Forecaster::new(settings))
    };
    assert_eq!(judge(&history.values[..300]), None);
    assert_eq!(judge(&[]), None);
    assert_eq!(judge(&[f32::NAN; 1_000]), None);
    let mut values = history.values[..1_000].to_vec();
    let whole = judge(&values).expect("long enough").origins;
    values[500..600].fill(f32::NAN);
    let gap = judge(&values).expect("long enough").origins;
    assert!((whole - 22..whole - 15).contains(&gap), "{gap} of {whole}");
}
