use std::ffi::OsString;
use std::fs;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};

/// How large a file may become, and how many of those before it are kept.
#[derive(Clone, Copy, Debug)]
pub(super) struct Rotation {
    pub(super) largest_bytes: u64,
    pub(super) kept: usize,
}

impl Rotation {
    /// How many bytes of `lines` go into a file that has `size`: whole lines only, and none if the first does not fit.
    /// An empty file takes a line of any size, which no other file could take either.
    pub(super) fn fitting(&self, size: u64, lines: &[u8]) -> usize {
        let room = usize::try_from(self.largest_bytes.saturating_sub(size)).unwrap_or(usize::MAX);
        if lines.len() <= room {
            return lines.len();
        }
        let whole = |bytes: &[u8]| bytes.iter().rposition(|byte| *byte == b'\n').map_or(0, |last| last + 1);
        match whole(&lines[..room]) {
            0 if size == 0 => lines.iter().position(|byte| *byte == b'\n').map_or(lines.len(), |first| first + 1),
            fitting => fitting,
        }
    }

    /// Moves the file at `path` to `path.1`, and those that stand in the way one further; the last one goes.
    pub(super) fn make_room(&self, path: &Path) -> io::Result<()> {
        if is_free(path)? {
            return Ok(());
        }
        if self.kept == 0 {
            return fs::remove_file(path);
        }
        // Only up to the first gap: one that an attempt has left which failed half-way must not cost the oldest file.
        let mut last = 1;
        while last < self.kept && !is_free(&numbered(path, last))? {
            last += 1;
        }
        for number in (1..last).rev() {
            fs::rename(numbered(path, number), numbered(path, number + 1))?;
        }
        fs::rename(path, numbered(path, 1))
    }
}

fn numbered(path: &Path, number: usize) -> PathBuf {
    let mut name = OsString::from(path);
    name.push(format!(".{number}"));
    PathBuf::from(name)
}

fn is_free(path: &Path) -> io::Result<bool> {
    match fs::symlink_metadata(path) {
        Ok(_) => Ok(false),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(true),
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use super::Rotation;

    #[test]
    fn whole_lines_fit_or_none() {
        let rotation = Rotation { largest_bytes: 10, kept: 1 };
        for (size, lines, fitting) in [
            (0, "123456789\n", 10),
            (0, "1234\n1234\n1234\n", 10),
            (1, "1234\n1234\n", 5),
            (6, "1234\n1234\n", 0),
            (10, "\n", 0),
            (11, "\n", 0),
            (0, "1234567890\n1\n", 11),
            (1, "1234567890\n1\n", 0),
            (0, "1\n1234567890\n", 2),
            (5, "", 0),
        ] {
            assert_eq!(rotation.fitting(size, lines.as_bytes()), fitting, "{size} {lines:?}");
        }
    }
}
