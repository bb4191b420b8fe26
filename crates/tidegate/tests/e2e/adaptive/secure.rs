//! A forecaster over TLS: asked if its certificate is good, and sent nothing if it is not.

use crate::adaptive::forecaster::Forecaster;
use crate::adaptive::setting::{HUNDRED, fixed, limit, requests, wait_for_limit};
use tidegate_testkit::authority::Authority;
use tidegate_testkit::{Directory, Gateway, Upstream, text, wait_until};

#[test]
fn a_forecaster_is_trusted_by_its_authority_alone() {
    let (upstream, forecaster, directory) = (Upstream::start(), Forecaster::responding(fixed(120)), Directory::new());
    let (good, other) = (Authority::new(), Authority::new());
    let issued = good.issue(&["localhost"]);
    let (certificate, key) =
        (directory.file("certificate.pem", &issued.certificate), directory.file("key.pem", &issued.key));
    // Another gateway gives the forecaster its TLS.
    let front = Gateway::start(&format!(
        "listeners: [{{address: \"127.0.0.1:0\", tls: {{certificate: \"{}\", key: \"{}\"}}}}]\n\
         upstreams: {{app: {{url: \"http://{}\"}}}}\nlimits: {{}}\n",
        text(&certificate),
        text(&key),
        forecaster.address()
    ));
    let asking = |authority: &Authority, name: &str| {
        let ca = text(&directory.file(name, &authority.pem()));
        let port = front.address.port();
        Gateway::start(&format!(
            "upstreams: {{app: {{url: \"http://{}\"}}}}\nlimits: {{default: {HUNDRED}}}\n\
             adaptive: {{forecaster: \"https://localhost:{port}/base/\", ca: \"{ca}\", interval: 1s}}\n",
            upstream.address
        ))
    };
    let distrusting = asking(&other, "other.pem");
    wait_until("it is not asked", || requests(&distrusting, "unreachable") >= 1.0);
    distrusting.wait_for_line("continuing with last known limits: ");
    assert_eq!((forecaster.count(), &limit(&distrusting)["limit"]), (0, &100.into()));
    let trusting = asking(&good, "good.pem");
    wait_for_limit(&trusting, 120);
    assert_eq!(forecaster.questions()[0].line, "POST /base/v1/limit-config HTTP/1.1");
}
