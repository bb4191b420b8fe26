//! Bodies in chunks, of which only the end matters.

use super::NotHttp;

/// The longest line between chunks, extensions included; trailers count line by line.
const LONGEST_LINE: usize = 4_096;

#[derive(Debug, Default)]
pub(super) struct Chunks {
    stage: Stage,
    /// How much of the line has been read.
    line: usize,
}

#[derive(Clone, Copy, Debug)]
enum Stage {
    /// The digits of a size, of which there is one at least.
    Size { size: u64, has_digits: bool },
    /// What follows them on their line.
    Extension(u64),
    /// So much of a chunk is left.
    Data(u64),
    /// The line break after a chunk.
    AfterData,
    /// Lines after the last chunk; an empty one is the end.
    Trailer { is_empty: bool },
}

impl Default for Stage {
    fn default() -> Self {
        Self::Size { size: 0, has_digits: false }
    }
}

impl Chunks {
    /// Takes what has come; says how much of it belongs to the body, and whether that has ended.
    pub(super) fn feed(&mut self, bytes: &[u8]) -> Result<(usize, bool), NotHttp> {
        let mut used = 0;
        while used < bytes.len() {
            if let Stage::Data(left) = self.stage {
                let part = (bytes.len() - used).min(usize::try_from(left).unwrap_or(usize::MAX));
                used += part;
                let left = left - part as u64;
                self.stage = if left == 0 { Stage::AfterData } else { Stage::Data(left) };
                continue;
            }
            let is_end = self.step(bytes[used])?;
            used += 1;
            if is_end {
                return Ok((used, true));
            }
        }
        Ok((used, false))
    }

    /// One byte between chunks.
    fn step(&mut self, byte: u8) -> Result<bool, NotHttp> {
        self.line = if byte == b'\n' { 0 } else { self.line + 1 };
        if self.line > LONGEST_LINE {
            return Err(NotHttp);
        }
        self.stage = match (self.stage, byte) {
            (Stage::Size { size, has_digits: true } | Stage::Extension(size), b'\n') => match size {
                0 => Stage::Trailer { is_empty: true },
                size => Stage::Data(size),
            },
            (Stage::Size { size, .. }, _) if byte.is_ascii_hexdigit() => {
                let digit = char::from(byte).to_digit(16).ok_or(NotHttp)?;
                Stage::Size { size: size.checked_mul(16).ok_or(NotHttp)? + u64::from(digit), has_digits: true }
            }
            (Stage::Size { size, has_digits: true }, b';' | b'\r' | b' ' | b'\t') | (Stage::Extension(size), _) => {
                Stage::Extension(size)
            }
            (Stage::AfterData, b'\r') => Stage::AfterData,
            (Stage::AfterData, b'\n') => Stage::default(),
            (Stage::Trailer { is_empty: true }, b'\n') => return Ok(true),
            (Stage::Trailer { is_empty }, b'\r') => Stage::Trailer { is_empty },
            (Stage::Trailer { .. }, _) => Stage::Trailer { is_empty: byte == b'\n' },
            _ => return Err(NotHttp),
        };
        Ok(false)
    }
}
