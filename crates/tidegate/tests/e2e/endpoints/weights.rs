//! The least and the largest weight, in one pool.

use super::{named, with_upstream};
use tidegate_testkit::{Gateway, Upstream};

fn pool(endpoints: [(&Upstream, u32); 3], settings: &str) -> String {
    let urls =
        endpoints.map(|(endpoint, weight)| format!("{{url: \"http://{}\", weight: {weight}}}", endpoint.address));
    format!("endpoints: [{}], slow_start: 0, {settings}", urls.join(", "))
}

/// How many of so many requests each of these gets. Each request has a key of its own.
fn shares(gateway: &Gateway, requests: usize, upstreams: &[&Upstream; 3]) -> [usize; 3] {
    let before = upstreams.map(Upstream::count);
    assert!((0..requests).all(|key| gateway.get_with("/", &[("X-Key", &key.to_string())]).status == 200));
    std::array::from_fn(|index| upstreams[index].count() - before[index])
}

/// Beside a million, one is next to nothing, and zero is nothing. The reserve serves when the others are down.
#[test]
fn weights_of_zero_one_and_a_million_work_together() {
    for balance in ["balance: least_requests", "balance: round_robin", "balance: hash, hash_key: \"header:x-key\""] {
        let [none, one, million] = [named("none"), named("one"), named("million")];
        let gateway = with_upstream(&pool([(&none, 0), (&one, 1), (&million, 1_000_000)], balance), "");
        let got = shares(&gateway, 200, &[&none, &one, &million]);
        assert!(got[0] == 0 && got[1] <= 5 && got[2] >= 195, "{balance}: {got:?}");
        let down = |endpoint: &Upstream| {
            let path = format!("/config/upstreams/app/{}", endpoint.address);
            assert_eq!(gateway.post(&path, "{\"state\": \"down\"}").status, 200);
        };
        down(&million);
        assert_eq!(shares(&gateway, 20, &[&none, &one, &million]), [0, 20, 0], "{balance}");
        down(&one);
        assert_eq!(shares(&gateway, 20, &[&none, &one, &million]), [20, 0, 0], "{balance}");
    }
}

/// If all are reserves, none is.
#[test]
fn endpoints_that_are_all_of_weight_zero_share_the_requests() {
    for balance in ["balance: least_requests", "balance: round_robin"] {
        let [one, two, three] = [named("one"), named("two"), named("three")];
        let gateway = with_upstream(&pool([(&one, 0), (&two, 0), (&three, 0)], balance), "");
        let got = shares(&gateway, 120, &[&one, &two, &three]);
        assert!(got.iter().all(|count| *count > 10) && got.iter().sum::<usize>() == 120, "{balance}: {got:?}");
    }
}
