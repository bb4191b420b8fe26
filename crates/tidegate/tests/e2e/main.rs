//! Tests that drive the built binary over real sockets.

mod adaptation;
mod adaptive;
mod control;
mod demo;
mod endpoints;
mod forecast;
mod framing;
mod lab;
mod load;
mod policies;
mod protocols;
mod shared;
mod target;
