//! Sleeps in tests.

use super::Violation;
use super::names::is_call;
use crate::module_tree::product_files;
use crate::repository::Repository;

const SLEEPS: [&str; 3] = ["sleep", "sleep_until", "sleep_ms"];

/// Calls of `sleep` in code that only tests run, the test kit apart.
pub fn sleeps_in_tests(repository: &Repository) -> Vec<Violation> {
    let product = product_files(repository);
    let mut found = Vec::new();
    for (path, file) in &repository.files {
        let is_kit = path.starts_with("crates/tidegate-testkit/");
        let is_example = path.contains("/benches/") || path.contains("/examples/");
        if is_kit || is_example {
            continue;
        }
        for (at, token) in file.tokens.iter().enumerate() {
            if (token.for_tests || !product.contains(path)) && is_call(&file.tokens, at, &SLEEPS) {
                found.push(Violation::new(path, token.line, "sleeps"));
            }
        }
    }
    found
}
