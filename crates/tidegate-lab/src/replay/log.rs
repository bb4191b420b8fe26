//! Logs, line by line: their format, and the lines that can't be read. Memory does not grow with them.

use std::fs::{self, File};
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use memchr::memchr;
use tidegate_input::log_times::LogTimes;

use super::csv::Columns;
use super::fields::Names;
use super::line::{BadLine, LONGEST, Line};
use super::pipe::Pipe;
use super::{combined, json};

/// Where requests are read from.
#[derive(Clone, Debug)]
pub struct Log {
    /// Files, read one after the other; `-` is standard input.
    pub files: Vec<PathBuf>,
    /// Their format; by default the first line decides.
    pub format: Option<Format>,
    /// The names of their fields.
    pub names: Names,
}

/// How lines are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// Common or combined, as Apache and nginx have it.
    Common,
    /// An object a line.
    Json,
    /// Values a line.
    Csv,
}

impl Format {
    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Common => "common or combined",
            Self::Json => "json",
            Self::Csv => "csv",
        }
    }
}

/// What was read.
#[derive(Clone, Debug, Default)]
pub struct ReadSoFar {
    /// The format of the first file.
    pub format: Option<Format>,
    /// Lines, empty ones and those with names of columns not counted.
    pub lines: u64,
    /// How many of them can't be read.
    pub bad_lines: u64,
    /// The first of them.
    pub bad: Vec<Bad>,
}

/// A line that can't be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Bad {
    /// In which file.
    pub file: String,
    /// Its number.
    pub line: u64,
    /// Why.
    pub reason: BadLine,
}

/// How many bad lines are reported.
const MOST_BAD: usize = 10;
const CHUNK: usize = 1 << 20;
/// What some programs put before a text, and how files of gzip begin.
const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";
const COMPRESSED: &[u8] = b"\x1f\x8b";

impl Log {
    /// Reads everything, each request to `each`, until `is_stopped`. An error says which file, and why.
    pub fn read(&self, is_stopped: &AtomicBool, mut each: impl FnMut(&Line<'_>)) -> Result<ReadSoFar, String> {
        let mut read = ReadSoFar::default();
        for path in self.oldest_first() {
            if is_stopped.load(Relaxed) {
                break;
            }
            self.read_one(&path, is_stopped, &mut read, &mut each)
                .map_err(|reason| format!("{}: {reason}", path.display()))?;
        }
        Ok(read)
    }

    fn read_one(
        &self,
        path: &Path,
        is_stopped: &AtomicBool,
        read: &mut ReadSoFar,
        each: &mut impl FnMut(&Line<'_>),
    ) -> Result<(), String> {
        let input: Box<dyn Read + '_> = if is_standard_input(path) {
            Box::new(Pipe::open(None, is_stopped).map_err(|error| error.to_string())?)
        } else if fs::metadata(path).map_err(|error| error.to_string())?.is_file() {
            Box::new(File::open(path).map_err(|error| error.to_string())?)
        } else {
            Box::new(Pipe::open(Some(path.to_owned()), is_stopped).map_err(|error| error.to_string())?)
        };
        let name = path.display().to_string();
        OneFile { log: self, name: &name, parser: None, line: 0, read }.read(input, is_stopped, each)
    }

    /// Whether it can be read again.
    pub fn is_repeatable(&self) -> bool {
        self.files.iter().all(|path| !is_standard_input(path) && path.is_file())
    }

    /// Files in the order of their first times, because rotated logs are listed in any order. In the order given, if
    /// one of them has no time.
    fn oldest_first(&self) -> Vec<PathBuf> {
        if self.files.len() < 2 || !self.is_repeatable() {
            return self.files.clone();
        }
        let dated: Option<Vec<_>> =
            self.files.iter().map(|path| Some((self.first_time(path)?, path.clone()))).collect();
        let Some(mut dated) = dated else { return self.files.clone() };
        dated.sort_by_key(|(time, _)| *time);
        dated.into_iter().map(|(_, path)| path).collect()
    }

    /// When the first request of a file was, if that is among its first lines.
    fn first_time(&self, path: &Path) -> Option<u64> {
        let start = File::open(path).ok()?.take(LONGEST as u64);
        let mut first = None;
        let (never, mut read) = (AtomicBool::new(false), ReadSoFar::default());
        let mut file = OneFile { log: self, name: "", parser: None, line: 0, read: &mut read };
        file.read(start, &never, &mut |line| first = first.or(Some(line.time))).ok()?;
        first
    }
}

fn is_standard_input(path: &Path) -> bool {
    path.as_os_str() == "-"
}

/// Reads lines of one format.
enum Parser {
    Common,
    Json(json::Shapes),
    Csv(Columns),
}

struct OneFile<'a> {
    log: &'a Log,
    name: &'a str,
    parser: Option<Parser>,
    line: u64,
    read: &'a mut ReadSoFar,
}

impl OneFile<'_> {
    fn read(
        &mut self,
        mut input: impl Read,
        is_stopped: &AtomicBool,
        each: &mut impl FnMut(&Line<'_>),
    ) -> Result<(), String> {
        let (mut buffer, mut filled, mut is_skipping) = (vec![0; CHUNK], 0, false);
        let (mut times, mut scratch) = (LogTimes::default(), String::new());
        loop {
            let length = match input.read(&mut buffer[filled..]) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                read => read.map_err(|error| error.to_string())?,
            };
            let is_end = length == 0 || is_stopped.load(Relaxed);
            filled += length;
            let mut start = 0;
            while let Some(end) = memchr(b'\n', &buffer[start..filled]).map(|at| start + at) {
                if !std::mem::take(&mut is_skipping) {
                    self.line(&buffer[start..end], &mut times, &mut scratch, each)?;
                }
                start = end + 1;
            }
            buffer.copy_within(start..filled, 0);
            filled -= start;
            if is_end {
                if filled > 0 && !is_skipping && length == 0 {
                    self.line(&buffer[..filled], &mut times, &mut scratch, each)?;
                }
                return Ok(());
            }
            if filled > LONGEST {
                if !is_skipping {
                    self.line += 1;
                    self.read.lines += 1;
                    self.bad(BadLine::TooLong);
                }
                (is_skipping, filled) = (true, 0);
            }
        }
    }

    fn line(
        &mut self,
        bytes: &[u8],
        times: &mut LogTimes,
        scratch: &mut String,
        each: &mut impl FnMut(&Line<'_>),
    ) -> Result<(), String> {
        self.line += 1;
        if self.line == 1 && bytes.starts_with(COMPRESSED) {
            return Err("compressed; decompress it first, for instance with zcat into a pipe".to_owned());
        }
        let bytes = bytes.strip_suffix(b"\r").unwrap_or(bytes);
        let bytes = if self.line == 1 { bytes.strip_prefix(BYTE_ORDER_MARK).unwrap_or(bytes) } else { bytes };
        if bytes.trim_ascii().is_empty() {
            return Ok(());
        }
        let text = match str::from_utf8(bytes) {
            Ok(text) if bytes.len() <= LONGEST => text,
            text => {
                self.read.lines += 1;
                self.bad(if text.is_ok() { BadLine::TooLong } else { BadLine::NotText });
                return Ok(());
            }
        };
        if self.parser.is_none() {
            let (parser, is_request) = self.parser_of(text, times)?;
            self.parser = Some(parser);
            if !is_request {
                return Ok(());
            }
        }
        self.read.lines += 1;
        let read = match &mut self.parser {
            Some(Parser::Json(shapes)) => json::read(text, &self.log.names, shapes, times, scratch),
            Some(Parser::Csv(columns)) => columns.read(text, times),
            Some(Parser::Common) | None => combined::read(text, times),
        };
        match read {
            Ok(line) => each(&line),
            Err(reason) => self.bad(reason),
        }
        Ok(())
    }

    /// What reads this file, by its first line; and whether that is a request.
    fn parser_of(&mut self, first: &str, times: &mut LogTimes) -> Result<(Parser, bool), String> {
        let columns = || Columns::of(first, &self.log.names);
        let found = match self.log.format {
            Some(Format::Common) => Some((Parser::Common, true)),
            Some(Format::Json) => Some((Parser::Json(json::Shapes::default()), true)),
            Some(Format::Csv) => columns()?.map(|(columns, is_request)| (Parser::Csv(columns), is_request)),
            None if first.trim_start().starts_with('{') => Some((Parser::Json(json::Shapes::default()), true)),
            None if looks_common(first, times) => Some((Parser::Common, true)),
            None => columns()?.map(|(columns, is_request)| (Parser::Csv(columns), is_request)),
        };
        let Some(found) = found else {
            let line = self.line;
            return Err(if self.log.format == Some(Format::Csv) {
                format!(
                    "line {line} must begin with a time or name the columns, with one for the time; \
                     --field time=NAME declares that one"
                )
            } else {
                format!(
                    "line {line} has an unknown format; known formats: common, combined, JSON, CSV; --format sets it"
                )
            });
        };
        let format = match found.0 {
            Parser::Common => Format::Common,
            Parser::Json(_) => Format::Json,
            Parser::Csv(_) => Format::Csv,
        };
        self.read.format.get_or_insert(format);
        Ok(found)
    }

    fn bad(&mut self, reason: BadLine) {
        self.read.bad_lines += 1;
        if self.read.bad.len() < MOST_BAD {
            self.read.bad.push(Bad { file: self.name.to_owned(), line: self.line, reason });
        }
    }
}

/// Also if its request can't be read: the first line may come from a port scanner.
fn looks_common(line: &str, times: &mut LogTimes) -> bool {
    matches!(combined::read(line, times), Ok(_) | Err(BadLine::Request))
}
