//! The modules of a crate, nested as they are declared, and the paths that each mentions.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use crate::paths::{self, Paths};
use crate::repository::Repository;
use crate::tokens::{Kind, Token};

/// The modules of a library or program. The first is its root. What stands under `#[cfg(test)]` is left out.
pub struct ModuleTree {
    pub(crate) modules: Vec<Module>,
}

#[derive(Debug)]
pub(crate) struct Module {
    pub(crate) name: String,
    /// The path in the repository of the file that has its body.
    pub(crate) file: String,
    pub(crate) parent: Option<usize>,
    pub(crate) children: BTreeMap<String, usize>,
    /// What its code names.
    pub(crate) paths: Paths,
    /// The names of what it defines itself.
    pub(crate) items: BTreeSet<String>,
}

impl ModuleTree {
    /// Reads the modules that `root`, a `lib.rs` or `main.rs`, declares, and those that they declare.
    ///
    /// # Errors
    /// A module that is declared but has no file.
    pub fn read(repository: &Repository, root: &str) -> Result<Self, String> {
        let mut reader = Reader { repository, modules: Vec::new() };
        let folder = folder_of(root).to_owned();
        reader.read_file(("crate".to_owned(), None), root, &folder)?;
        Ok(Self { modules: reader.modules })
    }

    /// The modules of a crate: one tree for its library, one for its program.
    ///
    /// # Errors
    /// As `read`.
    pub fn of_crate(repository: &Repository, name: &str) -> Result<Vec<Self>, String> {
        let roots = ["lib", "main"].map(|root| format!("crates/{name}/src/{root}.rs"));
        roots
            .iter()
            .filter(|root| repository.files.contains_key(*root))
            .map(|root| Self::read(repository, root))
            .collect()
    }

    /// The names of the modules directly below the root.
    pub fn top_level(&self) -> impl Iterator<Item = &str> {
        self.modules[0].children.keys().map(String::as_str)
    }

    /// From the root to the module itself.
    pub(crate) fn lineage(&self, module: usize) -> Vec<usize> {
        let mut lineage: Vec<usize> =
            std::iter::successors(Some(module), |module| self.modules[*module].parent).collect();
        lineage.reverse();
        lineage
    }

    pub(crate) fn is_within(&self, module: usize, ancestor: usize) -> bool {
        self.lineage(module).contains(&ancestor)
    }
}

/// The files in Rust that belong to a library or program, not to tests alone. A crate whose modules can't be read does
/// not compile either, and is left out.
pub(crate) fn product_files(repository: &Repository) -> BTreeSet<String> {
    let crates = repository.crates();
    let trees = crates.iter().flat_map(|name| ModuleTree::of_crate(repository, name).unwrap_or_default());
    trees.flat_map(|tree| tree.modules).map(|module| module.file).collect()
}

fn folder_of(file: &str) -> &str {
    file.rsplit_once('/').map_or("", |(folder, _)| folder)
}

struct Reader<'a> {
    repository: &'a Repository,
    modules: Vec<Module>,
}

/// A module's name and its parent.
type Identity = (String, Option<usize>);

impl Reader<'_> {
    /// `folder` is where the files of the module's children are.
    fn read_file(&mut self, identity: Identity, file: &str, folder: &str) -> Result<usize, String> {
        let repository = self.repository;
        let tokens = &repository.files.get(file).ok_or_else(|| format!("{file}: no such file"))?.tokens;
        self.read_body(identity, file, folder, tokens, 0..tokens.len())
    }

    fn read_body(
        &mut self,
        (name, parent): Identity,
        file: &str,
        folder: &str,
        tokens: &[Token],
        range: Range<usize>,
    ) -> Result<usize, String> {
        let index = self.modules.len();
        let items = items(tokens, range.clone());
        let module =
            Module { name, file: file.to_owned(), parent, items, children: BTreeMap::new(), paths: Paths::default() };
        self.modules.push(module);
        let mut at = range.start;
        while at < range.end {
            if tokens[at].for_tests {
                at += 1;
            } else if let Some(name) = declared_module(tokens, at) {
                let identity = (name.to_owned(), Some(index));
                let inner_folder = format!("{folder}/{name}");
                let body = at + 2;
                let child = if tokens[body].is_open('{') {
                    self.read_body(identity, file, &inner_folder, tokens, body + 1..tokens[body].mate)?
                } else {
                    let beside = format!("{folder}/{name}.rs");
                    let inside = format!("{folder}/{name}/mod.rs");
                    let is_beside = self.repository.files.contains_key(&beside);
                    self.read_file(identity, if is_beside { &beside } else { &inside }, &inner_folder)?
                };
                self.modules[index].children.insert(name.to_owned(), child);
                at = tokens[body].mate + 1;
            } else {
                at = paths::read(tokens, at, &mut self.modules[index].paths);
            }
        }
        Ok(index)
    }
}

/// The name in `mod name;` or `mod name {` at `at`.
fn declared_module(tokens: &[Token], at: usize) -> Option<&str> {
    let ends = tokens.get(at + 2)?;
    let is_module = tokens[at].is_word("mod") && (ends.is_mark(';') || ends.is_open('{'));
    is_module.then(|| tokens[at + 1].word()).flatten()
}

/// The names that the module itself defines: not those in its functions or inner modules.
fn items(tokens: &[Token], range: Range<usize>) -> BTreeSet<String> {
    const DEFINING: [&str; 8] = ["struct", "enum", "union", "trait", "type", "fn", "const", "static"];
    let mut items = BTreeSet::new();
    let mut at = range.start;
    while at < range.end {
        let token = &tokens[at];
        if let (Kind::Word(word), false) = (&token.kind, token.for_tests) {
            let name_at = match word.as_str() {
                "macro_rules" => at + 2,
                word if DEFINING.contains(&word) => at + 1,
                _ => range.end,
            };
            if let Some(name) = tokens.get(name_at).filter(|_| name_at < range.end).and_then(Token::word) {
                items.insert(name.to_owned());
            }
        }
        at = token.mate.max(at) + 1;
    }
    items
}
