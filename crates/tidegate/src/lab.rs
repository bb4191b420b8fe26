//! `tidegate lab`

pub(crate) mod live;
pub(crate) mod out;
mod replay;
mod scenarios;
mod simulate;
pub(crate) mod table;

use std::process::ExitCode;

use anyhow::Result;
use clap::{Args, Subcommand};

/// Compare limits under load: scenarios, judged against an exact oracle
#[derive(Args)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    Run(live::Arguments),
    Simulate(simulate::Arguments),
    Replay(replay::Arguments),
    Scenarios(scenarios::Arguments),
}

pub(crate) fn run(arguments: &Arguments) -> Result<ExitCode> {
    match &arguments.command {
        Command::Run(arguments) => live::run(arguments),
        Command::Simulate(arguments) => simulate::run(arguments),
        Command::Replay(arguments) => replay::run(arguments),
        Command::Scenarios(arguments) => scenarios::run(arguments),
    }
}
