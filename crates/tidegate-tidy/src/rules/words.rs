//! Words and phrases that make a text hard to read.

use super::Violation;
use super::visible::{Text, texts};
use crate::repository::Repository;

/// What to look for, in lower case, and what may come next for it to count.
const AVOIDED: [(&str, Next); 10] = [
    ("told", Next::Anything),
    ("tell", Next::Anything),
    ("tells", Next::Anything),
    ("whoever", Next::Anything),
    ("of which", Next::Anything),
    ("is none", Next::Anything),
    ("is no", Next::AnotherWordThan(&["longer", "more"])),
    ("is allowed", Next::Anything),
    ("is said of", Next::Anything),
    ("meanwhile", Next::EndOfSentence),
];

enum Next {
    Anything,
    EndOfSentence,
    AnotherWordThan(&'static [&'static str]),
}

impl Next {
    fn fits(&self, rest: &str) -> bool {
        match self {
            Self::Anything => true,
            Self::EndOfSentence => {
                rest.trim_matches(['"', '#']).chars().next().is_none_or(|next| ".;:)".contains(next))
            }
            Self::AnotherWordThan(words) => {
                let next = rest.strip_prefix(' ').unwrap_or_default();
                let next = next.split(|letter: char| !letter.is_alphabetic()).next().unwrap_or_default();
                !next.is_empty() && !words.contains(&next)
            }
        }
    }
}

/// Words to avoid in texts that users see.
pub fn words_to_avoid(repository: &Repository) -> Vec<Violation> {
    texts(repository).iter().flat_map(avoided).collect()
}

fn avoided(text: &Text) -> Vec<Violation> {
    let (words, lines) = one_line(text);
    let mut found = Vec::new();
    for (phrase, next) in &AVOIDED {
        for (at, _) in words.match_indices(phrase) {
            let end = at + phrase.len();
            let is_letter = |letter: char| letter.is_alphanumeric() || letter == '_';
            let begins = !words[..at].ends_with(is_letter);
            if begins && !words[end..].starts_with(is_letter) && next.fits(&words[end..]) {
                let from = floor(&words, at.saturating_sub(30));
                let to = floor(&words, (end + 30).min(words.len()));
                found.push(Violation::new(&text.path, lines[at], format!("\"{phrase}\" in \"{}\"", &words[from..to])));
            }
        }
    }
    found
}

/// The text in lower case, with a single space for each gap and break, and the line of each of its bytes.
fn one_line(text: &Text) -> (String, Vec<usize>) {
    let mut words = String::new();
    let mut lines = Vec::new();
    for (at, line) in text.content.lines().enumerate() {
        for word in line.split_whitespace() {
            words.push_str(&word.to_lowercase());
            words.push(' ');
            lines.resize(words.len(), text.line + at);
        }
    }
    words.truncate(words.trim_end().len());
    (words, lines)
}

/// The border of a character at or before `at`.
fn floor(text: &str, at: usize) -> usize {
    (0..=at).rev().find(|at| text.is_char_boundary(*at)).unwrap_or(0)
}
