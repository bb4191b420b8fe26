//! Tables in files: CSV, with or without a first line of names.

use std::fs::File;
use std::io::Read as _;
use std::path::Path;

use crate::csv::Cells;
use crate::moment;
use crate::problems::shortened;

/// The most entries of a file.
const MOST_ENTRIES: usize = 1_000_000;
/// The most columns of a line.
const MOST_COLUMNS: usize = 1_000;
/// The most bytes of a file.
pub const MOST_BYTES: u64 = 64 << 20;

/// All of a file, if it is not too long.
pub fn bytes(path: &Path, most: u64) -> Result<Vec<u8>, String> {
    let at_file = |reason: String| format!("{}: {reason}", path.display());
    let mut bytes = Vec::new();
    let file = File::open(path).map_err(|error| at_file(format!("can't be opened: {error}")))?;
    file.take(most + 1).read_to_end(&mut bytes).map_err(|error| at_file(format!("can't be read: {error}")))?;
    if bytes.len() as u64 > most {
        return Err(at_file(format!("is longer than {} MiB", most >> 20)));
    }
    Ok(bytes)
}

/// Which of a file's columns.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Column {
    /// The one of this name in the first line.
    Named(String),
    /// From 0 on.
    At(usize),
    /// The first.
    First,
    /// The last.
    Last,
}

/// A line of a file that has an entry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Row {
    /// Its number, from 1 on.
    pub line: usize,
    /// The entry.
    pub value: String,
    /// The first column, if that is another one.
    pub first: Option<String>,
}

/// A line and what is wrong with it.
pub type BadLine = (usize, String);

/// The entries of a column. Empty lines and those that begin with `#` are skipped, and so is a first line of names.
pub fn rows(text: &[u8], column: &Column) -> Result<Vec<Row>, BadLine> {
    let text = text.strip_prefix(b"\xef\xbb\xbf").unwrap_or(text);
    let (mut rows, mut index) = (Vec::new(), None);
    for (number, line) in text.split(|byte| *byte == b'\n').enumerate().map(|(index, line)| (index + 1, line)) {
        let line = str::from_utf8(line).map_err(|_| (number, "is not UTF-8".to_owned()))?.trim();
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let fields = fields(line).map_err(|reason| (number, reason))?;
        let Some(index) = index else {
            let found = find(&fields, column).map_err(|reason| (number, reason))?;
            index = Some(found);
            // A first line without an entry names the columns.
            let is_entry = |value: &String| value.parse::<f64>().is_ok() || moment::unix_nanos(value).is_some();
            let is_entry = fields.get(found).is_some_and(is_entry);
            if !matches!(column, Column::Named(_)) && is_entry {
                rows.push(row(number, fields, found)?);
            }
            continue;
        };
        if rows.len() == MOST_ENTRIES {
            return Err((number, format!("the file must have at most {MOST_ENTRIES} entries, got more")));
        }
        rows.push(row(number, fields, index)?);
    }
    Ok(rows)
}

fn fields(line: &str) -> Result<Vec<String>, String> {
    let mut fields = Vec::new();
    for cell in Cells::new(line, ',').with_blanks() {
        fields.push(cell.map_err(|reason| reason.to_string())?.value().into_owned());
        if fields.len() > MOST_COLUMNS {
            return Err(format!("has more than {MOST_COLUMNS} columns"));
        }
    }
    Ok(fields)
}

fn find(fields: &[String], column: &Column) -> Result<usize, String> {
    match column {
        Column::First => Ok(0),
        Column::Last => Ok(fields.len() - 1),
        Column::At(index) => Ok(*index),
        Column::Named(name) => fields
            .iter()
            .position(|field| field == name)
            .ok_or_else(|| format!("has no column {name:?}; there are: {}", shortened(&fields.join(", ")))),
    }
}

fn row(line: usize, mut fields: Vec<String>, index: usize) -> Result<Row, BadLine> {
    if index >= fields.len() {
        let columns = if fields.len() == 1 { "column" } else { "columns" };
        return Err((line, format!("has {} {columns}; the entry is in number {}", fields.len(), index + 1)));
    }
    let first = (index > 0).then(|| std::mem::take(&mut fields[0]));
    Ok(Row { line, value: fields.swap_remove(index), first })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_bounded() {
        assert_eq!(fields(&",".repeat(999)).map(|fields| fields.len()), Ok(1_000));
        assert_eq!(fields(&",".repeat(1_000)), Err("has more than 1000 columns".to_owned()));
    }
}
