//! Predicts load, so that limits can be raised before it comes.

mod model;
mod season;
mod series;

pub use model::{Model, NotLearnt};
pub use season::Season;
pub use series::{History, Series};
