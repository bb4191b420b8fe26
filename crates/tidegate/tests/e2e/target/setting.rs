//! A target that runs.

use tidegate_testkit::{Client, Directory, Gateway, Response, request, tidegate, wait_until};

/// Starts a target on a free port. (The harness is the gateway's; of what it knows, a target has all that is used
/// here.)
pub(crate) fn target(arguments: &[&str]) -> Gateway {
    let mut command = tidegate();
    command.args(["target", "--listen", "127.0.0.1:0"]).args(arguments);
    let directory = Directory::new();
    Gateway::launch(command, directory.0.join("none"), directory)
}

/// Asks about faults, as somebody on this machine.
pub(crate) fn faults(target: &Gateway, method: &str, body: &str) -> Response {
    request(target.address, method, "/faults", &[("host", "localhost")], body.as_bytes())
}

/// Switches faults; they can be.
pub(crate) fn switch(target: &Gateway, body: &str) {
    let response = faults(target, "POST", body);
    assert_eq!(response.status, 200, "{}", response.text());
}

/// Asks for something and does not wait for the response.
pub(crate) fn asking(target: &Gateway) -> Client {
    let mut client = Client::connect(target.address);
    client.send("GET /api/test HTTP/1.1\r\nhost: x\r\n\r\n");
    client
}

/// How many are served and how many wait.
pub(crate) fn standing(target: &Gateway) -> (f64, f64) {
    let of = |name: &str| target.metric(&format!("{name}{{name=\"target\"}}")).expect("it is there");
    (of("executor_active_threads"), of("executor_queued_tasks"))
}

pub(crate) fn wait_for_standing(target: &Gateway, busy: f64, waiting: f64) {
    wait_until(&format!("{busy} served and {waiting} waiting"), || standing(target) == (busy, waiting));
}

/// How many such responses came.
pub(crate) fn responded(target: &Gateway, status: u16) -> f64 {
    let name = format!("http_server_requests_seconds_count{{method=\"GET\",status=\"{status}\",uri=\"/api/test\"}}");
    target.metric(&name).unwrap_or(0.0)
}
