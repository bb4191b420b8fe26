//! Requests as they are sent.

use bytes::Bytes;
use http::header::{CONTENT_LENGTH, USER_AGENT};
use http::{HeaderMap, HeaderValue, Method, Uri};

use crate::plan::{Group, Plan, Request};

/// Everything that is sent for a request, put together from what all have in common and what a client has of its own.
#[derive(Clone, Debug)]
pub struct Heads {
    /// The request line of each group.
    lines: Vec<Vec<u8>>,
    /// The fields that all have.
    fields: Vec<u8>,
    groups: Vec<Group>,
    body: Bytes,
    /// The URI of each group.
    uris: Vec<Uri>,
    /// The same over HTTP/2, without what a client has of its own.
    request: http::Request<()>,
}

/// Bodies up to this size are sent together with their heads.
const COPIED: usize = 16_384;

impl Heads {
    /// Of a plan.
    pub fn new(plan: &Plan) -> Self {
        let Request { method, path, headers, body, .. } = &plan.request;
        let authority = &plan.target.authority;
        let mut fields = HeaderMap::new();
        for (name, value) in headers {
            fields.append(name, value.clone());
        }
        fields
            .entry(USER_AGENT)
            .or_insert(HeaderValue::from_static(concat!("tidegate-load/", env!("CARGO_PKG_VERSION"))));
        // Some servers want a length even without a body where one is usual.
        if !body.is_empty() || [Method::POST, Method::PUT, Method::PATCH].contains(method) {
            fields.insert(CONTENT_LENGTH, body.len().into());
        }
        let path_of = |group: &Group| group.path.as_ref().unwrap_or(path).clone();
        let line =
            |group: &Group| format!("{method} {} HTTP/1.1\r\nhost: {authority}\r\n", path_of(group)).into_bytes();
        let lines = plan.clients.iter().map(line).collect();
        let mut common = Vec::new();
        for (name, value) in &fields {
            field(&mut common, name.as_str(), |out| out.extend_from_slice(value.as_bytes()));
        }
        let scheme = if plan.target.is_tls { "https" } else { "http" };
        let uri = |group: &Group| format!("{scheme}://{authority}{}", path_of(group)).parse();
        let uris = plan.clients.iter().map(uri).collect::<Result<_, _>>();
        let mut request = http::Request::new(());
        *request.method_mut() = method.clone();
        *request.headers_mut() = fields;
        Self {
            lines,
            fields: common,
            groups: plan.clients.clone(),
            body: Bytes::copy_from_slice(body),
            uris: uris.expect("the parts of a URL, a checked path, and a query that was encoded"),
            request,
        }
    }

    /// Writes the request of a client, and returns the body that goes behind, if it is too large to be copied.
    pub fn write(&self, group: usize, client: u64, out: &mut Vec<u8>) -> Bytes {
        out.extend_from_slice(&self.lines[group]);
        out.extend_from_slice(&self.fields);
        for (name, template) in &self.groups[group].headers {
            field(out, name.as_str(), |out| template.write(client, out));
        }
        out.extend_from_slice(b"\r\n");
        if self.body.len() > COPIED {
            return self.body.clone();
        }
        out.extend_from_slice(&self.body);
        Bytes::new()
    }

    /// The same for HTTP/2.
    pub fn request(&self, group: usize, client: u64) -> http::Request<Bytes> {
        let mut request = self.request.clone().map(|()| self.body.clone());
        *request.uri_mut() = self.uris[group].clone();
        for (name, template) in &self.groups[group].headers {
            let mut value = Vec::new();
            template.write(client, &mut value);
            if let Ok(value) = HeaderValue::from_maybe_shared(Bytes::from(value)) {
                request.headers_mut().append(name, value);
            }
        }
        request
    }
}

fn field(out: &mut Vec<u8>, name: &str, value: impl FnOnce(&mut Vec<u8>)) {
    out.extend_from_slice(name.as_bytes());
    out.extend_from_slice(b": ");
    value(out);
    out.extend_from_slice(b"\r\n");
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sent(plan: &str, group: usize, client: u64) -> String {
        let plan = Plan::read(plan.as_bytes()).expect("a good plan");
        let mut out = Vec::new();
        Heads::new(&plan).write(group, client, &mut out);
        String::from_utf8(out).expect("text")
    }

    #[test]
    fn a_request_is_what_the_plan_says() {
        let plan = r#"{"limiterUrl": "http://[::1]:8082/a?b=c", "duration": 1,
            "profile": {"type": "constant", "params": {"rps": 1}},
            "requestOptions": {"method": "PUT", "query": {"d": "e&f"}, "headers": {"User-Agent": "me", "X-A": "1"},
            "body": "hello"},
            "clients": [{"apiKey": "key-{n}!", "tier": "pro", "forwardedFor": "10.0.0.254"},
            {"headers": {"X-B": "2"}}, {"path": "/c?g=h"}]}"#;
        assert_eq!(
            sent(plan, 0, 3),
            "PUT /a?b=c&d=e%26f HTTP/1.1\r\nhost: [::1]:8082\r\nuser-agent: me\r\nx-a: 1\r\ncontent-length: 5\r\n\
             x-api-key: key-3!\r\nx-user-tier: pro\r\nx-forwarded-for: 10.0.1.1\r\n\r\nhello"
        );
        assert!(sent(plan, 1, 0).ends_with("content-length: 5\r\nx-b: 2\r\n\r\nhello"));
        let over_http2 = Heads::new(&Plan::read(plan.as_bytes()).expect("a good plan")).request(2, 0);
        assert_eq!(over_http2.uri(), "http://[::1]:8082/c?g=h");
        assert!(sent(plan, 2, 0).starts_with("PUT /c?g=h HTTP/1.1\r\nhost: [::1]:8082\r\nuser-agent: me\r\n"));
        let plain =
            r#"{"limiterUrl": "http://a", "duration": 1, "profile": {"type": "constant", "params": {"rps": 1}}}"#;
        let agent = concat!("tidegate-load/", env!("CARGO_PKG_VERSION"));
        assert_eq!(sent(plain, 0, 0), format!("GET / HTTP/1.1\r\nhost: a\r\nuser-agent: {agent}\r\n\r\n"));
    }
}
