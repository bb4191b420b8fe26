//! Cycles in a graph of a few dozen nodes.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::fmt;

use super::{Edges, Place, levels};
use crate::module_tree::ModuleTree;

/// Modules of one level that all use each other, directly or through others of them.
#[derive(Debug)]
pub struct Cycle {
    /// The module whose children they are: `crate`, or `crate::adapt`.
    pub level: String,
    /// All of them.
    pub modules: BTreeSet<String>,
    /// The shortest way around: where the first uses the second, the second the third, and the last the first.
    steps: Vec<(Place, String)>,
    /// Every edge among them: who fixes the cycle cuts some of these.
    edges: Vec<(Place, String)>,
}

impl Cycle {
    /// Every edge among the modules, one a line.
    pub fn edges(&self) -> Vec<String> {
        self.edges.iter().map(|(place, used)| format!("{place} uses {used}")).collect()
    }
}

impl fmt::Display for Cycle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let steps: Vec<String> = self.steps.iter().map(|(place, used)| format!("{place} uses {used}")).collect();
        write!(f, "{}: {} modules in a cycle, such as: {}", self.level, self.modules.len(), steps.join(" → "))
    }
}

/// All cycles of a crate, at every level.
pub fn cycles(tree: &ModuleTree) -> Vec<Cycle> {
    levels(tree).iter().flat_map(|(level, edges)| cycles_of(level, edges)).collect()
}

fn cycles_of(level: &str, edges: &Edges) -> Vec<Cycle> {
    let nodes: BTreeSet<&str> = edges.keys().flat_map(|(from, to)| [from.as_str(), to.as_str()]).collect();
    let reached: BTreeMap<&str, BTreeSet<&str>> =
        nodes.iter().map(|node| (*node, paths_from(node, edges).into_keys().collect())).collect();
    let mut cycles = Vec::new();
    let mut done = BTreeSet::new();
    for node in nodes {
        let modules: BTreeSet<&str> =
            reached[node].iter().copied().filter(|other| reached[other].contains(node)).collect();
        // A node is in a cycle if it reaches itself; then it is among those modules.
        if modules.is_empty() || done.contains(node) {
            continue;
        }
        done.extend(modules.iter().copied());
        let ways = modules.iter().filter_map(|module| paths_from(module, edges).remove(module));
        let shortest = ways.min_by_key(Vec::len).unwrap_or_default();
        let is_inside =
            |(from, to): &(String, String)| modules.contains(from.as_str()) && modules.contains(to.as_str());
        cycles.push(Cycle {
            level: level.to_owned(),
            steps: shortest.into_iter().map(|(from, to)| (edges[&(from, to.clone())].clone(), to)).collect(),
            edges: edges
                .iter()
                .filter(|(names, _)| is_inside(names))
                .map(|((_, to), place)| (place.clone(), to.clone()))
                .collect(),
            modules: modules.into_iter().map(str::to_owned).collect(),
        });
    }
    cycles
}

/// The shortest path to everything that can be reached from `start` in at least one step, as edges.
fn paths_from<'a>(start: &str, edges: &'a Edges) -> BTreeMap<&'a str, Vec<(String, String)>> {
    let mut paths: BTreeMap<&str, Vec<(String, String)>> = BTreeMap::new();
    let mut waiting = VecDeque::from([(start, Vec::new())]);
    while let Some((node, path)) = waiting.pop_front() {
        for (from, to) in edges.keys().filter(|(from, _)| from == node) {
            if !paths.contains_key(to.as_str()) {
                let longer = [path.as_slice(), &[(from.clone(), to.clone())]].concat();
                paths.insert(to.as_str(), longer.clone());
                waiting.push_back((to.as_str(), longer));
            }
        }
    }
    paths
}
