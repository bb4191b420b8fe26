//! Lines of text, in colours or not.

use std::fmt::Display;

/// The widest line.
const WIDTH: usize = 100;

#[derive(Clone, Copy)]
pub(super) enum Ink {
    Bold,
    Red,
    Green,
    Yellow,
}

pub(super) struct Page {
    text: String,
    has_colours: bool,
}

impl Page {
    pub(super) fn new(has_colours: bool) -> Self {
        Self { text: String::new(), has_colours }
    }

    pub(super) fn plain(&mut self, line: &str) {
        self.text.push_str(line.trim_end());
        self.text.push('\n');
    }

    pub(super) fn line(&mut self, ink: Ink, line: &str) {
        let line = self.inked(ink, line.trim_end());
        self.plain(&line);
    }

    /// A mark in colour and a text, which goes on in further lines if it is too long for one.
    pub(super) fn marked(&mut self, mark: &str, ink: Ink, text: &str) {
        let indent = mark.chars().count() + 2;
        let mut lines = wrapped(text, WIDTH - indent - 1).into_iter();
        let (first, mark) = (lines.next().unwrap_or_default(), self.inked(ink, mark));
        self.plain(&format!("{mark}  {first}"));
        for line in lines {
            self.plain(&format!("{}{line}", " ".repeat(indent)));
        }
    }

    /// An empty line, unless there is nothing before it.
    pub(super) fn gap(&mut self) {
        if !self.text.is_empty() {
            self.text.push('\n');
        }
    }

    pub(super) fn finish(self) -> String {
        self.text
    }

    fn inked(&self, ink: Ink, text: &str) -> String {
        let code = match ink {
            Ink::Bold => "1",
            Ink::Red => "1;31",
            Ink::Green => "32",
            Ink::Yellow => "33",
        };
        if self.has_colours { format!("\x1b[{code}m{text}\x1b[0m") } else { text.to_owned() }
    }
}

fn wrapped(text: &str, width: usize) -> Vec<String> {
    let mut lines = vec![String::new()];
    for word in text.split(' ').map(|word| cut(word, width)) {
        let last = lines.last().map_or(0, |line| line.chars().count());
        if last > 0 && last + 1 + word.chars().count() > width {
            lines.push(word);
        } else if let Some(line) = lines.last_mut() {
            line.push_str(if last > 0 { " " } else { "" });
            line.push_str(&word);
        }
    }
    lines
}

/// At most so many characters.
pub(super) fn cut(text: &str, most: usize) -> String {
    if text.chars().count() <= most {
        return text.to_owned();
    }
    text.chars().take(most - 1).chain(['…']).collect()
}

/// At least so many characters.
pub(super) fn padded(text: &str, least: usize) -> String {
    format!("{text}{}", " ".repeat(least.saturating_sub(text.chars().count())))
}

/// Columns, with their text at the right.
pub(super) fn cells<T: Display>(cells: impl IntoIterator<Item = T>) -> String {
    cells.into_iter().fold(String::new(), |row, cell| {
        let cell = cell.to_string();
        format!("{row}{cell:>11}")
    })
}
