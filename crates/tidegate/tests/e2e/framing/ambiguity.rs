//! Requests that two readers could read in two ways. Judged by what reaches the upstream: one request or none, never
//! two.

/// A request by `POST`: what follows its `Host`.
macro_rules! post {
    ($rest:literal) => {
        concat!("POST /@ HTTP/1.1\r\nHost: a\r\n", $rest).as_bytes()
    };
}

/// A request with a body in chunks: that body.
macro_rules! chunked {
    ($body:literal) => {
        concat!("POST /@ HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n", $body).as_bytes()
    };
}

mod chunks;

use std::time::Duration;

use crate::framing::judge;
use tidegate_testkit::{Client, Gateway, Received, Response, Upstream, pause};

/// What must become of a request.
enum Expect {
    /// One of these statuses; no request upstream.
    Rejected(&'static [u16]),
    /// One request upstream, with this body.
    One(&'static [u8]),
}

use Expect::{One, Rejected};

/// A name, the bytes (`/@` stands for the path of this case), and what must become of them.
type Case = (&'static str, &'static [u8], Expect);

const BAD: Expect = Rejected(&[400]);

/// A coding that is not understood may be reported so.
const BAD_CODING: Expect = Rejected(&[400, 501]);

const NONE: Expect = One(b"");

const HELLO: Expect = One(b"hello");

#[test]
fn a_length_is_one_number_of_digits() {
    judge(&[
        ("one", post!("Content-Length: 5\r\n\r\nhello"), HELLO),
        ("blanks around it", post!("Content-Length: \t 5 \t\r\n\r\nhello"), HELLO),
        ("zeros before it", post!("Content-Length: 0005\r\n\r\nhello"), HELLO),
        ("in a GET", b"GET /@ HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nhello", HELLO),
        ("zero", post!("Content-Length: 0\r\n\r\n"), NONE),
        ("in HTTP/1.0", b"POST /@ HTTP/1.0\r\nHost: a\r\nContent-Length: 5\r\n\r\nhello", HELLO),
        ("twice the same", post!("Content-Length: 5\r\nContent-Length: 5\r\n\r\nhello"), BAD),
        ("two", post!("Content-Length: 5\r\nContent-Length: 6\r\n\r\nhello!"), BAD),
        ("two, the larger first", post!("Content-Length: 6\r\nContent-Length: 5\r\n\r\nhello!"), BAD),
        ("a list", post!("Content-Length: 5, 5\r\n\r\nhello"), BAD),
        ("a list of two", post!("Content-Length: 5,6\r\n\r\nhello!"), BAD),
        ("a plus", post!("Content-Length: +5\r\n\r\nhello"), BAD),
        ("a minus", post!("Content-Length: -5\r\n\r\nhello"), BAD),
        ("minus zero", post!("Content-Length: -0\r\n\r\n"), BAD),
        ("hexadecimal", post!("Content-Length: 0x5\r\n\r\nhello"), BAD),
        ("with a fraction", post!("Content-Length: 5.0\r\n\r\nhello"), BAD),
        ("with an exponent", post!("Content-Length: 5e0\r\n\r\nhello"), BAD),
        ("with a blank in it", post!("Content-Length: 5 5\r\n\r\nhello"), BAD),
        ("with a vertical tab", post!("Content-Length: \x0b5\r\n\r\nhello"), BAD),
        ("nothing", post!("Content-Length:\r\n\r\nhello"), BAD),
        ("a word", post!("Content-Length: five\r\n\r\nhello"), BAD),
        ("beyond 64 bits", post!("Content-Length: 18446744073709551621\r\n\r\nhello"), BAD),
        ("all 64 bits", post!("Content-Length: 18446744073709551615\r\n\r\nhello"), Rejected(&[400, 413, 431])),
        ("a blank before the colon", post!("Content-Length : 5\r\n\r\nhello"), BAD),
        (
            "named as of the connection",
            post!("Connection: Content-Length, Host\r\nContent-Length: 5\r\n\r\nhello"),
            HELLO,
        ),
    ]);
}

#[test]
fn a_coding_is_chunked_or_nothing() {
    judge(&[
        ("one", chunked!("5\r\nhello\r\n0\r\n\r\n"), HELLO),
        ("in other letters and blanks", post!("tRANSFER-eNCODING:\t cHUNKED \t\r\n\r\n5\r\nhello\r\n0\r\n\r\n"), HELLO),
        ("in a GET", b"GET /@ HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n", HELLO),
        ("without content", chunked!("0\r\n\r\n"), NONE),
        ("xchunked", post!("Transfer-Encoding: xchunked\r\n\r\n0\r\n\r\n"), BAD_CODING),
        ("chunkedx", post!("Transfer-Encoding: chunkedx\r\n\r\n0\r\n\r\n"), BAD_CODING),
        ("quoted", post!("Transfer-Encoding: \"chunked\"\r\n\r\n0\r\n\r\n"), BAD_CODING),
        ("with a parameter", post!("Transfer-Encoding: chunked;q=1\r\n\r\n0\r\n\r\n"), BAD_CODING),
        ("nothing", post!("Transfer-Encoding:\r\n\r\n0\r\n\r\n"), BAD_CODING),
        ("identity", post!("Transfer-Encoding: identity\r\n\r\n0\r\n\r\n"), BAD_CODING),
        ("gzip", post!("Transfer-Encoding: gzip\r\n\r\n0\r\n\r\n"), BAD_CODING),
        ("gzip, chunked", post!("Transfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n"), BAD_CODING),
        ("chunked, gzip", post!("Transfer-Encoding: chunked, gzip\r\n\r\n0\r\n\r\n"), BAD_CODING),
        ("chunked, identity", post!("Transfer-Encoding: chunked, identity\r\n\r\n0\r\n\r\n"), BAD_CODING),
        ("a comma", post!("Transfer-Encoding: , chunked\r\n\r\n0\r\n\r\n"), BAD_CODING),
        ("chunked, chunked", post!("Transfer-Encoding: chunked, chunked\r\n\r\n0\r\n\r\n"), BAD_CODING),
        (
            "chunked twice",
            post!("Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"),
            BAD_CODING,
        ),
        (
            "chunked and identity",
            post!("Transfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n\r\n0\r\n\r\n"),
            BAD_CODING,
        ),
        (
            "gzip and chunked",
            post!("Transfer-Encoding: gzip\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"),
            BAD_CODING,
        ),
        ("a vertical tab", post!("Transfer-Encoding: \x0bchunked\r\n\r\n0\r\n\r\n"), BAD_CODING),
        ("a blank before the colon", post!("Transfer-Encoding : chunked\r\n\r\n0\r\n\r\n"), BAD),
        ("a tab before the colon", post!("Transfer-Encoding\t: chunked\r\n\r\n0\r\n\r\n"), BAD),
        ("a line before it", post!("X: a\r\n Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n"), BAD),
        ("folded", post!("Transfer-Encoding:\r\n chunked\r\n\r\n0\r\n\r\n"), BAD),
        ("in HTTP/1.0", b"POST /@ HTTP/1.0\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", BAD_CODING),
        (
            "in HTTP/1.0 that is kept",
            b"POST /@ HTTP/1.0\r\nHost: a\r\nConnection: keep-alive\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n\
              GET /evil HTTP/1.1\r\nHost: a\r\n\r\n",
            BAD_CODING,
        ),
        (
            "named as of the connection",
            post!("Connection: Transfer-Encoding\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n"),
            HELLO,
        ),
    ]);
}

#[test]
fn a_coding_beside_a_length_is_rejected() {
    judge(&[
        (
            "the length first",
            post!("Content-Length: 15\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n"),
            BAD,
        ),
        (
            "the coding first",
            post!("Transfer-Encoding: chunked\r\nContent-Length: 15\r\n\r\n5\r\nhello\r\n0\r\n\r\n"),
            BAD,
        ),
        (
            "a request behind the last chunk, within the length",
            post!(
                "Content-Length: 49\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\nGET /evil HTTP/1.1\r\nHost: a\r\n\
                   X: y\r\n\r\n........."
            ),
            BAD,
        ),
        (
            "a request within a chunk, behind the length",
            post!(
                "Content-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n21\r\nGET /evil HTTP/1.1\r\nHost: a\r\n\
                   X: y\r\n0\r\n\r\n"
            ),
            BAD,
        ),
        (
            "a request as a chunk, behind the length",
            post!(
                "Transfer-Encoding: chunked\r\nContent-Length: 4\r\n\r\n1f\r\nGET /evil HTTP/1.1\r\nHost: a\r\n\r\n\
                   \r\n0\r\n\r\n"
            ),
            BAD,
        ),
        (
            "an odd length",
            post!(
                "Transfer-Encoding: chunked\r\nContent-Length: +4\r\n\r\n0\r\n\r\nGET /evil HTTP/1.1\r\nHost: a\r\n\
                   \r\n"
            ),
            BAD,
        ),
        (
            "the length zero",
            post!(
                "Content-Length: 0\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\nGET /evil HTTP/1.1\r\nHost: a\r\n\
                   \r\n"
            ),
            BAD,
        ),
    ]);
}

#[test]
fn a_body_that_looks_like_a_request_stays_a_body() {
    judge(&[
        (
            "behind what ends chunks",
            post!("Content-Length: 36\r\n\r\n0\r\n\r\nGET /evil HTTP/1.1\r\nHost: a\r\n\r\n"),
            One(b"0\r\n\r\nGET /evil HTTP/1.1\r\nHost: a\r\n\r\n"),
        ),
        (
            "of a GET",
            b"GET /@ HTTP/1.1\r\nHost: a\r\nContent-Length: 31\r\n\r\nGET /evil HTTP/1.1\r\nHost: a\r\n\r\n",
            One(b"GET /evil HTTP/1.1\r\nHost: a\r\n\r\n"),
        ),
        (
            "of a DELETE",
            b"DELETE /@ HTTP/1.1\r\nHost: a\r\nContent-Length: 31\r\n\r\nGET /evil HTTP/1.1\r\nHost: a\r\n\r\n",
            One(b"GET /evil HTTP/1.1\r\nHost: a\r\n\r\n"),
        ),
        (
            "of a request that would go over to another protocol",
            b"GET /@ HTTP/1.1\r\nHost: a\r\nConnection: upgrade\r\nUpgrade: websocket\r\nContent-Length: 31\r\n\r\n\
              GET /evil HTTP/1.1\r\nHost: a\r\n\r\n",
            One(b"GET /evil HTTP/1.1\r\nHost: a\r\n\r\n"),
        ),
        (
            "in chunks",
            chunked!("5\r\n0\r\n\r\n\r\n1F\r\nGET /evil HTTP/1.1\r\nHost: a\r\n\r\n\r\n0\r\n\r\n"),
            One(b"0\r\n\r\nGET /evil HTTP/1.1\r\nHost: a\r\n\r\n"),
        ),
    ]);
}

#[test]
fn lines_end_where_everyone_sees_it() {
    judge(&[
        ("an empty line before", b"\r\nGET /@ HTTP/1.1\r\nHost: a\r\n\r\n", NONE),
        ("bare LFs", b"GET /@ HTTP/1.1\nHost: a\nX: y\n\n", BAD),
        ("a bare LF in a value", b"GET /@ HTTP/1.1\r\nHost: a\r\nX: y\nZ: z\r\n\r\n", BAD),
        ("a Host behind a bare LF", b"GET /@ HTTP/1.1\r\nHost: a\r\nX: y\nHost: b\r\n\r\n", BAD),
        (
            "a length behind a bare LF",
            post!("X: y\nContent-Length: 31\r\n\r\nGET /evil HTTP/1.1\r\nHost: a\r\n\r\n"),
            BAD,
        ),
        ("a bare CR in a value", b"GET /@ HTTP/1.1\r\nHost: a\r\nX: y\rZ: z\r\n\r\n", BAD),
        ("a bare CR before a value", b"GET /@ HTTP/1.1\r\nHost: a\r\nX:\ry\r\n\r\n", BAD),
        ("a bare CR in a name", b"GET /@ HTTP/1.1\r\nHost: a\r\nX\rZ: z\r\n\r\n", BAD),
        ("a bare CR in the line", b"GET /@\rx HTTP/1.1\r\nHost: a\r\n\r\n", BAD),
        ("a bare CR behind the version", b"GET /@ HTTP/1.1\rHost: a\r\n\r\n", BAD),
        ("two CRs", b"GET /@ HTTP/1.1\r\nHost: a\r\r\n\r\n", BAD),
        ("a CR in the empty line", b"GET /@ HTTP/1.1\r\nHost: a\r\n\r\r\n", BAD),
        ("folding", b"GET /@ HTTP/1.1\r\nHost: a\r\nX: y\r\n z\r\n\r\n", BAD),
        ("folding by a tab", b"GET /@ HTTP/1.1\r\nHost: a\r\nX: y\r\n\tz\r\n\r\n", BAD),
        ("folding of the Host", b"GET /@ HTTP/1.1\r\nHost:\r\n a\r\n\r\n", BAD),
        ("a blank before the first name", b"GET /@ HTTP/1.1\r\n Host: a\r\nHost: b\r\n\r\n", BAD),
        ("a line of blanks", b"GET /@ HTTP/1.1\r\nHost: a\r\n \r\n\r\n", BAD),
    ]);
}

#[test]
fn names_are_tokens_and_values_are_printable() {
    judge(&[
        ("a tab in a value", b"GET /@ HTTP/1.1\r\nHost: a\r\nX: a\tb\r\n\r\n", NONE),
        ("bytes beyond ASCII in a value", b"GET /@ HTTP/1.1\r\nHost: a\r\nX: \xc3\xa4\r\n\r\n", NONE),
        ("no value", b"GET /@ HTTP/1.1\r\nHost: a\r\nX:\r\n\r\n", NONE),
        ("a blank before the colon", b"GET /@ HTTP/1.1\r\nHost: a\r\nX : y\r\n\r\n", BAD),
        ("a blank before the Host's colon", b"GET /@ HTTP/1.1\r\nHost : a\r\n\r\n", BAD),
        ("a blank in a name", b"GET /@ HTTP/1.1\r\nHost: a\r\nX Z: y\r\n\r\n", BAD),
        ("no name", b"GET /@ HTTP/1.1\r\nHost: a\r\n: y\r\n\r\n", BAD),
        ("no colon", b"GET /@ HTTP/1.1\r\nHost: a\r\nnothing\r\n\r\n", BAD),
        ("NUL in a name", b"GET /@ HTTP/1.1\r\nHost: a\r\nX\0Z: y\r\n\r\n", BAD),
        ("NUL in a value", b"GET /@ HTTP/1.1\r\nHost: a\r\nX: y\0z\r\n\r\n", BAD),
        ("a control character in a name", b"GET /@ HTTP/1.1\r\nHost: a\r\nX\x01: y\r\n\r\n", BAD),
        ("a control character in a value", b"GET /@ HTTP/1.1\r\nHost: a\r\nX: y\x01\r\n\r\n", BAD),
        ("a form feed in a value", b"GET /@ HTTP/1.1\r\nHost: a\r\nX: \x0cy\r\n\r\n", BAD),
        ("an escape in a value", b"GET /@ HTTP/1.1\r\nHost: a\r\nX: \x1b[1m\r\n\r\n", BAD),
        ("a delete in a value", b"GET /@ HTTP/1.1\r\nHost: a\r\nX: y\x7f\r\n\r\n", BAD),
        ("bytes beyond ASCII in a name", b"GET /@ HTTP/1.1\r\nHost: a\r\nX\xe4: y\r\n\r\n", BAD),
        ("a quote in a name", b"GET /@ HTTP/1.1\r\nHost: a\r\n\"X\": y\r\n\r\n", BAD),
    ]);
}

#[test]
fn there_is_one_host() {
    judge(&[
        ("with a port", b"GET /@ HTTP/1.1\r\nHost: a.example:8080\r\n\r\n", NONE),
        ("an address", b"GET /@ HTTP/1.1\r\nHost: [::1]:8080\r\n\r\n", NONE),
        ("none in HTTP/1.0", b"GET /@ HTTP/1.0\r\n\r\n", NONE),
        ("none", b"GET /@ HTTP/1.1\r\n\r\n", BAD),
        ("two", b"GET /@ HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n", BAD),
        ("twice the same", b"GET /@ HTTP/1.1\r\nHost: a\r\nHost: a\r\n\r\n", BAD),
        ("two in HTTP/1.0", b"GET /@ HTTP/1.0\r\nHost: a\r\nHost: b\r\n\r\n", BAD),
        ("a list", b"GET /@ HTTP/1.1\r\nHost: a, b\r\n\r\n", BAD),
        ("two words", b"GET /@ HTTP/1.1\r\nHost: a b\r\n\r\n", BAD),
        ("a path", b"GET /@ HTTP/1.1\r\nHost: a/evil\r\n\r\n", BAD),
        ("a query", b"GET /@ HTTP/1.1\r\nHost: a?x\r\n\r\n", BAD),
        ("a user", b"GET /@ HTTP/1.1\r\nHost: user@a\r\n\r\n", BAD),
        ("a URL", b"GET /@ HTTP/1.1\r\nHost: http://a\r\n\r\n", BAD),
        ("a quote", b"GET /@ HTTP/1.1\r\nHost: a\"b\r\n\r\n", BAD),
        ("a semicolon, which would end it in Forwarded", b"GET /@ HTTP/1.1\r\nHost: a;proto=https\r\n\r\n", BAD),
        ("beyond ASCII", b"GET /@ HTTP/1.1\r\nHost: \xc3\xa4\r\n\r\n", BAD),
        ("a port that is none", b"GET /@ HTTP/1.1\r\nHost: a:b\r\n\r\n", BAD),
        ("two ports", b"GET /@ HTTP/1.1\r\nHost: a:80:81\r\n\r\n", BAD),
        ("an open bracket", b"GET /@ HTTP/1.1\r\nHost: [::1\r\n\r\n", BAD),
    ]);
}

#[test]
fn a_request_line_has_three_words() {
    judge(&[
        ("the host in the target", b"GET http://other.example/@ HTTP/1.1\r\nHost: a\r\n\r\n", NONE),
        ("a method of one's own", b"PURGE /@ HTTP/1.1\r\nHost: a\r\n\r\n", NONE),
        ("the host in the target alone", b"GET http://other.example/@ HTTP/1.1\r\n\r\n", BAD),
        ("two hosts besides", b"GET http://other.example/@ HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n", BAD),
        ("a user in the target", b"GET http://user@other.example/@ HTTP/1.1\r\nHost: a\r\n\r\n", BAD),
        ("no host in the target", b"GET http:///@ HTTP/1.1\r\nHost: a\r\n\r\n", BAD),
        ("CONNECT", b"CONNECT a.example:443 HTTP/1.1\r\nHost: a.example:443\r\n\r\n", Rejected(&[501])),
        ("CONNECT to a path", b"CONNECT /@ HTTP/1.1\r\nHost: a\r\n\r\n", Rejected(&[400, 501])),
        ("an asterisk, which is for OPTIONS", b"GET * HTTP/1.1\r\nHost: a\r\n\r\n", BAD),
        ("a host and port, which are for CONNECT", b"GET a.example:80 HTTP/1.1\r\nHost: a\r\n\r\n", BAD),
        ("no slash", b"GET evil HTTP/1.1\r\nHost: a\r\n\r\n", BAD),
        ("a fragment, which is none of the server's business", b"GET /@#evil HTTP/1.1\r\nHost: a\r\n\r\n", BAD),
        ("a blank in the target", b"GET /@ /evil HTTP/1.1\r\nHost: a\r\n\r\n", BAD),
        ("two versions", b"GET /@ HTTP/1.1 HTTP/1.1\r\nHost: a\r\n\r\n", BAD),
        ("two blanks", b"GET  /@ HTTP/1.1\r\nHost: a\r\n\r\n", BAD),
        ("a tab", b"GET\t/@ HTTP/1.1\r\nHost: a\r\n\r\n", BAD),
        ("NUL in the target", b"GET /@\0 HTTP/1.1\r\nHost: a\r\n\r\n", BAD),
        ("a blank before", b" GET /@ HTTP/1.1\r\nHost: a\r\n\r\n", BAD),
        ("no version", b"GET /@\r\nHost: a\r\n\r\n", BAD),
        ("no target", b"GET HTTP/1.1\r\nHost: a\r\n\r\n", BAD),
        ("a bracket in the method", b"G(T /@ HTTP/1.1\r\nHost: a\r\n\r\n", BAD),
        ("HTTP/0.9", b"GET /@ HTTP/0.9\r\nHost: a\r\n\r\n", Rejected(&[400, 505])),
        ("HTTP/1.2, which is spoken to as 1.1", b"GET /@ HTTP/1.2\r\nHost: a\r\n\r\n", NONE),
        ("HTTP/1.2 without a host", b"GET /@ HTTP/1.2\r\n\r\n", BAD),
        ("HTTP/2.0", b"GET /@ HTTP/2.0\r\nHost: a\r\n\r\n", Rejected(&[400, 505])),
        ("small letters", b"GET /@ http/1.1\r\nHost: a\r\n\r\n", BAD),
        ("another protocol", b"\x16\x03\x01\x00\xa5\x01\x00\x00\xa1\x03\x03 a\r\n\r\n", BAD),
    ]);
}

#[test]
fn options_of_the_server_itself_are_asked_as_such() {
    let upstream = Upstream::responding(echo);
    let gateway = Gateway::start(&format!("upstreams: {{app: {{url: \"http://{}/base\"}}}}\n", upstream.address));
    let response = Client::connect(gateway.address).request("OPTIONS", "*", &[], b"");
    assert_eq!((response.status, response.text().as_str()), (200, "OPTIONS * HTTP/1.1\n"));
}

#[test]
fn the_host_in_a_target_wins_over_the_header() {
    let upstream = Upstream::responding(echo);
    let config = format!(
        "upstreams: {{app: {{url: \"http://{}\", preserve_host: true}}}}\nroutes: [{{host: other.example}}]\n",
        upstream.address
    );
    let gateway = Gateway::start(&config);
    let mut client = Client::connect(gateway.address);
    client.send("GET http://Other.example:81/a?b HTTP/1.1\r\nHost: test.example\r\n\r\n");
    assert_eq!(client.response().text(), "GET /a?b HTTP/1.1\n");
    let received = upstream.last();
    assert_eq!(received.header("host"), Some("other.example:81"));
    assert_eq!(received.header("x-forwarded-host"), Some("other.example:81"));
    client.send("GET http://test.example/a HTTP/1.1\r\nHost: other.example\r\n\r\n");
    assert_eq!(client.response().status, 404, "the header must not choose the route");
}

/// Cuts a stream of requests at every byte: what a packet ends with must make no difference.
#[test]
fn requests_are_the_same_however_they_arrive() {
    let upstream = Upstream::responding(echo);
    let gateway = gateway(&upstream);
    let bytes = b"POST /one HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n3;x\r\none\r\n0\r\nA: b\r\n\r\n\
                  PUT /two HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\n\r\ntwo\r\nGET /three HTTP/1.1\r\n\
                  Host: a\r\n\r\n";
    let mut client = Client::connect(gateway.address);
    for cut in 1..bytes.len() {
        client.send(&bytes[..cut]);
        pause(Duration::from_millis(1));
        client.send(&bytes[cut..]);
        assert_eq!(client.response().text(), "POST /one HTTP/1.1\none", "cut at {cut}");
        assert_eq!(client.response().text(), "PUT /two HTTP/1.1\n\r\ntwo", "cut at {cut}");
        assert_eq!(client.response().text(), "GET /three HTTP/1.1\n", "cut at {cut}");
    }
    for byte in bytes {
        client.send([*byte]);
    }
    for expected in ["POST /one HTTP/1.1\none", "PUT /two HTTP/1.1\n\r\ntwo", "GET /three HTTP/1.1\n"] {
        assert_eq!(client.response().text(), expected, "byte by byte");
    }
    for bytes in upstream.bytes() {
        assert!(!judge::read(&bytes).expect("well-formed").unfinished);
    }
}

fn echo(received: &Received) -> Vec<u8> {
    let body = [received.line.as_bytes(), b"\n", &received.body].concat();
    [format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n", body.len()).into_bytes(), body].concat()
}

fn gateway(upstream: &Upstream) -> Gateway {
    Gateway::start(&format!(
        "upstreams: {{app: {{url: \"http://{}\"}}}}\n\
         limits: {{default: {{algorithm: fixed, limit: 1000000, window: 60}}}}\n\
         connections: {{head_timeout: 2s, body_timeout: 2s}}\n",
        upstream.address
    ))
}

/// Sends all cases, each over a connection of its own, and an honest request behind each, over the same connection and
/// over another.
fn judge(cases: &[Case]) {
    let upstream = Upstream::responding(echo);
    let gateway = gateway(&upstream);
    let mut wrong = Vec::new();
    for (place, (name, bytes, expect)) in cases.iter().enumerate() {
        if let Err(reason) = send(&gateway, place, bytes, expect) {
            wrong.push(format!("{name}: {reason}"));
        }
    }
    let mut targets = Vec::new();
    for bytes in upstream.bytes() {
        match judge::read(&bytes) {
            Ok(carried) => targets.extend(carried.requests.into_iter().map(|request| request.target)),
            Err(reason) => wrong.push(format!("{reason} in {:?}", String::from_utf8_lossy(&bytes))),
        }
    }
    if targets.iter().any(|target| target.contains("evil")) {
        wrong.push(format!("two requests out of one: {targets:?}"));
    }
    for (place, (name, _, expect)) in cases.iter().enumerate() {
        let expected = usize::from(!matches!(expect, Rejected(_)));
        let count = targets.iter().filter(|target| **target == case_path(place)).count();
        if count != expected {
            wrong.push(format!("{name}: {count} requests upstream instead of {expected}"));
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

fn case_path(place: usize) -> String {
    format!("/case-{place}")
}

fn send(gateway: &Gateway, place: usize, bytes: &[u8], expect: &Expect) -> Result<(), String> {
    let mut client = Client::connect(gateway.address);
    client.send(with_path(bytes, &case_path(place)));
    let response = client.try_response_to("GET").ok_or("no answer")?;
    let own = |body: &[u8]| {
        let (line, rest) = response.body.split_at(response.body.iter().position(|byte| *byte == b'\n').unwrap_or(0));
        let line = String::from_utf8_lossy(line).into_owned();
        line.split(' ').nth(1) == Some(&case_path(place)) && rest.strip_prefix(b"\n") == Some(body)
    };
    let is_right = match expect {
        Rejected(statuses) => statuses.contains(&response.status),
        One(body) => response.status == 200 && own(body),
    };
    if !is_right {
        return Err(format!("answered {} {:?}", response.status, response.text()));
    }
    // The same connection goes on with the next request, or ends.
    let after = format!("/after-{place}");
    client.try_send(format!("GET {after} HTTP/1.1\r\nHost: test.example\r\n\r\n"));
    match client.try_response_to("GET") {
        Some(response) if !is_own(&response, &after) => {
            return Err(format!(
                "the next request over the same connection was answered {} {:?}",
                response.status,
                response.text()
            ));
        }
        _ => {}
    }
    let honest = format!("/honest-{place}");
    let response = gateway.get(&honest);
    if is_own(&response, &honest) { Ok(()) } else { Err(format!("another client got {:?}", response.text())) }
}

fn is_own(response: &Response, path: &str) -> bool {
    response.status == 200 && response.text() == format!("GET {path} HTTP/1.1\n")
}

fn with_path(bytes: &[u8], path: &str) -> Vec<u8> {
    let Some(place) = bytes.windows(2).position(|pair| pair == b"/@") else { return bytes.to_vec() };
    [&bytes[..place], path.as_bytes(), &bytes[place + 2..]].concat()
}
