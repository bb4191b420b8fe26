//! What manifests depend on, and whether the table of crates in ARCHITECTURE.md says the same.

use tidegate_tidy::architecture::CrateTable;
use tidegate_tidy::manifest;

use super::repository;

/// The dependencies of `tidegate-gateway` with this manifest, and their lines.
fn dependencies(gateway: &str) -> Vec<(String, usize)> {
    let shared = "[workspace.dependencies]\nhttp = \"1\"\ntidegate-http = { path = \"crates/tidegate-http\" }\n\
                  engine = { path = \"crates/tidegate-http/\", package = \"tidegate-http\" }\n\
                  [workspace.dependencies.kit]\npath = \"crates/tidegate-kit\"\npackage = \"the-kit\"\n";
    let repository = repository(&[
        ("Cargo.toml", shared),
        ("crates/tidegate-gateway/Cargo.toml", gateway),
        ("crates/tidegate-http/Cargo.toml", "[package]\nname = \"tidegate-http\"\n"),
        ("crates/tidegate-kit/Cargo.toml", "[package]\nname = \"the-kit\"\n"),
    ]);
    let mut manifests = manifest::dependencies(&repository).expect("manifests are TOML");
    manifests.remove("tidegate-gateway").expect("it is a crate").into_iter().collect()
}

#[test]
fn a_dependency_is_found_however_it_is_written() {
    let ways = [
        "[dependencies]\ntidegate-http = { path = \"../tidegate-http\" }",
        "[dependencies]\ntidegate-http.path='../tidegate-http'",
        "[dependencies]\ntidegate-http = { workspace = true }",
        "[dependencies]\ntidegate-http = { features = [\n\"a\", # }\n], workspace = true, default-features = false }",
        "[dependencies]\ntidegate-http.workspace = true",
        "\n[dependencies.tidegate-http]\nworkspace = true",
        "\n[dependencies.tidegate-http]\noptional = true\npath = \"../tidegate-http\"",
        "\n[dependencies.engine]\nworkspace = true",
        "[dependencies]\nengine = { package = \"tidegate-http\", path = \"../tidegate-http\" }",
        "[dependencies]\nengine = { package = \"tidegate-http\", version = \"1\" }",
        "[dependencies]\ntidegate-http = \"0.1\"",
        "[build-dependencies]\ntidegate-http.workspace = true",
        "\n[target.'cfg(unix)'.dependencies.tidegate-http]\nworkspace = true",
        "[target.\"cfg(unix)\".dependencies]\nengine.workspace = true",
        "dependencies.tidegate-http.workspace = true\n[package]\nname = \"tidegate-gateway\"",
    ];
    for way in ways {
        let expected = if way.starts_with("dependencies.") { 1 } else { 2 };
        assert_eq!(dependencies(way), [("tidegate-http".to_owned(), expected)], "{way}");
    }
    // The name of a package may differ from that of its folder.
    for way in
        ["[dependencies]\nkit.workspace = true", "[dependencies]\nkit = { package = \"the-kit\", version = \"1\" }"]
    {
        assert_eq!(dependencies(way), [("tidegate-kit".to_owned(), 2)], "{way}");
    }
}

#[test]
fn what_only_tests_need_and_what_is_no_dependency_is_left_out() {
    let ways = [
        "[dev-dependencies]\ntidegate-http = { workspace = true }",
        "[dev-dependencies.tidegate-http]\nworkspace = true",
        "[target.'cfg(unix)'.dev-dependencies]\ntidegate-http.workspace = true",
        "# [dependencies]\n# tidegate-http = { path = \"../tidegate-http\" }",
        "[package]\nversion.workspace = true\n[features]\ntidegate-http = [\"dep:tidegate-http\"]",
        "[[bench]]\nname = \"tidegate-http\"\npath = \"../tidegate-http\"",
    ];
    for way in ways {
        assert_eq!(dependencies(way), [], "{way}");
    }
    let renamed = "[dependencies]\ntidegate-http = { package = \"hyper\", version = \"1\" }\nhttp.workspace = true";
    assert_eq!(dependencies(renamed), [("http".to_owned(), 3), ("hyper".to_owned(), 2)]);
}

/// What is wrong with the rows of a table, for three crates.
fn differences(rows: &str) -> Vec<String> {
    let repository = repository(&[
        (
            "crates/tidegate-gateway/Cargo.toml",
            "[dependencies]\nhyper = \"1\"\ntidegate-http.path = \"../tidegate-http\"",
        ),
        ("crates/tidegate-http/Cargo.toml", "[dependencies]\nhttp = \"1\"\n[dev-dependencies]\ntidegate-kit = \"1\""),
        ("crates/tidegate-kit/Cargo.toml", "[dependencies.http]\npackage = \"tidegate-http\"\nversion = \"1\""),
    ]);
    let manifests = manifest::dependencies(&repository).expect("manifests are TOML");
    let table = format!("Words.\n| crate | it … | depends on |\n|---|---|---|\n{rows}");
    CrateTable::find(&table).expect("there is a table").differences(&manifests)
}

const GATEWAY: &str = "| `crates/tidegate-gateway` | guards | http, `hyper` (not kit) and more |\n";
const HTTP: &str = "| `crates/tidegate-http` | speaks | std, `http`; no other crate of ours, not even kit |\n";
const KIT: &str = "| `crates/tidegate-kit` | tests | `tidegate-http` |\n";

#[test]
fn a_table_that_says_what_manifests_say_is_right() {
    assert_eq!(differences(&[GATEWAY, HTTP, KIT].concat()), [""; 0]);
}

#[test]
fn an_edge_between_crates_must_be_named() {
    // `http` in backquotes is a crate from elsewhere, and `hyper (http)` names only `hyper`.
    let unnamed = "| `crates/tidegate-gateway` | http | `hyper` (http) |\n";
    let expected = "crates/tidegate-gateway/Cargo.toml:3: uses tidegate-http, \
                    which its row in ARCHITECTURE.md does not name";
    assert_eq!(differences(&[unnamed, HTTP, KIT].concat()), [expected]);
    let expected = "crates/tidegate-kit: has no row in the table of crates of ARCHITECTURE.md";
    assert_eq!(differences(&[GATEWAY, HTTP].concat()), [expected]);
}

#[test]
fn a_row_of_crates_that_names_what_is_not_there_is_stale() {
    let http = "row `crates/tidegate-http`: names";
    let unused = "which is not among the dependencies in crates/tidegate-http/Cargo.toml";
    for (cell, expected) in [
        // For tests alone is not enough.
        ("`http`, kit", format!("{http} tidegate-kit, {unused}")),
        ("`http`, `tidegate-kit`", format!("{http} tidegate-kit, {unused}")),
        ("`http`, `httparse`", format!("{http} httparse, {unused}")),
        ("`http`, policy", format!("{http} policy, which is not a crate of ours")),
        ("kit and policy", format!("{http} kit and policy, which is not a crate of ours")),
    ] {
        let row = format!("| `crates/tidegate-http` | speaks | {cell} |\n");
        assert_eq!(differences(&[GATEWAY, &row, KIT].concat()), [format!("ARCHITECTURE.md:5: {expected}")], "{cell}");
    }
    let gone = "| `crates/tidegate-gone` | went | http |\n";
    let expected = "ARCHITECTURE.md:7: row `crates/tidegate-gone`: there is no crates/tidegate-gone";
    assert_eq!(differences(&[GATEWAY, HTTP, KIT, gone].concat()), [expected]);
}
