//! Settings that contradict themselves are rejected, with the setting's name and what was found.

use std::time::Duration;

use tidegate_policy::breaker::{Breaker, BreakerSettings, SlowCalls, Window};

use super::seconds;

#[test]
fn what_makes_no_sense_is_rejected_by_name() {
    let usual = BreakerSettings::default();
    let slow = |threshold, share| Some(SlowCalls { threshold, share });
    let never = Duration::MAX;
    for (settings, message) in [
        (BreakerSettings { probes: 0, ..usual }, "`probes` must be between 1 and 1000, got 0"),
        (BreakerSettings { probes: 1_001, ..usual }, "`probes` must be between 1 and 1000, got 1001"),
        (
            BreakerSettings { minimum: 101, ..usual },
            "`minimum` must be at most the calls of `window`, which are 100, got 101",
        ),
        (BreakerSettings { minimum: 0, ..usual }, "`minimum` must be at least 1, got 0"),
        (BreakerSettings { window: Window::Calls(0), ..usual }, "`window` must be between 1 and 100000 calls, got 0"),
        (
            BreakerSettings { window: Window::Time(seconds(0)), ..usual },
            "`window` must be above 0 and at most 1152921504 s, got 0ns",
        ),
        (BreakerSettings { failures: Some(0.0), ..usual }, "`failures` must be above 0 and at most 1, got 0"),
        (BreakerSettings { failures: Some(f64::NAN), ..usual }, "`failures` must be above 0 and at most 1, got NaN"),
        (BreakerSettings { failures: None, ..usual }, "`failures` must be set if neither `slow` nor `consecutive` is"),
        (
            BreakerSettings { slow: slow(seconds(1), 1.5), ..usual },
            "`slow_calls` must be above 0 and at most 1, got 1.5",
        ),
        (
            BreakerSettings { slow: slow(seconds(0), 0.5), ..usual },
            "`slow` must be above 0 and at most 1152921504 s, got 0ns",
        ),
        (BreakerSettings { consecutive: Some(0), ..usual }, "`consecutive` must be at least 1, got 0"),
        (BreakerSettings { growth: 0.5, ..usual }, "`growth` must be between 1 and 10, got 0.5"),
        (
            BreakerSettings { growth: 2.0, longest_open: seconds(1), ..usual },
            "`longest_open` must be at least `open`, which is 30s, got 1s",
        ),
        (
            BreakerSettings { open: never, ..usual },
            "`open` must be above 0 and at most 1152921504 s, got 18446744073709551615.999999999s",
        ),
    ] {
        let error = Breaker::new(settings).expect_err(message);
        assert_eq!(error.to_string(), message);
    }
    assert!(Breaker::new(BreakerSettings { window: Window::Calls(100_000), ..usual }).is_ok());
    assert!(
        Breaker::new(BreakerSettings { window: Window::Time(seconds(86_400)), minimum: 1_000_000, ..usual }).is_ok()
    );
}
