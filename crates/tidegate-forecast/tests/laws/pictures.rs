//! The picture of a backtest.

use tidegate_forecast::backtest::{Outcome, backtest};
use tidegate_forecast::{Forecaster, Series, Settings, plot, span};

use crate::generated::{all, by_second};

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
fn lengths_of_time_are_told_in_the_unit_that_suits() {
    for (seconds, told) in [
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
        assert_eq!(span(seconds), told);
    }
}
