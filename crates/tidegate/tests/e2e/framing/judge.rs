//! A reader of requests that forgives nothing: what it accepts, every server reads in the same way.

/// A request as it stands on the wire.
#[derive(Debug)]
pub(crate) struct Request {
    pub(crate) target: String,
    /// Names in lower case, in their order.
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) body: Vec<u8>,
    pub(crate) trailers: Vec<(String, String)>,
}

impl Request {
    /// All values of a header.
    pub(crate) fn all(&self, name: &str) -> Vec<&str> {
        self.headers.iter().filter(|(other, _)| other == name).map(|(_, value)| value.as_str()).collect()
    }
}

/// What a connection carried.
#[derive(Debug)]
pub(crate) struct Carried {
    /// All requests that came to their end.
    pub(crate) requests: Vec<Request>,
    /// Whether another one began behind them.
    pub(crate) unfinished: bool,
}

/// Reads all requests that a connection carried, or says what is not as it must be.
pub(crate) fn read(bytes: &[u8]) -> Result<Carried, String> {
    let (mut rest, mut requests) = (bytes, Vec::new());
    while !rest.is_empty() {
        match take_request(&mut rest)? {
            Some(request) => requests.push(request),
            None => return Ok(Carried { requests, unfinished: true }),
        }
    }
    Ok(Carried { requests, unfinished: false })
}

/// The next request; none if it is not there as a whole.
fn take_request(rest: &mut &[u8]) -> Result<Option<Request>, String> {
    let Some(line) = take_line(rest)? else { return Ok(None) };
    let words: Vec<&str> = line.split(' ').collect();
    let [method, target, "HTTP/1.1"] = words[..] else { return Err(format!("{line:?} is no request line")) };
    if method.is_empty() || !method.bytes().all(is_token) || !(target.starts_with('/') || target == "*") {
        return Err(format!("{line:?} is no request line"));
    }
    let Some(headers) = take_fields(rest)? else { return Ok(None) };
    let mut request = Request { target: target.into(), headers, body: Vec::new(), trailers: Vec::new() };
    if request.all("host").len() != 1 {
        return Err(format!("not one Host: {request:?}"));
    }
    let (lengths, codings) = (request.all("content-length"), request.all("transfer-encoding"));
    match (&lengths[..], &codings[..]) {
        ([], []) => {}
        ([length], []) => {
            let length = Some(*length).filter(|length| length.bytes().all(|byte| byte.is_ascii_digit()));
            let length: usize = length.and_then(|length| length.parse().ok()).ok_or("an odd Content-Length")?;
            let Some((body, behind)) = rest.split_at_checked(length) else { return Ok(None) };
            (request.body, *rest) = (body.to_vec(), behind);
        }
        ([], ["chunked"]) => {
            let Some((body, trailers)) = take_chunks(rest)? else { return Ok(None) };
            (request.body, request.trailers) = (body, trailers);
        }
        _ => return Err(format!("framed in more than one way: {request:?}")),
    }
    Ok(Some(request))
}

/// A line without its end.
fn take_line(rest: &mut &[u8]) -> Result<Option<String>, String> {
    let Some(end) = rest.iter().position(|byte| *byte == b'\n') else { return Ok(None) };
    let (line, behind) = (&rest[..end], &rest[end + 1..]);
    *rest = behind;
    let Some((b'\r', line)) = line.split_last() else { return Err("a line ends in a bare LF".to_owned()) };
    if line.iter().any(|byte| (*byte < 0x20 && *byte != b'\t') || *byte == 0x7f) {
        return Err(format!("a control character in {:?}", String::from_utf8_lossy(line)));
    }
    Ok(Some(line.iter().copied().map(char::from).collect()))
}

type Fields = Vec<(String, String)>;

fn take_fields(rest: &mut &[u8]) -> Result<Option<Fields>, String> {
    let mut fields = Vec::new();
    loop {
        let Some(line) = take_line(rest)? else { return Ok(None) };
        if line.is_empty() {
            return Ok(Some(fields));
        }
        let (name, value) = line.split_once(':').ok_or_else(|| format!("no colon in {line:?}"))?;
        if name.is_empty() || !name.bytes().all(is_token) {
            return Err(format!("{name:?} is no name"));
        }
        fields.push((name.to_ascii_lowercase(), value.trim_matches([' ', '\t']).to_owned()));
    }
}

fn take_chunks(rest: &mut &[u8]) -> Result<Option<(Vec<u8>, Fields)>, String> {
    let mut body = Vec::new();
    loop {
        let Some(line) = take_line(rest)? else { return Ok(None) };
        if line.is_empty() || !line.bytes().all(|byte| byte.is_ascii_hexdigit()) {
            return Err(format!("{line:?} is no chunk's size"));
        }
        let size = usize::from_str_radix(&line, 16).map_err(|error| error.to_string())?;
        if size == 0 {
            return Ok(take_fields(rest)?.map(|trailers| (body, trailers)));
        }
        let Some((data, behind)) = rest.split_at_checked(size) else { return Ok(None) };
        body.extend_from_slice(data);
        match behind.split_at_checked(2) {
            Some((b"\r\n", behind)) => *rest = behind,
            Some(_) => return Err("a chunk is longer than its size".to_owned()),
            None => return Ok(None),
        }
    }
}

fn is_token(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte)
}

#[test]
fn the_judge_is_strict() {
    let good = b"POST /a HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nhi\r\n0\r\nA: b\r\n\r\n\
                 GET /b HTTP/1.1\r\nHost: x\r\n\r\nGE";
    let carried = read(good).expect("it is well-formed");
    assert_eq!((carried.requests.len(), carried.unfinished), (2, true));
    assert_eq!(carried.requests[0].body, b"hi");
    assert_eq!(carried.requests[0].trailers, [("a".to_owned(), "b".to_owned())]);
    for bad in [
        "GET /a HTTP/1.1\nHost: x\r\n\r\n",
        "GET /a HTTP/1.0\r\nHost: x\r\n\r\n",
        "GET /a b HTTP/1.1\r\nHost: x\r\n\r\n",
        "GET http://x/ HTTP/1.1\r\nHost: x\r\n\r\n",
        "GET /a HTTP/1.1\r\n\r\n",
        "GET /a HTTP/1.1\r\nHost: x\r\nHost: x\r\n\r\n",
        "GET /a HTTP/1.1\r\nHost: x\r\n folded\r\n\r\n",
        "GET /a HTTP/1.1\r\nHost: x\r\nA : b\r\n\r\n",
        "GET /a HTTP/1.1\r\nHost: x\rA: b\r\n\r\n",
        "GET /a HTTP/1.1\r\nHost: x\r\nContent-Length: +1\r\n\r\nx",
        "GET /a HTTP/1.1\r\nHost: x\r\nContent-Length: 1\r\nContent-Length: 1\r\n\r\nx",
        "GET /a HTTP/1.1\r\nHost: x\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        "GET /a HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n",
        "GET /a HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n1;x\r\na\r\n0\r\n\r\n",
        "GET /a HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nab\r\n0\r\n\r\n",
    ] {
        assert!(read(bad.as_bytes()).is_err(), "{bad:?}");
    }
}
