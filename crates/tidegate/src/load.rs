//! `tidegate load`

mod merge;
mod outcome;
mod progress;
mod run;
mod serve;

use std::process::ExitCode;

use anyhow::Result;
use clap::{Args, Subcommand};

pub(crate) use outcome::{BAD_INPUT, is_same};

/// Send load with a plan, and report what became of it
#[derive(Args)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    Run(Box<run::Arguments>),
    Serve(serve::Arguments),
    Merge(merge::Arguments),
}

pub(crate) fn run(arguments: Arguments) -> Result<ExitCode> {
    match arguments.command {
        Command::Run(arguments) => run::run(&arguments),
        Command::Serve(arguments) => serve::run(arguments),
        Command::Merge(arguments) => merge::run(&arguments),
    }
}
