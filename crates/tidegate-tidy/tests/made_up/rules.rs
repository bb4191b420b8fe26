//! What each rule finds, and what it leaves alone.

use tidegate_tidy::rules::{self, Violation};

use super::repository;

/// The lines where a rule is broken, in a repository with this one file.
fn lines(find: fn(&tidegate_tidy::Repository) -> Vec<Violation>, path: &str, text: &str) -> Vec<usize> {
    let root = ("crates/c/src/lib.rs", "mod shown;");
    let repository = repository(&[("crates/c/Cargo.toml", ""), root, (SHOWN, ""), (path, text)]);
    find(&repository).into_iter().map(|violation| violation.line).collect()
}

const SHOWN: &str = "crates/c/src/shown.rs";

#[test]
fn files_and_functions_have_a_longest_length() {
    let lines_of = |count: usize| format!("fn f() {{\n{}}}\n", "    g();\n".repeat(count - 2));
    assert!(lines(rules::long_functions, SHOWN, &lines_of(70)).is_empty());
    assert_eq!(lines(rules::long_functions, SHOWN, &lines_of(71)), [1]);
    let signature = format!("type F = fn(u8);\ntrait T {{ fn f(&self);\n{}}}", "\n".repeat(80));
    assert!(lines(rules::long_functions, SHOWN, &signature).is_empty());
    assert!(lines(rules::long_files, SHOWN, &lines_of(500)).is_empty());
    assert_eq!(lines(rules::long_files, SHOWN, &lines_of(501)), [501]);
}

#[test]
fn long_lines_that_cannot_be_broken_are_left_alone() {
    let long = |text: &str| format!("{text}{}", " word".repeat(30));
    let link = format!("https://{}", "x".repeat(120));
    assert_eq!(lines(rules::long_lines, SHOWN, &long("// a")), [1]);
    assert_eq!(lines(rules::long_lines, SHOWN, &format!("\n{}", long("/// a"))), [2]);
    assert!(lines(rules::long_lines, SHOWN, &format!("{}\n/// {link}", long("/// | a |"))).is_empty());
    let page = ["", &long("| a |"), &format!("- {link}"), "```", &long("printed"), "```", &long("a")].join("\n");
    assert_eq!(lines(rules::long_lines, "docs/page.md", &page), [7]);
    // Letters are counted, not bytes.
    assert!(lines(rules::long_lines, "docs/page.md", &format!("– {}", "é".repeat(118))).is_empty());
}

#[test]
fn words_are_looked_for_where_users_read_them() {
    let shown = [
        ("fn f() { g(\"who is told\") }", 1),
        ("fn f() {\n    g(\"the target is \\\n        none\") }", 2),
        ("const A: &str = r#\"\nwhoever\"#;", 2),
        (
            "#[derive(Debug, clap::Args)]\npub(crate) struct A {\n    /// The host of\n\
             \u{20}   /// which it is.\n    a: u8 }",
            3,
        ),
        ("/// Nothing is allowed.\n#[derive(JsonSchema)] enum A {}", 1),
        ("const A: &str = \"requests wait meanwhile\";", 1),
        ("const A: &str = \"wait meanwhile: it is no use\";", 1),
    ];
    for (text, line) in shown {
        assert_eq!(lines(rules::words_to_avoid, SHOWN, text).first(), Some(&line), "{text}");
    }
    let hidden = [
        "// told\n/// told\nstruct Told; // whoever",
        "fn told() { g(\"{told} retold tolder\") }",
        "#[cfg(test)] mod tests { const A: &str = \"told\"; }",
        "const A: &str = \"it is no longer there, meanwhile it waits; this nothing\";",
    ];
    for text in hidden {
        assert_eq!(lines(rules::words_to_avoid, SHOWN, text), [0; 0], "{text}");
    }
    assert_eq!(lines(rules::words_to_avoid, "docs/page.md", "# A\n\nWho is told of\nwhich?\n"), [3, 3]);
    assert!(lines(rules::words_to_avoid, "crates/c/tests/a.rs", "const A: &str = \"told\";").is_empty());
}

#[test]
fn sleeps_are_found_in_tests_alone() {
    let sleep = "fn f() { std::thread::sleep(SECOND) }";
    let in_test = format!("fn sleep() {{}}\n#[cfg(test)]\nmod tests {{ {sleep} }}");
    assert!(lines(rules::sleeps_in_tests, SHOWN, sleep).is_empty());
    assert_eq!(lines(rules::sleeps_in_tests, SHOWN, &in_test), [3]);
    assert_eq!(lines(rules::sleeps_in_tests, "crates/c/tests/a.rs", sleep), [1]);
    assert!(lines(rules::sleeps_in_tests, "crates/c/benches/a.rs", sleep).is_empty());
    assert!(lines(rules::sleeps_in_tests, "crates/tidegate-testkit/src/a.rs", sleep).is_empty());
}

#[test]
fn documents_outside_the_repository_are_found() {
    let found =
        ["// as the seed has it", "/// (SPEC F3)", "// 002: keys", "// (002)", "# deferred delivery (R9)", "// (G2b)"];
    for text in found {
        assert_eq!(lines(rules::unseen_documents, "deploy/a.yml", text), [1], "{text}");
    }
    let left =
        ["drawn from the seed", "the seed decides", "0.002: a", "1 002 requests", "(RFC 9110)", "(HTTP/2)", "(A)"];
    for text in left {
        assert_eq!(lines(rules::unseen_documents, "deploy/a.yml", text), [0; 0], "{text}");
    }
    assert!(lines(rules::unseen_documents, SHOWN, "const A: &str = \"HTTP/1.1 007: Bond\";").is_empty());
}

#[test]
fn names_are_found_where_they_are_given() {
    assert_eq!(
        lines(rules::told, SHOWN, "struct Told;\nuse a::Told;\nuse a::B as Told;\nmod told {}\nfn told() {}"),
        [1, 3, 4]
    );
    assert_eq!(lines(rules::mod_files, "crates/c/src/a/mod.rs", ""), [1]);
}
