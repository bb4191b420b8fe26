//! HTTP/2 towards clients, around hyper: the frames of a connection are counted before it reads them, for it bounds few of them itself.

mod block;
mod flood;
mod frames;
mod io;

pub(crate) use flood::{Fault, Flood, PREFACE};
pub(crate) use io::{ClientIo, Tally};
