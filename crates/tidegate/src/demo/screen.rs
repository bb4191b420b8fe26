//! Lines on a terminal that are drawn again and again at the same position.

use std::fmt::Write as _;
use std::io::Write as _;

use crate::has_colours;

/// A colour; with `NO_COLOR` there is none.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Ink {
    Plain,
    Bold,
    Dim,
    Green,
    Red,
    Yellow,
}

impl Ink {
    fn code(self) -> &'static str {
        match self {
            Self::Plain => "",
            Self::Bold => "\x1b[1m",
            Self::Dim => "\x1b[2m",
            Self::Green => "\x1b[32m",
            Self::Red => "\x1b[31m",
            Self::Yellow => "\x1b[33m",
        }
    }
}

/// A line: pieces, each in its colour.
pub(super) type Line = Vec<(Ink, String)>;

/// The part of the terminal where they are drawn. The cursor is hidden until it is dropped.
pub(super) struct Screen {
    has_colours: bool,
    /// Lines that stand there, and how large the terminal was then.
    drawn: usize,
    size: (usize, usize),
}

/// Everything, and the cursor to the top.
const CLEAR: &str = "\x1b[2J\x1b[H";

impl Screen {
    pub(super) fn open() -> Self {
        put("\x1b[?25l");
        Self { has_colours: has_colours(), drawn: 0, size: Self::size() }
    }

    /// Columns and rows.
    pub(super) fn size() -> (usize, usize) {
        let size = terminal_size::terminal_size_of(std::io::stdout());
        size.map_or((80, 24), |(width, height)| (usize::from(width.0).max(1), usize::from(height.0).max(2)))
    }

    /// Draws over what stands there, in one piece: nothing flickers. What does not fit is left out, or it could not be
    /// drawn over.
    pub(super) fn draw(&mut self, lines: &[Line]) {
        let (columns, rows) = Self::size();
        let lines = &lines[..lines.len().min(rows - 1)];
        let mut text = self.to_the_top();
        self.size = (columns, rows);
        for line in lines {
            self.write(&mut text, line, columns - 1);
            text.push_str("\x1b[K\n");
        }
        // Of a terminal that was higher before.
        text.push_str("\x1b[J");
        self.drawn = lines.len();
        put(&text);
    }

    fn to_the_top(&self) -> String {
        match self.drawn {
            0 => "\r".to_owned(),
            // Where lines are by now that the terminal has wrapped or moved, nobody knows.
            _ if self.size != Self::size() => CLEAR.to_owned(),
            drawn => format!("\r\x1b[{drawn}A"),
        }
    }

    fn write(&self, text: &mut String, line: &Line, mut room: usize) {
        for (ink, piece) in line {
            let letters: Vec<char> = piece.chars().filter(|letter| !letter.is_control()).collect();
            let mut piece: String = letters.iter().take(room).collect();
            if letters.len() > room && piece.pop().is_some() {
                piece.push('…');
            }
            room -= letters.len().min(room);
            let code = if self.has_colours { ink.code() } else { "" };
            let end = if code.is_empty() { "" } else { "\x1b[0m" };
            let _infallible = write!(text, "{code}{piece}{end}");
        }
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        put(&format!("{}\x1b[J\x1b[?25h", self.to_the_top()));
    }
}

/// A terminal that is gone takes nothing, and nobody sees it.
fn put(text: &str) {
    let mut out = std::io::stdout().lock();
    let _gone = out.write_all(text.as_bytes()).and_then(|()| out.flush());
}
