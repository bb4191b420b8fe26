//! `tidegate forecast backtest`: what it prints, writes and rejects.

use std::fmt::Write as _;
use std::path::Path;

use serde_json::Value;

use tidegate_testkit::command::{Outcome, finish};
use tidegate_testkit::{Directory, tidegate};

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

/// 400 seconds that count from 0, with the values that are known.
fn counted(value: impl Fn(u32) -> Option<u32>) -> String {
    (0..400).filter_map(|second| value(second).map(|value| format!("{second},{value}\n"))).collect()
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
fn a_series_is_reported_as_tables_as_json_and_as_a_picture() {
    let directory = Directory::new();
    let file = directory.file("a<b>&.csv", &bursts());
    let (json, plot) = (directory.0.join("out.json"), directory.0.join("out.svg"));
    let outcome = backtest(&[&file], &["--horizon", "30", "--json", text(&json), "--plot", text(&plot)]);
    assert_eq!((outcome.code, outcome.err.as_str()), (0, ""), "{outcome:?}");
    for reported in [
        "a<b>&.csv\n  600 steps of 1 s, 2026-01-19T16:30:00Z to 2026-01-19T16:40:00Z",
        "forecasts of 30 steps (30 s), one every 5 steps (5 s) after the first 300",
        "  last ",
        "  prophet ",
        "  combination ",
        "A cycle of 30 s (30 steps) explains",
    ] {
        assert!(outcome.out.contains(reported), "{reported}: {}", outcome.out);
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
fn what_can_not_be_used_is_reported_with_file_line_and_reason_and_ends_with_2() {
    let directory = Directory::new();
    let good = directory.file("good.csv", &bursts());
    let bad = directory.file("bad.csv", "1,5\n2,6\n3,many\n");
    let short = directory.file("short.csv", "1,5\n2,6\n3,7\n");
    let unknown = directory.file("unknown.csv", &counted(|second| (!(140..=386).contains(&second)).then_some(5)));
    let (missing, svg) = (directory.0.join("missing.csv"), directory.0.join("a.svg"));
    let folder = directory.0.join("folder");
    std::fs::create_dir(&folder).expect("a folder");
    for (files, more, reported) in [
        (vec![&bad], vec![], "bad.csv:3: a value must be a number from 0 to 1e9, got \"many\""),
        (vec![&good, &bad], vec![], "bad.csv:3: a value must be a number from 0 to 1e9, got \"many\""),
        (vec![&folder], vec![], "folder: can't be read: Is a directory"),
        (vec![&missing], vec![], "missing.csv: can't be opened"),
        (
            vec![&short],
            vec![],
            "short.csv: has 3 steps, too few: the first is only learnt from, and a forecast is of 60 more",
        ),
        (
            vec![&good],
            vec!["--warm-up", "5000"],
            "good.csv: has 600 steps, too few: the first 5,000 are only learnt from, and a forecast is of 60 more",
        ),
        (
            vec![&good],
            vec!["--stride", "5000"],
            "good.csv: --stride is 5,000: no forecast falls on the steps 300 to 540, after which enough follow",
        ),
        (
            vec![&unknown],
            vec!["--horizon", "20"],
            "unknown.csv: has 247 unknown steps, and no known one that a forecast could be compared with",
        ),
        (vec![&good], vec!["--column", "hits"], "good.csv:1: has no column \"hits\"; there are: time, bytes, requests"),
        (vec![&good, &good], vec!["--plot", text(&svg)], "--plot draws one series, and there are 2 files"),
        (vec![&good], vec!["--json", text(&good)], "good.csv is one of the series, and would be overwritten"),
        (vec![&good], vec!["--plot", text(&svg), "--json", text(&svg)], "--plot and --json name the same file"),
        (vec![&good], vec!["--horizon", "0"], "must be a whole number from 1 to 10000"),
        (vec![&good], vec!["--horizon", "-1"], "must be a whole number from 1 to 10000"),
        (vec![&good], vec!["--stride", "x"], "must be a whole number from 1 to 1000000"),
        (
            vec![&good],
            vec!["--horizon", "401", "--stride", "2"],
            "--stride: must be at least 3 with forecasts of 401 steps, got 2",
        ),
        (vec![], vec![], "<FILE.csv>..."),
    ] {
        let files: Vec<&Path> = files.into_iter().map(std::path::PathBuf::as_path).collect();
        let outcome = backtest(&files, &more);
        assert_eq!(outcome.code, 2, "{reported}: {outcome:?}");
        assert!(outcome.err.contains(reported), "{reported}: {}", outcome.err);
        assert_eq!(outcome.out, "", "nothing is forecast before all has been read");
        assert!(!svg.exists(), "{reported}: nothing is left behind");
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

#[test]
fn one_is_shown_as_one_and_seconds_without_a_date_have_none() {
    let directory = Directory::new();
    let file = directory.file("counted.csv", &counted(|second| (second != 7).then_some(50 + second % 10)));
    let json = directory.0.join("out.json");
    let one = ["--horizon", "1", "--stride", "390", "--warm-up", "1", "--json", text(&json)];
    let outcome = backtest(&[&file], &one);
    let reported = "counted.csv\n  400 steps of 1 s, 1 of them unknown, 6.7 min in all\n  1 forecast of 1 step (1 s), \
                    one every 390 steps (6.5 min) after the first\n";
    assert!(outcome.out.starts_with(reported), "{outcome:?}");
    let figures: Value = serde_json::from_slice(&std::fs::read(&json).expect("a file")).expect("JSON");
    assert_eq!(figures["series"][0]["startedAt"], Value::Null);
    let outcome = backtest(&[&file], &["--horizon", "1", "--stride", "1", "--warm-up", "390"]);
    assert!(
        outcome.out.contains("forecasts of 1 step (1 s), one every step (1 s) after the first 390\n"),
        "{outcome:?}"
    );
}

#[test]
fn dates_before_1970_are_reported_as_they_are() {
    let directory = Directory::new();
    let lines = (0..60).map(|second| format!("1969-07-20T20:17:{second:02}Z,{}\n", second % 5));
    let file = directory.file("moon.csv", &lines.collect::<Vec<_>>().concat());
    let outcome = backtest(&[&file], &["--horizon", "10"]);
    assert!(outcome.out.contains("60 steps of 1 s, 1969-07-20T20:17:00Z to 1969-07-20T20:18:00Z\n"), "{outcome:?}");
}

#[test]
fn what_nothing_is_known_of_is_a_dash() {
    let directory = Directory::new();
    let same = directory.file("same.csv", &counted(|_| Some(7)));
    // With one of five missing nobody knows where the highest was.
    let holes = directory.file("holes.csv", &counted(|second| (second % 5 > 0).then_some(second % 7)));
    let json = directory.0.join("out.json");
    let outcome = backtest(&[&same, &holes], &["--stride", "20", "--json", text(&json)]);
    assert_eq!((outcome.code, outcome.err.as_str()), (0, ""), "{outcome:?}");
    assert!(!outcome.out.contains("NaN") && !outcome.out.contains("inf"), "{}", outcome.out);
    let (same, holes) = outcome.out.split_once("holes.csv").expect("both");
    let words = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(words(same).contains("last – – ") && same.contains("MASE is undefined: no value differs"), "{same}");
    assert!(words(same).contains("10 % ≤ 100.0 % 0 ≤ 100.0 % 0 25 %"), "{same}");
    assert!(words(holes).contains(" – – 25 % ≤ ") && holes.contains("No forecast's highest step is known"), "{holes}");
    let figures: Value = serde_json::from_slice(&std::fs::read(&json).expect("a file")).expect("JSON");
    let [same, holes] = [0, 1].map(|place| &figures["series"][place]);
    assert_eq!((&same["models"][0]["mase"], &holes["highestStep"]["error"]), (&Value::Null, &Value::Null));
    assert_eq!(holes["highestStep"]["quantiles"][0]["covered"], Value::Null);
}

#[test]
fn a_long_horizon_has_a_stride_that_suits() {
    let directory = Directory::new();
    let file = directory.file("good.csv", &bursts());
    let outcome = backtest(&[&file], &["--horizon", "300", "--warm-up", "200", "--stride", "100"]);
    assert_eq!(outcome.code, 0, "{outcome:?}");
    let lines: Vec<String> = (0..4_000).map(|second| format!("{second},{}\n", second % 9)).collect();
    let long = directory.file("long.csv", &lines.concat());
    let outcome = backtest(&[&long], &["--horizon", "2000", "--warm-up", "1950"]);
    assert!(outcome.out.contains("of 2,000 steps (33.3 min), one every 10 steps (10 s)"), "{outcome:?}");
}
