//! Predicts load, so that limits can be raised before it comes.
#![allow(clippy::cast_precision_loss, reason = "counts and places here are far below 2^52")]

pub mod backtest;
mod csv_series;
pub mod forecaster;
mod model;
pub mod models;
pub mod plot;
pub mod prophet;
mod quantile;
mod season;
mod series;
mod span;

pub use csv_series::series_from_csv;
pub use forecaster::{Forecast, Forecaster, Settings};
pub use model::{Model, NotLearnt};
pub use prophet::ProphetModel;
pub use season::{Season, seasons};
pub use series::{History, Series};
pub use span::span;
