//! What the tables of ARCHITECTURE.md permit.

use std::collections::BTreeMap;

use tidegate_tidy::graph::unnamed_edges;
use tidegate_tidy::{architecture, manifest};

use super::{repository, tree};

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
    let layers = architecture::layer_table(LAYERS).expect("there is a table");
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
    let layers =
        architecture::layer_table("| layer | may use |\n|---|---|\n| `a` | `b` |\n| `b` | – |").expect("a table");
    let files = [("lib.rs", "mod a; mod b;"), ("a.rs", "use crate::b::B;"), ("b.rs", "pub struct B;")];
    assert!(unnamed_edges(&tree(&files), &layers).is_empty());
    let upwards = [("lib.rs", "mod a; mod b;"), ("a.rs", ""), ("b.rs", "use crate::a::A;")];
    let expected = ["b.rs:1 uses a: layer `b` may not use layer `a`"];
    assert_eq!(unnamed_edges(&tree(&upwards), &layers), expected);
}

#[test]
fn an_edge_between_crates_must_be_named() {
    let http = "[dependencies]\nhttp = \"1\"\n[dev-dependencies]\ntidegate-kit = { path = \"../tidegate-kit\" }";
    let gateway = "[package]\n\n[dependencies]\ntidegate-http = { path = \"../tidegate-http\" }\n\
                   kit = { package = \"tidegate-kit\", path = \"../tidegate-kit\" }";
    let files = [
        ("crates/tidegate-http/Cargo.toml", http),
        ("crates/tidegate-gateway/Cargo.toml", gateway),
        ("crates/tidegate-kit/Cargo.toml", "[dependencies.tidegate-http]\npath = \"../tidegate-http\""),
    ];
    let repository = repository(&files);
    let edges = manifest::edges(&repository);
    let edge = |user: &str, used: &str, line| ((format!("tidegate-{user}"), format!("tidegate-{used}")), line);
    let expected = [edge("gateway", "http", 4), edge("gateway", "kit", 5), edge("kit", "http", 2)];
    assert_eq!(edges, BTreeMap::from(expected));

    // `http` in backquotes is a crate from elsewhere.
    let table = "| crate | it … | depends on |\n|---|---|---|\n\
                 | `crates/tidegate-gateway` | guards | http, `hyper` (not kit) |\n\
                 | `crates/tidegate-kit` | tests | `http` and more |\n";
    let named = architecture::crate_table(table, &repository.crates()).expect("there is a table");
    let unnamed =
        edges.keys().filter(|(user, used)| !named.permits(user, used)).map(|(user, used)| (&user[9..], &used[9..]));
    assert_eq!(unnamed.collect::<Vec<_>>(), [("gateway", "kit"), ("kit", "http")]);
}
