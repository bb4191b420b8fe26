//! The advice as a table: what is known, and what the limits should be.
#![allow(clippy::cast_precision_loss, clippy::float_cmp, reason = "whole numbers, far below 2^52")]

use serde_json::{Value, json};
use tidegate_forecast::forecaster::LEVELS;
use tidegate_forecast::{Advice, Bounds, Bucketed, Forecast, Numbers, Series, Situation, Windowed, advise};

const NOW: i64 = 1_763_344_800;

/// A forecast without uncertainty.
fn sure(path: &[f64]) -> Forecast {
    let highest = path.iter().copied().fold(0.0, f64::max);
    Forecast {
        start: NOW,
        step: 1,
        mean: path.to_vec(),
        quantiles: vec![path.to_vec(); LEVELS.len()],
        peak: vec![highest; LEVELS.len()],
        members: Vec::new(),
        seasons: Vec::new(),
    }
}

fn window(algorithm: Windowed, limit: u64, window: f64) -> Numbers {
    Numbers::Window { algorithm, limit, window }
}

fn bucket(capacity: u64, fill_rate: f64) -> Numbers {
    Numbers::Bucket { algorithm: Bucketed::Token, capacity, fill_rate }
}

struct Case {
    base: Numbers,
    history: Vec<f64>,
    forecast: Vec<f64>,
    bounds: Bounds,
}

const BOUNDS: Bounds = Bounds { capacity: None, ceiling: None, floor: 5.0, may_switch: true };

fn bears(capacity: f64) -> Bounds {
    Bounds { capacity: Some(capacity), ..BOUNDS }
}

fn case(base: Numbers, forecast: Vec<f64>, bounds: Bounds) -> Case {
    Case { base, history: vec![100.0; 60], forecast, bounds }
}

fn advice(case: &Case) -> Advice {
    let mut series = Series::new(1, 3_600);
    for (second, value) in (NOW - case.history.len() as i64..).zip(&case.history) {
        series.put(second, *value);
    }
    advise(&Situation {
        timestamp: NOW as f64,
        forecast: Some(&sure(&case.forecast)),
        history: series.history(),
        load: series.history(),
        numbers: &case.base,
        base: &case.base,
        bounds: case.bounds,
    })
}

fn has(advice: &Advice, fields: &Value) {
    let response = advice.to_json();
    for (field, value) in fields.as_object().expect("an object") {
        let (is, wanted) = (response[field].as_f64(), value.as_f64());
        let same = if wanted.is_some() { is == wanted } else { response[field] == *value };
        assert!(same, "{field} is {} instead of {value}: {response}", response[field]);
    }
    assert!(response["reason"].as_str().is_some_and(|reason| reason.len() > 10), "{response}");
}

#[test]
fn the_seed_s_first_example_a_rise_that_can_be_borne() {
    let advice = advice(&case(window(Windowed::Fixed, 100, 1.0), vec![130.0; 60], bears(200.0)));
    has(&advice, &json!({"algorithm": "fixed", "window": 1, "limit": 130, "predictedRps": 130, "validFor": 60}));
}

#[test]
fn the_seed_s_second_example_a_rise_that_can_t_be_borne() {
    let advice = advice(&case(window(Windowed::Sliding, 6_000, 60.0), vec![300.0; 60], bears(100.0)));
    has(&advice, &json!({"algorithm": "sliding", "window": 60, "limit": 4800, "predictedRps": 300, "validFor": 30}));
    assert!(advice.reason.contains("3.0 times what the target bears"), "{}", advice.reason);
}

#[test]
fn the_seed_s_third_example_bursts_get_a_bucket() {
    // Four seconds at twice the mean, again and again.
    let history: Vec<f64> = (0..240).map(|second| if second % 20 < 4 { 100.0 } else { 37.5 }).collect();
    let base = window(Windowed::Fixed, 1_000, 60.0);
    let advice = advice(&Case { history, ..case(base, vec![50.0; 60], BOUNDS) });
    has(&advice, &json!({"algorithm": "token", "capacity": 200, "fillRate": 50, "predictedRps": 50}));
    assert!(advice.reason.contains("bursts of up to 4 s"), "{}", advice.reason);
    // And when nobody speaks any more it refills at the operator's rate.
    let last = advice.schedule.last().expect("an end");
    assert_eq!((last.after, last.numbers.clone()), (60.0, bucket(200, 16.667)));
}

#[test]
fn what_is_within_the_operator_s_limit_changes_nothing() {
    for base in [window(Windowed::Fixed, 100, 1.0), window(Windowed::Sliding, 6_000, 60.0), bucket(50, 100.0)] {
        let advice = advice(&case(base.clone(), vec![80.0; 60], bears(300.0)));
        assert_eq!(advice.numbers, base);
        assert_eq!(advice.schedule, []);
    }
}

#[test]
fn a_spike_ahead_is_a_raise_in_time_and_an_end() {
    let mut path = vec![60.0; 60];
    path[20..25].fill(250.0);
    let advice = advice(&case(window(Windowed::Fixed, 100, 1.0), path, bears(400.0)));
    assert_eq!(advice.numbers, window(Windowed::Fixed, 100, 1.0));
    let steps: Vec<(f64, u64)> = advice.to_json()["schedule"]
        .as_array()
        .expect("steps")
        .iter()
        .map(|step| (step["after"].as_f64().expect("a time"), step["limit"].as_u64().expect("a limit")))
        .collect();
    assert_eq!(steps, [(18.0, 250), (27.0, 100)]);
    let reasons: Vec<&str> = advice.schedule.iter().map(|step| step.reason.as_str()).collect();
    assert_eq!(reasons, ["a rise is due for 9 s; 19 of 20 of its seconds stay below 250 req/s", "the rise is over"]);
    let expected = "the highest second ahead is expected at 250 req/s (9 of 10 times below 250): a rise is due in \
                    18 s; 19 of 20 of its seconds stay below 250 req/s";
    assert_eq!(advice.reason, expected);
}

#[test]
fn nothing_is_advised_above_the_capacity_or_the_gateway_s_ceiling_or_below_the_floor() {
    let base = window(Windowed::Fixed, 100, 1.0);
    let high = |bounds| advice(&case(base.clone(), vec![900.0; 60], bounds)).numbers.rate();
    assert_eq!(high(bears(250.0)), 250.0);
    assert_eq!(high(Bounds { ceiling: Some(180.0), ..bears(250.0) }), 180.0);
    assert_eq!(high(BOUNDS), 900.0);
    // An operator's limit above what the target bears is one that does not protect it.
    let calm = |bounds| advice(&case(base.clone(), vec![10.0; 60], bounds)).numbers.rate();
    assert_eq!(calm(bears(70.0)), 70.0);
    let slow = window(Windowed::Sliding, 6_000, 60.0);
    let tight = advice(&case(slow, vec![900.0; 60], Bounds { floor: 30.0, ..bears(20.0) }));
    assert_eq!(tight.numbers.rate(), 30.0);
}

#[test]
fn a_limit_that_lets_requests_through_evenly_is_not_tightened() {
    for base in [window(Windowed::Fixed, 100, 1.0), bucket(50, 100.0)] {
        let advice = advice(&case(base, vec![900.0; 60], bears(250.0)));
        assert_eq!(advice.numbers.rate(), 250.0);
        assert!(advice.reason.contains("250 req/s of it can be admitted"), "{}", advice.reason);
    }
}

/// A window would let a second's worth in within a moment, and a short queue at the target overflow.
#[test]
fn a_short_window_that_will_be_full_becomes_a_bucket_that_lets_in_evenly() {
    let mut path = vec![60.0; 60];
    path[20..25].fill(1_000.0);
    for algorithm in [Windowed::Fixed, Windowed::Sliding, Windowed::SlidingLog] {
        let base = window(algorithm, 100, 1.0);
        let advised = advice(&case(base.clone(), path.clone(), bears(250.0)));
        assert_eq!(advised.numbers, bucket(100, 100.0), "in quiet times as much at once as the operator admits");
        let steps: Vec<_> = advised.schedule.iter().map(|step| (step.after, step.numbers.clone())).collect();
        assert_eq!(steps, [(18.0, bucket(25, 250.0)), (27.0, bucket(100, 100.0))]);
        assert!(advised.reason.contains("a bucket admits it evenly"), "{}", advised.reason);
        let kept = advice(&case(base.clone(), path.clone(), Bounds { may_switch: false, ..bears(250.0) }));
        assert_eq!(kept.numbers, base);
        // What the target bears is not known, or is more than comes.
        for bounds in [BOUNDS, bears(2_000.0)] {
            assert_eq!(advice(&case(base.clone(), path.clone(), bounds)).numbers, base);
        }
        // An operator who admits all that it bears.
        let all = advice(&case(window(algorithm, 400, 1.0), path.clone(), bears(250.0)));
        assert_eq!((all.numbers, all.schedule), (bucket(25, 250.0), vec![]));
    }
    // A window of a moment is even by itself, and so is one whose worth the target bears at once.
    for (base, bounds) in [
        (window(Windowed::Fixed, 5, 0.05), bears(250.0)),
        (window(Windowed::Fixed, 100, 1.0), Bounds { ceiling: Some(100.0), ..bears(1_000.0) }),
    ] {
        assert_eq!(advice(&case(base.clone(), path.clone(), bounds)).numbers, base);
    }
    // A ceiling below what the target bears: what comes at once is the target's to bear, not the ceiling's.
    let ceiling = Bounds { ceiling: Some(300.0), ..bears(2_000.0) };
    let below = advice(&case(window(Windowed::Fixed, 100, 1.0), path.clone(), ceiling));
    assert_eq!(below.schedule[0].numbers, bucket(100, 300.0));
    // A small target: by chance a bucket of two would reject what its rate admits.
    let small = advice(&case(window(Windowed::Fixed, 15, 1.0), path, bears(20.0)));
    assert_eq!(small.numbers, bucket(10, 20.0));
}

#[test]
fn only_the_rise_that_fills_it_is_evened_and_there_is_no_to_and_fro() {
    let mut path = vec![60.0; 60];
    path[10..15].fill(120.0);
    path[40..45].fill(1_000.0);
    let base = window(Windowed::Fixed, 100, 1.0);
    let advised = advice(&case(base.clone(), path, bears(250.0)));
    let steps: Vec<Numbers> = advised.schedule.iter().map(|step| step.numbers.clone()).collect();
    assert_eq!(steps, [bucket(100, 120.0), bucket(100, 100.0), bucket(25, 250.0), bucket(100, 100.0)]);
    // Nearly full: a window stays one, and a bucket too.
    let nearly = sure(&[220.0; 60]);
    let series = Series::new(1, 10);
    for (in_force, algorithm) in [(base.clone(), "fixed"), (bucket(100, 100.0), "token")] {
        let advised = advise(&Situation {
            timestamp: NOW as f64,
            forecast: Some(&nearly),
            history: series.history(),
            load: series.history(),
            numbers: &in_force,
            base: &base,
            bounds: bears(250.0),
        });
        assert_eq!(advised.numbers.algorithm(), algorithm);
    }
}

#[test]
fn a_long_rise_over_a_fixed_window_gets_a_sliding_one_unless_that_is_not_wanted() {
    let base = window(Windowed::Fixed, 6_000, 60.0);
    let rise: Vec<f64> = (0..60).map(|second| 100.0 + 2.0 * f64::from(second)).collect();
    let advised = advice(&case(base.clone(), rise.clone(), bears(400.0)));
    assert_eq!(advised.numbers.algorithm(), "sliding");
    let kept = advice(&case(base, rise, Bounds { may_switch: false, ..bears(400.0) }));
    assert_eq!(kept.numbers.algorithm(), "fixed");
}

#[test]
fn a_raise_without_an_end_in_sight_ends_with_the_forecast() {
    let mut path = vec![60.0; 60];
    path[50..].fill(200.0);
    let advice = advice(&case(window(Windowed::Fixed, 100, 1.0), path, bears(400.0)));
    let last = advice.schedule.last().expect("an end");
    assert_eq!((last.after, last.numbers.rate()), (advice.valid_for, 100.0));
}

#[test]
fn steps_come_in_order_within_their_time() {
    let mut random = fastrand::Rng::with_seed(11);
    for _ in 0..2_000 {
        let path: Vec<f64> =
            (0..60).map(|_| if random.u8(..8) == 0 { random.f64() * 1_000.0 } else { random.f64() * 120.0 }).collect();
        let base = match random.u8(..3) {
            0 => window(Windowed::Fixed, 100, 1.0),
            1 => window(Windowed::Sliding, 6_000, 60.0),
            _ => bucket(random.u64(1..500), 100.0),
        };
        let advice = advice(&case(base, path, bears(random.f64() * 500.0 + 1.0)));
        assert!(advice.schedule.len() <= 64);
        let times: Vec<f64> = advice.schedule.iter().map(|step| step.after).collect();
        assert!(times.windows(2).all(|pair| pair[0] < pair[1]), "{times:?}");
        assert!(times.iter().all(|after| *after > 0.0 && *after <= advice.valid_for), "{times:?} {}", advice.valid_for);
    }
}

/// A limit of whole requests over a short window would be rounded up.
#[test]
fn nothing_is_rounded_above_what_can_be_borne() {
    let mut random = fastrand::Rng::with_seed(5);
    for _ in 0..2_000 {
        let seconds = 10_f64.powf(random.f64() * 4.0 - 2.0);
        let capacity = 2.0 / seconds + random.f64() * 500.0;
        let base = window(Windowed::Sliding, random.u64(1..1_000), seconds);
        let advice = advice(&case(base, vec![random.f64() * 900.0; 60], bears(capacity)));
        let all = advice.schedule.iter().map(|step| &step.numbers).chain([&advice.numbers]);
        for numbers in all {
            assert!(numbers.rate() <= capacity.max(5.0) * 1.000_001, "{numbers:?} above {capacity}");
        }
    }
}

/// A gateway that does not know its last seconds gets a forecast that begins in the past.
#[test]
fn a_rise_that_is_over_ends_none_that_is_on() {
    let mut path = vec![60.0; 60];
    path[..2].fill(250.0);
    path[12..20].fill(250.0);
    let mut forecast = sure(&path);
    forecast.start = NOW - 15;
    let (base, series) = (window(Windowed::Fixed, 100, 1.0), Series::new(1, 10));
    let advice = advise(&Situation {
        timestamp: NOW as f64,
        forecast: Some(&forecast),
        history: series.history(),
        load: series.history(),
        numbers: &base,
        base: &base,
        bounds: bears(400.0),
    });
    assert_eq!(advice.numbers.rate(), 250.0, "{advice:?}");
    assert_eq!(advice.schedule.len(), 1);
    assert_eq!((advice.schedule[0].after, advice.schedule[0].numbers.rate()), (7.0, 100.0));
}
