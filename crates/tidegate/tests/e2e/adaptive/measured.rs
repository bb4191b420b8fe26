//! What the gateway measures itself: an upstream that is overloaded, and an attack.

use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use std::time::Duration;

use serde_json::Value;

use crate::adaptive::forecaster::{Behaviour, Forecaster};
use crate::adaptive::load::Load;
use crate::adaptive::setting::{
    HUNDRED, fixed, gateway, limit, updates, wait_for_entry, wait_for_limit, wait_for_verdict,
};
use tidegate_testkit::{OK, Upstream, pause, wait_until};

pub(crate) const FINE: u8 = 0;
const SLOW: u8 = 1;
pub(crate) const FAILING: u8 = 2;

/// An upstream whose state can be set.
pub(crate) fn upstream() -> (Upstream, Arc<AtomicU8>) {
    let state = Arc::new(AtomicU8::new(FINE));
    let seen = Arc::clone(&state);
    let upstream = Upstream::responding(move |_| match seen.load(Ordering::Relaxed) {
        FAILING => b"HTTP/1.1 500 Internal Server Error\r\nContent-Length: 0\r\n\r\n".to_vec(),
        SLOW => {
            pause(Duration::from_millis(80));
            OK.to_vec()
        }
        _ => OK.to_vec(),
    });
    (upstream, state)
}

#[test]
fn a_limit_is_lowered_while_its_upstream_is_overloaded_and_comes_back() {
    for (trouble, reported) in
        [(SLOW, "p95 latency is"), (FAILING, "of the upstream's responses are errors, more than 20 %")]
    {
        let ((upstream, state), forecaster) = (upstream(), Forecaster::responding(fixed(100)));
        let gateway = gateway(&upstream, &forecaster, HUNDRED, "latency: 40ms, errors: 0.2, floor: 60");
        let _load = Load::start(&gateway, 6, Duration::from_millis(15));
        forecaster.wait_for_more(3);
        assert_eq!(limit(&gateway)["set_by"], "file");
        state.store(trouble, Ordering::Relaxed);
        wait_until("the limit is at the floor", || limit(&gateway)["limit"] == 60);
        assert_eq!(limit(&gateway)["set_by"], "adaptive");
        wait_until("the ceiling is at the floor", || gateway.metric("tidegate_adaptive_ceiling_rps") == Some(60.0));
        let line = gateway.wait_for_line(
            "WARN AdaptiveController - Upstream overloaded, lowering the limit: algorithm=fixed, limit from 100 to ",
        );
        assert!(line.contains(reported), "{line}");
        let entry = wait_for_verdict(&gateway, "lowered");
        assert!(entry["reason"].as_str().is_some_and(|reason| reason.contains(reported)), "{entry}");
        state.store(FINE, Ordering::Relaxed);
        wait_until("the operator's limit is back", || limit(&gateway)["set_by"] == "file");
        gateway.wait_for_line("INFO AdaptiveController - Upstream recovered, the limit is no longer lowered");
        assert_eq!(gateway.metric("tidegate_adaptive_ceiling_rps"), Some(300.0));
        assert!(updates(&gateway, "lowered") == 1.0 && updates(&gateway, "released") == 1.0);
    }
}

#[test]
fn in_the_shadow_an_overload_lowers_nothing() {
    let ((upstream, state), forecaster) = (upstream(), Forecaster::responding(fixed(100)));
    let gateway = gateway(&upstream, &forecaster, HUNDRED, "errors: 0.2, mode: shadow");
    let _load = Load::start(&gateway, 2, Duration::from_millis(20));
    state.store(FAILING, Ordering::Relaxed);
    wait_for_verdict(&gateway, "shadow");
    assert_eq!((&limit(&gateway)["limit"], &limit(&gateway)["set_by"]), (&Value::from(100), &Value::from("file")));
}

#[test]
fn an_attack_raises_nothing_and_teaches_nothing() {
    let (upstream, forecaster) = (Upstream::start(), Forecaster::behaving(Behaviour::Closes));
    let gateway = gateway(&upstream, &forecaster, "{algorithm: fixed, limit: 10, window: 1}", "");
    let flood = Load::start(&gateway, 4, Duration::from_millis(1));
    wait_until("it is an attack", || gateway.metric("tidegate_adaptive_attack") == Some(1.0));
    gateway.wait_for_line("WARN AdaptiveController - Attack begins: ");
    forecaster.now_responses(fixed(20));
    wait_for_verdict(&gateway, "frozen");
    forecaster.wait_for_more(2);
    assert_eq!(limit(&gateway)["limit"], 10);
    let snapshots = forecaster.snapshots();
    let highest = |snapshot: &Value| {
        snapshot["series"]["offered"].as_array().into_iter().flatten().filter_map(Value::as_u64).max()
    };
    let last = snapshots.last().and_then(highest).expect("a series");
    assert_eq!(last, 30, "no more than the ceiling");
    let is_as_it_came = |snapshot: &Value| snapshot["observedRps"].as_f64() > Some(30.0);
    assert!(snapshots.last().is_some_and(is_as_it_came), "what is refused is a share of all that came");
    drop(flood);
    wait_for_limit(&gateway, 20);
    assert_eq!(gateway.metric("tidegate_adaptive_attack"), Some(0.0));
    gateway.wait_for_line("INFO AdaptiveController - Attack is over");
    for event in ["attack_begins", "attack_ends"] {
        wait_for_entry(&gateway, event, |entry| entry["event"] == event);
    }
}
