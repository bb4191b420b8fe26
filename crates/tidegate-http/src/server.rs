//! HTTP/1.1 towards clients. It is written by hand: together with the side of upstreams it is most of what a request
//! costs, and strict framing is easiest where the bytes are.

mod io;
mod request_head;
mod response_body;
mod response_head;

pub use io::{BodyRest, IncomingBody, Interim, Io, SharedIo};
pub use request_head::{BadHead, Head, MOST_HEADERS, take_head};
pub use response_body::{GATHERED, ResponseBody};
pub use response_head::{Requested, ResponseFraming, ResponseHead, write_head};
