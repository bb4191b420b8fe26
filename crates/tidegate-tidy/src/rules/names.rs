//! Names that say nothing, and references that lead nowhere.

use super::{Violation, has_extension};
use crate::repository::Repository;
use crate::tokens::Token;

/// Files named `mod.rs`.
pub fn mod_files(repository: &Repository) -> Vec<Violation> {
    let files = repository.files.keys().filter(|path| path.ends_with("/mod.rs"));
    files.map(|path| Violation::new(path, 1, "name it by its folder, and put it beside it")).collect()
}

/// Types named `Told`, modules named `told`.
pub fn told(repository: &Repository) -> Vec<Violation> {
    const BEFORE_TYPES: [&str; 6] = ["struct", "enum", "union", "trait", "type", "as"];
    let mut found = Vec::new();
    for (path, file) in &repository.files {
        for (token, name) in file.tokens.iter().zip(file.tokens.iter().skip(1)) {
            let is_type = name.is_word("Told") && token.word().is_some_and(|word| BEFORE_TYPES.contains(&word));
            let is_module = name.is_word("told") && token.is_word("mod");
            if is_type || is_module {
                found.push(Violation::new(path, name.line, format!("`{}`", name.word().unwrap_or_default())));
            }
        }
    }
    found
}

/// References to documents that are not in the repository: what it was made from, and the ids of requirements.
pub fn unseen_documents(repository: &Repository) -> Vec<Violation> {
    let written = ["rs", "lua", "md", "toml", "yml", "yaml", "json", "ts", "mjs", "css", "html", "py"];
    let mut found = Vec::new();
    for (path, file) in &repository.files {
        if has_extension(path, &written) || path.starts_with("scripts/") || !path.contains(['.', '/']) {
            let is_rust = has_extension(path, &["rs"]);
            for (at, line) in file.text.lines().enumerate() {
                if let Some(reference) = reference(line, is_rust) {
                    found.push(Violation::new(path, at + 1, format!("refers to {reference}")));
                }
            }
        }
    }
    found
}

fn reference(line: &str, is_rust: bool) -> Option<&'static str> {
    // A random seed is something else: that one is drawn from, or given.
    const SEED: [&str; 7] = [
        "the seed's",
        "as the seed",
        "of the seed,",
        "of the seed.",
        "where the seed ha",
        "the seed:",
        "what the seed",
    ];
    let lower = line.to_lowercase();
    if SEED.iter().any(|phrase| lower.contains(phrase)) {
        return Some("the seed");
    }
    let is_apart = |letter: char| !(letter.is_alphanumeric() || letter == '_');
    if line.split(is_apart).any(|word| word == "SPEC") || line.contains("DESIGN's") || line.contains("DESIGN §") {
        return Some("a specification");
    }
    // In code three digits may be anything; a comment does not begin a number with 0.
    let prose = if is_rust { line.split_once("//").map_or("", |(_, comment)| comment) } else { line };
    let is_number =
        |word: &str| word.len() == 3 && word.starts_with("00") && word.ends_with(|end: char| end.is_ascii_digit());
    let mut places = prose.match_indices("00").filter(|(at, _)| {
        let before = prose[..*at].chars().next_back();
        let after = prose.get(at + 3..).and_then(|rest| rest.chars().next());
        let word = prose.get(*at..at + 3).unwrap_or_default();
        is_number(word)
            && before.is_none_or(|letter| letter == ' ' || letter == '(')
            && after.is_none_or(|letter| letter == ':' || letter == ')' || letter == ',')
    });
    if places.next().is_some() {
        return Some("a numbered document");
    }
    prose
        .split('(')
        .skip(1)
        .any(|rest| is_requirement(rest.split(')').next().unwrap_or_default()))
        .then_some("a requirement")
}

/// `R9`, `G2b`.
fn is_requirement(word: &str) -> bool {
    let mut letters = word.chars();
    let is_letter = letters.next().is_some_and(|letter| letter.is_ascii_uppercase());
    let digits = letters.as_str().trim_end_matches(|end: char| end.is_ascii_lowercase());
    is_letter && (1..=2).contains(&digits.len()) && digits.chars().all(|digit| digit.is_ascii_digit())
}

/// Whether the token is a call of one of these functions.
pub(super) fn is_call(tokens: &[Token], at: usize, names: &[&str]) -> bool {
    let is_named = tokens[at].word().is_some_and(|word| names.contains(&word));
    let is_defined = at > 0 && tokens[at - 1].is_word("fn");
    is_named && !is_defined && tokens.get(at + 1).is_some_and(|token| token.is_open('('))
}
