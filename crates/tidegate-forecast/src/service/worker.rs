use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use tidegate_serve::{Aggregate, Log};
use tokio::sync::{mpsc, oneshot};

use super::forecasts::Forecasts;
use super::metrics::Metrics;
use super::{COMPONENT, MOST_SOURCES, Settings, snapshot_errors, state};
use crate::advice::Advice;
use crate::snapshot::Snapshot;
use crate::{Adviser, Forecaster, History, Model, NotLearnt, Policy, ProphetModel, Season};

/// A snapshot, and where to send the advice.
pub(super) struct AdviceRequest {
    pub(super) snapshot: Snapshot,
    pub(super) response: oneshot::Sender<Advice>,
}

/// A thread of its own that learns and forecasts, so that requests for health or metrics do not wait for a fit.
pub(super) struct Worker {
    settings: Settings,
    sources: BTreeMap<String, Known>,
    metrics: Arc<Metrics>,
    forecasts: Arc<Forecasts>,
    learning: Arc<AtomicU64>,
    /// Grows with each snapshot.
    turn: u64,
    written: Instant,
    is_written: bool,
    /// Series that made room: reported now and then.
    forgotten: Aggregate,
}

struct Known {
    adviser: Adviser,
    /// The series with the lowest turn makes room for a new one.
    turn: u64,
}

/// Prophet learns once in so many seconds.
const PROPHET_EVERY: usize = 30;
/// How often the state is written.
const WRITTEN_EVERY: Duration = Duration::from_secs(30);

impl Worker {
    /// One that knows what was kept. `Err` says what can't be read.
    pub(super) fn new(settings: Settings, metrics: Arc<Metrics>, learning: Arc<AtomicU64>) -> Result<Self, String> {
        if let Some(folder) =
            settings.state.as_deref().and_then(Path::parent).filter(|folder| !folder.as_os_str().is_empty())
            && !folder.is_dir()
        {
            return Err(format!(
                "{}: must be a directory that exists, so that the state can be written there",
                folder.display()
            ));
        }
        let kept = settings
            .state
            .as_deref()
            .map(|path| state::read(path, settings.policy.kept))
            .transpose()?
            .unwrap_or_default();
        let mut worker = Self {
            settings,
            sources: BTreeMap::new(),
            metrics,
            forecasts: Arc::default(),
            learning,
            turn: 0,
            written: Instant::now(),
            is_written: true,
            forgotten: Aggregate::new(snapshot_errors::REPORT_EVERY, Instant::now()),
        };
        for (name, kept) in kept {
            let mut adviser = worker.adviser().with_capacity(kept.capacity);
            adviser.forecaster.restore(kept.series.history());
            worker.sources.insert(name, Known { adviser, turn: 0 });
        }
        Ok(worker)
    }

    fn adviser(&self) -> Adviser {
        let policy = self.settings.policy;
        Adviser::new(policy, forecaster(&policy, &self.learning))
    }

    /// What it expects, for others to read.
    pub(super) fn forecasts(&self) -> Arc<Forecasts> {
        Arc::clone(&self.forecasts)
    }

    /// Its settings and what it knows.
    pub(super) fn summary(&self) -> String {
        let policy = &self.settings.policy;
        let capacity = policy.capacity.map_or_else(|| "to be learnt".to_owned(), |rate| format!("{rate} req/s"));
        let settings = format!(
            "capacity {capacity}, floor {} req/s, {} s ahead of up to {} s",
            policy.floor, policy.horizon, policy.kept
        );
        let Some(path) = &self.settings.state else { return settings };
        let series = self.sources.values().map(|known| known.adviser.forecaster.history().known_count());
        let (count, seconds) = series.fold((0, 0), |(count, seconds), known| (count + 1, seconds + known));
        format!("{settings}; {count} series of {seconds} s read from {}", path.display())
    }

    /// Responds until no more requests can come.
    pub(super) fn work(mut self, mut requests: mpsc::Receiver<AdviceRequest>, log: &Log) {
        while let Some(request) = requests.blocking_recv() {
            let advice = self.response(&request.snapshot, log);
            // The snapshot counts even if its gateway has left.
            if request.response.send(advice).is_err() {
                self.metrics.abandoned.inc();
            }
            if self.written.elapsed() >= WRITTEN_EVERY {
                self.write(log);
            }
        }
        self.write(log);
    }

    fn response(&mut self, snapshot: &Snapshot, log: &Log) -> Advice {
        let began = Instant::now();
        self.make_room_for(&snapshot.source, log);
        self.turn += 1;
        if !self.sources.contains_key(&snapshot.source) {
            let adviser = self.adviser();
            self.sources.insert(snapshot.source.clone(), Known { adviser, turn: self.turn });
        }
        let known = self.sources.get_mut(&snapshot.source).expect("it was put there if it was not");
        known.turn = self.turn;
        let found = known.adviser.advise(snapshot);
        let forecaster = &known.adviser.forecaster;
        self.metrics.found(&found, forecaster.accuracy(), forecaster.history().known_count(), began.elapsed());
        self.is_written = false;
        self.forecasts.put(&snapshot.source, found.forecast);
        found.advice
    }

    fn make_room_for(&mut self, name: &str, log: &Log) {
        if self.sources.len() < MOST_SOURCES || self.sources.contains_key(name) {
            return;
        }
        let oldest = self.sources.iter().min_by_key(|(_, known)| known.turn).map(|(name, _)| name.clone());
        if let Some(oldest) = oldest {
            self.sources.remove(&oldest);
            self.forecasts.forget(&oldest);
            if let Some(count) = self.forgotten.note(Instant::now()) {
                let times = if count == 1 { String::new() } else { format!(" ({count} times)") };
                log.warn(COMPONENT, format_args!("more than {MOST_SOURCES} series: one is forgotten{times}"));
            }
        }
    }

    fn write(&mut self, log: &Log) {
        self.written = Instant::now();
        let Some(path) = self.settings.state.as_deref().filter(|_| !self.is_written) else { return };
        let sources = self.sources.iter().map(|(name, known)| (name.as_str(), &known.adviser));
        match state::write(path, sources) {
            Ok(()) => self.is_written = true,
            Err(error) => {
                self.metrics.unwritten.inc();
                log.error(COMPONENT, format_args!("{}: can't be written: {error}", path.display()));
            }
        }
    }
}

/// A model that is timed while it learns.
pub(super) struct Timed<M> {
    pub(super) model: M,
    pub(super) nanos: Arc<AtomicU64>,
}

impl<M: Model> Model for Timed<M> {
    fn name(&self) -> &'static str {
        self.model.name()
    }

    fn learn(&mut self, history: History<'_>, seasons: &[Season]) -> Result<(), NotLearnt> {
        let began = Instant::now();
        let learnt = self.model.learn(history, seasons);
        self.nanos.store(u64::try_from(began.elapsed().as_nanos()).unwrap_or(u64::MAX), Ordering::Relaxed);
        learnt
    }

    fn path(&self, history: History<'_>, steps: usize) -> Option<Vec<f64>> {
        self.model.path(history, steps)
    }
}

/// All models: the simple ones, and Prophet, which is timed.
fn forecaster(policy: &Policy, learning: &Arc<AtomicU64>) -> Forecaster {
    let prophet = Timed { model: ProphetModel::default(), nanos: Arc::clone(learning) };
    Forecaster::new(policy.settings()).with_slow(prophet, PROPHET_EVERY)
}
