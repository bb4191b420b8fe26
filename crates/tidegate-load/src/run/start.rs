//! How a test begins: where its target is, who sends, and when.
#![allow(clippy::cast_precision_loss, reason = "counts are below 2^53")]

use std::fmt;
use std::io;
use std::net::{SocketAddr, TcpStream, ToSocketAddrs as _};
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::sync::{Arc, Mutex, mpsc};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant, SystemTime};

use tidegate_input::{HttpUrl, Problem};
use tidegate_serve::{Log, Shard};

use super::{Run, planned, watch};
use crate::agenda::Agenda;
use crate::assignment::Assignment;
use crate::heads::Heads;
use crate::live::{self, Live};
use crate::plan::{Part, Plan, Times};
use crate::report::Report;
use crate::sender::{Commands, Observer, RunContext, Task};
use crate::trust;

/// Why a test could not be started.
#[derive(Debug)]
pub enum NotStarted {
    /// Something in the plan can't be done.
    Plan(Problem),
    /// The system would not let it.
    System(io::Error),
}

impl fmt::Display for NotStarted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Plan(problem) => problem.fmt(f),
            Self::System(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for NotStarted {}

impl From<io::Error> for NotStarted {
    fn from(error: io::Error) -> Self {
        Self::System(error)
    }
}

fn wrong(path: &str, message: impl Into<String>) -> NotStarted {
    NotStarted::Plan(Problem { path: path.to_owned(), message: message.into() })
}

/// From the start of the senders to the first request, so that all of them are there.
const LEAD: Duration = Duration::from_millis(50);
/// Requests a second for which another sender is worth its core.
const RATE_OF_A_SENDER: f64 = 50_000.0;
/// How far ahead a start may be.
const FARTHEST: Duration = Duration::from_secs(604_800);
/// How long each of several addresses is tried.
const TRIAL: Duration = Duration::from_secs(1);

impl Run {
    /// Starts a test. It looks the target's name up, so this may wait; what is returned with it waits for the end of
    /// the test.
    ///
    /// Over TLS the authorities in the file `ca` are trusted, or else the system's.
    pub fn start(
        plan: Plan,
        ca: Option<&Path>,
        log: Log,
    ) -> Result<(Arc<Self>, JoinHandle<io::Result<Report>>), NotStarted> {
        Self::start_observed(plan, ca, log, None)
    }

    /// The same, with somebody who hears of each request that has ended.
    pub fn start_observed(
        plan: Plan,
        ca: Option<&Path>,
        log: Log,
        observer: Option<Observer>,
    ) -> Result<(Arc<Self>, JoinHandle<io::Result<Report>>), NotStarted> {
        let secured = trust::secured(&plan, ca).map_err(|reason| wrong("--ca", reason))?;
        let address = address(&plan.target)?;
        let (start, started) = beginning(&plan)?;
        let plan = Arc::new(plan);
        let context = Arc::new(RunContext {
            heads: Heads::new(&plan),
            assignment: Assignment::new(&plan.clients, plan.seed),
            plan: Arc::clone(&plan),
            address,
            secured,
            start,
            observer,
        });
        let (buckets, count) = (live::buckets(), senders(&plan));
        let (index, of) = plan.part.map_or((0, 1), |part| (part.index() - 1, part.of()));
        let (mut commands, mut live, mut senders) = (Vec::new(), Vec::new(), Vec::new());
        for number in 0..count {
            commands.push(Arc::new(Commands::new()?));
            live.push(Arc::new(Shard(Live::new(&buckets))));
            let agenda = Agenda::new(&plan, index + of * number as u64, of * count as u64);
            // The first ones have one slot more if they can't be shared out evenly.
            let slots = plan.concurrency / count + usize::from(number < plan.concurrency % count);
            let (commands, live) = (Arc::clone(&commands[number]), Arc::clone(&live[number]));
            senders.push(Task { context: Arc::clone(&context), agenda, commands, live, slots });
        }
        let (profile, notes) = (Mutex::new(None), Mutex::default());
        let (is_stopped, is_over, rate) = (AtomicBool::new(false), AtomicBool::new(false), AtomicU64::new(0));
        let id = id();
        let run = Arc::new(Self {
            id,
            plan,
            start,
            started,
            commands,
            live,
            buckets,
            profile,
            notes,
            is_stopped,
            is_over,
            rate,
        });
        let (ended, ends) = mpsc::channel();
        for sender in senders {
            let ended = ended.clone();
            let work = move || {
                // The watcher waits as long as there are senders.
                let _reported = ended.send(sender.carry_out());
            };
            if let Err(error) = thread::Builder::new().name("load-sender".to_owned()).spawn(work) {
                run.stop();
                return Err(error.into());
            }
        }
        drop(ended);
        let watched = Arc::clone(&run);
        let watching = thread::Builder::new().name("load-watch".to_owned());
        let watching = watching.spawn(move || watch::watch(&watched, &ends, &log)).inspect_err(|_| run.stop())?;
        Ok((run, watching))
    }
}

/// When the first request may be due.
fn beginning(plan: &Plan) -> Result<(Instant, SystemTime), NotStarted> {
    let (now, wall) = (Instant::now(), SystemTime::now());
    let Some(start_at) = plan.start_at else { return Ok((now + LEAD, wall + LEAD)) };
    match start_at.duration_since(wall) {
        Ok(ahead) if ahead > FARTHEST => Err(wrong("startAt", "must be at most a week ahead")),
        Ok(ahead) => Ok((now + ahead, start_at)),
        Err(passed) => {
            let seconds = passed.duration().as_secs_f64();
            Err(wrong("startAt", format!("must be in the future, got a time {seconds:.1} s ago")))
        }
    }
}

/// Where the target is. Of several addresses the first that can be connected to: a name such as `localhost` may have
/// some that nobody listens at.
fn address(target: &HttpUrl) -> Result<SocketAddr, NotStarted> {
    let found = (&*target.host, target.port).to_socket_addrs();
    let found: Vec<SocketAddr> = match found {
        Ok(found) => found.collect(),
        Err(error) => return Err(wrong("limiterUrl", format!("the host {:?} can't be found: {error}", target.host))),
    };
    let responses = |address: &&SocketAddr| TcpStream::connect_timeout(address, TRIAL).is_ok();
    let chosen = if found.len() > 1 { found.iter().find(responses) } else { None };
    let nobody = || wrong("limiterUrl", format!("the host {:?} has no address", target.host));
    chosen.or(found.first()).copied().ok_or_else(nobody)
}

/// How many threads send: as many as the highest rate needs, and the machine has.
fn senders(plan: &Plan) -> usize {
    let of = plan.part.map_or(1, Part::of) as f64;
    let wanted = (peak(plan) / of / RATE_OF_A_SENDER).ceil() as usize;
    let cores = thread::available_parallelism().map_or(1, usize::from);
    wanted.clamp(1, cores.min(plan.concurrency))
}

/// The most requests that are due within a second.
fn peak(plan: &Plan) -> f64 {
    match (&plan.times, planned(plan)) {
        (Times::Recorded(times), _) => {
            let second = Duration::from_secs(1);
            let within =
                |(index, time): (usize, &Duration)| times[index..].partition_point(|later| *later < *time + second);
            times.iter().enumerate().map(within).max().unwrap_or_default() as f64
        }
        (_, Some(profile)) => profile.peak(),
        (_, None) => 0.0,
    }
}

/// The time and some chance: unlike that of any other test.
fn id() -> String {
    let time = SystemTime::UNIX_EPOCH.elapsed().unwrap_or_default().as_secs();
    format!("{time:x}-{:08x}", fastrand::u32(..))
}
