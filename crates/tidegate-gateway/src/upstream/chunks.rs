//! The chunked coding: decoded strictly, encoded plainly.

use std::io::Write as _;

use bytes::{Buf, BufMut, Bytes, BytesMut};
use http::{HeaderMap, HeaderName, HeaderValue};

use super::head::{dashed, is_hop_by_hop, is_ours, starts_with};

/// The longest line of a chunk's size with its extensions, and the longest trailer section.
const LONGEST_LINE: usize = 4 * 1024;
const LONGEST_TRAILERS: usize = 16 * 1024;

/// Where a decoder stands.
#[derive(Debug, Default)]
pub(crate) enum Chunked {
    /// Before a chunk's size.
    #[default]
    Size,
    /// In a chunk: so many bytes are left.
    Data(u64),
    /// Before the line end behind a chunk's data.
    DataEnd,
    /// Behind the last chunk.
    Trailers,
    /// All has been read.
    End,
}

/// What a decoder found.
#[derive(Debug)]
pub(crate) enum Piece {
    Data(Bytes),
    Trailers(HeaderMap),
    End,
    /// It needs more bytes.
    Partial,
}

impl Chunked {
    /// Takes the next piece out of `read`.
    pub(crate) fn decode(&mut self, read: &mut BytesMut) -> Result<Piece, &'static str> {
        loop {
            match self {
                Self::Size => {
                    let Some(line) = take_line(read, LONGEST_LINE)? else { return Ok(Piece::Partial) };
                    *self = match chunk_size(&line)? {
                        0 => Self::Trailers,
                        size => Self::Data(size),
                    };
                }
                Self::Data(left) => {
                    if read.is_empty() {
                        return Ok(Piece::Partial);
                    }
                    let count = usize::try_from(*left).unwrap_or(usize::MAX).min(read.len());
                    *left -= count as u64;
                    if *left == 0 {
                        *self = Self::DataEnd;
                    }
                    return Ok(Piece::Data(read.split_to(count).freeze()));
                }
                Self::DataEnd => match read.get(..2) {
                    Some(b"\r\n") => {
                        read.advance(2);
                        *self = Self::Size;
                    }
                    Some(_) => return Err("a chunk is longer than its size"),
                    None => return Ok(Piece::Partial),
                },
                Self::Trailers => return self.trailers(read),
                Self::End => return Ok(Piece::End),
            }
        }
    }

    fn trailers(&mut self, read: &mut BytesMut) -> Result<Piece, &'static str> {
        if read.starts_with(b"\r\n") {
            read.advance(2);
            *self = Self::End;
            return Ok(Piece::End);
        }
        let mut fields = [httparse::EMPTY_HEADER; 32];
        if !ends_in_crlf(read.get(..LONGEST_TRAILERS).unwrap_or(read)) {
            // Whoever insists on CR LF would see another end of this message, and another beginning of the next.
            return Err("a trailer does not end in CR LF");
        }
        match httparse::parse_headers(read, &mut fields) {
            Ok(httparse::Status::Complete((length, fields))) => {
                let mut trailers = HeaderMap::with_capacity(fields.len());
                for field in fields {
                    let name = HeaderName::from_bytes(field.name.as_bytes()).map_err(|_| "a trailer's name is none")?;
                    let value = HeaderValue::from_bytes(field.value).map_err(|_| "a trailer's value is none")?;
                    trailers.append(name, value);
                }
                read.advance(length);
                *self = Self::End;
                Ok(Piece::Trailers(trailers))
            }
            Ok(httparse::Status::Partial) if read.len() <= LONGEST_TRAILERS => Ok(Piece::Partial),
            Ok(httparse::Status::Partial) => Err("the trailers are too long"),
            Err(_) => Err("the trailers can't be read"),
        }
    }
}

/// Whether every line in it, up to the empty one, ends in CR LF: a bare LF is an end to some and none to others.
pub(crate) fn ends_in_crlf(head: &[u8]) -> bool {
    let mut line = 0;
    for end in memchr::memchr_iter(b'\n', head) {
        if end == line || head[end - 1] != b'\r' {
            return false;
        }
        if end == line + 1 {
            return true;
        }
        line = end + 1;
    }
    true
}

/// A whole line without its end, which must be CR LF.
fn take_line(read: &mut BytesMut, longest: usize) -> Result<Option<BytesMut>, &'static str> {
    let Some(end) = read.iter().take(longest).position(|byte| *byte == b'\n') else {
        return if read.len() >= longest { Err("a chunk's size is too long") } else { Ok(None) };
    };
    let mut line = read.split_to(end + 1);
    line.truncate(end);
    if line.last() != Some(&b'\r') {
        return Err("a chunk's size does not end in CR LF");
    }
    line.truncate(end - 1);
    Ok(Some(line))
}

fn chunk_size(line: &[u8]) -> Result<u64, &'static str> {
    let digits = line.iter().take_while(|byte| byte.is_ascii_hexdigit()).count();
    let (number, rest) = line.split_at(digits);
    let blanks = rest.iter().take_while(|byte| matches!(byte, b' ' | b'\t')).count();
    let extension_begins = matches!(rest.get(blanks), None | Some(b';'));
    if !(1..=15).contains(&digits) || !extension_begins || rest.contains(&b'\r') {
        return Err("a chunk's size is no number");
    }
    let digit = |byte: &u8| u64::from(char::from(*byte).to_digit(16).unwrap_or(0));
    Ok(number.iter().fold(0, |size, byte| size * 16 + digit(byte)))
}

/// The line before a chunk's data.
pub(crate) fn write_size(out: &mut impl BufMut, size: usize) {
    let mut digits = [0; 16];
    let mut rest = &mut digits[..];
    // Sixteen digits hold every size.
    let _written = write!(rest, "{size:x}");
    let unused = rest.len();
    out.put_slice(&digits[..16 - unused]);
    out.put_slice(b"\r\n");
}

/// What ends a chunked body.
pub(crate) fn write_end(out: &mut impl BufMut, trailers: Option<&HeaderMap>) {
    out.put_slice(b"0\r\n");
    for (name, value) in trailers.into_iter().flatten().filter(|(name, _)| is_fit_for_trailers(name)) {
        out.put_slice(name.as_str().as_bytes());
        out.put_slice(b": ");
        out.put_slice(value.as_bytes());
        out.put_slice(b"\r\n");
    }
    out.put_slice(b"\r\n");
}

/// RFC 9110 §6.5.1: what concerns framing, routing, authentication or the content itself can't come in trailers.
pub(crate) fn is_fit_for_trailers(name: &HeaderName) -> bool {
    use http::header;
    let meant = dashed(name.as_str().as_bytes());
    let Ok(meant_name) = HeaderName::from_bytes(&meant) else { return false };
    !is_hop_by_hop(&meant)
        && !is_ours(&meant)
        && !starts_with(&meant, b"x-forwarded-")
        && !matches!(
            meant_name,
            header::AUTHORIZATION
                | header::CONTENT_ENCODING
                | header::CONTENT_TYPE
                | header::CONTENT_RANGE
                | header::SET_COOKIE
                | header::COOKIE
                | header::CACHE_CONTROL
                | header::RANGE
                | header::WWW_AUTHENTICATE
                | header::TRAILER
        )
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Everything a decoder finds when the bytes come in pieces of `step`.
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
    fn what_is_ambiguous_is_refused() {
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
        ] {
            assert!(decoded(wrong, 100).is_err(), "{:?}", String::from_utf8_lossy(wrong));
        }
        let long = [b"5;".to_vec(), vec![b'x'; LONGEST_LINE]].concat();
        assert!(decoded(&long, 512).is_err());
    }
}
