//! Lines of common and combined access logs, as Apache and nginx write them; also with the virtual host before them.

use memchr::memchr;

use super::line::{BadLine, Line, request_line, told};
use super::moments::Moments;

const NOT_ONE: BadLine = BadLine::NotOne("a common or combined log");

/// `host ident user [time] "request" status bytes`, whatever follows.
pub(super) fn read<'a>(line: &'a str, moments: &mut Moments) -> Result<Line<'a>, BadLine> {
    let bytes = line.as_bytes();
    let opens = memchr(b'[', bytes).ok_or(NOT_ONE)?;
    let closes = opens + memchr(b']', &bytes[opens..]).ok_or(NOT_ONE)?;
    let (host, client, user) = who(&line[..opens]).ok_or(NOT_ONE)?;
    let time = moments.common(&bytes[opens + 1..closes]).ok_or(BadLine::Time)?;
    let rest = line[closes + 1..].strip_prefix(" \"").ok_or(NOT_ONE)?;
    let request = &rest[..closing_quote(rest.as_bytes()).ok_or(NOT_ONE)?];
    let (method, target) = request_line(request).ok_or(BadLine::Request)?;
    Ok(Line { time, client, method, host, target, user, ..Line::default() })
}

/// What stands before the time: who asked whom. A user's name may hold blanks.
fn who(text: &str) -> Option<(&str, &str, Option<&str>)> {
    let text = text.strip_suffix(' ')?;
    let (first, rest) = text.split_once(' ')?;
    let (second, after) = rest.split_once(' ')?;
    // With a virtual host first: host:port client ident user.
    match after.split_once(' ') {
        Some((_, user)) if is_virtual_host(first, second) => Some((first, second, told(user))),
        _ => Some(("", first, told(after))),
    }
}

/// Whether a line begins with the host that was asked for: then an address follows it, where else the `ident` is, mostly `-`.
fn is_virtual_host(first: &str, second: &str) -> bool {
    second != "-" && second.parse::<std::net::IpAddr>().is_ok() && first.parse::<std::net::IpAddr>().is_err()
}

/// Where a quoted text ends. Quotes within it have a backslash before them.
fn closing_quote(text: &[u8]) -> Option<usize> {
    let mut from = 0;
    loop {
        let at = from + memchr(b'"', &text[from..])?;
        let backslashes = text[..at].iter().rev().take_while(|byte| **byte == b'\\').count();
        if backslashes % 2 == 0 {
            return Some(at);
        }
        from = at + 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(text: &str) -> Result<Line<'_>, BadLine> {
        read(text, &mut Moments::default())
    }

    #[test]
    fn common_and_combined_lines_are_read() {
        let read = line(r#"127.0.0.1 - frank [10/Oct/2000:13:55:36 -0700] "GET /apache_pb.gif HTTP/1.0" 200 2326"#);
        let expected = Line {
            time: 971_211_336_000_000_000,
            client: "127.0.0.1",
            method: "GET",
            target: "/apache_pb.gif",
            user: Some("frank"),
            ..Line::default()
        };
        assert_eq!(read, Ok(expected));
        let combined = r#"2001:db8::1 - - [10/Oct/2000:13:55:36 -0700] "POST /a?b HTTP/2.0" 429 0 "https://x/" "Agent \"quoted\"" 0.004"#;
        let read = line(combined).expect("a line");
        assert_eq!((read.client, read.method, read.path(), read.user), ("2001:db8::1", "POST", "/a", None));
        let quoted = line(r#"a.example - - [10/Oct/2000:13:55:36 -0700] "GET /\"x HTTP/1.1" 200 1"#).expect("a line");
        assert_eq!((quoted.client, quoted.target), ("a.example", "/\\\"x"));
        let blank = line(r#"::1 - a user [10/Oct/2000:13:55:36 -0700] "GET / HTTP/1.1" 200 1"#).expect("a line");
        assert_eq!(blank.user, Some("a user"));
    }

    #[test]
    fn a_virtual_host_may_stand_first() {
        let read = line(r#"www.example.com:80 10.0.0.1 - ann [10/Oct/2000:13:55:36 -0700] "GET / HTTP/1.1" 200 1"#);
        let read = read.expect("a line");
        assert_eq!((read.host, read.client, read.user), ("www.example.com:80", "10.0.0.1", Some("ann")));
    }

    #[test]
    fn what_is_no_such_line_says_why() {
        for (text, why) in [
            ("", NOT_ONE),
            ("hello", NOT_ONE),
            ("a b c [10/Oct/2000:13:55:36 -0700] GET", NOT_ONE),
            ("[10/Oct/2000:13:55:36 -0700] \"GET / HTTP/1.1\"", NOT_ONE),
            (r#"::1 - - [yesterday] "GET / HTTP/1.1" 200 1"#, BadLine::Time),
            (r#"::1 - - [10/Oct/2000:13:55:36 -0700] "-" 400 0"#, BadLine::Request),
            (r#"::1 - - [10/Oct/2000:13:55:36 -0700] "GET / HTTP/1.1"#, NOT_ONE),
            (r#"::1 - - [10/Oct/2000:13:55:36 -0700] "GET /\"#, NOT_ONE),
        ] {
            assert_eq!(line(text), Err(why), "{text}");
        }
    }
}
