//! What every server of Tidegate needs besides its own work: lines that are written without ever blocking a request
//! ([`Sink`], [`Log`], [`Aggregate`]), metrics ([`Counter`], [`Histogram`], [`Exposition`], [`Process`]), small HTTP
//! services ([`rest`]), whom to trust ([`tls`]), enough open files ([`raise_open_files`]) and a signal to stop
//! ([`ShutdownHandle`]).
//!
//! Nothing here is global. Several services run in one process (and in one test), so each is handed its own handles.
//!
//! ```
//! use std::time::Duration;
//! use tidegate_serve::{Buckets, Exposition, Histogram, Kind, Log, LogFormat, LogLevel, Sink};
//!
//! let sink = Sink::stdout(10_000)?;
//! let log = Log::new(sink.clone(), LogFormat::Text, LogLevel::Info);
//! log.info("Gateway", format_args!("listening on {}", "127.0.0.1:8080"));
//!
//! let latency = Histogram::new(&Buckets::new(&[Duration::from_millis(1), Duration::from_millis(10)]));
//! latency.observe(Duration::from_micros(700));
//! let mut page = Exposition::new();
//! page.family("request_duration_seconds", "How long requests took.", Kind::Histogram)
//!     .histogram(&[("route", "/")], &latency.snapshot());
//! assert!(page.into_text().contains("request_duration_seconds_bucket{route=\"/\",le=\"0.001\"} 1\n"));
//!
//! sink.flush_and_close(Duration::from_secs(1));
//! # Ok::<(), std::io::Error>(())
//! ```

mod aggregate;
mod exposition;
mod histogram;
mod log;
mod nanos;
mod open_files;
mod process;
pub mod rest;
mod shard;
mod shutdown;
mod sink;
pub mod tls;

pub use aggregate::Aggregate;
pub use exposition::{Exposition, Family, Kind, Number};
pub use histogram::{Buckets, Histogram, HistogramSnapshot};
pub use log::{Log, LogFormat, LogLevel};
pub use open_files::{OpenFiles, most_open_files, open_files, raise_open_files};
pub use process::{Process, host_name, system_name};
pub use shard::{Counter, Shard};
pub use shutdown::{Shutdown, ShutdownHandle};
pub use sink::{Reopening, Sink};
