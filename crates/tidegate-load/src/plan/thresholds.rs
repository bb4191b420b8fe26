//! What a run must keep to: `p99<50ms`, `p99{2xx}<50ms`, `errors<1%`.

use std::fmt;
use std::str::FromStr;

use crate::status_class::StatusClass;

/// A bound on one figure of a run.
#[derive(Clone, Debug, PartialEq)]
pub struct Threshold {
    text: String,
    /// What is bounded.
    pub figure: Figure,
    /// Whether the figure must be below the bound; otherwise above it.
    pub is_upper: bool,
    /// Whether the figure may also be the bound itself.
    pub is_inclusive: bool,
    /// The bound, in seconds, as a share from 0 to 1, or in requests a second.
    pub bound: f64,
}

/// A figure of a run.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Figure {
    /// Latency from the intended time: of responses of this class, or of all that got a response or timed out.
    Latency(Statistic, Option<StatusClass>),
    /// The share of requests that ended so.
    Share(Outcome),
    /// Requests sent, a second.
    Rate,
}

/// What of many latencies is bounded.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Statistic {
    /// So many of a hundred are not above it.
    Percentile(f64),
    /// The mean.
    Mean,
    /// The highest.
    Max,
}

/// How a request that was due ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// 2xx.
    Success,
    /// 429.
    RateLimited,
    /// Anything else.
    Error,
    /// It was never sent.
    Missed,
}

/// An invalid threshold, as it was written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InvalidThreshold(String);

impl fmt::Display for InvalidThreshold {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "expected a figure, `<` or `>`, and a bound, got {:?}; for example p99<50ms (also p50 to p99.99, avg, max; \
             s, ms or us), \
             p99{{2xx}}<50ms (responses of one class: {}), errors<1% (also success, rate_limited, missed; with its %), \
             rps>100",
            self.0,
            StatusClass::ALL.map(StatusClass::name).join(", ")
        )
    }
}

impl std::error::Error for InvalidThreshold {}

impl Threshold {
    /// Whether a figure of this value keeps to it.
    pub fn holds(&self, value: f64) -> bool {
        let is_beyond = if self.is_upper { value < self.bound } else { value > self.bound };
        // The bound itself was written, and so is the same number.
        #[expect(clippy::float_cmp, reason = "0 is 0")]
        let is_bound = value == self.bound;
        is_beyond || self.is_inclusive && is_bound
    }
}

impl fmt::Display for Threshold {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl FromStr for Threshold {
    type Err = InvalidThreshold;

    fn from_str(text: &str) -> Result<Self, InvalidThreshold> {
        parse(text).ok_or_else(|| InvalidThreshold(text.to_owned()))
    }
}

fn parse(text: &str) -> Option<Threshold> {
    let at = text.find(['<', '>'])?;
    let (name, rest) = (text[..at].trim(), &text[at + 1..]);
    let (bound, is_inclusive) = rest.strip_prefix('=').map_or((rest, false), |rest| (rest, true));
    let bound = bound.trim();
    let figure = match name {
        "rps" | "rate" => Figure::Rate,
        "success" => Figure::Share(Outcome::Success),
        "rate_limited" => Figure::Share(Outcome::RateLimited),
        "errors" => Figure::Share(Outcome::Error),
        "missed" => Figure::Share(Outcome::Missed),
        _ => latency(name)?,
    };
    let bound = match figure {
        Figure::Latency(..) => seconds(bound)?,
        Figure::Share(_) => share(bound)?,
        Figure::Rate => number(bound)?,
    };
    Some(Threshold { text: text.to_owned(), figure, is_upper: text.as_bytes()[at] == b'<', is_inclusive, bound })
}

/// `p99`, `avg{2xx}`
fn latency(name: &str) -> Option<Figure> {
    let (name, class) = match name.split_once('{') {
        None => (name, None),
        Some((name, rest)) => {
            let class = rest.strip_suffix('}')?.trim();
            (name.trim_end(), StatusClass::ALL.into_iter().find(|known| known.name() == class).map(Some)?)
        }
    };
    let statistic = match name {
        "avg" | "mean" => Statistic::Mean,
        "max" => Statistic::Max,
        _ => {
            let percent: f64 = name.strip_prefix('p')?.parse().ok()?;
            Statistic::Percentile((0.0..=100.0).contains(&percent).then_some(percent)?)
        }
    };
    Some(Figure::Latency(statistic, class))
}

fn number(text: &str) -> Option<f64> {
    text.parse().ok().filter(|number: &f64| number.is_finite() && *number >= 0.0)
}

fn seconds(text: &str) -> Option<f64> {
    let (scale, digits) = if let Some(digits) = text.strip_suffix("ms") {
        (1e-3, digits)
    } else if let Some(digits) = text.strip_suffix("us").or_else(|| text.strip_suffix("µs")) {
        (1e-6, digits)
    } else {
        (1.0, text.strip_suffix('s')?)
    };
    number(digits.trim()).map(|number| number * scale)
}

fn share(text: &str) -> Option<f64> {
    let share = match text.strip_suffix('%') {
        Some(percent) => number(percent.trim())? / 100.0,
        // Nobody who writes `errors<1` means a hundred per cent.
        None => number(text).filter(|number| *number <= 0.0)?,
    };
    (share <= 1.0).then_some(share)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn thresholds_are_read() {
        for (text, figure, is_upper, bound) in [
            ("p99<50ms", Figure::Latency(Statistic::Percentile(99.0), None), true, 0.05),
            ("p99.9 <= 1.5s", Figure::Latency(Statistic::Percentile(99.9), None), true, 1.5),
            ("p50<800us", Figure::Latency(Statistic::Percentile(50.0), None), true, 0.0008),
            ("avg < 2ms", Figure::Latency(Statistic::Mean, None), true, 0.002),
            ("max<3s", Figure::Latency(Statistic::Max, None), true, 3.0),
            ("p99{2xx}<50ms", Figure::Latency(Statistic::Percentile(99.0), Some(StatusClass::Success)), true, 0.05),
            (
                "p50 { 5xx } < 2s",
                Figure::Latency(Statistic::Percentile(50.0), Some(StatusClass::ServerError)),
                true,
                2.0,
            ),
            ("max{rejected}<3s", Figure::Latency(Statistic::Max, Some(StatusClass::Rejected)), true, 3.0),
            ("mean{4xx}>1s", Figure::Latency(Statistic::Mean, Some(StatusClass::ClientError)), false, 1.0),
            ("errors<1%", Figure::Share(Outcome::Error), true, 0.01),
            ("rate_limited<5 %", Figure::Share(Outcome::RateLimited), true, 0.05),
            ("errors<=0", Figure::Share(Outcome::Error), true, 0.0),
            ("success > 99.5%", Figure::Share(Outcome::Success), false, 0.995),
            ("missed<=0%", Figure::Share(Outcome::Missed), true, 0.0),
            ("rps>100", Figure::Rate, false, 100.0),
        ] {
            let threshold: Threshold = text.parse().expect(text);
            assert_eq!((threshold.figure, threshold.is_upper), (figure, is_upper), "{text}");
            assert!((threshold.bound - bound).abs() < 1e-12, "{text}: {}", threshold.bound);
            assert_eq!(threshold.to_string(), text);
            assert_eq!(threshold.is_inclusive, text.contains('='), "{text}");
            assert_eq!(threshold.holds(bound), text.contains('='), "{text}");
            assert_eq!((threshold.holds(bound - 0.1), threshold.holds(bound + 0.1)), (is_upper, !is_upper), "{text}");
        }
    }

    #[test]
    fn invalid_ones_are_rejected() {
        for text in [
            "",
            "p99",
            "<",
            "p99<",
            "p99<50",
            "p99<50m",
            "p101<1s",
            "p-1<1s",
            "px<1s",
            "errors<2",
            "errors<1",
            "success>0.99",
            "errors<101%",
            "errors<-1%",
            "errors<1ms",
            "rps>many",
            "rps>NaN",
            "latency<1s",
            "p99{}<1s",
            "p99{200}<1s",
            "p99{2xx<1s",
            "p99}2xx{<1s",
            "p99{2xx}{5xx}<1s",
            "{2xx}<1s",
            "errors{2xx}<1%",
            "rps{2xx}>1",
            "p99<1s{2xx}",
            "p99=1s",
            "p99<==1s",
        ] {
            assert!(text.parse::<Threshold>().is_err(), "{text}");
        }
    }
}
