//! A stand-in for Redis, for demonstrations and tests on machines that have none.

mod accounts;
mod calls;
mod resp;
mod sessions;

use std::future::Future;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinSet;

use calls::Memory;

/// Answers what a [`Store`](crate::Store) asks, over the same protocol as Redis, and decides with the algorithms of `tidegate-policy` in
/// memory where Redis runs Lua. **For demonstrations and tests**: it knows no other commands, no leases and no logins, keeps nothing when it
/// ends, and forgets what a bucket owed under numbers that some process still asks with after a change (Redis remembers, for a roll-out).
///
/// It can be told to [hang](Self::hang), which is the failure that a real server shows most rarely and a gateway must bear most often.
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
/// The longest command: a document's text before and after, and a script.
const LONGEST_COMMAND: usize = 4 << 20;
/// Without descriptors there is nothing to accept; a moment later there may be.
const PAUSE: Duration = Duration::from_millis(10);

impl StandIn {
    /// One that knows nothing yet.
    pub fn new() -> Self {
        Self { memory: Arc::default(), is_hanging: watch::Sender::new(false) }
    }

    /// From now on nobody is answered, on old connections and new ones alike, which all stay open.
    pub fn hang(&self) {
        self.is_hanging.send_replace(true);
    }

    /// Goes on: whoever has asked meanwhile and is still there is answered now.
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
        let (mut asked, mut answers) = (Vec::new(), Vec::new());
        // Small answers that somebody waits for; without it they come later, which does no harm.
        let _set = stream.set_nodelay(true);
        loop {
            let is_silent = *is_hanging.borrow_and_update();
            let progress = if is_silent { Progress::Waits } else { self.answer_all(&mut asked, &mut answers) };
            if stream.write_all(&answers).await.is_err() || progress == Progress::Garbage {
                return;
            }
            answers.clear();
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

    /// Answers the commands that are there whole, and removes them; no more at once than can be kept.
    fn answer_all(&self, asked: &mut Vec<u8>, answers: &mut Vec<u8>) -> Progress {
        let mut from = 0;
        let progress = loop {
            if answers.len() >= LONGEST_COMMAND {
                break Progress::More;
            }
            match resp::command(&asked[from..]) {
                Ok(Some((command, length))) => {
                    let mut memory = self.memory.lock().unwrap_or_else(PoisonError::into_inner);
                    memory.answer(&command).write(answers);
                    from += length;
                }
                Ok(None) if asked.len() - from >= LONGEST_COMMAND => {
                    resp::Reply::error("ERR Protocol error: too long").write(answers);
                    break Progress::Garbage;
                }
                Ok(None) => break Progress::Waits,
                Err(reason) => {
                    resp::Reply::error(&format!("ERR Protocol error: {reason}")).write(answers);
                    break Progress::Garbage;
                }
            }
        };
        asked.drain(..from);
        progress
    }
}

/// How far a connection's commands are answered.
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
