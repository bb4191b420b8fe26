//! Endpoints are compared with each other by their success rates.

use std::sync::atomic::{AtomicUsize, Ordering};

use serde_json::Value;

use tidegate_testkit::{Client, Gateway, Upstream, wait_until};

/// Fails every other request.
fn fails_every_other() -> Upstream {
    let count = AtomicUsize::new(0);
    Upstream::responding(move |_| {
        let status = if count.fetch_add(1, Ordering::Relaxed).is_multiple_of(2) { 200 } else { 503 };
        format!("HTTP/1.1 {status} So\r\nContent-Length: 0\r\n\r\n").into_bytes()
    })
}

/// The endpoints of one upstream, as the admin API shows them.
fn endpoints(gateway: &Gateway, upstream: &str) -> Vec<Value> {
    gateway.get(&format!("/config/upstreams/{upstream}")).json()["endpoints"].as_array().expect("a list").clone()
}

/// Three upstreams with the same endpoints get the same requests at the same time. Endpoints of the last one are
/// compared last, so what has not happened to the others by then does not happen.
#[test]
fn an_endpoint_with_a_low_success_rate_is_ejected_at_the_end_of_an_interval_unless_switched_off() {
    let failing = fails_every_other();
    let good: Vec<Upstream> = (0..4).map(|_| Upstream::start()).collect();
    let urls: Vec<String> =
        good.iter().chain([&failing]).map(|endpoint| format!("\"http://{}\"", endpoint.address)).collect();
    let upstream = |ejection: &str| {
        format!(
            "{{endpoints: [{}], balance: round_robin, \
             ejection: {{consecutive_failures: 0, time: 1h, max_time: 1h, {ejection}}}}}",
            urls.join(", ")
        )
    };
    let gateway = Gateway::start(&format!(
        "workers: 2\nlimits: {{}}\nroutes: [{{prefix: /1, upstream: off}}, {{prefix: /2, upstream: rarely}}, \
         {{prefix: /3, upstream: usual}}]\nupstreams:\n  off: {}\n  rarely: {}\n  usual: {}\n",
        upstream("success_rate: false, interval: 4s"),
        upstream("interval: 1h"),
        upstream("interval: 4s"),
    ));
    let mut clients: Vec<Client> = (0..2).map(|_| Client::connect(gateway.address)).collect();
    let name = failing.address.to_string();
    let failing_in = |upstream: &str| {
        endpoints(&gateway, upstream).into_iter().find(|shown| shown["endpoint"] == name.as_str()).expect("it is there")
    };
    wait_until("it is ejected", || {
        for round in 0..300 {
            for path in ["/1", "/2", "/3"] {
                clients[round % 2].request("GET", path, &[], b"");
            }
        }
        failing_in("usual")["state"] == "ejected"
    });
    let ejected = &failing_in("usual")["ejected"];
    assert_eq!(ejected["reason"], "success_rate");
    assert!(ejected["detail"].as_str().is_some_and(|text| text.contains("100.0 % of the others'")), "{ejected}");
    gateway.wait_for_line("of its requests succeeded");
    for upstream in ["off", "rarely"] {
        let shown = failing_in(upstream);
        assert_eq!((&shown["state"], &shown["ejections"]), (&"up".into(), &0.into()), "{upstream}");
        assert!(shown["failures"].as_u64() > Some(40) && shown["successes"].as_u64() > Some(40), "{shown}");
    }
    // Those that succeed are not harmed.
    for upstream in ["off", "rarely", "usual"] {
        let up = endpoints(&gateway, upstream).iter().filter(|shown| shown["state"] == "up").count();
        assert_eq!(up, if upstream == "usual" { 4 } else { 5 }, "{upstream}");
    }
}
