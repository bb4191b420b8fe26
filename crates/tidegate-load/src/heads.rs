//! Requests as they are sent over HTTP/1.1.

use crate::plan::{Group, Plan};

/// Everything that is sent for a request, put together from what all have in common and what a client has of its own.
#[derive(Clone, Debug)]
pub struct Heads {
    /// The request line, and the fields that all have.
    start: Vec<u8>,
    groups: Vec<Group>,
    body: Vec<u8>,
}

impl Heads {
    /// Of a plan.
    pub fn new(plan: &Plan) -> Self {
        let request = &plan.request;
        let mut start =
            format!("{} {} HTTP/1.1\r\nhost: {}\r\n", request.method, request.path, plan.target.authority).into_bytes();
        for (name, value) in &request.headers {
            field(&mut start, name.as_str(), |out| out.extend_from_slice(value.as_bytes()));
        }
        let has_agent = request.headers.iter().any(|(name, _)| name == "user-agent");
        if !has_agent {
            let agent = concat!("tidegate-load/", env!("CARGO_PKG_VERSION"));
            field(&mut start, "user-agent", |out| out.extend_from_slice(agent.as_bytes()));
        }
        if !request.body.is_empty() {
            let length = request.body.len().to_string();
            field(&mut start, "content-length", |out| out.extend_from_slice(length.as_bytes()));
        }
        Self { start, groups: plan.clients.clone(), body: request.body.clone() }
    }

    /// Writes the request of a client.
    pub fn write(&self, group: usize, client: u64, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.start);
        for (name, template) in &self.groups[group].headers {
            field(out, name.as_str(), |out| template.write(client, out));
        }
        out.extend_from_slice(b"\r\n");
        out.extend_from_slice(&self.body);
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
        let plan = r#"{"limiterUrl": "http://[::1]:8082/a?b=c", "duration": 1, "profile": {"type": "constant", "params": {"rps": 1}},
            "requestOptions": {"method": "PUT", "query": {"d": "e&f"}, "headers": {"User-Agent": "me", "X-A": "1"}, "body": "hello"},
            "clients": [{"apiKey": "key-{n}!", "tier": "pro", "forwardedFor": "10.0.0.254"}, {"headers": {"X-B": "2"}}]}"#;
        assert_eq!(
            sent(plan, 0, 3),
            "PUT /a?b=c&d=e%26f HTTP/1.1\r\nhost: [::1]:8082\r\nuser-agent: me\r\nx-a: 1\r\ncontent-length: 5\r\n\
             x-api-key: key-3!\r\nx-user-tier: pro\r\nx-forwarded-for: 10.0.1.1\r\n\r\nhello"
        );
        assert!(sent(plan, 1, 0).ends_with("content-length: 5\r\nx-b: 2\r\n\r\nhello"));
        let plain =
            r#"{"limiterUrl": "http://a", "duration": 1, "profile": {"type": "constant", "params": {"rps": 1}}}"#;
        let agent = concat!("tidegate-load/", env!("CARGO_PKG_VERSION"));
        assert_eq!(sent(plain, 0, 0), format!("GET / HTTP/1.1\r\nhost: a\r\nuser-agent: {agent}\r\n\r\n"));
    }
}
