//! The table of the gateway's layers.

use std::collections::BTreeSet;

use super::table::{Row, Table, words};

/// The layers from the top, the modules of each, and which others each may use.
pub struct LayerTable {
    rows: Vec<LayerRow>,
}

struct LayerRow {
    row: Row,
    layer: String,
    modules: Vec<String>,
    may_use: Vec<String>,
    uses_all_below: bool,
}

const ALL_BELOW: &str = "all below";

impl LayerTable {
    /// The table in a text. None if there is no such table.
    pub fn find(markdown: &str) -> Option<Self> {
        let table = Table::find(markdown, "layer")?;
        let column = table.column("may use").or_else(|| table.column("depends on"))?;
        let modules = table.column("modules").unwrap_or(0);
        let read = |row: Row| {
            let named = row.cell(column);
            LayerRow {
                layer: words(&row.cell(0)).into_iter().next().unwrap_or_default(),
                modules: words(&row.cell(modules)),
                may_use: words(&named.replace(ALL_BELOW, "")),
                uses_all_below: named.contains(ALL_BELOW),
                row,
            }
        };
        Some(Self { rows: table.rows.into_iter().map(read).collect() })
    }

    /// The layer of a module.
    pub fn layer_of(&self, module: &str) -> Option<&str> {
        let row = self.rows.iter().find(|row| row.modules.iter().any(|name| name == module))?;
        Some(&row.layer)
    }

    /// Whether modules of the layer `user` may use those of `used`.
    pub fn permits(&self, user: &str, used: &str) -> bool {
        let index_of = |layer: &str| self.rows.iter().position(|row| row.layer == layer);
        let (Some(from), Some(to)) = (index_of(user), index_of(used)) else { return false };
        let row = &self.rows[from];
        from == to || row.may_use.iter().any(|name| name == used) || row.uses_all_below && to > from
    }

    /// What the rows name that is not there: layers without a row, and modules that are not among `modules`. Also names
    /// that two rows have.
    pub fn stale_rows(&self, modules: &BTreeSet<&str>) -> Vec<String> {
        let mut found = Vec::new();
        for (index, LayerRow { row, layer, modules: own, may_use, .. }) in self.rows.iter().enumerate() {
            let above = &self.rows[..index];
            if above.iter().any(|other| other.layer == *layer) {
                found.push(row.message("an earlier row has the same name"));
            }
            for module in own {
                if !modules.contains(module.as_str()) {
                    found.push(row.message(&format!("names module {module}, which does not exist")));
                }
                if let Some(other) = above.iter().find(|other| other.modules.contains(module)) {
                    found.push(row.message(&format!("names module {module}, which is in row {} too", other.layer)));
                }
            }
            let unknown = may_use.iter().filter(|name| !self.rows.iter().any(|other| other.layer == **name));
            found.extend(unknown.map(|name| row.message(&format!("names layer {name}, which has no row"))));
        }
        found
    }
}
