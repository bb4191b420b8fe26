//! Lines of comma-separated values.
//!
//! Read here and not by the `csv` crate, which has no strict mode: it lets a quote run on over the end of its line,
//! joins what follows a closing quote to it, and takes a quote after a blank for text.

use std::borrow::Cow;
use std::fmt;

/// The cells of a line, one after the other. One in quotes may have separators in it, and quotes that stand twice.
#[derive(Clone, Debug)]
pub struct Cells<'a> {
    rest: Option<&'a str>,
    separator: char,
    blanks: bool,
}

/// A cell as it is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cell<'a> {
    /// All of it, blanks at its ends too.
    Plain(&'a str),
    /// What stands between the quotes; a quote within it stands twice.
    Quoted(&'a str),
}

/// Why a line can't be read: `{line} {reason}` is a sentence.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BadCell {
    /// A quote without the one that closes it.
    NoEnd,
    /// Neither a separator nor the end of the line follows a quote that closes.
    AfterQuote,
}

impl fmt::Display for BadCell {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NoEnd => "has a quote that does not end",
            Self::AfterQuote => "has something between a quote and the next comma",
        })
    }
}

impl<'a> Cells<'a> {
    /// Of a line without its end. A quote stands at the very beginning of its cell.
    pub fn new(line: &'a str, separator: char) -> Self {
        Self { rest: Some(line), separator, blanks: false }
    }

    /// The same, with blanks allowed before and after quotes.
    #[must_use]
    pub fn with_blanks(self) -> Self {
        Self { blanks: true, ..self }
    }

    /// A cell after its opening quote, and what follows its closing one.
    fn quoted(&self, text: &'a str) -> Result<(&'a str, &'a str), BadCell> {
        let mut from = 0;
        loop {
            let end = from + text[from..].find('"').ok_or(BadCell::NoEnd)?;
            let after = &text[end + 1..];
            if after.starts_with('"') {
                from = end + 2;
            } else {
                return Ok((&text[..end], if self.blanks { after.trim_start() } else { after }));
            }
        }
    }
}

impl<'a> Iterator for Cells<'a> {
    type Item = Result<Cell<'a>, BadCell>;

    fn next(&mut self) -> Option<Self::Item> {
        let rest = self.rest.take()?;
        let start = if self.blanks { rest.trim_start() } else { rest };
        let Some(quoted) = start.strip_prefix('"') else {
            let (cell, after) = match rest.split_once(self.separator) {
                Some((cell, after)) => (cell, Some(after)),
                None => (rest, None),
            };
            self.rest = after;
            return Some(Ok(Cell::Plain(cell)));
        };
        let (cell, after) = match self.quoted(quoted) {
            Ok(read) => read,
            Err(reason) => return Some(Err(reason)),
        };
        self.rest = after.strip_prefix(self.separator);
        let is_whole = self.rest.is_some() || after.is_empty();
        Some(if is_whole { Ok(Cell::Quoted(cell)) } else { Err(BadCell::AfterQuote) })
    }
}

impl<'a> Cell<'a> {
    /// As it is written, without the quotes around it: the quick way, where no value has quotes in it.
    pub fn written(self) -> &'a str {
        match self {
            Self::Plain(text) | Self::Quoted(text) => text,
        }
    }

    /// What it means: without blanks around it unless they are quoted, and each quote in it once.
    pub fn value(self) -> Cow<'a, str> {
        match self {
            Self::Plain(text) => text.trim().into(),
            Self::Quoted(text) if text.contains('"') => text.replace("\"\"", "\"").into(),
            Self::Quoted(text) => text.into(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What a line's cells mean; the reason in place of the first that can't be read.
    fn read(cells: Cells<'_>) -> Vec<String> {
        cells.map(|cell| cell.map_or_else(|reason| reason.to_string(), |cell| cell.value().into_owned())).collect()
    }

    const NO_END: &str = "has a quote that does not end";
    const AFTER: &str = "has something between a quote and the next comma";

    /// With blanks around quotes, as tables may have them, and without, as logs are read.
    #[test]
    fn lines_are_read_as_tables_and_as_logs() {
        for (line, table, log) in [
            ("a", &["a"][..], &["a"][..]),
            ("", &[""], &[""]),
            ("a, b ,c", &["a", "b", "c"], &["a", "b", "c"]),
            ("a,,", &["a", "", ""], &["a", "", ""]),
            ("a b,c\td", &["a b", "c\td"], &["a b", "c\td"]),
            ("\"a,b\",c", &["a,b", "c"], &["a,b", "c"]),
            ("\"\"", &[""], &[""]),
            ("\"\",\"\"", &["", ""], &["", ""]),
            ("\" a \",b", &[" a ", "b"], &[" a ", "b"]),
            ("\"\"\"\"", &["\""], &["\""]),
            ("\"a\"\",\"\"b\"", &["a\",\"b"], &["a\",\"b"]),
            ("5\" disk,b\"", &["5\" disk", "b\""], &["5\" disk", "b\""]),
            ("x,\"say \"\"a\"\"\",y", &["x", "say \"a\"", "y"], &["x", "say \"a\"", "y"]),
            ("x, \"say\" ,y", &["x", "say", "y"], &["x", "\"say\"", "y"]),
            ("x, \"a,b\"", &["x", "a,b"], &["x", "\"a", "b\""]),
            ("\"a\" ,b", &["a", "b"], &[AFTER]),
            ("\"a\"b,c", &[AFTER], &[AFTER]),
            ("a,\"b\"\"", &["a", NO_END], &["a", NO_END]),
            ("\"a", &[NO_END], &[NO_END]),
            ("a,\"", &["a", NO_END], &["a", NO_END]),
            ("ä,\"ö,ü\",速", &["ä", "ö,ü", "速"], &["ä", "ö,ü", "速"]),
        ] {
            assert_eq!(read(Cells::new(line, ',').with_blanks()), table, "a table's {line}");
            assert_eq!(read(Cells::new(line, ',')), log, "a log's {line}");
        }
        assert_eq!(read(Cells::new("a,b;\"c;d\"", ';')), ["a,b", "c;d"]);
        assert_eq!(read(Cells::new("a\t\"b\"\tc d", '\t')), ["a", "b", "c d"]);
    }

    #[test]
    fn a_cell_is_also_read_as_it_is_written() {
        let cells: Vec<&str> =
            Cells::new(" a ,\"b \"\"c\"\"\"", ',').map(|cell| cell.expect("a cell").written()).collect();
        assert_eq!(cells, [" a ", "b \"\"c\"\""]);
    }
}
