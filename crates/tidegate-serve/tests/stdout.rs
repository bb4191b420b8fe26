//! A sink on the standard output of a process: this test starts itself as a child.

use std::env;
use std::io::{BufRead, BufReader, Read};
use std::process::{Child, Command, Stdio, exit};

use tidegate_serve::Sink;

const LINES: u64 = 20_000;

fn child(role: &str) -> Child {
    Command::new(env::current_exe().expect("our program"))
        .args(["--exact", "--nocapture", "this_is_the_child"])
        .env("TIDEGATE_SINK_ROLE", role)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("it starts")
}

fn lines_of(child: &mut Child) -> u64 {
    let mut text = String::new();
    child.stdout.take().expect("a pipe").read_to_string(&mut text).expect("text");
    text.matches("line 0").count() as u64 // wherever it stands: the test harness prints too
}

#[test]
fn this_is_the_child() {
    let Ok(role) = env::var("TIDEGATE_SINK_ROLE") else { return };
    let capacity = if role == "blocked" { 100 } else { LINES as usize };
    let sink = Sink::stdout(capacity).expect("a sink");
    for line in 0..LINES {
        sink.send(format!("line {line:0100}"));
    }
    eprintln!("dropped {}", sink.dropped());
    drop(sink);
    exit(0);
}

#[test]
fn what_was_accepted_is_out_when_the_process_ends() {
    let mut child = child("read");
    assert_eq!(lines_of(&mut child), LINES);
    assert!(child.wait().expect("it ends").success());
}

#[test]
fn a_process_whose_output_nobody_reads_goes_on() {
    let mut child = child("blocked");
    // Its word on the other pipe comes after it has sent everything, while nobody has read a byte.
    let said = BufReader::new(child.stderr.take().expect("a pipe")).lines().map_while(Result::ok);
    let dropped: u64 =
        said.into_iter().find_map(|line| line.strip_prefix("dropped ")?.parse().ok()).expect("its count");
    assert!(dropped > LINES / 2, "{dropped}");
    assert_eq!(lines_of(&mut child) + dropped, LINES);
    assert!(child.wait().expect("it ends").success());
}
