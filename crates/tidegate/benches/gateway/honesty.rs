//! Whether everyone did the work that the figures claim.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;

use crate::beside_nginx::Response;
use crate::nginx::BODY;
use crate::rounds::{Series, Subject};
use crate::wrk::Load;

/// nginx can reject no more strictly than once a minute, and our window may end within a round: so many may pass where
/// all are rejected.
const MAY_PASS: u64 = 2;

/// Writes down each round whose responses are not what they should be.
pub(crate) fn check_responses(title: &str, series: &[Series], response: Response, lies: &mut Vec<String>) {
    for one in series {
        for (number, round) in one.rounds.iter().enumerate() {
            if let Err(lie) = check_round(&round.load, response) {
                lies.push(format!("{title}, {}, round {}: {lie}", one.name, number + 1));
            }
        }
    }
}

fn check_round(load: &Load, response: Response) -> Result<(), String> {
    let Load { requests, rejected, errors, .. } = *load;
    let passed = requests.saturating_sub(rejected);
    match response {
        _ if errors > 0 => Err(format!("{errors} errors of connections")),
        _ if requests == 0 => Err("no request was answered".to_owned()),
        Response::Proxied if rejected > 0 => Err(format!("{rejected} of {requests} responses are not 2xx")),
        Response::Rejected if passed > MAY_PASS => Err(format!("{passed} of {requests} were admitted")),
        Response::Proxied | Response::Rejected => Ok(()),
    }
}

/// Asks each subject once, by hand: the upstream's own response where it is proxied, 429 where it is rejected.
pub(crate) fn check_once(title: &str, subjects: &[Subject], response: Response, lies: &mut Vec<String>) {
    for subject in subjects {
        // What is rejected may pass once a minute: after that one it is.
        let mut text = get(subject.port).unwrap_or_else(|error| error.to_string());
        if matches!(response, Response::Rejected) && text.starts_with("HTTP/1.1 200") {
            text = get(subject.port).unwrap_or_else(|error| error.to_string());
        }
        let as_it_should = match response {
            Response::Proxied => text.starts_with("HTTP/1.1 200") && text.contains(BODY),
            Response::Rejected => text.starts_with("HTTP/1.1 429"),
        };
        if !as_it_should {
            lies.push(format!("{title}, {}: it answers {text:?}", subject.name));
        }
    }
}

/// A gateway that drops lines has not written them.
pub(crate) fn check_lines(title: &str, subject: &Subject, lies: &mut Vec<String>) {
    let page = get_from(subject.port, "/actuator/prometheus").unwrap_or_else(|error| error.to_string());
    let dropped = page.lines().find_map(|line| line.strip_prefix("tidegate_access_log_dropped_total "));
    if dropped != Some("0") {
        lies.push(format!("{title}, {}: lines of its access log dropped: {dropped:?}", subject.name));
    }
}

fn get(port: u16) -> std::io::Result<String> {
    get_from(port, "/")
}

fn get_from(port: u16, path: &str) -> std::io::Result<String> {
    let mut stream = TcpStream::connect(("127.0.0.1", port))?;
    write!(stream, "GET {path} HTTP/1.1\r\nHost: bench\r\nConnection: close\r\n\r\n")?;
    let mut text = String::new();
    let _bytes = stream.read_to_string(&mut text)?;
    Ok(text)
}
