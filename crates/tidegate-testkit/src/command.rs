//! A command that ends by itself, and what it left.

use std::fs::{self, File};
use std::process::Command;
use std::time::{Duration, Instant};

use crate::{Directory, PATIENCE, tidegate};

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

/// Runs a command to its end. One that does not end is a failure: something started that should have been refused.
pub fn finish(command: Command) -> Outcome {
    finish_within(PATIENCE, command)
}

/// The same for one that takes its time.
pub fn finish_within(patience: Duration, mut command: Command) -> Outcome {
    let directory = Directory::new();
    let (out, err) = (directory.0.join("out"), directory.0.join("err"));
    let create = |path| File::create(path).expect("a file");
    let mut child = command.stdout(create(&out)).stderr(create(&err)).spawn().expect("it starts");
    let until = Instant::now() + patience;
    let status = loop {
        if let Some(status) = child.try_wait().expect("it can be asked") {
            break status;
        }
        if Instant::now() > until {
            let _killed = child.kill();
            let _ended = child.wait();
            panic!("it does not end: {command:?}: {:?}", fs::read_to_string(&out));
        }
        std::thread::sleep(Duration::from_millis(5));
    };
    let read = |path| fs::read_to_string(path).expect("text");
    Outcome { code: status.code().expect("no signal ended it"), out: read(&out), err: read(&err) }
}
