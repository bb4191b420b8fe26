//! Our own target.

use tidegate_testkit::{Directory, Gateway, tidegate};

/// `tidegate target` on a free port.
pub(crate) struct Target(Gateway);

impl Target {
    pub(crate) fn start() -> Self {
        let directory = Directory::new();
        let mut command = tidegate();
        command.args([
            "target",
            "--listen",
            "127.0.0.1:0",
            "--service-time",
            "1ms",
            "--workers",
            "256",
            "--queue",
            "4096",
        ]);
        let config = directory.0.join("none");
        Self(Gateway::launch(command, config, directory))
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}/api/test", self.0.address)
    }

    pub(crate) fn pid(&self) -> u32 {
        self.0.pid()
    }

    /// Requests that it has served well.
    pub(crate) fn responded(&self) -> f64 {
        let name = "http_server_requests_seconds_count{method=\"GET\",status=\"200\",uri=\"/api/test\"}";
        self.0.metric(name).unwrap_or_default()
    }
}
