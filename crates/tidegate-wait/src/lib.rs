#![doc = include_str!("../README.md")]

mod clock;
mod gate;
mod permit;
mod queue;

pub use tidegate_policy as policy;

pub use clock::Clock;
pub use gate::{Gate, NotAcquired};
pub use permit::Permit;
