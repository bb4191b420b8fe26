//! The texts that users see.

use std::collections::BTreeSet;
use std::path::Path;

use crate::module_tree::product_files;
use crate::repository::{File, Repository};
use crate::tokens::{Kind, Token};

/// A text, and the line where it begins.
pub(super) struct Text {
    pub(super) path: String,
    pub(super) line: usize,
    pub(super) content: String,
}

/// Types whose doc comments become help texts or the reference of the configuration.
const SHOWN: [&str; 5] = ["Parser", "Args", "Subcommand", "ValueEnum", "JsonSchema"];

/// Markdown, the string literals of libraries and programs, and doc comments of types that are shown.
pub(super) fn texts(repository: &Repository) -> Vec<Text> {
    let product = product_files(repository);
    let mut texts = Vec::new();
    for (path, file) in &repository.files {
        // The kit speaks to those who write tests.
        if product.contains(path) && !path.starts_with("crates/tidegate-testkit/") {
            let found = literals(&file.tokens).into_iter().chain(shown_docs(&file.tokens));
            texts.extend(found.map(|(line, text)| Text { path: path.clone(), line, content: text }));
        } else if Path::new(path).extension().is_some_and(|extension| extension == "md") {
            texts.push(markdown(path, file));
        }
    }
    texts
}

fn markdown(path: &str, file: &File) -> Text {
    Text { path: path.to_owned(), line: 1, content: file.text.clone() }
}

/// String literals outside tests and doc comments, without what is filled in: `{name}`.
fn literals(tokens: &[Token]) -> Vec<(usize, String)> {
    let mut found = Vec::new();
    for (at, token) in tokens.iter().enumerate() {
        let Some(text) = token.literal().filter(|text| text.ends_with(['"', '#']) && !token.for_tests) else {
            continue;
        };
        if !is_doc(tokens, at) {
            found.push((token.line, without_arguments(&joined(text))));
        }
    }
    found
}

/// Whether the literal at `at` is a doc comment: the last token of `doc = "…"`.
fn is_doc(tokens: &[Token], at: usize) -> bool {
    at >= 2 && tokens[at - 1].is_mark('=') && tokens[at - 2].is_word("doc")
}

/// A backslash at the end of a line removes the break and what the next line begins with.
fn joined(literal: &str) -> String {
    let mut parts = literal.split("\\\n");
    let first = parts.next().unwrap_or_default().to_owned();
    parts.fold(first, |text, part| text + part.trim_start())
}

fn without_arguments(text: &str) -> String {
    let mut shown = String::new();
    let mut depth = 0_usize;
    for letter in text.chars() {
        match letter {
            '{' => depth += 1,
            '}' => depth = depth.saturating_sub(1),
            _ if depth == 0 => shown.push(letter),
            _ => {}
        }
    }
    shown
}

/// The doc comments of types that derive one of `SHOWN`, and of what is in them, line after line joined.
fn shown_docs(tokens: &[Token]) -> Vec<(usize, String)> {
    let mut found: Vec<(usize, String)> = Vec::new();
    let mut last_line = 0;
    for at in shown_tokens(tokens) {
        let Some(text) = tokens[at].literal().filter(|_| is_doc(tokens, at)) else { continue };
        let text = text.trim_start_matches(['r', '#']).trim_end_matches('#').trim_matches('"');
        match found.last_mut() {
            Some((_, paragraph)) if tokens[at].line == last_line + 1 => {
                paragraph.push('\n');
                paragraph.push_str(text);
            }
            _ => found.push((tokens[at].line, text.to_owned())),
        }
        last_line = tokens[at].line;
    }
    found
}

/// The tokens of types that derive one of `SHOWN`, with the attributes before them.
fn shown_tokens(tokens: &[Token]) -> BTreeSet<usize> {
    let mut shown = BTreeSet::new();
    for (at, token) in tokens.iter().enumerate() {
        let is_type = token.is_word("struct") || token.is_word("enum");
        if !is_type || token.for_tests {
            continue;
        }
        let start = attributes_start(tokens, at);
        let derives = tokens[start..at].iter().any(|token| token.word().is_some_and(|word| SHOWN.contains(&word)));
        let body = tokens[at..].iter().find(|token| matches!(token.kind, Kind::Open('{' | '(') | Kind::Mark(';')));
        if let (true, Some(body)) = (derives, body) {
            shown.extend(start..body.mate);
        }
    }
    shown
}

/// The index where the attributes of the item begin whose keyword stands at `at`.
fn attributes_start(tokens: &[Token], at: usize) -> usize {
    let mut start = at;
    // `pub(crate)` and attributes end in a closing delimiter; `pub` is a word.
    while start > 0 {
        let before = &tokens[start - 1];
        let open = before.mate;
        let follows = |is: &dyn Fn(&Token) -> bool| before.kind == Kind::Close && open > 0 && is(&tokens[open - 1]);
        let is_attribute = follows(&|token| token.is_mark('#')) && tokens[open].is_open('[');
        let is_visibility = follows(&|token| token.is_word("pub"));
        if is_attribute || is_visibility {
            start = open - 1;
        } else if before.is_word("pub") {
            start -= 1;
        } else {
            break;
        }
    }
    start
}
