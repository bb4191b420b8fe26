//! How long files, functions and lines may be.

use super::{Violation, has_extension};
use crate::repository::{File, Repository};
use crate::tokens::Token;

const FILE_LINES: usize = 500;
const FUNCTION_LINES: usize = 70;
const LINE_COLUMNS: usize = 120;

/// Files in Rust and Lua of more than 500 lines.
pub fn long_files(repository: &Repository) -> Vec<Violation> {
    let code = repository.files.iter().filter(|(path, _)| has_extension(path, &["rs", "lua"]));
    let lengths = code.map(|(path, file)| (path, file.text.lines().count()));
    let long = lengths.filter(|(_, lines)| *lines > FILE_LINES);
    long.map(|(path, lines)| Violation::new(path, lines, format!("{lines} lines in the file"))).collect()
}

/// Functions in Rust of more than 70 lines, from `fn` to the closing brace.
pub fn long_functions(repository: &Repository) -> Vec<Violation> {
    repository.files.iter().flat_map(|(path, file)| long_functions_of(path, file)).collect()
}

fn long_functions_of(path: &str, file: &File) -> Vec<Violation> {
    let tokens = &file.tokens;
    let mut found = Vec::new();
    for (at, token) in tokens.iter().enumerate() {
        let Some(name) = tokens.get(at + 1).and_then(Token::word).filter(|_| token.is_word("fn")) else { continue };
        let Some(end) = body_end(tokens, at + 2) else { continue };
        let lines = tokens[end].line - token.line + 1;
        if lines > FUNCTION_LINES {
            found.push(Violation::new(path, token.line, format!("{lines} lines in `{name}`")));
        }
    }
    found
}

/// The index of the brace that ends the body of a function whose parameters begin at `at`.
fn body_end(tokens: &[Token], mut at: usize) -> Option<usize> {
    loop {
        let token = tokens.get(at)?;
        if token.is_open('{') {
            return Some(token.mate);
        }
        if token.is_mark(';') || token.mate < at {
            return None;
        }
        at = token.mate + 1;
    }
}

/// Lines of more than 120 columns in code and Markdown.
///
/// Excepted, in Markdown and in comments: rows of tables, which can't be broken, and a line without a space to break
/// at, such as a link. In Markdown also blocks of code, which show what a program prints.
pub fn long_lines(repository: &Repository) -> Vec<Violation> {
    let files = repository.files.iter().filter(|(path, _)| has_extension(path, &["rs", "lua", "md", "toml"]));
    files.flat_map(|(path, file)| long_lines_of(path, &file.text)).collect()
}

fn long_lines_of(path: &str, text: &str) -> Vec<Violation> {
    let is_markdown = has_extension(path, &["md"]);
    let mut in_code_block = false;
    let mut found = Vec::new();
    for (at, line) in text.lines().enumerate() {
        if is_markdown && line.trim_start().starts_with("```") {
            in_code_block = !in_code_block;
        }
        let columns = line.chars().count();
        if columns > LINE_COLUMNS && !in_code_block && !is_unbreakable(line, is_markdown) {
            found.push(Violation::new(path, at + 1, format!("{columns} columns")));
        }
    }
    found
}

fn is_unbreakable(line: &str, is_markdown: bool) -> bool {
    let line = line.trim();
    let prose = ["///", "//!", "//", "--", "#"].iter().find_map(|mark| line.strip_prefix(mark));
    let prose = if is_markdown { Some(line) } else { prose };
    prose.is_some_and(|prose| {
        let prose = prose.trim().trim_start_matches(['-', '*', ' ']);
        prose.starts_with('|') || !prose.contains(' ')
    })
}
