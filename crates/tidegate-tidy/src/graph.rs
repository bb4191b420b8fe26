//! Which modules use which, and whether they do so one way.
//!
//! The rule, at every level of a crate: **siblings depend one way.** A uses B if code anywhere in A, its inner modules
//! included, names something in B. These edges must form no cycle.
//!
//! - A parent uses its children, and a child what its parent (or the parent's parent) *defines itself*. A file
//!   `a.rs` and its folder `a/` are one unit to everybody else, so no edge arises.
//! - What a parent merely imports or re-exports counts as an import from where it comes: `use super::Plan`, where the
//!   parent has `use plan::Plan`, is an edge to `plan`. Otherwise a cycle could hide behind `pub use` in `lib.rs`.
//! - What a module that is no ancestor re-exports counts as an import from that module.
//! - Tests are left out: they may look at everything.
//!
//! Methods are called without a path. What is not named is not seen; its type must be named somewhere, mostly.

mod cycle;
mod resolution;

use std::collections::BTreeMap;
use std::fmt;

pub use cycle::{Cycle, cycles};

use crate::architecture::LayerTable;
use crate::module_tree::ModuleTree;
use resolution::uses;

/// A place in a file.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Place {
    file: String,
    line: usize,
}

impl fmt::Display for Place {
    /// As it stands below `src/`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let file = self.file.split_once("/src/").map_or(self.file.as_str(), |(_, below)| below);
        write!(f, "{file}:{}", self.line)
    }
}

/// The edges among the children of one module: by the names of the two, where the first of them uses the second.
type Edges = BTreeMap<(String, String), Place>;

/// The edges of a tree, level by level. Levels are named by the module whose children they connect.
fn levels(tree: &ModuleTree) -> BTreeMap<String, Edges> {
    let mut levels: BTreeMap<String, Edges> = BTreeMap::new();
    for (user, module) in tree.modules.iter().enumerate() {
        let lineage = tree.lineage(user);
        for (used, line) in uses(tree, user) {
            let other = tree.lineage(used);
            let common = lineage.iter().zip(&other).take_while(|(one, another)| one == another).count();
            // One of the two is an ancestor of the other.
            let (Some(from), Some(to)) = (lineage.get(common), other.get(common)) else { continue };
            let level = lineage[..common].iter().map(|module| tree.modules[*module].name.as_str());
            let level = level.collect::<Vec<_>>().join("::");
            let names = [from, to].map(|module| tree.modules[*module].name.clone());
            let place = Place { file: module.file.clone(), line };
            let edges = levels.entry(level).or_default();
            let known = edges.entry(names.into()).or_insert_with(|| place.clone());
            // The file of the module itself says more than one below it, if both do.
            if (place.file.len(), place.line) < (known.file.len(), known.line) {
                *known = place;
            }
        }
    }
    levels
}

/// Edges among the top-level modules that `layers` do not name, and modules that belong to no layer.
pub fn unnamed_edges(tree: &ModuleTree, layers: &LayerTable) -> Vec<String> {
    let mut found: Vec<String> = tree
        .top_level()
        .filter(|module| layers.layer_of(module).is_none())
        .map(|module| format!("module `{module}` belongs to no layer"))
        .collect();
    let edges = levels(tree).remove("crate").unwrap_or_default();
    for ((from, to), place) in &edges {
        let (Some(user), Some(used)) = (layers.layer_of(from), layers.layer_of(to)) else { continue };
        if !layers.permits(user, used) {
            found.push(format!("{place} uses {to}: layer `{user}` may not use layer `{used}`"));
        }
    }
    found
}
