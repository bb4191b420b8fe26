//! `tidegate forecast`

mod backtest;

use std::process::ExitCode;

use anyhow::Result;
use clap::{Args, Subcommand};

/// Predict load, and tell how good predictions would have been
#[derive(Args)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    Backtest(backtest::Arguments),
}

pub(crate) fn run(arguments: &Arguments) -> Result<ExitCode> {
    match &arguments.command {
        Command::Backtest(arguments) => backtest::run(arguments),
    }
}
