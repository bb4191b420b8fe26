//! The text that all who share a store follow: one who changes it learns the truth about it.

use tidegate_store::{Document, DocumentFault, Store};

use crate::setup::{name, patient};
use tidegate_testkit::redis_server::Server;

const KEY: &str = "test:config";

async fn document(server: &Server) -> Document {
    let store = Store::connect(patient(&server.url())).await.expect("sensible settings");
    let document = store.document(&name("config"));
    assert_eq!(document.key(), KEY);
    document
}

fn set(server: &Server, text: &[u8]) {
    redis::cmd("SET").arg(KEY).arg(text).exec(&mut server.connection()).expect("set");
}

#[tokio::test]
async fn it_is_replaced_by_one_who_has_seen_it_and_by_nobody_else() {
    let server = Server::start();
    let document = document(&server).await;
    assert_eq!(document.read().await, Ok(Vec::new()));
    assert_eq!(document.replace(b"other", b"mine").await, Ok(false));
    assert_eq!(document.replace(b"", b"mine").await, Ok(true));
    assert_eq!(document.read().await, Ok(b"mine".to_vec()));
    assert_eq!(document.replace(b"mine", b"").await, Ok(true));
    assert_eq!(document.read().await, Ok(Vec::new()));
}

#[tokio::test]
async fn its_clock_is_that_of_redis() {
    let server = Server::start();
    let document = document(&server).await;
    let mut operator = server.connection();
    let mut millis = || {
        let (seconds, micros): (u64, u64) = redis::cmd("TIME").query(&mut operator).expect("a time");
        seconds * 1_000 + micros / 1_000
    };
    let before = millis();
    let clock = document.clock_millis().await.expect("a time");
    assert!((before..=millis()).contains(&clock), "{clock}");
}

/// It used to be read as text, which is not what stands there: nobody could ever replace it.
#[tokio::test]
async fn what_is_no_text_can_be_replaced() {
    let server = Server::start();
    let document = document(&server).await;
    set(&server, b"{\"a\": \"\xff\"}");
    let found = document.read().await.expect("it can be read");
    assert_eq!(document.replace(&found, b"mine").await, Ok(true));
}

#[tokio::test]
async fn a_key_that_holds_something_else_is_not_taken_for_an_absent_redis() {
    let server = Server::start();
    let document = document(&server).await;
    redis::cmd("LPUSH").arg(KEY).arg("x").exec(&mut server.connection()).expect("pushed");
    for fault in [document.read().await.map(drop), document.replace(b"", b"mine").await.map(drop)] {
        assert!(matches!(&fault, Err(DocumentFault::Rejected(error)) if error.contains("WRONGTYPE")), "{fault:?}");
    }
    drop(server);
}

#[tokio::test]
async fn a_text_beyond_the_bound_is_neither_read_nor_written() {
    let server = Server::start();
    let document = document(&server).await;
    let (longest, longer) = (vec![b'x'; Document::LONGEST], vec![b'x'; Document::LONGEST + 1]);
    assert_eq!(document.replace(b"", &longer).await, Err(DocumentFault::TooLong));
    assert_eq!(document.replace(b"", &longest).await, Ok(true));
    assert_eq!(document.read().await, Ok(longest));
    set(&server, &longer);
    assert_eq!(document.read().await, Err(DocumentFault::TooLong));
}

/// Redis holds the write back for longer than anyone waits, and carries it out then: to say "nothing was changed" would
/// be a lie.
#[tokio::test]
async fn a_write_without_a_reply_is_reported_as_such() {
    let server = Server::start();
    let document = document(&server).await;
    let mut operator = server.connection();
    redis::cmd("CLIENT").arg(&["PAUSE", "60000", "WRITE"]).exec(&mut operator).expect("paused");
    assert_eq!(document.replace(b"", b"mine").await, Err(DocumentFault::Unknown));
    redis::cmd("CLIENT").arg("UNPAUSE").exec(&mut operator).expect("goes on");
    tidegate_testkit::redis_server::eventually("it is written after all", || {
        redis::cmd("GET").arg(KEY).query::<Option<String>>(&mut operator).expect("a reply").is_some()
    });
    assert_eq!(document.read().await, Ok(b"mine".to_vec()));
}
