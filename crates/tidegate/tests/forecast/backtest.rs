//! `tidegate forecast backtest`: what it prints, writes and refuses.

use std::fmt::Write as _;
use std::path::Path;

use serde_json::Value;

use crate::harness::{Directory, tidegate};
use crate::outcome::{Outcome, finish};

/// Ten minutes by the second, 50 requests and 200 in the last 5 s of each 30.
fn bursts() -> String {
    let mut random = fastrand::Rng::with_seed(1);
    let mut text = "time,bytes,requests\n".to_owned();
    for second in 0..600 {
        let requests = if second % 30 >= 25 { 200 } else { 50 } + random.u32(0..10);
        let _infallible = writeln!(text, "{},7,{requests}", 1_768_840_200 + second);
    }
    text
}

fn backtest(files: &[&Path], more: &[&str]) -> Outcome {
    let mut command = tidegate();
    command.args(["forecast", "backtest"]).args(files).args(more);
    finish(command)
}

fn text(path: &Path) -> &str {
    path.to_str().expect("text")
}

#[test]
fn a_series_is_told_as_tables_as_json_and_as_a_picture() {
    let directory = Directory::new();
    let file = directory.file("a<b>&.csv", &bursts());
    let (json, plot) = (directory.0.join("out.json"), directory.0.join("out.svg"));
    let outcome = backtest(&[&file], &["--horizon", "30", "--json", text(&json), "--plot", text(&plot)]);
    assert_eq!((outcome.code, outcome.err.as_str()), (0, ""), "{outcome:?}");
    for told in [
        "a<b>&.csv\n  600 steps of 1 s, 2026-01-19T16:30:00Z to 2026-01-19T16:40:00Z",
        "forecasts of 30 steps (30 s), one every 5 steps (5 s) after the first 300",
        "  last ",
        "  prophet ",
        "  combination ",
        "A cycle of 30 s (30 steps) explains",
    ] {
        assert!(outcome.out.contains(told), "{told}: {}", outcome.out);
    }
    assert!(!outcome.out.contains('\x1b'), "no colours into a file");
    let figures: Value = serde_json::from_slice(&std::fs::read(&json).expect("a file")).expect("JSON");
    let series = &figures["series"][0];
    assert_eq!(figures["format"], "tidegate-forecast-backtest/1");
    assert_eq!((&series["horizon"], &series["cycles"][0]["periodSeconds"]), (&30.into(), &30.0.into()));
    let models = series["models"].as_array().expect("models");
    let mase = |name: &str| models.iter().find(|model| model["name"] == name).expect("a model")["mase"].as_f64();
    assert!(mase("combination") < mase("last"), "{models:?}");
    let picture = std::fs::read_to_string(&plot).expect("a file");
    assert!(picture.starts_with("<svg ") && picture.contains("a&lt;b&gt;&amp;.csv"));
}

#[test]
fn several_series_end_with_a_row_each_and_a_column_can_be_chosen() {
    let directory = Directory::new();
    let (one, other) = (directory.file("one.csv", &bursts()), directory.file("other.csv", &bursts()));
    let outcome = backtest(&[&one, &other], &["--column", "bytes", "--stride", "20"]);
    assert_eq!((outcome.code, outcome.err.as_str()), (0, ""), "{outcome:?}");
    let rows: Vec<&str> = outcome.out.lines().rev().take(3).collect();
    assert!(rows[2].starts_with("All") && rows[1].starts_with("one.csv") && rows[0].starts_with("other.csv"));
    assert!(outcome.out.contains("No cycle was known"), "a column of sevens: {}", outcome.out);
}

#[test]
fn what_can_not_be_used_is_told_with_file_line_and_reason_and_ends_with_2() {
    let directory = Directory::new();
    let good = directory.file("good.csv", &bursts());
    let bad = directory.file("bad.csv", "1,5\n2,6\n3,many\n");
    let short = directory.file("short.csv", "1,5\n2,6\n3,7\n");
    let (missing, svg) = (directory.0.join("missing.csv"), directory.0.join("a.svg"));
    for (files, more, told) in [
        (vec![&bad], vec![], "bad.csv:3: \"many\" is no value"),
        (vec![&missing], vec![], "missing.csv: can't be opened"),
        (vec![&short], vec![], "short.csv: has 3 steps, too few"),
        (vec![&good], vec!["--column", "hits"], "good.csv:1: has no column \"hits\"; there are: time, bytes, requests"),
        (vec![&good, &good], vec!["--plot", text(&svg)], "--plot draws one series, and there are 2 files"),
        (vec![&good], vec!["--json", text(&good)], "good.csv is one of the series, and would be overwritten"),
        (vec![&good], vec!["--plot", text(&svg), "--json", text(&svg)], "--plot and --json name the same file"),
        (vec![&good], vec!["--horizon", "0"], "0 is not in 1..=10000"),
        (
            vec![&good],
            vec!["--horizon", "401", "--stride", "2"],
            "--stride is 2; with forecasts of 401 steps at least 3",
        ),
        (vec![], vec![], "<FILE.csv>..."),
    ] {
        let files: Vec<&Path> = files.into_iter().map(std::path::PathBuf::as_path).collect();
        let outcome = backtest(&files, &more);
        assert_eq!(outcome.code, 2, "{told}: {outcome:?}");
        assert!(outcome.err.contains(told), "{told}: {}", outcome.err);
    }
    assert_eq!(std::fs::read_to_string(&good).expect("it is there"), bursts(), "nothing was overwritten");
}

#[test]
fn a_file_that_can_not_be_written_ends_with_1() {
    let directory = Directory::new();
    let file = directory.file("good.csv", &bursts());
    for option in ["--plot", "--json"] {
        let outcome = backtest(&[&file], &[option, "/nowhere/at/all"]);
        assert_eq!(outcome.code, 1, "{outcome:?}");
        assert!(outcome.err.contains("/nowhere/at/all"), "{}", outcome.err);
    }
}
