//! Endpoints that become available get their share little by little.

use super::{gateway, named, shares};
use tidegate_testkit::{Gateway, Upstream};

/// Adds an endpoint by a reload.
fn join(gateway: &Gateway, known: &Upstream, joining: &Upstream) {
    let file = std::fs::read_to_string(&gateway.config).expect("its file");
    let (before, after) = (format!("\"http://{}\"", known.address), format!("\"http://{}\"", joining.address));
    std::fs::write(&gateway.config, file.replace(&before, &format!("{before}, {after}"))).expect("it can be written");
    assert_eq!(gateway.post("/reload", "").status, 200);
}

/// After an hour it would have half of the requests. At first it gets a tenth of that share: 1 of 11.
#[test]
fn an_endpoint_that_joins_gets_less_than_its_share_at_first() {
    for balance in ["least_requests", "round_robin"] {
        for (slow_start, expected) in [("1h", 10..=70), ("0", 150..=250)] {
            let [one, joining] = [named("one"), named("joining")];
            let gateway = gateway(&[one.address], &format!("balance: {balance}, slow_start: {slow_start}"));
            assert_eq!(shares(&gateway, 10, &[&one]), [10], "alone it has everything");
            join(&gateway, &one, &joining);
            let got = shares(&gateway, 400, &[&one, &joining]);
            assert!(expected.contains(&got[1]) && got[0] + got[1] == 400, "{balance}, {slow_start}: {got:?}");
        }
    }
}

/// None of them has anything to catch up with.
#[test]
fn endpoints_that_are_there_from_the_start_have_their_share_at_once() {
    let [one, two] = [named("one"), named("two")];
    let got = shares(&gateway(&[one.address, two.address], "slow_start: 1h"), 400, &[&one, &two]);
    assert!(got.iter().all(|count| (150..=250).contains(count)), "{got:?}");
}

#[test]
fn an_endpoint_that_an_operator_returns_gets_less_than_its_share_at_first() {
    let [one, two] = [named("one"), named("two")];
    let gateway = gateway(&[one.address, two.address], "slow_start: 1h");
    for state in ["down", "auto"] {
        let body = format!("{{\"state\": \"{state}\"}}");
        assert_eq!(gateway.post(&format!("/config/upstreams/app/{}", one.address), &body).status, 200);
    }
    let got = shares(&gateway, 400, &[&one, &two]);
    assert!((10..=70).contains(&got[0]), "{got:?}");
}
