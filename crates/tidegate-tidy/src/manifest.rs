//! The dependencies among our own crates, as their `Cargo.toml` have them.

use std::collections::BTreeMap;

use crate::repository::Repository;

/// The folder of a crate that another depends on, and the line that says so. What only tests and benchmarks need is
/// left out.
pub fn dependencies(manifest: &str) -> BTreeMap<String, usize> {
    let mut found = BTreeMap::new();
    let mut is_read = false;
    for (line, text) in manifest.lines().enumerate() {
        let text = text.trim();
        if text.starts_with('[') {
            is_read = text.contains("dependencies") && !text.contains("dev-dependencies");
        }
        // Also where the name differs from the folder's, and in a section of its own: `[dependencies.x]`.
        let path = text.split_once("path = \"").and_then(|(_, rest)| rest.split('"').next());
        if let (true, Some(path)) = (is_read && !text.starts_with('#'), path) {
            found.entry(path.rsplit('/').next().unwrap_or(path).to_owned()).or_insert(line + 1);
        }
    }
    found
}

/// The edges among the crates of a repository: who uses whom, and in which line of its `Cargo.toml`.
pub fn edges(repository: &Repository) -> BTreeMap<(String, String), usize> {
    let mut edges = BTreeMap::new();
    for name in repository.crates() {
        let manifest = &repository.files[&format!("crates/{name}/Cargo.toml")].text;
        for (other, line) in dependencies(manifest) {
            edges.insert((name.clone(), other), line);
        }
    }
    edges
}
