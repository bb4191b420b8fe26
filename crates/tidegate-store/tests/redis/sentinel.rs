//! A master, a replica and a sentinel, made here.

use std::time::Duration;

use tidegate_store::election::Lifetimes;
use tidegate_store::{FailureMode, Sharing, Source, Store, StoreConfig, TlsFiles};

use crate::failure::until;
use crate::setup::{admitted, all_rules, ask, limit, name, patient};
use crate::tls;
use tidegate_testkit::redis_server::{Sentinel, Server, eventually, free_port};
use tidegate_testkit::redis_tls::{Certificates, SecureServer};

/// A master, its replica in step, and a sentinel that knows both.
fn wait_until_in_step(replica: &Server, sentinel: &Sentinel) {
    eventually("the replica is in step", || {
        let info = redis::cmd("INFO").arg("replication").query::<String>(&mut replica.connection());
        info.is_ok_and(|info| info.contains("master_link_status:up"))
    });
    eventually("the sentinel knows the replica", || !sentinel.ask("REPLICAS").is_empty());
}

/// 60 of 100 are used, the master dies, the replica takes over: what was replicated still counts.
async fn follows_to_the_replica(config: StoreConfig, mut master: Server, replica: &Server) {
    let store = Store::connect(config).await.expect("sensible settings");
    let limit = limit(&store, "any", all_rules(100)[0], Sharing::Exact);
    assert_eq!(admitted(&store, &limit, "ann", 60).await, 60);
    eventually("the replica has it all", || {
        let size = |server: &Server| redis::cmd("DBSIZE").query::<u64>(&mut server.connection()).ok();
        size(&master) == size(replica)
    });

    master.kill();
    assert_eq!(ask(&store, &limit, "ann", 1).await.source, Source::Failure(FailureMode::Closed));
    until("the replica has taken over", async || ask(&store, &limit, "bob", 1).await.source == Source::Shared).await;
    let more = admitted(&store, &limit, "ann", 200).await;
    assert!((40..=100).contains(&more), "{more} more: what was replicated still counts");
}

#[tokio::test]
async fn the_store_follows_its_master_to_the_replica() {
    let master = Server::start();
    let port = master.port.to_string();
    let replica = Server::start_with(&["--replicaof", "127.0.0.1", &port, "--repl-diskless-sync-delay", "0"]);
    let sentinel = Sentinel::start(master.port);
    wait_until_in_step(&replica, &sentinel);

    // The first sentinel in the list accepts, and says nothing.
    let dead = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let dead_address = dead.local_addr().expect("an address");
    let url = format!("redis+sentinel://{dead_address},127.0.0.1:{}/main", sentinel.port);
    let config = StoreConfig { on_failure: FailureMode::Closed, ..patient(&url) };
    follows_to_the_replica(config, master, &replica).await;
}

/// Sentinel, master and replica speak TLS, with us and each other, and know us by our certificate.
#[tokio::test]
async fn the_store_follows_its_master_to_the_replica_over_tls() {
    let certificates = Certificates::new();
    let master = SecureServer::start_with(&certificates, "yes", &["--tls-replication", "yes"]);
    let port = master.port.to_string();
    let of_master = ["--tls-replication", "yes", "--replicaof", "127.0.0.1", &port, "--repl-diskless-sync-delay", "0"];
    let replica = SecureServer::start_with(&certificates, "yes", &of_master);
    let secure_port = free_port();
    let mut settings = certificates.arguments(secure_port, "yes");
    settings.extend(["--tls-replication".to_owned(), "yes".to_owned()]);
    let line = |setting: &[String]| format!("{} {}\n", setting[0].trim_start_matches('-'), setting[1]);
    let settings: String = settings.chunks(2).map(line).collect();
    let sentinel = Sentinel::start_with(master.port, &settings);
    wait_until_in_step(&replica.plain, &sentinel);

    let url = format!("rediss+sentinel://127.0.0.1:{secure_port}/main");
    let others = Certificates::new();
    let strange = TlsFiles { ca: Some(others.file("ca.pem")), ..tls::known_to(&certificates) };
    tls::is_away(&url, &strange, "invalid peer certificate").await;
    follows_to_the_replica(tls::config(&url, &tls::known_to(&certificates)), master.plain, &replica.plain).await;
}

/// What was agreed may be forgotten with the master, but never that time goes on: a new term is a later one.
#[tokio::test]
async fn an_election_follows_its_master_to_the_replica() {
    let mut master = Server::start();
    let port = master.port.to_string();
    let replica = Server::start_with(&["--replicaof", "127.0.0.1", &port, "--repl-diskless-sync-delay", "0"]);
    let sentinel = Sentinel::start(master.port);
    wait_until_in_step(&replica, &sentinel);
    let url = format!("redis+sentinel://127.0.0.1:{}/main", sentinel.port);
    let store = Store::connect(patient(&url)).await.expect("sensible settings");
    let lifetimes = Lifetimes { lease: Duration::from_millis(100), ..Lifetimes::default() };
    let member = || store.election(&name("limits"), lifetimes).expect("sensible lifetimes");
    let (mut ann, mut bob) = (member(), member());
    let term = ann.heartbeat(b"a", None).await.expect("a heartbeat").term;

    master.kill();
    until("another takes over on the replica", async || {
        bob.heartbeat(b"b", None).await.is_ok_and(|standing| standing.is_leader() && standing.term > term)
    })
    .await;
}
