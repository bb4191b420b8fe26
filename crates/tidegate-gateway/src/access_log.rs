//! The access log: a line for each request. What clients send is escaped, so that it is safe to print.

use std::fmt::Write as _;
use std::io;
use std::net::IpAddr;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use http::{StatusCode, Version};
use tidegate_http::request::RequestHead;
use tidegate_input::Utc;
use tidegate_serve::{Log, Sink};

use crate::config::model::{self, AccessLogFormat};
use crate::source::Source;

/// Where lines go, and their format.
pub(crate) struct AccessLog {
    pub(crate) sink: Sink,
    format: AccessLogFormat,
    /// How many lines may wait.
    buffer: usize,
}

/// What the line of a request reports, as far as it is known before the response.
pub(crate) struct Record {
    ip: IpAddr,
    user: Option<Box<str>>,
    method: Box<str>,
    target: Box<str>,
    version: &'static str,
    host: Box<str>,
    referer: Box<str>,
    agent: Box<str>,
    request_id: Box<str>,
    route: Box<str>,
    upstream: Box<str>,
    /// The limit that rejected it.
    pub(crate) rejected_by: Option<Box<str>>,
    /// The limits on a dry run that would have rejected it.
    pub(crate) would_reject: Vec<Box<str>>,
    /// How many attempts were made at its upstream. Atomic, because attempts side by side only borrow it.
    pub(crate) attempts: AtomicU32,
    /// Where its response comes from, once there is one.
    pub(crate) source: Option<Source>,
}

impl AccessLog {
    /// On standard output it shares the event log's sink: two writers would tear each other's lines.
    pub(crate) fn open(settings: &model::AccessLog, events: &Log) -> io::Result<Self> {
        let sink = match (&settings.file, events.sink()) {
            (Some(path), _) => Sink::file(path, settings.buffer)
                .map_err(|error| io::Error::new(error.kind(), format!("{}: {error}", path.display())))?,
            (None, Some(sink)) => sink.clone(),
            (None, None) => Sink::stdout(settings.buffer)?,
        };
        Ok(Self { sink, format: settings.format, buffer: settings.buffer })
    }

    pub(crate) fn write(&self, record: &Record, status: StatusCode, bytes: u64, is_whole: bool, took: Duration) {
        let mut line = String::with_capacity(320);
        match self.format {
            AccessLogFormat::Combined => combined(&mut line, record, status, bytes),
            AccessLogFormat::Json => json(&mut line, record, status, bytes, is_whole, took),
        }
        self.sink.send_within(line, self.buffer);
    }
}

impl Record {
    /// Of a head that can't be read.
    pub(crate) fn unreadable(ip: IpAddr, request_id: &str) -> Self {
        let unknown = || Box::from("-");
        Self {
            ip,
            user: None,
            method: unknown(),
            target: unknown(),
            version: "-",
            host: Box::default(),
            referer: Box::default(),
            agent: Box::default(),
            request_id: request_id.into(),
            route: Box::default(),
            upstream: Box::default(),
            rejected_by: None,
            would_reject: Vec::new(),
            attempts: AtomicU32::new(0),
            source: None,
        }
    }

    pub(crate) fn new(request: &RequestHead, host: &[u8], ip: IpAddr, request_id: &str) -> Self {
        let text =
            |name| request.headers.get(name).map_or_else(Box::default, |value| String::from_utf8_lossy(value).into());
        Self {
            ip,
            user: None,
            method: request.method.as_str().into(),
            target: request.uri.path_and_query().map_or("/", http::uri::PathAndQuery::as_str).into(),
            version: version_name(request.version),
            host: String::from_utf8_lossy(host).into(),
            referer: text("referer"),
            agent: text("user-agent"),
            request_id: request_id.into(),
            route: Box::default(),
            upstream: Box::default(),
            rejected_by: None,
            would_reject: Vec::new(),
            attempts: AtomicU32::new(0),
            source: None,
        }
    }

    pub(crate) fn identified(&mut self, user: Option<&str>, route: &str, upstream: &str) {
        self.user = user.map(Into::into);
        (self.route, self.upstream) = (route.into(), upstream.into());
    }
}

pub(crate) fn version_name(version: Version) -> &'static str {
    match version {
        Version::HTTP_10 => "1.0",
        Version::HTTP_2 => "2.0",
        _ => "1.1",
    }
}

/// Writes quotes, backslashes and all that is not printable ASCII as `\xHH`, as nginx does, so that clients can't forge
/// fields or lines.
fn escaped(line: &mut String, text: &str) {
    if text.is_empty() {
        line.push('-');
    }
    for byte in text.bytes() {
        if (0x20..0x7f).contains(&byte) && byte != b'"' && byte != b'\\' {
            line.push(char::from(byte));
        } else {
            // Writing to memory can't fail, here and below.
            let _written = write!(line, "\\x{byte:02X}");
        }
    }
}

fn combined(line: &mut String, record: &Record, status: StatusCode, bytes: u64) {
    let _written = write!(line, "{} - ", record.ip);
    let user = record.user.as_deref().unwrap_or_default();
    // A user's name is not quoted: a space in it would shift the fields.
    escaped(line, &user.replace(' ', "_"));
    let _written = write!(line, " [{}] \"{} ", Utc::now().common_log(), record.method);
    escaped(line, &record.target);
    let _written = write!(line, " HTTP/{}\" {} {bytes} \"", record.version, status.as_u16());
    escaped(line, &record.referer);
    line.push_str("\" \"");
    escaped(line, &record.agent);
    line.push('"');
}

fn json(line: &mut String, record: &Record, status: StatusCode, bytes: u64, is_whole: bool, took: Duration) {
    let text = |text: &str| serde_json::Value::from(text);
    let _written = write!(
        line,
        "{{\"time\":\"{}\",\"request_id\":{},\"ip\":\"{}\",\"method\":{},\"host\":{},\"path\":{},\
         \"protocol\":\"HTTP/{}\",\"status\":{},\"bytes\":{bytes},\"complete\":{is_whole},\"duration_seconds\":{},\
         \"route\":{},\"upstream\":{}",
        Utc::now().with_millis(),
        text(&record.request_id),
        record.ip,
        text(&record.method),
        text(&record.host),
        text(&record.target),
        record.version,
        status.as_u16(),
        took.as_secs_f64(),
        text(&record.route),
        text(&record.upstream),
    );
    let optional = [
        ("user", record.user.as_deref()),
        ("refused_by", record.rejected_by.as_deref()),
        ("referer", Some(&*record.referer).filter(|text| !text.is_empty())),
        ("user_agent", Some(&*record.agent).filter(|text| !text.is_empty())),
    ];
    for (field, value) in optional {
        if let Some(value) = value {
            let _written = write!(line, ",\"{field}\":{}", text(value));
        }
    }
    if let Some(source) = record.source {
        let _written = write!(line, ",\"source\":\"{}\"", source.word());
    }
    let attempts = record.attempts.load(Ordering::Relaxed);
    if attempts > 0 {
        let _written = write!(line, ",\"attempts\":{attempts}");
    }
    if !record.would_reject.is_empty() {
        let names: serde_json::Value = record.would_reject.iter().map(|name| text(name)).collect();
        let _written = write!(line, ",\"would_refuse\":{names}");
    }
    line.push('}');
}
