//! HTTP/1.1 towards upstreams: connections that are kept, requests written anew, responses read strictly. It is written
//! by hand, because it is most of what a request costs.

mod client_terms;
mod connect;
mod connection;
mod endpoint;
mod exchange;
mod opening;
mod request_head;
mod response;
mod response_head;
mod send;
mod slots;
mod trouble;

pub use client_terms::ClientTerms;
pub use connect::{ClientTls, connect_to};
pub use connection::Connection;
pub use endpoint::{Endpoint, EndpointBounds, Pools};
pub use exchange::UploadEnd;
pub use opening::Local;
pub use request_head::{BodyLength, OutgoingHead, Traits};
pub use response::{Response, ResponseContent, ResponseStream};
pub use send::send;
pub use trouble::{Failed, Trouble, cause};
