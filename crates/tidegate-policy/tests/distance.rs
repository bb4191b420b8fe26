//! Each algorithm's distance from the exact log, as its documentation states it.

#[path = "../examples/compare.rs"]
#[allow(dead_code, reason = "the example's own main")]
mod compare;

use tidegate_policy::Algorithm;

#[test]
fn the_measured_distance_stands_in_each_algorithms_documentation() {
    for distance in compare::measure(&compare::bursts()) {
        let documentation = match distance.rule.algorithm() {
            // What the others are measured against; not a rate.
            Algorithm::SlidingLog | Algorithm::Concurrency => continue,
            Algorithm::SlidingCounter => include_str!("../src/sliding_counter.rs"),
            Algorithm::FixedWindow => include_str!("../src/fixed_window.rs"),
            Algorithm::TokenBucket => include_str!("../src/token_bucket.rs"),
            Algorithm::Gcra => include_str!("../src/gcra.rs"),
            Algorithm::LeakyBucket => include_str!("../src/leaky_bucket.rs"),
        };
        let (worst, unlike) = (distance.worst_window, distance.unlike_the_log * 100.0);
        let figures = format!("worst window {worst:.2} ×, {unlike:.1} % of decisions unlike the log's.");
        assert!(documentation.contains(&figures), "{}: {figures}", distance.rule.algorithm());
    }
}

#[test]
fn the_log_never_lets_more_than_its_limit_into_any_window_and_the_fixed_window_up_to_twice() {
    let distances = compare::measure(&compare::bursts());
    let worst = |algorithm| {
        let found = distances.iter().find(|distance| distance.rule.algorithm() == algorithm);
        found.expect("it was measured").worst_window
    };
    assert!(worst(Algorithm::SlidingLog) <= 1.0);
    assert!(worst(Algorithm::LeakyBucket) <= 1.01, "one more at the edge");
    for algorithm in [Algorithm::FixedWindow, Algorithm::SlidingCounter, Algorithm::TokenBucket, Algorithm::Gcra] {
        assert!(worst(algorithm) > 1.0 && worst(algorithm) <= 2.0, "{algorithm}: {}", worst(algorithm));
    }
}
