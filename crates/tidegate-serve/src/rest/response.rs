use bytes::Bytes;
use http::StatusCode;
use http::header::{ALLOW, CACHE_CONTROL, CONNECTION, CONTENT_TYPE, HeaderName, HeaderValue};
use http_body_util::Full;
use serde_json::{Value, json};
use tidegate_input::Problem;

use crate::Exposition;

/// A response.
#[derive(Clone, Debug)]
pub struct Response(http::Response<Full<Bytes>>);

impl Response {
    /// Some text.
    pub fn text(status: StatusCode, text: impl Into<Bytes>) -> Self {
        Self::new(status, "text/plain; charset=utf-8", text.into())
    }

    /// JSON that no cache keeps.
    pub fn json(status: StatusCode, value: &Value) -> Self {
        Self::written_json(status, format!("{value}\n"))
    }

    /// The same, written already.
    pub fn written_json(status: StatusCode, json: impl Into<Bytes>) -> Self {
        let response = Self::new(status, "application/json", json.into());
        response.with(CACHE_CONTROL, HeaderValue::from_static("no-store"))
    }

    /// A page of metrics.
    pub fn metrics(page: Exposition) -> Self {
        Self::new(StatusCode::OK, Exposition::CONTENT_TYPE, Bytes::from(page.into_text()))
    }

    /// Why something can't be had.
    pub fn error(status: StatusCode, reason: &str) -> Self {
        Self::json(status, &json!({ "status": status.as_u16(), "error": reason }))
    }

    /// 400: everything that is wrong with what was sent.
    pub fn bad(problems: &[Problem]) -> Self {
        let lines: Vec<String> = problems.iter().map(Problem::to_string).collect();
        let list: Vec<Value> =
            problems.iter().map(|problem| json!({ "path": problem.path, "message": problem.message })).collect();
        let status = StatusCode::BAD_REQUEST;
        Self::json(status, &json!({ "status": status.as_u16(), "error": lines.join("; "), "problems": list }))
    }

    /// 404.
    pub fn nothing_here() -> Self {
        Self::error(StatusCode::NOT_FOUND, "there is nothing here")
    }

    /// 405: the resource has other methods.
    pub fn only(methods: &'static str) -> Self {
        let response = Self::error(StatusCode::METHOD_NOT_ALLOWED, &format!("use {methods}"));
        response.with(ALLOW, HeaderValue::from_static(methods))
    }

    /// With this header.
    #[must_use]
    pub fn with(mut self, name: HeaderName, value: HeaderValue) -> Self {
        self.0.headers_mut().insert(name, value);
        self
    }

    /// Its status.
    pub fn status(&self) -> StatusCode {
        self.0.status()
    }

    /// The last of its connection.
    pub(super) fn and_close(self) -> Self {
        self.with(CONNECTION, HeaderValue::from_static("close"))
    }

    fn new(status: StatusCode, kind: &'static str, body: Bytes) -> Self {
        let mut response = http::Response::new(Full::new(body));
        *response.status_mut() = status;
        response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(kind));
        Self(response)
    }
}

impl From<Response> for http::Response<Full<Bytes>> {
    fn from(response: Response) -> Self {
        response.0
    }
}
