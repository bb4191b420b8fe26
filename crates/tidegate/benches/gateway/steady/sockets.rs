//! Clients that go over to another protocol, as a `WebSocket` does.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use fastrand::Rng;
use tokio::time::{Instant, sleep, timeout};

use super::client::PATIENCE;
use super::tally::Tally;
use crate::connection::Connection;

const KIND: &str = "WebSocket";
const LEAVING: &str = "WebSocket, left";
const MESSAGES: usize = 20;
const PAUSE: Duration = Duration::from_millis(100);

pub(crate) const ASK: &str = "GET /socket HTTP/1.1\r\nHost: shop.example\r\nX-Forwarded-For: 10.0.0.1\r\n\
                              Connection: Upgrade\r\n\
    Upgrade: websocket\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n\r\n";

/// One socket after the other, until the end.
pub(crate) async fn converse(gateway: SocketAddr, end: Instant, seed: u64, tally: Arc<Tally>) {
    let mut random = Rng::with_seed(seed);
    while Instant::now() < end {
        let kind = if random.u8(..3) == 0 { LEAVING } else { KIND };
        match timeout(PATIENCE, talk(gateway, kind, &mut random, &tally)).await {
            Ok(Ok(())) => {}
            Ok(Err(error)) => tally.error(kind, &error.to_string()),
            Err(_) => tally.error(kind, "it took too long"),
        }
    }
}

async fn talk(gateway: SocketAddr, kind: &'static str, random: &mut Rng, tally: &Tally) -> io::Result<()> {
    let due = Instant::now();
    tally.opened();
    let mut connection = Connection::open(gateway).await?;
    connection.send(ASK.as_bytes()).await?;
    tally.sent(kind, due);
    let status = connection.head().await?.status;
    tally.responded(kind, status, due);
    if status != 101 {
        tally.error(kind, &format!("it was answered with {status}"));
        return Ok(());
    }
    for _ in 0..random.usize(1..=MESSAGES) {
        let message: Vec<u8> = (0..random.usize(1..1_024)).map(|_| random.u8(..)).collect();
        connection.send(&message).await?;
        if connection.exactly(message.len()).await? != message {
            tally.error(kind, "what came back is not what was sent");
        }
        sleep(PAUSE).await;
    }
    if kind == LEAVING {
        tally.left(kind);
        // In the middle of something: the response to it finds nobody.
        return connection.send(b"anyone?").await;
    }
    connection.close().await
}
