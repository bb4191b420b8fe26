//! Tables in Markdown.

pub(super) struct Table {
    header: Vec<String>,
    pub(super) rows: Vec<Row>,
}

pub(super) struct Row {
    cells: Vec<String>,
    line: usize,
}

impl Table {
    /// The first table whose first column is called `first`.
    pub(super) fn find(markdown: &str, first: &str) -> Option<Self> {
        let lines = markdown.lines().enumerate();
        let mut lines = lines.skip_while(|(_, line)| cells(line).is_none_or(|header| header[0] != first));
        let header = cells(lines.next()?.1)?;
        let row = |(index, line)| Some(Row { cells: cells(line)?, line: index + 1 });
        Some(Self { header, rows: lines.skip(1).map_while(row).collect() })
    }

    pub(super) fn column(&self, name: &str) -> Option<usize> {
        self.header.iter().position(|header| header == name)
    }
}

impl Row {
    /// A cell without what stands in parentheses.
    pub(super) fn cell(&self, column: usize) -> String {
        let mut depth = 0_usize;
        let mut text = String::new();
        for letter in self.cells.get(column).map_or("", String::as_str).chars() {
            match letter {
                '(' => depth += 1,
                ')' => depth = depth.saturating_sub(1),
                _ if depth == 0 => text.push(letter),
                _ => {}
            }
        }
        text
    }

    /// A message about this row.
    pub(super) fn message(&self, text: &str) -> String {
        format!("ARCHITECTURE.md:{}: row {}: {text}", self.line, self.cells[0])
    }
}

/// The words of a cell: letters, digits, `-` and `_`.
pub(super) fn words(cell: &str) -> Vec<String> {
    let is_apart = |letter: char| !(letter.is_alphanumeric() || letter == '-' || letter == '_');
    cell.split(is_apart).filter(|word| !word.is_empty()).map(str::to_owned).collect()
}

/// The cells of a row of a table.
fn cells(line: &str) -> Option<Vec<String>> {
    let row = line.trim().strip_prefix('|')?;
    let row = row.strip_suffix('|').unwrap_or(row);
    Some(row.split('|').map(|cell| cell.trim().to_owned()).collect())
}
