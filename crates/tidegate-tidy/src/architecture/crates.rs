//! The table of crates.

use std::collections::{BTreeMap, BTreeSet};

use super::table::{Row, Table, words};
use crate::manifest::Dependencies;

/// Which crates there are, and what each depends on.
pub struct CrateTable {
    rows: Vec<CrateRow>,
}

struct CrateRow {
    row: Row,
    /// The folder of the crate.
    name: String,
    /// What is named without backquotes: our own crates.
    own: Vec<String>,
    /// What is named in backquotes: crates from elsewhere.
    foreign: Vec<String>,
}

impl CrateTable {
    /// The table in a text. None if there is no such table.
    pub fn find(markdown: &str) -> Option<Self> {
        let table = Table::find(markdown, "crate")?;
        let column = table.column("depends on").or_else(|| table.column("may use"))?;
        let rows = table.rows.into_iter().map(|row| CrateRow::read(row, column)).collect();
        Some(Self { rows })
    }

    /// Every difference between the table and the manifests, whose dependencies these are.
    pub fn differences(&self, manifests: &BTreeMap<String, Dependencies>) -> Vec<String> {
        let mut found = Vec::new();
        for (name, dependencies) in manifests {
            let Some(row) = self.rows.iter().find(|row| row.name == *name) else {
                found.push(format!("crates/{name}: has no row in the table of crates of ARCHITECTURE.md"));
                continue;
            };
            let named: BTreeSet<String> = row.own.iter().filter_map(|word| folder(word, manifests)).collect();
            let is_unnamed = |used: &String| manifests.contains_key(used) && !named.contains(used);
            let unnamed = dependencies.iter().filter(|(used, _)| is_unnamed(used));
            found.extend(unnamed.map(|(used, line)| {
                format!("crates/{name}/Cargo.toml:{line}: uses {used}, which its row in ARCHITECTURE.md does not name")
            }));
        }
        found.extend(self.rows.iter().flat_map(|row| row.stale(manifests)));
        found
    }
}

impl CrateRow {
    fn read(row: Row, column: usize) -> Self {
        let name = words(&row.cell(0)).pop().unwrap_or_default();
        let cell = row.cell(column);
        let list = cell.split(';').next().unwrap_or_default();
        let (mut bare, mut foreign) = (String::new(), Vec::new());
        for (index, part) in list.split('`').enumerate() {
            if index % 2 == 0 || part.starts_with("tidegate") {
                bare.push_str(part);
            } else {
                foreign.push(part.to_owned());
            }
        }
        let own = bare.split(',').map(str::trim).filter(|word| !["", "std", "and more"].contains(word));
        Self { name, own: own.map(str::to_owned).collect(), foreign, row }
    }

    /// What the row names that is not there.
    fn stale(&self, manifests: &BTreeMap<String, Dependencies>) -> Vec<String> {
        let Self { row, name, own, foreign } = self;
        let Some(dependencies) = manifests.get(name) else {
            return vec![row.message(&format!("there is no crates/{name}"))];
        };
        let own = own.iter().filter_map(|word| match folder(word, manifests) {
            Some(used) if dependencies.contains_key(&used) => None,
            Some(used) => Some(unused(name, &used)),
            None => Some(format!("names {word}, which is not a crate of ours")),
        });
        let foreign = foreign.iter().filter(|package| !dependencies.contains_key(*package));
        let foreign = foreign.map(|package| unused(name, package));
        own.chain(foreign).map(|text| row.message(&text)).collect()
    }
}

fn unused(name: &str, used: &str) -> String {
    format!("names {used}, which is not among the dependencies in crates/{name}/Cargo.toml")
}

/// The folder of the crate of ours that a word names.
fn folder(word: &str, manifests: &BTreeMap<String, Dependencies>) -> Option<String> {
    [word.to_owned(), format!("tidegate-{word}")].into_iter().find(|name| manifests.contains_key(name))
}
