//! Bodies in chunks: only where they end matters.

use tidegate_http::framing::{Chunked, Part};

use super::NotHttp;

#[derive(Debug, Default)]
pub(super) struct Chunks {
    decoder: Chunked,
    /// The beginning of what stands between chunks, as long as its end has not come.
    held: Vec<u8>,
}

impl Chunks {
    /// Takes what has come; returns how much of it belongs to the body, and whether that has ended.
    pub(super) fn feed(&mut self, bytes: &[u8]) -> Result<(usize, bool), NotHttp> {
        let mut used = 0;
        loop {
            let rest = &bytes[used..];
            if self.held.is_empty() {
                match self.decoder.part(rest).map_err(|_| NotHttp)? {
                    Part::Framing(length) | Part::Data(length) => used += length,
                    Part::Trailers(length) => return Ok((used + length, true)),
                    Part::End => return Ok((used, true)),
                    Part::Partial => {
                        self.held.extend_from_slice(rest);
                        return Ok((bytes.len(), false));
                    }
                }
                continue;
            }
            // What stands between chunks ends with a line: no more than that is held.
            let line = rest.iter().position(|byte| *byte == b'\n').map_or(rest.len(), |end| end + 1);
            self.held.extend_from_slice(&rest[..line]);
            used += line;
            match self.decoder.part(&self.held).map_err(|_| NotHttp)? {
                Part::Framing(_) | Part::Data(_) => self.held.clear(),
                Part::Trailers(_) | Part::End => return Ok((used, true)),
                Part::Partial if used == bytes.len() => return Ok((used, false)),
                Part::Partial => {}
            }
        }
    }
}
