use http::Uri;

/// A URL of `http` or `https` that can be connected to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HttpUrl {
    /// `https`.
    pub is_tls: bool,
    /// Name or address, without brackets.
    pub host: String,
    /// Its own, or that of its scheme.
    pub port: u16,
    /// Host and port as `Host` has them.
    pub authority: String,
    /// What is requested; `/` if the URL has no path.
    pub path_and_query: String,
}

impl HttpUrl {
    /// Reads one, or says what is wrong with it: `{url} {reason}` is a sentence.
    pub fn read(url: &str) -> Result<Self, &'static str> {
        let uri: Uri = url.parse().map_err(|_| "is not a URL")?;
        let is_tls = match uri.scheme_str() {
            Some("http") => false,
            Some("https") => true,
            Some(_) => return Err("has a scheme other than http and https"),
            None => return Err("has no scheme"),
        };
        let authority = uri.authority().ok_or("has no host")?;
        if authority.as_str().contains('@') {
            return Err("carries a user");
        }
        // The parser drops an invalid port: what follows the host must be a valid one.
        let after_host = authority.as_str().rsplit_once(authority.host()).map_or("", |(_, after)| after);
        let has_bad_port = !after_host.is_empty() && authority.port_u16().is_none_or(|port| port == 0);
        if authority.host().is_empty() || has_bad_port {
            return Err("has no usable host or port");
        }
        Ok(Self {
            is_tls,
            host: authority.host().trim_start_matches('[').trim_end_matches(']').to_owned(),
            port: authority.port_u16().unwrap_or(if is_tls { 443 } else { 80 }),
            authority: authority.as_str().to_owned(),
            path_and_query: uri.path_and_query().map_or("/", http::uri::PathAndQuery::as_str).to_owned(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::HttpUrl;

    #[test]
    fn what_can_be_connected_to_is_read() {
        let url = HttpUrl::read("https://[::1]/a?b=c").expect("a URL");
        let expected = ("::1", 443, "[::1]", "/a?b=c", true);
        assert_eq!((&*url.host, url.port, &*url.authority, &*url.path_and_query, url.is_tls), expected);
        let url = HttpUrl::read("http://a.example:81").expect("a URL");
        let expected = ("a.example", 81, "a.example:81", "/", false);
        assert_eq!((&*url.host, url.port, &*url.authority, &*url.path_and_query, url.is_tls), expected);
    }

    #[test]
    fn what_can_not_is_rejected_with_its_reason() {
        for (url, reason) in [
            ("", "is not a URL"),
            ("http://", "is not a URL"),
            ("http://a b", "is not a URL"),
            ("localhost:80/", "is not a URL"),
            ("/path", "has no scheme"),
            ("ftp://a", "has a scheme other than http and https"),
            ("http://u:p@a", "carries a user"),
            ("http://:80/", "has no usable host or port"),
            ("http://a:/", "has no usable host or port"),
            ("http://a:0/", "has no usable host or port"),
            ("http://a:99999/", "has no usable host or port"),
        ] {
            assert_eq!(HttpUrl::read(url).expect_err(url), reason, "{url}");
        }
    }
}
