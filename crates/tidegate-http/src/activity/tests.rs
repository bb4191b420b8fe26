use super::*;
use crate::deadlines::{Deadlines, Found, Owner};

const WRITE_TIMEOUT_MILLIS: u64 = 30_000;

/// An HTTP/2 connection.
fn connected() -> (Arc<Deadlines>, Arc<Activity>) {
    let write = Duration::from_millis(WRITE_TIMEOUT_MILLIS);
    let pace = PaceTerms { bytes_per_second: 10_000, window: Duration::from_secs(60), step: 0 };
    let timeouts = Timeouts { head: Duration::from_secs(10), idle: Duration::from_secs(75), write, pace };
    let deadlines = Deadlines::new();
    let activity = Activity::new(deadlines.deadline(Owner::NONE), timeouts, true, BusyConnections::default());
    (deadlines, activity)
}

fn is_idle(deadlines: &Deadlines) -> bool {
    let mut found = Found::default();
    deadlines.idlers(&mut found);
    found.idlers.iter().any(|idler| idler.waiting != Waiting::Taking)
}

/// Between its arrival and its beginning, the end of another stream made the connection idle: an eviction then
/// dropped the request.
#[test]
fn a_request_that_has_come_keeps_its_connection_from_being_idle() {
    let (deadlines, activity) = connected();
    activity.request_began();
    let arrival = activity.request_came();
    activity.request_ended();
    assert!(!is_idle(&deadlines) && !activity.is_idle());
    activity.request_began();
    drop(arrival);
    assert!(!is_idle(&deadlines), "it is under way");
    activity.request_ended();
    assert!(is_idle(&deadlines));
    drop(activity.request_came());
    assert!(is_idle(&deadlines), "it was given up before it began");
}

/// A response that waits for the client's window had all of `idle_timeout`, and more with each request besides.
#[test]
fn only_a_byte_that_moves_gives_a_waiting_response_more_time() {
    let (deadlines, activity) = connected();
    let late = Some(Ended::Late(Waiting::Taking));
    activity.request_began();
    activity.piece_taken();
    activity.request_ended();
    assert!(!is_idle(&deadlines), "a response is under way");
    deadlines.sweep(WRITE_TIMEOUT_MILLIS - 1_000);
    activity.request_began();
    activity.request_ended();
    activity.has_written(0, false);
    activity.has_read();
    deadlines.sweep(WRITE_TIMEOUT_MILLIS + 100);
    assert_eq!(activity.deadline.ended(), late);

    activity.piece_moved(10_000);
    deadlines.sweep(2 * WRITE_TIMEOUT_MILLIS);
    assert_eq!(activity.deadline.ended(), None);
    deadlines.sweep(2 * WRITE_TIMEOUT_MILLIS + 200);
    assert_eq!(activity.deadline.ended(), late);
    activity.piece_gone();
    assert!(is_idle(&deadlines));
}

/// hyper drops a body with its last piece. A connection with such pieces was not busy, and a byte now and then kept
/// it for ever.
#[test]
fn a_connection_with_unsent_pieces_is_busy_and_its_pace_is_judged() {
    let (deadlines, activity) = connected();
    activity.request_began();
    activity.piece_taken();
    activity.request_ended();
    assert_eq!(activity.busy.all.load(Ordering::Relaxed), 1);
    for now in (0..60_000).step_by(10_000) {
        deadlines.sweep(now);
        assert!(!activity.is_late(), "{now}");
        activity.piece_moved(1);
    }
    deadlines.sweep(61_000);
    assert!(activity.is_late());
    activity.piece_gone();
    assert_eq!(activity.busy.all.load(Ordering::Relaxed), 0);
}

/// Requests under way kept an HTTP/2 connection from making room, though its client took none of its responses.
#[test]
fn a_connection_whose_requests_all_wait_for_the_client_can_make_room() {
    let (deadlines, activity) = connected();
    let (_one, other) = (activity.stream_began(), activity.stream_began());
    let stalled = || {
        let mut found = Found::default();
        deadlines.idlers(&mut found);
        found.idlers.first().map(|idler| (idler.waiting, idler.waited.as_millis()))
    };
    deadlines.sweep(1_000);
    activity.request_began();
    assert_eq!(stalled(), None);
    let waits = activity.stream_waits();
    activity.request_began();
    assert_eq!(stalled(), None, "another one is served");
    let other_waits = activity.stream_waits();
    deadlines.sweep(3_000);
    // Those that come and wait for their turn show nothing: one each second kept the connection.
    drop(activity.request_waits());
    assert_eq!(stalled(), Some((Waiting::Taking, 2_000)));
    drop(other_waits);
    assert_eq!(stalled(), None, "one is taken");
    activity.request_ended();
    drop(other);
    assert_eq!(stalled(), Some((Waiting::Taking, 0)));
    drop(waits);
    assert_eq!(stalled(), None, "it is taken");
    let waits = activity.stream_waits();
    deadlines.sweep(5_000);
    activity.stream_moved(100);
    assert_eq!(stalled(), Some((Waiting::Taking, 1_976)), "a byte now and then shows nothing");
    activity.stream_moved(1_000_000);
    assert_eq!(stalled(), Some((Waiting::Taking, 0)), "it goes on");
    drop(waits);
    activity.request_ended();
    assert!(is_idle(&deadlines));
}

/// Each byte gave it another `write_timeout`.
#[test]
fn a_client_that_takes_a_byte_now_and_then_is_late_in_the_end() {
    let (deadlines, activity) = connected();
    activity.request_began();
    let mut now = 0;
    let is_late = |activity: &Activity, now: u64| {
        deadlines.sweep(now);
        activity.is_late()
    };
    while now < 60_000 {
        activity.has_written(1, false);
        activity.has_written(0, true);
        now += 5_000;
        assert!(!is_late(&activity, now), "{now}");
    }
    activity.has_written(1, false);
    activity.has_written(0, true);
    assert!(is_late(&activity, now + 100));
}

#[test]
fn a_client_that_takes_enough_is_never_late() {
    let (deadlines, activity) = connected();
    activity.request_began();
    for step in 1..1_000 {
        activity.has_written(100_000, false);
        activity.has_written(0, true);
        deadlines.sweep(step * 9_000);
        assert!(!activity.is_late(), "{step}");
    }
    deadlines.sweep(1_000 * 9_000 + WRITE_TIMEOUT_MILLIS);
    assert!(activity.is_late(), "it takes nothing any more");
}
