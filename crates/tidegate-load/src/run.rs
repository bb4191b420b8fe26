//! A test from its start to its report.

mod start;
mod watch;

pub use start::NotStarted;

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant, SystemTime};

use tidegate_serve::{Buckets, Shard};

use crate::live::{Live, Progress};
use crate::plan::{Plan, Times};
use crate::profile::{Profile, Shape};
use crate::sender::Commands;

/// A test that has been started.
pub struct Run {
    /// Its name, unlike those of all others.
    pub id: String,
    /// What is sent.
    pub plan: Arc<Plan>,
    start: Instant,
    /// When the first request could have been due, by the wall clock.
    pub started: SystemTime,
    commands: Vec<Arc<Commands>>,
    live: Vec<Arc<Shard<Live>>>,
    buckets: Buckets,
    /// The profile as it has been changed.
    profile: Mutex<Option<Profile>>,
    /// Notes for the report.
    notes: Mutex<Vec<String>>,
    is_stopped: AtomicBool,
    is_over: AtomicBool,
    /// Requests sent within the last second, as the bits of a number.
    rate: AtomicU64,
}

/// Why a rate can't be changed: only that of a constant profile can.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NotConstant;

/// How long before a new rate counts, so that it has reached all senders.
const NOTICE: Duration = Duration::from_millis(20);

/// Changes of the rate that are reported one by one.
const MOST_NOTES: usize = 10;

impl Run {
    /// How long it has been going on.
    pub fn elapsed(&self) -> Duration {
        self.start.elapsed()
    }

    /// How long until it begins, if that lies ahead.
    pub fn starts_in(&self) -> Option<Duration> {
        Some(self.start.saturating_duration_since(Instant::now())).filter(|ahead| !ahead.is_zero())
    }

    /// What has become of its requests so far.
    pub fn progress(&self) -> Progress {
        Progress::of(self.live(), &self.buckets)
    }

    /// Requests sent within the last second.
    pub fn rate(&self) -> f64 {
        f64::from_bits(self.rate.load(Relaxed))
    }

    /// Requests a second that the plan wants now.
    pub fn wanted_rate(&self) -> Option<f64> {
        let elapsed = self.elapsed();
        self.with_profile(|profile| profile.rate(elapsed))
    }

    /// Sends nothing more, and waits for no response any more.
    pub fn stop(&self) {
        self.is_stopped.store(true, Relaxed);
        self.commands.iter().for_each(|commands| commands.stop());
    }

    /// Whether it was asked to stop.
    pub fn is_stopped(&self) -> bool {
        self.is_stopped.load(Relaxed)
    }

    /// Whether nothing will be sent or received any more.
    pub fn is_over(&self) -> bool {
        self.is_over.load(Relaxed)
    }

    /// Goes on with another rate, from now on to the end.
    pub fn change_rate(&self, rate: f64) -> Result<(), NotConstant> {
        if self.plan.kind != "constant" {
            return Err(NotConstant);
        }
        let mut changed = self.profile.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(profile) = changed.as_ref().or_else(|| planned(&self.plan)) else { return Err(NotConstant) };
        let profile = profile.changed(self.elapsed() + NOTICE, Shape::Constant { rate });
        self.commands.iter().for_each(|commands| commands.change(profile.clone()));
        *changed = Some(profile);
        let mut notes = self.notes.lock().unwrap_or_else(PoisonError::into_inner);
        let after = self.elapsed().as_secs_f64();
        match notes.len() {
            0..MOST_NOTES => notes.push(format!("the rate was changed to {rate}/s after {after:.1} s")),
            MOST_NOTES => notes.push(format!("the rate was changed more than {MOST_NOTES} times")),
            _ => {}
        }
        Ok(())
    }

    fn with_profile<T>(&self, see: impl FnOnce(&Profile) -> T) -> Option<T> {
        let changed = self.profile.lock().unwrap_or_else(PoisonError::into_inner);
        changed.as_ref().or_else(|| planned(&self.plan)).map(see)
    }

    fn live(&self) -> impl Iterator<Item = &Live> {
        self.live.iter().map(|live| &live.0)
    }
}

fn planned(plan: &Plan) -> Option<&Profile> {
    match &plan.times {
        Times::Rate(profile, _) => Some(profile),
        Times::Recorded(_) => None,
    }
}
