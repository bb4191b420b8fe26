//! Lines of common and combined access logs, as Apache and nginx write them; also with the virtual host before them.

use memchr::memchr;
use tidegate_input::log_times::LogTimes;

use super::line::{BadLine, Line, present, request_line};

const NOT_ONE: BadLine = BadLine::NotOne("a common or combined log");

/// `host ident user [time] "request" status bytes`, whatever follows.
pub(super) fn read<'a>(line: &'a str, times: &mut LogTimes) -> Result<Line<'a>, BadLine> {
    let bytes = line.as_bytes();
    let opens = memchr(b'[', bytes).ok_or(NOT_ONE)?;
    let closes = opens + memchr(b']', &bytes[opens..]).ok_or(NOT_ONE)?;
    let (host, client, user) = who(&line[..opens]).ok_or(NOT_ONE)?;
    let time = times.common(&bytes[opens + 1..closes]).ok_or(BadLine::Time)?;
    let rest = line[closes + 1..].strip_prefix(" \"").ok_or(NOT_ONE)?;
    let request = &rest[..closing_quote(rest.as_bytes()).ok_or(NOT_ONE)?];
    let (method, target) = request_line(request).ok_or(BadLine::Request)?;
    Ok(Line { time, client, method, host, target, user, ..Line::default() })
}

/// What stands before the time: host, client and user. A user's name may hold blanks.
fn who(text: &str) -> Option<(&str, &str, Option<&str>)> {
    let text = text.strip_suffix(' ')?;
    let (first, rest) = text.split_once(' ')?;
    let (second, after) = rest.split_once(' ')?;
    let (host, client, user) = match after.split_once(' ') {
        // With a virtual host first: host:port client ident user.
        Some((ident, user)) if second != "-" && (ident == "-" || is_name_with_port(first)) => (first, second, user),
        _ => ("", first, after),
    };
    // In a format that begins with other columns these are not host, client and user.
    let is_shifted = user.contains(" - ") || user.starts_with("- ");
    (!is_shifted).then(|| (host, client, present(user)))
}

/// `www.example.com:80`
fn is_name_with_port(text: &str) -> bool {
    let (name, port) = text.rsplit_once(':').unwrap_or_default();
    let is_port = !port.is_empty() && port.bytes().all(|byte| byte.is_ascii_digit());
    is_port && !name.contains(':') && name.parse::<std::net::IpAddr>().is_err()
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
        read(text, &mut LogTimes::default())
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
        let combined = concat!(
            r#"2001:db8::1 - - [10/Oct/2000:13:55:36 -0700] "POST /a?b HTTP/2.0" 429 0 "https://x/" "#,
            r#""Agent \"quoted\"" 0.004"#,
        );
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
    fn clients_and_hosts_are_distinguished_where_both_have_names() {
        for (start, host, client) in [
            ("www.example.com:80 h1.isp.net - -", "www.example.com:80", "h1.isp.net"),
            ("www.example.com h1.isp.net - ann", "www.example.com", "h1.isp.net"),
            ("www.example.com:80 10.0.0.1 ident -", "www.example.com:80", "10.0.0.1"),
            ("h1.isp.net - -", "", "h1.isp.net"),
            ("10.0.0.1:4711 - -", "", "10.0.0.1:4711"),
            ("2001:db8::1 ident ann", "", "2001:db8::1"),
        ] {
            let text = format!("{start} [10/Oct/2000:13:55:36 -0700] \"GET / HTTP/1.1\" 200 1");
            let read = line(&text).unwrap_or_else(|why| panic!("{start}: {why}"));
            assert_eq!((read.host, read.client), (host, client), "{start}");
        }
        for start in ["Jan 19 08:00:00 web nginx: 10.0.0.1 - -", "web-1 www.example.com 10.0.0.1 - -"] {
            let text = format!("{start} [10/Oct/2000:13:55:36 -0700] \"GET / HTTP/1.1\" 200 1");
            assert_eq!(line(&text), Err(NOT_ONE), "{start}");
        }
    }

    #[test]
    fn lines_of_another_format_are_reported_with_the_reason() {
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
