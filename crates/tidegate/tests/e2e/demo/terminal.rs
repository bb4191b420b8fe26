//! The demo on a terminal: `script` makes one, as wide and as high as it is set.

use std::fs::{self, File};
use std::io::Write as _;
use std::process::{Command, Stdio};

use crate::demo::playing::turn;
use tidegate_testkit::{Directory, PATIENCE, binary, text, wait_for, wait_for_exit};

const HIDE_CURSOR: &str = "\x1b[?25l";
const SHOW_CURSOR: &str = "\x1b[?25h";

/// What a terminal shows of a line, without its colours.
fn plain(line: &str) -> String {
    let mut shown = String::new();
    let mut letters = line.chars();
    while let Some(letter) = letters.next() {
        if letter == '\x1b' {
            letters.find(char::is_ascii_alphabetic);
        } else if !letter.is_control() {
            shown.push(letter);
        }
    }
    shown
}

#[test]
fn a_picture_is_drawn_in_its_place_and_ctrl_c_leaves_the_terminal_as_it_was() {
    let _turn = turn();
    let directory = Directory::new();
    let output = directory.0.join("output");
    let demo = format!("stty cols 60 rows 16; exec {} demo attack --out {}", text(&binary()), text(&directory.0));
    let mut command = Command::new("script");
    command.args(["--quiet", "--return", "--flush", "--command", &demo, "/dev/null"]);
    command.env("TERM", "xterm").env_remove("NO_COLOR");
    command.stdin(Stdio::piped()).stdout(File::create(&output).expect("a file"));
    let mut child = command.spawn().expect("script is part of every Debian");
    let mut keyboard = child.stdin.take().expect("it was asked for");
    let shown = || String::from_utf8_lossy(&fs::read(&output).expect("bytes")).into_owned();
    // A second has been counted by then.
    let counted = wait_for(PATIENCE * 3, || shown().contains("/s  ").then_some(()));
    assert!(counted.is_some(), "{}", shown());
    keyboard.write_all(b"\x03").expect("Ctrl-C");
    let status = wait_for_exit(&mut child, PATIENCE * 3).unwrap_or_else(|| {
        let _ended = (child.kill(), child.wait());
        panic!("it does not end: {}", shown());
    });
    let shown = shown();
    assert_eq!(status.code(), Some(130), "{shown}");
    assert_eq!(shown.matches(HIDE_CURSOR).count(), shown.matches(SHOW_CURSOR).count(), "{shown}");
    assert!(shown.rfind(SHOW_CURSOR) > shown.rfind(HIDE_CURSOR), "{shown}");
    let (before, picture) = shown.split_once(HIDE_CURSOR).expect("a picture");
    let (picture, after) = picture.rsplit_once(SHOW_CURSOR).expect("its end");
    assert!(before.contains("Tidegate demo") && after.contains("report.html"), "{shown}");
    for words in ["part 1 of 1", "offered", "admitted", "rejected", "limit"] {
        assert!(plain(picture).contains(words), "{words}: {picture}");
    }
    // A line that is wrapped, or one too many, would be left behind by the next picture.
    for line in picture.split('\n') {
        assert!(plain(line).chars().count() < 60, "{line:?}");
    }
    for frame in picture.split("\x1b[J") {
        assert!(frame.matches('\n').count() < 16, "{frame}");
    }
}
