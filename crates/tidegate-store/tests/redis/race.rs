//! Four processes race for N tokens on one Redis. The test starts itself as those processes.

use std::process::{Command, Stdio};
use std::time::Duration;

use tidegate_store::{LeaseTerms, Sharing, Store, StoreConfig};

use crate::setup::{all_rules, ask, leasable_rules, limit, patient};
use tidegate_testkit::redis_server::Server;

const TOKENS: u64 = 2_000;
const LEASE: u32 = 50;
const PROCESSES: u32 = 4;

/// What one process does: asks until it has been rejected often enough, and says how often it was not.
#[tokio::test]
#[expect(clippy::print_stdout, reason = "it is how a process reports to the other")]
async fn racer() {
    let (Ok(url), Ok(rule)) = (std::env::var("RACE_REDIS"), std::env::var("RACE_RULE")) else {
        return; // started with the other tests, not by them
    };
    let sharing = if std::env::var("RACE_LEASED").is_ok() { Sharing::Leased } else { Sharing::Exact };
    let lease = LeaseTerms { tokens: LEASE, span: Duration::from_secs(60) };
    let store = Store::connect(StoreConfig { lease, ..patient(&url) }).await.expect("sensible settings");
    let rule = all_rules(TOKENS).into_iter().find(|other| other.algorithm().name() == rule).expect("a rule");
    let limit = limit(&store, "race", rule, sharing);
    let (mut admitted, mut rejected) = (0, 0);
    while rejected < 50 {
        if ask(&store, &limit, "all", 1).await.admitted {
            admitted += 1;
        } else {
            rejected += 1;
        }
    }
    assert!(!store.is_down());
    println!("RACE {admitted}");
}

fn race(server: &Server, rule: &str, leased: bool) -> u64 {
    let start = || {
        let mut racer = Command::new(std::env::current_exe().expect("this test"));
        racer.args(["race::racer", "--exact", "--nocapture"]).stdout(Stdio::piped());
        racer.env("RACE_REDIS", server.url()).env("RACE_RULE", rule);
        if leased {
            racer.env("RACE_LEASED", "1");
        }
        racer.spawn().expect("this test, again")
    };
    let racers: Vec<_> = (0..PROCESSES).map(|_| start()).collect();
    let output = racers.into_iter().map(|racer| racer.wait_with_output().expect("it has ended"));
    let admitted = output.map(|output| {
        assert!(output.status.success(), "{output:?}");
        let text = String::from_utf8(output.stdout).expect("text");
        let line = text.lines().find_map(|line| line.split_once("RACE ")).expect("a result").1;
        line.parse::<u64>().expect("a number")
    });
    admitted.sum()
}

#[test]
fn four_processes_on_one_redis_get_exactly_n() {
    let server = Server::start();
    for rule in all_rules(TOKENS) {
        assert_eq!(race(&server, rule.algorithm().name(), false), TOKENS, "{rule:?}");
    }
}

#[test]
fn four_processes_with_leases_get_at_most_n_and_miss_at_most_what_they_hold() {
    let server = Server::start();
    for rule in leasable_rules(TOKENS) {
        let admitted = race(&server, rule.algorithm().name(), true);
        let bound = u64::from(PROCESSES * LEASE);
        assert!((TOKENS - bound..=TOKENS).contains(&admitted), "{admitted} of {TOKENS}: {rule:?}");
    }
}
