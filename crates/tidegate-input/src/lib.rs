//! Reads what people and programs write: JSON objects ([`object`], [`json`]), tables in files ([`table`]), times
//! ([`moment`]), URLs ([`HttpUrl`]). What is wrong is reported with its path, all of it at once ([`Problem`]). Times and
//! counts are written here too ([`Utc`], [`grouped`]), so that each form stands in one place.
//!
//! Nothing here waits, talks or keeps state.

pub mod calendar;
pub mod csv;
pub mod duration;
mod grouped;
mod http_url;
pub mod json;
pub mod log_times;
mod loopback;
pub mod moment;
pub mod object;
mod problems;
pub mod table;
mod utc;

pub use grouped::grouped;
pub use http_url::HttpUrl;
pub use loopback::is_loopback;
pub use problems::{Problem, Problems};
pub use utc::Utc;
