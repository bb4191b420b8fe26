//! Names against a real name server on the loopback. TTLs are short by `ttl.max`, so that nothing waits for long.

use std::future::{Future, poll_fn};
use std::net::SocketAddr;
use std::task::Poll;
use std::time::Duration;

use tidegate_testkit::dns_server::{DnsBehaviour, DnsServer, RecordType};
use tidegate_testkit::{PATIENCE, wait_until_async};
use tokio::time::timeout;

use super::*;

const APP: &str = "app.test";
const DAY: u32 = 86_400;

fn run(test: impl Future<Output = ()>) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    runtime.block_on(async { timeout(PATIENCE, test).await.expect("it ends") });
}

fn ips(texts: &[&str]) -> Vec<IpAddr> {
    texts.iter().map(|text| text.parse().expect("an address")).collect()
}

/// What a test that waits for silence waits for.
const SHORT: Duration = Duration::from_millis(200);

/// Asks these servers, again after 20 ms.
fn settings(servers: &[&DnsServer]) -> ResolverSettings {
    ResolverSettings {
        servers: servers.iter().map(|server| server.address).collect(),
        timeout: PATIENCE / 4,
        attempts: 1,
        ttl: TtlBounds { min: Duration::from_millis(20), max: Duration::from_millis(20) },
        hosts_file: false,
    }
}

fn names(settings: ResolverSettings) -> Names {
    Names::new(settings, Handle::current(), Log::discard())
}

fn watch(names: &Names, host: &str) -> NameWatch {
    names.watch(host).expect("few names")
}

async fn until(what: &str, mut condition: impl FnMut() -> bool) {
    wait_until_async(what, async || condition()).await;
}

/// With a cache in the resolver, records of a day would stay for a day.
#[test]
fn every_change_of_the_records_is_followed() {
    run(async {
        let server = DnsServer::start();
        server.set(APP, DAY, &ips(&["10.0.0.0"]));
        let names = names(settings(&[&server]));
        let mut watch = watch(&names, "App.Test");
        assert_eq!(*watch.first(PATIENCE).await, ips(&["10.0.0.0"]));
        for last in 1..=20 {
            let address = IpAddr::from([10, 0, 0, last]);
            server.set(APP, DAY, &[address]);
            assert_eq!(*watch.changed().await, [address]);
        }
        assert!(names.counts().succeeded.get() > 20);
        assert_eq!((names.counts().failed.get(), names.failing()), (0, 0));
    });
}

/// The TTL of the records, not a bound of the settings.
#[test]
fn a_change_is_followed_when_the_ttl_is_over() {
    run(async {
        let server = DnsServer::start();
        server.set(APP, 1, &ips(&["10.0.0.1"]));
        let ttl = TtlBounds { min: Duration::from_millis(1), max: Duration::from_secs(DAY.into()) };
        let names = names(ResolverSettings { ttl, ..settings(&[&server]) });
        let mut watch = watch(&names, APP);
        watch.first(PATIENCE).await;
        server.set(APP, DAY, &ips(&["10.0.0.2"]));
        assert_eq!(*watch.changed().await, ips(&["10.0.0.2"]));
        // Two, unless the machine is so busy that a query is sent again; not one every millisecond.
        assert!(server.queries(APP, RecordType::A) < 10);
    });
}

/// TTLs as they come, within the bounds of the settings.
#[test]
fn a_ttl_of_zero_and_one_that_is_huge_are_bounded() {
    run(async {
        let server = DnsServer::start();
        let names = names(settings(&[&server]));
        for (host, ttl) in [("zero.test", 0), ("huge.test", 1 << 31), ("most.test", u32::MAX)] {
            server.set(host, ttl, &ips(&["10.0.0.1"]));
            let _watch = watch(&names, host);
            until("it is asked again", || server.queries(host, RecordType::A) > 2).await;
        }
    });
}

#[test]
fn addresses_of_both_families_are_found_behind_aliases_too() {
    run(async {
        let server = DnsServer::start();
        let names = names(settings(&[&server]));
        server.set("both.test", DAY, &ips(&["fd00::1", "10.0.0.2", "10.0.0.1"]));
        server.set("six.test", DAY, &ips(&["fd00::2"]));
        server.alias("middle.test", DAY, "both.test");
        server.alias("alias.test", 0, "middle.test");
        // Not a valid host name, and common between containers.
        server.alias("shop_app", DAY, "both.test");
        for host in ["both.test", "alias.test", "shop_app"] {
            let found = watch(&names, host).first(PATIENCE).await;
            assert_eq!(*found, ips(&["10.0.0.1", "10.0.0.2", "fd00::1"]), "{host}");
        }
        assert_eq!(*watch(&names, "six.test").first(PATIENCE).await, ips(&["fd00::2"]));
    });
}

/// The TTL of an alias counts: it may lead elsewhere.
#[test]
fn an_alias_that_changes_is_followed() {
    run(async {
        let server = DnsServer::start();
        server.set("blue.test", DAY, &ips(&["10.0.0.1"]));
        server.set("green.test", DAY, &ips(&["10.0.0.2"]));
        server.alias(APP, 0, "blue.test");
        let ttl = TtlBounds { min: Duration::from_millis(20), max: Duration::from_secs(DAY.into()) };
        let names = names(ResolverSettings { ttl, ..settings(&[&server]) });
        let mut watch = watch(&names, APP);
        assert_eq!(*watch.first(PATIENCE).await, ips(&["10.0.0.1"]));
        server.alias(APP, 0, "green.test");
        assert_eq!(*watch.changed().await, ips(&["10.0.0.2"]));
    });
}

#[test]
fn what_can_not_be_resolved_has_no_addresses_and_is_counted() {
    run(async {
        let server = DnsServer::start();
        let names = names(ResolverSettings { timeout: SHORT, ..settings(&[&server]) });
        for (index, behaviour) in [
            DnsBehaviour::NoSuchName,
            DnsBehaviour::Empty,
            DnsBehaviour::ServerFailure,
            DnsBehaviour::Slow(PATIENCE),
            DnsBehaviour::Silent,
            DnsBehaviour::Garbage,
            DnsBehaviour::WrongId,
        ]
        .into_iter()
        .enumerate()
        {
            let host = format!("name-{index}.test");
            server.set(&host, DAY, &ips(&["10.0.0.1"]));
            server.behave(&host, behaviour);
            let mut watch = watch(&names, &host);
            assert_eq!(*watch.first(PATIENCE).await, ips(&[]), "{behaviour:?}");
            assert_eq!(names.failing(), 1, "{behaviour:?}");
            drop(watch);
            until("it is forgotten", || names.watched() == 0).await;
        }
        assert_eq!(names.counts().succeeded.get(), 0);
        assert!(names.counts().failed.get() >= 7);
    });
}

#[test]
fn the_last_addresses_stay_while_a_name_can_not_be_resolved() {
    run(async {
        let server = DnsServer::start();
        server.set(APP, DAY, &ips(&["10.0.0.1", "fd00::1"]));
        let names = names(settings(&[&server]));
        let mut watch = watch(&names, APP);
        watch.first(PATIENCE).await;
        server.behave(APP, DnsBehaviour::NoSuchName);
        until("a lookup fails", || names.failing() == 1).await;
        assert_eq!(*watch.addresses(), ips(&["10.0.0.1", "fd00::1"]));
        server.set(APP, DAY, &ips(&["10.0.0.2"]));
        assert_eq!(*watch.changed().await, ips(&["10.0.0.2"]));
        assert_eq!(names.failing(), 0);
    });
}

#[test]
fn a_slow_response_is_waited_for() {
    run(async {
        let server = DnsServer::start();
        server.set(APP, DAY, &ips(&["10.0.0.1", "fd00::1"]));
        server.behave(APP, DnsBehaviour::Slow(Duration::from_millis(100)));
        let names = names(settings(&[&server]));
        assert_eq!(*watch(&names, APP).first(PATIENCE).await, ips(&["10.0.0.1", "fd00::1"]));
    });
}

/// Some networks drop queries for AAAA.
#[test]
fn a_family_without_a_response_does_not_hold_up_the_other() {
    for (silent, wanted) in [(RecordType::Aaaa, "10.0.0.1"), (RecordType::A, "fd00::1")] {
        run(async {
            let server = DnsServer::start();
            server.set(APP, DAY, &ips(&["10.0.0.1", "fd00::1"]));
            server.behave_for(APP, silent, DnsBehaviour::Silent);
            let names = names(ResolverSettings { timeout: SHORT, attempts: 10, ..settings(&[&server]) });
            let mut watch = watch(&names, APP);
            assert_eq!(*watch.first(PATIENCE).await, ips(&[wanted]));
            server.behave(APP, DnsBehaviour::Records);
            assert_eq!(*watch.changed().await, ips(&["10.0.0.1", "fd00::1"]));
        });
    }
}

#[test]
fn a_truncated_response_is_read_over_tcp() {
    run(async {
        let server = DnsServer::start();
        server.set(APP, DAY, &ips(&["10.0.0.1"]));
        server.behave(APP, DnsBehaviour::Truncated);
        let names = names(settings(&[&server]));
        assert_eq!(*watch(&names, APP).first(PATIENCE).await, ips(&["10.0.0.1"]));
        assert!(server.queries(APP, RecordType::A) >= 2);
    });
}

#[test]
fn of_a_thousand_addresses_the_first_64_are_used() {
    run(async {
        let server = DnsServer::start();
        let many: Vec<IpAddr> = (0..1_000_u16).rev().map(|n| IpAddr::from([10, 0, (n >> 8) as u8, n as u8])).collect();
        server.set(APP, DAY, &many);
        let names = names(settings(&[&server]));
        let found = watch(&names, APP).first(PATIENCE).await;
        let wanted: Vec<IpAddr> = (0..64).map(|last| IpAddr::from([10, 0, 0, last])).collect();
        assert_eq!(*found, wanted);
    });
}

#[test]
fn the_next_server_is_asked_if_one_fails() {
    for behaviour in [DnsBehaviour::ServerFailure, DnsBehaviour::Silent, DnsBehaviour::Garbage] {
        run(async {
            let (bad, good) = (DnsServer::start(), DnsServer::start());
            bad.behave(APP, behaviour);
            good.set(APP, DAY, &ips(&["10.0.0.1"]));
            let names = names(ResolverSettings { timeout: SHORT, ..settings(&[&bad, &good]) });
            let watch = watch(&names, APP);
            until("there is an address", || *watch.addresses() == ips(&["10.0.0.1"])[..]).await;
            // The one that has responded is asked first from now on.
            let asked = good.queries(APP, RecordType::A);
            until("it is asked again", || good.queries(APP, RecordType::A) > asked + 5).await;
            assert!(bad.queries(APP, RecordType::A) < good.queries(APP, RecordType::A), "{behaviour:?}");
        });
    }
}

/// A gateway starts while its name server is away, and gets the addresses later.
#[test]
fn the_wait_for_the_first_addresses_is_bounded_and_can_be_cancelled() {
    run(async {
        let server = DnsServer::start();
        server.behave(APP, DnsBehaviour::Silent);
        let names = names(ResolverSettings { attempts: 3, ..settings(&[&server]) });
        let mut watch = watch(&names, APP);
        {
            let mut left = pin!(watch.first(PATIENCE));
            poll_fn(|context| {
                assert!(left.as_mut().poll(context).is_pending());
                Poll::Ready(())
            })
            .await;
        }
        assert_eq!(*watch.first(Duration::from_millis(10)).await, ips(&[]));
        assert_eq!(names.counts().failed.get(), 0, "no lookup has ended");
        server.set(APP, DAY, &ips(&["10.0.0.1"]));
        assert_eq!(*watch.changed().await, ips(&["10.0.0.1"]));
    });
}

#[test]
fn watches_of_a_name_share_its_lookups_which_end_with_the_last_of_them() {
    run(async {
        let server = DnsServer::start();
        server.set(APP, DAY, &ips(&["10.0.0.1"]));
        let ttl = TtlBounds { min: PATIENCE, max: PATIENCE };
        let names = names(ResolverSettings { ttl, ..settings(&[&server]) });
        let mut first = watch(&names, APP);
        first.first(PATIENCE).await;
        let (second, third) = (watch(&names, "APP.test"), first.clone());
        assert_eq!(second.addresses(), first.addresses());
        assert_eq!((names.watched(), names.counts().succeeded.get()), (1, 1));
        drop((first, second));
        assert_eq!(*third.addresses(), ips(&["10.0.0.1"]));
        drop(third);
        until("it is forgotten", || names.watched() == 0).await;
        // Also while a lookup is under way.
        server.behave(APP, DnsBehaviour::Silent);
        let asked = server.queries(APP, RecordType::A);
        let again = watch(&names, APP);
        until("it is asked", || server.queries(APP, RecordType::A) > asked).await;
        drop(again);
        until("it is forgotten", || names.watched() == 0).await;
        server.set(APP, DAY, &ips(&["10.0.0.2"]));
        assert_eq!(*watch(&names, APP).first(PATIENCE).await, ips(&["10.0.0.2"]));
    });
}

/// As on a reload of the configuration, which may be rejected after the names of the new file were looked up.
#[test]
fn other_settings_change_nothing_until_they_are_adopted() {
    run(async {
        let (old, new) = (DnsServer::start(), DnsServer::start());
        old.set(APP, DAY, &ips(&["10.0.0.1"]));
        new.set(APP, DAY, &ips(&["10.0.0.2"]));
        let names = names(settings(&[&old]));
        let mut watched = watch(&names, APP);
        assert_eq!(*watched.first(PATIENCE).await, ips(&["10.0.0.1"]));
        drop(watch(&names.with(settings(&[&new])), APP));
        let next = names.with(settings(&[&new]));
        let mut other = watch(&next, APP);
        assert_eq!(*other.first(PATIENCE).await, ips(&["10.0.0.2"]));
        assert_eq!(*watch(&names, APP).addresses(), ips(&["10.0.0.1"]));
        names.adopt(&next);
        drop((next, watched));
        assert_eq!(*watch(&names, APP).addresses(), ips(&["10.0.0.2"]));
        assert!(names.counts().succeeded.get() >= 2, "both are counted");
        let same = names.with(settings(&[&new]));
        assert_eq!(*watch(&same, APP).addresses(), ips(&["10.0.0.2"]), "what is the same is shared");
    });
}

#[test]
fn localhost_and_addresses_need_no_server() {
    run(async {
        let nowhere = SocketAddr::from(([127, 0, 0, 1], 1));
        let names = names(ResolverSettings { servers: vec![nowhere], ..settings(&[]) });
        for (host, wanted) in [
            ("localhost", &["127.0.0.1", "::1"][..]),
            ("app.localhost", &["127.0.0.1", "::1"]),
            ("LOCALHOST.", &["127.0.0.1", "::1"]),
            ("10.0.0.1", &["10.0.0.1"]),
            ("[fd00::1]", &["fd00::1"]),
            ("::ffff:10.0.0.1", &["10.0.0.1"]),
        ] {
            assert_eq!(*watch(&names, host).first(PATIENCE).await, ips(wanted), "{host}");
        }
    });
}

/// Whatever the system's files have, and even if there are none.
#[test]
fn the_default_settings_find_localhost() {
    run(async {
        let names = names(ResolverSettings { hosts_file: true, ..settings(&[]) });
        let found = watch(&names, "localhost").first(PATIENCE).await;
        assert!(!found.is_empty() && found.iter().all(IpAddr::is_loopback), "{found:?}");
    });
}

#[test]
fn what_is_not_a_name_can_not_be_resolved() {
    run(async {
        let server = DnsServer::start();
        let names = names(settings(&[&server]));
        for host in ["", ".", "a..b", &"a".repeat(64), &["a"; 200].join(".")] {
            assert_eq!(*watch(&names, host).first(PATIENCE).await, ips(&[]), "{host}");
        }
    });
}

#[test]
fn the_number_of_names_is_bounded() {
    run(async {
        let server = DnsServer::start();
        let names = names(settings(&[&server]));
        let watches: Vec<NameWatch> = (0..MOST_NAMES).map(|n| watch(&names, &format!("name-{n}.test"))).collect();
        assert!(matches!(names.watch("one-more.test"), Err(TooManyNames)));
        assert!(names.watch("name-7.test").is_ok() && names.watch("10.0.0.1").is_ok());
        drop(watches);
        until("they are forgotten", || names.watched() == 0).await;
        assert!(names.watch("one-more.test").is_ok());
    });
}
