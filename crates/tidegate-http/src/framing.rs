//! Where messages end, read strictly: the chunked coding, and the header names and values that decide it.

mod chunks;
mod header_names;
mod header_values;
mod lines;
mod response_head;

pub use chunks::{Chunked, Part, Piece, write_end, write_size};
pub use header_names::is_fit_for_trailers;
pub use header_values::{content_length, takes_trailers, words};
pub use response_head::{BodyEnd, ParsedResponse, read_response};

pub(crate) use header_names::{dashed, is_hop_by_hop, is_written_anew, starts_with};
pub(crate) use header_values::{MOST_CONNECTION_WORDS, is_nomination};
pub(crate) use lines::ends_in_crlf;
