//! The named fields of a line, from which a request is made.

use tidegate_input::log_times::LogTimes;

use super::fields::{MOST_HEADERS, Names, Role, span};
use super::line::{BadLine, Line, present, request_line};

/// The texts of a line's fields, by their roles. Of several with the same role the first counts.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct LineFields<'a> {
    time: Option<&'a str>,
    /// The time of day, if the date has a field of its own.
    clock: Option<&'a str>,
    start: Option<&'a str>,
    took: Option<(&'a str, Option<f64>)>,
    /// The unit of durations in nanoseconds, if the name of the start implies it.
    unit: Option<f64>,
    client: Option<&'a str>,
    real_client: Option<&'a str>,
    method: Option<&'a str>,
    host: Option<&'a str>,
    target: Option<&'a str>,
    request: Option<&'a str>,
    user: Option<&'a str>,
    tier: Option<&'a str>,
    headers: [Option<&'a str>; MOST_HEADERS],
}

/// What a field is used for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Use {
    Role(Role),
    /// A header, by its index.
    Header(usize),
}

impl Use {
    /// The use of a field with this name.
    pub(super) fn of(name: &str, names: &Names) -> Option<Self> {
        // Names that the user declared come first.
        names.header(name).map(Self::Header).or_else(|| names.role(name).map(Self::Role))
    }
}

impl<'a> LineFields<'a> {
    /// A field's text.
    pub(super) fn put(&mut self, what: Use, text: &'a str) {
        let Some(text) = present(text) else { return };
        let field = match what {
            Use::Header(index) => &mut self.headers[index],
            Use::Role(Role::Took) => return self.took(text, None),
            Use::Role(Role::TookMillis) => return self.took(text, Some(1e6)),
            Use::Role(Role::TookNanos) => return self.took(text, Some(1.0)),
            Use::Role(Role::Time) if self.time.is_some_and(is_date) && text.contains(':') => &mut self.clock,
            Use::Role(Role::Time) => &mut self.time,
            Use::Role(Role::Start) => &mut self.start,
            Use::Role(Role::StartEnvoy) => {
                self.unit = Some(1e6);
                &mut self.start
            }
            Use::Role(Role::StartTraefik) => {
                self.unit = Some(1.0);
                &mut self.start
            }
            Use::Role(Role::Client) => &mut self.client,
            Use::Role(Role::RealClient) => &mut self.real_client,
            Use::Role(Role::Method) => &mut self.method,
            Use::Role(Role::Host) => &mut self.host,
            Use::Role(Role::Target) => &mut self.target,
            Use::Role(Role::Request) => &mut self.request,
            Use::Role(Role::User) => &mut self.user,
            Use::Role(Role::Tier) => &mut self.tier,
        };
        field.get_or_insert(text);
    }

    fn took(&mut self, text: &'a str, unit: Option<f64>) {
        self.took.get_or_insert((text, unit));
    }

    /// When, as it is written.
    fn time(&self, times: &mut LogTimes) -> Result<u64, BadLine> {
        let written = self.start.or(self.time).ok_or(BadLine::NoTime)?;
        let read = match self.clock {
            Some(clock) if is_date(written) => times.other(&format!("{written}T{clock}")),
            // A date alone is not enough.
            _ if is_date(written) => None,
            _ => times.other(written).or_else(|| times.common(written.as_bytes())),
        };
        read.ok_or(BadLine::Time)
    }

    /// How long it took, in nanoseconds.
    fn span(&self) -> Option<u64> {
        let (text, unit) = self.took?;
        let of_start = self.unit.filter(|_| text.bytes().all(|byte| byte.is_ascii_digit()));
        span(text, unit.or(of_start))
    }

    /// The request. `is_log`: the line was written when its response had ended, as in logs, so a time that is not known
    /// to be the start is the end.
    pub(super) fn line(&self, is_log: bool, times: &mut LogTimes) -> Result<Line<'a>, BadLine> {
        let (time, took) = (self.time(times)?, self.span());
        let mut line = Line {
            time,
            is_end: is_log && self.start.is_none() && took.is_some(),
            took,
            client: self.real_client.or(self.client).unwrap_or_default(),
            method: self.method.unwrap_or_default(),
            host: self.host.unwrap_or_default(),
            target: self.target.unwrap_or_default(),
            user: self.user,
            tier: self.tier,
            headers: self.headers,
        };
        if let (Some(request), None) = (self.request, self.target) {
            (line.method, line.target) = request_line(request).ok_or(BadLine::Request)?;
        }
        Ok(line)
    }
}

/// `2026-01-19`
fn is_date(text: &str) -> bool {
    text.len() == 10 && text.as_bytes()[4] == b'-'
}
