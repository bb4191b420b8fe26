use std::time::{Duration, SystemTime};

/// A moment, in nanoseconds since the Unix epoch.
///
/// Nothing in this crate reads a clock: the caller hands the moment in. A live program takes it from
/// `tidegate_wait::Clock`, which shows wall time at its start plus the monotonic time since, so that windows align to
/// the epoch and time never steps back, or from `SystemTime::now().into()`. A simulation passes whatever it likes.
///
/// ```
/// use std::time::{Duration, SystemTime};
/// use tidegate_policy::Timestamp;
///
/// let noon = Timestamp::from_nanos(1_700_000_000_000_000_000);
/// let later = noon + Duration::from_millis(3);
/// assert_eq!(later.since(noon), Duration::from_millis(3));
/// assert_eq!(noon.since(later), Duration::ZERO); // never negative
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Timestamp(u64);

impl Timestamp {
    /// The latest moment there is, in the year 2262. Later ones count as this one, so that sums of a moment
    /// and a span (at most [`LONGEST_SPAN`]) never overflow.
    pub const MAX: Self = Self(u64::MAX >> 1);

    /// The moment `nanos` after the Unix epoch, or [`Timestamp::MAX`] if that is earlier.
    pub const fn from_nanos(nanos: u64) -> Self {
        if nanos < Self::MAX.0 { Self(nanos) } else { Self::MAX }
    }

    /// Nanoseconds since the Unix epoch.
    pub const fn as_nanos(self) -> u64 {
        self.0
    }

    /// The time from `earlier` to this moment; zero if `earlier` is the later of the two.
    pub const fn since(self, earlier: Self) -> Duration {
        Duration::from_nanos(self.nanos_since(earlier))
    }

    /// `nanos` later, even past [`Timestamp::MAX`]: what a state remembers must not fall short because the clock stands
    /// at its end.
    pub(crate) const fn later(self, nanos: u64) -> Self {
        Self(self.0.saturating_add(nanos))
    }

    pub(crate) const fn nanos_since(self, earlier: Self) -> u64 {
        self.0.saturating_sub(earlier.0)
    }
}

impl std::ops::Add<Duration> for Timestamp {
    type Output = Self;

    fn add(self, span: Duration) -> Self {
        Self::from_nanos(self.0.saturating_add(nanos(span)))
    }
}

/// A moment before 1970 counts as the epoch itself.
impl From<SystemTime> for Timestamp {
    fn from(time: SystemTime) -> Self {
        Self::default() + time.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default()
    }
}

/// The longest window, refill time or hold time a limit may have: about 36 years.
pub const LONGEST_SPAN: Duration = Duration::from_nanos(1 << 60);

/// `span` in nanoseconds, or `u64::MAX` for what does not fit (584 years and more).
pub(crate) fn nanos(span: Duration) -> u64 {
    u64::try_from(span.as_nanos()).unwrap_or(u64::MAX)
}
