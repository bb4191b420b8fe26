//! The demo as somebody meets it who has just checked the project out.

mod playing;
mod terminal;
