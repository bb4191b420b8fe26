//! Tidegate: overload protection for HTTP services.

mod check;
mod demo;
mod environment;
mod forecast;
mod gateway;
mod lab;
mod load;
mod service;
mod stop_signals;
mod target;

use std::io::{IsTerminal, Write};
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
    Demo(demo::Arguments),
    Gateway(gateway::Arguments),
    Target(target::Arguments),
    Load(load::Arguments),
    Forecast(forecast::Arguments),
    Lab(lab::Arguments),
    Check(check::Arguments),
    /// Print a completion script for a shell
    Completions {
        /// Which shell
        shell: clap_complete::Shell,
    },
}

/// Prints to standard output. A closed pipe, as `head` leaves it, is not an error.
fn print(bytes: &[u8]) -> anyhow::Result<()> {
    let mut out = std::io::stdout().lock();
    match out.write_all(bytes).and_then(|()| out.flush()) {
        Err(error) if error.kind() != std::io::ErrorKind::BrokenPipe => Err(error.into()),
        _ => Ok(()),
    }
}

/// Whether to print colours: standard output is a terminal, and `NO_COLOR` is not set.
fn has_colours() -> bool {
    is_drawn_on(&std::io::stdout()) && std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty())
}

/// Whether it is a terminal that understands more than plain lines.
fn is_drawn_on(output: &impl IsTerminal) -> bool {
    output.is_terminal() && std::env::var_os("TERM").is_none_or(|name| name != "dumb")
}

fn main() -> ExitCode {
    let result = match Arguments::parse().command {
        Command::Demo(arguments) => demo::run(&arguments),
        Command::Gateway(arguments) => gateway::run(arguments),
        Command::Target(arguments) => target::run(&arguments),
        Command::Load(arguments) => load::run(arguments),
        Command::Forecast(arguments) => forecast::run(&arguments),
        Command::Lab(arguments) => lab::run(&arguments),
        Command::Check(arguments) => check::run(&arguments),
        Command::Completions { shell } => {
            // Into memory first: it panics when it can't write.
            let mut script = Vec::new();
            clap_complete::generate(shell, &mut Arguments::command(), "tidegate", &mut script);
            print(&script).map(|()| ExitCode::SUCCESS)
        }
    };
    result.unwrap_or_else(|error| {
        eprintln!("tidegate: {error:#}");
        ExitCode::FAILURE
    })
}
