//! Tidegate: overload protection for HTTP services.

mod check;
mod environment;
mod gateway;

use std::process::ExitCode;

use clap::{CommandFactory, Parser, Subcommand};

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Overload protection for HTTP services: a gateway that limits, and the tools around it.
#[derive(Parser)]
#[command(name = "tidegate", version, about, max_term_width = 120)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    Gateway(gateway::Arguments),
    Check(check::Arguments),
    /// Print a completion script for a shell
    Completions {
        /// Which shell
        shell: clap_complete::Shell,
    },
}

fn main() -> ExitCode {
    let result = match Arguments::parse().command {
        Command::Gateway(arguments) => gateway::run(arguments),
        Command::Check(arguments) => check::run(&arguments),
        Command::Completions { shell } => {
            clap_complete::generate(shell, &mut Arguments::command(), "tidegate", &mut std::io::stdout());
            Ok(ExitCode::SUCCESS)
        }
    };
    result.unwrap_or_else(|error| {
        eprintln!("tidegate: {error:#}");
        ExitCode::FAILURE
    })
}
