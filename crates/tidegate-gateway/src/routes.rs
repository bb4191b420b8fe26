//! The matcher of a route: which requests it is for.

mod coverage;

use std::borrow::Cow;

use http::Method;

use crate::config::model;

pub(crate) use coverage::{Hidden, hidden};

/// Which requests a route is for.
#[derive(Clone, Debug)]
pub(crate) struct Matcher {
    host: Host,
    path: PathMatcher,
    methods: Vec<Method>,
}

#[derive(Clone, Debug)]
enum Host {
    Any,
    Exact(Box<str>),
    /// Any name with this end, which begins with a dot.
    Below(Box<str>),
}

#[derive(Clone, Debug)]
enum PathMatcher {
    Any,
    Exact(Box<str>),
    /// Without a slash at its end.
    Prefix(Box<str>),
    Pattern {
        segments: Vec<Segment>,
        open_ended: bool,
    },
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Segment {
    One,
    Text(Box<str>),
}

impl Matcher {
    /// The matcher of a route. An error is the setting and what is wrong with it.
    pub(crate) fn new(route: &model::Route) -> Result<Self, (&'static str, String)> {
        // As in requests, a dot at the end is ignored.
        let host = route.host.as_deref().map(|host| host.strip_suffix('.').unwrap_or(host).to_ascii_lowercase());
        let host = match host {
            None => Host::Any,
            Some(host) if host.contains(['/', ':']) || host.is_empty() => {
                return Err((
                    "host",
                    format!("must be a host such as api.example.com or *.example.com, without port, got {host:?}"),
                ));
            }
            Some(host) if host.rfind('*').is_some_and(|index| index > 0) => {
                return Err(("host", wrong_wildcard(&host)));
            }
            Some(host) => match host.strip_prefix('*') {
                None => Host::Exact(host.into()),
                Some(rest) if rest.starts_with('.') && rest.len() > 1 => Host::Below(rest.into()),
                Some(_) => return Err(("host", wrong_wildcard(&host))),
            },
        };
        let given = [&route.path, &route.prefix, &route.pattern];
        if given.iter().filter(|path| path.is_some()).count() > 1 {
            return Err(("path", "can't be combined with `prefix` or `pattern`".to_owned()));
        }
        for (setting, path) in ["path", "prefix", "pattern"].into_iter().zip(given) {
            if path.as_ref().is_some_and(|path| !path.starts_with('/')) {
                return Err((
                    setting,
                    format!("must begin with a slash, got {:?}", path.as_deref().unwrap_or_default()),
                ));
            }
        }
        let path = match (&route.path, &route.prefix, &route.pattern) {
            (Some(path), ..) => PathMatcher::Exact(path.as_str().into()),
            (_, Some(prefix), _) => PathMatcher::Prefix(prefix.trim_end_matches('/').into()),
            (_, _, Some(pattern)) => parse_pattern(pattern)?,
            (None, None, None) => PathMatcher::Any,
        };
        let mut methods = Vec::new();
        for written in &route.methods {
            let method = Method::from_bytes(written.to_ascii_uppercase().as_bytes());
            let method = method.map_err(|_| ("methods", format!("must be HTTP methods, got {written:?}")))?;
            if method == Method::GET {
                // HEAD is as much work for an upstream as GET.
                methods.push(Method::HEAD);
            }
            methods.push(method);
        }
        Ok(Self { host, path, methods })
    }

    /// Whether a request matches, with this host (lower case, without port), this method and this normal path.
    pub(crate) fn matches(&self, host: &[u8], method: &Method, path: &str) -> bool {
        let host_fits = match &self.host {
            Host::Any => true,
            Host::Exact(wanted) => wanted.as_bytes() == host,
            Host::Below(end) => host.len() > end.len() && host.ends_with(end.as_bytes()),
        };
        host_fits && (self.methods.is_empty() || self.methods.contains(method)) && self.path.matches(path)
    }
}

fn wrong_wildcard(host: &str) -> String {
    format!("must have `*` only as the first name, as in *.example.com, got {host:?}")
}

fn parse_pattern(pattern: &str) -> Result<PathMatcher, (&'static str, String)> {
    let mut words: Vec<&str> = pattern.split('/').skip(1).collect();
    let open_ended = words.last() == Some(&"**");
    if open_ended {
        words.pop();
    }
    let mut segments = Vec::new();
    for word in words {
        segments.push(match word {
            "*" => Segment::One,
            _ if word.starts_with('{') && word.ends_with('}') => Segment::One,
            _ if word.contains(['*', '{', '}']) => {
                return Err((
                    "pattern",
                    format!("must have `*` or `{{name}}` as a whole segment and `**` only at the end, got {word:?}"),
                ));
            }
            _ => Segment::Text(word.into()),
        });
    }
    Ok(PathMatcher::Pattern { segments, open_ended })
}

fn without_end(path: &str) -> &str {
    path.strip_suffix('/').unwrap_or(path)
}

impl PathMatcher {
    fn matches(&self, path: &str) -> bool {
        match self {
            Self::Any => true,
            // Most servers ignore a slash at the end.
            Self::Exact(wanted) => without_end(wanted) == without_end(path),
            Self::Prefix(prefix) => {
                path.strip_prefix(&**prefix).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
            }
            Self::Pattern { segments, open_ended } => {
                let mut words = path.split('/').skip(1);
                let all = segments.iter().all(|segment| match (segment, words.next()) {
                    (Segment::One, Some(word)) => !word.is_empty(),
                    (Segment::Text(text), Some(word)) => **text == *word,
                    (Segment::One | Segment::Text(_), None) => false,
                });
                // Here too, a slash at the end is ignored.
                all && (*open_ended || words.next().is_none_or(str::is_empty) && words.next().is_none())
            }
        }
    }
}

/// The path as it is matched: percent-encodings decoded; dot segments, doubled slashes and parameters removed. Beside
/// it, if it is written in any unusual way, all other ways in which an upstream may read it: the path is sent on as it
/// came, and a limit must not be evaded by a path that the upstream reads differently.
pub(crate) fn readings(path: &str) -> (Cow<'_, str>, Vec<String>) {
    if is_plain(path) {
        return (Cow::Borrowed(path), Vec::new());
    }
    let whole = decode_path(path, true);
    let by_segment = decode_path(path, false);
    let others =
        vec![resolved(&by_segment), without_parameters(&whole), without_parameters(&by_segment), path.to_owned()];
    (Cow::Owned(resolved(&whole)), others)
}

/// Whether there is only one way to read a path: no encodings, parameters and backslashes, no empty and no dot
/// segments. One pass over its bytes, because every request needs it.
fn is_plain(path: &str) -> bool {
    let mut is_after_slash = false;
    for byte in path.bytes() {
        match byte {
            b'%' | b';' | b'\\' => return false,
            b'/' | b'.' if is_after_slash => return false,
            _ => is_after_slash = byte == b'/',
        }
    }
    path.starts_with('/')
}

/// A decoded path without empty and dot segments, and without parameters.
fn resolved(decoded: &str) -> String {
    let mut segments: Vec<&str> = Vec::new();
    for segment in decoded.split('/').map(without_parameter) {
        match segment {
            "" | "." => {}
            ".." => {
                segments.pop();
            }
            _ => segments.push(segment),
        }
    }
    let last = decoded.rsplit('/').next().map_or("", without_parameter);
    let mut normal = String::with_capacity(decoded.len());
    for segment in &segments {
        normal.push('/');
        normal.push_str(segment);
    }
    if normal.is_empty() || matches!(last, "" | "." | "..") {
        normal.push('/');
    }
    normal
}

fn without_parameters(decoded: &str) -> String {
    decoded.split('/').map(without_parameter).collect::<Vec<_>>().join("/")
}

/// A segment without what follows a semicolon, which some servers ignore.
fn without_parameter(segment: &str) -> &str {
    segment.split(';').next().unwrap_or_default()
}

/// Decodes percent-encodings, those of slashes only with `slashes`. A backslash becomes a slash.
fn decode_path(path: &str, slashes: bool) -> String {
    decode_some(path, |byte| slashes || !matches!(byte, b'/' | b'\\')).replace('\\', "/")
}

/// Decodes all percent-encodings.
pub(crate) fn decode(text: &str) -> String {
    decode_some(text, |_| true)
}

fn decode_some(text: &str, wanted: impl Fn(u8) -> bool) -> String {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((&byte, after)) = rest.split_first() {
        let value = |digit: u8| char::from(digit).to_digit(16);
        let code = match after {
            [high, low, ..] if byte == b'%' => value(*high).zip(value(*low)).map(|(high, low)| (high * 16 + low) as u8),
            _ => None,
        };
        let code = code.filter(|code| wanted(*code));
        bytes.push(code.unwrap_or(byte));
        rest = if code.is_some() { &after[2..] } else { after };
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn matcher(route: &model::Route) -> Matcher {
        Matcher::new(route).expect("a valid route")
    }

    #[test]
    fn a_path_has_one_normal_form_however_it_is_written() {
        for (written, normal) in [
            ("/api/search", "/api/search"),
            ("/api//search", "/api/search"),
            ("/api/./search", "/api/search"),
            ("/x/../api/search", "/api/search"),
            ("/../../api/search", "/api/search"),
            ("/api/%73earch", "/api/search"),
            ("/api%2Fsearch", "/api/search"),
            ("/api/%2e%2e/search", "/search"),
            ("/api/search/", "/api/search/"),
            ("/api/search/..", "/api/"),
            ("/%", "/%"),
            ("/%zz", "/%zz"),
            ("/", "/"),
            ("//", "/"),
            ("/api;v=1/search;x", "/api/search"),
            ("/api\\search", "/api/search"),
            ("/x/%5c..%5c/search", "/search"),
            ("/api/..;x/search", "/search"),
        ] {
            assert_eq!(readings(written).0, normal, "{written}");
        }
    }

    #[test]
    fn all_that_an_upstream_may_read_is_among_the_readings() {
        for (written, reading) in [
            ("/api/export/../../free", "/api/export/../../free"),
            ("/api/%65xport/../../free", "/api/export/../../free"),
            ("/%75sers/a%2Fb", "/users/a%2Fb"),
            ("/x/../users/a%2Fb", "/users/a%2Fb"),
            ("/api/export;x=1/a", "/api/export/a"),
            ("/a%20b", "/a%20b"),
        ] {
            let (normal, others) = readings(written);
            assert!(normal == reading || others.iter().any(|other| other == reading), "{written}: {normal} {others:?}");
        }
        assert!(readings("/usual/path").1.is_empty());
    }

    #[test]
    fn a_path_that_is_not_plain_is_detected() {
        for plain in ["/", "/a/b.c", "/a.b/c", "/a/"] {
            assert!(is_plain(plain), "{plain}");
        }
        for other in ["", "a/b", "/a//b", "//", "/a/.b", "/./", "/a%20", "/a;b", "/a\\b"] {
            assert!(!is_plain(other), "{other}");
        }
    }

    #[test]
    fn prefixes_end_at_segments_and_patterns_count_them() {
        let prefix = matcher(&model::Route { prefix: Some("/api/".into()), ..Default::default() });
        for (path, fits) in [("/api", true), ("/api/x", true), ("/apis", false), ("/", false)] {
            assert_eq!(prefix.matches(b"", &Method::GET, path), fits, "{path}");
        }
        let all = matcher(&model::Route { prefix: Some("/".into()), ..Default::default() });
        assert!(all.matches(b"", &Method::GET, "/anything"));
        let pattern = matcher(&model::Route { pattern: Some("/users/{id}/orders/**".into()), ..Default::default() });
        for (path, fits) in [
            ("/users/7/orders", true),
            ("/users/7/orders/9/items", true),
            ("/users//orders", false),
            ("/users/7/orders/", true),
            ("/users/7", false),
            ("/users/7/carts", false),
        ] {
            assert_eq!(pattern.matches(b"", &Method::GET, path), fits, "{path}");
        }
        let one = matcher(&model::Route { pattern: Some("/users/*".into()), ..Default::default() });
        assert!(one.matches(b"", &Method::GET, "/users/7/") && !one.matches(b"", &Method::GET, "/users/7//"));
        let exact = matcher(&model::Route { path: Some("/login".into()), ..Default::default() });
        assert!(exact.matches(b"", &Method::GET, "/login/") && !exact.matches(b"", &Method::GET, "/login/x"));
        assert!(one.matches(b"", &Method::GET, "/users/7") && !one.matches(b"", &Method::GET, "/users/7/x"));
    }

    #[test]
    fn host_and_method_must_fit_too() {
        let route = model::Route {
            host: Some("*.Example.com".into()),
            methods: vec!["get".into(), "PATCH".into()],
            ..Default::default()
        };
        let matcher = matcher(&route);
        assert!(matcher.matches(b"api.example.com", &Method::GET, "/"));
        assert!(!matcher.matches(b"example.com", &Method::GET, "/"));
        assert!(!matcher.matches(b"evil-example.com", &Method::GET, "/"));
        assert!(matcher.matches(b"api.example.com", &Method::HEAD, "/"));
        assert!(matcher.matches(b"api.example.com", &Method::PATCH, "/"));
        assert!(!matcher.matches(b"api.example.com", &Method::POST, "/"));
    }

    /// Requests are matched by their hosts without it: such a route was never reached.
    #[test]
    fn a_dot_at_the_end_of_a_host_makes_no_difference() {
        for host in ["Example.com.", "*.com."] {
            let matcher = matcher(&model::Route { host: Some(host.into()), ..Default::default() });
            assert!(matcher.matches(b"example.com", &Method::GET, "/"), "{host}");
        }
    }

    #[test]
    fn a_wrong_matcher_is_rejected_with_its_setting() {
        let route = |change: fn(&mut model::Route)| {
            let mut route = model::Route::default();
            change(&mut route);
            Matcher::new(&route).expect_err("wrong").0
        };
        assert_eq!(route(|r| r.host = Some("a:80".into())), "host");
        assert_eq!(route(|r| r.host = Some("*x".into())), "host");
        assert_eq!(route(|r| r.host = Some(".".into())), "host");
        assert_eq!(route(|r| r.host = Some("a*b.com".into())), "host");
        assert_eq!(route(|r| r.host = Some("*.a*.com".into())), "host");
        assert_eq!(route(|r| r.path = Some("x".into())), "path");
        assert_eq!(route(|r| (r.path, r.prefix) = (Some("/x".into()), Some("/y".into()))), "path");
        assert_eq!(route(|r| r.pattern = Some("/x/a*b".into())), "pattern");
        assert_eq!(route(|r| r.methods = vec!["G T".into()]), "methods");
    }
}
