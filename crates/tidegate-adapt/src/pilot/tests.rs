//! The pilot in simulated time.

use serde_json::{Value, json};

use super::*;
use crate::numbers_json::numbers;

const RAILS: Rails = Rails {
    ceiling: None,
    floor: 5.0,
    step: 2.5,
    dwell: Duration::from_secs(1),
    algorithm_dwell: Duration::from_secs(300),
};

fn window(limit: u64) -> Value {
    json!({"algorithm": "fixed", "limit": limit, "window": 1})
}

/// A pilot at 100 requests a second, and what it does.
struct Flight {
    pilot: Pilot,
    counting: Counting,
}

impl Flight {
    fn new(rails: Rails) -> Self {
        let thresholds = Thresholds { latency: Some(Duration::from_millis(50)), errors: 0.05 };
        let pilot = Pilot::new(rails, thresholds, numbers(&window(100)), 0).expect("a rate");
        Self { pilot, counting: Counting::AsMeant }
    }

    /// A recommendation, given to a snapshot of this moment.
    fn receive(&mut self, at_seconds: f64, response: &Value) {
        let recommendation = Recommendation::read(response).expect("it is good");
        self.pilot.receive(recommendation, at(at_seconds), &any).expect("it can be had");
    }

    /// What is decided at this moment, if anything, and the limit from then on.
    fn look(&mut self, at_seconds: f64) -> (Option<Verdict>, u64) {
        let decided = self.pilot.apply_due(at(at_seconds), self.counting, &any);
        (decided.map(|decided| decided.verdict), self.limit())
    }

    fn limit(&self) -> u64 {
        self.pilot.numbers(&any).values().limit.expect("a window")
    }

    fn second(&mut self, offered: u64, rejected: u64, p95_millis: f64) -> Events {
        let latency = vec![offered - rejected];
        let second = Second { is_whole: true, offered, rejected, latency, ..Second::default() };
        let took = p95_millis / 1e3;
        self.pilot.observe(&second, Some(Quantiles { high: took, low: took }), true, &any)
    }
}

#[expect(clippy::unnecessary_wraps, reason = "a test's stand-in for one that rejects")]
fn any(_: &LimitNumbers) -> Result<(), String> {
    Ok(())
}

fn at(seconds: f64) -> Timestamp {
    Timestamp::from_nanos((seconds * 1e9) as u64)
}

fn spike() -> Value {
    json!({"algorithm": "fixed", "limit": 100, "window": 1, "predictedRps": 240, "validFor": 60,
        "schedule": [{"after": 12, "limit": 240}, {"after": 19, "limit": 100}]})
}

#[test]
fn a_schedule_is_followed_and_ends_with_the_operators_numbers() {
    let mut flight = Flight::new(RAILS);
    flight.receive(1_000.0, &spike());
    for (now, verdict, limit) in [
        (1_000.1, Some(Verdict::Unchanged), 100),
        (1_011.9, None, 100),
        (1_012.0, Some(Verdict::Applied), 240),
        (1_013.0, None, 240),
        (1_019.0, Some(Verdict::Applied), 100),
        (1_060.0, None, 100),
    ] {
        assert_eq!(flight.look(now), (verdict, limit), "{now}");
    }
}

#[test]
fn it_wakes_when_a_step_is_due_and_when_it_may_act_again() {
    let mut flight = Flight::new(Rails { dwell: Duration::from_secs(5), ..RAILS });
    assert_eq!(flight.pilot.wakes_at(at(1.0)), None);
    flight.receive(1_000.0, &spike());
    flight.look(1_000.0);
    assert_eq!(flight.pilot.wakes_at(at(1_000.0)), Some(at(1_012.0)));
    flight.look(1_016.5);
    assert_eq!(flight.pilot.wakes_at(at(1_016.5)), Some(at(1_019.0)));
    assert_eq!(flight.look(1_019.0), (None, 240), "it has changed just now");
    assert_eq!(flight.pilot.wakes_at(at(1_019.0)), Some(at(1_021.5)));
    assert_eq!(flight.look(1_021.5), (Some(Verdict::Applied), 100));
}

#[test]
fn late_responses_begin_where_their_schedule_is_by_then() {
    let mut flight = Flight::new(RAILS);
    flight.receive(1_000.0, &spike());
    assert_eq!(flight.look(1_014.0), (Some(Verdict::Applied), 240));
    let mut too_late = Flight::new(RAILS);
    too_late.receive(1_000.0, &spike());
    assert_eq!(too_late.look(1_061.0), (None, 100));
}

#[test]
fn a_new_recommendation_replaces_what_is_left_of_the_one_before() {
    let mut flight = Flight::new(RAILS);
    flight.receive(1_000.0, &spike());
    flight.look(1_000.0);
    flight.receive(1_005.0, &window(120));
    assert_eq!(flight.look(1_005.0), (Some(Verdict::Applied), 120));
    assert_eq!(flight.look(1_012.0), (None, 120));
    flight.receive(
        1_020.0,
        &json!({"algorithm": "fixed", "limit": 150, "window": 1, "validFor": 10,
        "schedule": [{"after": 5, "limit": 200}]}),
    );
    assert_eq!(flight.look(1_020.0), (Some(Verdict::Applied), 150));
    assert_eq!(flight.look(1_025.0), (Some(Verdict::Applied), 200));
    assert_eq!(flight.look(1_030.0), (Some(Verdict::Reverted), 120), "the last one without a schedule");
}

/// One mad value moves nothing further than the step, however long it stands.
#[test]
fn an_update_is_one_step_however_long_it_stands() {
    let mut flight = Flight::new(Rails { ceiling: Some(1e6), ..RAILS });
    flight.receive(1_000.0, &window(1_000_000));
    assert_eq!(flight.look(1_000.0), (Some(Verdict::Capped), 250));
    for second in 1..60 {
        assert_eq!(flight.look(1_000.0 + f64::from(second)), (None, 250));
    }
    flight.receive(1_060.0, &window(1_000_000));
    assert_eq!(flight.look(1_060.0), (Some(Verdict::Capped), 625));
}

#[test]
fn while_redis_is_away_the_newest_waits_and_is_applied_when_it_is_back() {
    let mut flight = Flight::new(RAILS);
    flight.counting = Counting::Nowhere;
    flight.receive(1_000.0, &window(120));
    assert_eq!(flight.look(1_000.0), (Some(Verdict::Deferred), 100));
    assert_eq!(flight.look(1_001.0), (None, 100), "reported once");
    flight.receive(1_030.0, &window(140));
    assert_eq!(flight.look(1_030.0), (Some(Verdict::Deferred), 100));
    assert_eq!(flight.pilot.wakes_at(at(1_030.0)), None);
    flight.counting = Counting::AsMeant;
    assert_eq!(flight.look(1_031.0), (Some(Verdict::Applied), 140));
    // A schedule goes on meanwhile.
    flight.counting = Counting::Nowhere;
    flight.receive(1_040.0, &spike());
    flight.look(1_041.0);
    flight.counting = Counting::AsMeant;
    assert_eq!(flight.look(1_053.0), (Some(Verdict::Applied), 240));
}

#[test]
fn raises_recommended_in_an_attack_wait_for_its_end() {
    let mut flight = Flight::new(RAILS);
    assert!(matches!(flight.second(2_000, 1_900, 1.0).attack, Some(AttackEvent::Begins(_))));
    flight.receive(1_000.0, &window(200));
    assert_eq!(flight.look(1_000.0), (Some(Verdict::Frozen), 100));
    assert_eq!(flight.look(1_001.0), (None, 100), "reported once");
    // Lower it may be, and back to what the operator said.
    flight.receive(1_002.0, &window(60));
    assert_eq!(flight.look(1_002.0), (Some(Verdict::Applied), 60));
    flight.receive(1_004.0, &window(100));
    assert_eq!(flight.look(1_004.0), (Some(Verdict::Applied), 100));
    // Frozen at first, then downward in time.
    flight.receive(
        1_006.0,
        &json!({"algorithm": "fixed", "limit": 200, "window": 1, "validFor": 60,
        "schedule": [{"after": 5, "limit": 80}, {"after": 9, "limit": 220}]}),
    );
    assert_eq!(flight.look(1_006.0), (Some(Verdict::Frozen), 100));
    assert_eq!(flight.look(1_011.0), (Some(Verdict::Applied), 80));
    assert_eq!(flight.look(1_015.0), (Some(Verdict::Frozen), 80));
    let ends = (0..3).filter_map(|_| flight.second(50, 0, 1.0).attack).collect::<Vec<_>>();
    assert_eq!(ends, [AttackEvent::Ends]);
    assert_eq!(flight.look(1_016.0), (Some(Verdict::Capped), 200));
}

/// Spikes far above what the target bears look like an attack; foreseen before, they find the limit at the ceiling.
#[test]
fn a_spike_that_was_foreseen_finds_the_limit_raised_though_it_looks_like_an_attack() {
    let mut flight = Flight::new(Rails { ceiling: Some(250.0), ..RAILS });
    let spike = json!({"algorithm": "fixed", "limit": 100, "window": 1, "predictedRps": 250, "validFor": 60,
        "schedule": [{"after": 12, "limit": 250}, {"after": 19, "limit": 100}]});
    flight.receive(1_000.0, &spike);
    flight.look(1_000.0);
    // It comes a little before its time.
    flight.second(1_000, 900, 1.0);
    assert!(flight.pilot.is_attacked());
    assert_eq!(flight.look(1_012.0), (Some(Verdict::Applied), 250));
    // What is recommended while it lasts neither raises it nor takes it away.
    flight.receive(
        1_013.0,
        &json!({"algorithm": "fixed", "limit": 250, "window": 1, "validFor": 60,
        "schedule": [{"after": 6, "limit": 100}]}),
    );
    assert_eq!(flight.look(1_013.0), (Some(Verdict::Unchanged), 250));
    assert_eq!(flight.look(1_019.0), (Some(Verdict::Applied), 100));
}

#[test]
fn the_measured_ceiling_lies_over_what_is_recommended() {
    let mut flight = Flight::new(RAILS);
    flight.receive(1_000.0, &window(200));
    flight.look(1_000.0);
    let events: Vec<_> = (0..5).filter_map(|_| flight.second(200, 0, 80.0).ceiling).collect();
    assert_eq!(events.iter().map(|event| event.verdict).collect::<Vec<_>>(), [Verdict::Lowered]);
    assert_eq!((events[0].from.values().limit, events[0].to.values().limit), (Some(200), Some(180)));
    assert_eq!(flight.limit(), 145, "0.9 of 0.9 of 0.9");
    // A step of a recommendation counts from what was recommended, not from what is left of it.
    flight.receive(1_010.0, &window(220));
    assert_eq!(flight.look(1_010.0), (Some(Verdict::Applied), 145));
    let released: Vec<_> = (0..30).filter_map(|_| flight.second(100, 0, 5.0).ceiling).collect();
    assert_eq!(released.iter().map(|event| event.verdict).collect::<Vec<_>>(), [Verdict::Released]);
    assert_eq!(flight.limit(), 220);
}

#[test]
fn the_operators_word_ends_everything() {
    let mut flight = Flight::new(RAILS);
    flight.receive(1_000.0, &spike());
    flight.look(1_012.0);
    (0..5).for_each(|_| drop(flight.second(200, 0, 80.0)));
    assert!(flight.limit() < 240);
    assert!(flight.pilot.rebase(numbers(&window(60)), 0));
    assert_eq!((flight.limit(), flight.look(1_019.0)), (60, (None, 60)));
    assert_eq!((flight.pilot.base_rate(), flight.pilot.hard_ceiling()), (60.0, 180.0));
    assert!(!flight.pilot.rebase(numbers(&json!({"algorithm": "concurrency", "limit": 5})), 0));
}

/// While each gateway limits by itself nobody raises, but what was raised for a spike ends with it.
#[test]
fn counted_apart_a_limit_only_falls() {
    let mut flight = Flight::new(RAILS);
    flight.receive(1_000.0, &spike());
    flight.look(1_013.0);
    flight.counting = Counting::Apart;
    assert_eq!(flight.look(1_019.0), (Some(Verdict::Applied), 100));
    flight.receive(1_020.0, &spike());
    assert_eq!(flight.look(1_032.0), (Some(Verdict::Deferred), 100));
    flight.receive(1_033.0, &window(60));
    assert_eq!(flight.look(1_033.0), (Some(Verdict::Applied), 60));
    let mut heir = Flight::new(RAILS);
    let mut raised = Flight::new(RAILS);
    raised.receive(1_000.0, &spike());
    raised.look(1_013.0);
    heir.pilot.inherit(raised.pilot.published().expect("it is raised"), at(1_014.0));
    heir.counting = Counting::Apart;
    assert_eq!((heir.look(1_059.0), heir.look(1_060.0)), ((None, 240), (Some(Verdict::Reverted), 100)));
    // Back to what a recommendation set before would be a raise, too: as far as the operator's numbers it may go.
    let mut tight = Flight::new(RAILS);
    tight.receive(1_000.0, &window(150));
    tight.look(1_000.0);
    let dip = json!({"algorithm": "fixed", "limit": 60, "window": 1, "validFor": 10,
        "schedule": [{"after": 9, "limit": 60}]});
    tight.receive(1_002.0, &dip);
    assert_eq!(tight.look(1_002.0), (Some(Verdict::Applied), 60));
    tight.counting = Counting::Apart;
    assert_eq!(tight.look(1_012.0), (Some(Verdict::Reverted), 100));
}

/// Who wants too much again and again is counted each time, or the alarm would end while the wish goes on.
#[test]
fn what_is_capped_again_is_capped_again() {
    let mut flight = Flight::new(RAILS);
    for now in [1_000.0, 1_010.0, 1_020.0] {
        flight.receive(now, &window(1_000_000));
        let (verdict, _) = flight.look(now);
        assert_eq!(verdict, Some(Verdict::Capped), "{now}");
    }
    assert_eq!(flight.limit(), 300);
}

/// Redis is back, and with it nothing that anybody decided: what was cut meanwhile was cut for a reason.
#[test]
fn who_takes_over_keeps_what_it_has_measured_itself() {
    let mut flight = Flight::new(RAILS);
    (0..8).for_each(|_| drop(flight.second(100, 0, 80.0)));
    let lowered = flight.limit();
    assert!(lowered < 70, "{lowered}");
    flight.pilot.take_over(None, numbers(&window(100)), 0, at(1_000.0));
    assert_eq!(flight.limit(), lowered);
    // Of two bounds the lower counts.
    let mut other = Flight::new(RAILS);
    (0..5).for_each(|_| drop(other.second(100, 0, 80.0)));
    let published = other.pilot.published().expect("a bound");
    flight.pilot.take_over(Some(published.clone()), numbers(&window(100)), 0, at(1_001.0));
    assert_eq!(flight.limit(), lowered);
    // Who follows stands where all stand.
    flight.pilot.follow(Some(published), numbers(&window(100)), 0, at(1_002.0));
    assert_eq!(flight.limit(), other.limit());
    flight.pilot.follow(None, numbers(&window(100)), 0, at(1_003.0));
    assert_eq!(flight.limit(), 100);
}

/// A bucket for a full spike admits little at once. When the spike is over and the window may not be had yet, the
/// bucket admits what it did.
#[test]
fn a_bucket_that_has_to_stand_in_for_a_window_lets_in_as_much_at_once() {
    let mut flight = Flight::new(RAILS);
    let spike = json!({"algorithm": "token", "capacity": 25, "fillRate": 250, "validFor": 10,
        "schedule": [{"after": 5, "fillRate": 250}]});
    flight.receive(1_000.0, &spike);
    let words = |flight: &Flight| flight.pilot.numbers(&any).to_string();
    flight.pilot.apply_due(at(1_000.0), Counting::AsMeant, &any);
    assert_eq!(words(&flight), "algorithm=token, capacity=25, fillRate=250");
    flight.receive(1_002.0, &window(100));
    flight.pilot.apply_due(at(1_002.0), Counting::AsMeant, &any);
    assert_eq!(words(&flight), "algorithm=token, capacity=100, fillRate=100");
    flight.receive(1_004.0, &spike);
    flight.pilot.apply_due(at(1_004.0), Counting::AsMeant, &any);
    assert_eq!(words(&flight), "algorithm=token, capacity=25, fillRate=250");
    flight.pilot.apply_due(at(1_014.0), Counting::AsMeant, &any);
    assert_eq!(words(&flight), "algorithm=token, capacity=100, fillRate=100", "also when nobody speaks any more");
}

/// A cut that nobody feels helps nobody: it would only leave too low a limit behind.
#[test]
fn while_nothing_is_limited_nothing_is_cut() {
    let mut flight = Flight::new(RAILS);
    let second = Second { is_whole: true, offered: 400, latency: vec![400], ..Second::default() };
    let slow = Some(Quantiles { high: 0.5, low: 0.5 });
    for _ in 0..60 {
        let events = flight.pilot.observe(&second, slow, false, &any);
        assert_eq!((events.ceiling, flight.limit()), (None, 100));
    }
    let enforced: Vec<_> = (0..3).filter_map(|_| flight.pilot.observe(&second, slow, true, &any).ceiling).collect();
    assert_eq!(
        (enforced.iter().map(|made| made.verdict).collect::<Vec<_>>(), flight.limit()),
        (vec![Verdict::Lowered], 90)
    );
}

#[test]
fn each_step_has_its_own_reason() {
    let mut flight = Flight::new(RAILS);
    let response = json!({"algorithm": "fixed", "limit": 100, "window": 1, "validFor": 60, "reason": "spikes",
        "schedule": [{"after": 12, "limit": 240, "reason": "a spike comes"}, {"after": 19, "limit": 110}]});
    flight.receive(1_000.0, &response);
    for (now, why) in [(1_000.0, "spikes"), (1_012.0, "a spike comes"), (1_019.0, "spikes")] {
        let decided = flight.pilot.apply_due(at(now), Counting::AsMeant, &any).expect("a decision");
        assert_eq!(decided.why, why, "{now}");
    }
}

#[test]
fn who_takes_over_goes_on_where_the_other_was() {
    let mut first = Flight::new(RAILS);
    first.receive(1_000.0, &window(120));
    first.look(1_000.0);
    first.receive(1_002.0, &spike());
    first.look(1_014.5);
    let (at_end, then) = first.pilot.ends().expect("it ends");
    assert_eq!((at_end, then.values().limit), (at(1_062.0), Some(120)));
    let mut second = Flight::new(RAILS);
    second.pilot.inherit(first.pilot.published().expect("something"), at(1_020.0));
    assert_eq!((second.look(1_020.0), second.pilot.wakes_at(at(1_020.0))), ((None, 240), Some(at(1_062.0))));
    second.counting = Counting::Nowhere;
    assert_eq!(second.look(1_062.0), (None, 240));
    assert_eq!(second.pilot.wakes_at(at(1_062.0)), None, "it waits for Redis, not for a moment that has passed");
    second.counting = Counting::AsMeant;
    assert_eq!(second.look(1_062.0), (Some(Verdict::Reverted), 120));
    assert_eq!(
        (second.look(1_063.0), second.pilot.wakes_at(at(1_063.0)), second.pilot.ends()),
        ((None, 120), None, None)
    );
    // A recommendation of its own replaces all of it.
    let mut third = Flight::new(RAILS);
    third.pilot.inherit(first.pilot.published().expect("something"), at(1_020.0));
    third.receive(1_021.0, &window(200));
    assert_eq!(third.look(1_021.0), (Some(Verdict::Applied), 200));
    assert_eq!(third.look(1_062.0), (None, 200));
}

#[test]
fn an_algorithm_waits_for_its_time() {
    let mut flight = Flight::new(RAILS);
    let token = json!({"algorithm": "token", "capacity": 200, "fillRate": 80});
    flight.receive(0.0, &token);
    let decided = flight.pilot.apply_due(at(0.0), Counting::AsMeant, &any).expect("a decision");
    assert_eq!(
        (decided.verdict, decided.to.to_string()),
        (Verdict::Applied, "algorithm=token, capacity=200, fillRate=80".to_owned())
    );
    flight.receive(299.0, &window(90));
    let decided = flight.pilot.apply_due(at(299.0), Counting::AsMeant, &any).expect("a decision");
    assert_eq!(decided.to.to_string(), "algorithm=token, capacity=90, fillRate=90");
    assert!(decided.why.contains("`fixed` has to wait"), "{}", decided.why);
    flight.receive(300.0, &window(95));
    assert_eq!(flight.look(300.0), (Some(Verdict::Applied), 95));
}

#[test]
fn what_can_not_be_had_at_any_step_is_rejected_whole() {
    let mut flight = Flight::new(RAILS);
    flight.receive(0.0, &window(120));
    flight.look(0.0);
    let picky = |numbers: &LimitNumbers| {
        if numbers.values().limit == Some(240) { Err("too much".to_owned()) } else { Ok(()) }
    };
    let recommendation = Recommendation::read(&spike()).expect("it is good");
    assert_eq!(flight.pilot.receive(recommendation, at(5.0), &picky), Err("too much".to_owned()));
    assert_eq!(flight.look(20.0), (None, 120), "the one before stays");
}

#[test]
fn what_is_measured_is_left_apart_and_grows_back_at_the_next_leader() {
    let mut first = Flight::new(RAILS);
    assert_eq!(first.pilot.published(), None);
    first.receive(1_000.0, &window(200));
    first.look(1_000.0);
    (0..5).for_each(|_| drop(first.second(200, 0, 80.0)));
    let published = first.pilot.published().expect("something");
    assert_eq!(published.numbers.values().limit, Some(200));
    let mut follower = Flight::new(RAILS).pilot;
    follower.inherit(published.clone(), at(1_006.0));
    assert_eq!(follower.numbers(&any), first.pilot.numbers(&any));
    let mut heir = Flight::new(RAILS);
    heir.pilot.inherit(published, at(1_010.0));
    assert_eq!(heir.limit(), 145);
    (0..30).for_each(|_| drop(heir.second(100, 0, 5.0)));
    assert_eq!((heir.limit(), heir.pilot.measured_ceiling()), (200, None));
}

#[test]
fn what_others_decide_is_followed_within_ones_own_rails() {
    let pilot = Flight::new(RAILS).pilot;
    let now = at(1_000.0);
    let vetted = |numbers: LimitNumbers, bound| {
        let ends = Some((at(1e9), numbers.clone()));
        let vetted = pilot.vetted(PublishedLimit { numbers, bound, ends }, now, &any).expect("something");
        let (ends, then) = vetted.ends.expect("an end");
        assert_eq!((ends, &then), (at(87_400.0), &vetted.numbers));
        (vetted.numbers.to_string(), vetted.bound)
    };
    for (wanted, found) in [
        (window(240), "algorithm=fixed, limit=240, window=1"),
        (window(1_000_000), "algorithm=fixed, limit=300, window=1"),
        (window(1), "algorithm=fixed, limit=5, window=1"),
        (json!({"algorithm": "fixed", "limit": 1, "window": 0.001}), "algorithm=fixed, limit=5, window=0.016667"),
        (
            json!({"algorithm": "token", "capacity": 1e6 as u64, "fillRate": 90}),
            "algorithm=token, capacity=900, fillRate=90",
        ),
    ] {
        assert_eq!(vetted(numbers(&wanted), None).0, found);
    }
    assert_eq!(vetted(numbers(&window(240)), Some(1e-9)).1, Some(5.0));
    let concurrency = numbers(&json!({"algorithm": "concurrency", "limit": 5}));
    assert_eq!(pilot.vetted(PublishedLimit { numbers: concurrency, bound: None, ends: None }, now, &any), None);
    let none = |_: &LimitNumbers| Err("no room".to_owned());
    assert_eq!(
        pilot.vetted(PublishedLimit { numbers: numbers(&window(240)), bound: None, ends: None }, now, &none),
        None
    );
}

#[test]
fn an_algorithm_whose_time_is_over_waits_for_the_next_one_too() {
    let mut flight = Flight::new(RAILS);
    let token = json!({"algorithm": "token", "capacity": 200, "fillRate": 80, "validFor": 1,
        "schedule": [{"after": 0.5, "capacity": 200, "fillRate": 80}]});
    flight.receive(1_000.0, &token);
    let mut look = |now| {
        let decided = flight.pilot.apply_due(at(now), Counting::AsMeant, &any);
        (decided.map(|decided| decided.verdict), flight.pilot.numbers(&any).to_string(), flight.pilot.wakes_at(at(now)))
    };
    assert_eq!(look(1_000.0).1, "algorithm=token, capacity=200, fillRate=80");
    look(1_000.5);
    let back = "algorithm=token, capacity=100, fillRate=100".to_owned();
    assert_eq!(look(1_001.0), (Some(Verdict::Reverted), back.clone(), Some(at(1_300.0))));
    assert_eq!(look(1_299.9), (None, back, Some(at(1_300.0))));
    let base = numbers(&window(100)).to_string();
    assert_eq!(look(1_300.0), (Some(Verdict::Reverted), base, None));
    assert_eq!(flight.pilot.published(), None);
}
