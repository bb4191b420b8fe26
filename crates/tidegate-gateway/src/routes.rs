//! Which requests a route is for.

use std::borrow::Cow;

use http::Method;

use crate::config::model;

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
    /// Any name that ends so, with the dot.
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
    /// The matcher of a route, or which field is wrong and why.
    pub(crate) fn new(route: &model::Route) -> Result<Self, (&'static str, String)> {
        let host = match route.host.as_deref().map(str::to_ascii_lowercase) {
            None => Host::Any,
            Some(host) if host.contains(['/', ':']) || host.is_empty() => {
                return Err((
                    "host",
                    format!("{host:?} is no host; write api.example.com or *.example.com, without port"),
                ));
            }
            Some(host) => match host.strip_prefix('*') {
                None => Host::Exact(host.into()),
                Some(rest) if rest.starts_with('.') && rest.len() > 1 => Host::Below(rest.into()),
                Some(_) => return Err(("host", "a `*` stands for whole names before a dot: *.example.com".to_owned())),
            },
        };
        let given = [&route.path, &route.prefix, &route.pattern];
        if given.iter().filter(|path| path.is_some()).count() > 1 {
            return Err(("path", "stands beside `prefix` or `pattern`; one of them is allowed".to_owned()));
        }
        for (field, path) in ["path", "prefix", "pattern"].into_iter().zip(given) {
            if path.as_ref().is_some_and(|path| !path.starts_with('/')) {
                return Err((field, "must begin with a slash".to_owned()));
            }
        }
        let path = match (&route.path, &route.prefix, &route.pattern) {
            (Some(path), ..) => PathMatcher::Exact(path.as_str().into()),
            (_, Some(prefix), _) => PathMatcher::Prefix(prefix.trim_end_matches('/').into()),
            (_, _, Some(pattern)) => parse_pattern(pattern)?,
            _ => PathMatcher::Any,
        };
        let mut methods = Vec::new();
        for method in &route.methods {
            let method = Method::from_bytes(method.as_bytes());
            methods.push(method.map_err(|_| ("methods", "are not all HTTP methods".to_owned()))?);
        }
        Ok(Self { host, path, methods })
    }

    /// Whether a request with this host (lower case, without port), this method and this normal path is meant.
    pub(crate) fn matches(&self, host: &str, method: &Method, path: &str) -> bool {
        let host_fits = match &self.host {
            Host::Any => true,
            Host::Exact(wanted) => **wanted == *host,
            Host::Below(end) => host.len() > end.len() && host.ends_with(&**end),
        };
        host_fits && (self.methods.is_empty() || self.methods.contains(method)) && self.path.matches(path)
    }
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
                    format!("{word:?} is no segment; `*` or `{{name}}` stand for a whole one, `**` for the rest"),
                ));
            }
            _ => Segment::Text(word.into()),
        });
    }
    Ok(PathMatcher::Pattern { segments, open_ended })
}

impl PathMatcher {
    fn matches(&self, path: &str) -> bool {
        match self {
            Self::Any => true,
            Self::Exact(wanted) => **wanted == *path,
            Self::Prefix(prefix) => {
                path.strip_prefix(&**prefix).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
            }
            Self::Pattern { segments, open_ended } => {
                let mut words = path.split('/').skip(1);
                let all = segments.iter().all(|segment| match (segment, words.next()) {
                    (Segment::One, Some(word)) => !word.is_empty(),
                    (Segment::Text(text), Some(word)) => **text == *word,
                    (_, None) => false,
                });
                all && (*open_ended || words.next().is_none())
            }
        }
    }
}

/// The path as it is matched: percent-encodings decoded, dot segments and doubled slashes gone. An upstream may see it that way, so a
/// limit must not be evaded by writing the path in another way. What is sent on is the path as it came.
pub(crate) fn normal_path(path: &str) -> Cow<'_, str> {
    let plain = !path.contains('%') && !path.contains("//") && !path.contains("/.");
    if plain {
        return Cow::Borrowed(path);
    }
    let decoded = decode(path);
    let mut segments: Vec<&str> = Vec::new();
    for segment in decoded.split('/') {
        match segment {
            "" | "." => {}
            ".." => {
                segments.pop();
            }
            _ => segments.push(segment),
        }
    }
    let mut normal = String::with_capacity(decoded.len());
    for segment in &segments {
        normal.push('/');
        normal.push_str(segment);
    }
    let ends_open = decoded.ends_with('/') || decoded.ends_with("/.") || decoded.ends_with("/..");
    if normal.is_empty() || ends_open {
        normal.push('/');
    }
    Cow::Owned(normal)
}

/// Percent-encodings decoded.
pub(crate) fn decode(path: &str) -> String {
    let mut bytes = Vec::with_capacity(path.len());
    let mut rest = path.as_bytes();
    while let Some((&byte, after)) = rest.split_first() {
        let value = |digit: u8| char::from(digit).to_digit(16);
        let code = match after {
            [high, low, ..] if byte == b'%' => value(*high).zip(value(*low)).map(|(high, low)| (high * 16 + low) as u8),
            _ => None,
        };
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
        ] {
            assert_eq!(normal_path(written), normal, "{written}");
        }
    }

    #[test]
    fn prefixes_end_at_segments_and_patterns_count_them() {
        let prefix = matcher(&model::Route { prefix: Some("/api/".into()), ..Default::default() });
        for (path, fits) in [("/api", true), ("/api/x", true), ("/apis", false), ("/", false)] {
            assert_eq!(prefix.matches("", &Method::GET, path), fits, "{path}");
        }
        let all = matcher(&model::Route { prefix: Some("/".into()), ..Default::default() });
        assert!(all.matches("", &Method::GET, "/anything"));
        let pattern = matcher(&model::Route { pattern: Some("/users/{id}/orders/**".into()), ..Default::default() });
        for (path, fits) in [
            ("/users/7/orders", true),
            ("/users/7/orders/9/items", true),
            ("/users//orders", false),
            ("/users/7", false),
            ("/users/7/carts", false),
        ] {
            assert_eq!(pattern.matches("", &Method::GET, path), fits, "{path}");
        }
        let one = matcher(&model::Route { pattern: Some("/users/*".into()), ..Default::default() });
        assert!(one.matches("", &Method::GET, "/users/7") && !one.matches("", &Method::GET, "/users/7/x"));
    }

    #[test]
    fn host_and_method_must_fit_too() {
        let route = model::Route {
            host: Some("*.Example.com".into()),
            methods: vec!["GET".into(), "PATCH".into()],
            ..Default::default()
        };
        let matcher = matcher(&route);
        assert!(matcher.matches("api.example.com", &Method::GET, "/"));
        assert!(!matcher.matches("example.com", &Method::GET, "/"));
        assert!(!matcher.matches("evil-example.com", &Method::GET, "/"));
        assert!(!matcher.matches("api.example.com", &Method::POST, "/"));
    }

    #[test]
    fn a_wrong_matcher_is_refused_with_its_field() {
        let route = |change: fn(&mut model::Route)| {
            let mut route = model::Route::default();
            change(&mut route);
            Matcher::new(&route).expect_err("wrong").0
        };
        assert_eq!(route(|r| r.host = Some("a:80".into())), "host");
        assert_eq!(route(|r| r.host = Some("*x".into())), "host");
        assert_eq!(route(|r| r.path = Some("x".into())), "path");
        assert_eq!(route(|r| (r.path, r.prefix) = (Some("/x".into()), Some("/y".into()))), "path");
        assert_eq!(route(|r| r.pattern = Some("/x/a*b".into())), "pattern");
        assert_eq!(route(|r| r.methods = vec!["G T".into()]), "methods");
    }
}
