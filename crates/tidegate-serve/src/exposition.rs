use std::fmt::{self, Display, Write};

use crate::HistogramSnapshot;
use name::{is_family_name, is_label_name};

mod name;

/// A page of metrics in the Prometheus text format, version 0.0.4.
///
/// What would make a scraper reject the page or `promtool check metrics` complain is a mistake in our code: names and
/// labels are known when it is written. So they are checked in debug builds, by which tests find them.
#[derive(Debug, Default)]
pub struct Exposition {
    text: String,
    /// The families so far, each of which may come only once.
    families: Vec<String>,
}

/// The samples of one metric. While it is written no other can be, so that families don't mix.
#[derive(Debug)]
pub struct Family<'a> {
    page: &'a mut Exposition,
    kind: Kind,
    /// Where its samples begin in the page.
    start: usize,
}

/// What a metric is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Only grows, until a restart. Its name ends in `_total`.
    Counter,
    /// Goes up and down.
    Gauge,
    /// Counts by buckets.
    Histogram,
}

/// The value of a sample. Integers stay integers.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Number {
    /// A count.
    Whole(u64),
    /// A measured value.
    Real(f64),
}

impl Exposition {
    /// What the page says of itself in the header `Content-Type`.
    pub const CONTENT_TYPE: &'static str = "text/plain; version=0.0.4; charset=utf-8";

    /// An empty page.
    pub fn new() -> Self {
        Self::default()
    }

    /// Begins a metric; its samples follow.
    pub fn family(&mut self, name: &str, help: &str, kind: Kind) -> Family<'_> {
        debug_assert!(is_family_name(name, kind), "{name} must be a valid name for a {kind}");
        debug_assert!(!help.is_empty(), "{name} needs a help text");
        debug_assert!(!self.families.iter().any(|family| family == name), "{name} comes twice");
        self.families.push(name.to_owned());
        let help = Escaped { text: help, quotes: false };
        self.put(format_args!("# HELP {name} {help}\n# TYPE {name} {kind}\n"));
        Family { start: self.text.len(), page: self, kind }
    }

    /// The page.
    pub fn into_text(self) -> String {
        self.text
    }

    fn put(&mut self, text: fmt::Arguments<'_>) {
        self.text.write_fmt(text).expect("a string takes everything, and nothing formatted here fails by itself");
    }
}

impl Family<'_> {
    /// Writes the value of the series with these labels.
    pub fn sample(&mut self, labels: &[(&str, &str)], value: impl Into<Number>) -> &mut Self {
        debug_assert!(self.kind != Kind::Histogram, "a histogram is written with `histogram`");
        self.series("", labels, None, value.into());
        self
    }

    /// Writes the buckets, the sum and the count of a histogram with these labels.
    pub fn histogram(&mut self, labels: &[(&str, &str)], snapshot: &HistogramSnapshot) -> &mut Self {
        let bounds: Vec<f64> = snapshot.buckets().bounds_seconds().collect();
        self.histogram_from(labels, &bounds, snapshot.counts(), snapshot.sum_seconds())
    }

    /// Like [`histogram`](Self::histogram), from its parts: the rising bounds of the buckets, how many fell into each
    /// alone (one more than there are bounds, for what is above them all), and the sum of all. How many there were
    /// follows from the buckets, so that the two agree.
    pub fn histogram_from(&mut self, labels: &[(&str, &str)], bounds: &[f64], counts: &[u64], sum: f64) -> &mut Self {
        debug_assert!(self.kind == Kind::Histogram, "a {} is written with `sample`", self.kind);
        debug_assert!(bounds.is_sorted_by(|one, next| one < next), "bounds rise: {bounds:?}");
        debug_assert!(bounds.iter().all(|bound| bound.is_finite()), "the infinite bound is added: {bounds:?}");
        debug_assert_eq!(counts.len(), bounds.len() + 1);
        let mut count = 0;
        for (bound, in_bucket) in bounds.iter().zip(counts) {
            count += in_bucket;
            self.series("_bucket", labels, Some(*bound), Number::Whole(count));
        }
        count += counts.iter().skip(bounds.len()).sum::<u64>();
        self.series("_bucket", labels, Some(f64::INFINITY), Number::Whole(count));
        self.series("_sum", labels, None, Number::Real(sum));
        self.series("_count", labels, None, Number::Whole(count));
        self
    }

    fn series(&mut self, suffix: &str, labels: &[(&str, &str)], bound: Option<f64>, value: Number) {
        let name = self.page.families.last().map_or("", String::as_str);
        debug_assert!(labels.iter().all(|(label, _)| is_label_name(label)), "a label of {name}: {labels:?}");
        let start = self.page.text.len();
        let series = Series { name, suffix, labels, bound };
        write!(self.page.text, "{series} ").expect("a string takes everything, and nothing here fails by itself");
        debug_assert!(!self.has(start), "comes twice: {}", &self.page.text[start..]);
        self.page.put(format_args!("{value}\n"));
    }

    /// Whether the series that has been begun at `start` stands in this family already.
    fn has(&self, start: usize) -> bool {
        let series = &self.page.text[start..];
        self.page.text[self.start..start].lines().any(|line| line.starts_with(series))
    }
}

impl From<u64> for Number {
    fn from(number: u64) -> Self {
        Self::Whole(number)
    }
}

impl From<u32> for Number {
    fn from(number: u32) -> Self {
        Self::Whole(number.into())
    }
}

impl From<usize> for Number {
    fn from(number: usize) -> Self {
        Self::Whole(number as u64)
    }
}

impl From<bool> for Number {
    fn from(yes: bool) -> Self {
        Self::Whole(yes.into())
    }
}

impl From<f64> for Number {
    fn from(number: f64) -> Self {
        Self::Real(number)
    }
}

/// As Prometheus reads it. (Rust writes floats without exponents.)
impl Display for Number {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Whole(number) => write!(f, "{number}"),
            Self::Real(f64::INFINITY) => f.write_str("+Inf"),
            Self::Real(f64::NEG_INFINITY) => f.write_str("-Inf"),
            Self::Real(number) => write!(f, "{number}"),
        }
    }
}

impl Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Counter => "counter",
            Self::Gauge => "gauge",
            Self::Histogram => "histogram",
        })
    }
}

/// `name_suffix{label="value",le="0.5"}`
struct Series<'a> {
    name: &'a str,
    suffix: &'a str,
    labels: &'a [(&'a str, &'a str)],
    bound: Option<f64>,
}

impl Display for Series<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}", self.name, self.suffix)?;
        let mut before = '{';
        for (label, value) in self.labels {
            write!(f, "{before}{label}=\"{}\"", Escaped { text: value, quotes: true })?;
            before = ',';
        }
        if let Some(bound) = self.bound {
            write!(f, "{before}le=\"{}\"", Number::Real(bound))?;
            before = ',';
        }
        if before == ',' { f.write_char('}') } else { Ok(()) }
    }
}

/// Backslashes and newlines escaped, in the value of a label quotes too.
struct Escaped<'a> {
    text: &'a str,
    quotes: bool,
}

impl Display for Escaped<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for char in self.text.chars() {
            match char {
                '\\' => f.write_str("\\\\")?,
                '\n' => f.write_str("\\n")?,
                '"' if self.quotes => f.write_str("\\\"")?,
                other => f.write_char(other)?,
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
