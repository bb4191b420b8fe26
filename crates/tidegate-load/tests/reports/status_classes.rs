//! Latencies by class of the status: a rejection is quick, and says nothing about how long the service takes.

use serde_json::{Value, json};
use tidegate_load::{Cause, End, Missed, Report};

use crate::run::{Run, millis, plan, report_of, written};

/// 1,000 requests, all but 20 of them rejected at once; the service takes twice as long for the others. Times below
/// 2.048 ms are counted exactly.
fn mostly_rejected(thresholds: &Value) -> Run {
    let mut run = Run::new(&plan(&json!({"thresholds": thresholds})));
    run.add(980, End::Responded(429), millis(1));
    run.add(20, End::Responded(200), millis(2));
    run
}

/// The file of an earlier version: the same, but with latencies that are not separated by status.
fn earlier(report: &Report) -> Value {
    let mut file = written(report);
    file["format"] = json!("tidegate-load-result/1");
    for group in file["record"]["groups"].as_array_mut().expect("groups") {
        for kind in ["requests", "retries"] {
            let tally = group[kind].as_object_mut().expect("a tally");
            let parts = tally.remove("latencies").unwrap_or(json!([]));
            let mut all = std::collections::BTreeMap::new();
            for pair in
                parts.as_array().expect("parts").iter().flat_map(|part| part["times"].as_array().expect("times"))
            {
                *all.entry(pair[0].as_u64()).or_insert(0) += pair[1].as_u64().expect("a count");
            }
            tally.insert("latency".to_owned(), json!(all.into_iter().collect::<Vec<_>>()));
        }
    }
    file
}

fn read(file: &Value) -> Report {
    Report::read(file.to_string().as_bytes()).expect("a result")
}

/// A run in which 98 of 100 requests were rejected passed `p95<1.5ms`, although every request that was served took
/// longer: the latency of a 429 counted like any other, and nothing reported that.
#[test]
fn quick_rejections_do_not_hide_a_slow_service() {
    let report = mostly_rejected(&json!([
        "p95<1.5ms",
        "p95{2xx}<1.5ms",
        "p99{rejected}<1.5ms",
        "avg{2xx}>1.5ms",
        "max{5xx}<1s",
        "p99{5xx}<1s"
    ]))
    .report();
    let judged: Vec<(Option<bool>, Option<f64>)> = report.thresholds().iter().map(|it| (it.holds, it.value)).collect();
    let of = |holds: bool, value: Option<f64>| (Some(holds), value);
    assert_eq!(
        judged,
        // Where nothing was measured no threshold holds.
        [
            of(true, Some(0.001)),
            of(false, Some(0.002)),
            of(true, Some(0.001)),
            of(true, Some(0.002)),
            of(false, None),
            of(false, None)
        ]
    );
    assert!(!report.thresholds_hold());
    let file = written(&report);
    assert_eq!(file["latencySeconds"]["p95"], 0.001);
    assert_eq!(file["latencyByStatusSeconds"]["2xx"]["p95"], 0.002);
    assert_eq!(file["latencyByStatusSeconds"]["2xx"]["count"], 20);
    assert_eq!(file["latencyByStatusSeconds"]["rejected"]["count"], 980);
    assert_eq!(file["latencyByStatusSeconds"].as_object().map(serde_json::Map::len), Some(2), "only what occurred");
    assert_eq!(file["groups"][0]["latencyByStatusSeconds"], file["latencyByStatusSeconds"]);
    assert_eq!(file["groups"][1]["latencyByStatusSeconds"], json!({}));
}

#[test]
fn a_run_that_was_mostly_rejected_says_so() {
    let report = mostly_rejected(&json!([])).report();
    let reported = "most responses are rejections: 980 of 1,000 (98.0 %) are 429";
    assert!(report.verdict().qualifications.iter().any(|note| note.starts_with(reported)), "{:?}", report.verdict());
    assert_eq!(written(&report)["mostlyRejected"], true);
    let summary = report.summary(false);
    assert!(summary.contains(&format!("note  {reported}")) && summary.contains("p99{2xx}"), "{summary}");
    for row in ["    of 2xx ", "    of rejected "] {
        assert!(summary.lines().any(|line| line.starts_with(row)), "{row}\n{summary}");
    }
    let mut half = Run::new(&plan(&json!({})));
    half.add(50, End::Responded(429), millis(1));
    half.add(50, End::Responded(200), millis(1));
    let half = half.report();
    assert!(half.verdict().qualifications.is_empty(), "{:?}", half.verdict());
    assert_eq!(written(&half)["mostlyRejected"], false);
}

#[test]
fn one_class_alone_has_no_row_of_its_own() {
    let mut run = Run::new(&plan(&json!({})));
    run.add(50, End::Responded(200), millis(1));
    let summary = run.report().summary(false);
    assert!(summary.contains("from when due") && !summary.contains("of 2xx"), "{summary}");
}

/// What was never sent might have been a success: `p99{2xx}` must not become better because the target is so slow that
/// nothing can be sent.
#[test]
fn what_has_no_response_is_slower_than_those_of_every_class() {
    let mut run = Run::new(&plan(&json!({"thresholds": ["p50{2xx}<5ms", "p99{2xx}<5ms"]})));
    run.add(90, End::Responded(200), millis(1));
    run.add(10, End::Responded(500), millis(90));
    run.miss(10, Missed::NoRoom);
    let report = run.report();
    assert_eq!(report.thresholds().iter().map(|it| it.holds).collect::<Vec<_>>(), [Some(true), Some(false)]);
    let classes = written(&report)["latencyByStatusSeconds"].clone();
    assert_eq!(classes["2xx"]["atLeast"], json!(["mean", "p95", "p99", "p99.9", "max"]), "{classes}");
}

/// A timeout is not a response: it is an error, and the longest of all latencies.
#[test]
fn timeouts_are_of_no_class() {
    let mut run = Run::new(&plan(&json!({"requestOptions": {"timeout": 1}})));
    run.add(90, End::Responded(200), millis(1));
    run.add(10, End::Failed(Cause::TimedOut), millis(1_000));
    let file = written(&run.report());
    assert_eq!(
        (&file["latencySeconds"]["count"], &file["latencyByStatusSeconds"]["2xx"]["count"]),
        (&json!(100), &json!(90))
    );
    assert!(file["latencySeconds"]["p99"].as_f64() >= Some(1.0), "{}", file["latencySeconds"]);
    assert_eq!(file["latencyByStatusSeconds"]["2xx"]["max"], 0.001);
}

/// 40 of 100 requests timed out and `p99{2xx}<5ms` held, and nothing reported that they were not counted.
#[test]
fn a_threshold_of_a_class_that_holds_reports_how_many_timed_out() {
    let notes = |thresholds: Value, timeouts: u64| {
        let mut run = Run::new(&plan(&json!({"requestOptions": {"timeout": 1}, "thresholds": thresholds})));
        run.add(60, End::Responded(200), millis(1));
        run.add(timeouts, End::Failed(Cause::TimedOut), millis(1_000));
        let report = run.report();
        assert_eq!(written(&report)["qualifications"], json!(report.verdict().qualifications));
        report.verdict().qualifications
    };
    let reported = "40 requests timed out and are in no class: p99{2xx}<5ms does not count them";
    assert!(notes(json!(["p50<2s", "p99{2xx}<5ms"]), 40).contains(&reported.to_owned()));
    for (thresholds, timeouts) in
        [(json!([]), 40), (json!(["p50<2s"]), 40), (json!(["p99{2xx}<1us"]), 40), (json!(["p99{2xx}<5ms"]), 0)]
    {
        let notes = notes(thresholds.clone(), timeouts);
        assert!(!notes.iter().any(|note| note.contains("in no class")), "{thresholds}, {timeouts}: {notes:?}");
    }
}

/// Results of an earlier version still merge exactly; what they do not know is reported, and no threshold holds by it.
#[test]
fn results_of_an_earlier_version_merge_exactly_and_report_what_they_lack() {
    let parts =
        || ["1/2", "2/2"].map(|part| report_of(Some(part), (0..5_000).filter(|n| n % 2 == u64::from(part == "2/2"))));
    let now = Report::merge(parts().map(|report| (String::new(), report))).expect("one plan");
    let [one, two] = parts();
    for (one, two) in [
        (read(&earlier(&one)), two.clone()),
        (one.clone(), read(&earlier(&two))),
        (read(&earlier(&one)), read(&earlier(&two))),
    ] {
        let merged = Report::merge([("a".to_owned(), one), ("b".to_owned(), two)]).expect("one plan");
        let again = Report::read(&merged.write()).expect("its own file");
        assert_eq!(again, merged);
        let (file, expected) = (written(&merged), written(&now));
        for same in ["requests", "latencySeconds", "serviceSeconds", "lagSeconds", "series", "thresholds"] {
            assert_eq!(file[same], expected[same], "{same}");
        }
        assert_eq!(file["latencyByStatusSeconds"], Value::Null);
        let notes = merged.verdict().qualifications;
        assert!(notes.iter().any(|note| note.starts_with("latencies by status are unknown: ")), "{notes:?}");
        assert!(!merged.summary(false).contains("of 2xx"), "{}", merged.summary(false));
    }
    let mut unknown = Run::new(&plan(&json!({"thresholds": ["p50<5ms", "p50{2xx}<5ms"]})));
    unknown.add(10, End::Responded(200), millis(1));
    unknown.add(10, End::Responded(429), millis(1));
    let judged = read(&earlier(&unknown.report())).thresholds();
    assert_eq!((judged[0].holds, judged[1].holds, judged[1].value), (Some(true), Some(false), None));
}

/// Where all responses were of one class, there is only one that their latencies can be of.
#[test]
fn what_an_earlier_version_did_not_say_may_be_known_all_the_same() {
    let mut run = Run::new(&plan(&json!({"thresholds": ["p99{2xx}<5ms"]})));
    run.add(80, End::Responded(200), millis(1));
    run.add(20, End::Responded(204), millis(2));
    run.add(3, End::Failed(Cause::Closed), millis(9));
    let report = run.report();
    let again = read(&earlier(&report));
    assert_eq!(again, report);
    assert!(again.thresholds_hold());
}

/// A file that an earlier version wrote: six requests were admitted, fourteen rejected.
#[test]
fn a_file_of_an_earlier_version_can_be_read() {
    let report = Report::read(include_bytes!("of-version-1.json")).expect("a result");
    let (before, now): (Value, _) =
        (serde_json::from_slice(include_bytes!("of-version-1.json")).expect("JSON"), written(&report));
    for same in ["requests", "latencySeconds", "serviceSeconds", "series", "thresholds", "plan"] {
        assert_eq!(now[same], before[same], "{same}");
    }
    assert_eq!((&now["latencyByStatusSeconds"], &now["mostlyRejected"]), (&Value::Null, &json!(true)));
}
