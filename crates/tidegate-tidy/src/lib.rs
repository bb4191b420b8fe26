//! The rules of this repository, checked by tests.
//!
//! `tests/graph.rs` holds the sources to the layers of ARCHITECTURE.md, `tests/tidy.rs` to limits and words. Both read
//! the sources as text. Nothing here is linked with the crates it judges, so these tests build in seconds.
//!
//! - [`Repository`] is the text of every file, and the tokens of those in Rust.
//! - [`ModuleTree`] is a crate's modules, with every path that they mention; [`graph`] finds the cycles among them.
//! - [`manifest`] reads the dependencies of crates, [`architecture`] the tables that name them.
//! - [`rules`] find what the tidy test counts.

pub mod architecture;
pub mod graph;
pub mod manifest;
mod module_tree;
mod paths;
mod repository;
pub mod rules;
mod tokens;
mod toml;

pub use module_tree::ModuleTree;
pub use repository::{File, Repository};
