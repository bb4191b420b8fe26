//! Traces in files.

use std::fs;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use serde_json::{Value, json};
use tidegate_load::{Overrides, Plan, Times};

/// A directory of a test's own, gone when the test is over.
struct Directory(PathBuf);

impl Directory {
    fn new() -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let name = format!("tidegate-traces-{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
        let path = std::env::temp_dir().join(name);
        fs::create_dir_all(&path).expect("a directory");
        Self(path)
    }

    /// A plan beside a file of this text, opened.
    fn open(&self, csv: impl AsRef<[u8]>, params: &Value) -> Result<Plan, String> {
        fs::write(self.0.join("traffic.csv"), csv).expect("a file");
        let mut params = params.clone();
        params["file"] = json!("traffic.csv");
        let plan = json!({"limiterUrl": "http://a", "duration": 1_000, "profile": {"type": "trace", "params": params}});
        self.open_plan(&plan)
    }

    fn open_plan(&self, plan: &Value) -> Result<Plan, String> {
        let path = self.0.join("plan.json");
        fs::write(&path, plan.to_string()).expect("a file");
        Plan::open(&path, &Overrides::default()).map_err(|error| error.to_string())
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        let _gone = fs::remove_dir_all(&self.0);
    }
}

/// The rates in the middle of each of the first steps.
fn rates(plan: &Plan, step: f64, count: u32) -> Vec<f64> {
    let Times::Rate(profile, _) = &plan.times else { panic!("recorded") };
    (0..count).map(|index| profile.rate(Duration::from_secs_f64((f64::from(index) + 0.5) * step))).collect()
}

#[test]
fn columns_of_rates_are_read() {
    let directory = Directory::new();
    for (csv, params, step, expected) in [
        ("5\n6.5\n0\n", json!({}), 1.0, [5.0, 6.5, 0.0]),
        ("rps\n5\n6.5\n0", json!({}), 1.0, [5.0, 6.5, 0.0]),
        ("\u{feff}rps\r\n5\r\n\r\n# noon\r\n6.5\r\n0\r\n", json!({}), 1.0, [5.0, 6.5, 0.0]),
        ("5\n6.5\n0\n", json!({"step": 10, "scale": 2}), 10.0, [10.0, 13.0, 0.0]),
        ("seconds,rps\n0,5\n10,6.5\n20,0\n", json!({}), 10.0, [5.0, 6.5, 0.0]),
        ("0,5\n10,6.5\n20,0\n", json!({}), 10.0, [5.0, 6.5, 0.0]),
        (
            "t,n\n2014-04-10 00:04:00,5\n2014-04-10 00:09:00,6.5\n2014-04-10 00:14:00,0\n",
            json!({}),
            300.0,
            [5.0, 6.5, 0.0],
        ),
        ("a,b,c\n0,5,x\n2,6.5,x\n4,0,x\n", json!({"column": "b"}), 2.0, [5.0, 6.5, 0.0]),
        ("a,b,c\n0,5,x\n2,6.5,x\n4,0,x\n", json!({"column": 2, "values": "rates"}), 2.0, [5.0, 6.5, 0.0]),
        ("\"a, b\",c\n\"5\",x\n\"6.5\",x\n\"0\",x\n", json!({"column": "a, b"}), 1.0, [5.0, 6.5, 0.0]),
        ("uneven,rps\n0,5\n1,6.5\n7,0\n", json!({"step": 3}), 3.0, [5.0, 6.5, 0.0]),
    ] {
        let plan = directory.open(csv, &params).unwrap_or_else(|error| panic!("{csv:?} {params}: {error}"));
        assert_eq!(rates(&plan, step, 3), expected, "{csv:?} {params}");
        assert_eq!(plan.shown()["profile"]["params"]["file"], "traffic.csv", "shown as it was given");
    }
}

#[test]
fn columns_of_timestamps_are_read() {
    let directory = Directory::new();
    for (csv, params) in [
        ("100\n100.5\n103.25\n", json!({})),
        ("1700158546.5\n1700158547\n1700158549.75\n", json!({})),
        (
            "TIMESTAMP,size\n2023-11-16 18:15:46.5000000,374\n2023-11-16 18:15:47,1\n2023-11-16 18:15:49.75,9\n",
            json!({}),
        ),
        (
            "id,at\n1,2026-01-19T16:30:00Z\n2,2026-01-19T16:30:00.5Z\n3,2026-01-19T17:30:03.25+01:00\n",
            json!({"column": "at"}),
        ),
    ] {
        let mut params = params.clone();
        params["values"] = json!("timestamps");
        let plan = directory.open(csv, &params).unwrap_or_else(|error| panic!("{csv:?}: {error}"));
        let due: Vec<Duration> = plan.times.all().collect();
        assert_eq!(due, [0, 500, 3_250].map(Duration::from_millis), "{csv:?}");
    }
}

/// The file, the line and the reason.
#[test]
fn bad_files_are_reported_by_line() {
    let directory = Directory::new();
    let times = json!({"values": "timestamps"});
    for (csv, params, expected) in [
        ("", json!({}), "traffic.csv: has no entries"),
        ("rps\n", json!({}), "traffic.csv: has no entries"),
        ("rps\n5\nmany\n", json!({}), "traffic.csv:3: a rate must be a number from 0 on, got \"many\""),
        ("-5\n", json!({}), "traffic.csv:1: a rate must be a number from 0 on, got \"-5\""),
        ("5\nNaN\n", json!({}), "traffic.csv:2: a rate must be a number from 0 on, got \"NaN\""),
        ("0,5\n1,6\n3,7\n", json!({}), "traffic.csv:3: is not as far from the line before"),
        ("0,5\n1,6\n0,7\n", json!({}), "traffic.csv:3: is not as far from the line before"),
        (
            "a,b\nx,6\ny,7\n",
            json!({}),
            "traffic.csv:2: a time must be seconds or such as 2026-01-19T16:30:00.125Z, got \"x\"",
        ),
        ("a,b\n1,5\n2\n", json!({}), "traffic.csv:3: has 1 column; the entry is in number 2"),
        ("a,b\n1,5\n", json!({"column": "c"}), "traffic.csv:1: has no column \"c\"; there are: a, b"),
        ("1,5\n2,6\n", json!({"column": 3}), "traffic.csv:2: has 2 columns; the entry is in number 3"),
        (
            "t;n\n0;5\n1;6\n",
            json!({}),
            "traffic.csv:2: a rate must be a number from 0 on, got \"0;5\"; columns are sep",
        ),
        (
            "0\t5\n1\t6\n",
            json!({}),
            "a rate must be a number from 0 on, got \"1\\t6\"; columns are separated by commas",
        ),
        ("2026-01-19T16:30:00Z\n", json!({}), "times of requests need `\"values\": \"timestamps\"`"),
        ("at,size\n0,5\n1,6\n3,7\n", json!({}), "or `\"values\": \"timestamps\"` if each line is a request"),
        ("0;5\n1;6\n", times.clone(), "such as 2026-01-19T16:30:00.125Z, got \"1;6\"; columns are"),
        ("\"1\n", json!({}), "traffic.csv:1: has a quote that does not end"),
        (
            "1\n2026-02-30\n",
            times.clone(),
            "traffic.csv:2: a time must be seconds or such as 2026-01-19T16:30:00.125Z, got \"2026-02-30\"",
        ),
        ("5\n4\n", times.clone(), "traffic.csv:2: is before the line that it follows"),
        ("1\n", json!({"column": 0}), "profile.params.column: must be a name in the first line or a number"),
        ("1\n", json!({"column": -1}), "profile.params.column: must be a name in the first line or a number"),
        ("1\n", json!({"values": "sizes"}), "profile.params.values: must be `rates` or `timestamps`"),
        ("1\n", json!({"rates": [1]}), "profile.params.file: must not be set beside `rates` or `timestamps`"),
        ("1\n", json!({"colum": 1}), "profile.params.colum: is unknown"),
    ] {
        let error = directory.open(csv, &params).expect_err(csv);
        assert!(error.contains(expected) && error.lines().count() == 1, "{csv:?}: {error}");
    }
    let error = directory.open(b"1\n\xff\n", &json!({})).expect_err("not UTF-8");
    assert!(error.contains("traffic.csv:2: is not UTF-8"), "{error}");
    let error = directory.open("1\n".repeat(1_000_001), &json!({})).expect_err("too many");
    assert!(error.contains("traffic.csv:1000001: the file must have at most 1000000 entries"), "{error}");
    let error = directory.open(vec![b'#'; (64 << 20) + 1], &json!({})).expect_err("too long");
    assert!(error.contains("traffic.csv: is longer than 64 MiB"), "{error}");
}

#[test]
fn files_that_are_not_there_are_reported() {
    let directory = Directory::new();
    let plan = |file: Value| {
        let profile = json!({"type": "trace", "params": {"file": file}});
        json!({"limiterUrl": "http://a", "duration": 1, "profile": profile})
    };
    let error = directory.open_plan(&plan(json!("none.csv"))).expect_err("it is not there");
    assert!(error.starts_with("profile.params.file: ") && error.contains("none.csv: can't be opened"), "{error}");
    let error = directory.open_plan(&plan(json!(5))).expect_err("no name");
    assert!(error.starts_with("profile.params.file: must be a path"), "{error}");
    let error = Plan::open(&directory.0.join("no.json"), &Overrides::default()).expect_err("no plan").to_string();
    assert!(error.contains("no.json: can't be opened"), "{error}");
    let error = directory.open_plan(&plan(json!("."))).expect_err("a directory");
    assert!(error.contains("can't be read"), "{error}");
}

/// The same file elsewhere is the same plan; another file is another.
#[test]
fn phases_may_have_files_and_plans_are_what_the_files_say() {
    let directory = Directory::new();
    let plan = |file: &str| {
        let profile = json!({"type": "trace", "params": {"file": file}});
        json!({"limiterUrl": "http://a", "phases": [
            {"duration": 2, "profile": profile.clone()},
            {"duration": 2, "profile": profile},
        ]})
    };
    for (file, text) in [("a.csv", "5\n6\n"), ("b.csv", "5\n6\n"), ("c.csv", "5\n7\n")] {
        fs::write(directory.0.join(file), text).expect("a file");
    }
    let [a, b, c] = ["a.csv", "b.csv", "c.csv"].map(|file| directory.open_plan(&plan(file)).expect("a good plan"));
    assert_eq!(rates(&a, 1.0, 4), [5.0, 6.0, 5.0, 6.0]);
    assert_eq!(a.digest(), b.digest());
    assert_ne!(a.digest(), c.digest());
    let error = directory.open_plan(&plan("d.csv")).expect_err("it is not there");
    assert!(error.contains("phases[1].profile.params.file: "), "{error}");
}
