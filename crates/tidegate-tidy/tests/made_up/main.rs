//! The graph and the rules judged by small sources that are made up.

mod crates;
mod edges;
mod layers;
mod rules;

use tidegate_tidy::graph::cycles;
use tidegate_tidy::{ModuleTree, Repository};

/// A repository of these files.
fn repository(files: &[(&str, &str)]) -> Repository {
    let files = files.iter().map(|(path, text)| ((*path).to_owned(), (*text).to_owned()));
    Repository::of(files).expect("made-up sources are Rust")
}

/// The modules of a crate whose files, below `src/`, are these.
fn tree(files: &[(&str, &str)]) -> ModuleTree {
    let files: Vec<(String, &str)> = files.iter().map(|(path, text)| (format!("crates/c/src/{path}"), *text)).collect();
    let files: Vec<(&str, &str)> = files.iter().map(|(path, text)| (path.as_str(), *text)).collect();
    ModuleTree::read(&repository(&files), "crates/c/src/lib.rs").expect("every module has a file")
}

/// The cycles in such a crate, as they are printed.
fn found(files: &[(&str, &str)]) -> Vec<String> {
    cycles(&tree(files)).iter().map(ToString::to_string).collect()
}
