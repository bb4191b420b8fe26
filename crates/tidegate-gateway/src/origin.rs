//! Where a request for the gateway's own paths comes from, as far as its headers show.

use http::Version;
use tidegate_http::headers::text;
use tidegate_http::request::RequestHead;
use tidegate_input::is_loopback;

/// Headers that proxies add and that clients have no reason to send. One is enough: a proxy may be configured to add
/// any of them and no other. Each entry has a well-known sender.
const PROXY_HEADERS: [&str; 26] = [
    "client-ip",            // Apache and PHP guides; Akamai, F5
    "do-connecting-ip",     // DigitalOcean App Platform
    "eo-connecting-ip",     // Tencent EdgeOne
    "forwarded",            // RFC 7239
    "front-end-https",      // Microsoft's reverse proxies
    "proxy-client-ip",      // WebLogic's plugin for Apache
    "proxy-connection",     // old clients of forward proxies
    "remote-addr",          // nginx guides: `proxy_set_header REMOTE-ADDR $remote_addr`
    "remote-host",          // the same
    "surrogate-capability", // Edge Architecture: surrogates such as Varnish and Akamai
    "true-client-ip",       // Akamai, Cloudflare Enterprise
    "via",                  // RFC 9110 §7.6.3
    "wl-proxy-client-ip",   // WebLogic's plugin for Apache
    "x-bluecoat-via",       // Blue Coat (Symantec) proxies
    "x-client-ip",          // Azure, Heroku, many guides
    "x-clientip",           // the same in other spelling
    "x-cluster-client-ip",  // Rackspace, Zeus and Riverbed balancers
    "x-nginx-proxy",        // nginx guides: `proxy_set_header X-NginX-Proxy true`
    "x-real-host",          // nginx guides, beside X-Real-IP
    "x-real-ip",            // nginx guides, Traefik, ingress-nginx
    "x-real-port",          // nginx guides, beside X-Real-IP
    "x-remote-addr",        // nginx and HAProxy guides
    "x-remote-ip",          // the same
    "x-request-start",      // Heroku, New Relic's guides for nginx and HAProxy
    "x-rewrite-url",        // IIS with URL Rewrite
    "x-scheme",             // ingress-nginx
];

/// The same by how names begin, for families that grow.
const PROXY_FAMILIES: [&str; 29] = [
    "akamai-",         // Akamai
    "ali-",            // Alibaba CDN: Ali-CDN-Real-IP, Ali-Swift-*
    "cdn-",            // CDN-Loop (RFC 8586); Azion, Bunny and others: CDN-Connecting-IP, CDN-RequestId
    "cf-",             // Cloudflare: CF-Connecting-IP, CF-Ray, CF-Visitor
    "cloudfront-",     // Amazon CloudFront: CloudFront-Viewer-Address
    "fastly-",         // Fastly: Fastly-Client-IP, Fastly-FF
    "fly-",            // Fly.io: Fly-Client-IP
    "incap-",          // Imperva: Incap-Client-IP
    "x-akamai-",       // Akamai
    "x-amz-cf-",       // Amazon CloudFront: X-Amz-Cf-Id
    "x-amzn-",         // AWS load balancers and API Gateway: X-Amzn-Trace-Id
    "x-appengine-",    // Google App Engine: X-Appengine-User-IP
    "x-arr-",          // IIS Application Request Routing
    "x-auth-request-", // oauth2-proxy: X-Auth-Request-User
    "x-azure-",        // Azure Front Door: X-Azure-ClientIP, X-Azure-SocketIP
    "x-cloud-trace-",  // Google's load balancers
    "x-envoy-",        // Envoy, Istio: X-Envoy-External-Address
    "x-fd-",           // Azure Front Door: X-FD-HealthProbe
    "x-forwarded",     // X-Forwarded-For, -Host, -Port, -Prefix, -Proto, -Server, -Client-Cert, X-Forwarded
    "x-goog-iap-",     // Google Identity-Aware Proxy: X-Goog-IAP-JWT-Assertion
    "x-kong-",         // Kong: X-Kong-Request-Id
    "x-nf-",           // Netlify: X-NF-Client-Connection-IP
    "x-original-",     // X-Original-Forwarded-For, -Host, -Method, -URI, -URL
    "x-originating-",  // X-Originating-IP
    "x-proxy",         // X-ProxyUser-Ip (Google services), X-Proxy-*
    "x-ssl-client-",   // nginx and HAProxy guides: X-SSL-Client-Verify, -DN
    "x-sucuri-",       // Sucuri: X-Sucuri-ClientIP
    "x-varnish",       // Varnish
    "x-vercel-",       // Vercel: X-Vercel-Forwarded-For
];

/// What shows that a proxy sent this request, so that the address that connected is not the client's.
pub(crate) fn proxy_sign(request: &RequestHead) -> Option<String> {
    let name = |name: &[u8]| String::from_utf8_lossy(name).to_ascii_lowercase();
    let is_of_proxy = |name: &String| {
        PROXY_HEADERS.contains(&name.as_str()) || PROXY_FAMILIES.iter().any(|family| name.starts_with(family))
    };
    let header = request.headers.iter().map(|(header, _)| name(header)).find(is_of_proxy);
    header.map(|header| format!("the header `{header}`")).or_else(|| {
        // nginx before 1.29.7 speaks it to upstreams unless configured otherwise. Clients have not for decades.
        (request.version == Version::HTTP_10).then(|| "HTTP/1.0, which proxies speak,".to_owned())
    })
}

/// Whether the request is for a host that is this machine. A page whose own name was made to resolve to this machine
/// would send that name.
pub(crate) fn is_for_this_machine(request: &RequestHead) -> bool {
    let named = request.headers.get("host").and_then(text);
    let host = request.uri.authority().map(http::uri::Authority::as_str).or(named).unwrap_or_default();
    // Browsers always send it.
    host.is_empty() || is_loopback(host)
}

#[cfg(test)]
mod tests {
    use http::{HeaderMap, HeaderName, HeaderValue, Method};

    use tidegate_http::headers::Headers;

    use super::*;

    fn sign(version: Version, headers: &[&str]) -> Option<String> {
        let mut map = HeaderMap::new();
        for name in headers {
            let name = HeaderName::from_bytes(name.as_bytes()).expect("a name");
            map.insert(name, HeaderValue::from_static("198.51.100.1"));
        }
        let uri = "/config/limits".parse().expect("a target");
        proxy_sign(&RequestHead { method: Method::GET, uri, version, headers: Headers::from(&map) })
    }

    #[test]
    fn every_header_of_proxies_shows_a_proxy() {
        for header in PROXY_HEADERS {
            assert_eq!(sign(Version::HTTP_11, &["host", header]), Some(format!("the header `{header}`")));
        }
        for header in [
            "X-Forwarded",
            "X-Forwarded-Proto",
            "X-Forwarded-Client-Cert",
            "X-Original-Host",
            "X-Envoy-External-Address",
            "CF-Ray",
            "Fly-Client-IP",
            "X-Azure-ClientIP",
            "X-ProxyUser-Ip",
            "Fastly-Client-IP",
            "X-Amzn-Trace-Id",
            "CDN-Loop",
            "CDN-Connecting-IP",
            "X-Goog-IAP-JWT-Assertion",
            "X-Kong-Request-Id",
            "X-Auth-Request-Email",
            "X-SSL-Client-DN",
        ] {
            assert!(sign(Version::HTTP_2, &[header]).is_some(), "{header}");
        }
        assert!(
            sign(Version::HTTP_10, &["host", "connection"]).is_some(),
            "`proxy_pass` alone, of nginx before 1.29.7"
        );
    }

    #[test]
    fn headers_of_clients_show_no_proxy() {
        let usual = [
            "accept",
            "accept-encoding",
            "authorization",
            "cache-control",
            "connection",
            "content-length",
            "content-type",
            "cookie",
            "expect",
            "host",
            "if-match",
            "priority",
            "sec-fetch-site",
            "te",
            "traceparent",
            "user-agent",
            "x-request-id",
            "x-requested-with",
        ];
        assert_eq!(sign(Version::HTTP_11, &usual), None);
        assert_eq!(sign(Version::HTTP_2, &usual), None);
    }

    /// A sorted list shows at once what it has already.
    #[test]
    fn the_lists_are_sorted_and_in_lower_case() {
        assert!(PROXY_HEADERS.is_sorted() && PROXY_FAMILIES.is_sorted());
        let is_lower = |name: &&str| !name.bytes().any(|byte| byte.is_ascii_uppercase());
        assert!(PROXY_HEADERS.iter().chain(&PROXY_FAMILIES).all(is_lower));
    }
}
