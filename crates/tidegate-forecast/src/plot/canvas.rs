//! SVG, written by hand: a few shapes with classes.

use std::fmt::Write as _;

use super::WIDTH;

/// Light ground of its own, so that it can be read on dark pages too. Colours differ in lightness, for readers who
/// can't distinguish them.
const STYLE: &str = "text{font-family:system-ui,'Segoe UI',Roboto,'DejaVu Sans',sans-serif;fill:#1f2933}\
.ground{fill:#fdfdfc;stroke:#d9dde2}\
.title{font-size:19px;font-weight:600}.head{font-size:13px;font-weight:600}\
.label{font-size:12px}.small{font-size:12px;fill:#5b6774}.strong{font-size:12px;font-weight:600}\
.grid{stroke:#e4e7eb;fill:none}.axis{stroke:#9aa5b1;fill:none}\
.came{stroke:#3e4c59;stroke-width:1.1;stroke-opacity:.85;fill:none;stroke-linejoin:round;stroke-linecap:round}\
.expected{stroke:#d9480f;stroke-width:1.4;fill:none;stroke-linejoin:round;stroke-linecap:round}\
.band{fill:#ffc078;fill-opacity:.55}\
.bar{fill:#a5b4c3}.best{fill:#d9480f}";

pub(super) struct Canvas {
    body: String,
}

/// Which part of a text its coordinates are of.
#[derive(Clone, Copy)]
pub(super) enum Anchor {
    Start,
    Middle,
    End,
}

impl Anchor {
    fn name(self) -> &'static str {
        match self {
            Self::Start => "start",
            Self::Middle => "middle",
            Self::End => "end",
        }
    }
}

impl Canvas {
    pub(super) fn new() -> Self {
        Self { body: String::new() }
    }

    pub(super) fn text(&mut self, x: f64, y: f64, anchor: Anchor, class: &str, text: &str) {
        let (anchor, text) = (anchor.name(), escaped(text));
        self.put(&format!(r#"<text x="{x:.1}" y="{y:.1}" text-anchor="{anchor}" class="{class}">{text}</text>"#));
    }

    /// A label centred on a point, or as near to it as the picture's edges allow.
    pub(super) fn middle(&mut self, x: f64, y: f64, class: &str, text: &str) {
        // Letters of 12 px are about 7 px wide in the widest of the fonts.
        let half = 3.5 * text.chars().count() as f64 + 4.0;
        self.text(x.min(WIDTH - half).max(half), y, Anchor::Middle, class, text);
    }

    pub(super) fn rect(&mut self, x: f64, y: f64, width: f64, height: f64, class: &str) {
        self.put(&format!(
            r#"<rect x="{x:.1}" y="{y:.1}" width="{width:.1}" height="{height:.1}" rx="2" class="{class}"/>"#
        ));
    }

    pub(super) fn path(&mut self, data: &str, class: &str) {
        if !data.is_empty() {
            self.put(&format!(r#"<path d="{data}" class="{class}"/>"#));
        }
    }

    fn put(&mut self, element: &str) {
        let _infallible = writeln!(self.body, "{element}");
    }

    pub(super) fn finish(self, width: f64, height: f64) -> String {
        let (inner_width, inner_height) = (width - 1.0, height - 1.0);
        format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {height}\" width=\"{width}\" \
             height=\"{height}\" role=\"img\">\n\
             <style>{STYLE}</style>\n\
             <rect x=\"0.5\" y=\"0.5\" width=\"{inner_width}\" height=\"{inner_height}\" rx=\"8\" class=\"ground\"/>\n\
             {}</svg>\n",
            self.body
        )
    }
}

/// Text that can't become markup. Characters that XML does not allow are replaced by `\u{fffd}`.
fn escaped(text: &str) -> String {
    let mut safe = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '&' => safe.push_str("&amp;"),
            '<' => safe.push_str("&lt;"),
            '>' => safe.push_str("&gt;"),
            '"' => safe.push_str("&quot;"),
            '\'' => safe.push_str("&apos;"),
            '\u{fffe}' | '\u{ffff}' => safe.push('\u{fffd}'),
            _ if character.is_control() => safe.push('\u{fffd}'),
            _ => safe.push(character),
        }
    }
    safe
}
