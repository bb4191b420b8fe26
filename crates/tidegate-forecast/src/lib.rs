//! Predicts load, so that limits can be raised before it comes.
//!
//! [`Series`] keeps what came, a [`Model`] says what it expects to follow, [`Forecaster`] weighs several of them by how
//! right they were lately, [`advise`] turns a [`Forecast`] into limits; an [`Adviser`] does all of it, and [`service`]
//! advises gateways over HTTP. None but the last reads a clock.
#![allow(clippy::cast_precision_loss, reason = "counts and indexes here are far below 2^52")]

mod advice;
mod adviser;
pub mod backtest;
mod capacity;
mod csv_series;
pub mod forecaster;
mod model;
pub mod models;
mod numbers;
pub mod plot;
pub mod prophet;
mod quantile;
mod season;
mod series;
pub mod service;
mod snapshot;
mod span;

pub use advice::{Advice, Bounds, Situation, Step, advise};
pub use adviser::{Adviser, Found, Policy};
pub use capacity::{LearntCapacity, Seen};
pub use csv_series::series_from_csv;
pub use forecaster::{Forecast, Forecaster, Settings};
pub use model::{Model, NotLearnt};
pub use numbers::{Bucketed, Numbers, Windowed};
pub use prophet::ProphetModel;
pub use season::{Season, seasons};
pub use series::{History, Series};
pub use snapshot::{Offered, Snapshot};
pub use span::span;
