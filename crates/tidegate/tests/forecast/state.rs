//! What survives a restart.

use std::fs;

use crate::forecaster::{Forecaster, START, limit_after, spikes, with_series};
use crate::harness::{Directory, tidegate};

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
    let advice = second.advice(&with_series(START + 90, &[60; 5]));
    assert!(limit_after(&advice, 2.0) >= 250.0, "the next spike is known: {advice}");
    // Without the file it is not.
    let stranger = Forecaster::start(&["--capacity", "400"]);
    let advice = stranger.advice(&with_series(START + 90, &[60; 5]));
    assert_eq!(limit_after(&advice, 2.0), 100.0, "{advice}");
}

#[test]
fn a_file_that_is_no_state_is_refused_and_left_as_it_is() {
    let directory = Directory::new();
    for (name, text) in [
        ("garbage", "not json"),
        ("other", "{\"format\": \"something else\"}"),
        ("broken", "{\"format\": \"tidegate-forecast-state/1\", \"sources\": {\"default\": {\"start\": \"x\"}}}"),
    ] {
        let file = directory.file(name, text);
        let mut command = tidegate();
        command.args(["forecast", "serve", "--listen", "127.0.0.1:0", "--state"]).arg(&file);
        let output = command.output().expect("it runs");
        let told = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(!output.status.success(), "{name}");
        assert!(told.contains("--state") && told.contains(name), "{told}");
        assert_eq!(fs::read_to_string(&file).expect("the file"), text);
    }
}

#[test]
fn a_state_that_can_t_be_written_is_told_and_counted() {
    let directory = Directory::new();
    let file = directory.0.join("nowhere").join("state.json");
    let mut forecaster = Forecaster::start(&["--state", file.to_str().expect("a path")]);
    forecaster.tell(&[60; 10]);
    forecaster.0.signal("TERM");
    forecaster.0.wait_for_line("can't be written");
    assert!(forecaster.0.wait_for_end());
}
