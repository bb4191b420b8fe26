//! The way to the services behind: connections that are kept, requests written anew, answers read strictly. HTTP/1.1 by hand, because it
//! is most of what a request costs (see ARCHITECTURE.md).

mod chunks;
mod connection;
mod descriptors;
mod exchange;
mod head;
mod lookup;
mod pool;
mod trouble;

pub(crate) use chunks::{Chunked, Piece, ends_in_crlf, is_fit_for_trailers, write_end, write_size};
pub(crate) use connection::{Connection, connect_to};
pub(crate) use descriptors::Descriptors;
pub(crate) use exchange::{Answer, AnswerContent, AnswerStream, Local, send};
pub(crate) use head::{BodyLength, MOST_CONNECTION_WORDS, Outgoing, content_length, takes_trailers, words};
pub(crate) use pool::{Pools, Upstream, UpstreamStats};
pub(crate) use trouble::{Trouble, cause};
