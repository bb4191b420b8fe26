//! A stand-in for Redis, for demonstrations and tests on machines that have none.

mod calls;
mod elections;
mod limits;
mod resp;

use std::future::Future;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinSet;

use calls::Memory;
use resp::LONGEST_COMMAND;

/// Replies to what a [`Store`](crate::Store) asks, over the same protocol as Redis, and decides with the algorithms of
/// `tidegate-policy` in memory where Redis runs Lua. **For demonstrations and tests**: it knows no other commands, no
/// leases and no logins, keeps nothing when it ends, and forgets what a bucket owed under numbers that some process
/// still asks with after a change (Redis remembers, for a roll-out).
///
/// It can be made to [hang](Self::hang), a failure that a real server shows rarely and a program must bear.
///
/// ```no_run
/// use tidegate_store::StandIn;
///
/// # async fn example(stop: impl Future<Output = ()>) -> std::io::Result<()> {
/// let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await?;
/// println!("redis://{}", listener.local_addr()?);
/// let redis = StandIn::new();
/// redis.run(listener, stop).await;
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct StandIn {
    memory: Arc<Mutex<Memory>>,
    is_hanging: watch::Sender<bool>,
}

/// The most connections at once; further ones are closed.
const MOST_CONNECTIONS: usize = 256;
/// Without descriptors there is nothing to accept; a moment later there may be.
const PAUSE: Duration = Duration::from_millis(10);

impl StandIn {
    /// One that knows nothing yet.
    pub fn new() -> Self {
        Self { memory: Arc::default(), is_hanging: watch::Sender::new(false) }
    }

    /// From now on nobody gets a reply, on old connections and new ones alike, which all stay open.
    pub fn hang(&self) {
        self.is_hanging.send_replace(true);
    }

    /// Goes on: those that have asked in between and are still there get their replies now.
    pub fn go_on(&self) {
        self.is_hanging.send_replace(false);
    }

    /// Forgets everything, as by a restart.
    pub fn forget(&self) {
        *self.memory.lock().unwrap_or_else(PoisonError::into_inner) = Memory::default();
    }

    /// Serves until `shutdown` says so; all connections end then.
    pub async fn run(&self, listener: TcpListener, shutdown: impl Future<Output = ()>) {
        tokio::pin!(shutdown);
        let mut connections = JoinSet::new();
        loop {
            tokio::select! {
                () = &mut shutdown => return,
                Some(_ended) = connections.join_next() => {}
                accepted = listener.accept() => match accepted {
                    Ok((stream, _)) if connections.len() < MOST_CONNECTIONS => {
                        connections.spawn(self.clone().serve(stream));
                    }
                    Ok(_) => {}
                    Err(_) => tokio::time::sleep(PAUSE).await,
                },
            }
        }
    }

    async fn serve(self, mut stream: TcpStream) {
        let mut is_hanging = self.is_hanging.subscribe();
        let (mut asked, mut replies) = (Vec::new(), Vec::new());
        // Small replies that somebody waits for; without it they come later, which does no harm.
        let _set = stream.set_nodelay(true);
        loop {
            let is_silent = *is_hanging.borrow_and_update();
            let progress = if is_silent { Progress::Waits } else { self.reply_all(&mut asked, &mut replies) };
            if stream.write_all(&replies).await.is_err() || progress == Progress::Garbage {
                return;
            }
            replies.clear();
            if progress == Progress::More {
                continue;
            }
            tokio::select! {
                read = stream.read_buf(&mut asked), if asked.len() < LONGEST_COMMAND => match read {
                    Ok(1..) => {}
                    _ => return,
                },
                changed = is_hanging.changed() => if changed.is_err() {
                    return;
                },
            }
        }
    }

    /// Replies to the commands that are there whole, and removes them; no more at once than can be kept.
    fn reply_all(&self, asked: &mut Vec<u8>, replies: &mut Vec<u8>) -> Progress {
        let mut from = 0;
        let progress = loop {
            if replies.len() >= LONGEST_COMMAND {
                break Progress::More;
            }
            match resp::command(&asked[from..]) {
                Ok(Some((command, length))) => {
                    let mut memory = self.memory.lock().unwrap_or_else(PoisonError::into_inner);
                    memory.carry_out(&command).write(replies);
                    from += length;
                }
                Ok(None) if asked.len() - from >= LONGEST_COMMAND => {
                    resp::Reply::error("ERR Protocol error: too long").write(replies);
                    break Progress::Garbage;
                }
                Ok(None) => break Progress::Waits,
                Err(reason) => {
                    resp::Reply::error(&format!("ERR Protocol error: {reason}")).write(replies);
                    break Progress::Garbage;
                }
            }
        };
        asked.drain(..from);
        progress
    }
}

/// How far a connection's commands are carried out.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Progress {
    /// All that are there.
    Waits,
    /// More are there.
    More,
    /// What follows can't be read: nobody knows where the next begins.
    Garbage,
}

impl Default for StandIn {
    fn default() -> Self {
        Self::new()
    }
}
