//! Modules and crates depend one way, and only as ARCHITECTURE.md says. The rule is in `src/graph.rs`.
//!
//! To see every edge of a cycle: `TIDY=all cargo test -p tidegate-tidy --test graph -- --nocapture`.

use std::path::Path;

use tidegate_tidy::architecture::{CrateTable, LayerTable};
use tidegate_tidy::graph::{cycles, unnamed_edges};
use tidegate_tidy::{ModuleTree, Repository, manifest};

fn repository() -> Repository {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    Repository::read(&root).expect("the repository can be read")
}

fn architecture(repository: &Repository) -> &str {
    &repository.files["ARCHITECTURE.md"].text
}

#[test]
fn modules_of_each_crate_depend_one_way() {
    let repository = repository();
    let shows_edges = std::env::var("TIDY").is_ok_and(|shown| shown == "all");
    let mut wrong = Vec::new();
    for name in repository.crates() {
        let trees = ModuleTree::of_crate(&repository, &name).expect("every module has a file");
        let found: Vec<_> = trees.iter().flat_map(cycles).collect();
        let tangled: usize = found.iter().map(|cycle| cycle.modules.len()).sum();
        let top_level: usize =
            found.iter().filter(|cycle| cycle.level == "crate").map(|cycle| cycle.modules.len()).sum();
        let all = trees.iter().flat_map(ModuleTree::top_level).count();
        eprintln!("{name}: {tangled} modules in cycles; of {all} top-level modules {top_level}");
        if shows_edges {
            for cycle in &found {
                eprintln!("  {cycle}\n    {}", cycle.edges().join("\n    "));
            }
        }
        if tangled > 0 {
            let cycles: Vec<String> = found.iter().map(|cycle| format!("  {cycle}")).collect();
            wrong.push(format!("{name}: {tangled} modules in cycles\n{}", cycles.join("\n")));
        }
    }
    assert!(wrong.is_empty(), "\n{}\nTIDY=all and --nocapture show every edge.\n", wrong.join("\n"));
}

/// Cargo itself forbids cycles among crates; which edges there are is for us to say.
#[test]
fn crates_depend_on_what_architecture_names_and_on_no_other_crate_of_ours() {
    let repository = repository();
    let table = CrateTable::find(architecture(&repository)).expect("there is a table of crates");
    let manifests = manifest::dependencies(&repository).expect("manifests are TOML");
    let wrong = table.differences(&manifests);
    assert!(wrong.is_empty(), "\nmanifests and ARCHITECTURE.md differ:\n{}\n", wrong.join("\n"));
}

#[test]
fn layers_of_the_gateway_depend_only_on_what_architecture_names() {
    let repository = repository();
    let layers = LayerTable::find(architecture(&repository)).expect("there is a table of layers");
    let trees = ModuleTree::of_crate(&repository, "tidegate-gateway").expect("every module has a file");
    let modules = trees.iter().flat_map(ModuleTree::top_level).collect();
    let mut wrong: Vec<String> = trees.iter().flat_map(|tree| unnamed_edges(tree, &layers)).collect();
    wrong.extend(layers.stale_rows(&modules));
    assert!(wrong.is_empty(), "\nmodules and the layers in ARCHITECTURE.md differ:\n{}\n", wrong.join("\n"));
}
