//! `tidegate target`
#![allow(clippy::doc_markdown, reason = "doc comments here are the text of --help")]

use std::process::ExitCode;

use anyhow::{Context as _, Result};
use clap::{Args, ValueEnum};
use tidegate_lab::target::{Contention, ServiceTime, Settings, Target, Work};
use tidegate_serve::LogLevel;

use crate::service::{self, Service};

/// Run a service to protect: its capacity is known, its faults are yours
///
/// GET /api/test responds with OK after the service time. What it can do is `workers / service time`: by default 16 / 5
/// ms = 3,200 requests a second. Beyond that requests queue (128 / 3,200 = 40 ms at most), and beyond the queue they
/// get 503 at once.
///
/// POST /faults makes it fail, for example {"errors": 0.5}, {"slowness": {"factor": 10}}, {"delay": 0.2} or {"hang":
/// true}, each also with "for": seconds; DELETE /faults ends that. /actuator/health and /actuator/prometheus respond
/// however busy it is. Everything else is in docs/target.md.
///
/// It listens on 127.0.0.1:8081, or at the port in PORT or SERVER_PORT of the environment. SIGTERM and Ctrl-C
/// stop it after the requests in flight.
#[derive(Args)]
#[command(after_help = "Example: tidegate target --service-time lognormal:20ms:0.8 --workers 8 --contention 2")]
pub(crate) struct Arguments {
    /// How long a request is served: 5ms, exponential:5ms (the mean), or lognormal:5ms:0.5 (the mean, and the deviation
    /// of the logarithm)
    #[arg(long, value_name = "TIME", default_value = "5ms")]
    service_time: ServiceTime,
    /// What a worker does in that time: it sleeps, or it burns so much CPU time on a thread of its own
    #[arg(long, value_enum, default_value_t = WorkKind::Sleep)]
    work: WorkKind,
    /// How many requests are served at once
    #[arg(long, value_name = "N", default_value_t = 16, allow_negative_numbers = true)]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=1_000))]
    workers: u32,
    /// How many may wait for a worker
    #[arg(long, value_name = "N", default_value_t = 128, allow_negative_numbers = true)]
    #[arg(value_parser = clap::value_parser!(u32).range(0..=100_000))]
    queue: u32,
    /// Slower under load: with all workers busy a service takes 1 + F times as long, with half of them 1 + F/4 times
    #[arg(long, value_name = "F", default_value_t = 0.0, allow_negative_numbers = true, value_parser = factor)]
    contention: f64,
    /// The same seed draws the same service times
    #[arg(long, value_name = "N", default_value_t = 1, allow_negative_numbers = true)]
    seed: u64,
    #[command(flatten)]
    service: service::Arguments,
}

#[derive(Clone, Copy, ValueEnum)]
enum WorkKind {
    Sleep,
    Cpu,
}

fn factor(text: &str) -> Result<f64, String> {
    let factor = text.parse().ok().filter(|factor| (0.0..=1_000.0).contains(factor));
    factor.ok_or_else(|| "must be a number from 0 to 1000".to_owned())
}

/// It logs failures, and nothing about ordinary service.
const SERVICE: Service = Service { component: "Target", port: 8081, log_level: LogLevel::Warn };

pub(crate) fn run(arguments: &Arguments) -> Result<ExitCode> {
    let settings = Settings {
        service_time: arguments.service_time,
        contention: Contention { factor: arguments.contention },
        work: match arguments.work {
            WorkKind::Sleep => Work::Sleep,
            WorkKind::Cpu => Work::Cpu,
        },
        workers: arguments.workers as usize,
        queue: arguments.queue as usize,
        seed: arguments.seed,
    };
    service::run(&arguments.service, &SERVICE, |context| async move {
        let target = Target::start(&settings, context.log.clone(), context.shutdown.clone());
        let target = target.context("the target can't start")?;
        context.announce_ready();
        Ok(target.serve(context.listener).await?)
    })
}
