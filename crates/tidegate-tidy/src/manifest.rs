//! The dependencies of our crates, as their `Cargo.toml` have them.

use std::collections::{BTreeMap, BTreeSet};

use crate::repository::Repository;
use crate::toml::{self, Entry};

/// What a crate depends on, and the line of its `Cargo.toml` that says so. Our own crates go by the names of their
/// folders, others by the names of their packages. What only tests and benchmarks need is left out.
pub type Dependencies = BTreeMap<String, usize>;

/// The dependencies of every crate of a repository.
///
/// # Errors
/// A manifest that is not TOML.
pub fn dependencies(repository: &Repository) -> Result<BTreeMap<String, Dependencies>, String> {
    let own = OwnCrates::read(repository)?;
    let mut all = BTreeMap::new();
    for name in &own.folders {
        let declared = declared(&manifest(repository, &format!("crates/{name}/Cargo.toml"))?, dependency);
        let mut found = Dependencies::new();
        for (key, declaration) in declared {
            let line = found.entry(own.resolved(&key, &declaration)).or_insert(declaration.line);
            *line = declaration.line.min(*line);
        }
        all.insert(name.clone(), found);
    }
    Ok(all)
}

fn manifest(repository: &Repository, path: &str) -> Result<Vec<Entry>, String> {
    let text = repository.files.get(path).map_or("", |file| &file.text);
    toml::read(text).map_err(|error| format!("{path}: {error}"))
}

/// What a manifest says of one dependency.
struct Declaration {
    /// `path`, `package`, `workspace` and others.
    fields: BTreeMap<String, String>,
    line: usize,
}

/// The declarations of a manifest by their paths, whose last name is the one that the code uses. `length` says how
/// many names of an entry's path are the path of a declaration.
fn declared(entries: &[Entry], length: fn(&[&str]) -> Option<usize>) -> BTreeMap<Vec<String>, Declaration> {
    let mut found = BTreeMap::new();
    for entry in entries {
        let names: Vec<&str> = entry.path.iter().map(String::as_str).collect();
        let Some(length) = length(&names) else { continue };
        let known = found.entry(entry.path[..length].to_vec());
        let known = known.or_insert_with(|| Declaration { fields: BTreeMap::new(), line: entry.line });
        known.fields.insert(names[length..].join("."), entry.value.clone());
    }
    found
}

/// `[dependencies]`, `[build-dependencies]`, and both below `[target.…]`.
fn dependency(path: &[&str]) -> Option<usize> {
    match path {
        ["dependencies" | "build-dependencies" | "build_dependencies", _, ..] => Some(2),
        ["target", _, "dependencies" | "build-dependencies" | "build_dependencies", _, ..] => Some(4),
        _ => None,
    }
}

/// `[workspace.dependencies]`, from which `workspace = true` takes the rest.
fn shared_dependency(path: &[&str]) -> Option<usize> {
    matches!(path, ["workspace", "dependencies", _, ..]).then_some(3)
}

/// What tells our own crates from others.
struct OwnCrates {
    folders: BTreeSet<String>,
    /// By the names of their packages.
    packages: BTreeMap<String, String>,
    /// The declarations that crates share, by name.
    shared: BTreeMap<String, Declaration>,
}

impl OwnCrates {
    fn read(repository: &Repository) -> Result<Self, String> {
        let folders = repository.crates();
        let mut packages = BTreeMap::new();
        for folder in &folders {
            let entries = manifest(repository, &format!("crates/{folder}/Cargo.toml"))?;
            let name = entries.into_iter().find(|entry| entry.path == ["package", "name"]);
            packages.insert(name.map_or_else(|| folder.clone(), |name| name.value), folder.clone());
        }
        let shared = declared(&manifest(repository, "Cargo.toml")?, shared_dependency);
        let shared = shared.into_iter().filter_map(|(mut path, declaration)| Some((path.pop()?, declaration)));
        Ok(Self { folders, packages, shared: shared.collect() })
    }

    /// The crate that a declaration means: the folder of our own, the package of another.
    fn resolved(&self, key: &[String], declaration: &Declaration) -> String {
        let name = key.last().map_or("", String::as_str);
        let is_shared = declaration.fields.get("workspace").is_some_and(|value| value == "true");
        let shared = self.shared.get(name).filter(|_| is_shared);
        let fields = &shared.unwrap_or(declaration).fields;
        let folder = fields.get("path").and_then(|path| path.trim_end_matches('/').rsplit('/').next());
        if let Some(folder) = folder.filter(|folder| self.folders.contains(*folder)) {
            return folder.to_owned();
        }
        let package = fields.get("package").map_or(name, String::as_str);
        self.packages.get(package).map_or(package, String::as_str).to_owned()
    }
}
