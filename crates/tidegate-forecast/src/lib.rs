//! Predicts load, so that limits can be raised before it comes.

mod model;
pub mod prophet;
mod season;
mod series;

pub use model::{Model, NotLearnt};
pub use prophet::ProphetModel;
pub use season::Season;
pub use series::{History, Series};
