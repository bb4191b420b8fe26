//! Notes on a run.

use serde_json::json;
use tidegate_load::{End, Report};

use crate::run::{Run, millis, plan, written};

fn noted(part: &str, notes: &[&str]) -> Report {
    let mut run = Run::new(&plan(&json!({"part": part})));
    run.add(10, End::Responded(200), millis(1));
    run.report().with_notes(notes.iter().map(ToString::to_string).collect())
}

#[test]
fn notes_are_shown_and_kept() {
    let report = noted("1/1", &["the rate was changed to 500/s after 1.0 s"]);
    assert_eq!(report.verdict().qualifications, ["the rate was changed to 500/s after 1.0 s"]);
    assert!(report.summary(false).starts_with("note  the rate was changed to 500/s after 1.0 s\n"));
    let file = written(&report);
    assert_eq!(file["instances"][0]["notes"], json!(["the rate was changed to 500/s after 1.0 s"]));
    assert_eq!(file["qualifications"], json!(["the rate was changed to 500/s after 1.0 s"]));
    assert_eq!(Report::read(&report.write()).expect("its own file"), report);
    assert_eq!(written(&noted("1/1", &[]))["instances"][0]["notes"], json!([]));
}

#[test]
fn notes_are_few_short_and_printable() {
    let long = "ü\u{1b}".repeat(200);
    let report = noted("1/1", &[&*long; 50]);
    let file = written(&report);
    let notes = file["instances"][0]["notes"].as_array().expect("a list");
    assert_eq!((notes.len(), notes[0].as_str()), (20, Some("ü ".repeat(100).as_str())));
    assert_eq!(Report::read(&report.write()).expect("its own file"), report);
}

/// What is of all is reported once; what is of one, with its name.
#[test]
fn notes_of_several_runs_come_together() {
    let merged =
        |reports: Vec<Report>| Report::merge(reports.into_iter().map(|one| (String::new(), one))).expect("one");
    let both = merged(vec![noted("1/2", &["all", "one"]), noted("2/2", &["two", "all"])]);
    assert_eq!(both.verdict().qualifications, ["all", "part 1/2: one", "part 2/2: two"]);
    assert_eq!(Report::read(&both.write()).expect("its own file"), both);
    let many: Vec<String> = (0..20).map(|number| number.to_string()).collect();
    let many: Vec<&str> = many.iter().map(String::as_str).collect();
    let reported = merged(vec![noted("1/2", &many), noted("2/2", &["more"])]).verdict().qualifications;
    assert_eq!((reported.len(), reported[20].contains("there are more notes")), (21, true), "{reported:?}");
}

/// Its rates are over the whole time, so that somebody might wonder.
#[test]
fn a_trace_that_ends_early_is_noted() {
    let reported = |seconds: usize| {
        let profile = json!({"type": "trace", "params": {"rates": vec![5; seconds]}});
        let mut run = Run::new(&plan(&json!({"duration": 6, "profile": profile})));
        run.add(10, End::Responded(200), millis(1));
        run.report().verdict().qualifications
    };
    assert_eq!(reported(4), ["the trace was over after 4.00 s of 6.00 s: nothing was due from then on"]);
    assert!(reported(6).is_empty() && reported(9).is_empty());
}
