//! Shapes of load: each is a rate, its integral, and the integral's inverse.

use std::f64::consts::TAU;

/// How a rate moves, from the beginning of the shape on. Times are in seconds, rates in requests a second.
#[derive(Clone, Debug, PartialEq)]
pub enum Shape {
    /// Always the same.
    Constant {
        /// Requests a second.
        rate: f64,
    },
    /// Each period is base first, spike last.
    Burst {
        /// Between spikes.
        base: f64,
        /// In a spike.
        spike: f64,
        /// How long a spike lasts.
        spike_length: f64,
        /// From one spike's beginning to the next one's.
        period: f64,
    },
    /// `middle + amplitude · sin(2πt / period)`.
    Sine {
        /// The least rate.
        least: f64,
        /// The highest rate.
        most: f64,
        /// A whole wave.
        period: f64,
    },
    /// In a straight line from one rate to another, and then the latter.
    Ramp {
        /// At the beginning.
        from: f64,
        /// At the end.
        to: f64,
        /// How long it takes.
        length: f64,
    },
}

impl Shape {
    /// Requests a second at `time`.
    pub fn rate(&self, time: f64) -> f64 {
        match *self {
            Self::Constant { rate } => rate,
            Self::Burst { base, spike, spike_length, period } => {
                if time.rem_euclid(period) < period - spike_length {
                    base
                } else {
                    spike
                }
            }
            Self::Sine { least, most, period } => {
                f64::midpoint(least, most) + (most - least) / 2.0 * (TAU * time / period).sin()
            }
            Self::Ramp { from, to, length } => {
                if time < length {
                    from + (to - from) * time / length
                } else {
                    to
                }
            }
        }
    }

    /// The highest rate that it may reach.
    pub(super) fn peak(&self) -> f64 {
        match *self {
            Self::Constant { rate } => rate,
            Self::Burst { base, spike, .. } => base.max(spike),
            Self::Sine { most, .. } => most,
            Self::Ramp { from, to, .. } => from.max(to),
        }
    }

    /// The last of its bursts that has begun at `time`: when, and at which rate.
    pub(super) fn burst_before(&self, time: f64) -> Option<(f64, f64)> {
        let Self::Burst { spike, spike_length, period, .. } = *self else { return None };
        let begun = ((time + spike_length) / period).floor() * period - spike_length;
        (begun >= 0.0).then_some((begun, spike))
    }

    /// How many requests are due before `time`.
    pub fn expected(&self, time: f64) -> f64 {
        match *self {
            Self::Constant { rate } => rate * time,
            Self::Burst { base, spike, spike_length, period } => {
                let (calm, within) = (period - spike_length, time.rem_euclid(period));
                let whole = (time / period).floor() * (base * calm + spike * spike_length);
                whole + base * within.min(calm) + spike * (within - calm).max(0.0)
            }
            Self::Sine { least, most, period } => {
                let swing = (most - least) / 2.0 * period / TAU;
                f64::midpoint(least, most) * time + swing * (1.0 - (TAU * time / period).cos())
            }
            Self::Ramp { from, to, length } => {
                let within = time.min(length);
                (from + (to - from) * within / length / 2.0) * within + to * (time - within)
            }
        }
    }

    /// When the count goes beyond `count`, if it ever does.
    pub(super) fn due(&self, count: f64) -> Option<f64> {
        match *self {
            Self::Constant { rate } => (rate > 0.0).then(|| count / rate),
            Self::Burst { base, spike, spike_length, period } => {
                let calm = period - spike_length;
                let (in_calm, in_spike) = (base * calm, spike * spike_length);
                let in_period = in_calm + in_spike;
                if in_period <= 0.0 {
                    return None;
                }
                let periods = (count / in_period).floor();
                let rest = count - periods * in_period;
                let within = if rest < in_calm {
                    rest / base
                } else if spike > 0.0 {
                    calm + (rest - in_calm) / spike
                } else {
                    period
                };
                Some(periods * period + within)
            }
            Self::Sine { least, most, period } => {
                let in_period = f64::midpoint(least, most) * period;
                if in_period <= 0.0 {
                    return None;
                }
                let periods = (count / in_period).floor();
                let rest = count - periods * in_period;
                let within =
                    crossing(period, rest / in_period * period, |time| (self.expected(time) - rest, self.rate(time)));
                Some(periods * period + within)
            }
            Self::Ramp { from, to, length } => {
                let in_ramp = f64::midpoint(from, to) * length;
                if count >= in_ramp {
                    return (to > 0.0).then(|| length + (count - in_ramp) / to);
                }
                // The root of from·t + slope·t²/2 = count, in the form that loses nothing when the slope is small.
                let slope = (to - from) / length;
                let root = (from * from + 2.0 * slope * count).max(0.0).sqrt();
                Some(if from + root > 0.0 { 2.0 * count / (from + root) } else { 0.0 })
            }
        }
    }
}

/// Where a function that never falls goes beyond zero, between 0 and `length`: Newton's steps from `guess`, and halves
/// where they would leave what is known to hold it. `function` gives its value and its slope.
fn crossing(length: f64, guess: f64, function: impl Fn(f64) -> (f64, f64)) -> f64 {
    let (mut low, mut high, mut time) = (0.0, length, guess);
    // Halves alone would end after some 60 steps, steps of Newton's after a handful.
    for _ in 0..100 {
        let (value, slope) = function(time);
        if value <= 0.0 {
            low = time;
        } else {
            high = time;
        }
        let step = time - value / slope;
        let next = if slope > 0.0 && step > low && step < high { step } else { f64::midpoint(low, high) };
        // A femtosecond of a second-long wave: below what a clock, or the sum itself, can resolve.
        if (next - time).abs() <= 1e-15 * length || next <= low || next >= high {
            return next;
        }
        time = next;
    }
    time
}
