//! A forecaster that is killed, frozen or replaced by a liar while spikes come: requests are limited by numbers within
//! the bounds, and none is lost.

use std::io::Write as _;
use std::time::Instant;

use serde_json::json;

use crate::adaptation::platform::{AT_ONCE, BASE, Platform, Setting, listen_at, patience, seconds, wait_for_second};
use crate::adaptation::spikes::is_free_of_errors;
use tidegate_testkit::Upstream;
use tidegate_testkit::timing::are_judged;

const SPIKES: u64 = 6;
/// Between the third and the fourth.
const TROUBLE_AFTER: u64 = 3;

/// What a bucket holds grows with its rate.
const AT_ONCE_RAISED: u64 = AT_ONCE * CEILING / BASE;
/// Requests a second that the gateway may let through, whatever it is advised.
const CEILING: u64 = 250;

/// Sends spikes, does something to the forecaster in the middle, and checks that no second brings more than `most`.
fn with_trouble(most: u64, make_trouble: impl FnOnce(&mut Platform) -> Option<Upstream>) -> Platform {
    // A limit by windows, to which the liar switches, may let a second's worth through at once.
    let setting = Setting { queue: 2 * CEILING, ..Setting::with_capacity(CEILING) };
    let mut platform = Platform::start(setting);
    let start = Instant::now();
    let load = platform.load(setting, 600, SPIKES);
    wait_for_second(start, TROUBLE_AFTER * setting.period);
    let _liar = make_trouble(&mut platform);
    let ran = load.ended_within(patience(setting.period * SPIKES));
    is_free_of_errors(&ran, &platform);
    let (seconds, mut before) = (seconds(&ran), 0);
    let (success, length) = (seconds.iter().map(|second| second.success).sum::<u64>(), seconds.len() as u64);
    assert!(success <= most * length, "{success} are more than {most} a second for {length} s");
    for second in seconds {
        // What is due in a second is decided in it or a moment later. After a spike a window may be used up for a
        // moment more.
        let is_quiet = second.sent.max(std::mem::replace(&mut before, second.sent)) <= BASE;
        let (least, most) = (if is_quiet { second.sent } else { 0 } * 95 / 100, most * 105 / 100);
        let is_within = (least..=most).contains(&second.success);
        assert!(is_within || !are_judged(), "{second:?}: between {least} and {most}\n{:#?}", platform.history());
        assert_eq!(second.sent, second.success + second.rejected + second.errors, "{second:?}");
    }
    platform
}

/// All at once: each takes as long as its load, and none needs much.
#[test]
fn trouble_with_the_forecaster_changes_nothing_beyond_the_bounds() {
    std::thread::scope(|scope| {
        for trouble in [is_killed, freezes, lies] {
            scope.spawn(trouble);
        }
    });
}

fn is_killed() {
    let platform = with_trouble(CEILING + AT_ONCE_RAISED, |platform| {
        let forecaster = platform.forecaster.take().expect("it has one");
        forecaster.signal("KILL");
        drop(forecaster);
        None
    });
    platform.gateway.wait_for_line("AI module unreachable, continuing with last known limits");
}

fn freezes() {
    let platform = with_trouble(CEILING + AT_ONCE_RAISED, |platform| {
        platform.forecaster.as_ref().expect("it has one").signal("STOP");
        None
    });
    platform.gateway.wait_for_line("AI module unreachable, continuing with last known limits");
    // Or it would not end.
    platform.forecaster.as_ref().expect("it has one").signal("CONT");
}

fn lies() {
    // The seconds of the load are not those of a window: it may have two of them.
    let platform = with_trouble(2 * CEILING, |platform| {
        let forecaster = platform.forecaster.take().expect("it has one");
        let address = forecaster.address;
        forecaster.signal("KILL");
        drop(forecaster);
        let lies = [
            json!({ "algorithm": "token", "capacity": 20, "fillRate": 1e12 }).to_string(),
            json!({ "algorithm": "token", "capacity": 20, "fillRate": 0 }).to_string(),
            json!({ "algorithm": "token", "capacity": 20, "fillRate": -5 }).to_string(),
            "{\"algorithm\": \"token\", \"capacity\": 20, \"fillRate\": NaN}".to_owned(),
            json!({
                "algorithm": "token", "capacity": 20, "fillRate": 1e6,
                "schedule": [{ "after": 1, "fillRate": 1e9 }], "validFor": 60,
            })
            .to_string(),
            json!({ "algorithm": "fixed", "limit": 1_000_000, "window": 1 }).to_string(),
            json!({ "algorithm": "sliding", "limit": 1_000_000_000, "window": 86_400 }).to_string(),
            "<html>".to_owned(),
        ];
        let reported = std::sync::atomic::AtomicUsize::new(0);
        Some(Upstream::listening(listen_at(address), move |_, stream| {
            let lie = &lies[reported.fetch_add(1, std::sync::atomic::Ordering::Relaxed) % lies.len()];
            let head = format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n", lie.len());
            stream.write_all(format!("{head}{lie}").as_bytes()).is_ok()
        }))
    });
    platform.gateway.wait_for_line("AI provided out-of-range value, using cap");
}
