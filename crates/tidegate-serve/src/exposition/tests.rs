use super::*;
use crate::{Buckets, Histogram};
use std::time::Duration;

#[test]
fn a_family_has_its_help_and_type_once_and_its_samples_after_them() {
    let mut page = Exposition::new();
    page.family("requests_total", "Requests by code.", Kind::Counter)
        .sample(&[("code", "200"), ("route", "/a")], 7_u64)
        .sample(&[("code", "429"), ("route", "/a")], u64::MAX);
    page.family("up", "Whether it runs.", Kind::Gauge).sample(&[], true);
    assert_eq!(
        page.into_text(),
        "# HELP requests_total Requests by code.\n\
         # TYPE requests_total counter\n\
         requests_total{code=\"200\",route=\"/a\"} 7\n\
         requests_total{code=\"429\",route=\"/a\"} 18446744073709551615\n\
         # HELP up Whether it runs.\n\
         # TYPE up gauge\n\
         up 1\n"
    );
}

#[test]
fn nothing_in_a_label_or_help_can_leave_its_place() {
    let mut page = Exposition::new();
    page.family("up", "A \"help\"\nwith \\ everything.", Kind::Gauge).sample(&[("route", "\"} 1\nfake 2\\")], 0_u64);
    assert_eq!(
        page.into_text(),
        "# HELP up A \"help\"\\nwith \\\\ everything.\n\
         # TYPE up gauge\n\
         up{route=\"\\\"} 1\\nfake 2\\\\\"} 0\n"
    );
}

#[test]
fn numbers_are_written_as_prometheus_reads_them() {
    for (number, text) in [
        (Number::from(0.25), "0.25"),
        (Number::from(3.0), "3"),
        (Number::from(1e21), "1000000000000000000000"),
        (Number::from(1e-7), "0.0000001"),
        (Number::from(-2.5), "-2.5"),
        (Number::from(f64::INFINITY), "+Inf"),
        (Number::from(f64::NEG_INFINITY), "-Inf"),
        (Number::from(f64::NAN), "NaN"),
        (Number::from(5_usize), "5"),
        (Number::from(5_u32), "5"),
    ] {
        assert_eq!(number.to_string(), text);
    }
}

#[test]
fn buckets_are_cumulative_and_end_in_the_count() {
    let buckets = Buckets::new(&[Duration::from_micros(500), Duration::from_millis(5), Duration::from_secs(1)]);
    let histogram = Histogram::new(&buckets);
    for micros in [100, 500, 4_000, 2_000_000] {
        histogram.observe(Duration::from_micros(micros));
    }
    let mut page = Exposition::new();
    page.family("latency_seconds", "How long.", Kind::Histogram)
        .histogram(&[("route", "/")], &histogram.snapshot())
        .histogram_from(&[], &[], &[0], 0.0);
    assert_eq!(
        page.into_text(),
        "# HELP latency_seconds How long.\n\
         # TYPE latency_seconds histogram\n\
         latency_seconds_bucket{route=\"/\",le=\"0.0005\"} 2\n\
         latency_seconds_bucket{route=\"/\",le=\"0.005\"} 3\n\
         latency_seconds_bucket{route=\"/\",le=\"1\"} 3\n\
         latency_seconds_bucket{route=\"/\",le=\"+Inf\"} 4\n\
         latency_seconds_sum{route=\"/\"} 2.0046\n\
         latency_seconds_count{route=\"/\"} 4\n\
         latency_seconds_bucket{le=\"+Inf\"} 0\n\
         latency_seconds_sum 0\n\
         latency_seconds_count 0\n"
    );
}

#[cfg(debug_assertions)]
mod mistakes {
    use super::*;

    #[test]
    #[should_panic(expected = "up comes twice")]
    fn a_family_comes_once() {
        let mut page = Exposition::new();
        page.family("up", "Up.", Kind::Gauge);
        page.family("up", "Up.", Kind::Gauge);
    }

    #[test]
    #[should_panic(expected = "comes twice: up{a=\"1\"}")]
    fn a_series_comes_once() {
        let mut page = Exposition::new();
        page.family("up", "Up.", Kind::Gauge)
            .sample(&[("a", "1")], 1_u64)
            .sample(&[("a", "12")], 1_u64)
            .sample(&[("a", "1")], 2_u64);
    }

    #[test]
    #[should_panic(expected = "must be a valid name for a counter")]
    fn a_counter_ends_in_total() {
        Exposition::new().family("requests", "Requests.", Kind::Counter);
    }

    #[test]
    #[should_panic(expected = "a label of up")]
    fn the_label_of_bounds_is_taken() {
        Exposition::new().family("up", "Up.", Kind::Gauge).sample(&[("le", "1")], 1_u64);
    }
}
