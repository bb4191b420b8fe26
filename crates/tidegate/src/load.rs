//! `tidegate load`

mod merge;
mod outcome;

use std::process::ExitCode;

use anyhow::Result;
use clap::{Args, Subcommand};

/// Send load with a plan, and tell what became of it
#[derive(Args)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    Merge(merge::Arguments),
}

pub(crate) fn run(arguments: Arguments) -> Result<ExitCode> {
    match arguments.command {
        Command::Merge(arguments) => merge::run(&arguments),
    }
}
