//! Second attempts together with what else there is.

use std::net::TcpListener;
use std::sync::atomic::Ordering;
use std::time::Duration;

use tidegate_testkit::{Gateway, Upstream, wait_until};

use super::super::{config, gateway, reload, settable, statuses, with_status};
use super::{HEDGE, Holding, assert_all_free, hedges, repeated, send, warm};

/// Behind one address there may be many machines.
#[test]
fn with_one_endpoint_it_goes_to_the_same() {
    let upstream = Holding::new();
    let gateway = warm(&[upstream.address()], HEDGE, "");
    upstream.hold(true);
    let before = upstream.upstream.count();
    let mut client = send(&gateway, "/");
    wait_until("it has both", || upstream.upstream.count() == before + 2);
    upstream.hold(false);
    assert_eq!(client.response().status, 200);
    assert_all_free(&gateway);
}

#[test]
fn one_that_finds_no_connection_leaves_the_decision_to_the_first() {
    let upstream = Holding::new();
    let closed = TcpListener::bind("127.0.0.1:0").expect("a free port").local_addr().expect("an address");
    let gateway = warm(&[upstream.address(), closed], &HEDGE.replace("attempts: 2", "attempts: 4"), "");
    // Those that were sent elsewhere are no first attempts.
    assert_eq!(statuses(&gateway, 60), [200; 60]);
    upstream.hold(true);
    // One of two goes to the one that can't be reached at first.
    let clients = [(); 2].map(|()| send(&gateway, "/"));
    let refused = || {
        let name = "tidegate_upstream_repeated_total{service=\"app\",reason=\"connect_failed\"}";
        gateway.metric(name).unwrap_or_default()
    };
    let before = refused();
    wait_until("the second one was sent", || hedges(&gateway).0 > 0);
    upstream.hold(false);
    for mut client in clients {
        assert_eq!(client.response().status, 200);
    }
    wait_until("its failure can be seen", || refused() > before);
    assert_all_free(&gateway);
}

#[test]
fn the_delay_follows_the_quantile_and_is_not_below_the_least() {
    const SLOW: Duration = Duration::from_millis(40);
    let upstream = Upstream::responding(|received| {
        if received.line.contains("slow") {
            tidegate_testkit::pause(SLOW);
        }
        with_status(200)
    });
    let delay = |gateway: &Gateway| gateway.metric("tidegate_hedge_delay_seconds{service=\"app\",policy=\"p\"}");
    let with = |hedge: &str| {
        let policy = format!("retry: {{budget: {{share: 0, floor: 0.1}}, hedge: {{{hedge}}}}}");
        let gateway = gateway(&[upstream.address], &policy);
        for number in 0..60 {
            gateway.get(if number % 3 == 0 { "/slow" } else { "/" });
            let is_known = delay(&gateway).is_some();
            assert_eq!(is_known, number >= 49, "after {} responses", number + 1);
        }
        delay(&gateway).expect("enough is known")
    };
    let slow = SLOW.as_secs_f64();
    assert!(with("quantile: 0.5, min_delay: 0s") < slow);
    assert!(with("quantile: 0.9, min_delay: 0s") >= slow);
    let least = with("quantile: 0.5, min_delay: 70s");
    assert!((least - 70.0).abs() < 1e-9, "{least}");
}

#[test]
fn a_reload_adds_changes_and_removes_it() {
    let (one, other) = (Holding::new(), Holding::new());
    let endpoints = [one.address(), other.address()];
    let text = |policy: &str| config(&endpoints, policy, "balance: round_robin", "");
    let plain = "retry: {attempts: 2, base: 1ms}";
    let gateway = Gateway::start(&text(plain));
    let has_metric = || gateway.metric("tidegate_hedges_total{service=\"app\",policy=\"p\"}").is_some();
    assert!(!has_metric());
    let reload = |policy: &str| reload(&gateway, &text(policy));
    reload(HEDGE);
    assert_eq!(statuses(&gateway, 60), [200; 60]);
    one.hold(true);
    other.hold(true);
    let before = one.upstream.count() + other.upstream.count();
    let mut client = send(&gateway, "/");
    wait_until("both have it", || one.upstream.count() + other.upstream.count() == before + 2);
    // What is known stays, and so does what is under way.
    reload(&HEDGE.replace("min_delay: 1ms", "min_delay: 3h"));
    let delay = gateway.metric("tidegate_hedge_delay_seconds{service=\"app\",policy=\"p\"}");
    assert_eq!(delay, Some(10_800.0));
    reload(plain);
    assert!(!has_metric());
    one.hold(false);
    other.hold(false);
    let response = client.response();
    assert_eq!((response.status, response.header("x-tidegate-attempts")), (200, Some("2")));
    assert_all_free(&gateway);
}

/// A failing upstream is no quick one: its errors do not shorten the delay.
#[test]
fn quick_errors_are_no_latencies() {
    let (upstream, status) = settable(503);
    let gateway = gateway(&[upstream.address], &HEDGE.replace("attempts: 2", "attempts: 2, on: [503]"));
    let delay = || gateway.metric("tidegate_hedge_delay_seconds{service=\"app\",policy=\"p\"}");
    assert_eq!(statuses(&gateway, 70), [503; 70]);
    assert_eq!(delay(), None);
    status.store(404, Ordering::Relaxed);
    assert_eq!(statuses(&gateway, 60), [404; 60]);
    assert!(delay().is_some(), "other errors are responses like all");
    assert_eq!(repeated(&gateway), 0);
}
