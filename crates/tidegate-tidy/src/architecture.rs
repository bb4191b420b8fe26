//! The tables of ARCHITECTURE.md that say what may use what.
//!
//! | table | first column | other columns |
//! |---|---|---|
//! | crates | `crate`: its name | `depends on` or `may use`: names of crates, without `tidegate-` |
//! | layers of the gateway | `layer`: its name | `modules`: top-level modules; `may use`: names of layers |
//!
//! Names are taken from the text of a cell, so it may explain them: what stands in parentheses is not read. In the
//! table of crates a name in backquotes is a crate from elsewhere, unless it begins with `tidegate`. `all below` names
//! every later row. A layer without a column `modules` is the module of its own name.

use std::collections::{BTreeMap, BTreeSet};

/// Groups, such as crates or layers, what belongs to each, and which others each may use.
#[derive(Debug, Default)]
pub struct Permissions {
    /// The group of each member.
    groups: BTreeMap<String, String>,
    permitted: BTreeSet<(String, String)>,
}

impl Permissions {
    /// The layer of a module.
    pub fn group_of(&self, member: &str) -> Option<&str> {
        self.groups.get(member).map(String::as_str)
    }

    /// Whether `user` may use `used`.
    pub fn permits(&self, user: &str, used: &str) -> bool {
        user == used || self.permitted.contains(&(user.to_owned(), used.to_owned()))
    }
}

/// What the table of crates permits, by the names of the crates' folders. None if there is no such table.
pub fn crate_table(markdown: &str, crates: &BTreeSet<String>) -> Option<Permissions> {
    let table = Table::find(markdown, "crate")?;
    let column = table.column("depends on").or_else(|| table.column("may use"))?;
    let mut permissions = Permissions::default();
    for row in &table.rows {
        let name = words(&row[0]).into_iter().rev().find(|word| crates.contains(word));
        let Some(name) = name else { continue };
        let named = words(&without_foreign(row.get(column).map_or("", String::as_str)));
        for other in crates {
            let short = other.strip_prefix("tidegate-").unwrap_or(other);
            if named.iter().any(|word| word == short || word == other) {
                permissions.permitted.insert((name.clone(), other.clone()));
            }
        }
        permissions.groups.insert(name.clone(), name);
    }
    Some(permissions)
}

/// What the table of the gateway's layers permits. None if there is no such table.
pub fn layer_table(markdown: &str) -> Option<Permissions> {
    let table = Table::find(markdown, "layer")?;
    let column = table.column("may use").or_else(|| table.column("depends on"))?;
    let modules = table.column("modules").unwrap_or(0);
    let layers: Vec<String> = table.rows.iter().filter_map(|row| words(&row[0]).into_iter().next()).collect();
    let mut permissions = Permissions::default();
    for (at, (row, layer)) in table.rows.iter().zip(&layers).enumerate() {
        let cell = row.get(column).map_or("", String::as_str);
        let named = words(cell);
        let all_below = cell.contains("all below");
        for (other_at, other) in layers.iter().enumerate() {
            if named.contains(other) || all_below && other_at > at {
                permissions.permitted.insert((layer.clone(), other.clone()));
            }
        }
        for module in words(row.get(modules).map_or("", String::as_str)) {
            permissions.groups.insert(module, layer.clone());
        }
    }
    Some(permissions)
}

/// The words of a cell: letters, digits, `-` and `_`. What stands in parentheses is left out.
fn words(cell: &str) -> Vec<String> {
    let mut depth = 0_usize;
    let mut text = String::new();
    for letter in cell.chars() {
        match letter {
            '(' => depth += 1,
            ')' => depth = depth.saturating_sub(1),
            _ if depth == 0 => text.push(letter),
            _ => {}
        }
    }
    let is_apart = |letter: char| !(letter.is_alphanumeric() || letter == '-' || letter == '_');
    text.split(is_apart).filter(|word| !word.is_empty()).map(str::to_owned).collect()
}

/// A cell without the crates from elsewhere, which stand in backquotes.
fn without_foreign(cell: &str) -> String {
    let parts = cell.split('`').enumerate();
    parts.filter(|(at, part)| at % 2 == 0 || part.starts_with("tidegate")).map(|(_, part)| part).collect::<String>()
}

struct Table {
    header: Vec<String>,
    rows: Vec<Vec<String>>,
}

impl Table {
    /// The first table whose first column is called `first`.
    fn find(markdown: &str, first: &str) -> Option<Self> {
        let mut lines = markdown.lines().skip_while(|line| cells(line).is_none_or(|header| header[0] != first));
        let header = cells(lines.next()?)?;
        let rows = lines.skip(1).map_while(cells).collect();
        Some(Self { header, rows })
    }

    fn column(&self, name: &str) -> Option<usize> {
        self.header.iter().position(|header| header == name)
    }
}

/// The cells of a row of a table.
fn cells(line: &str) -> Option<Vec<String>> {
    let row = line.trim().strip_prefix('|')?;
    let row = row.strip_suffix('|').unwrap_or(row);
    Some(row.split('|').map(|cell| cell.trim().to_owned()).collect())
}
