//! `tidegate target` as experiments meet it: its options, its faults, how it bears too much, what it says of itself,
//! how it ends.
#![allow(clippy::float_cmp, reason = "counts are whole")]

mod actuator;
mod faults;
mod leaving;
mod options;
mod overload;
mod service;
mod setting;
mod stopping;
