//! The paths in a module's tokens: `use` declarations, and `crate::a::b` wherever else it stands.

use std::collections::BTreeSet;

use crate::tokens::{Kind, Token};

/// What the code of a module names.
#[derive(Debug, Default)]
pub(crate) struct Paths {
    pub(crate) imports: Vec<Import>,
    /// Paths of at least two parts, imports apart.
    pub(crate) mentions: Vec<Mention>,
    /// Every word, for names that come by `use super::*`.
    pub(crate) words: BTreeSet<String>,
}

/// What a `use` declaration brings in.
#[derive(Debug)]
pub(crate) struct Import {
    pub(crate) segments: Vec<String>,
    pub(crate) line: usize,
    /// The name by which it is known here; none for `*`.
    pub(crate) name: Option<String>,
}

/// A path elsewhere in the code.
#[derive(Debug)]
pub(crate) struct Mention {
    pub(crate) segments: Vec<String>,
    pub(crate) line: usize,
}

/// Adds what stands at `at` to `paths`, and returns the index of what comes next.
pub(crate) fn read(tokens: &[Token], at: usize, paths: &mut Paths) -> usize {
    match &tokens[at].kind {
        Kind::Word(word) => {
            paths.words.insert(word.clone());
            read_word(tokens, at, word, paths)
        }
        // An attribute may name a path in a string: `#[serde(with = "crate::config::span")]`.
        Kind::Literal(text) => {
            let path = text.trim_matches('"');
            if ["crate::", "super::", "self::"].iter().any(|head| path.starts_with(head)) {
                let segments = path.split("::").map(|segment| segment.trim().to_owned()).collect();
                paths.mentions.push(Mention { segments, line: tokens[at].line });
            }
            at + 1
        }
        Kind::Mark(_) | Kind::Open(_) | Kind::Close => at + 1,
    }
}

fn read_word(tokens: &[Token], at: usize, word: &str, paths: &mut Paths) -> usize {
    let next = tokens.get(at + 1);
    let is_declaration = |token: &Token| token.word().is_some() || token.is_open('{') || token.is_mark(':');
    if word == "use" && next.is_some_and(is_declaration) {
        return read_tree(tokens, at + 1, &mut Vec::new(), &mut paths.imports);
    }
    // `pub(in crate::a)` says who may use this, not what this uses.
    if word == "pub" && next.is_some_and(|token| token.is_open('(')) {
        return tokens[at + 1].mate + 1;
    }
    let is_continued = at >= 2 && is_separator(tokens, at - 2);
    if is_continued || !is_separator(tokens, at + 1) {
        return at + 1;
    }
    let mut segments = vec![word.to_owned()];
    let mut end = at + 1;
    while is_separator(tokens, end)
        && let Some(segment) = tokens.get(end + 2).and_then(Token::word)
    {
        segments.push(segment.to_owned());
        paths.words.insert(segment.to_owned());
        end += 3;
    }
    if segments.len() > 1 {
        paths.mentions.push(Mention { segments, line: tokens[at].line });
    }
    end
}

/// Whether `::` stands at `at`.
fn is_separator(tokens: &[Token], at: usize) -> bool {
    let is_colon = |at: usize| tokens.get(at).is_some_and(|token: &Token| token.is_mark(':'));
    is_colon(at) && is_colon(at + 1)
}

/// Reads one tree of a `use` declaration, such as `a::{self, b::*, c as d}`. `before` is the path to its left. Returns
/// the index after it.
fn read_tree(tokens: &[Token], mut at: usize, before: &mut Vec<String>, imports: &mut Vec<Import>) -> usize {
    let depth = before.len();
    while let Some(token) = tokens.get(at) {
        let line = token.line;
        match &token.kind {
            Kind::Word(word) => {
                before.push(word.clone());
                at += 1;
                if is_separator(tokens, at) {
                    continue;
                }
                let name = if tokens.get(at).is_some_and(|token| token.is_word("as")) {
                    at += 2;
                    tokens.get(at - 1).and_then(Token::word).map(str::to_owned)
                } else {
                    None
                };
                // `a::{self}` is `a`.
                if before.len() > 1 && before.last().is_some_and(|last| last == "self") {
                    before.pop();
                }
                let name = name.or_else(|| before.last().cloned());
                imports.push(Import { segments: before.clone(), line, name });
                break;
            }
            Kind::Mark('*') => {
                imports.push(Import { segments: before.clone(), line, name: None });
                at += 1;
                break;
            }
            Kind::Open('{') => {
                let close = token.mate;
                at += 1;
                while at < close {
                    at = read_tree(tokens, at, before, imports);
                    at += usize::from(at < close && tokens[at].is_mark(','));
                }
                at = close + 1;
                break;
            }
            Kind::Mark(':') => at += 1,
            Kind::Mark(_) | Kind::Literal(_) | Kind::Open(_) | Kind::Close => {
                at += 1;
                break;
            }
        }
    }
    before.truncate(depth);
    at
}
