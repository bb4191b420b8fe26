//! Lines of JSON, an object each: of Tidegate's own access log, and of what others write. Only wanted values are read,
//! so a line costs little.

use std::ops::Range;

use memchr::memchr2;
use tidegate_input::log_times::LogTimes;

use super::fields::Names;
use super::line::{BadLine, Line};
use super::line_fields::{LineFields, Use};

const NOT_ONE: BadLine = BadLine::NotOne("JSON objects");
/// Deeper than any log.
const DEEPEST: usize = 16;

/// A value that is wanted: a string without its quotes, or anything else that is one word.
struct Wanted<'a> {
    what: Use,
    text: &'a str,
    is_escaped: bool,
}

/// How lines look: what stands between their values, names and punctuation alike. A line with the same there needs no
/// parser.
#[derive(Debug, PartialEq, Eq)]
struct Shape {
    /// What stands before each value (with its quote or bracket), its kind, and its use.
    values: Vec<(Box<str>, Kind, Option<Use>)>,
    /// What stands after the last one.
    end: Box<str>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    /// A string, between its quotes.
    Text,
    /// A number, `true`, `false` or `null`.
    Word,
    /// An object or a list that is skipped.
    Nested,
}

impl Shape {
    /// The fields of a line that looks like this. None if it looks otherwise, or has escapes in what is wanted.
    fn fields<'a>(&self, line: &'a str) -> Option<LineFields<'a>> {
        let (mut fields, mut scanner) = (LineFields::default(), Scanner { text: line, at: 0 });
        for (before, kind, what) in &self.values {
            scanner.pass(before)?;
            let start = scanner.at;
            let text = match kind {
                Kind::Text => {
                    let is_escaped = scanner.string()?.1;
                    // The quote is part of what comes next.
                    scanner.at -= 1;
                    if is_escaped && what.is_some() {
                        return None;
                    }
                    &line[start..scanner.at]
                }
                Kind::Word => scanner.word()?,
                Kind::Nested => {
                    scanner.skip()?;
                    continue;
                }
            };
            if let Some(what) = what.filter(|_| *kind == Kind::Text || text != "null") {
                fields.put(what, text);
            }
        }
        (scanner.rest() == &*self.end).then_some(fields)
    }
}

/// The shapes of the lines before, the latest first: most lines look like one of them.
#[derive(Default)]
pub(super) struct Shapes {
    known: Vec<Shape>,
}

/// Shapes that are remembered, and the longest line whose shape is.
const MOST_SHAPES: usize = 6;
const LONGEST_SHAPE: usize = 16 * 1024;

impl Shapes {
    /// The fields of a line with a known shape.
    fn fields<'a>(&mut self, line: &'a str) -> Option<LineFields<'a>> {
        let (index, fields) =
            self.known.iter().enumerate().find_map(|(index, shape)| Some((index, shape.fields(line)?)))?;
        self.known[..=index].rotate_right(1);
        Some(fields)
    }

    fn learn(&mut self, shape: Shape) {
        if !self.known.contains(&shape) {
            self.known.truncate(MOST_SHAPES - 1);
            self.known.insert(0, shape);
        }
    }
}

/// Reads a line. `scratch` takes texts that are written with escapes.
pub(super) fn read<'a>(
    line: &'a str,
    names: &Names,
    shapes: &mut Shapes,
    times: &mut LogTimes,
    scratch: &'a mut String,
) -> Result<Line<'a>, BadLine> {
    if let Some(fields) = shapes.fields(line) {
        return fields.line(true, times);
    }
    let (mut wanted, mut values) = (Vec::new(), Values { names, known: Vec::new(), end: 0 });
    let mut scanner = Scanner { text: line, at: 0 };
    scanner.object(0, &mut wanted, &mut values).ok_or(NOT_ONE)?;
    if !scanner.rest().trim().is_empty() {
        return Err(NOT_ONE);
    }
    if line.len() <= LONGEST_SHAPE {
        shapes.learn(Shape { values: values.known, end: line[values.end..].into() });
    }
    // All of them first: what has been lent of the scratch must not move.
    scratch.clear();
    let ranges: Option<Vec<Range<usize>>> = wanted.iter().map(|wanted| unescape(wanted, scratch)).collect();
    let ranges = ranges.ok_or(NOT_ONE)?;
    let (mut fields, scratch): (_, &'a str) = (LineFields::default(), scratch);
    wanted.iter().zip(ranges).for_each(|(wanted, range)| fields.put(wanted.what, &scratch[range]));
    fields.line(true, times)
}

/// The values of a line, for its shape.
struct Values<'n> {
    names: &'n Names,
    known: Vec<(Box<str>, Kind, Option<Use>)>,
    /// Where the last one ends.
    end: usize,
}

impl Values<'_> {
    /// Adds a value that stands in this range, and returns its use.
    fn add(&mut self, line: &str, name: &str, kind: Kind, range: Range<usize>) -> Option<Use> {
        let what = Use::of(name, self.names);
        self.known.push((line[self.end..range.start].into(), kind, what));
        self.end = range.end;
        what
    }
}

/// Adds a text to the scratch, and returns its range there.
fn unescape(wanted: &Wanted<'_>, scratch: &mut String) -> Option<Range<usize>> {
    let start = scratch.len();
    if wanted.is_escaped {
        let text: String = serde_json::from_str(&format!("\"{}\"", wanted.text)).ok()?;
        scratch.push_str(&text);
    } else {
        scratch.push_str(wanted.text);
    }
    Some(start..scratch.len())
}

struct Scanner<'a> {
    text: &'a str,
    at: usize,
}

impl<'a> Scanner<'a> {
    fn rest(&self) -> &'a str {
        &self.text[self.at..]
    }

    /// Passes this text.
    fn pass(&mut self, text: &str) -> Option<()> {
        self.rest().starts_with(text).then(|| self.at += text.len())
    }

    fn blanks(&mut self) {
        while self.peek().is_some_and(|byte| byte.is_ascii_whitespace()) {
            self.at += 1;
        }
    }

    fn peek(&self) -> Option<u8> {
        self.text.as_bytes().get(self.at).copied()
    }

    /// Takes this byte, after blanks.
    fn take(&mut self, wanted: u8) -> Option<()> {
        self.blanks();
        (self.peek()? == wanted).then(|| self.at += 1)
    }

    /// Reads the fields of an object, and those of an object named `request` in it.
    fn object(&mut self, depth: usize, wanted: &mut Vec<Wanted<'a>>, values: &mut Values<'_>) -> Option<()> {
        self.take(b'{')?;
        self.blanks();
        if self.peek()? == b'}' {
            self.at += 1;
            return Some(());
        }
        loop {
            self.take(b'"')?;
            let (name, _) = self.string()?;
            self.take(b':')?;
            self.blanks();
            let start = self.at;
            match self.peek()? {
                b'{' if depth == 0 && name == "request" => self.object(1, wanted, values)?,
                b'{' | b'[' => {
                    self.at += 1;
                    self.skip()?;
                    values.add(self.text, name, Kind::Nested, start + 1..self.at);
                }
                b'"' => {
                    self.at += 1;
                    let (text, is_escaped) = self.string()?;
                    let what = values.add(self.text, name, Kind::Text, start + 1..self.at - 1);
                    wanted.extend(what.map(|what| Wanted { what, text, is_escaped }));
                }
                _ => {
                    let text = self.word()?;
                    let what = values.add(self.text, name, Kind::Word, start..self.at).filter(|_| text != "null");
                    wanted.extend(what.map(|what| Wanted { what, text, is_escaped: false }));
                }
            }
            self.blanks();
            let next = self.peek()?;
            self.at += 1;
            match next {
                b',' => {}
                b'}' => return Some(()),
                _ => return None,
            }
        }
    }

    /// Reads what follows an opening quote, and whether there are escapes in it.
    fn string(&mut self) -> Option<(&'a str, bool)> {
        let (start, bytes) = (self.at, self.text.as_bytes());
        let mut is_escaped = false;
        loop {
            let at = self.at + memchr2(b'"', b'\\', &bytes[self.at..])?;
            if bytes[at] == b'"' {
                self.at = at + 1;
                return Some((&self.text[start..at], is_escaped));
            }
            is_escaped = true;
            // Whatever is escaped is one byte at least, and no part of a longer character.
            bytes.get(at + 1).filter(|byte| byte.is_ascii())?;
            self.at = at + 2;
        }
    }

    /// Reads a number, `true`, `false` or `null`; any other character ends it.
    fn word(&mut self) -> Option<&'a str> {
        let rest = self.rest();
        let is_word = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'-' | b'.');
        let length = rest.bytes().position(|byte| !is_word(byte)).unwrap_or(rest.len());
        self.at += length;
        Some(&rest[..length]).filter(|word| !word.is_empty())
    }

    /// Skips what follows an opening bracket.
    fn skip(&mut self) -> Option<()> {
        let mut depth = 1;
        loop {
            let byte = self.peek()?;
            self.at += 1;
            match byte {
                b'{' | b'[' => depth += 1,
                b'}' | b']' => depth -= 1,
                b'"' => drop(self.string()?),
                _ => {}
            }
            match depth {
                0 => return Some(()),
                DEEPEST.. => return None,
                _ => {}
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, expect: impl FnOnce(Result<Line<'_>, BadLine>)) {
        let mut shapes = Shapes::default();
        expect(read(text, &Names::default(), &mut shapes, &mut LogTimes::default(), &mut String::new()));
    }

    /// As our own access log writes it: at the end of a request.
    #[test]
    fn our_own_lines_are_read() {
        let text = concat!(
            r#"{"time":"2026-01-19T16:30:05.125Z","request_id":"x","ip":"10.0.0.1","method":"GET","#,
            r#""host":"a.example","path":"/api?x=1","protocol":"HTTP/1.1","status":200,"bytes":2,"complete":true,"#,
            r#""duration_seconds":0.005,"route":"all","upstream":"target","user":"ann"}"#,
        );
        check(text, |line| {
            let line = line.expect("a line");
            assert_eq!((line.time, line.took, line.is_end), (1_768_840_205_125_000_000, Some(5_000_000), true));
            assert_eq!((line.client, line.method, line.host, line.path()), ("10.0.0.1", "GET", "a.example", "/api"));
            assert_eq!(line.user, Some("ann"));
        });
    }

    #[test]
    fn lines_of_other_programs_are_read() {
        let caddy = concat!(
            r#"{"level":"info","ts":1646861401.5241024,"logger":"x","msg":"handled request","request":"#,
            r#"{"remote_ip":"127.0.0.1","remote_port":"41342","proto":"HTTP/2.0","method":"GET","#,
            r#""host":"localhost","uri":"/a?b","headers":{"User-Agent":["curl/7.82.0"]}},"#,
            r#""duration":0.000929675,"status":200}"#,
        );
        check(caddy, |line| {
            let line = line.expect("a line");
            assert_eq!((line.client, line.method, line.host, line.path()), ("127.0.0.1", "GET", "localhost", "/a"));
            assert_eq!((line.time, line.took), (1_646_861_401_524_102_400, Some(929_675)));
        });
        let nginx = concat!(
            r#"{ "time_local": "10/Oct/2000:13:55:36 -0700", "remote_addr": "::1", "#,
            r#""request": "POST \/pay?id=1 HTTP\/1.1", "request_time": "0.250", "remote_user": "-" }"#,
        );
        check(nginx, |line| {
            let line = line.expect("a line");
            assert_eq!((line.method, line.path(), line.user, line.took), ("POST", "/pay", None, Some(250_000_000)));
        });
        check(r#"{"start_time":"2026-01-19T16:30:05Z","path":"/caf\u00e9","duration":"12ms","user":null}"#, |line| {
            let line = line.expect("a line");
            assert_eq!((line.path(), line.took, line.is_end, line.user), ("/café", Some(12_000_000), false, None));
        });
    }

    /// Each in its own unit, and clients behind proxies.
    #[test]
    fn durations_and_clients_are_those_that_the_program_means() {
        let envoy = concat!(
            r#"{"start_time":"2026-01-19T16:30:05.125Z","duration":12,"authority":"a.example","method":"GET","#,
            r#""path":"/x","downstream_remote_address":"10.0.0.1:4711"}"#,
        );
        check(envoy, |line| {
            let line = line.expect("a line");
            assert_eq!((line.took, line.is_end, line.client), (Some(12_000_000), false, "10.0.0.1:4711"));
        });
        let traefik = concat!(
            r#"{"ClientHost":"10.0.0.2","ClientUsername":"ann","Duration":60000,"#,
            r#""StartUTC":"2026-01-19T16:30:05.125Z","RequestMethod":"GET","RequestPath":"/x","#,
            r#""RequestHost":"a.example"}"#,
        );
        check(traefik, |line| {
            let line = line.expect("a line");
            assert_eq!((line.took, line.client, line.user), (Some(60_000), "10.0.0.2", Some("ann")));
        });
        let caddy =
            r#"{"ts":1.5,"request":{"remote_ip":"10.0.0.9","client_ip":"198.51.100.7","uri":"/"},"duration":0.25}"#;
        check(caddy, |line| {
            let line = line.expect("a line");
            assert_eq!((line.client, line.took, line.is_end), ("198.51.100.7", Some(250_000_000), true));
        });
    }

    /// The shape of one line does not spoil the next.
    #[test]
    fn fields_may_stand_in_any_order() {
        let (names, mut shapes, mut times) = (Names::default(), Shapes::default(), LogTimes::default());
        for (text, client, path) in [
            (r#"{"time":1,"ip":"a","path":"/x"}"#, "a", "/x"),
            (r#"{"path":"/y","time":1,"ip":"b"}"#, "b", "/y"),
            (r#"{"time":1,"note":"c"}"#, "", "/"),
            (r#"{"time":1,"ip":"d","path":"/z","note":1}"#, "d", "/z"),
        ] {
            let mut scratch = String::new();
            let line = read(text, &names, &mut shapes, &mut times, &mut scratch).expect("a line");
            assert_eq!((line.client, line.path()), (client, path), "{text}");
        }
    }

    #[test]
    fn lines_of_another_format_are_reported_with_the_reason() {
        for (text, why) in [
            ("", NOT_ONE),
            ("[]", NOT_ONE),
            ("{", NOT_ONE),
            (r#"{"time":1"#, NOT_ONE),
            (r#"{"time":1} x"#, NOT_ONE),
            (r#"{"time":}"#, NOT_ONE),
            (r#"{"time" 1}"#, NOT_ONE),
            (r#"{"time":"a\"#, NOT_ONE),
            (r#"{"time":1,"x":[{]}"#, NOT_ONE),
            (r#"{"path":"\q","time":1}"#, NOT_ONE),
            (r#"{"path":"/"}"#, BadLine::NoTime),
            (r#"{"time":"soon"}"#, BadLine::Time),
            (r#"{"time":true}"#, BadLine::Time),
            (r#"{"time":1,"request":"-x"}"#, BadLine::Request),
            ("{}", BadLine::NoTime),
        ] {
            check(text, |line| assert_eq!(line, Err(why), "{text}"));
        }
        check(&format!(r#"{{"x":{}"#, "[".repeat(100_000)), |line| assert_eq!(line, Err(NOT_ONE)));
    }

    /// Bytes of every kind, cut and changed: an error at worst, and the same whatever shapes are known.
    #[test]
    fn a_line_is_read_the_same_after_any_others() {
        let (names, mut shapes, mut random) = (Names::default(), Shapes::default(), fastrand::Rng::with_seed(7));
        let whole = [
            r#"{"time":1.5,"a":{"b":["é\"",1]},"path":"/\u00e9","request":{"method":"GET","x":null}}"#,
            r#"{ "time": "2026-01-19T16:30:05Z", "user": null, "ip": "10.0.0.1", "note": [], "path": "/a" }"#,
            concat!(
                r#"{"ts":1.5,"note":"a \"b\"","tags":[{"x":1},"é"],"request":{"method":"GET","uri":"/é","#,
                r#""headers":{"A":["b"]}},"user":"zoë"}"#,
            ),
        ];
        let (mut read_well, mut read_by_shape) = (0, 0);
        for round in 0..60_000 {
            let mut bytes = whole[round % 3].as_bytes().to_vec();
            for _ in 0..random.usize(..4) {
                let at = random.usize(..bytes.len());
                bytes[at] = if random.bool() { random.u8(..) } else { b"{}[]\",:\\"[random.usize(..8)] };
            }
            if random.bool() {
                bytes.truncate(random.usize(..=bytes.len()));
            }
            let text = String::from_utf8_lossy(&bytes);
            read_by_shape += u32::from(shapes.fields(&text).is_some());
            let mut scratch = String::new();
            let after_others = read(&text, &names, &mut shapes, &mut LogTimes::default(), &mut scratch);
            read_well += u32::from(after_others.is_ok());
            check(&text, |alone| assert_eq!(after_others, alone, "{text}"));
            assert!(shapes.known.len() <= MOST_SHAPES);
        }
        assert!(read_well > 5_000 && read_by_shape > 3_000, "{read_well}, {read_by_shape} by shape");
    }
}
