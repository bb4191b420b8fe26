//! Pools whose addresses change, with a clock that the test moves.

use std::collections::BTreeSet;
use std::net::Ipv4Addr;

use serde_json::json;
use tidegate_policy::endpoints::{Forced, Health, Outcome, Standing};

use super::pool::MOST_GONE;
use super::*;
use crate::config::model::Config;
use crate::settings::Settings;

const PORT: u16 = 80;

/// An upstream with so many host names and these other settings.
fn settings(names: usize, more: &serde_json::Value) -> UpstreamSettings {
    let urls: Vec<String> = (0..names).map(|name| format!("http://name-{name}.test:{PORT}")).collect();
    let mut upstream = json!({ "endpoints": urls });
    let fields = upstream.as_object_mut().expect("an object");
    fields.extend(more.as_object().expect("an object").clone());
    let file = json!({
        "upstreams": { "app": upstream },
        "limits": { "default": { "algorithm": "fixed", "limit": 1, "window": 1 } },
    });
    let config: Config = serde_json::from_value(file).expect("it can be read");
    Settings::check(&config).expect("it is valid").upstreams.remove(0)
}

fn endpoints(names: usize) -> Endpoints {
    Endpoints::new(&settings(names, &json!({ "slow_start": "10s" })), None, 1, at(1))
}

fn at(seconds: u64) -> Timestamp {
    Timestamp::from_nanos(seconds * 1_000_000_000)
}

fn ips(numbers: impl IntoIterator<Item = u32>) -> Arc<[IpAddr]> {
    numbers.into_iter().map(|number| IpAddr::from(Ipv4Addr::from(0x0a00_0000 + number))).collect()
}

fn name(number: u32) -> String {
    format!("{}:{PORT}", Ipv4Addr::from(0x0a00_0000 + number))
}

fn index(pool: &Pool, number: u32) -> usize {
    let name = name(number);
    pool.members.iter().position(|member| member.state.name() == name).expect("it is in the pool")
}

fn standing(endpoints: &Endpoints, number: u32, now: Timestamp) -> Standing {
    let pool = endpoints.pool();
    pool.members[index(&pool, number)].state.standing(now)
}

fn force(endpoints: &Endpoints, number: u32, forced: Forced) {
    let pool = endpoints.pool();
    pool.balancer.force(index(&pool, number), forced, at(1));
}

/// Each endpoint was compared with each: a change of one name took billions of comparisons, under a lock.
#[test]
fn sixty_four_thousand_endpoints_follow_a_change() {
    let endpoints = endpoints(1_000);
    let found: Vec<_> = (0..1_000_u32).map(|name| (name as usize, ips(name * 64..(name + 1) * 64))).collect();
    endpoints.resolved(&found, at(1));
    let before: Vec<Arc<Member>> = endpoints.pool().members.to_vec();
    assert_eq!(before.len(), 64_000);
    for round in 0..10 {
        endpoints.resolved(&[(7, ips(100_000 + round..100_064 + round))], at(2));
    }
    let pool = endpoints.pool();
    assert_eq!(pool.members.len(), 64_000);
    let kept = before.iter().zip(&pool.members).filter(|(before, now)| Arc::ptr_eq(before, now)).count();
    assert_eq!(kept, 64_000 - 64, "the others stay as they are");
}

#[test]
fn what_is_known_of_an_endpoint_outlives_its_absence_and_a_reload() {
    let endpoints = endpoints(1);
    endpoints.resolved(&[(0, ips(1..=3))], at(1));
    force(&endpoints, 1, Forced::Down);
    force(&endpoints, 2, Forced::Drain);
    for _ in 0..5 {
        let pool = endpoints.pool();
        pool.balancer.checked(index(&pool, 3), false, at(1));
    }
    endpoints.resolved(&[(0, ips(9..=9))], at(2));
    assert_eq!(endpoints.pool().members.len(), 1);
    let checked = json!({ "health_check": {} });
    let reloaded = Endpoints::new(&settings(1, &checked), Some(&endpoints), 1, at(3));
    reloaded.resolved(&[(0, ips(1..=3))], at(4));
    let standings = [1, 2, 3].map(|number| standing(&reloaded, number, at(5)));
    assert_eq!(standings, [Standing::Down, Standing::Drain, Standing::Unhealthy]);
    // Without checks nothing would ever return it.
    reloaded.resolved(&[(0, ips(9..=9))], at(6));
    let unchecked = Endpoints::new(&settings(1, &json!({})), Some(&reloaded), 1, at(7));
    unchecked.resolved(&[(0, ips(1..=3))], at(8));
    assert_eq!(standing(&unchecked, 3, at(9)), Standing::Up);
    let snapshots = unchecked.pool().balancer.snapshot(at(9));
    assert_eq!(snapshots[2].health, Health::Unknown);
}

#[test]
fn an_endpoint_that_returns_begins_with_its_slow_start() {
    let endpoints = endpoints(1);
    endpoints.resolved(&[(0, ips(1..=2))], at(1));
    force(&endpoints, 1, Forced::Up);
    let shares = |now| endpoints.pool().balancer.snapshot(now).iter().map(|shown| shown.share).collect::<Vec<_>>();
    assert_eq!(shares(at(2)), [1.0, 1.0], "those at the start need none");
    endpoints.resolved(&[(0, ips(2..=2))], at(3));
    endpoints.resolved(&[(0, ips(1..=2))], at(100));
    let after = shares(at(100));
    assert!(after[0] < 0.2 && after[1] > 0.9, "{after:?}");
    assert_eq!(endpoints.pool().balancer.snapshot(at(100))[0].forced, Forced::Up);
    assert_eq!(shares(at(111)), [1.0, 1.0]);
}

#[test]
fn of_those_that_have_left_the_latest_are_remembered_and_those_an_operator_has_set() {
    let endpoints = endpoints(1);
    endpoints.resolved(&[(0, ips(0..64))], at(1));
    force(&endpoints, 0, Forced::Down);
    for round in 1..40 {
        endpoints.resolved(&[(0, ips(round * 64..(round + 1) * 64))], at(1));
        let pool = endpoints.pool();
        assert!(pool.gone.len() <= MOST_GONE);
        let all: BTreeSet<_> = pool.members.iter().chain(&pool.gone).map(|member| member.endpoint.address).collect();
        assert_eq!(all.len(), pool.members.len() + pool.gone.len(), "each is there once");
    }
    assert_eq!(endpoints.pool().gone.len(), MOST_GONE);
    endpoints.resolved(&[(0, ips(0..64))], at(2));
    assert_eq!(standing(&endpoints, 0, at(2)), Standing::Down);
}

/// A counter that falls is read as a restart. Whatever comes and goes, in whatever order.
#[test]
fn counters_of_endpoints_without_their_own_series_never_fall() {
    let endpoints = endpoints(4);
    let (mut random, mut last, mut sent) = (7_u64, 0, 0);
    let mut draw = move |below: u64| {
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (random >> 33) % below
    };
    for _ in 0..300 {
        let first = draw(3_000) as u32;
        endpoints.resolved(&[(draw(4) as usize, ips(first..first + 1 + draw(64) as u32))], at(1));
        let pool = endpoints.pool();
        for index in 0..pool.members.len() {
            let in_flight = pool.balancer.begin(index, at(1)).expect("it is there");
            pool.balancer.end(in_flight, Outcome::Success { took: std::time::Duration::ZERO }, at(1));
            sent += 1;
        }
        assert!(pool.members.iter().filter(|member| member.series == Series::Own).count() <= 100);
        let others = pool.others().map_or(0, |totals| totals.successes);
        assert!((last..=sent).contains(&others), "{others} after {last}, of {sent}");
        last = others;
    }
    assert!(last > 0);
}
