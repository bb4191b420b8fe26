//! For how long endpoints are ejected, how many at once, and for which statuses.

use super::switched::{CHECKED, Switched};
use super::{gateway, named, shown, state};
use tidegate_testkit::{Gateway, wait_until};

/// The lines of the log about ejections: how long each lasts, and its number in a row.
fn ejections(gateway: &Gateway) -> Vec<(String, String)> {
    let between =
        |line: &str, before: &str, after: &str| Some(line.split_once(before)?.1.split_once(after)?.0.to_owned());
    let read =
        |line: String| Some((between(&line, "ejected for ", ": ")?, between(&line, "(ejection ", " in a row)")?));
    gateway.lines().into_iter().filter_map(read).collect()
}

/// Sends requests until the log has so many ejections.
fn eject(gateway: &Gateway, count: usize) -> Vec<(String, String)> {
    wait_until("it is ejected again", || {
        gateway.get("/");
        ejections(gateway).len() >= count
    });
    ejections(gateway)
}

#[test]
fn each_ejection_in_a_row_is_longer_up_to_the_longest() {
    let (failing, good) = (Switched::new(503), named("good"));
    let settings = "slow_start: 0, ejection: {consecutive_failures: 1, time: 100ms, max_time: 250ms, interval: 1h}";
    let gateway = gateway(&[failing.address, good.address], settings);
    let expected = [("0.1 s", "1"), ("0.2 s", "2"), ("0.25 s", "3"), ("0.25 s", "3")];
    let seen = eject(&gateway, expected.len());
    let seen: Vec<(&str, &str)> = seen.iter().map(|(length, number)| (length.as_str(), number.as_str())).collect();
    assert_eq!(seen[..expected.len()], expected);
}

/// `interval` is also the time without trouble after which the next ejection is shorter again.
#[test]
fn after_calm_intervals_an_ejection_is_the_first_in_a_row_again() {
    let (sometimes, good) = (Switched::new(503), named("good"));
    let settings = "slow_start: 0, ejection: {consecutive_failures: 1, time: 100ms, max_time: 1s, interval: 1s}";
    let gateway = gateway(&[sometimes.address, good.address], settings);
    let in_a_row = || shown(&gateway, sometimes.address)["ejectionsInARow"].as_u64().expect("a number");
    wait_until("it is ejected twice in a row", || {
        gateway.get("/");
        in_a_row() >= 2
    });
    sometimes.respond(200);
    wait_until("it has been calm for long enough", || in_a_row() == 0);
    let before = ejections(&gateway).len();
    sometimes.respond(503);
    let seen = eject(&gateway, before + 1);
    assert_eq!(seen[before], ("0.1 s".into(), "1".into()));
}

/// All fail, and all would be ejected.
#[test]
fn no_more_endpoints_are_ejected_than_their_share() {
    for (share, expected) in [("0.25", 1), ("0.5", 2), ("0.75", 3)] {
        let pool: Vec<Switched> = (0..4).map(|_| Switched::new(503)).collect();
        let addresses: Vec<_> = pool.iter().map(|failing| failing.address).collect();
        let settings = format!(
            "balance: round_robin, ejection: {{consecutive_failures: 1, time: 1h, max_time: 1h, max_share: {share}}}"
        );
        let gateway = gateway(&addresses, &settings);
        wait_until("each has failed", || {
            gateway.get("/");
            pool.iter().all(|failing| failing.requests() > 0)
        });
        let failed_after = pool.iter().map(Switched::requests).sum::<usize>();
        assert!((0..20).all(|_| gateway.get("/").status == 503));
        assert_eq!(pool.iter().map(Switched::requests).sum::<usize>(), failed_after + 20);
        let ejected = addresses.iter().filter(|address| state(&gateway, **address) == "ejected").count();
        assert_eq!(ejected, expected, "max_share: {share}");
        gateway.wait_for_line("is not ejected, because too many others are");
    }
}

/// Each endpoint has a status of its own.
#[test]
fn exactly_the_statuses_that_count_eject() {
    const STATUSES: [u16; 9] = [200, 404, 408, 429, 500, 502, 503, 504, 599];
    for (statuses, expected) in
        [("", &[502, 503, 504][..]), ("statuses: [429, 599], ", &[429, 599]), ("statuses: [], ", &[])]
    {
        let pool = STATUSES.map(Switched::new);
        let addresses = pool.each_ref().map(|endpoint| endpoint.address);
        let settings =
            format!("balance: round_robin, ejection: {{{statuses}consecutive_failures: 1, max_share: 1, time: 30s}}");
        let gateway = gateway(&addresses, &settings);
        wait_until("each has responded twice, or is out", || {
            gateway.get("/");
            pool.iter().all(|endpoint| endpoint.requests() > 1 || state(&gateway, endpoint.address) == "ejected")
        });
        let is_ejected = |index: &usize| state(&gateway, addresses[*index]) == "ejected";
        let ejected: Vec<u16> = (0..STATUSES.len()).filter(is_ejected).map(|index| STATUSES[index]).collect();
        assert_eq!(ejected, expected, "{statuses:?}");
    }
}

/// One that might work is better than none, and nobody knows which one that is. The checks of all of them fail, though
/// they respond.
#[test]
fn if_all_are_out_each_of_them_gets_requests() {
    for balance in ["least_requests", "round_robin", "hash"] {
        let pool = [200, 200, 200].map(Switched::new);
        for endpoint in &pool {
            endpoint.respond_to_checks(503);
        }
        let addresses = pool.each_ref().map(|endpoint| endpoint.address);
        let settings = format!(
            "balance: {balance}, hash_key: \"header:x-key\", health_check: {{path: {CHECKED}, interval: 100ms}}"
        );
        let gateway = gateway(&addresses, &settings);
        let mut key = 0;
        let mut ask = || {
            key += 1;
            gateway.get_with("/", &[("X-Key", &key.to_string())]).status
        };
        wait_until("all are out", || addresses.iter().all(|address| state(&gateway, *address) == "unhealthy"));
        let before = pool.each_ref().map(Switched::requests);
        assert!((0..60).all(|_| ask() == 200));
        let got: Vec<usize> = pool.iter().zip(before).map(|(endpoint, before)| endpoint.requests() - before).collect();
        assert!(got.iter().all(|count| *count > 5) && got.iter().sum::<usize>() == 60, "{balance}: {got:?}");
    }
}

/// All of them fail, and requests have to go somewhere.
#[test]
fn the_last_endpoint_that_is_up_is_never_ejected() {
    let pool = [503, 503, 503].map(Switched::new);
    let addresses = pool.each_ref().map(|endpoint| endpoint.address);
    let settings = "ejection: {consecutive_failures: 1, time: 1h, max_time: 1h, max_share: 1}";
    let gateway = gateway(&addresses, settings);
    assert!((0..60).all(|_| gateway.get("/").status == 503));
    let mut states = addresses.map(|address| state(&gateway, address));
    states.sort();
    assert_eq!(states, ["ejected", "ejected", "up"]);
}
