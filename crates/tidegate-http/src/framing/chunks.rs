//! The chunked coding (RFC 9112 §7.1): decoded strictly, encoded without extensions. Bytes of clients and of upstreams
//! follow the same grammar: a parser that reads a size in another way sees another end of the body, and takes what
//! follows for the next message.

use std::io::Write as _;

use bytes::{Buf, BufMut, Bytes, BytesMut};
use http::{HeaderMap, HeaderName, HeaderValue};

use super::header_names::is_fit_for_trailers;
use super::lines::ends_in_crlf;

/// The longest line with a chunk's size and its extensions, and the longest trailer section.
const LONGEST_LINE: usize = 4 * 1024;
const LONGEST_TRAILERS: usize = 16 * 1024;
/// The most trailers.
const MOST_TRAILERS: usize = 32;
/// How many more bytes of extensions than of data a body may have. Nobody reads extensions, so they must not be a way
/// to send without end.
const MOST_EXTENSIONS: usize = 16 * 1024;

/// A decoder.
#[derive(Debug, Default)]
pub struct Chunked {
    step: Step,
    /// Bytes of extensions so far, minus the bytes of data.
    extensions: usize,
}

/// What a decoder expects next.
#[derive(Debug, Default)]
enum Step {
    /// Before a chunk's size.
    #[default]
    Size,
    /// In a chunk, with this many bytes left.
    Data(u64),
    /// Before the line end after a chunk's data.
    DataEnd,
    /// After the last chunk.
    Trailers,
    /// All has been read.
    End,
}

/// What the next bytes of a body are, and how many of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// A line between chunks.
    Framing(usize),
    /// Data.
    Data(usize),
    /// The trailers, with the empty line after them.
    Trailers(usize),
    /// The body has ended before these bytes.
    End,
    /// More bytes are needed to decide.
    Partial,
}

/// What a decoder took out of a buffer.
#[derive(Debug)]
pub enum Piece {
    /// Data.
    Data(Bytes),
    /// The trailers; nothing follows them.
    Trailers(HeaderMap),
    /// All has been read.
    End,
    /// It needs more bytes.
    Partial,
}

impl Chunked {
    /// Takes the next piece out of `read`.
    pub fn decode(&mut self, read: &mut BytesMut) -> Result<Piece, &'static str> {
        loop {
            match self.part(read)? {
                Part::Framing(length) => read.advance(length),
                Part::Data(length) => return Ok(Piece::Data(read.split_to(length).freeze())),
                Part::Trailers(length) => {
                    let trailers = trailers(&read[..length])?;
                    read.advance(length);
                    return Ok(Piece::Trailers(trailers));
                }
                Part::End => return Ok(Piece::End),
                Part::Partial => return Ok(Piece::Partial),
            }
        }
    }

    /// What `read` begins with. These bytes count as consumed: the next call must pass what follows them.
    pub fn part(&mut self, read: &[u8]) -> Result<Part, &'static str> {
        match &mut self.step {
            Step::Size => {
                let Some(line) = whole_line(read, LONGEST_LINE)? else { return Ok(Part::Partial) };
                let (size, extension) = chunk_size(line)?;
                self.extensions += extension;
                if self.extensions > MOST_EXTENSIONS {
                    return Err("the chunk extensions are too long");
                }
                self.step = if size == 0 { Step::Trailers } else { Step::Data(size) };
                Ok(Part::Framing(line.len() + 2))
            }
            Step::Data(_) if read.is_empty() => Ok(Part::Partial),
            Step::Data(left) => {
                let count = usize::try_from(*left).unwrap_or(usize::MAX).min(read.len());
                *left -= count as u64;
                if *left == 0 {
                    self.step = Step::DataEnd;
                }
                self.extensions = self.extensions.saturating_sub(count);
                Ok(Part::Data(count))
            }
            Step::DataEnd => match read.get(..2) {
                Some(b"\r\n") => {
                    self.step = Step::Size;
                    Ok(Part::Framing(2))
                }
                Some(_) => Err("a chunk is longer than its size"),
                None => Ok(Part::Partial),
            },
            Step::Trailers => {
                let part = trailer_part(read)?;
                if part != Part::Partial {
                    self.step = Step::End;
                }
                Ok(part)
            }
            Step::End => Ok(Part::End),
        }
    }
}

/// What follows the last chunk.
fn trailer_part(read: &[u8]) -> Result<Part, &'static str> {
    if read.starts_with(b"\r\n") {
        return Ok(Part::Framing(2));
    }
    if !ends_in_crlf(read.get(..LONGEST_TRAILERS).unwrap_or(read)) {
        // A parser that insists on CR LF would see another end of this message, and another start of the next.
        return Err("a trailer does not end in CR LF");
    }
    let mut parsed = [httparse::EMPTY_HEADER; MOST_TRAILERS];
    match httparse::parse_headers(read, &mut parsed) {
        // Line ends were checked only up to that length.
        Ok(httparse::Status::Complete((length, _))) if length > LONGEST_TRAILERS => Err("the trailers are too long"),
        Ok(httparse::Status::Complete((length, _))) => Ok(Part::Trailers(length)),
        Ok(httparse::Status::Partial) if read.len() <= LONGEST_TRAILERS => Ok(Part::Partial),
        Ok(httparse::Status::Partial) => Err("the trailers are too long"),
        Err(_) => Err("the trailers can't be read"),
    }
}

/// Parses a whole trailer section.
fn trailers(section: &[u8]) -> Result<HeaderMap, &'static str> {
    let mut parsed = [httparse::EMPTY_HEADER; MOST_TRAILERS];
    let (_, parsed) = match httparse::parse_headers(section, &mut parsed) {
        Ok(httparse::Status::Complete(parsed)) => parsed,
        Ok(httparse::Status::Partial) | Err(_) => return Err("the trailers can't be read"),
    };
    let mut trailers = HeaderMap::with_capacity(parsed.len());
    for header in parsed {
        let name = HeaderName::from_bytes(header.name.as_bytes()).map_err(|_| "invalid trailer name")?;
        let value = HeaderValue::from_bytes(header.value).map_err(|_| "invalid trailer value")?;
        trailers.append(name, value);
    }
    Ok(trailers)
}

/// A line without its end, which must be CR LF. None while the line is incomplete.
fn whole_line(read: &[u8], longest: usize) -> Result<Option<&[u8]>, &'static str> {
    let Some(end) = read.iter().take(longest).position(|byte| *byte == b'\n') else {
        return if read.len() >= longest { Err("a chunk's size is too long") } else { Ok(None) };
    };
    match read[..end].split_last() {
        Some((b'\r', line)) => Ok(Some(line)),
        Some(_) | None => Err("a chunk's size does not end in CR LF"),
    }
}

/// A chunk's size, and how many bytes of extensions follow it.
fn chunk_size(line: &[u8]) -> Result<(u64, usize), &'static str> {
    let digits = line.iter().take_while(|byte| byte.is_ascii_hexdigit()).count();
    let (number, extensions) = line.split_at(digits);
    if !(1..=15).contains(&digits) {
        return Err("invalid chunk size");
    }
    if !are_extensions(extensions) {
        return Err("invalid chunk extension");
    }
    let digit = |byte: &u8| u64::from(char::from(*byte).to_digit(16).unwrap_or(0));
    Ok((number.iter().fold(0, |size, byte| size * 16 + digit(byte)), extensions.len()))
}

/// Whether this matches `*( BWS ";" BWS name [ BWS "=" BWS ( token / quoted-string ) ] )`.
fn are_extensions(mut rest: &[u8]) -> bool {
    while !rest.is_empty() {
        let Some(name) = after_whitespace(rest).strip_prefix(b";").map(after_whitespace) else { return false };
        let Some(behind) = after_token(name) else { return false };
        rest = behind;
        if let Some(value) = after_whitespace(behind).strip_prefix(b"=").map(after_whitespace) {
            let behind = if value.starts_with(b"\"") { after_quoted(&value[1..]) } else { after_token(value) };
            let Some(behind) = behind else { return false };
            rest = behind;
        }
    }
    true
}

fn after_whitespace(text: &[u8]) -> &[u8] {
    let length = text.iter().take_while(|byte| matches!(byte, b' ' | b'\t')).count();
    &text[length..]
}

/// What follows a token, if there is one.
fn after_token(text: &[u8]) -> Option<&[u8]> {
    let is_in_tokens = |byte: &u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(byte);
    let length = text.iter().take_while(|byte| is_in_tokens(byte)).count();
    (length > 0).then(|| &text[length..])
}

/// What follows a quoted string whose first quote has been read, if it has a last one.
fn after_quoted(text: &[u8]) -> Option<&[u8]> {
    let mut is_escaped = false;
    for (index, byte) in text.iter().enumerate() {
        match byte {
            0..b' ' | 0x7f if *byte != b'\t' => return None,
            _ if is_escaped => is_escaped = false,
            b'\\' => is_escaped = true,
            b'"' => return Some(&text[index + 1..]),
            _ => {}
        }
    }
    None
}

/// Writes the line before a chunk's data.
pub fn write_size(out: &mut impl BufMut, size: usize) {
    let mut digits = [0; 16];
    let mut rest = &mut digits[..];
    // Sixteen digits hold every size.
    let _written = write!(rest, "{size:x}");
    let unused = rest.len();
    out.put_slice(&digits[..16 - unused]);
    out.put_slice(b"\r\n");
}

/// Writes the end of a chunked body, with the trailers that may be sent.
pub fn write_end(out: &mut impl BufMut, trailers: Option<&HeaderMap>) {
    out.put_slice(b"0\r\n");
    for (name, value) in trailers.into_iter().flatten().filter(|(name, _)| is_fit_for_trailers(name)) {
        out.put_slice(name.as_str().as_bytes());
        out.put_slice(b": ");
        out.put_slice(value.as_bytes());
        out.put_slice(b"\r\n");
    }
    out.put_slice(b"\r\n");
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What a decoder finds when the bytes arrive in pieces of `step`: data, number of trailers, rest.
    fn decoded(bytes: &[u8], step: usize) -> Result<(Vec<u8>, usize, BytesMut), &'static str> {
        let (mut chunked, mut read, mut data, mut trailers) = (Chunked::default(), BytesMut::new(), Vec::new(), 0);
        let mut pieces = bytes.chunks(step);
        loop {
            match chunked.decode(&mut read)? {
                Piece::Data(bytes) => data.extend_from_slice(&bytes),
                Piece::Trailers(found) => trailers = found.len(),
                Piece::End => {
                    pieces.for_each(|piece| read.extend_from_slice(piece));
                    return Ok((data, trailers, read));
                }
                Piece::Partial => read.extend_from_slice(pieces.next().ok_or("it ends early")?),
            }
        }
    }

    #[test]
    fn chunks_are_the_same_however_they_arrive() {
        let bytes = b"5\r\nhello\r\n6;x=y\r\n world\r\n0\r\nA: b\r\nC: d\r\n\r\nNEXT";
        for step in [1, 2, 3, 7, 100] {
            let (data, trailers, rest) = decoded(bytes, step).expect("chunks");
            assert_eq!((&data[..], trailers, &rest[..]), (&b"hello world"[..], 2, &b"NEXT"[..]), "in steps of {step}");
        }
        let (data, trailers, _) = decoded(b"0\r\n\r\n", 1).expect("nothing");
        assert_eq!((data.len(), trailers), (0, 0));
    }

    #[test]
    fn what_is_ambiguous_is_rejected() {
        for wrong in [
            &b"5\nhello\r\n0\r\n\r\n"[..],
            b"5\r\nhelloX\r\n0\r\n\r\n",
            b"5\r\nhello\n0\r\n\r\n",
            b"+5\r\nhello\r\n",
            b"0x5\r\nhello\r\n",
            b"5 5\r\nhello\r\n",
            b"\r\nhello",
            b"1000000000000000\r\n",
            b"5\r\nhello\r\n0\r\n bad: x\r\n\r\n",
            b"5 \r\nhello\r\n0\r\n\r\n",
            b"5\t\r\nhello\r\n0\r\n\r\n",
            b"5\r\nhello\r\n0 \r\n\r\n",
        ] {
            assert!(decoded(wrong, 100).is_err(), "{:?}", String::from_utf8_lossy(wrong));
        }
        let long = [b"5;".to_vec(), vec![b'x'; LONGEST_LINE]].concat();
        assert!(decoded(&long, 512).is_err());
    }

    #[test]
    fn extensions_are_those_of_the_grammar() {
        for right in [
            ";a",
            ";a=b",
            " ;a",
            "\t; a",
            ";a = b",
            ";a=\"\"",
            ";a=\"b;c=d\"",
            ";a=\"quoted \\\" and \\\\\"",
            ";a=\"b\";c;d=e",
            ";a=\"\u{e4}\t\"",
        ] {
            let bytes = format!("5{right}\r\nhello\r\n0{right}\r\n\r\nNEXT");
            let (data, _, rest) = decoded(bytes.as_bytes(), 1).expect(right);
            assert_eq!((&data[..], &rest[..]), (&b"hello"[..], &b"NEXT"[..]), "{right}");
        }
        for wrong in [
            ";",
            ";;",
            "; ",
            ";a;",
            ";a=",
            ";a= ",
            ";=b",
            ";a ",
            ";a b",
            ";a=b c",
            ";a=\"b",
            ";a=b\"",
            ";a=\"b\\\"",
            ";a=\"b\"c",
            ";a=\"b\" ",
            ";\"a\"",
            ";a=b=c",
            ";a=(b)",
            ";a=\"\u{1}\"",
            ";a\r",
            " ",
            "x",
        ] {
            let bytes = format!("5{wrong}\r\nhello\r\n0\r\n\r\n");
            assert!(decoded(bytes.as_bytes(), 100).is_err(), "{wrong:?}");
        }
    }

    /// Each line was bounded, their sum was not: a body of a few bytes could go on for ever.
    #[test]
    fn extensions_beyond_the_data_are_bounded_for_the_whole_body() {
        let with = |extension: usize, data: usize, chunks: usize| {
            let chunk = format!("{data:x};{}\r\n{}\r\n", "x".repeat(extension), "y".repeat(data));
            let bytes = [chunk.repeat(chunks).as_bytes(), b"0\r\n\r\n"].concat();
            decoded(&bytes, 4_096).map(|(data, ..)| data.len())
        };
        assert_eq!(with(1_000, 1, 16), Ok(16));
        assert!(with(1_000, 1, 17).is_err());
        assert!(with(3_000, 1, 6).is_err());
        // A signature for each chunk of a long body.
        assert_eq!(with(100, 1_000, 500), Ok(500_000));
    }

    /// Line ends were checked in the first 16 KiB only, and the whole section was accepted.
    #[test]
    fn trailers_are_bounded_also_when_they_come_at_once() {
        let trailers = |lines: usize| {
            let line = format!("x: {}\r\n", "y".repeat(995));
            [b"0\r\n", line.repeat(lines).as_bytes(), b"\r\n"].concat()
        };
        assert_eq!(decoded(&trailers(16), 100_000).map(|(_, trailers, _)| trailers), Ok(16));
        assert!(decoded(&trailers(17), 100_000).is_err());
        assert!(decoded(&trailers(17), 1_000).is_err());
    }
}
