//! Which test is running. There is one at most.

use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tidegate_serve::Log;
use tokio::sync::watch;
use tokio::task::spawn_blocking;

use crate::live::Progress;
use crate::plan::Plan;
use crate::report::Report;
use crate::run::{self, Run};

/// The test that is running, and what is left of those before.
#[derive(Clone)]
pub(super) struct Current {
    shared: Arc<Shared>,
    pub(super) log: Log,
    ca: Option<PathBuf>,
}

struct Shared {
    state: Mutex<State>,
    /// Counts starts and ends, for those who wait for one.
    changes: watch::Sender<u64>,
}

struct State {
    now: Now,
    last: Option<Arc<Report>>,
    /// All tests that have ended, together.
    past: Progress,
    /// Nothing is started any more.
    is_over: bool,
    /// What is being started shall be stopped at once.
    is_unwanted: bool,
}

enum Now {
    Idle,
    /// The target is being looked up.
    Starting,
    Running(Arc<Run>),
}

/// Why no test was started.
pub(super) enum NotStarted {
    /// This one is running; none has a name while it is being started.
    Busy(Option<String>),
    Run(run::NotStarted),
}

/// There is no such test.
pub(super) struct NoTest;

impl Current {
    pub(super) fn new(ca: Option<PathBuf>, log: Log) -> Self {
        let state = State { now: Now::Idle, last: None, past: Progress::none(), is_over: false, is_unwanted: false };
        Self { shared: Arc::new(Shared { state: Mutex::new(state), changes: watch::Sender::new(0) }), log, ca }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.shared.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Starts a test and returns its name. It is started even if the client leaves in the meantime.
    pub(super) async fn start(&self, plan: Plan) -> Result<String, NotStarted> {
        {
            let mut state = self.state();
            match &state.now {
                Now::Idle if !state.is_over => (state.now, state.is_unwanted) = (Now::Starting, false),
                Now::Running(run) => return Err(NotStarted::Busy(Some(run.id.clone()))),
                Now::Idle | Now::Starting => return Err(NotStarted::Busy(None)),
            }
        }
        let tests = self.clone();
        let starting = tokio::spawn(async move {
            let (ca, log) = (tests.ca.clone(), tests.log.clone());
            let started = spawn_blocking(move || Run::start(plan, ca.as_deref(), log)).await;
            let started = started.unwrap_or_else(|panic| Err(run::NotStarted::System(std::io::Error::other(panic))));
            tests.started(started)
        });
        starting.await.unwrap_or_else(|panic| {
            self.state().now = Now::Idle;
            Err(NotStarted::Run(run::NotStarted::System(std::io::Error::other(panic))))
        })
    }

    fn started(
        &self,
        started: Result<(Arc<Run>, std::thread::JoinHandle<std::io::Result<Report>>), run::NotStarted>,
    ) -> Result<String, NotStarted> {
        let mut state = self.state();
        match started {
            Err(error) => {
                state.now = Now::Idle;
                drop(state);
                self.changed();
                Err(NotStarted::Run(error))
            }
            Ok((run, watching)) => {
                if state.is_over || state.is_unwanted {
                    run.stop();
                }
                let (id, tests) = (run.id.clone(), self.clone());
                state.now = Now::Running(Arc::clone(&run));
                drop(state);
                self.changed();
                tokio::spawn(async move {
                    let report = spawn_blocking(move || watching.join()).await;
                    tests.ended(&run, report.ok().and_then(Result::ok).and_then(Result::ok));
                });
                Ok(id)
            }
        }
    }

    fn ended(&self, run: &Run, report: Option<Report>) {
        let mut state = self.state();
        state.now = Now::Idle;
        let mut all = run.progress();
        all.in_flight = 0;
        state.past.add(&all);
        match report {
            Some(report) => state.last = Some(Arc::new(report)),
            None => self.log.error("LoadGenerator", format_args!("the report of test {} was lost", run.id)),
        }
        drop(state);
        self.changed();
    }

    fn changed(&self) {
        self.shared.changes.send_modify(|count| *count += 1);
    }

    /// The test that keeps others from being started; it has no name while it is being started itself.
    #[expect(clippy::option_option, reason = "one without a name is not none")]
    pub(super) fn busy(&self) -> Option<Option<String>> {
        match &self.state().now {
            Now::Idle => None,
            Now::Starting => Some(None),
            Now::Running(run) => Some(Some(run.id.clone())),
        }
    }

    /// Stops the test that is running or being started, if it is the one that is meant; it has ended when this returns.
    pub(super) async fn stop(&self, id: Option<&str>) -> Result<String, NoTest> {
        let mut changes = self.shared.changes.subscribe();
        let run = loop {
            if let Some(run) = self.running() {
                break run;
            }
            {
                let mut state = self.state();
                match state.now {
                    // Nobody can mean by its name what has none yet.
                    Now::Starting if id.is_none() => state.is_unwanted = true,
                    Now::Idle | Now::Starting | Now::Running(_) => return Err(NoTest),
                }
            }
            changes.changed().await.map_err(|_| NoTest)?;
        };
        if id.is_some_and(|id| id != run.id) {
            return Err(NoTest);
        }
        run.stop();
        while self.running().is_some_and(|now| now.id == run.id) {
            changes.changed().await.map_err(|_| NoTest)?;
        }
        Ok(run.id.clone())
    }

    /// Stops what is running, and starts nothing any more.
    pub(super) async fn end(&self) {
        let mut changes = self.shared.changes.subscribe();
        self.state().is_over = true;
        while !matches!(self.state().now, Now::Idle) {
            if let Some(run) = self.running() {
                run.stop();
            }
            if changes.changed().await.is_err() {
                return;
            }
        }
    }

    pub(super) fn running(&self) -> Option<Arc<Run>> {
        match &self.state().now {
            Now::Running(run) => Some(Arc::clone(run)),
            Now::Idle | Now::Starting => None,
        }
    }

    /// The report of the last one that has ended.
    pub(super) fn last(&self) -> Option<Arc<Report>> {
        self.state().last.clone()
    }

    /// All tests together, the one that is running included.
    pub(super) fn all(&self) -> (Progress, Option<Arc<Run>>) {
        let state = self.state();
        let mut all = state.past.clone();
        let running = match &state.now {
            Now::Running(run) => Some(Arc::clone(run)),
            Now::Idle | Now::Starting => None,
        };
        if let Some(run) = &running {
            all.add(&run.progress());
        }
        (all, running)
    }
}
