//! A client with one connection at a time, which asks when its time has come and not when the last response has.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::{Instant, sleep, timeout};

use super::mix::{Draws, Kind, Leaves};
use super::schedule::Schedule;
use super::tally::Tally;
use crate::connection::Connection;

/// The longest that anything may take.
pub(crate) const PATIENCE: Duration = Duration::from_secs(10);
/// After so many requests, about, a client closes its connection and opens another.
const KEPT_FOR: u32 = 1_000;
/// How long those stay who leave in the middle: long enough for the gateway to be at it.
const STAY: Duration = Duration::from_millis(5);
/// What is sent of an upload by those who leave in it.
const FIRST_PART: usize = 8 * 1024;

pub(crate) struct Client {
    pub(crate) gateway: SocketAddr,
    pub(crate) start: Instant,
    pub(crate) draws: Draws,
    pub(crate) tally: Arc<Tally>,
}

impl Client {
    /// Sends all that is due.
    pub(crate) async fn converse(mut self, mut schedule: Schedule) {
        let (mut connection, mut request) = (None, String::new());
        while let Some(due) = schedule.next().await {
            let kind = self.draws.kind();
            let exchange = self.exchange(connection.take(), kind, due, &mut request);
            match timeout(PATIENCE, exchange).await {
                Ok(Ok(kept)) => connection = kept,
                Ok(Err(error)) => self.tally.error(kind.name, &error.to_string()),
                Err(_) => self.tally.error(kind.name, "it took too long"),
            }
            if self.draws.once_in(KEPT_FOR) {
                connection = None;
            }
        }
    }

    /// Sends a request and reads its response, unless it leaves before. Returns the connection if it can be kept.
    async fn exchange(
        &mut self,
        kept: Option<Connection>,
        kind: &'static Kind,
        due: Instant,
        request: &mut String,
    ) -> io::Result<Option<Connection>> {
        let mut connection = if let Some(kept) = kept {
            kept
        } else {
            self.tally.opened();
            Connection::open(self.gateway).await?
        };
        let head = self.draws.write(kind, self.start.elapsed().as_secs(), request);
        if let Some(leaves) = kind.leaves {
            self.leave(connection, kind, leaves, due, (head, request.as_bytes())).await?;
            return Ok(None);
        }
        connection.send(request.as_bytes()).await?;
        self.tally.sent(kind.name, due);
        let head = connection.response().await?;
        self.tally.responded(kind.name, head.status, due);
        if !kind.expected.contains(&head.status) {
            self.tally.error(kind.name, &format!("it was answered with {}", head.status));
        } else if head.status == 200 && head.length != kind.length {
            self.tally.error(kind.name, &format!("the answer has {} bytes, not {}", head.length, kind.length));
        } else if head.closes {
            self.tally.error(kind.name, "the gateway closes the connection");
        }
        Ok((!head.closes).then_some(connection))
    }

    /// Sends a request, or a part of it, and goes.
    async fn leave(
        &self,
        mut connection: Connection,
        kind: &'static Kind,
        leaves: Leaves,
        due: Instant,
        (head, request): (usize, &[u8]),
    ) -> io::Result<()> {
        let part = match leaves {
            Leaves::InHead => &request[..head / 2],
            Leaves::InUpload => &request[..head + FIRST_PART],
            Leaves::AtOnce | Leaves::WhileItWaits | Leaves::InDownload => request,
        };
        connection.send(part).await?;
        self.tally.left(kind.name);
        if leaves != Leaves::InHead {
            self.tally.sent(kind.name, due);
        }
        match leaves {
            Leaves::InHead | Leaves::AtOnce => {}
            Leaves::WhileItWaits | Leaves::InUpload => sleep(STAY).await,
            Leaves::InDownload => {
                let status = connection.head().await?.status;
                if !kind.expected.contains(&status) {
                    self.tally.error(kind.name, &format!("it was answered with {status}"));
                }
            }
        }
        Ok(())
    }
}
