//! Idle time: which part of a history is load, and which is only the time without it.

use std::borrow::Cow;
use std::collections::VecDeque;
use std::ops::Range;

use crate::History;

/// Distinguishes idle time from load.
///
/// A model that takes idle time for load sees a trend in its end, and a forecast of nothing that is followed by load is
/// as wrong as can be, or right for a long time about nothing. So models are shown [`Load`], which has no idle time,
/// and forecasts are not scored in it. Idle are
///
/// - all steps before the first load, and
/// - a pause: steps without load that chance can't explain, more of them than belong to the load's own rhythm.
///
/// They belong to the rhythm if stretches of about that length came at equal distances: between bursts that come from
/// nothing they are what there is to learn. A single stretch, or several at odd times, say nothing about the load but
/// that it was away.
///
/// A pause is left out once it is over. While it lasts, nothing but that is expected.
///
/// Only steps shorter than a minute are idle: a longer one has idle time and load in it.
#[derive(Debug, Default)]
pub(super) struct Idle {
    /// The longest stretch without load that belongs to the rhythm, in steps.
    usual: usize,
    /// A step with no more than this is one without load.
    trickle: f32,
    /// When the first load came, in seconds since 1970.
    began: Option<i64>,
    /// The newest steps without load, while they may become a pause.
    undecided: Vec<(i64, f64)>,
    is_pause: bool,
}

/// What a value is.
pub(super) enum Kind {
    /// Load, the first after idle time or not; and the values before it that turn out to be load as well.
    Load { is_first: bool, before: Vec<(i64, f64)> },
    /// It may be the beginning of a pause.
    Undecided,
    /// Idle time; and the values before it that turn out to be idle time as well.
    Idle { before: Vec<(i64, f64)> },
}

/// A history without idle time: it begins with the first load, and pauses that are over are gaps.
pub(crate) struct Load<'a> {
    start: i64,
    step: u32,
    values: Cow<'a, [f32]>,
}

/// A pause has at least so many steps.
const SHORTEST: usize = 3;
/// So many requests must be missing: a load of one a step leaves out twenty steps by chance once in five hundred
/// million times.
const MISSED: f32 = 20.0;
/// Where usually less comes in a step, steps without load are part of it.
const LEAST_LOAD: f32 = 1.0;
/// How many steps of load before a stretch show what is usual.
const BEFORE: usize = 60;
/// Up to this share of what the load usually has, and up to so many requests, a step has no load: somebody asks whether
/// the service is well.
const TRICKLE: f64 = 0.1;
const MOST_TRICKLE: f64 = 3.0;
/// Stretches whose lengths differ by no more than this factor are alike.
const ALIKE: f64 = 1.5;
/// Up to so many times the usual stretch without load is part of the rhythm: a burst may be left out.
const LEFT_OUT: usize = 3;
/// By this share a distance may differ from the usual one, and so many of the newest stretches must have come at it.
const UNEVEN: f64 = 0.15;
const EVEN: f64 = 0.75;
const NEWEST_ALIKE: usize = 8;
/// So many of the newest stretches, and of the newest steps, show what is going on.
const NEWEST_STRETCHES: usize = 64;
const NEWEST_STEPS: usize = 600;

/// Whether steps of this length can separate idle time from load.
fn is_fine(step: u32) -> bool {
    step < 60
}

impl Load<'_> {
    pub(crate) fn history(&self) -> History<'_> {
        History { start: self.start, step: self.step, values: &self.values }
    }

    /// The highest step of it; 0 if there is no load.
    pub(super) fn highest(&self) -> f64 {
        f64::from(self.values.iter().copied().fold(0.0, f32::max))
    }

    /// Whether it is known to have no idle time.
    pub(super) fn is_distinct(&self) -> bool {
        is_fine(self.step)
    }
}

impl Idle {
    /// Whether the newest values are idle time.
    pub(super) fn is_now(&self) -> bool {
        self.is_pause
    }

    /// What the newest value of this history is.
    pub(super) fn meet(&mut self, history: History<'_>, second: i64, value: f64) -> Kind {
        let is_load = value > f64::from(self.trickle) || !is_fine(history.step);
        let verdict = match (is_load, self.is_pause) {
            (true, _) => Verdict::Load,
            (false, true) => Verdict::Pause,
            (false, false) => self.newest(history),
        };
        match verdict {
            Verdict::Load => {
                let before = std::mem::take(&mut self.undecided);
                Kind::Load { is_first: std::mem::take(&mut self.is_pause), before }
            }
            Verdict::Undecided => {
                self.undecided.push((second, value));
                Kind::Undecided
            }
            Verdict::Pause => {
                self.is_pause = true;
                Kind::Idle { before: std::mem::take(&mut self.undecided) }
            }
        }
    }

    /// What the end of a history is.
    fn newest(&self, history: History<'_>) -> Verdict {
        let newest = scan(history.last(NEWEST_STEPS + self.longest()).values, self.trickle).newest;
        if newest.length <= self.longest() { Verdict::Load } else { newest.verdict }
    }

    /// Takes over a history from before a restart. Whether it ends in idle time.
    pub(super) fn restore(&mut self, history: History<'_>) -> bool {
        self.learn(history);
        self.is_pause = is_fine(history.step) && self.newest(history) == Verdict::Pause;
        self.is_pause
    }

    /// Learns the rhythm anew. Whether what was taken for load has turned out to be idle time before it.
    pub(super) fn learn(&mut self, history: History<'_>) -> bool {
        if !is_fine(history.step) {
            return false;
        }
        self.learn_trickle(history);
        let scan = scan(history.values, self.trickle);
        let newest = &scan.pauses[scan.pauses.len().saturating_sub(NEWEST_STRETCHES)..];
        // The next stretch is not overdue as soon as it has begun.
        self.usual = usual(newest, scan.first, history.values.len() - scan.newest.length);
        let began = history.start + scan.first as i64 * i64::from(history.step);
        // Idle time before the load stays so, whatever the load becomes.
        let before = self.began.filter(|before| *before >= history.start);
        self.began = Some(before.map_or(began, |before| before.max(began)));
        before.is_some_and(|before| before < began)
    }

    /// Learns what a step without load may have. What it has been is given up only for less than half of it: no to and
    /// fro.
    fn learn_trickle(&mut self, history: History<'_>) {
        let steps = history.known().rev().map(|(_, value)| value).filter(|value| *value > MOST_TRICKLE);
        let mut newest: Vec<f64> = steps.take(BEFORE).collect();
        newest.sort_by(f64::total_cmp);
        let usually = newest.get(newest.len() / 2).copied().unwrap_or(0.0);
        let (part, known) = ((TRICKLE * usually).min(MOST_TRICKLE), f64::from(self.trickle));
        if part > known || 2.0 * part < known {
            self.trickle = part.floor() as f32;
        }
    }

    /// What of a history is load.
    pub(super) fn load<'a>(&self, history: History<'a>) -> Load<'a> {
        let History { start, step, values } = history;
        if !is_fine(step) {
            return Load { start, step, values: Cow::Borrowed(values) };
        }
        let Scan { first, pauses, .. } = scan(values, self.trickle);
        let began = self.began.map_or(0, |began| (began - start).max(0) / i64::from(step)) as usize;
        // A cycle that begins with its quiet part begins before the first load.
        let first = first.max(began).min(values.len()).saturating_sub(self.usual);
        let mut load = Cow::Borrowed(&values[first..]);
        // The last one may not be over.
        let are_out = |pause: &&Range<usize>| pause.end < values.len() && pause.len() > self.longest();
        for pause in pauses.iter().filter(are_out).filter(|pause| pause.end > first) {
            load.to_mut()[pause.start.max(first) - first..pause.end - first].fill(f32::NAN);
        }
        Load { start: start + first as i64 * i64::from(step), step, values: load }
    }

    /// More steps without load than this are not part of it.
    fn longest(&self) -> usize {
        self.usual.saturating_mul(LEFT_OUT)
    }
}

/// What a stretch without load is.
#[derive(Clone, Copy, Default, PartialEq)]
enum Verdict {
    #[default]
    Load,
    Undecided,
    Pause,
}

/// Where the load of some values is.
#[derive(Default)]
struct Scan {
    /// Where it begins; at the first value, while there is none.
    first: usize,
    /// Stretches without load that are long enough to be pauses, if they are not usual.
    pauses: Vec<Range<usize>>,
    /// The stretch at the end.
    newest: Newest,
}

#[derive(Default)]
struct Newest {
    length: usize,
    verdict: Verdict,
}

/// Looks for stretches without load. Gaps within one are part of it.
fn scan(values: &[f32], trickle: f32) -> Scan {
    let known = |value: &f32| !value.is_nan();
    let is_load = |value: &f32| known(value) && *value > trickle;
    let Some(first) = values.iter().position(is_load) else {
        let first = values.iter().position(known).unwrap_or(0);
        let newest = Newest { length: values.len(), verdict: Verdict::Pause };
        return Scan { first, newest, ..Scan::default() };
    };
    let mut scan = Scan { first, ..Scan::default() };
    let mut before: VecDeque<f32> = VecDeque::with_capacity(BEFORE);
    let mut at = first;
    while at < values.len() {
        let rest = &values[at..];
        let empty = rest.iter().position(is_load).unwrap_or(rest.len());
        // From the first to the last that is known: around it are gaps as they are.
        let begin = rest[..empty].iter().position(known).unwrap_or(empty);
        let length = rest[begin..empty].iter().rposition(known).map_or(0, |last| last + 1);
        let stretch = at + begin..at + begin + length;
        let verdict = judge(length, &before);
        if verdict == Verdict::Pause {
            scan.pauses.push(stretch);
        } else {
            values[stretch].iter().copied().filter(known).for_each(|value| remember(&mut before, value));
        }
        match rest.get(empty) {
            Some(load) => remember(&mut before, *load),
            None => scan.newest = Newest { length, verdict },
        }
        at += empty + 1;
    }
    scan
}

fn remember(before: &mut VecDeque<f32>, value: f32) {
    if before.len() == BEFORE {
        before.pop_front();
    }
    before.push_back(value);
}

/// What a stretch of so many steps is after this load: a pause, if usually (in half of the steps) so much came that too
/// much is missing.
fn judge(length: usize, before: &VecDeque<f32>) -> Verdict {
    let usually = |load: f32| before.iter().filter(|value| **value >= load).count() * 2 > before.len();
    if length == 0 || !usually(LEAST_LOAD) {
        return Verdict::Load;
    }
    let is_long = length >= SHORTEST && usually(LEAST_LOAD.max(MISSED / length as f32));
    if is_long { Verdict::Pause } else { Verdict::Undecided }
}

/// The longest of these stretches that come at equal distances; 0 if none do. `first` is where the load begins, `now`
/// the end.
fn usual(stretches: &[Range<usize>], first: usize, now: usize) -> usize {
    let lengths = stretches.iter().map(ExactSizeIterator::len);
    lengths.filter(|length| is_usual(*length, stretches, first, now)).max().unwrap_or(0)
}

/// Whether stretches of about this length come at equal distances. In longer ones, which are pauses then, the time
/// stands still.
fn is_usual(length: usize, stretches: &[Range<usize>], first: usize, now: usize) -> bool {
    let (mut begins, mut paused) = (Vec::new(), 0);
    for stretch in stretches {
        let (shorter, longer) = (stretch.len().min(length), stretch.len().max(length));
        if longer as f64 <= ALIKE * shorter as f64 {
            begins.push(stretch.start - paused);
        } else if stretch.len() == longer && stretch.end <= now {
            paused += stretch.len();
        }
    }
    are_regular(&begins[begins.len().saturating_sub(NEWEST_ALIKE)..], first, now - paused)
}

fn are_regular(begins: &[usize], first: usize, now: usize) -> bool {
    let mut distances: Vec<usize> = begins.windows(2).map(|pair| pair[1] - pair[0]).collect();
    distances.sort_unstable();
    let (Some(distance), Some(last)) = (distances.get(distances.len() / 2), begins.last()) else { return false };
    let since = now.saturating_sub(*last) as f64;
    let at_most = (1.0 + UNEVEN) * *distance as f64;
    if distances.len() == 1 {
        // Of two nothing is known but that the load began not long before them, and that a third is not overdue.
        return begins[0].saturating_sub(first) as f64 <= at_most && since <= at_most;
    }
    let is_even =
        |other: &&usize| (distance.abs_diff(**other) as f64) <= (UNEVEN * *distance.max(*other) as f64).max(1.0);
    let even = distances.iter().filter(is_even).count();
    even as f64 >= EVEN * distances.len() as f64 && since <= LEFT_OUT as f64 * at_most
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Load that fell once made health checks of long ago load again.
    #[test]
    fn idle_time_before_load_stays_so_when_the_load_falls() {
        let checks = (0..600).map(|second| if second % 10 == 3 { 1.0 } else { 0.0 });
        let values: Vec<f32> =
            checks.chain(std::iter::repeat_n(100.0, 60)).chain(std::iter::repeat_n(4.0, 120)).collect();
        let history = |count: usize| History { start: 1_000, step: 1, values: &values[..count] };
        let mut idle = Idle::default();
        for count in (5..=values.len()).step_by(5) {
            idle.learn(history(count));
            let start = idle.load(history(count)).history().start;
            assert!(count <= 600 || start == 1_600, "the load begins at {start} after {count} s");
        }
    }

    /// Three stretches at equal distances were a rhythm once, for ever and among however many others.
    #[test]
    fn a_rhythm_is_what_most_of_the_newest_stretches_keep_to() {
        let stretches = |begins: &[usize]| begins.iter().map(|begin| *begin..begin + 15).collect::<Vec<_>>();
        let even: Vec<usize> = (0..10).map(|number| 20 * number).collect();
        assert_eq!(usual(&stretches(&even), 0, 200), 15);
        assert_eq!(usual(&stretches(&even), 0, 300), 0, "it has ended");
        let left_out: Vec<usize> = even.iter().copied().filter(|begin| *begin != 140).collect();
        assert_eq!(usual(&stretches(&left_out), 0, 200), 15);
        assert_eq!(usual(&stretches(&[0, 50, 120, 170, 220, 310, 345, 420]), 0, 440), 0, "by chance");
    }
}
