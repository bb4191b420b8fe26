//! HTTP/2 towards clients, around hyper: a connection's frames are counted and its header blocks inspected before hyper
//! reads them, because it bounds few of them itself and accepts some malformed requests.

mod allowance;
mod flood;
mod frames;
mod header_block;
mod huffman;
mod inbound;
mod io;
mod watch;

pub(crate) use flood::{Fault, Flood};
pub(crate) use io::{ClientIo, Closing, Tally};
pub(crate) use watch::{PREFACE, Terms};
