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
fn times_show_the_step_and_the_gaps_and_a_column_can_be_chosen() {
    let text = "time,bytes,requests\n2026-01-19T16:30:00Z,10,1\n2026-01-19 16:35:00,20,2\n\n# a pause\n\
                2026-01-19T16:50:00Z,30,3\n";
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

/// The step was the middle of the distances in the order of the file, and what came before the first line was rejected.
#[test]
fn lines_may_come_in_any_order_and_of_several_for_one_time_the_last_counts() {
    let series =
        Written::new("order", "105,6\n100,1\n103,4\n101,2\n104,5\n102,3\n103,9\n").read(None).expect("a series");
    assert_eq!((series.step(), series.history().start), (1, 100));
    assert_eq!(series.history().values, [1.0, 2.0, 3.0, 9.0, 5.0, 6.0]);
}

/// Times are rounded down to whole steps, so there may be one step more than fits between them.
#[test]
fn the_first_value_is_kept_where_times_are_no_multiples_of_the_step() {
    let series = Written::new("odd", "299,1\n600,2\n901,3\n").read(None).expect("a series");
    assert_eq!(series.history().known().map(|(_, value)| value).collect::<Vec<_>>(), [1.0, 2.0, 3.0]);
}

#[test]
fn what_spreadsheets_write_is_read() {
    for (name, text) in [
        ("crlf", "time,requests\r\n1,5\r\n2,6\r\n"),
        ("bom", "\u{feff}time,requests\n1,5\n2,6\n"),
        ("quotes", "\"time\",\"requests\"\n\"1\",\"5\"\n\"2\",\"6\"\n"),
    ] {
        assert_eq!(Written::new(name, text).read(Some("requests")).expect(name).history().values, [5.0, 6.0]);
    }
}

#[test]
fn what_is_wrong_is_reported_with_its_file_and_line_and_what_is_expected() {
    let expected = "a value must be a number from 0 to 1e9, got";
    for (name, text, column, reported) in [
        ("value", "1,5\n2,x\n", None, format!(":2: {expected} \"x\"")),
        ("negative", "1,5\n2,-3\n", None, format!(":2: {expected} \"-3\"")),
        ("huge", "100,5\n101,6\n102,2e9\n", None, format!(":3: {expected} \"2e9\"")),
        ("nan", "1,5\n2,NaN\n", None, format!(":2: {expected} \"NaN\"; where nothing is known, leave the line out")),
        ("blank", "1,5\n2,\n", None, format!(":2: {expected} \"\"; where nothing is known, leave the line out")),
        ("semicolons", "time;a\n1;5\n", None, format!(":2: {expected} \"1;5\"; columns are separated by commas")),
        ("time", "1,5\nlater,6\n", None, ":2: a time must be seconds or such as 2026".to_owned()),
        ("column", "time,a\n1,5\n2,5\n", Some("b"), ":1: has no column \"b\"; there are: time, a".to_owned()),
        ("empty", "", None, ": must have lines such as".to_owned()),
        ("header", "time,requests\n", None, ": must have lines such as".to_owned()),
        ("one", "1,5\n", None, ": must have values of at least two different seconds, got 1 value of one".to_owned()),
        (
            "same",
            "1,5\n1,6\n",
            None,
            ": must have values of at least two different seconds, got 2 values of one".to_owned(),
        ),
        ("years", "1,5\n40000001,6\n", None, ": must have steps of at most 366 d, got 463 d".to_owned()),
        (
            "long",
            "0,5\n1,6\n2,6\n900000000000,7\n",
            None,
            ": must span at most 2,000,000 steps, got 900,000,000,001 of 1 s".to_owned(),
        ),
    ] {
        let file = Written::new(name, text);
        let reason = file.read(column).expect_err(name);
        assert!(reason.contains(&format!("{name}.csv{reported}")), "{name}: {reason}");
    }
    let reason = series_from_csv(&PathBuf::from("/nowhere/at/all.csv"), None).expect_err("no file");
    assert!(reason.starts_with("/nowhere/at/all.csv: can't be opened"), "{reason}");
}
