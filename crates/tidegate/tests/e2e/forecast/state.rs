//! What survives a restart.

use std::fs;
use std::path::Path;

use crate::forecast::forecaster::{Forecaster, START, limit_after, spikes, with_series};
use tidegate_testkit::command::{Outcome, finish};
use tidegate_testkit::{Directory, tidegate};

#[test]
fn what_was_learnt_survives_a_restart() {
    let directory = Directory::new();
    let file = directory.0.join("state.json");
    let path = file.to_str().expect("a path");
    let mut first = Forecaster::start(&["--capacity", "400", "--state", path]);
    first.tell(&spikes(90));
    first.0.signal("TERM");
    assert!(first.0.wait_for_end());
    let second = Forecaster::start(&["--capacity", "400", "--state", path]);
    second
        .0
        .wait_for_line("capacity 400 req/s, floor 5 req/s, 60 s ahead of up to 86400 s; 1 series of 90 s read from");
    let advice = second.advice(&with_series(START + 90, &[60; 5]));
    assert!(limit_after(&advice, 2.0) >= 250.0, "the next spike is known: {advice}");
    // Without the file it is not.
    let stranger = Forecaster::start(&["--capacity", "400"]);
    let advice = stranger.advice(&with_series(START + 90, &[60; 5]));
    assert_eq!(limit_after(&advice, 2.0), 100.0, "{advice}");
}

#[test]
fn a_file_that_is_not_a_state_is_rejected_and_left_as_it_is() {
    let directory = Directory::new();
    for (name, text) in [
        ("garbage", "not json"),
        ("other", "{\"format\": \"something else\"}"),
        ("empty", ""),
        ("nothing", "{\"format\": \"tidegate-forecast-state/1\"}"),
        ("broken", "{\"format\": \"tidegate-forecast-state/1\", \"sources\": {\"default\": {\"start\": \"x\"}}}"),
    ] {
        let file = directory.file(name, text);
        let rejected = rejected(&file);
        assert_eq!(rejected.code, 2, "{name}: {rejected:?}");
        assert!(rejected.err.starts_with(&format!("tidegate: --state: {}: ", file.display())), "{rejected:?}");
        assert!(rejected.err.ends_with("; delete it to begin anew\n"), "{rejected:?}");
        assert_eq!(fs::read_to_string(&file).expect("the file"), text);
    }
}

#[test]
fn a_state_that_can_t_ever_be_written_is_rejected_at_the_start() {
    let directory = Directory::new();
    let file = directory.0.join("nowhere").join("state.json");
    let outcome = rejected(&file);
    assert_eq!(outcome.code, 2, "{outcome:?}");
    assert!(outcome.err.contains("nowhere: must be a directory that exists"), "{outcome:?}");
    let folder = rejected(&directory.0);
    assert_eq!(folder.code, 2, "{folder:?}");
    assert!(folder.err.contains("Is a directory"), "{folder:?}");
}

/// How it ends with this state.
fn rejected(state: &Path) -> Outcome {
    let mut command = tidegate();
    command.args(["forecast", "serve", "--listen", "127.0.0.1:0", "--state"]).arg(state);
    finish(command)
}

#[test]
fn a_state_that_can_t_be_written_is_reported_and_counted() {
    let directory = Directory::new();
    let folder = directory.0.join("folder");
    fs::create_dir(&folder).expect("a folder");
    let file = folder.join("state.json");
    let mut forecaster = Forecaster::start(&["--state", file.to_str().expect("a path")]);
    fs::remove_dir(&folder).expect("it is empty");
    forecaster.tell(&[60; 10]);
    forecaster.0.signal("TERM");
    forecaster.0.wait_for_line("can't be written");
    assert!(forecaster.0.wait_for_end());
}
