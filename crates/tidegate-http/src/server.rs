//! HTTP/1.1 towards clients, by hand: together with the upstream's side it is most of what a request costs, and being strict about
//! framing is easiest where the bytes are. (HTTP/2 is hyper's.)

mod io;
mod request;
mod response;
mod serving;

pub(crate) use io::{Incoming, Interim};
pub(crate) use request::MOST_HEADERS;
pub(crate) use serving::serve;
