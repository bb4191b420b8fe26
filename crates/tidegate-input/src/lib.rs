#![doc = include_str!("../README.md")]

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
mod retry_after;
pub mod table;
mod utc;

pub use grouped::{counted, grouped};
pub use http_url::HttpUrl;
pub use loopback::is_loopback;
pub use problems::{Problem, Problems, shortened};
pub use retry_after::retry_after;
pub use utc::Utc;
