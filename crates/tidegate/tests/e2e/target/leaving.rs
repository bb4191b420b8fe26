//! A client that goes away leaves nothing behind.

use crate::target::setting::{asking, faults, switch, target, wait_for_standing};
use tidegate_testkit::wait_until;

#[test]
fn a_client_that_leaves_the_queue_frees_its_slot() {
    let target = target(&["--workers", "1", "--queue", "1"]);
    switch(&target, r#"{"hang": true}"#);
    let mut served = asking(&target);
    wait_for_standing(&target, 1.0, 0.0);
    let waiting = asking(&target);
    wait_for_standing(&target, 1.0, 1.0);
    waiting.close();
    wait_for_standing(&target, 1.0, 0.0);
    assert_eq!(target.metric("target_abandoned_requests_total"), Some(1.0));
    let mut next = asking(&target);
    wait_for_standing(&target, 1.0, 1.0);
    faults(&target, "DELETE", "");
    assert_eq!((served.response().status, next.response().status), (200, 200));
    assert_eq!(target.metric("target_refused_requests_total"), Some(0.0));
}

#[test]
fn a_client_that_leaves_while_it_is_served_frees_the_worker() {
    let target = target(&["--workers", "1", "--queue", "1", "--service-time", "60s"]);
    let served = asking(&target);
    wait_for_standing(&target, 1.0, 0.0);
    let waiting = asking(&target);
    wait_for_standing(&target, 1.0, 1.0);
    served.close();
    wait_for_standing(&target, 1.0, 0.0);
    waiting.close();
    wait_for_standing(&target, 0.0, 0.0);
    assert_eq!(target.metric("target_abandoned_requests_total"), Some(2.0));
}

#[test]
fn a_client_that_leaves_while_it_hangs_frees_the_worker() {
    let target = target(&["--workers", "2", "--queue", "0", "--service-time", "0"]);
    switch(&target, r#"{"hang": true}"#);
    let hanging = [asking(&target), asking(&target)];
    wait_for_standing(&target, 2.0, 0.0);
    let rejected = asking(&target);
    wait_until("refused", || target.metric("target_refused_requests_total") == Some(1.0));
    hanging.into_iter().chain([rejected]).for_each(tidegate_testkit::Client::close);
    wait_for_standing(&target, 0.0, 0.0);
    wait_until("all are gone", || target.metric("target_abandoned_requests_total") == Some(3.0));
}

#[test]
fn cpu_work_goes_on_to_its_end_and_then_the_worker_is_free() {
    let target = target(&["--work", "cpu", "--workers", "1", "--queue", "1", "--service-time", "300ms"]);
    let served = asking(&target);
    wait_for_standing(&target, 1.0, 0.0);
    let waiting = asking(&target);
    wait_for_standing(&target, 1.0, 1.0);
    waiting.close();
    wait_for_standing(&target, 1.0, 0.0);
    served.close();
    wait_for_standing(&target, 0.0, 0.0);
    assert!(target.metric("process_cpu_seconds_total").expect("a number") >= 0.29);
    assert_eq!(target.get("/api/test").status, 200);
}
