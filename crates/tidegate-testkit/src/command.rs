//! A command that ends by itself, and what it left.

use std::fs::{self, File};
use std::process::Command;
use std::time::Duration;

use crate::{Directory, PATIENCE, tidegate, wait_for_exit};

/// What a command left.
#[derive(Debug)]
pub struct Outcome {
    pub code: i32,
    pub out: String,
    pub err: String,
}

/// Runs `tidegate` with these arguments and this environment alone.
pub fn run(arguments: &[&str], environment: &[(&str, &str)]) -> Outcome {
    let mut command = tidegate();
    command.args(arguments).envs(environment.iter().copied());
    finish(command)
}

/// Runs a command to its end. One that does not end is a failure: something started that should have been rejected.
pub fn finish(command: Command) -> Outcome {
    finish_within(PATIENCE, command)
}

/// The same for one that takes its time.
pub fn finish_within(patience: Duration, mut command: Command) -> Outcome {
    let directory = Directory::new();
    let (out, err) = (directory.0.join("out"), directory.0.join("err"));
    let create = |path| File::create(path).expect("a file");
    let mut child = command.stdout(create(&out)).stderr(create(&err)).spawn().expect("it starts");
    let status = wait_for_exit(&mut child, patience).unwrap_or_else(|| {
        let _killed = child.kill();
        let _ended = child.wait();
        panic!("it does not end: {command:?}: {:?}", fs::read_to_string(&out));
    });
    let read = |path| fs::read_to_string(path).expect("text");
    Outcome { code: status.code().expect("no signal ended it"), out: read(&out), err: read(&err) }
}
