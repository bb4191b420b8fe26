//! Scenarios: those that come with the lab, what can be wrong with others, and what simulated time promises.
#![allow(clippy::cast_precision_loss, clippy::float_cmp, reason = "counts far below 2^52")]

use serde_json::Value;
use tidegate_lab::report::{Kind, Run, Status};
use tidegate_lab::{DEMO, Report, SCENARIOS, Scenario, Scores, Variant, simulate};
use tidegate_policy::Algorithm;

const SMALL: &str = "
duration: 5
limit: {rate: 100, window: 1, burst: 20}
target: {service_time: 5ms, workers: 2, queue: 64}
load: {profile: {type: constant, params: {rps: 300}}}
";

fn small(more: &str) -> Scenario {
    Scenario::read("small", &format!("{SMALL}{more}")).unwrap_or_else(|error| panic!("{error}"))
}

fn of(algorithm: Algorithm) -> Variant {
    Variant { algorithm: Some(algorithm), adaptation: false, gateway: None }
}

fn report(seed: Option<u64>) -> Report {
    report_of(&SCENARIOS, seed)
}

fn report_of(scenarios: &[(&str, &str)], seed: Option<u64>) -> Report {
    let mut report = Report::new(Kind::Simulated, seed, None);
    for (name, text) in scenarios {
        let scenario = Scenario::read(name, text).unwrap_or_else(|error| panic!("{error}"));
        let scenario = seed.map_or(Ok(scenario.clone()), |seed| scenario.with_seed(seed)).expect("any seed is good");
        let runs = Variant::all(&scenario);
        let runs = runs.into_iter().map(|it| Run::of(&scenario, it, &simulate(&scenario, it), Kind::Simulated, None));
        let runs = runs.collect();
        report.push(scenario, runs);
    }
    report
}

#[test]
fn every_expectation_of_the_scenarios_holds_in_simulated_time() {
    for report in [report(None), report_of(&DEMO, None)] {
        for (scenario, run) in report.runs() {
            let id = run.variant.id(scenario);
            assert_eq!(run.status(), Status::Passed, "{id}: {:?}", run.expectations);
            let is_baseline = run.variant.algorithm.is_none() && run.variant.gateway.is_none();
            assert!(is_baseline || !run.expectations.is_empty(), "{id} expects nothing");
        }
        assert!(report.is_passed());
    }
}

/// What the demo is to show: each of the later spikes meets a limit that has been raised before.
#[test]
fn in_the_demo_the_limit_is_raised_before_the_later_spikes() {
    let report = report_of(&DEMO, None).to_json();
    let runs = report["scenarios"][1]["runs"].as_array().expect("runs");
    let adapted = runs.iter().find(|run| run["id"] == "spikes/token/on").expect("it is among them");
    let peaks = adapted["peaks"].as_array().expect("peaks");
    assert_eq!(peaks.len(), 6);
    for peak in &peaks[3..] {
        assert!(peak["limitBefore"].as_f64() >= peak["offered"].as_f64(), "{peak}");
    }
}

#[test]
fn the_same_seed_gives_the_same_report_to_the_last_digit() {
    let text = |seed| report(seed).to_json().to_string();
    assert!(text(Some(7)) == text(Some(7)));
    assert!(text(Some(7)) != text(Some(8)), "clients are drawn by it");
}

/// Each request ends once, in the second it was due in.
#[test]
fn nothing_is_lost_and_nothing_counted_twice() {
    for (name, text) in SCENARIOS {
        let scenario = Scenario::read(name, text).expect("it is good");
        let due = scenario.plan.times.all().count() as u64;
        for variant in Variant::all(&scenario) {
            let outcome = simulate(&scenario, variant);
            let all = outcome.observation.total().all();
            let id = variant.id(&scenario);
            assert_eq!(outcome.observation.requests(), due, "{id}");
            assert_eq!(all.admitted(), all.good + all.target_errors + all.errors, "{id}");
            let rows = outcome.observation.rows.iter().map(|row| row.all().offered).sum::<u64>();
            assert_eq!(rows, all.offered, "{id}");
            // What clients send again comes on top.
            let comes_back = scenario.plan.clients.iter().any(|group| group.comeback.is_some());
            assert!(all.offered == due || comes_back && all.offered > due, "{id}: {} of {due}", all.offered);
            assert_eq!(outcome.levels.limit.len(), outcome.observation.rows.len(), "{id}");
        }
    }
}

/// 300 a second under a limit of 100: every algorithm admits what its own arithmetic gives.
#[test]
fn each_algorithm_admits_what_its_definition_says() {
    for (algorithm, admitted) in [
        (Algorithm::FixedWindow, 500),
        (Algorithm::SlidingLog, 500),
        // What is in the bucket at first, and what comes in until the last request: 20 + 4.99666 s · 100.
        (Algorithm::TokenBucket, 519),
        (Algorithm::Gcra, 519),
        // One goes at once, 20 wait.
        (Algorithm::LeakyBucket, 520),
    ] {
        let outcome = simulate(&small(""), of(algorithm));
        assert_eq!(outcome.observation.total().all().admitted(), admitted, "{algorithm}");
    }
}

/// Twice what the target can do, and no limit: it serves what it can, and fails the rest.
#[test]
fn without_a_limit_the_target_is_overloaded() {
    let scenario = Scenario::read("flood", &SMALL.replace("rps: 300", "rps: 800")).expect("it is good");
    let outcome = simulate(&scenario, Variant { algorithm: None, adaptation: false, gateway: None });
    let scores = Scores::of(&scenario, &outcome);
    assert!((0.45..0.5).contains(&scores.target_errors), "{scores:?}");
    // A full queue is 64 services of 5 ms long, by two workers.
    let longest = scores.latency.expect("there are responses").max;
    assert!((0.16..0.18).contains(&longest), "{longest}");
    assert_eq!((scores.worst_window, scores.over_admitted), (None, None));
}

#[test]
fn clients_of_a_limit_of_their_own_do_not_meet() {
    let clients = "{clients: [{name: people, count: 5}, {name: bots, class: attacker, count: 1, weight: 4}], profile:";
    let text = SMALL.replace("{profile:", clients).replace("rate: 100", "key: client, rate: 20");
    let scenario = Scenario::read("keys", &text).expect("it is good");
    let scores = Scores::of(&scenario, &simulate(&scenario, of(Algorithm::SlidingLog)));
    assert!(scores.refused_honest < Some(0.05) && scores.refused_attackers > Some(0.9), "{scores:?}");
    assert_eq!(scores.worst_window, Some(1.0), "each has a window of its own");
}

#[test]
fn a_fault_of_the_target_is_seen_while_it_lasts() {
    let scenario = small("faults: [{at: 2, for: 2, what: target, with: {errors: 0.5}}]\n");
    let outcome = simulate(&scenario, of(Algorithm::FixedWindow));
    let errors: Vec<u64> = outcome.observation.rows.iter().map(|row| row.all().target_errors).collect();
    assert!(errors[..2] == [0, 0] && errors[4] == 0, "{errors:?}");
    assert!(errors[2..4].iter().all(|count| (30..70).contains(count)), "{errors:?}");
    let hang = small("faults: [{at: 2, for: 3, what: target, with: {hang: true}}]\n");
    let all = simulate(&hang, of(Algorithm::FixedWindow)).observation.total().all();
    assert_eq!(all.offered, 1_500);
    assert_eq!(
        all.offered,
        all.rejected + all.good + all.target_errors + all.errors,
        "requests that hang get a response at last, or time out"
    );
}

/// As in the live target: a request that is served when it hangs keeps its worker until the end, or until its client
/// has gone.
#[test]
fn a_target_that_hangs_does_so_with_its_workers() {
    let hangs = "faults: [{at: 1, for: 3, what: target, with: {hang: true}}]\n";
    let whole = simulate(&small(hangs), of(Algorithm::FixedWindow));
    assert_eq!(whole.levels.busy[1..4], [Some(2); 3], "both workers are held");
    assert_eq!(whole.levels.queue[1..4], [Some(64); 3], "and the queue behind them is full");
    let all = whole.observation.total().all();
    // In three seconds 300 are admitted: two are served, 64 wait, and the queue is full for the rest.
    assert_eq!((all.target_errors, all.errors), (300 - 66, 0));
    let text = format!("{SMALL}{hangs}").replace("load: {", "load: {requestOptions: {timeout: 0.5}, ");
    let impatient = simulate(&Scenario::read("small", &text).expect("a scenario"), of(Algorithm::FixedWindow));
    let all = impatient.observation.total().all();
    assert!(all.errors > 200 && all.good >= 200, "{all:?}");
    assert_eq!(impatient.levels.busy[4], Some(0), "clients that have gone hold no worker: {:?}", impatient.levels.busy);
}

#[test]
fn a_forecaster_that_is_started_again_knows_nothing() {
    let spikes = "
duration: 48
limit: {rate: 100, window: 1, burst: 20}
target: {service_time: 5ms, workers: 4, queue: 64}
adaptation: {interval: 2, ceiling: 400}
load: {profile: {type: burst, params: {baseRps: 80, spikeRps: 300, spikeDuration: 2, spikePeriod: 8}}}
";
    let adapted = |more: &str| {
        let scenario = Scenario::read("spikes", &format!("{spikes}{more}")).unwrap_or_else(|error| panic!("{error}"));
        simulate(&scenario, Variant { algorithm: Some(Algorithm::FixedWindow), adaptation: true, gateway: None })
    };
    let (always, restarted) = (adapted(""), adapted("faults: [{at: 30, for: 2, what: forecaster_killed}]\n"));
    // The spike from 38 s on is foreseen by a forecaster that remembers those before.
    let highest = |levels: &tidegate_lab::Levels| levels.limit[36..40].iter().flatten().copied().fold(0.0, f64::max);
    assert!(highest(&always.levels) > 200.0, "{:?}", always.levels.limit);
    assert!(highest(&restarted.levels) < 150.0, "{:?}", restarted.levels.limit);
    assert!(restarted.levels.forecast[31..33].iter().all(Option::is_none), "there is no forecast then");
}

/// Responses are delayed on their way, nothing else is.
#[test]
fn a_slow_gateway_is_slow_and_nothing_more() {
    let scenario = small("faults: [{at: 2, for: 2, what: gateway_slow, delay: 0.2}]\n");
    let outcome = simulate(&scenario, of(Algorithm::TokenBucket));
    let rows = &outcome.observation.rows;
    for (index, least) in [(0, 0.005), (1, 0.005), (2, 0.205), (3, 0.205), (4, 0.005)] {
        let p50 = rows[index].latency(50.0).expect("there are responses");
        assert!((least..least + 0.02).contains(&p50), "{index}: {p50}");
    }
    let plain = simulate(&small(""), of(Algorithm::TokenBucket)).observation.total().all();
    assert_eq!(outcome.observation.total().all(), plain, "no request is rejected or fails because of it");
}

/// What adaptation decides at the border of two seconds belongs to the second that begins.
#[test]
fn no_second_has_more_than_the_limit_that_is_reported_for_it() {
    let (name, text) = SCENARIOS[1];
    let scenario = Scenario::read(name, text).expect("it is good");
    let outcome =
        simulate(&scenario, Variant { algorithm: Some(Algorithm::FixedWindow), adaptation: true, gateway: None });
    let limits: Vec<f64> = outcome.levels.limit.iter().flatten().copied().collect();
    let first = limits.iter().position(|limit| *limit > 201.0).expect("it is raised");
    for (second, row) in outcome.observation.rows.iter().enumerate().take(first + 1) {
        let admitted = row.all().admitted() as f64;
        assert!(admitted <= limits[second], "second {second}: {admitted} admitted, {} reported", limits[second]);
    }
}

#[test]
fn quotas_are_whole_where_they_should_be() {
    let scenario =
        Scenario::read("q", &SMALL.replace("rate: 100, window: 1", "rate: 4.35, window: 100")).expect("good");
    assert_eq!(scenario.limit.expect("a limit").quota(), 435.0);
}

/// Half a second at the end is neither a peak nor a collapse.
#[test]
fn a_short_last_second_is_judged_by_its_length() {
    let text = SMALL.replace("duration: 5", "duration: 2.5").replace("rps: 300", "rps: 80");
    let scenario = Scenario::read("short", &text).expect("it is good");
    let scores = Scores::of(&scenario, &simulate(&scenario, of(Algorithm::SlidingLog)));
    assert_eq!((scores.goodput, scores.protection, scores.recovery), (Some(1.0), Some(100.0), None), "{scores:?}");
    let flood = Scenario::read("short", &text.replace("rps: 80", "rps: 300")).expect("it is good");
    let scores = Scores::of(&flood, &simulate(&flood, of(Algorithm::SlidingLog)));
    assert_eq!(scores.recovery, None, "the load ends, nothing recovers");
}

/// An hour and a half in steps of two seconds: what is reported for a step belongs to it.
#[test]
fn a_long_run_is_reported_in_longer_steps() {
    let text = SMALL.replace("duration: 5", "duration: 5400").replace("rps: 300", "rps: 20");
    let scenario = Scenario::read("long", &text).expect("it is good");
    let outcome = simulate(&scenario, of(Algorithm::TokenBucket));
    assert_eq!(
        (outcome.observation.step, outcome.observation.rows.len(), outcome.levels.limit.len()),
        (2, 2_700, 2_700)
    );
}

#[test]
fn while_redis_is_away_the_failure_mode_decides() {
    for (mode, rejected) in [("open", 0.0..=0.0), ("closed", 1.0..=1.0), ("local", 0.6..=0.7)] {
        let more = format!("store: redis\non_failure: {mode}\nfaults: [{{at: 1, for: 2, what: redis_killed}}]\n");
        let scenario = small(&more);
        let scores = Scores::of(&scenario, &simulate(&scenario, of(Algorithm::FixedWindow)));
        let share = scores.refused_in_outage.expect("there was an outage");
        assert!(rejected.contains(&share), "{mode}: {share}");
        assert_eq!(scores.limiting_back, Some(0.5), "{mode}");
    }
    for store in ["redis", "stand_in"] {
        let hung = small(&format!("store: {store}\nfaults: [{{at: 1, for: 2, what: redis_hangs}}]\n"));
        let scores = Scores::of(&hung, &simulate(&hung, of(Algorithm::FixedWindow)));
        assert_eq!(scores.limiting_back, Some(0.5), "{store}");
        // Some are rejected before the hang is noticed.
        assert!(scores.refused_in_outage.is_some_and(|share| share < 0.02), "{store}: {scores:?}");
    }
    let quick = small("store: redis\nfaults: [{at: 1, for: 2, what: redis_slow, delay: 0.005}]\n");
    let scores = Scores::of(&quick, &simulate(&quick, of(Algorithm::FixedWindow)));
    assert_eq!(scores.limiting_back, None, "within the gateway's timeout");
}

/// In the demo's outage 319 requests a second were admitted at a limit of 240, and the report had nothing
/// over-admitted: while the store hangs nothing is limited, by the failure mode, but the report did not mention that
/// these seconds are not scored.
#[test]
fn what_is_not_limited_by_design_is_reported_and_all_else_is_scored() {
    let report = report_of(&DEMO, None).to_json();
    let outage = report["scenarios"].as_array().expect("scenarios").iter().find(|it| it["name"] == "outage");
    let run = &outage.expect("it is part of the demo")["runs"][0];
    let exempt = run["exempt"].as_array().expect("a list");
    assert_eq!(exempt.len(), 1, "{exempt:?}");
    let (from, until) = (exempt[0]["from"].as_f64().expect("seconds"), exempt[0]["until"].as_f64().expect("seconds"));
    // It hangs from 4 to 8 s; that is noticed after a moment, and so is its return.
    assert!((4.0..4.1).contains(&from) && (8.0..9.0).contains(&until), "{exempt:?}");
    assert!(exempt[0]["reason"].as_str().is_some_and(|why| why.contains("no limit was enforced")), "{exempt:?}");
    let note = run["notes"][0].as_str().expect("a note");
    assert!(note.starts_with("Not scored: 4.0 s to 8.5 s. Redis was unavailable and on_failure is open"), "{note}");
    let at = |name: &str, second: usize| run["series"][name][second].as_f64();
    for second in 0..20 {
        let (admitted, limit) = (at("admitted", second).expect("a rate"), at("limit", second));
        let is_exempt = (second as f64) < until && second as f64 + 1.0 > from;
        // With a bucket's burst on top.
        assert!(is_exempt || limit.is_some_and(|limit| admitted <= limit + 48.0), "{second}: {admitted} at {limit:?}");
        // Nor in seconds that are partly exempt: more may have been admitted in them.
        assert_eq!(limit.is_none(), is_exempt, "in second {second}: {limit:?}");
    }
}

/// Before and after an outage a limit is judged as ever: here Redis forgets the counts, so the window of its return has
/// too many.
#[test]
fn what_comes_right_after_an_outage_is_scored() {
    let more =
        |mode: &str| format!("store: redis\non_failure: {mode}\nfaults: [{{at: 1, for: 1.25, what: redis_killed}}]\n");
    for (mode, is_exempt) in [("open", true), ("closed", true), ("local", false)] {
        let scenario = small(&more(mode));
        let outcome = simulate(&scenario, of(Algorithm::FixedWindow));
        let judged = outcome.judged.expect("there is a limit");
        assert_eq!(outcome.exempt.len(), usize::from(is_exempt), "{mode}");
        let all = outcome.observation.total().all();
        let not_judged: u64 = outcome.exempt.iter().map(|exempt| exempt.admitted).sum();
        assert_eq!(judged.admitted + not_judged, all.admitted(), "{mode}: each is judged, or reported as exempt");
        let span = outcome.exempt.first().map(|exempt| (exempt.from, exempt.until));
        assert_eq!(span, is_exempt.then_some((1.0, 2.75)), "{mode}");
        let scores = Scores::of(&scenario, &outcome);
        assert!(scores.protection.is_some_and(|protection| protection <= 100.0), "{mode}: {scores:?}");
    }
    // The sliding log is the limit's very definition: it admits too many only because a restarted Redis has forgotten.
    let forgetful = small("store: redis\nfaults: [{at: 1, for: 0.1, what: redis_killed}]\n");
    let outcome = simulate(&forgetful, of(Algorithm::SlidingLog));
    assert_eq!(outcome.judged.expect("a limit").over, 0, "what was admitted without a limit is not over-admitted");
}

#[test]
fn the_page_carries_the_report_and_nothing_of_it_can_break_out() {
    let mut scenario = small("");
    scenario.title = "</script><img src=x onerror=alert(1)>".to_owned();
    let mut report = Report::new(Kind::Simulated, None, None);
    let run = Run::of(&scenario, of(Algorithm::Gcra), &simulate(&scenario, of(Algorithm::Gcra)), Kind::Simulated, None);
    report.push(scenario, vec![run]);
    let page = tidegate_lab::report::page(&report.to_json());
    let (_, data) = page.split_once("id=\"data\">").expect("an element for the data");
    let (data, _) = data.split_once("</script>").expect("its end");
    let read: Value = serde_json::from_str(data).expect("JSON");
    assert_eq!(read, report.to_json());
}

#[test]
fn what_is_wrong_with_a_scenario_is_reported_with_its_path() {
    for (from, to, path, reason) in [
        ("duration: 5", "duration: 0", "duration", "1 to 86400"),
        ("duration: 5", "", "duration", "missing"),
        ("rate: 100", "rate: -1", "limit.rate", "0.001 to 10000000"),
        ("rate: 100", "rate: 0.5", "limit.rate", "at least one request"),
        ("window: 1", "window: x", "limit.window", "got \"x\""),
        ("limit: {", "limits: {", "limit", "missing"),
        ("5ms", "5 parsecs", "target.service_time", "5ms"),
        ("workers: 2", "workers: 0", "target.workers", "1"),
        ("type: constant", "type: magic", "load.profile.type", "magic"),
        ("load: {", "load: {duration: 9, ", "load.duration", "the lab's"),
        ("load: {", "load: {speed: 9, ", "load.speed", "unknown"),
        ("duration: 5", "duration: 5\nstore: tape", "store", "memory, redis, stand_in"),
        ("duration: 5", "duration: 5\nalgorithms: [fixed, magic]", "algorithms[1]", "magic"),
        ("duration: 5", "duration: 5\nadaptation: {interval: 5}", "adaptation.ceiling", "missing"),
        ("duration: 5", "duration: 5\nadaptation: {ceiling: 500, alone: 1}", "adaptation.alone", "true or false"),
        ("duration: 5", "duration: 5\nfaults: [{at: 1, for: 1, what: redis_hangs}]", "faults", "store: stand_in"),
        ("duration: 5", "duration: 5\nfaults: [{at: 1, for: 1}]", "faults[0].what", "redis_killed"),
        ("duration: 5", "duration: 5\nfaults: [{at: 9, for: 1, what: forecaster_killed}]", "faults[0].at", "before"),
        ("duration: 5", "duration: 5\nfaults: [{at: 1, for: 1, what: gateway_slow}]", "faults[0].delay", "missing"),
        ("duration: 5", "duration: 5\nfaults: [{at: 1, for: 1, what: redis_killed}]", "faults", "store: redis"),
        (
            "duration: 5",
            "duration: 5\nfaults: [{at: 1, for: 1, what: target, with: {hangs: true}}]",
            "faults[0].with.hangs",
            "unknown",
        ),
        (
            "load: {profile: {type: constant, params: {rps: 300}}}",
            "load: {phases: [{duration: 1, profile: {type: constant, params: {rps: 3}}}]}",
            "duration",
            "load.phases",
        ),
        (
            "duration: 5",
            "duration: 5\nfaults: [{at: 1, for: 2, what: target, with: {hang: true}}, \
             {at: 2, for: 1, what: target, with: {errors: 1}}]",
            "faults[1]",
            "faults[0]",
        ),
        (
            "duration: 5",
            "duration: 5\nstore: redis\nfaults: [{at: 1, for: 1, what: redis_killed}, \
             {at: 2.5, for: 1, what: redis_slow, delay: 1}]",
            "faults[1]",
            "faults[0]",
        ),
        ("rate: 100,", "rate: 100, key: client,", "adaptation", "global"),
        ("load: {", "load: {clients: [{polite: true}], ", "load.clients[0].polite", "Retry-After"),
        ("duration: 5", "duration: 5\nvariants: {a: {}}", "variants", "needs `gateway`"),
        ("load: {", "load: {clients: [{retry: {}}], ", "load.clients[0].retry", "needs `gateway`"),
        ("load: {", "load: {clients: [{path: /x}], ", "load.clients[0].path", "needs `gateway`"),
        ("duration: 5", "duration: 5\nexpect: [refused ~ 5]", "expect[0]", "`<`"),
        (
            "duration: 5",
            "duration: 5\nexpect: [{that: refused < 5%, algorithms: [x]}]",
            "expect[0].algorithms[0]",
            "\"x\"",
        ),
        ("duration: 5", "duration: 5\nexpected: []", "expected", "unknown"),
    ] {
        assert!(SMALL.contains(from), "{from}");
        let adapts = if path == "adaptation" { "adaptation: {ceiling: 300}\n" } else { "" };
        let text = format!("{}{adapts}", SMALL.replacen(from, to, 1));
        let error = Scenario::read("bad", &text).expect_err(to);
        let is_it = |problem: &String| problem.starts_with(&format!("{path}: ")) && problem.contains(reason);
        assert!(error.problems.iter().any(is_it), "{to}: {error}");
    }
}

#[test]
fn a_file_that_is_not_yaml_is_reported_with_its_line() {
    let syntax = Scenario::read("bad", "title: x\n  limit: [\n").expect_err("no YAML");
    assert!(syntax.to_string().starts_with("bad: line "), "{syntax}");
    for nothing in ["", "[]", "7"] {
        assert!(Scenario::read("bad", nothing).is_err(), "{nothing:?}");
    }
}
