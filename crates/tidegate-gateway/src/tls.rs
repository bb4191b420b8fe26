//! TLS on both sides: rustls, with ring.

use std::cell::OnceCell;
use std::path::Path;
use std::sync::Arc;

use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{ClientConfig, RootCertStore, ServerConfig};

use crate::config::model::ServerTls;

/// The field at fault, and why.
type Wrong = (&'static str, String);

fn provider() -> Arc<rustls::crypto::CryptoProvider> {
    Arc::new(rustls::crypto::ring::default_provider())
}

fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, String> {
    let told = |error: rustls::pki_types::pem::Error| format!("{}: {error}", path.display());
    let found: Vec<_> = CertificateDer::pem_file_iter(path).map_err(told)?.collect::<Result<_, _>>().map_err(told)?;
    if found.is_empty() {
        return Err(format!("{} holds no certificate in PEM", path.display()));
    }
    Ok(found)
}

/// What a listener shows its clients: HTTP/2 and HTTP/1.1 by ALPN.
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

/// How an upstream is spoken to.
pub struct ClientTls {
    pub(crate) config: Arc<ClientConfig>,
    /// What its certificate must say.
    pub(crate) name: ServerName<'static>,
    /// Who must have signed it.
    pub(crate) roots: Arc<RootCertStore>,
}

/// The authorities that the system trusts, read at most once: there are hundreds of them.
#[derive(Default)]
pub(crate) struct SystemRoots(OnceCell<Arc<RootCertStore>>);

impl SystemRoots {
    fn get(&self) -> Arc<RootCertStore> {
        let load = || {
            let mut roots = RootCertStore::empty();
            // Some of a system's certificates may be unreadable to us; those that are readable count.
            roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
            Arc::new(roots)
        };
        Arc::clone(self.0.get_or_init(load))
    }
}

/// How an upstream's certificate is checked: by the authorities in `ca`, or the system's.
pub(crate) fn client(ca: Option<&Path>, system: &SystemRoots, name: &str) -> Result<ClientTls, Wrong> {
    let name = ServerName::try_from(name.to_owned());
    let name = name.map_err(|_| ("server_name", "is neither a host name nor an address".to_owned()))?;
    let roots = if let Some(path) = ca {
        let mut roots = RootCertStore::empty();
        for certificate in certificates(path).map_err(|error| ("ca", error))? {
            roots.add(certificate).map_err(|error| ("ca", format!("{}: {error}", path.display())))?;
        }
        Arc::new(roots)
    } else {
        system.get()
    };
    if roots.is_empty() {
        return Err(("ca", "is missing, and the system has no trusted authorities".to_owned()));
    }
    let builder = ClientConfig::builder_with_provider(provider()).with_safe_default_protocol_versions();
    let builder = builder.map_err(|error| ("ca", error.to_string()))?;
    let mut config = builder.with_root_certificates(Arc::clone(&roots)).with_no_client_auth();
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(ClientTls { config: Arc::new(config), name, roots })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_systems_authorities_are_read_once_for_all_upstreams() {
        let system = SystemRoots::default();
        assert!(Arc::ptr_eq(&system.get(), &system.get()));
    }
}
