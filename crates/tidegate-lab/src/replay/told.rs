//! What the named fields of a line tell, put together to a request.

use super::fields::{MOST_HEADERS, Names, Role, span};
use super::line::{BadLine, Line, request_line, told};
use super::moments::Moments;

/// The texts of a line's fields, by what they tell. Of several that tell the same the first counts.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Told<'a> {
    time: Option<&'a str>,
    start: Option<&'a str>,
    took: Option<(&'a str, f64)>,
    client: Option<&'a str>,
    method: Option<&'a str>,
    host: Option<&'a str>,
    target: Option<&'a str>,
    request: Option<&'a str>,
    user: Option<&'a str>,
    tier: Option<&'a str>,
    headers: [Option<&'a str>; MOST_HEADERS],
}

/// What a field is good for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Use {
    Role(Role),
    /// A header field, by its place.
    Header(usize),
}

impl Use {
    /// Of a field of this name.
    pub(super) fn of(name: &str, names: &Names) -> Option<Self> {
        names.role(name).map(Self::Role).or_else(|| names.header(name).map(Self::Header))
    }
}

impl<'a> Told<'a> {
    /// A field's text.
    pub(super) fn put(&mut self, what: Use, text: &'a str) {
        let Some(text) = told(text) else { return };
        let place = match what {
            Use::Header(place) => &mut self.headers[place],
            Use::Role(Role::Took) => return self.took(text, 1e9),
            Use::Role(Role::TookMillis) => return self.took(text, 1e6),
            Use::Role(Role::TookNanos) => return self.took(text, 1.0),
            Use::Role(Role::Time) => &mut self.time,
            Use::Role(Role::Start) => &mut self.start,
            Use::Role(Role::Client) => &mut self.client,
            Use::Role(Role::Method) => &mut self.method,
            Use::Role(Role::Host) => &mut self.host,
            Use::Role(Role::Target) => &mut self.target,
            Use::Role(Role::Request) => &mut self.request,
            Use::Role(Role::User) => &mut self.user,
            Use::Role(Role::Tier) => &mut self.tier,
        };
        place.get_or_insert(text);
    }

    fn took(&mut self, text: &'a str, unit: f64) {
        self.took.get_or_insert((text, unit));
    }

    /// The request. `is_log`: a line was written when its answer had ended, as logs are, so that a time that is not said to be the start is the end.
    pub(super) fn line(&self, is_log: bool, moments: &mut Moments) -> Result<Line<'a>, BadLine> {
        let written = self.start.or(self.time).ok_or(BadLine::NoTime)?;
        let time = moments.other(written).or_else(|| moments.common(written.as_bytes())).ok_or(BadLine::Time)?;
        let took = self.took.and_then(|(text, unit)| span(text, unit));
        let mut line = Line {
            time,
            is_end: is_log && self.start.is_none() && took.is_some(),
            took,
            client: self.client.unwrap_or_default(),
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
