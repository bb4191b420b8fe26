//! As much of TOML as a `Cargo.toml` has: every value with the full path of its key.
//!
//! `a = { b = 1 }`, `a.b = 1` and `b = 1` below `[a]` are the same, so a dependency is found in every form. A parser
//! from elsewhere would make these tests wait for its build.

/// A value and where it stands.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Entry {
    /// The names of the tables around it, and its own.
    pub(crate) path: Vec<String>,
    /// Text without its quotes, anything else as written. Empty for a table itself.
    pub(crate) value: String,
    pub(crate) line: usize,
}

/// All values of a file. Those in lists are left out.
///
/// # Errors
/// The line that can't be read, and what is expected there.
pub(crate) fn read(text: &str) -> Result<Vec<Entry>, String> {
    let mut reader = Reader { rest: text, line: 1, entries: Vec::new() };
    reader.file().map_err(|expected| format!("line {}: expected {expected}", reader.line))?;
    Ok(reader.entries)
}

struct Reader<'a> {
    rest: &'a str,
    line: usize,
    entries: Vec<Entry>,
}

type Read<T> = Result<T, &'static str>;

impl Reader<'_> {
    fn file(&mut self) -> Read<()> {
        let mut table = Vec::new();
        loop {
            self.skip();
            if self.rest.is_empty() {
                return Ok(());
            }
            if !self.takes("[") {
                self.pair(&table)?;
                continue;
            }
            let line = self.line;
            let is_list = self.takes("[");
            table = self.key()?;
            self.expect("]", "`]` after the name of a table")?;
            if is_list {
                self.expect("]", "`]]` after the name of a list of tables")?;
            }
            self.entries.push(Entry { path: table.clone(), value: String::new(), line });
        }
    }

    fn pair(&mut self, table: &[String]) -> Read<()> {
        let path = [table, &self.key()?].concat();
        self.expect("=", "`=` after a key")?;
        self.value(path)
    }

    fn key(&mut self) -> Read<Vec<String>> {
        let mut names = Vec::new();
        loop {
            self.skip();
            let quote = self.rest.chars().next().filter(|letter| matches!(letter, '"' | '\''));
            let name = if quote.is_some() { self.text()? } else { self.up_to(|letter| !is_bare(letter)) };
            if name.is_empty() {
                return Err("a key");
            }
            names.push(name);
            self.skip();
            if !self.takes(".") {
                return Ok(names);
            }
        }
    }

    fn value(&mut self, path: Vec<String>) -> Read<()> {
        self.skip();
        let line = self.line;
        if self.takes("{") {
            self.entries.push(Entry { path: path.clone(), value: String::new(), line });
            return self.sequence("}", |reader| reader.pair(&path));
        }
        if self.takes("[") {
            let known = self.entries.len();
            self.sequence("]", |reader| reader.value(Vec::new()))?;
            self.entries.truncate(known);
            return Ok(());
        }
        let value = if self.rest.starts_with(['"', '\'']) {
            self.text()?
        } else {
            self.up_to(|letter| matches!(letter, ',' | ']' | '}' | '#' | '\n')).trim().to_owned()
        };
        self.entries.push(Entry { path, value, line });
        Ok(())
    }

    /// What stands between brackets, up to the closing one.
    fn sequence(&mut self, end: &str, mut item: impl FnMut(&mut Self) -> Read<()>) -> Read<()> {
        loop {
            self.skip();
            if self.takes(end) {
                return Ok(());
            }
            item(self)?;
            self.skip();
            if !self.takes(",") && !self.rest.starts_with(end) {
                return Err("`,` or the closing bracket");
            }
        }
    }

    /// A text in quotes of any kind.
    fn text(&mut self) -> Read<String> {
        let quotes = ["\"\"\"", "'''", "\"", "'"];
        let quote = quotes.into_iter().find(|quote| self.takes(quote)).ok_or("a text in quotes")?;
        let mut text = String::new();
        while !self.takes(quote) {
            // The character after a backslash is taken as it is: names and paths have no other escapes.
            let is_escape = quote.starts_with('"') && self.rest.starts_with('\\');
            self.advance(usize::from(is_escape));
            let letter = self.rest.chars().next().ok_or("the closing quote")?;
            self.advance(letter.len_utf8());
            text.push(letter);
        }
        Ok(text)
    }

    /// Skips space, ends of lines and comments.
    fn skip(&mut self) {
        loop {
            let blank = self.rest.len() - self.rest.trim_start().len();
            self.advance(blank);
            if !self.rest.starts_with('#') {
                return;
            }
            self.up_to(|letter| letter == '\n');
        }
    }

    fn takes(&mut self, mark: &str) -> bool {
        let is_there = self.rest.starts_with(mark);
        if is_there {
            self.advance(mark.len());
        }
        is_there
    }

    fn expect(&mut self, mark: &str, expected: &'static str) -> Read<()> {
        self.skip();
        if self.takes(mark) { Ok(()) } else { Err(expected) }
    }

    fn up_to(&mut self, is_end: impl Fn(char) -> bool) -> String {
        let length = self.rest.find(is_end).unwrap_or(self.rest.len());
        let taken = self.rest[..length].to_owned();
        self.advance(length);
        taken
    }

    fn advance(&mut self, length: usize) {
        let (passed, rest) = self.rest.split_at(length);
        self.line += passed.matches('\n').count();
        self.rest = rest;
    }
}

fn is_bare(letter: char) -> bool {
    letter.is_ascii_alphanumeric() || letter == '-' || letter == '_'
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entries(text: &str) -> Vec<(String, String, usize)> {
        let entries = read(text).expect(text).into_iter();
        entries.map(|entry| (entry.path.join("/"), entry.value, entry.line)).collect()
    }

    #[test]
    fn every_way_of_writing_a_table_gives_the_same_paths() {
        for text in
            ["[a.b]\nc = 'x'", "[a]\n\nb.c = \"x\" # why", "a = {b = { c = \"\"\"x\"\"\", }}", "[a]\n'b' . c='x'"]
        {
            let found = entries(text).into_iter().filter(|(_, value, _)| !value.is_empty());
            let found: Vec<_> = found.map(|(path, value, _)| (path, value)).collect();
            assert_eq!(found, [("a/b/c".to_owned(), "x".to_owned())], "{text}");
        }
    }

    #[test]
    fn lists_and_comments_are_passed_over_and_lines_counted() {
        let text = "# [no]\na = [\n  \"]\", # ]\n  [1, 2], { b = 1 },\n]\n\n[[c]]\nd = true\n\
                    [target.'cfg(a.b)'.e]\nf = \"\\\"#\"";
        let expected =
            [("c", "", 7), ("c/d", "true", 8), ("target/cfg(a.b)/e", "", 9), ("target/cfg(a.b)/e/f", "\"#", 10)];
        assert_eq!(entries(text), expected.map(|(path, value, line)| (path.to_owned(), value.to_owned(), line)));
    }

    #[test]
    fn what_is_not_toml_is_reported_with_its_line() {
        for (text, reported) in [
            ("a = 1\n= 2", "line 2: expected a key"),
            ("\na", "line 2: expected `=` after a key"),
            ("[a", "line 1: expected `]` after the name of a table"),
            ("a = \"b", "line 1: expected the closing quote"),
            ("a = [1 2", "line 1: expected `,` or the closing bracket"),
        ] {
            assert_eq!(read(text), Err(reported.to_owned()), "{text}");
        }
    }
}
