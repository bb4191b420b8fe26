//! Reading HTTP/1 messages.

use std::io::BufRead;

/// The first line and the headers (names in lower case); none if the connection ends before.
pub fn read_head(stream: &mut impl BufRead) -> Option<(String, Vec<(String, String)>)> {
    let mut lines = Vec::new();
    loop {
        let mut line = String::new();
        if stream.read_line(&mut line).ok()? == 0 {
            return None;
        }
        let line = line.trim_end_matches(['\r', '\n']).to_owned();
        if line.is_empty() {
            break;
        }
        lines.push(line);
    }
    let mut lines = lines.into_iter();
    let first = lines.next()?;
    let field =
        |line: String| line.split_once(':').map(|(name, value)| (name.to_ascii_lowercase(), value.trim().to_owned()));
    Some((first, lines.filter_map(field).collect()))
}

/// A chunked body; none if the connection ends within it.
pub(crate) fn read_chunks(stream: &mut impl BufRead) -> Option<Vec<u8>> {
    let mut body = Vec::new();
    loop {
        let mut line = String::new();
        stream.read_line(&mut line).ok()?;
        let size = usize::from_str_radix(line.trim().split(';').next()?, 16).ok()?;
        if size == 0 {
            break;
        }
        let start = body.len();
        body.resize(start + size, 0);
        stream.read_exact(&mut body[start..]).ok()?;
        stream.read_line(&mut String::new()).ok()?;
    }
    // Trailers, up to the empty line.
    loop {
        let mut line = String::new();
        if stream.read_line(&mut line).ok()? == 0 || line.trim().is_empty() {
            return Some(body);
        }
    }
}
