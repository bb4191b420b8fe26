use std::fmt::{self, Display, Write};

use tidegate_input::Utc;

use crate::Sink;

/// What a service says to those who run it: one line each, in the order they were said, never blocking.
///
/// Whatever a message quotes, it stays on its line: nobody can write lines of their own into the log.
#[derive(Clone, Debug)]
pub struct Log {
    sink: Option<Sink>,
    /// Where every line goes besides.
    file: Option<Sink>,
    format: LogFormat,
    level: LogLevel,
}

/// How a line looks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LogFormat {
    /// `[2026-01-19T16:30:00Z] INFO ConfigController - message`
    #[default]
    Text,
    /// `{"timestamp":"2026-01-19T16:30:00.000Z","level":"INFO","component":"ConfigController","message":"message"}`
    Json,
}

impl LogFormat {
    /// All of them.
    pub const ALL: [Self; 2] = [Self::Text, Self::Json];

    /// Its name, as configurations and the command line have it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Text => "text",
            Self::Json => "json",
        }
    }
}

/// How much a line matters; a log says what matters as much as its own level, and more.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum LogLevel {
    /// Of use to those who look for a fault.
    Debug,
    /// What happens in ordinary service.
    #[default]
    Info,
    /// Service goes on, but somebody should look.
    Warn,
    /// Something has failed.
    Error,
}

impl LogLevel {
    /// All of them, from the least.
    pub const ALL: [Self; 4] = [Self::Debug, Self::Info, Self::Warn, Self::Error];

    /// Its name, as configurations have it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Debug => "debug",
            Self::Info => "info",
            Self::Warn => "warn",
            Self::Error => "error",
        }
    }
}

impl Log {
    /// A log into `sink` of everything from `level` up.
    pub fn new(sink: Sink, format: LogFormat, level: LogLevel) -> Self {
        Self { sink: Some(sink), file: None, format, level }
    }

    /// A log that says nothing, for tests.
    pub fn discard() -> Self {
        Self { sink: None, file: None, format: LogFormat::Text, level: LogLevel::Error }
    }

    /// The same log, whose lines go to this sink besides.
    #[must_use]
    pub fn and_file(self, file: Sink) -> Self {
        Self { file: Some(file), ..self }
    }

    /// Where it writes in the first place.
    pub fn sink(&self) -> Option<&Sink> {
        self.sink.as_ref()
    }

    /// Logs what a script that started the service waits for, whatever the level.
    pub fn announce(&self, component: &str, message: impl Display) {
        self.write(LogLevel::Info, component, &message);
    }

    /// Says something of use to those who look for a fault. The message is formatted only if it is wanted.
    pub fn debug(&self, component: &str, message: impl Display) {
        self.say(LogLevel::Debug, component, &message);
    }

    /// Says what happens in ordinary service.
    pub fn info(&self, component: &str, message: impl Display) {
        self.say(LogLevel::Info, component, &message);
    }

    /// Says what somebody should look at.
    pub fn warn(&self, component: &str, message: impl Display) {
        self.say(LogLevel::Warn, component, &message);
    }

    /// Says what has failed.
    pub fn error(&self, component: &str, message: impl Display) {
        self.say(LogLevel::Error, component, &message);
    }

    fn say(&self, level: LogLevel, component: &str, message: &dyn Display) {
        if level >= self.level {
            self.write(level, component, message);
        }
    }

    fn write(&self, level: LogLevel, component: &str, message: &dyn Display) {
        if self.sink.is_none() && self.file.is_none() {
            return;
        }
        let line = line(self.format, Utc::now(), level, component, message);
        self.sink.iter().chain(&self.file).for_each(|sink| sink.send(&line));
    }
}

impl Display for LogLevel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Debug => "DEBUG",
            Self::Info => "INFO",
            Self::Warn => "WARN",
            Self::Error => "ERROR",
        })
    }
}

fn line(format: LogFormat, at: Utc, level: LogLevel, component: &str, message: &dyn Display) -> String {
    let mut line = String::with_capacity(160);
    // Writing into a string fails only if a `Display` says so by itself; what it has said until then is logged.
    let _ = match format {
        LogFormat::Text => write_text(&mut line, at, level, component, message),
        LogFormat::Json => write_json(&mut line, at, level, component, message),
    };
    line
}

fn write_text(line: &mut String, at: Utc, level: LogLevel, component: &str, message: &dyn Display) -> fmt::Result {
    write!(line, "[{}] {level} ", at.with_seconds())?;
    write!(OneLine(line), "{component} - {message}")
}

fn write_json(line: &mut String, at: Utc, level: LogLevel, component: &str, message: &dyn Display) -> fmt::Result {
    let mut text = String::new();
    let _ = write!(text, "{message}");
    let (component, message) = (serde_json::Value::from(component), serde_json::Value::from(text));
    write!(line, r#"{{"timestamp":"{}","level":"{level}","#, at.with_millis())?;
    write!(line, r#""component":{component},"message":{message}}}"#)
}

/// Escapes everything that could end the line or steer the terminal that shows it.
struct OneLine<'a>(&'a mut String);

impl Write for OneLine<'_> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        let mut plain = 0;
        for (at, found) in text.match_indices(is_unsafe) {
            self.0.push_str(&text[plain..at]);
            write!(self.0, "{}", found.escape_default())?;
            plain = at + found.len();
        }
        self.0.push_str(&text[plain..]);
        Ok(())
    }
}

/// Control characters, and the two separators that some viewers break lines at.
fn is_unsafe(char: char) -> bool {
    char.is_control() || matches!(char, '\u{2028}' | '\u{2029}')
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::Cell;
    use std::io::{self, Read};
    use std::time::{Duration, UNIX_EPOCH};

    fn said(format: LogFormat, component: &str, message: &str) -> String {
        let at = Utc::from(UNIX_EPOCH + Duration::from_millis(1_768_840_200_125));
        line(format, at, LogLevel::Info, component, &message)
    }

    /// What a log of this level, used by `say`, has written.
    fn written(level: LogLevel, say: impl FnOnce(&Log)) -> String {
        let (mut reader, writer) = io::pipe().expect("a pipe");
        let log = Log::new(Sink::stream(writer, 100).expect("a sink"), LogFormat::Text, level);
        say(&log);
        drop(log);
        let mut text = String::new();
        reader.read_to_string(&mut text).expect("text");
        text
    }

    #[test]
    fn a_text_line_has_time_level_component_and_message() {
        assert_eq!(
            said(LogFormat::Text, "ConfigController", "reloaded: \"übung\" \\o/"),
            "[2026-01-19T16:30:00Z] INFO ConfigController - reloaded: \"übung\" \\o/"
        );
    }

    #[test]
    fn a_json_line_is_one_object() {
        let line = said(LogFormat::Json, "A\"B", "x\n{\"level\":\"ERROR\"}\u{1b}");
        assert!(!line.contains('\n') && !line.contains('\u{1b}'));
        let object: serde_json::Value = serde_json::from_str(&line).expect("JSON");
        let expected = serde_json::json!({
            "timestamp": "2026-01-19T16:30:00.125Z",
            "level": "INFO",
            "component": "A\"B",
            "message": "x\n{\"level\":\"ERROR\"}\u{1b}",
        });
        assert_eq!(object, expected);
    }

    #[test]
    fn nobody_can_write_lines_of_their_own_or_steer_the_terminal() {
        let line = said(LogFormat::Text, "A\nB", "a\r\n[2026] INFO Fake - b\u{1b}[2J\0\u{7f}\u{85}\u{2028}\t.");
        assert_eq!(
            line,
            "[2026-01-19T16:30:00Z] INFO A\\nB - \
             a\\r\\n[2026] INFO Fake - b\\u{1b}[2J\\u{0}\\u{7f}\\u{85}\\u{2028}\\t."
        );
    }

    #[test]
    fn a_log_says_what_matters_enough_and_formats_nothing_else() {
        struct Counted<'a>(&'a Cell<u32>);
        impl Display for Counted<'_> {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.set(self.0.get() + 1);
                f.write_str("counted")
            }
        }
        let formatted = Cell::new(0);
        let text = written(LogLevel::Warn, |log| {
            log.debug("T", Counted(&formatted));
            log.info("T", Counted(&formatted));
            log.warn("T", Counted(&formatted));
            log.clone().error("T", format_args!("{}", Counted(&formatted)));
        });
        assert_eq!(formatted.get(), 2);
        let ends: Vec<_> = text.lines().map(|line| line.split_once("] ").expect("a time").1).collect();
        assert_eq!(ends, ["WARN T - counted", "ERROR T - counted"]);
    }

    #[test]
    fn a_second_sink_gets_the_same_lines() {
        let (mut reader, writer) = io::pipe().expect("a pipe");
        let file = Sink::stream(writer, 100).expect("a sink");
        let text = written(LogLevel::Info, |log| {
            let log = log.clone().and_file(file);
            log.debug("T", "nobody hears");
            log.announce("T", "both hear");
            log.error("T", "both hear again");
        });
        let mut copy = String::new();
        reader.read_to_string(&mut copy).expect("text");
        assert!(text.ends_with("ERROR T - both hear again\n") && text.lines().count() == 2, "{text}");
        assert_eq!(copy, text);
    }

    #[test]
    fn a_message_that_fails_to_format_is_no_panic() {
        struct Failing;
        impl Display for Failing {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("half")?;
                Err(fmt::Error)
            }
        }
        let text = written(LogLevel::Info, |log| log.info("T", Failing));
        assert!(text.ends_with("INFO T - half\n"), "{text}");
        Log::discard().error("T", Failing);
    }
}
