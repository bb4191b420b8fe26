//! TLS of listeners and towards upstreams.

use std::path::Path;
use std::sync::Arc;

use rustls::ServerConfig;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{PrivateKeyDer, ServerName};
use tidegate_http::client::ClientTls;
use tidegate_serve::tls::{SystemRoots, certificates, client_config, provider};

use crate::config::model::ServerTls;

/// The setting at fault, and why.
type Wrong = (&'static str, String);

/// The TLS configuration of a listener, with HTTP/2 and HTTP/1.1 by ALPN.
pub(crate) fn server(files: &ServerTls) -> Result<Arc<ServerConfig>, Wrong> {
    let chain = certificates(&files.certificate).map_err(|error| ("certificate", error))?;
    let key = PrivateKeyDer::from_pem_file(&files.key);
    let key = key.map_err(|error| ("key", format!("{}: {error}", files.key.display())))?;
    let builder = ServerConfig::builder_with_provider(provider()).with_safe_default_protocol_versions();
    let builder = builder.map_err(|error| ("certificate", error.to_string()))?.with_no_client_auth();
    let mut config = builder.with_single_cert(chain, key).map_err(|error| ("key", error.to_string()))?;
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    Ok(Arc::new(config))
}

/// How an upstream's certificate is checked: by the authorities in `ca`, or by those of the system.
pub(crate) fn client(ca: Option<&Path>, system: &SystemRoots, name: &str) -> Result<ClientTls, Wrong> {
    let wrong = |_| ("server_name", format!("must be a host name or an address, got {name:?}"));
    let name = ServerName::try_from(name.to_owned()).map_err(wrong)?;
    let roots = system.or_in(ca).map_err(|error| ("ca", error))?;
    let config = client_config(Arc::clone(&roots), &["http/1.1"]).map_err(|error| ("ca", error.to_string()))?;
    Ok(ClientTls { config: Arc::new(config), name, roots })
}
