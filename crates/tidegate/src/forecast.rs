//! `tidegate forecast`

mod backtest;
mod serve;

use std::process::ExitCode;

use anyhow::Result;
use clap::{Args, Subcommand};

/// Predict load, so that limits can be raised before it comes
#[derive(Args)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    Serve(serve::Arguments),
    Backtest(backtest::Arguments),
}

pub(crate) fn run(arguments: &Arguments) -> Result<ExitCode> {
    match &arguments.command {
        Command::Serve(arguments) => serve::run(arguments),
        Command::Backtest(arguments) => backtest::run(arguments),
    }
}

/// Reads a whole number of an option.
fn number(least: u32, most: u32) -> impl Fn(&str) -> Result<u32, String> + Clone {
    move |text| {
        let number = text.parse().ok().filter(|number| (least..=most).contains(number));
        number.ok_or_else(|| format!("must be a whole number from {least} to {most}"))
    }
}
