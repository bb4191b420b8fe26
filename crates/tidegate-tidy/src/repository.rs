//! The text of every file that rules are about.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::{fs, io};

use crate::tokens::{self, Token};

/// A file, as it stands in the repository.
pub struct File {
    /// All of it.
    pub text: String,
    /// Empty unless the file is Rust.
    pub(crate) tokens: Vec<Token>,
}

/// The files of a repository by their paths in it, which begin with no slash.
pub struct Repository {
    /// Sorted by path.
    pub files: BTreeMap<String, File>,
}

/// Where people write. What is generated or downloaded stands elsewhere, or in `SKIPPED`.
const FOLDERS: [&str; 7] = ["crates", "deploy", "docs", "examples", "scenarios", "scripts", ".ci"];
const SKIPPED: [&str; 5] = ["node_modules", "dist", "shots", "bundled.html", "package-lock.json"];

impl Repository {
    /// Reads the repository at `root`.
    ///
    /// # Errors
    /// A file that could not be read, one that is not Rust though its name ends in `.rs`.
    pub fn read(root: &Path) -> Result<Self, String> {
        let mut texts = Vec::new();
        let failed = |error: io::Error| format!("{}: {error}", root.display());
        for entry in fs::read_dir(root).map_err(failed)? {
            let path = entry.map_err(failed)?.path();
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            if path.is_file() || FOLDERS.contains(&name.as_ref()) {
                collect(root, &path, &mut texts).map_err(failed)?;
            }
        }
        Self::of(texts)
    }

    /// A repository of these paths and texts.
    ///
    /// # Errors
    /// As `read`.
    pub fn of(texts: impl IntoIterator<Item = (String, String)>) -> Result<Self, String> {
        let mut files = BTreeMap::new();
        for (path, text) in texts {
            let is_rust = Path::new(&path).extension().is_some_and(|extension| extension == "rs");
            let tokens = if is_rust { tokens::read(&text) } else { Ok(Vec::new()) };
            let tokens = tokens.map_err(|error| format!("{path}: {error}"))?;
            files.insert(path, File { text, tokens });
        }
        Ok(Self { files })
    }

    /// The names of the folders in `crates/`.
    pub fn crates(&self) -> BTreeSet<String> {
        let manifests = self.files.keys().filter_map(|path| path.strip_prefix("crates/")?.strip_suffix("/Cargo.toml"));
        manifests.filter(|name| !name.contains('/')).map(str::to_owned).collect()
    }
}

fn collect(root: &Path, path: &Path, texts: &mut Vec<(String, String)>) -> io::Result<()> {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    if SKIPPED.contains(&name.as_ref()) {
        return Ok(());
    }
    if path.is_dir() {
        for entry in fs::read_dir(path)? {
            collect(root, &entry?.path(), texts)?;
        }
        return Ok(());
    }
    // What is no text, such as a picture, has no lines and no words.
    if let Ok(text) = String::from_utf8(fs::read(path)?) {
        let in_repository = path.strip_prefix(root).unwrap_or(path);
        texts.push((in_repository.to_string_lossy().replace('\\', "/"), text));
    }
    Ok(())
}
