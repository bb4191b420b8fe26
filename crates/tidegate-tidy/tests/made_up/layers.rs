//! What the table of layers in ARCHITECTURE.md permits, and what in it is stale.

use std::collections::BTreeSet;

use tidegate_tidy::architecture::LayerTable;
use tidegate_tidy::graph::unnamed_edges;

use super::tree;

const LAYERS: &str = "
Some words.

| layer | modules | may use |
|---|---|---|
| server | `server` | all below |
| request | `handler`, `routes` | config (its model) |
| config | `config` | |

| layer | not this one |
";

#[test]
fn an_edge_between_layers_must_be_named() {
    let layers = LayerTable::find(LAYERS).expect("there is a table");
    let files = [
        ("lib.rs", "mod server; mod handler; mod routes; mod config; mod stray;"),
        ("server.rs", "use crate::config::Config; use crate::handler::handle;"),
        ("handler.rs", "use crate::routes::Routes; use crate::config::Config;"),
        ("routes.rs", "use crate::config::Config;"),
        ("config.rs", "pub struct Config;\nuse crate::handler::handle;"),
        ("stray.rs", ""),
    ];
    let expected =
        ["module `stray` belongs to no layer", "config.rs:2 uses handler: layer `config` may not use layer `request`"];
    assert_eq!(unnamed_edges(&tree(&files), &layers), expected);
}

#[test]
fn without_modules_a_layer_is_its_module() {
    let layers = LayerTable::find("| layer | may use |\n|---|---|\n| `a` | `b` |\n| `b` | – |").expect("a table");
    let files = [("lib.rs", "mod a; mod b;"), ("a.rs", "use crate::b::B;"), ("b.rs", "pub struct B;")];
    assert!(unnamed_edges(&tree(&files), &layers).is_empty());
    let upwards = [("lib.rs", "mod a; mod b;"), ("a.rs", ""), ("b.rs", "use crate::a::A;")];
    let expected = ["b.rs:1 uses a: layer `b` may not use layer `a`"];
    assert_eq!(unnamed_edges(&tree(&upwards), &layers), expected);
}

#[test]
fn a_row_of_layers_that_names_what_is_not_there_is_stale() {
    let table = "| layer | modules | may use |\n|---|---|---|\n\
                 | server | server, gone | all below |\n\
                 | request | handler (not stray) | config, plans |\n\
                 | config | config, handler | |\n\
                 | config | | – |\n";
    let layers = LayerTable::find(table).expect("there is a table");
    let expected = [
        "ARCHITECTURE.md:3: row server: names module gone, which does not exist",
        "ARCHITECTURE.md:4: row request: names layer plans, which has no row",
        "ARCHITECTURE.md:5: row config: names module handler, which is in row request too",
        "ARCHITECTURE.md:6: row config: an earlier row has the same name",
    ];
    assert_eq!(layers.stale_rows(&BTreeSet::from(["server", "handler", "config"])), expected);
    // A layer that may be used need not be used.
    let layers = LayerTable::find(LAYERS).expect("there is a table");
    assert!(layers.stale_rows(&BTreeSet::from(["server", "handler", "routes", "config"])).is_empty());
}
