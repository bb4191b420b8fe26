//! The tables of ARCHITECTURE.md that say what may use what.
//!
//! | table | first column | other columns |
//! |---|---|---|
//! | crates | `crate`: its name | `depends on`: names of crates, with or without `tidegate-` |
//! | layers of the gateway | `layer`: its name | `modules`: top-level modules; `may use`: names of layers |
//!
//! A cell may explain its names: what stands in parentheses is not read. In the table of crates a name in backquotes is
//! a crate from elsewhere, unless it begins with `tidegate`; `std` and `and more` name no crate, and what follows the
//! first semicolon is not read. In the table of layers `all below` names every later row. A layer without a column
//! `modules` is the module of its own name.
//!
//! Both ways are checked: what is used must be named, and what is named must be there.

mod crates;
mod layers;
mod table;

pub use crates::CrateTable;
pub use layers::LayerTable;
