use std::future::poll_fn;
use std::hash::BuildHasher;
use std::ops::RangeInclusive;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::task::Poll;
use std::time::Duration;

use redis::{Cmd, ErrorKind, RedisError, RedisResult, ServerErrorKind, Value};
use tokio::runtime::Handle;
use tokio::sync::Notify;
use tokio::time::{Instant, sleep, timeout};

use crate::script::Script;
use crate::topology::{Connection, Topology};

/// What happened between us and Redis, for metrics and logs.
#[derive(Clone, Copy, Debug)]
pub enum StoreEvent<'a> {
    /// A call has ended.
    Call {
        /// How long it took.
        took: Duration,
        /// What went wrong, if anything.
        error: Option<&'a str>,
    },
    /// Redis could not be reached at the start: until it is, the failure mode decides.
    Unreached {
        /// What happened.
        error: &'a str,
    },
    /// Redis was reached for the first time, after it could not be at the start.
    Reached {
        /// How long that took.
        after: Duration,
    },
    /// Redis was there and is out of reach now: from here on the failure mode decides.
    Down {
        /// What happened.
        error: &'a str,
    },
    /// An attempt to reach it again has failed.
    StillDown {
        /// What happened.
        error: &'a str,
    },
    /// Redis is back.
    Up {
        /// How long it was away.
        after: Duration,
    },
    /// Slots that could not be given back, and will not be: they stay taken for as long as a request may hold one.
    SlotsLost {
        /// How many.
        slots: usize,
    },
}

/// Gets every [`StoreEvent`], on the way of a request: it should be quick.
pub type Observer = Arc<dyn Fn(StoreEvent<'_>) + Send + Sync>;

/// Redis could not be asked, or did not reply in time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Unavailable;

impl From<CallError> for Unavailable {
    fn from(_: CallError) -> Self {
        Self
    }
}

/// Why a call failed, for those who want to know.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum CallError {
    /// The reply is an error; its text.
    Rejected(String),
    /// It did not come in time. The call may still be carried out.
    Late,
    /// The connection was lost while it was under way. The call may have been carried out.
    Lost,
    /// There is no connection: nothing was asked.
    Away,
}

impl CallError {
    /// Whether what was asked for may have been done, or may be done yet.
    pub(crate) fn may_be_done(&self) -> bool {
        match self {
            Self::Late | Self::Lost => true,
            Self::Rejected(_) | Self::Away => false,
        }
    }
}

/// What the time budget of a request's call may be.
pub(crate) const BUDGET: RangeInclusive<Duration> = Duration::from_millis(1)..=Duration::from_secs(60);
/// How long a call may take that no request waits for. It has more time than theirs, and being late here says nothing
/// about them.
pub(crate) const BACKGROUND_TIMEOUT: Duration = Duration::from_secs(1);
/// After so many replies in a row that came too late, Redis counts as away.
const LATE_REPLIES_TO_GO_DOWN: u32 = 3;
/// After so many replies in a row that were errors, it is seen whether Redis rejects everything.
const ERRORS_TO_PROBE: u32 = 3;
/// When Redis has not replied for so long, a rejection that is repeated without asking it starts a probe.
const SILENCE_TO_PROBE: Duration = Duration::from_secs(1);
/// What requests do, on a key of our own: a script that reads the clock and the key, and writes it.
pub(crate) const PROBE: &str = "redis.call('TIME')
redis.call('GET', KEYS[1])
redis.call('SET', KEYS[1], '1', 'PX', 1000)
return { 1 }";
const FIRST_PAUSE: Duration = Duration::from_millis(50);
/// The longest pause between two attempts to reconnect.
pub(crate) const LONGEST_PAUSE: Duration = Duration::from_secs(1);
/// How long to wait for one host, and for all of them: some of those listed may be dead while others know the new
/// master.
const HOST_TIMEOUT: Duration = Duration::from_millis(250);
/// A handshake takes more round trips, and before it all of the system's authorities are read.
const TLS_HOST_TIMEOUT: Duration = Duration::from_secs(1);
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

/// The way to Redis: one connection, what is known of its health, and the task that restores it.
pub(crate) struct Link {
    topology: Topology,
    budget: Duration,
    /// A key of our own in the namespace's slot, to see whether its master takes writes.
    probe_key: String,
    probe: Script,
    observer: Observer,
    /// Where the connection lives: calls may come from other runtimes, which may end before it does.
    runtime: Handle,
    connection: Mutex<Option<Connection>>,
    down: AtomicBool,
    /// Wakes background calls when it has gone down.
    gone: Notify,
    /// Late replies in a row.
    late: AtomicU32,
    /// Replies in a row that were errors.
    errors: AtomicU32,
    /// A task is looking whether Redis replies, and takes writes.
    probing: AtomicBool,
    /// When a call last got its reply, in milliseconds since `opened`.
    heard_at: AtomicU64,
    opened: Instant,
    /// Counts connections, so that what happens on an old one is not held against the new one.
    epoch: AtomicU32,
}

impl Link {
    /// Tries to connect once. If that fails, the link starts out down and goes on trying.
    pub(crate) async fn open(topology: Topology, budget: Duration, probe_key: String, observer: Observer) -> Arc<Self> {
        let link = Arc::new(Self {
            topology,
            budget,
            probe_key,
            probe: Script::of(PROBE.to_owned()),
            observer,
            runtime: Handle::current(),
            connection: Mutex::new(None),
            down: AtomicBool::new(false),
            gone: Notify::new(),
            late: AtomicU32::new(0),
            errors: AtomicU32::new(0),
            probing: AtomicBool::new(false),
            heard_at: AtomicU64::new(0),
            opened: Instant::now(),
            epoch: AtomicU32::new(0),
        });
        match link.connect().await {
            Ok(connection) => link.set(Some(connection)),
            Err(error) => {
                link.down.store(true, Ordering::Relaxed);
                link.report(StoreEvent::Unreached { error: &error });
                link.runtime.spawn(reconnect(Arc::downgrade(&link), |after| StoreEvent::Reached { after }));
            }
        }
        link
    }

    pub(crate) fn is_down(&self) -> bool {
        self.down.load(Ordering::Acquire)
    }

    /// Counts connections after the first: what was learnt over another one may no longer be so. Read it after
    /// [`is_down`](Self::is_down): then it is that of the connection that is up, or of a later one.
    pub(crate) fn epoch(&self) -> u32 {
        self.epoch.load(Ordering::Relaxed)
    }

    /// To be called where a rejection is repeated without asking Redis. It may have stopped replying, and nothing else
    /// would notice: if it has been silent, it is probed.
    pub(crate) fn probe_if_silent(self: &Arc<Self>) {
        let heard_at = Duration::from_millis(self.heard_at.load(Ordering::Relaxed));
        if self.opened.elapsed().saturating_sub(heard_at) > SILENCE_TO_PROBE {
            self.start_probe(self.epoch());
        }
    }

    fn note_heard(&self) {
        self.heard_at.store(u64::try_from(self.opened.elapsed().as_millis()).unwrap_or(u64::MAX), Ordering::Relaxed);
    }

    pub(crate) fn report(&self, event: StoreEvent<'_>) {
        (self.observer)(event);
    }

    /// Runs a script within the time budget, and returns the `count` integers of its reply. A call that is late may
    /// still be carried out.
    pub(crate) async fn run(
        self: &Arc<Self>,
        script: &Script,
        keys: &[String],
        args: &[String],
        count: usize,
    ) -> Result<Vec<i64>, CallError> {
        let epoch = self.epoch.load(Ordering::Relaxed);
        let call = async |connection: &mut Connection| integers(evaluate(connection, script, keys, args).await?, count);
        match self.within(self.budget, call).await {
            Ok(reply) => {
                self.late.store(0, Ordering::Relaxed);
                self.errors.store(0, Ordering::Relaxed);
                Ok(reply)
            }
            Err(error) => {
                match &error {
                    CallError::Late => self.note_late(epoch),
                    CallError::Rejected(_) if counts_up_to(&self.errors, ERRORS_TO_PROBE) => self.start_probe(epoch),
                    CallError::Rejected(_) | CallError::Lost | CallError::Away => {}
                }
                Err(error)
            }
        }
    }

    /// Runs one command that no request waits for. However long it takes, that says nothing about those that do.
    pub(crate) async fn ask(self: &Arc<Self>, command: &Cmd, limit: Duration) -> Result<Value, CallError> {
        let gone = self.gone.notified();
        tokio::pin!(gone);
        gone.as_mut().enable(); // before a connection is taken that may be the one that goes
        let asking = self.within(limit, async |connection| connection.call(command).await);
        tokio::pin!(asking);
        // With the connection goes the reply: there is nothing to wait for.
        poll_fn(|cx| match gone.as_mut().poll(cx) {
            Poll::Ready(()) => Poll::Ready(Err(CallError::Lost)),
            Poll::Pending => asking.as_mut().poll(cx),
        })
        .await
    }

    async fn within<T>(
        self: &Arc<Self>,
        limit: Duration,
        call: impl AsyncFnOnce(&mut Connection) -> RedisResult<T>,
    ) -> Result<T, CallError> {
        let epoch = self.epoch.load(Ordering::Relaxed);
        let connection = self.connection.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let Some(mut connection) = connection else { return Err(CallError::Away) };
        let started = Instant::now();
        let reply = timeout(limit, call(&mut connection)).await;
        let report = |error| self.report(StoreEvent::Call { took: started.elapsed(), error });
        match reply {
            Ok(Ok(reply)) => {
                self.note_heard();
                report(None);
                Ok(reply)
            }
            Ok(Err(error)) => {
                let text = error.to_string();
                report(Some(&text));
                if is_lost(&error) {
                    self.go_down(&text, epoch);
                }
                Err(if error.code().is_some() { CallError::Rejected(text) } else { CallError::Lost })
            }
            Err(_) => {
                report(Some(&late_text(limit)));
                Err(CallError::Late)
            }
        }
    }

    fn note_late(self: &Arc<Self>, epoch: u32) {
        if counts_up_to(&self.late, LATE_REPLIES_TO_GO_DOWN) {
            self.go_down(&late_text(self.budget), epoch);
        }
    }

    /// Probes Redis in the background, unless a probe is under way.
    fn start_probe(self: &Arc<Self>, epoch: u32) {
        if !self.probing.swap(true, Ordering::Relaxed) {
            let link = Arc::clone(self);
            self.runtime.spawn(async move {
                link.probe(epoch).await;
                link.probing.store(false, Ordering::Relaxed);
            });
        }
    }

    /// Does on a key of our own what requests do on theirs. After errors that shows whether other data stands under the
    /// keys of some requests, which concerns those alone, or Redis rejects everything (it is full, it can't persist, we
    /// lost a permission) and is as good as away. A late reply counts as one to a request does; then it is asked again,
    /// until there are enough of them.
    async fn probe(self: &Arc<Self>, epoch: u32) {
        for _ in 0..LATE_REPLIES_TO_GO_DOWN {
            let connection = self.connection.lock().unwrap_or_else(PoisonError::into_inner).clone();
            let Some(mut connection) = connection else { return };
            match timeout(self.budget, self.try_out(&mut connection)).await {
                Ok(Ok(_)) => {
                    self.late.store(0, Ordering::Relaxed);
                    return self.note_heard();
                }
                Ok(Err(error)) => return self.go_down(&error.to_string(), epoch),
                Err(_) => self.note_late(epoch),
            }
        }
    }

    /// `epoch` is that of the connection on which it was noticed.
    fn go_down(self: &Arc<Self>, error: &str, epoch: u32) {
        if epoch == self.epoch.load(Ordering::Relaxed) && !self.down.swap(true, Ordering::Relaxed) {
            self.set(None);
            self.gone.notify_waiters();
            self.runtime.spawn(reconnect(Arc::downgrade(self), |after| StoreEvent::Up { after }));
            self.report(StoreEvent::Down { error });
        }
    }

    fn set(&self, connection: Option<Connection>) {
        *self.connection.lock().unwrap_or_else(PoisonError::into_inner) = connection;
    }

    /// Connects, and sees whether the namespace's master takes a write within the budget of a call.
    async fn connect(&self) -> Result<Connection, String> {
        let host_timeout = if self.topology.is_tls() { TLS_HOST_TIMEOUT } else { HOST_TIMEOUT };
        let connecting = timeout(CONNECT_TIMEOUT, self.topology.connect(host_timeout));
        let mut connection = flatten(connecting.await)?;
        flatten(timeout(self.budget, self.try_out(&mut connection)).await)?;
        Ok(connection)
    }

    /// Does on a key of our own what requests do on theirs: it fails where they would.
    async fn try_out(&self, connection: &mut Connection) -> RedisResult<Value> {
        evaluate(connection, &self.probe, std::slice::from_ref(&self.probe_key), &[]).await
    }
}

fn flatten<T>(reply: Result<RedisResult<T>, tokio::time::error::Elapsed>) -> Result<T, String> {
    match reply {
        Ok(reply) => reply.map_err(|error| error.to_string()),
        Err(_) => Err("no response in time".to_owned()),
    }
}

/// Tries again and again, with growing pauses, until Redis is there or nobody needs it any more. The observer then gets
/// the event `there`.
async fn reconnect(link: Weak<Link>, there: fn(Duration) -> StoreEvent<'static>) {
    let since = Instant::now();
    let mut pause = FIRST_PAUSE;
    loop {
        sleep(jittered(pause)).await;
        pause = (pause * 2).min(LONGEST_PAUSE);
        let Some(link) = link.upgrade() else { return };
        match link.connect().await {
            Ok(connection) => {
                link.set(Some(connection));
                link.late.store(0, Ordering::Relaxed);
                link.errors.store(0, Ordering::Relaxed);
                link.note_heard();
                link.epoch.fetch_add(1, Ordering::Relaxed);
                link.down.store(false, Ordering::Release); // where this is seen, the new epoch is seen too
                link.report(there(since.elapsed()));
                return;
            }
            Err(error) => link.report(StoreEvent::StillDown { error: &error }),
        }
    }
}

/// Half to the whole of `pause`, so that many processes do not come back in step.
fn jittered(pause: Duration) -> Duration {
    let random = std::hash::RandomState::new().hash_one(0) as u32;
    pause / 2 + (pause / 2).mul_f64(f64::from(random) / f64::from(u32::MAX))
}

fn integers(reply: Value, count: usize) -> RedisResult<Vec<i64>> {
    let integers: Vec<i64> = redis::from_redis_value(reply)?;
    if integers.len() == count {
        return Ok(integers);
    }
    let length = format!("{} integers instead of {count}", integers.len());
    Err((ErrorKind::UnexpectedReturnType, "a script's reply has another length", length).into())
}

/// Microseconds of a reply as a span.
pub(crate) fn micros(micros: i64) -> Duration {
    Duration::from_micros(u64::try_from(micros).unwrap_or(0))
}

/// One more in a row; whether there are as many as `many` of them.
fn counts_up_to(counter: &AtomicU32, many: u32) -> bool {
    counter.fetch_add(1, Ordering::Relaxed) + 1 >= many
}

fn late_text(limit: Duration) -> String {
    format!("no response within {limit:?}")
}

async fn evaluate(
    connection: &mut Connection,
    script: &Script,
    keys: &[String],
    args: &[String],
) -> RedisResult<Value> {
    match connection.call(&eval("EVALSHA", &script.sha, keys, args)).await {
        Err(error) if error.kind() == ErrorKind::Server(ServerErrorKind::NoScript) => {
            connection.call(&eval("EVAL", &script.text, keys, args)).await
        }
        reply => reply,
    }
}

fn eval(command: &str, script: &str, keys: &[String], args: &[String]) -> Cmd {
    let mut cmd = redis::cmd(command);
    cmd.arg(script).arg(keys.len()).arg(keys).arg(args);
    cmd
}

/// Whether an error means that this connection, or the node behind it, is no good any more.
fn is_lost(error: &RedisError) -> bool {
    use ServerErrorKind::{Ask, BusyLoading, ClusterDown, MasterDown, Moved, ReadOnly, TryAgain};
    error.is_io_error()
        || error.is_connection_dropped()
        || matches!(
            error.kind(),
            ErrorKind::Server(Ask | BusyLoading | ClusterDown | MasterDown | Moved | ReadOnly | TryAgain)
                | ErrorKind::ClusterConnectionNotFound
        )
}
