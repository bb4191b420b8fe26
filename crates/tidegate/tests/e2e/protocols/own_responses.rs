//! The gateway's own responses over HTTP/2.

use http_body_util::BodyExt;

use crate::protocols::session::{self, ask, request, run};
use tidegate_testkit::frames::{DATA, END_HEADERS, END_STREAM, Frame, HEADERS, RST_STREAM, Wire, block};
use tidegate_testkit::{Gateway, Upstream};

fn nothing() -> session::RequestBody {
    http_body_util::Empty::new().boxed()
}

/// They had a body, which clients take for a fault of the protocol.
#[test]
fn to_head_they_have_no_body_but_tell_its_length() {
    let upstream = Upstream::start();
    let gateway = Gateway::start(&format!(
        "listeners: [{{address: \"127.0.0.1:0\", h2c: true}}]\nupstreams: {{app: {{url: \"http://{}\"}}}}\n\
         limits: {{default: {{algorithm: fixed, limit: 1, window: 30d}}}}\nroutes: [{{prefix: /known}}]\n",
        upstream.address
    ));
    run(async {
        let mut session = session::h2c(gateway.address).await;
        assert_eq!(ask(&mut session, request("GET", "/known", nothing())).await.status, 200);
        for (path, status) in [("/known", 429), ("/unknown", 404), ("/actuator/health", 200), ("/actuator/none", 404)] {
            let head = ask(&mut session, request("HEAD", path, nothing())).await;
            assert_eq!((head.status.as_u16(), head.body.len()), (status, 0), "{path}");
            let length = head.header("content-length").and_then(|length| length.parse().ok());
            assert!(length.is_some_and(|length: usize| length > 20), "{path}: {length:?}");
            let get = ask(&mut session, request("GET", path, nothing())).await;
            assert_eq!(get.status.as_u16(), status, "{path}");
            assert!(get.body.len() > 20, "{path}");
        }
    });
}

#[test]
fn what_can_not_be_expected_is_rejected_here_too() {
    let upstream = Upstream::start();
    let gateway = Gateway::start(&format!(
        "listeners: [{{address: \"127.0.0.1:0\", h2c: true}}]\nupstreams: {{app: {{url: \"http://{}\"}}}}\n",
        upstream.address
    ));
    run(async {
        let mut session = session::h2c(gateway.address).await;
        let mut asked = request("GET", "/", nothing());
        asked.headers_mut().insert("expect", "miracles".parse().expect("a value"));
        assert_eq!(ask(&mut session, asked).await.status, 417);
    });
}

/// RFC 9113 lets a server reset what it does not want to read, behind its whole response; but there are clients that
/// lose the response then.
#[test]
fn an_upload_that_is_rejected_is_read_and_not_reset() {
    let upstream = Upstream::start();
    let gateway = Gateway::start(&format!(
        "listeners: [{{address: \"127.0.0.1:0\", h2c: true}}]\nupstreams: {{app: {{url: \"http://{}\"}}}}\n\
         limits: {{default: {{algorithm: fixed, limit: 1, window: 30d}}}}\n",
        upstream.address
    ));
    assert_eq!(gateway.get("/").status, 200);
    let mut wire = Wire::connect(gateway.address);
    let fields: [(&str, &[u8]); 4] =
        [(":method", b"POST"), (":scheme", b"http"), (":authority", b"test.example"), (":path", b"/")];
    wire.send(&[Frame::new(HEADERS, END_HEADERS, 1, block(&fields)), Frame::new(DATA, 0, 1, [7; 10_000])]);
    let mut ended = false;
    while !ended {
        let frame = wire.read().expect("the answer");
        assert_ne!(frame.kind, RST_STREAM, "the stream was reset");
        ended = frame.stream == 1 && matches!(frame.kind, HEADERS | DATA) && frame.flags & END_STREAM != 0;
    }
    // The rest of it comes when the response is there.
    wire.send(&[Frame::new(DATA, 0, 1, [7; 10_000]), Frame::new(DATA, END_STREAM, 1, [7; 10_000])]);
    wire.send(&[Frame::request(3, &[(":method", b"GET"), fields[1], fields[2], (":path", b"/actuator/health")])]);
    loop {
        let frame = wire.read().expect("the next answer");
        assert_ne!((frame.kind, frame.stream), (RST_STREAM, 1), "the stream was reset");
        if frame.kind == HEADERS && frame.stream == 3 {
            break;
        }
    }
    assert_eq!(upstream.count(), 1);
}
