use std::future::poll_fn;
use std::hash::BuildHasher;
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
    /// Places in flight that could not be given back, and will not be: they stay taken for as long as a request may hold one.
    PlacesLost {
        /// How many.
        places: usize,
    },
}

/// Is told of every [`StoreEvent`], on the way of a request: it should be quick.
pub type Observer = Arc<dyn Fn(StoreEvent<'_>) + Send + Sync>;

/// Redis could not be asked, or did not answer in time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Unavailable;

impl From<NoAnswer> for Unavailable {
    fn from(_: NoAnswer) -> Self {
        Self
    }
}

/// Why a call has no answer, for those who want to know.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum NoAnswer {
    /// The answer is an error; its text.
    Refused(String),
    /// It did not come in time. The call may still be carried out.
    Late,
    /// The connection was lost meanwhile. The call may have been carried out.
    Lost,
    /// There is no connection: nothing was asked.
    Away,
}

impl NoAnswer {
    /// Whether what was asked for may have been done, or may be done yet.
    pub(crate) fn may_be_done(&self) -> bool {
        match self {
            Self::Late | Self::Lost => true,
            Self::Refused(_) | Self::Away => false,
        }
    }
}

/// After so many answers in a row that came too late, Redis counts as away.
const LATE_ANSWERS_TO_GO_DOWN: u32 = 3;
/// After so many answers in a row that were errors, it is seen whether Redis refuses everything.
const ERRORS_TO_DOUBT: u32 = 3;
/// When Redis has not answered for so long, a refusal that is repeated without asking it starts a probe.
const SILENCE_TO_PROBE: Duration = Duration::from_secs(1);
/// What requests do, on a key of our own: a script that reads the clock and the key, and writes it.
pub(crate) const PROBE: &str = "redis.call('TIME')
redis.call('GET', KEYS[1])
redis.call('SET', KEYS[1], '1', 'PX', 1000)
return { 1 }";
const FIRST_PAUSE: Duration = Duration::from_millis(50);
/// The longest pause between two attempts to reconnect.
pub(crate) const LONGEST_PAUSE: Duration = Duration::from_secs(1);
/// How long to wait for one host, and for all of them: some of those listed may be dead while others know the new master.
const PATIENCE_A_HOST: Duration = Duration::from_millis(250);
/// A handshake takes more round trips, and before it all of the system's authorities are read.
const PATIENCE_A_HOST_WITH_TLS: Duration = Duration::from_secs(1);
const PATIENCE_TO_CONNECT: Duration = Duration::from_secs(5);

/// The way to Redis: one connection, what is known of its health, and whoever mends it.
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
    /// Tells those who wait patiently that it has gone down.
    gone: Notify,
    /// Late answers in a row.
    late: AtomicU32,
    /// Answers in a row that were errors.
    errors: AtomicU32,
    /// Somebody is looking whether Redis answers, and takes writes.
    probing: AtomicBool,
    /// When a call was last answered, in milliseconds since `opened`.
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
                link.tell(StoreEvent::Unreached { error: &error });
                link.runtime.spawn(reconnect(Arc::downgrade(&link), |after| StoreEvent::Reached { after }));
            }
        }
        link
    }

    pub(crate) fn is_down(&self) -> bool {
        self.down.load(Ordering::Acquire)
    }

    /// Counts connections after the first: what was learnt over another one may no longer be so. Read it after
    /// [`is_down`](Self::is_down): then it is that of the connection which is up, or of a later one.
    pub(crate) fn epoch(&self) -> u32 {
        self.epoch.load(Ordering::Relaxed)
    }

    /// To be called where a refusal is repeated without asking Redis. It may have stopped answering, and nothing else would notice: if
    /// it has been silent, it is probed.
    pub(crate) fn probe_if_silent(self: &Arc<Self>) {
        let heard_at = Duration::from_millis(self.heard_at.load(Ordering::Relaxed));
        if self.opened.elapsed().saturating_sub(heard_at) > SILENCE_TO_PROBE {
            self.start_probe(self.epoch());
        }
    }

    fn note_heard(&self) {
        self.heard_at.store(u64::try_from(self.opened.elapsed().as_millis()).unwrap_or(u64::MAX), Ordering::Relaxed);
    }

    pub(crate) fn tell(&self, event: StoreEvent<'_>) {
        (self.observer)(event);
    }

    /// Runs a script within the time budget, and returns the `count` integers it replies. A call that came too late may still have been
    /// carried out.
    pub(crate) async fn run(
        self: &Arc<Self>,
        script: &Script,
        keys: &[String],
        args: &[String],
        count: usize,
    ) -> Result<Vec<i64>, NoAnswer> {
        let epoch = self.epoch.load(Ordering::Relaxed);
        let call = async |connection: &mut Connection| integers(evaluate(connection, script, keys, args).await?, count);
        match self.within(self.budget, call).await {
            Ok(answer) => {
                self.late.store(0, Ordering::Relaxed);
                self.errors.store(0, Ordering::Relaxed);
                Ok(answer)
            }
            Err(no_answer) => {
                match &no_answer {
                    NoAnswer::Late => self.note_late(epoch),
                    NoAnswer::Refused(_) if counts_up_to(&self.errors, ERRORS_TO_DOUBT) => self.start_probe(epoch),
                    NoAnswer::Refused(_) | NoAnswer::Lost | NoAnswer::Away => {}
                }
                Err(no_answer)
            }
        }
    }

    /// Runs one command that no request waits for. However long it takes, that says nothing about those that do.
    pub(crate) async fn ask(self: &Arc<Self>, command: &Cmd, patience: Duration) -> Result<Value, NoAnswer> {
        let gone = self.gone.notified();
        tokio::pin!(gone);
        gone.as_mut().enable(); // before a connection is taken that may be the one that goes
        let asking = self.within(patience, async |connection| connection.call(command).await);
        tokio::pin!(asking);
        // With the connection goes the answer: there is nothing to be patient for.
        poll_fn(|cx| match gone.as_mut().poll(cx) {
            Poll::Ready(()) => Poll::Ready(Err(NoAnswer::Lost)),
            Poll::Pending => asking.as_mut().poll(cx),
        })
        .await
    }

    async fn within<T>(
        self: &Arc<Self>,
        patience: Duration,
        call: impl AsyncFnOnce(&mut Connection) -> RedisResult<T>,
    ) -> Result<T, NoAnswer> {
        let epoch = self.epoch.load(Ordering::Relaxed);
        let connection = self.connection.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let Some(mut connection) = connection else { return Err(NoAnswer::Away) };
        let started = Instant::now();
        let answer = timeout(patience, call(&mut connection)).await;
        let tell = |error| (self.observer)(StoreEvent::Call { took: started.elapsed(), error });
        match answer {
            Ok(Ok(answer)) => {
                self.note_heard();
                tell(None);
                Ok(answer)
            }
            Ok(Err(error)) => {
                let text = error.to_string();
                tell(Some(&text));
                if is_lost(&error) {
                    self.go_down(&text, epoch);
                }
                Err(if error.code().is_some() { NoAnswer::Refused(text) } else { NoAnswer::Lost })
            }
            Err(_) => {
                tell(Some(&late_text(patience)));
                Err(NoAnswer::Late)
            }
        }
    }

    fn note_late(self: &Arc<Self>, epoch: u32) {
        if counts_up_to(&self.late, LATE_ANSWERS_TO_GO_DOWN) {
            self.go_down(&late_text(self.budget), epoch);
        }
    }

    /// Probes Redis in the background, if nobody does so yet.
    fn start_probe(self: &Arc<Self>, epoch: u32) {
        if !self.probing.swap(true, Ordering::Relaxed) {
            let link = Arc::clone(self);
            self.runtime.spawn(async move {
                link.probe(epoch).await;
                link.probing.store(false, Ordering::Relaxed);
            });
        }
    }

    /// Does on a key of our own what requests do on theirs. After errors that shows whether somebody's data stands under our keys, which is
    /// their requests' trouble alone, or Redis refuses everything (it is full, it can't persist, we lost a permission) and is as good as
    /// away. A late answer counts as one to a request does; then it is asked again, until there are enough of them.
    async fn probe(self: &Arc<Self>, epoch: u32) {
        for _ in 0..LATE_ANSWERS_TO_GO_DOWN {
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
            (self.observer)(StoreEvent::Down { error });
        }
    }

    fn set(&self, connection: Option<Connection>) {
        *self.connection.lock().unwrap_or_else(PoisonError::into_inner) = connection;
    }

    /// Connects, and sees whether the namespace's master takes a write within the budget of a call.
    async fn connect(&self) -> Result<Connection, String> {
        let patience = if self.topology.is_tls() { PATIENCE_A_HOST_WITH_TLS } else { PATIENCE_A_HOST };
        let connecting = timeout(PATIENCE_TO_CONNECT, self.topology.connect(patience));
        let mut connection = flatten(connecting.await)?;
        flatten(timeout(self.budget, self.try_out(&mut connection)).await)?;
        Ok(connection)
    }

    /// Does on a key of our own what requests do on theirs: it fails where they would.
    async fn try_out(&self, connection: &mut Connection) -> RedisResult<Value> {
        evaluate(connection, &self.probe, std::slice::from_ref(&self.probe_key), &[]).await
    }
}

fn flatten<T>(answer: Result<RedisResult<T>, tokio::time::error::Elapsed>) -> Result<T, String> {
    match answer {
        Ok(answer) => answer.map_err(|error| error.to_string()),
        Err(_) => Err("no answer in time".to_owned()),
    }
}

/// Tries again and again, with growing pauses, until Redis is there or nobody needs it any more. The observer then gets the event `there`.
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
                (link.observer)(there(since.elapsed()));
                return;
            }
            Err(error) => (link.observer)(StoreEvent::StillDown { error: &error }),
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

/// One more in a row; whether there are as many as `many` of them.
fn counts_up_to(counter: &AtomicU32, many: u32) -> bool {
    counter.fetch_add(1, Ordering::Relaxed) + 1 >= many
}

fn late_text(patience: Duration) -> String {
    format!("no answer within {patience:?}")
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
        answer => answer,
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
