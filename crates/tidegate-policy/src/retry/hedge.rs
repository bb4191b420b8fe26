use std::fmt;
use std::sync::Mutex;
use std::time::Duration;

use crate::Timestamp;
use crate::invalid_setting::InvalidSetting;
use crate::lock::lock;
use crate::numbers::figure;
use crate::timestamp::LONGEST_SPAN;

/// How long latencies count: at least so long, at most twice as long.
const SPAN: Duration = Duration::from_secs(10);
/// How many latencies must be known.
const MINIMUM: u32 = 50;
/// How long a delay is used before it is computed anew.
const FRESH: Duration = Duration::from_millis(100);
/// Eight for each doubling of the latency, so that what is known of one is at most an eighth too long.
const PARTS: u64 = 8;
const BUCKETS: usize = 496;

/// When another attempt is made beside one that has had no response.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct HedgeSettings {
    /// After the time in which this share of the attempts had a response, from 0.5 to 0.999.
    pub quantile: f64,
    /// Not earlier than that.
    pub min_delay: Duration,
}

/// The slowest twentieth, and nothing below 10 ms.
impl Default for HedgeSettings {
    fn default() -> Self {
        Self { quantile: 0.95, min_delay: Duration::from_millis(10) }
    }
}

/// After how long without a response another attempt is made: by how long attempts took in the last ten to twenty
/// seconds. All threads share it.
///
/// ```
/// use std::time::Duration;
/// use tidegate_policy::Timestamp;
/// use tidegate_policy::retry::{HedgeDelay, HedgeSettings};
///
/// let hedge = HedgeDelay::new(HedgeSettings { quantile: 0.9, min_delay: Duration::from_millis(1) })?;
/// let now = Timestamp::from_nanos(0);
/// assert_eq!(hedge.delay(now), None); // too little is known
/// for millis in 1..=100 {
///     hedge.note(Duration::from_millis(millis), now);
/// }
/// let delay = hedge.delay(now).expect("enough is known");
/// assert!(delay >= Duration::from_millis(90) && delay <= Duration::from_millis(90) * 9 / 8);
/// # Ok::<(), tidegate_policy::InvalidSetting>(())
/// ```
pub struct HedgeDelay {
    inner: Mutex<Inner>,
}

struct Inner {
    settings: HedgeSettings,
    /// Of this span, and of the one before.
    counts: [Box<[u32; BUCKETS]>; 2],
    totals: [u32; 2],
    /// When this span began.
    began: Timestamp,
    delay: Option<Duration>,
    /// Until when it is used.
    fresh_until: Timestamp,
}

impl HedgeSettings {
    /// These settings, if a delay can be computed by them.
    pub fn checked(self) -> Result<Self, InvalidSetting> {
        if !(0.5..=0.999).contains(&self.quantile) {
            let reason = format!("must be between 0.5 and 0.999, got {}", self.quantile);
            return Err(InvalidSetting::new("quantile", reason));
        }
        if self.min_delay > LONGEST_SPAN {
            let reason = format!("must be at most {} s, got {:?}", LONGEST_SPAN.as_secs(), self.min_delay);
            return Err(InvalidSetting::new("min_delay", reason));
        }
        Ok(self)
    }
}

impl HedgeDelay {
    /// One that knows no latency yet.
    pub fn new(settings: HedgeSettings) -> Result<Self, InvalidSetting> {
        let zero = Timestamp::from_nanos(0);
        let inner = Inner {
            settings: settings.checked()?,
            counts: [Box::new([0; BUCKETS]), Box::new([0; BUCKETS])],
            totals: [0; 2],
            began: zero,
            delay: None,
            fresh_until: zero,
        };
        Ok(Self { inner: Mutex::new(inner) })
    }

    /// A first attempt has had its response after this time, or was given up after it. Leave other attempts out: only
    /// the slow ones have any.
    #[inline]
    pub fn note(&self, took: Duration, now: Timestamp) {
        let mut inner = lock(&self.inner);
        inner.turn(now);
        let count = &mut inner.counts[0][bucket(took)];
        *count = count.saturating_add(1);
        inner.totals[0] = inner.totals[0].saturating_add(1);
    }

    /// After how long another attempt is made. `None` while fewer than 50 latencies are known.
    #[inline]
    pub fn delay(&self, now: Timestamp) -> Option<Duration> {
        let mut inner = lock(&self.inner);
        inner.turn(now);
        if inner.delay.is_none() || now >= inner.fresh_until {
            inner.delay = inner.computed();
            inner.fresh_until = now + FRESH;
        }
        inner.delay
    }

    /// Takes over other settings. What is known stays.
    pub fn change(&self, settings: HedgeSettings) -> Result<(), InvalidSetting> {
        let settings = settings.checked()?;
        let mut inner = lock(&self.inner);
        inner.settings = settings;
        inner.delay = None;
        Ok(())
    }
}

impl fmt::Debug for HedgeDelay {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let inner = lock(&self.inner);
        f.debug_struct("HedgeDelay").field("settings", &inner.settings).field("delay", &inner.delay).finish()
    }
}

impl Inner {
    /// Begins another span if this one is over.
    fn turn(&mut self, now: Timestamp) {
        let passed = now.since(self.began);
        if passed < SPAN {
            return;
        }
        self.counts.swap(0, 1);
        self.totals.swap(0, 1);
        (*self.counts[0], self.totals[0]) = ([0; BUCKETS], 0);
        self.began = self.began + SPAN;
        if passed >= 2 * SPAN {
            (*self.counts[1], self.totals[1]) = ([0; BUCKETS], 0);
            (self.began, self.delay) = (now, None);
        }
    }

    fn computed(&self) -> Option<Duration> {
        let total = u64::from(self.totals[0]) + u64::from(self.totals[1]);
        if total < u64::from(MINIMUM) {
            return None;
        }
        let rank = (self.settings.quantile * figure(total)).ceil() as u64;
        let mut seen = 0;
        let both = self.counts[0].iter().zip(self.counts[1].iter());
        let index = both.into_iter().position(|(one, other)| {
            seen += u64::from(*one) + u64::from(*other);
            seen >= rank
        })?;
        Some(longest(index).max(self.settings.min_delay))
    }
}

/// Where a latency is counted.
fn bucket(took: Duration) -> usize {
    let nanos = u64::try_from(took.as_nanos()).unwrap_or(u64::MAX);
    if nanos < PARTS {
        return nanos as usize;
    }
    let exponent = nanos.ilog2();
    let part = (nanos >> (exponent - 3)) & (PARTS - 1);
    (u64::from(exponent - 2) * PARTS + part) as usize
}

/// The longest latency that is counted there.
fn longest(index: usize) -> Duration {
    let index = index as u64;
    if index < PARTS {
        return Duration::from_nanos(index);
    }
    let (exponent, part) = (index / PARTS + 2, index % PARTS);
    let next = u128::from(PARTS + part + 1) << (exponent - 3);
    Duration::from_nanos(u64::try_from(next - 1).unwrap_or(u64::MAX))
}
