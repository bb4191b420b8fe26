//! The reactive ceiling: what the upstream's own latency and errors say it can bear. A forecast may be wrong; this is
//! measured.

use std::time::Duration;

use crate::second::{Second, figure};

/// So many seconds in a row before anything is lowered: one slow second is noise.
const PATIENCE: u32 = 3;
/// Fewer calls in a second prove nothing.
const LEAST_CALLS: u64 = 10;
/// Healthy seconds before a latency counts as usual.
const LESSONS: u32 = 10;
/// What is usual follows slowly where it rises, for that may be the overload itself, and quickly where it falls.
const RISING: f64 = 0.01;
const FALLING: f64 = 0.3;
/// A latency this far above the usual is not noise: of the slow responses, and of the fast ones.
const LEAST_EXCESS: Quantiles = Quantiles { high: 0.020, low: 0.005 };
const CUT: f64 = 0.9;
/// The fastest responses are faster than a second ago by a tenth at least: a queue gets shorter.
const EASING: f64 = 0.9;
const GROWTH: f64 = 0.05;
/// With half the load the fastest responses of an overloaded upstream are faster, with a quarter they are as usual.
/// Where so many seconds show something else, its latency does not come from the load.
const LESS: f64 = 0.5;
const LITTLE: f64 = 0.25;
const IN_VAIN: u32 = 5;
/// Responses and admitted requests differ by no more: no queue grows or gets shorter.
const EVEN: f64 = 0.1;

/// Fewer responses than this share of what was admitted: the upstream may be frozen, which shows neither in latencies
/// nor in errors until requests time out. After so many seconds it is something else, such as responses from
/// elsewhere.
const SILENT: f64 = 0.25;
const LONGEST_SILENCE: u32 = 60;

/// How long the responses of a second took, in seconds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Quantiles {
    /// The 95th percentile.
    pub high: f64,
    /// The first. A window admits its requests in a burst, whose last ones wait for the first: that is slow at the
    /// 95th percentile and no overload, as long as the queue is empty again when the next burst comes. A queue that
    /// stays makes even the fastest responses slow.
    pub low: f64,
}

impl Quantiles {
    /// Of a second, by these buckets.
    pub fn of(second: &Second, bounds: &[f64]) -> Option<Self> {
        let quantile = |share| second.latency_quantile(share, bounds);
        Some(Self { high: quantile(0.95)?, low: quantile(0.01)? })
    }

    fn map(self, other: Self, join: impl Fn(f64, f64) -> f64) -> Self {
        Self { high: join(self.high, other.high), low: join(self.low, other.low) }
    }
}

/// When an upstream counts as overloaded.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Thresholds {
    /// The 95th percentile of its latency is longer; without a value that is learnt.
    pub latency: Option<Duration>,
    /// A larger share of its responses are errors or fail.
    pub errors: f64,
}

impl Thresholds {
    /// Those of an operator who sets none.
    pub const DEFAULT: Self = Self { latency: None, errors: 0.05 };
}

impl Default for Thresholds {
    fn default() -> Self {
        Self::DEFAULT
    }
}

/// Additive increase, multiplicative decrease, once a second: while the upstream is overloaded the ceiling is 0.9 of
/// what was admitted, and again each second, unless its queue gets shorter already; when it is not, the ceiling grows
/// by a twentieth of the operator's rate until it binds no longer.
pub(crate) struct Ceiling {
    thresholds: Thresholds,
    bound: Option<f64>,
    overloaded: u32,
    /// The fastest responses of the last second of overload.
    last_low: Option<f64>,
    usual: Option<Quantiles>,
    lessons: u32,
    attempt: Option<Attempt>,
    /// Seconds in a row with hardly any responses.
    silent: u32,
}

/// What cutting is to better: how it stood when it began.
#[derive(Clone, Copy)]
struct Attempt {
    admitted: f64,
    low: f64,
    /// Seconds in which it has not helped, though much was cut.
    in_vain: u32,
}

/// The rates that a ceiling is judged beside.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Rates {
    /// In force.
    pub(crate) now: f64,
    /// What would be in force without a ceiling.
    pub(crate) wanted: f64,
    pub(crate) base: f64,
    pub(crate) floor: f64,
    /// Whether lowering them would change anything: while requests pass unlimited it would not, and nothing is learnt
    /// from that.
    pub(crate) is_enforced: bool,
}

/// What became of a ceiling.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum CeilingEvent {
    /// It begins to bind, because of this.
    Lowered(String),
    /// It binds no longer.
    Released,
}

impl Ceiling {
    pub(crate) fn new(thresholds: Thresholds) -> Self {
        Self {
            thresholds,
            bound: None,
            overloaded: 0,
            last_low: None,
            usual: None,
            lessons: 0,
            attempt: None,
            silent: 0,
        }
    }

    /// Requests a second; none while it does not bind.
    pub(crate) fn bound(&self) -> Option<f64> {
        self.bound
    }

    /// Another gateway has measured this.
    pub(crate) fn inherit(&mut self, bound: Option<f64>) {
        self.bound = bound;
    }

    /// It binds no longer; what was learnt stays.
    pub(crate) fn lift(&mut self) {
        (self.bound, self.attempt) = (None, None);
    }

    /// The operator has set numbers: everything begins anew, for the upstream may be another one too.
    pub(crate) fn forget(&mut self) {
        *self = Self::new(self.thresholds);
    }

    /// A second has passed.
    pub(crate) fn observe(
        &mut self,
        second: &Second,
        latency: Option<Quantiles>,
        rates: Rates,
    ) -> Option<CeilingEvent> {
        if !second.is_whole && !second.is_partial {
            return None;
        }
        let is_enough = second.calls() >= LEAST_CALLS;
        let is_silent = second.admitted() >= LEAST_CALLS && figure(second.calls()) < SILENT * figure(second.admitted());
        self.silent = if is_silent { self.silent.saturating_add(1) } else { 0 };
        let Some(trouble) = self.trouble(second, latency).filter(|_| is_enough) else {
            if (1..=LONGEST_SILENCE).contains(&self.silent) {
                return None;
            }
            (self.overloaded, self.last_low) = (0, None);
            if let (true, Some(latency)) = (is_enough, latency) {
                self.attempt = None;
                self.learn(latency);
            }
            return self.grow(rates);
        };
        if let Some(latency) = latency.filter(|latency| self.is_in_vain(second, *latency, rates.floor)) {
            (self.usual, self.attempt) = (Some(latency), None);
            (self.overloaded, self.last_low) = (0, None);
            return self.grow(rates);
        }
        if !rates.is_enforced {
            self.overloaded = 0;
            return None;
        }
        self.overloaded = self.overloaded.saturating_add(1);
        if self.overloaded < PATIENCE {
            return None;
        }
        let low = latency.map(|latency| latency.low);
        let before = std::mem::replace(&mut self.last_low, low);
        let is_easing = self.bound.is_some() && low.zip(before).is_some_and(|(low, before)| low < EASING * before);
        if is_easing && second.error_share() <= self.thresholds.errors {
            // What was cut before works: the queue gets shorter.
            return None;
        }
        // A part says how the upstream is, not how much it gets.
        let admitted = if second.is_whole { figure(second.admitted()).min(rates.now) } else { rates.now };
        if let (None, Some(low)) = (self.attempt, low) {
            self.attempt = Some(Attempt { admitted, low, in_vain: 0 });
        }
        let is_first = self.bound.is_none();
        let cut = (CUT * admitted).max(rates.floor);
        self.bound = Some(self.bound.map_or(cut, |bound| bound.min(cut)));
        is_first.then_some(CeilingEvent::Lowered(trouble))
    }

    /// Whether much has been cut and the latency is what it was, with no queue that would explain it: the upstream has
    /// become slower, after a deploy say, and serves no fewer requests for that. The operator's own threshold is not
    /// questioned.
    fn is_in_vain(&mut self, second: &Second, latency: Quantiles, floor: f64) -> bool {
        let Some(attempt) = self.attempt.as_mut().filter(|_| self.thresholds.latency.is_none()) else { return false };
        let (admitted, calls) = (figure(second.admitted()), figure(second.calls()));
        let is_even = (calls - admitted).abs() <= EVEN * admitted;
        if !is_even || !second.is_whole || second.error_share() > self.thresholds.errors {
            return false;
        }
        let is_as_slow = latency.low >= EASING * attempt.low;
        // Nothing more can be cut, and what is left comes.
        let is_lowest = self.bound.is_some_and(|bound| bound <= floor) && (admitted - floor).abs() <= EVEN * floor;
        let is_less = is_lowest || admitted <= LESS * attempt.admitted;
        if admitted <= LITTLE * attempt.admitted || (is_less && is_as_slow) {
            attempt.in_vain += 1;
        }
        attempt.in_vain >= IN_VAIN
    }

    fn trouble(&self, second: &Second, latency: Option<Quantiles>) -> Option<String> {
        let share = second.error_share();
        if share > self.thresholds.errors {
            let (share, errors) = (share * 100.0, self.thresholds.errors * 100.0);
            return Some(format!("{share:.1} % of the upstream's responses are errors, more than {errors} %"));
        }
        let (latency, most) = (latency?, self.longest()?);
        let (p95, bound) = (latency.high * 1e3, most.high * 1e3);
        let why = || format!("the upstream's p95 latency is {p95:.1} ms, more than {bound:.1} ms");
        (latency.high > most.high && latency.low > most.low).then(why)
    }

    /// The longest latencies that are no overload. The operator's threshold of the 95th percentile counts as it
    /// stands. What is learnt must be seen in slow and fast responses alike.
    fn longest(&self) -> Option<Quantiles> {
        if let Some(latency) = self.thresholds.latency {
            return Some(Quantiles { high: latency.as_secs_f64(), low: 0.0 });
        }
        let usual = self.usual.filter(|_| self.lessons >= LESSONS)?;
        Some(usual.map(LEAST_EXCESS, |usual, excess| (2.0 * usual).max(usual + excess)))
    }

    fn learn(&mut self, latency: Quantiles) {
        let usual = *self.usual.get_or_insert(latency);
        let learnt = |usual: f64, latency: f64| {
            let weight = if latency > usual { RISING } else { FALLING };
            usual + weight * (latency - usual)
        };
        self.usual = Some(usual.map(latency, learnt));
        self.lessons = self.lessons.saturating_add(1);
    }

    fn grow(&mut self, rates: Rates) -> Option<CeilingEvent> {
        let grown = self.bound? + GROWTH * rates.base;
        let binds = grown < rates.wanted;
        self.bound = binds.then_some(grown);
        (!binds).then_some(CeilingEvent::Released)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FIFTY_MILLIS: Thresholds = Thresholds { latency: Some(Duration::from_millis(50)), errors: 0.05 };
    const RATES: Rates = Rates { now: 100.0, wanted: 100.0, base: 100.0, floor: 5.0, is_enforced: true };

    fn second(admitted: u64, errors: u64) -> Second {
        Second {
            is_whole: true,
            offered: admitted + 7,
            rejected: 7,
            errors,
            latency: vec![admitted],
            ..Second::default()
        }
    }

    /// Feeds seconds of (admitted, errors, p95 in ms), with what is in force following the ceiling.
    fn play(ceiling: &mut Ceiling, rates: Rates, seconds: &[(u64, u64, f64)]) -> Vec<Option<f64>> {
        let step = |(admitted, errors, p95): &(u64, u64, f64)| {
            let now = ceiling.bound().unwrap_or(rates.wanted);
            let latency = Quantiles { high: p95 / 1e3, low: p95 / 2e3 };
            ceiling.observe(&second(*admitted, *errors), Some(latency), Rates { now, ..rates });
            ceiling.bound().map(|bound| (bound * 10.0).round() / 10.0)
        };
        seconds.iter().map(step).collect()
    }

    #[test]
    fn latency_above_the_threshold_lowers_after_a_few_seconds_and_again_while_it_lasts() {
        let mut ceiling = Ceiling::new(FIFTY_MILLIS);
        let bounds = play(&mut ceiling, RATES, &[(100, 0, 80.0); 6]);
        assert_eq!(bounds, [None, None, Some(90.0), Some(81.0), Some(72.9), Some(65.6)]);
        // Five a second back, until it binds no longer.
        let bounds = play(&mut ceiling, RATES, &[(60, 0, 10.0); 8]);
        assert_eq!((bounds[0], bounds[5], bounds[6]), (Some(70.6), Some(95.6), None));
    }

    #[test]
    fn errors_lower_too_but_never_below_the_floor() {
        let mut ceiling = Ceiling::new(Thresholds::default());
        assert_eq!(play(&mut ceiling, RATES, &[(100, 5, 1.0); 9]), [None; 9], "as many as may be");
        let bounds = play(&mut ceiling, RATES, &[(100, 6, 1.0); 60]);
        assert_eq!((bounds[1], bounds[2], bounds[59]), (None, Some(90.0), Some(5.0)));
        let failed = Second { failed: 3, ..second(27, 0) };
        assert!((failed.error_share() - 0.1).abs() < 1e-12);
    }

    #[test]
    fn what_is_usual_is_learnt_in_quiet_times() {
        let mut ceiling = Ceiling::new(Thresholds::default());
        assert_eq!(play(&mut ceiling, RATES, &[(50, 0, 5.0); 10]), [None; 10]);
        assert_eq!(play(&mut ceiling, RATES, &[(50, 0, 24.0); 20]), [None; 20], "noise");
        assert_eq!(play(&mut ceiling, RATES, &[(50, 0, 60.0); 3]), [None, None, Some(45.0)]);
        let mut slow = Ceiling::new(Thresholds::default());
        play(&mut slow, RATES, &[(50, 0, 100.0); 10]);
        assert_eq!(play(&mut slow, RATES, &[(50, 0, 199.0); 5]), [None; 5]);
        assert_eq!(play(&mut slow, RATES, &[(50, 0, 230.0); 3])[2], Some(45.0));
        let mut unlearnt = Ceiling::new(Thresholds::default());
        assert_eq!(
            play(&mut unlearnt, RATES, &[(50, 0, 5.0), (50, 0, 900.0), (50, 0, 900.0), (50, 0, 900.0)]),
            [None; 4]
        );
    }

    /// A fixed window admits a spike's requests at its beginning: the last of them wait for the first, and all is
    /// done before the next.
    #[test]
    fn a_burst_that_is_worked_off_in_time_is_no_overload() {
        let mut ceiling = Ceiling::new(Thresholds::default());
        play(&mut ceiling, RATES, &[(50, 0, 5.0); 10]);
        for _ in 0..60 {
            let burst = Quantiles { high: 0.7, low: 0.006 };
            assert_eq!(ceiling.observe(&second(250, 0), Some(burst), RATES), None);
            assert_eq!(ceiling.bound(), None);
        }
        let standing = Quantiles { high: 0.8, low: 0.015 };
        let events: Vec<_> = (0..4).filter_map(|_| ceiling.observe(&second(250, 0), Some(standing), RATES)).collect();
        assert!(matches!(events[..], [CeilingEvent::Lowered(_)]), "{events:?}");
    }

    /// One cut too many for the same queue, and the upstream would idle when it is gone.
    #[test]
    fn while_the_queue_gets_shorter_nothing_more_is_cut() {
        let mut ceiling = Ceiling::new(FIFTY_MILLIS);
        let bounds = play(
            &mut ceiling,
            RATES,
            &[(100, 0, 200.0), (100, 0, 200.0), (100, 0, 200.0), (90, 0, 150.0), (90, 0, 100.0)],
        );
        assert_eq!(bounds, [None, None, Some(90.0), Some(90.0), Some(90.0)]);
        assert_eq!(play(&mut ceiling, RATES, &[(90, 0, 98.0)]), [Some(81.0)], "hardly any shorter");
        let mut failing = Ceiling::new(Thresholds::default());
        let bounds =
            play(&mut failing, RATES, &[(100, 50, 200.0), (100, 50, 200.0), (100, 50, 200.0), (90, 45, 100.0)]);
        assert_eq!(bounds[2..], [Some(90.0), Some(81.0)], "errors are no queue");
    }

    #[test]
    fn a_lasting_overload_does_not_become_the_usual() {
        let mut ceiling = Ceiling::new(Thresholds::default());
        play(&mut ceiling, RATES, &[(50, 0, 10.0); 20]);
        let bounds = play(&mut ceiling, RATES, &[(50, 0, 100.0); 600]);
        assert_eq!(bounds[599], Some(5.0));
    }

    /// Plays an upstream under 100 offered requests a second: how much it responds to, and how fast, of what is
    /// admitted and what waits.
    fn run(ceiling: &mut Ceiling, seconds: usize, upstream: impl FnMut(f64) -> (f64, Quantiles)) -> Vec<f64> {
        run_above(RATES.floor, ceiling, seconds, upstream)
    }

    fn run_above(
        floor: f64,
        ceiling: &mut Ceiling,
        seconds: usize,
        mut upstream: impl FnMut(f64) -> (f64, Quantiles),
    ) -> Vec<f64> {
        let step = |_| {
            let now = ceiling.bound().unwrap_or(RATES.wanted);
            let (responses, latency) = upstream(now);
            let second = Second { latency: vec![responses as u64], ..second(now as u64, 0) };
            ceiling.observe(&second, Some(latency), Rates { now, floor, ..RATES });
            ceiling.bound().unwrap_or(RATES.wanted)
        };
        (0..seconds).map(step).collect()
    }

    #[test]
    fn an_upstream_that_has_become_slower_for_good_gets_its_limit_back() {
        for (high, low) in [(0.080, 0.025), (0.300, 0.200), (2.0, 1.5)] {
            let mut ceiling = Ceiling::new(Thresholds::default());
            run(&mut ceiling, 30, |now| (now, Quantiles { high: 0.030, low: 0.010 }));
            let bounds = run(&mut ceiling, 60, |now| (now, Quantiles { high, low }));
            assert!(bounds.iter().any(|bound| *bound < 51.0), "it is cut at first");
            assert!(bounds[59] > 99.9, "{bounds:?}");
            // From then on that is usual, and what is much slower still lowers.
            let bounds = run(&mut ceiling, 10, |now| (now, Quantiles { high: 3.0 * high, low: 3.0 * low }));
            assert!(bounds[9] < 60.0, "{bounds:?}");
        }
    }

    #[test]
    fn a_floor_that_leaves_little_to_cut_is_left_too() {
        let mut ceiling = Ceiling::new(Thresholds::default());
        run(&mut ceiling, 30, |now| (now, Quantiles { high: 0.030, low: 0.010 }));
        let bounds = run_above(70.0, &mut ceiling, 60, |now| (now, Quantiles { high: 0.080, low: 0.025 }));
        assert!(bounds.iter().any(|bound| *bound < 70.1) && bounds[59] > 99.9, "{bounds:?}");
    }

    /// Half as fast as what comes, or a fifth, with a queue of ten seconds: it is no faster for a long time, and that
    /// is no reason to give up.
    #[test]
    fn a_queue_that_takes_long_to_work_off_does_not_become_the_usual() {
        for capacity in [80.0_f64, 50.0, 20.0] {
            let mut ceiling = Ceiling::new(Thresholds::default());
            run(&mut ceiling, 30, |now| (now, Quantiles { high: 0.030, low: 0.010 }));
            let mut waiting = 10.0 * capacity;
            let bounds = run(&mut ceiling, 300, |now| {
                let served = capacity.min(waiting + now);
                waiting = (waiting + now - served).min(10.0 * capacity);
                let wait = waiting / capacity;
                (served, Quantiles { high: 0.030 + wait, low: 0.010 + wait })
            });
            let late = &bounds[100..];
            assert!(late.iter().all(|bound| *bound <= capacity * 1.4 + 5.0), "{capacity}: {late:?}");
        }
    }

    #[test]
    fn a_change_by_the_operator_forgets_what_was_usual() {
        let mut ceiling = Ceiling::new(Thresholds::default());
        play(&mut ceiling, RATES, &[(50, 0, 10.0); 20]);
        assert_eq!(play(&mut ceiling, RATES, &[(50, 0, 100.0); 3])[2], Some(45.0));
        ceiling.forget();
        assert_eq!(play(&mut ceiling, RATES, &[(50, 0, 100.0); 60]), [None; 60]);
    }

    #[test]
    fn an_upstream_that_hardly_responds_is_not_well() {
        let mut ceiling = Ceiling::new(FIFTY_MILLIS);
        play(&mut ceiling, RATES, &[(100, 0, 80.0); 6]);
        let bound = ceiling.bound();
        let quick = Quantiles { high: 0.001, low: 0.001 };
        for responses in [0, 1, 12] {
            let frozen = Second { latency: vec![responses], ..second(65, 0) };
            (0..15).for_each(|_| drop(ceiling.observe(&frozen, Some(quick), RATES)));
            assert_eq!(ceiling.bound(), bound, "{responses} of 65");
        }
        // Those that time out are responses enough.
        let failing = Second { failed: 60, latency: vec![5], ..second(65, 0) };
        (0..3).for_each(|_| drop(ceiling.observe(&failing, Some(quick), RATES)));
        assert!(ceiling.bound() < bound);
        // Requests that never go to the upstream bind nothing for good.
        let elsewhere = Second { latency: vec![12], ..second(65, 0) };
        (0..90).for_each(|_| drop(ceiling.observe(&elsewhere, Some(quick), RATES)));
        assert_eq!(ceiling.bound(), None);
    }

    #[test]
    fn a_part_of_the_gateways_sees_an_overload_too() {
        let mut ceiling = Ceiling::new(FIFTY_MILLIS);
        let part = Second { is_whole: false, is_partial: true, ..second(30, 0) };
        let slow = Quantiles { high: 0.080, low: 0.080 };
        (0..3).for_each(|_| drop(ceiling.observe(&part, Some(slow), RATES)));
        assert_eq!(ceiling.bound(), Some(90.0), "less than is in force, not less than a part");
    }

    #[test]
    fn one_bad_second_few_calls_and_gaps_prove_nothing() {
        let mut ceiling = Ceiling::new(FIFTY_MILLIS);
        let rows = [(100, 0, 80.0), (100, 0, 80.0), (100, 0, 8.0), (100, 0, 80.0), (100, 0, 80.0)];
        assert_eq!(play(&mut ceiling, RATES, &rows), [None; 5]);
        assert_eq!(play(&mut ceiling, RATES, &[(9, 9, 900.0); 5]), [None; 5]);
        for _ in 0..9 {
            let gap = Second { is_whole: false, ..second(100, 100) };
            assert_eq!(ceiling.observe(&gap, Some(Quantiles { high: 1.0, low: 1.0 }), RATES), None);
        }
    }
}
