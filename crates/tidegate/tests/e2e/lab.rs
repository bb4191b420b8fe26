//! The lab from the command line: simulated and live.

mod live;
mod replay;
mod simulate;
