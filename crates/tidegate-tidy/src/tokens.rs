//! Rust as a flat list of tokens. Each knows its line, and whether only tests see it.
//!
//! Tokens, not a syntax tree: the bodies of macros are seen like all other code.

use proc_macro2::{Delimiter, TokenStream, TokenTree};

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// An identifier or keyword, without `r#`.
    Word(String),
    /// A single character of punctuation: `::` is two of them.
    Mark(char),
    /// A literal as it is written, quotes included. A doc comment is the literal of `#[doc = "…"]`.
    Literal(String),
    Open(char),
    Close,
}

#[derive(Clone, Debug)]
pub(crate) struct Token {
    pub(crate) kind: Kind,
    pub(crate) line: usize,
    /// The index of the other delimiter of a pair; of other tokens their own.
    pub(crate) mate: usize,
    /// Compiled for tests alone: what stands under `#[cfg(test)]`.
    pub(crate) for_tests: bool,
}

impl Token {
    pub(crate) fn word(&self) -> Option<&str> {
        match &self.kind {
            Kind::Word(word) => Some(word),
            Kind::Mark(_) | Kind::Literal(_) | Kind::Open(_) | Kind::Close => None,
        }
    }

    pub(crate) fn literal(&self) -> Option<&str> {
        match &self.kind {
            Kind::Literal(text) => Some(text),
            Kind::Word(_) | Kind::Mark(_) | Kind::Open(_) | Kind::Close => None,
        }
    }

    pub(crate) fn is_word(&self, word: &str) -> bool {
        self.word() == Some(word)
    }

    pub(crate) fn is_mark(&self, mark: char) -> bool {
        self.kind == Kind::Mark(mark)
    }

    pub(crate) fn is_open(&self, delimiter: char) -> bool {
        self.kind == Kind::Open(delimiter)
    }
}

/// Reads a file. What stands under `#[cfg(test)]` is marked.
pub(crate) fn read(text: &str) -> Result<Vec<Token>, String> {
    let stream: TokenStream = text.parse().map_err(|error| format!("{error}"))?;
    let mut tokens = Vec::new();
    flatten(stream, &mut tokens);
    mark_tests(&mut tokens);
    Ok(tokens)
}

fn flatten(stream: TokenStream, tokens: &mut Vec<Token>) {
    for tree in stream {
        let at = tokens.len();
        let line = tree.span().start().line;
        let token = |kind, line, mate| Token { kind, line, mate, for_tests: false };
        match tree {
            TokenTree::Ident(ident) => {
                let word = ident.to_string();
                let word = word.strip_prefix("r#").map(str::to_owned).unwrap_or(word);
                tokens.push(token(Kind::Word(word), line, at));
            }
            TokenTree::Punct(punct) => tokens.push(token(Kind::Mark(punct.as_char()), line, at)),
            TokenTree::Literal(literal) => tokens.push(token(Kind::Literal(literal.to_string()), line, at)),
            TokenTree::Group(group) => {
                let delimiter = match group.delimiter() {
                    Delimiter::Parenthesis => '(',
                    Delimiter::Brace => '{',
                    Delimiter::Bracket => '[',
                    Delimiter::None => ' ',
                };
                let end_line = group.span_close().end().line;
                tokens.push(token(Kind::Open(delimiter), line, at));
                flatten(group.stream(), tokens);
                let close = tokens.len();
                tokens[at].mate = close;
                tokens.push(token(Kind::Close, end_line, at));
            }
        }
    }
}

fn mark_tests(tokens: &mut [Token]) {
    let mut at = 0;
    while at < tokens.len() {
        let (start, end) = match test_attribute(tokens, at) {
            // `#![cfg(test)]` at the top of a file is about all of it.
            Some((true, _)) => (0, tokens.len() - 1),
            Some((false, after)) => (at, item_end(tokens, after)),
            None => {
                at += 1;
                continue;
            }
        };
        for token in &mut tokens[start..=end] {
            token.for_tests = true;
        }
        at = end + 1;
    }
}

/// Of an attribute at `at` that leaves something to tests: whether it is an inner one, and the index after it.
fn test_attribute(tokens: &[Token], at: usize) -> Option<(bool, usize)> {
    let is_inner = tokens[at].is_mark('#') && tokens.get(at + 1)?.is_mark('!');
    let open = at + 1 + usize::from(is_inner);
    let is_cfg = tokens[at].is_mark('#') && tokens.get(open)?.is_open('[') && tokens.get(open + 1)?.is_word("cfg");
    let predicate = open + 2;
    let leaves_to_tests = is_cfg && tokens.get(predicate)?.is_open('(') && needs_test(tokens, predicate);
    leaves_to_tests.then(|| (is_inner, tokens[open].mate + 1))
}

/// Whether the predicate in the parentheses at `open` holds in tests alone: `test`, or `all(…)` with `test` in it.
fn needs_test(tokens: &[Token], open: usize) -> bool {
    let close = tokens[open].mate;
    let is_all = tokens[open + 1].is_word("all");
    let (from, to) = if is_all { (open + 3, close - 1) } else { (open + 1, close) };
    let mut at = from;
    while at < to {
        // `not(test)` and `feature = "test"` are something else.
        let stands_alone = at + 1 == to || tokens[at + 1].is_mark(',');
        if tokens[at].is_word("test") && stands_alone && (at == from || tokens[at - 1].is_mark(',')) {
            return true;
        }
        at = tokens[at].mate.max(at) + 1;
    }
    false
}

/// The index of the last token of the item, field or statement that begins at `at`, where more attributes may stand.
fn item_end(tokens: &[Token], mut at: usize) -> usize {
    while at + 1 < tokens.len() && tokens[at].is_mark('#') && tokens[at + 1].is_open('[') {
        at = tokens[at + 1].mate + 1;
    }
    if at < tokens.len() && tokens[at].is_word("pub") {
        at += 1;
        if at < tokens.len() && tokens[at].is_open('(') {
            at = tokens[at].mate + 1;
        }
    }
    let word = |at: usize| tokens.get(at).and_then(Token::word).unwrap_or_default();
    let is_function = matches!(word(at + 1), "fn" | "unsafe" | "async" | "extern");
    let (at_block, at_comma) = match word(at) {
        "use" | "static" | "type" | "let" => (false, false),
        "const" => (is_function, false),
        "fn" | "async" | "unsafe" | "extern" | "struct" | "enum" | "union" | "trait" | "impl" | "mod"
        | "macro_rules" => (true, false),
        _ => (true, true),
    };
    while at < tokens.len() {
        match tokens[at].kind {
            Kind::Close => return at - 1,
            Kind::Mark(';') => return at,
            Kind::Mark(',') if at_comma => return at,
            Kind::Open('{') if at_block => return tokens[at].mate,
            Kind::Open(_) => at = tokens[at].mate + 1,
            Kind::Word(_) | Kind::Mark(_) | Kind::Literal(_) => at += 1,
        }
    }
    tokens.len() - 1
}
