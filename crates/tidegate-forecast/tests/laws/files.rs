//! Series from files.

use std::path::PathBuf;

use tidegate_forecast::{Series, series_from_csv};

/// A file that is gone with it.
struct Written(PathBuf);

impl Written {
    fn new(name: &str, text: &str) -> Self {
        let path = std::env::temp_dir().join(format!("tidegate-{}-{name}.csv", std::process::id()));
        std::fs::write(&path, text).expect("a file");
        Self(path)
    }

    fn read(&self, column: Option<&str>) -> Result<Series, String> {
        series_from_csv(&self.0, column)
    }
}

impl Drop for Written {
    fn drop(&mut self) {
        let _gone = std::fs::remove_file(&self.0);
    }
}

#[test]
fn times_tell_the_step_and_the_gaps_and_a_column_can_be_chosen() {
    let text = "time,bytes,requests\n2026-01-19T16:30:00Z,10,1\n2026-01-19 16:35:00,20,2\n\n# a pause\n2026-01-19T16:50:00Z,30,3\n";
    let file = Written::new("steps", text);
    let series = file.read(None).expect("a series");
    assert_eq!((series.step(), series.history().start), (300, 1_768_840_200));
    assert_eq!(series.history().known().collect::<Vec<_>>(), [(0, 1.0), (1, 2.0), (4, 3.0)]);
    for column in ["bytes", "2"] {
        let series = file.read(Some(column)).expect("a series");
        assert_eq!(series.history().known().map(|(_, value)| value).collect::<Vec<_>>(), [10.0, 20.0, 30.0]);
    }
}

#[test]
fn a_single_column_is_a_value_a_second() {
    let series = Written::new("single", "5\n6\n7\n").read(None).expect("a series");
    assert_eq!((series.step(), series.history().values), (1, [5.0, 6.0, 7.0].as_slice()));
}

#[test]
fn what_is_wrong_is_told_with_its_file_and_line() {
    for (name, text, column, told) in [
        ("value", "1,5\n2,x\n", None, ":2: \"x\" is no value"),
        ("negative", "1,5\n2,-3\n", None, ":2: \"-3\" is no value"),
        ("nan", "1,5\n2,NaN\n", None, ":2: \"NaN\" is no value"),
        ("time", "1,5\nlater,6\n", None, ":2: \"later\" is no time"),
        ("back", "100,5\n101,6\n99,7\n", None, ":3: is before the first line"),
        ("huge", "100,5\n101,6\n102,2e9\n", None, ":3: is before the first line, or its value is above 1e9"),
        ("column", "time,a\n1,5\n2,5\n", Some("b"), ":1: has no column \"b\""),
        ("empty", "", None, "fewer than two different times"),
        ("same", "1,5\n1,6\n", None, "fewer than two different times"),
        ("long", "0,5\n1,6\n2,6\n900000000000,7\n", None, "spans more than"),
    ] {
        let file = Written::new(name, text);
        let reason = file.read(column).expect_err(name);
        assert!(reason.contains(told) && reason.contains(&format!("{name}.csv")), "{name}: {reason}");
    }
    let reason = series_from_csv(&PathBuf::from("/nowhere/at/all.csv"), None).expect_err("no file");
    assert!(reason.starts_with("/nowhere/at/all.csv: can't be opened"), "{reason}");
}
