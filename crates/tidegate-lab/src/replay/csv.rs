//! Lines of CSV files: a request each, with a time at least. Columns are known by the names in the first line; without
//! such a line the first one is the time.

use tidegate_input::csv::{Cell, Cells};
use tidegate_input::log_times::{self, LogTimes};

use super::fields::{Names, Role};
use super::line::{BadLine, Line};
use super::line_fields::{LineFields, Use};

const NOT_ONE: BadLine = BadLine::NotOne("CSV with the columns of its first line");

/// The columns of a file and their uses.
#[derive(Clone, Debug)]
pub(super) struct Columns {
    separator: char,
    uses: Vec<Option<Use>>,
}

impl Columns {
    /// By a file's first line; also whether that is a request itself. `None` if it has neither names nor a time. An
    /// error is a declared name that no column has.
    pub(super) fn of(first: &str, names: &Names) -> Result<Option<(Self, bool)>, String> {
        let Some((separator, cells)) = cells(first) else { return Ok(None) };
        if cells.first().is_some_and(|cell| log_times::any(cell.trim()).is_some()) {
            return Ok(Some((Self { separator, uses: vec![Some(Use::Role(Role::Time))] }, true)));
        }
        let uses: Vec<_> = cells.iter().map(|name| Use::of(name.trim(), names)).collect();
        let is_time =
            |what: &Use| matches!(what, Use::Role(Role::Time | Role::Start | Role::StartEnvoy | Role::StartTraefik));
        if !uses.iter().flatten().any(is_time) {
            return Ok(None);
        }
        match names.declared_but_not_in(&cells) {
            Some(name) => Err(format!("unknown column {name:?}; known columns: {}", cells.join(", "))),
            None => Ok(Some((Self { separator, uses }, false))),
        }
    }

    /// Reads a line. A time is when a request came.
    pub(super) fn read<'a>(&self, line: &'a str, times: &mut LogTimes) -> Result<Line<'a>, BadLine> {
        let mut fields = LineFields::default();
        let mut cells = Cells::new(line, self.separator);
        for what in &self.uses {
            // Short lines lack the last columns.
            let Some(cell) = cells.next() else { break };
            // Quotes within a cell stay doubled; no value that matters here has any.
            let cell = cell.map_err(|_| NOT_ONE)?.written();
            if let Some(what) = what {
                fields.put(*what, cell.trim());
            }
        }
        fields.line(false, times)
    }
}

/// The most frequent separator of a line, and its cells.
fn cells(line: &str) -> Option<(char, Vec<&str>)> {
    let separator = [',', ';', '\t'].into_iter().max_by_key(|separator| line.matches(*separator).count())?;
    let cells = Cells::new(line, separator).map(|cell| cell.map(Cell::written));
    Some((separator, cells.collect::<Result<_, _>>().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn columns(first: &str) -> Option<(Columns, bool)> {
        Columns::of(first, &Names::default()).expect("no name was declared")
    }

    #[test]
    fn a_declared_name_must_be_there() {
        let mut names = Names::default();
        names.declare("client=customer").expect("a declaration");
        let error = Columns::of("time,costumer", &names).err().unwrap_or_default();
        assert_eq!(error, "unknown column \"customer\"; known columns: time, costumer");
        assert!(Columns::of("time,Customer", &names).is_ok_and(|found| found.is_some()));
    }

    #[test]
    fn a_date_and_a_clock_are_a_time_together() {
        let (columns, _) = columns("date,time,path").expect("columns");
        let mut times = LogTimes::default();
        let line = columns.read("2023-11-16,18:15:46,/x", &mut times).expect("a line");
        assert_eq!((line.time, line.path()), (1_700_158_546_000_000_000, "/x"));
        assert_eq!(columns.read("2023-11-16,,/x", &mut times), Err(BadLine::Time), "a day is not enough");
    }

    #[test]
    fn columns_are_known_by_their_names() {
        let (columns, is_request) = columns("TIMESTAMP;Client;\"Path\";tokens;duration").expect("columns");
        assert!(!is_request);
        let mut times = LogTimes::default();
        let line = columns.read("2023-11-16 18:15:46.5;10.0.0.1;\"/a;b\";374;0.5", &mut times).expect("a line");
        assert_eq!((line.time, line.client, line.path()), (1_700_158_546_500_000_000, "10.0.0.1", "/a;b"));
        assert_eq!((line.took, line.is_end), (Some(500_000_000), false), "a time is when it came");
        let short = columns.read("2023-11-16 18:15:46.5;10.0.0.1", &mut times).expect("a line");
        assert_eq!((short.client, short.path()), ("10.0.0.1", "/"));
    }

    #[test]
    fn times_alone_need_no_names() {
        let (columns, is_request) = columns("1700158546.25").expect("a time");
        assert!(is_request);
        let mut times = LogTimes::default();
        let time = |line: &str, times: &mut LogTimes| columns.read(line, times).map(|line| line.time);
        assert_eq!(time("1700158547", &mut times), Ok(1_700_158_547_000_000_000));
        assert_eq!(time("soon", &mut times), Err(BadLine::Time));
        assert_eq!(time("", &mut times), Err(BadLine::NoTime));
        assert_eq!(time("\"1", &mut times), Err(NOT_ONE));
        assert_eq!(time("\"1\"x", &mut times), Err(NOT_ONE));
    }

    #[test]
    fn a_first_line_without_a_time_is_none() {
        assert!(columns("a,b,c").is_none() && columns("").is_none() && columns("\"time").is_none());
    }
}
