//! From the paths in a module to the modules that they lead to.

use crate::module_tree::ModuleTree;

/// Re-exports that lead to re-exports are followed this far: more are a mistake, or a circle.
const FOLLOWED: usize = 16;

/// The modules that `user` names something of, its own ancestors and itself apart, each with the line where.
pub(super) fn uses(tree: &ModuleTree, user: usize) -> Vec<(usize, usize)> {
    let module = &tree.modules[user];
    let mut search = Search { tree, user, line: 0, found: Vec::new() };
    let imports = module.paths.imports.iter().map(|import| (&import.segments, import.line));
    let mentions = module.paths.mentions.iter().map(|mention| (&mention.segments, mention.line));
    for (segments, line) in imports.chain(mentions) {
        search.line = line;
        search.path(user, segments, FOLLOWED);
    }
    // `use super::*` brings in what the parent imports. Which of it is used, the words of the code tell.
    for import in module.paths.imports.iter().filter(|import| import.name.is_none()) {
        let Some((ancestor, _)) = follow(tree, user, &import.segments) else { continue };
        search.line = import.line;
        if ancestor != user && tree.is_within(user, ancestor) {
            for word in module.paths.words.difference(&module.items) {
                search.name(ancestor, std::slice::from_ref(word), FOLLOWED);
            }
        }
    }
    search.found
}

/// The last module on a path that is read in module `at`, and how many segments lead to it. None if it begins with
/// neither `crate`, `self`, `super` nor a child.
fn follow(tree: &ModuleTree, at: usize, segments: &[String]) -> Option<(usize, usize)> {
    let (mut module, mut used) = match segments.first()?.as_str() {
        "crate" => (0, 1),
        "self" => (at, 1),
        "super" => (at, 0),
        child => (*tree.modules[at].children.get(child)?, 1),
    };
    while segments.get(used).is_some_and(|segment| segment == "super") {
        module = tree.modules[module].parent?;
        used += 1;
    }
    while let Some(child) = segments.get(used).and_then(|segment| tree.modules[module].children.get(segment)) {
        module = *child;
        used += 1;
    }
    Some((module, used))
}

struct Search<'a> {
    tree: &'a ModuleTree,
    user: usize,
    /// Where the path stands that is being followed.
    line: usize,
    found: Vec<(usize, usize)>,
}

impl Search<'_> {
    /// Where a path leads that stands in module `at`, which is the user or an ancestor of it.
    fn path(&mut self, at: usize, segments: &[String], more: usize) {
        match follow(self.tree, at, segments) {
            Some((module, _)) if !self.tree.is_within(self.user, module) => self.found.push((module, self.line)),
            Some((_, used)) if used == segments.len() => {}
            Some((module, used)) => self.name(module, &segments[used..], more),
            // Perhaps a name that was imported: `plan::Plan` after `use crate::plan`.
            None => _ = self.imported(at, segments, more),
        }
    }

    /// Where the first of `segments` comes from, which is found in `ancestor`, the user or an ancestor of it.
    fn name(&mut self, ancestor: usize, segments: &[String], more: usize) {
        let module = &self.tree.modules[ancestor];
        let Some(name) = segments.first().filter(|name| more > 0 && !module.items.contains(*name)) else { return };
        if self.imported(ancestor, segments, more) {
            return;
        }
        for glob in module.paths.imports.iter().filter(|import| import.name.is_none()) {
            let Some((source, _)) = follow(self.tree, ancestor, &glob.segments) else { continue };
            if source != ancestor && exports(self.tree, source, name, more - 1) {
                let path = [glob.segments.as_slice(), segments].concat();
                self.path(ancestor, &path, more - 1);
            }
        }
    }

    /// Follows the import by which module `at` knows the first of `segments`, and says whether there is one.
    fn imported(&mut self, at: usize, segments: &[String], more: usize) -> bool {
        let Some(name) = segments.first() else { return false };
        let module = &self.tree.modules[at];
        let mut is_imported = false;
        for import in module.paths.imports.iter().filter(|import| more > 0 && import.name.as_ref() == Some(name)) {
            is_imported = true;
            // `use std::fmt` leads out of the crate by its own name.
            if import.segments.first() != Some(name) || module.children.contains_key(name) {
                let path = [import.segments.as_slice(), &segments[1..]].concat();
                self.path(at, &path, more - 1);
            }
        }
        is_imported
    }
}

/// Whether `name` can be found in a module: defined, declared or imported there.
fn exports(tree: &ModuleTree, module: usize, name: &str, more: usize) -> bool {
    let found = &tree.modules[module];
    let is_import = found.paths.imports.iter().any(|import| import.name.as_deref() == Some(name));
    let mut globs = found.paths.imports.iter().filter(|import| import.name.is_none());
    found.items.contains(name)
        || found.children.contains_key(name)
        || is_import
        || more > 0
            && globs.any(|glob| {
                let source = follow(tree, module, &glob.segments);
                source.is_some_and(|(source, _)| source != module && exports(tree, source, name, more - 1))
            })
}
