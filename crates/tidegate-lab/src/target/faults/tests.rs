use super::*;

const TIME: Duration = Duration::from_millis(5);

fn read(text: &str) -> (Faults, Option<Duration>) {
    Faults::read(text.as_bytes()).unwrap_or_else(|problems| panic!("{text}: {problems:?}"))
}

#[test]
fn every_fault_is_read() {
    let none = Faults::default();
    for (text, faults) in [
        ("{}", none),
        (r#"{"errors": 0.5}"#, Faults { errors: 0.5, ..none }),
        (r#"{"errors": 0.5, "errorStatus": 503}"#, Faults { errors: 0.5, error_status: 503, ..none }),
        (r#"{"errorStatus": 429}"#, Faults { errors: 1.0, error_status: 429, ..none }),
        (r#"{"slowness": {"factor": 10}}"#, Faults { slowness: 10.0, ..none }),
        (r#"{"delay": 0.2}"#, Faults { delay: Duration::from_millis(200), ..none }),
        (r#"{"hang": true}"#, Faults { hang: true, ..none }),
        (r#"{"hang": null, "errors": null}"#, none),
    ] {
        assert_eq!(read(text), (faults, None), "{text}");
        assert_eq!(faults.are_on(), faults != none);
    }
    assert_eq!(read(r#"{"hang": true, "for": 1.5}"#).1, Some(Duration::from_millis(1_500)));
}

#[test]
fn what_is_shown_can_be_sent_back() {
    for text in [r#"{"errors": 0.25, "errorStatus": 502, "slowness": {"factor": 3}, "delay": 0.5, "for": 9}"#, "{}"] {
        let (faults, span) = read(text);
        assert_eq!(read(&faults.to_json(span).to_string()), (faults, span));
    }
}

#[test]
fn everything_that_is_wrong_is_reported_with_what_is_expected() {
    for (text, expected) in [
        ("", ": invalid JSON"),
        ("[]", ": must be an object, got []"),
        ("NaN", ": invalid JSON"),
        (r#"{"errors": NaN}"#, ": invalid JSON"),
        (r#"{"errors": 1, "errors": 0}"#, "the key `errors` is there twice"),
        (r#"{"errors": 1.01}"#, "errors: must be a share from 0 to 1, got 1.01"),
        (r#"{"errors": -0.1}"#, "errors: must be a share from 0 to 1, got -0.1"),
        (r#"{"errors": "half"}"#, "errors: must be a share from 0 to 1, got \"half\""),
        (r#"{"errors": true}"#, "errors: must be a share from 0 to 1, got true"),
        (r#"{"errorStatus": 200}"#, "errorStatus: must be a status from 400 to 599, got 200"),
        (r#"{"errorStatus": 500.5}"#, "errorStatus: must be a status from 400 to 599, got 500.5"),
        (r#"{"slowness": 10}"#, "slowness: must be an object, got 10"),
        (r#"{"slowness": {}}"#, "slowness.factor: is missing; must be a factor from 1 to 1000"),
        (r#"{"slowness": {"factor": 0.5}}"#, "slowness.factor: must be a factor from 1 to 1000, got 0.5"),
        (r#"{"slowness": {"factor": 2, "add": 1}}"#, "slowness.add: is unknown; known fields: factor"),
        (r#"{"delay": -1}"#, "delay: must be seconds from 0 to 3600, got -1"),
        (r#"{"hang": 1}"#, "hang: must be true or false, got 1"),
        (r#"{"hang": true, "for": 0}"#, "for: must be seconds from 0.001 to 86400, got 0"),
        (r#"{"for": 5}"#, "for: must come with a fault"),
        (r#"{"crash": true}"#, "crash: is unknown; known fields: errorStatus, errors, slowness, delay, hang, for"),
    ] {
        let problems = Faults::read(text.as_bytes()).expect_err(text);
        let lines: Vec<String> =
            problems.iter().map(|problem| format!("{}: {}", problem.path, problem.message)).collect();
        assert!(lines.iter().any(|line| line.contains(expected)), "{text}: {lines:?}");
    }
    let problems = Faults::read(br#"{"errors": 2, "hang": 1, "delay": -1, "x": 0}"#).expect_err("four");
    assert_eq!(problems.len(), 4, "all at once");
}

#[test]
fn slowness_multiplies_and_delay_is_on_top() {
    let faults = Faults { slowness: 10.0, delay: TIME, ..Faults::default() };
    assert_eq!(faults.slowed(TIME), TIME * 11);
    assert_eq!(Faults::default().slowed(TIME), TIME);
}

#[test]
fn as_many_fail_as_shall() {
    let mut random = Rng::with_seed(5);
    let faults = Faults { errors: 0.25, error_status: 502, ..Faults::default() };
    let failed = (0..100_000).filter(|_| faults.draw_error(&mut random) == Some(502)).count();
    // Five standard deviations of a binomial distribution: 5 · sqrt(100,000 · 0.25 · 0.75).
    assert!(failed.abs_diff(25_000) < 685, "{failed}");
    let all = Faults { errors: 1.0, ..faults };
    assert!((0..10_000).all(|_| all.draw_error(&mut random).is_some()));
    let before = random.clone();
    assert_eq!(Faults::default().draw_error(&mut random), None);
    assert_eq!(random, before, "without errors nothing is drawn at random");
}
