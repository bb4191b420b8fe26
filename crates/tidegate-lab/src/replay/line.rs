//! A request as a line of a log records it.

use std::fmt;

use memchr::memchr2;

use super::fields::MOST_HEADERS;

/// What a line records of a request. Times are in nanoseconds since 1970.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Line<'a> {
    /// When, as it is written.
    pub time: u64,
    /// Whether that is when its response ended, and not when it came.
    pub is_end: bool,
    /// How long it took, in nanoseconds.
    pub took: Option<u64>,
    /// An address, or what else distinguishes clients.
    pub client: &'a str,
    /// `GET` if it is not recorded.
    pub method: &'a str,
    /// With or without a port; empty if it is not recorded.
    pub host: &'a str,
    /// What was requested: a path and a query, or a whole URL; empty if it is not recorded.
    pub target: &'a str,
    /// Who it was.
    pub user: Option<&'a str>,
    /// What they are entitled to.
    pub tier: Option<&'a str>,
    /// Headers, in the order in which they were named.
    pub headers: [Option<&'a str>; MOST_HEADERS],
}

/// Why a line can't be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BadLine {
    /// It ends too early, or has another format.
    NotOne(&'static str),
    /// Its time can't be read.
    Time,
    /// It has no time.
    NoTime,
    /// Its request can't be read, such as `-`.
    Request,
    /// It is not UTF-8.
    NotText,
    /// It is longer than lines may be.
    TooLong,
}

impl fmt::Display for BadLine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotOne(what) => write!(f, "not a line of {what}"),
            Self::Time => f.write_str("invalid time"),
            Self::NoTime => f.write_str("the time is missing"),
            Self::Request => f.write_str("invalid request line"),
            Self::NotText => f.write_str("not UTF-8"),
            Self::TooLong => write!(f, "more than {LONGEST} bytes"),
        }
    }
}

/// The longest line that is read.
pub(super) const LONGEST: usize = 256 * 1024;

/// A value, unless it is empty or `-`, which logs write for what is missing.
pub(super) fn present(text: &str) -> Option<&str> {
    (!text.is_empty() && text != "-").then_some(text)
}

/// Method and target of `GET /path HTTP/1.1`. The version may be missing, as in HTTP/0.9.
pub(super) fn request_line(request: &str) -> Option<(&str, &str)> {
    let (method, rest) = request.split_once(' ')?;
    let target = match rest.rsplit_once(' ') {
        Some((target, version)) if version.starts_with("HTTP/") => target,
        _ => rest,
    };
    let is_method = !method.is_empty() && method.bytes().all(|byte| byte.is_ascii_alphabetic() || byte == b'-');
    let is_target = target.starts_with(['/', '*']) || target.contains("://") || method == "CONNECT";
    (is_method && is_target).then_some((method, target))
}

impl<'a> Line<'a> {
    /// The host that was requested: that of an absolute target, if no other is recorded.
    pub fn host(&self) -> &'a str {
        if !self.host.is_empty() || self.target.starts_with('/') {
            return self.host;
        }
        let Some((_, rest)) = self.target.split_once("://") else { return self.host };
        rest.split(['/', '?', '#']).next().unwrap_or_default()
    }

    /// The path without its query; `/` if it is not recorded.
    pub fn path(&self) -> &'a str {
        let mut target = self.target;
        if !target.starts_with('/')
            && let Some((_, rest)) = target.split_once("://")
        {
            // The absolute form: a path follows the host.
            target = rest.find('/').map_or("/", |slash| &rest[slash..]);
        }
        let end = memchr2(b'?', b'#', target.as_bytes()).unwrap_or(target.len());
        if end == 0 { "/" } else { &target[..end] }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_are_distinguished_from_rubbish() {
        for (request, expected) in [
            ("GET /a?b=c HTTP/1.1", Some(("GET", "/a?b=c"))),
            ("GET /a b HTTP/1.1", Some(("GET", "/a b"))),
            ("GET /", Some(("GET", "/"))),
            ("OPTIONS * HTTP/1.1", Some(("OPTIONS", "*"))),
            ("GET http://x/y HTTP/1.1", Some(("GET", "http://x/y"))),
            ("CONNECT x:443 HTTP/1.1", Some(("CONNECT", "x:443"))),
            ("-", None),
            ("", None),
            ("\\x16\\x03\\x01 \\x00", None),
            ("GET x HTTP/1.1", None),
        ] {
            assert_eq!(request_line(request), expected, "{request}");
        }
    }

    #[test]
    fn a_host_may_stand_in_the_target() {
        for (host, target, expected) in [
            ("a.example", "http://b.example/x", "a.example"),
            ("", "http://b.example:81/x?y", "b.example:81"),
            ("", "https://b.example", "b.example"),
            ("", "/x?to=http://b.example", ""),
            ("", "*", ""),
        ] {
            assert_eq!(Line { host, target, ..Line::default() }.host(), expected, "{target}");
        }
    }

    #[test]
    fn a_path_has_no_query_and_no_host() {
        for (target, path) in [
            ("/a/b?c=/d", "/a/b"),
            ("", "/"),
            ("http://example.com/a?b", "/a"),
            ("http://example.com", "/"),
            ("/redirect?to=http://x/y", "/redirect"),
            ("/a#b", "/a"),
            ("*", "*"),
        ] {
            assert_eq!(Line { target, ..Line::default() }.path(), path, "{target}");
        }
    }
}
