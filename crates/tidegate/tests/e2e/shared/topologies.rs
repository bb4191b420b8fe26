//! A Redis behind sentinels, and a cluster: the same limits, by another URL.

use std::net::SocketAddr;

use crate::shared::crowd::{Tally, send};
use crate::shared::setup::{STRICT, config};
use tidegate_testkit::redis_server::{Sentinel, Server, eventually};
use tidegate_testkit::{Gateway, Upstream, wait_until};

/// Two gateways share a limit exactly, one follows what is set at the other, and what is set survives a server that
/// forgets it.
fn share_exactly(url: &str, server: &Server) {
    let upstream = Upstream::start();
    let limit = "{algorithm: gcra, capacity: 60, fill_rate: 0.001}";
    let file = config(upstream.address, url, STRICT, limit);
    let gateways = [0, 1].map(|_| Gateway::start(&file));
    let addresses: Vec<SocketAddr> = gateways.iter().map(|gateway| gateway.address).collect();
    assert_eq!(send(&addresses, 3, 40), Tally { responses: [(200, 60), (429, 180)].into(), broken: 0 }, "{url}");
    assert_eq!(upstream.count(), 60, "{url}");
    let set = r#"{"algorithm": "fixed", "limit": 5, "window": 2592000}"#;
    assert_eq!(gateways[0].post("/config/limits", set).status, 200, "{url}");
    wait_until("the other follows", || gateways[1].get("/config/limits").json()["limit"] == 5);
    server.flush();
    wait_until("it is written back", || {
        let text = redis::cmd("GET").arg("ratelimiter:config").query::<Option<String>>(&mut server.connection());
        text.expect("an answer").is_some_and(|text| text.contains("\"limit\":5"))
    });
    assert!(gateways.iter().all(|gateway| gateway.get("/config/limits").json()["limit"] == 5), "{url}");
}

#[test]
fn two_gateways_share_a_limit_exactly_behind_a_sentinel() {
    let master = Server::start();
    let sentinel = Sentinel::start(master.port);
    eventually("the sentinel answers", || !sentinel.ask("GET-MASTER-ADDR-BY-NAME").is_empty());
    share_exactly(&format!("redis+sentinel://127.0.0.1:{}/main", sentinel.port), &master);
}

#[test]
fn two_gateways_share_a_limit_exactly_in_a_cluster() {
    let node = Server::start_with(&["--cluster-enabled", "yes"]);
    redis::cmd("CLUSTER").arg("ADDSLOTSRANGE").arg(0).arg(16_383).exec(&mut node.connection()).expect("slots");
    eventually("the cluster is whole", || {
        let info = redis::cmd("CLUSTER").arg("INFO").query::<String>(&mut node.connection());
        info.is_ok_and(|info| info.contains("cluster_state:ok"))
    });
    share_exactly(&format!("redis+cluster://127.0.0.1:{}", node.port), &node);
}
