//! A master, a replica and a sentinel, made here.

use std::process::{Child, Command, Stdio};
use std::time::Duration;

use tidegate_store::{FailureMode, Sharing, Source, Store, StoreConfig};

use crate::server::{Server, eventually, free_port};
use crate::setup::{admitted, all_rules, ask, limit, patient};

struct Sentinel {
    port: u16,
    child: Child,
    file: std::path::PathBuf,
}

impl Sentinel {
    fn start(master: &Server) -> Self {
        let port = free_port();
        let file = std::env::temp_dir().join(format!("tidegate-sentinel-{}-{port}.conf", std::process::id()));
        let settings = format!(
            "port {port}\nbind 127.0.0.1\nsentinel monitor main 127.0.0.1 {} 1\n\
             sentinel down-after-milliseconds main 500\nsentinel failover-timeout main 2000\n",
            master.port
        );
        std::fs::write(&file, settings).expect("a settings file");
        let child = Command::new("redis-server").arg(&file).arg("--sentinel").stdout(Stdio::null()).spawn();
        Self { port, child: child.expect("redis-server is installed"), file }
    }

    fn knows_a_replica(&self) -> bool {
        let client = redis::Client::open(format!("redis://127.0.0.1:{}", self.port)).expect("a url");
        let Ok(mut connection) = client.get_connection() else { return false };
        let replicas = redis::cmd("SENTINEL").arg("REPLICAS").arg("main").query::<Vec<redis::Value>>(&mut connection);
        replicas.is_ok_and(|replicas| !replicas.is_empty())
    }
}

impl Drop for Sentinel {
    fn drop(&mut self) {
        // It may have ended already; either way it is gone now.
        let _ended = self.child.kill();
        let _status = self.child.wait();
        let _removed = std::fs::remove_file(&self.file);
    }
}

#[tokio::test]
async fn the_store_follows_its_master_to_the_replica() {
    let mut master = Server::start();
    let port = master.port.to_string();
    let replica = Server::start_with(&["--replicaof", "127.0.0.1", &port, "--repl-diskless-sync-delay", "0"]);
    let sentinel = Sentinel::start(&master);
    eventually("the replica is in step", || {
        let info = redis::cmd("INFO").arg("replication").query::<String>(&mut replica.connection());
        info.is_ok_and(|info| info.contains("master_link_status:up"))
    });
    eventually("the sentinel knows the replica", || sentinel.knows_a_replica());

    // The first sentinel in the list accepts, and says nothing.
    let dead = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let dead_address = dead.local_addr().expect("an address");
    let url = format!("redis+sentinel://{dead_address},127.0.0.1:{}/main", sentinel.port);
    let store = Store::connect(StoreConfig { on_failure: FailureMode::Closed, ..patient(&url) })
        .await
        .expect("sensible settings");
    let rules = all_rules(100);
    let limit = limit(&store, "any", rules[0], Sharing::Exact);
    assert_eq!(admitted(&store, &limit, "ann", 60).await, 60);
    eventually("the replica has it all", || {
        let size = |server: &Server| redis::cmd("DBSIZE").query::<u64>(&mut server.connection()).ok();
        size(&master) == size(&replica)
    });

    master.kill();
    assert_eq!(ask(&store, &limit, "ann", 1).await.source, Source::Failure(FailureMode::Closed));
    let back = async {
        while ask(&store, &limit, "bob", 1).await.source != Source::Shared {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(30), back).await.expect("the replica takes over");
    let more = admitted(&store, &limit, "ann", 200).await;
    assert!((40..=100).contains(&more), "{more} more: what was replicated still counts");
}
