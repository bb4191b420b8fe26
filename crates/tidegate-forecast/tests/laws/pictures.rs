//! The picture of a backtest.

use tidegate_forecast::backtest::{Outcome, backtest};
use tidegate_forecast::{Forecaster, Series, Settings, plot, span};

use crate::generated::{all, by_second};

/// A text of a picture: where it is, which end of it, and what it says.
struct Text {
    x: f64,
    y: f64,
    anchor: String,
    words: String,
}

impl Text {
    /// From where to where it goes, by what letters of 12 px take in the widest usual font.
    fn reach(&self) -> (f64, f64) {
        let width = 6.9 * self.words.chars().count() as f64;
        let left = match self.anchor.as_str() {
            "middle" => self.x - width / 2.0,
            "end" => self.x - width,
            _ => self.x,
        };
        (left, left + width)
    }
}

/// What is written on the axes.
fn axes(svg: &str) -> Vec<Text> {
    let document = roxmltree::Document::parse(svg).expect("XML");
    let small = document.descendants().filter(|node| node.attribute("class") == Some("small"));
    let of = |node: roxmltree::Node<'_, '_>| {
        let attribute = |name: &str| node.attribute(name).expect("a text has it").to_owned();
        let number = |name: &str| attribute(name).parse().expect("a number");
        let words = node.text().unwrap_or_default().to_owned();
        Text { x: number("x"), y: number("y"), anchor: attribute("text-anchor"), words }
    };
    // Those above are the title's.
    small.map(of).filter(|text| text.y > 60.0).collect()
}

/// The picture of so many steps.
fn drawn(start: i64, step: u32, count: usize) -> String {
    let mut series = Series::new(step, count);
    for index in 0..count {
        assert!(series.put(start + index as i64 * i64::from(step), (index % 7) as f64));
    }
    let settings = Settings { horizon: 2, stride: count / 4, kept: 60, step };
    let outcome = backtest(series.history(), settings, 0, Forecaster::new(settings)).expect("long enough");
    plot::svg("times", series.history(), &outcome)
}

/// The labels under the axis of the first panel: times, and what stands below them.
fn times(svg: &str) -> (Vec<String>, Vec<String>) {
    let texts = axes(svg);
    let first = texts.iter().filter(|text| text.anchor == "middle").map(|text| text.y).fold(f64::MAX, f64::min);
    let row = |y: f64| texts.iter().filter(|text| (text.y - y).abs() < 0.5).map(|text| text.words.clone()).collect();
    (row(first), row(first + 15.0))
}

fn judged(series: &Series, settings: Settings) -> Outcome {
    backtest(series.history(), settings, 60, Forecaster::new(settings)).expect("long enough")
}

#[test]
fn it_is_xml_that_needs_nothing_else_and_a_title_is_only_text() {
    let series = all(1).swap_remove(1).series;
    let outcome = judged(&series, Settings::default());
    for title in ["load", "a<b>&\"c\"'.csv", "]]> \u{1} \u{ffff} <script>alert(1)</script>", "", "ü 速い"] {
        let svg = plot::svg(title, series.history(), &outcome);
        let document = roxmltree::Document::parse(&svg).unwrap_or_else(|error| panic!("{title}: {error}"));
        let named = |name: &'static str| {
            document.descendants().filter(move |node| node.has_tag_name(("http://www.w3.org/2000/svg", name)))
        };
        assert_eq!(named("script").count() + named("image").count() + named("a").count(), 0);
        assert_eq!(svg.matches("http").count(), 1, "nothing but the name space");
        let texts: Vec<&str> = named("text").filter_map(|node| node.text()).collect();
        let shown: String = title.chars().take(10).take_while(|letter| !letter.is_control()).collect();
        assert!(texts.iter().any(|text| text.starts_with(&shown)), "{title}: {texts:?}");
        assert!(texts.contains(&"combination") && texts.contains(&"14 Nov 2023 UTC"), "{texts:?}");
        for node in document.descendants().flat_map(|node| node.attributes()) {
            assert!(!node.value().contains("NaN") && !node.value().contains("inf"), "{node:?}");
        }
    }
}

#[test]
fn its_size_is_bounded_however_long_the_series() {
    let settings = Settings { horizon: 5, stride: 5, kept: 60, ..Settings::default() };
    for length in [100, 700, 1_000, 20_000] {
        let mut random = fastrand::Rng::with_seed(3);
        let series = by_second((0..length).map(|_| random.f64() * 1e6));
        let size = plot::svg("long", series.history(), &judged(&series, settings)).len();
        assert!(size < 400_000, "{length} values, {size} bytes");
    }
}

#[test]
fn gaps_and_nothing_at_all_can_be_drawn() {
    let settings = Settings { horizon: 5, ..Settings::default() };
    let mut gaps = Series::new(1, 10_000);
    (0..3_000).filter(|second| second % 400 < 120 || second % 7 == 0).for_each(|second| assert!(gaps.put(second, 3.0)));
    for series in [gaps, by_second(vec![0.0; 300])] {
        let svg = plot::svg("gaps", series.history(), &judged(&series, settings));
        roxmltree::Document::parse(&svg).expect("XML");
        assert!(!svg.contains("NaN"));
    }
}

#[test]
fn lengths_of_time_are_shown_in_the_unit_that_suits() {
    for (seconds, reported) in [
        (1.0, "1 s"),
        (37.4, "37.4 s"),
        (60.0, "1 min"),
        (61.0, "61 s"),
        (90.0, "1.5 min"),
        (300.0, "5 min"),
        (3_600.0, "1 h"),
        (86_400.0, "1 d"),
        (86_397.3, "24 h"),
        (604_800.0, "7 d"),
        (0.25, "0.2 s"),
    ] {
        assert_eq!(span(seconds), reported);
    }
}

/// One at the right edge had half of its date outside; a first tick before midnight had its date written over by the
/// next one.
#[test]
fn labels_lie_within_the_picture_and_not_on_each_other() {
    // The last minute of a year, a time before 1970, seconds of no calendar, and one far ahead.
    let starts = [1_767_225_599, 1_767_225_600 - 86_400, 1_768_866_990, -5_000_000_000, 0, 100_000, 500_000_000_000];
    for step in [1, 2, 7, 60, 300, 3_600, 86_400, 604_800, 31_536_000] {
        for (start, count) in
            starts.into_iter().flat_map(|start| [64, 100, 481, 601, 719, 725, 1_441].map(|count| (start, count)))
        {
            let texts = axes(&drawn(start, step, count));
            for (index, text) in texts.iter().enumerate() {
                let (left, right) = text.reach();
                let reported = format!("{:?} of {count} steps of {step} s from {start}", text.words);
                assert!(left >= 0.0 && right <= 1_000.0, "outside: {reported}");
                let is_on = |other: &&Text| {
                    (other.y - text.y).abs() < 10.0 && other.reach().0 < right && left < other.reach().1
                };
                let other = texts.iter().skip(index + 1).find(is_on);
                assert!(other.is_none(), "{reported} lies on {:?}", other.map(|other| &other.words));
            }
            let (labels, below) = times(&drawn(start, step, count));
            assert!(
                (2..=11).contains(&labels.len()) && !below.is_empty(),
                "{labels:?} {below:?}: {count} steps of {step} s from {start}"
            );
        }
    }
}

#[test]
fn the_first_tick_has_day_year_and_zone_and_the_others_what_changes() {
    for (start, step, count, labels, below) in [
        (1_768_866_990, 1, 400, "23:57, 23:58, 23:59, 00:00, 00:01, 00:02, 00:03", "19 Jan 2026 UTC, 20 Jan"),
        (
            1_767_225_590,
            1,
            30,
            "23:59:50, 23:59:55, 00:00:00, 00:00:05, 00:00:10, 00:00:15",
            "31 Dec 2025 UTC, 1 Jan 2026",
        ),
        (1_767_139_200, 3_600, 64, "00:00, 12:00, 00:00, 12:00, 00:00, 12:00", "31 Dec 2025 UTC, 1 Jan 2026, 2 Jan"),
        (1_767_139_200, 3_600, 140, "31 Dec, 1 Jan, 2 Jan, 3 Jan, 4 Jan, 5 Jan", "2025 UTC, 2026"),
        (1_500_000_000, 86_400, 700, "Oct, Jan, Apr, Jul, Oct, Jan, Apr", "2017 UTC, 2018, 2019"),
        (1_500_000_000, 864_000, 300, "2018, 2019, 2020, 2021, 2022, 2023, 2024, 2025", "UTC"),
        (
            -17_280_000,
            300,
            300,
            "00:00, 03:00, 06:00, 09:00, 12:00, 15:00, 18:00, 21:00, 00:00",
            "15 Jun 1969 UTC, 16 Jun",
        ),
        (
            -11_700_000_000,
            1,
            9,
            "08:00:00, 08:00:01, 08:00:02, 08:00:03, 08:00:04, 08:00:05, 08:00:06, 08:00:07, 08:00:08",
            "30 Mar 1599 UTC",
        ),
    ] {
        let (reported, reported_below) = times(&drawn(start, step, count));
        assert_eq!((reported.join(", ").as_str(), reported_below.join(", ").as_str()), (labels, below));
    }
}

#[test]
fn seconds_without_a_date_are_shown_as_the_time_that_has_passed() {
    for (start, step, count, labels) in [
        (0, 1, 100, "0 / 10 s / 20 s / 30 s / 40 s / 50 s / 1 min / 1 min 10 s / 1 min 20 s / 1 min 30 s"),
        (100_000, 60, 700, "0 / 2 h / 4 h / 6 h / 8 h / 10 h"),
        (300, 600, 600, "0 / 12 h / 1 d / 1 d 12 h / 2 d / 2 d 12 h / 3 d / 3 d 12 h / 4 d"),
    ] {
        let svg = drawn(start, step, count);
        assert_eq!(times(&svg), (labels.split(" / ").map(str::to_owned).collect(), vec!["since the start".to_owned()]));
        assert!(!svg.contains("1970") && !svg.contains("UTC"));
    }
}

#[test]
fn an_axis_of_nothing_but_zeros_goes_up_to_one() {
    let series = by_second(vec![0.0; 300]);
    let svg = plot::svg("zeros", series.history(), &judged(&series, Settings { horizon: 5, ..Settings::default() }));
    let values: Vec<String> =
        axes(&svg).into_iter().filter(|text| text.anchor == "end").map(|text| text.words).collect();
    assert_eq!(values, ["0", "0.5", "1"]);
    assert!(svg.contains("– · "), "where nothing changes there is no unit of errors");
}

#[test]
fn moments_are_reported_on_both_sides_of_1970() {
    for (second, reported) in [
        (1_768_840_200, "2026-01-19T16:30:00Z"),
        (0, "1970-01-01T00:00:00Z"),
        (-1, "1969-12-31T23:59:59Z"),
        (-14_182_940, "1969-07-20T20:17:40Z"),
        (-12_219_292_800, "1582-10-15T00:00:00Z"),
        (253_402_300_800, "10000-01-01T00:00:00Z"),
    ] {
        assert_eq!(plot::moment(second), reported);
    }
}
