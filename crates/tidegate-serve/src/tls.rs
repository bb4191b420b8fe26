//! TLS: rustls, with ring. Whom we trust, and how we speak to them.

use std::cell::OnceCell;
use std::path::Path;
use std::sync::Arc;

use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use rustls::{ClientConfig, RootCertStore};

/// The cryptography that everything here uses.
pub fn provider() -> Arc<rustls::crypto::CryptoProvider> {
    Arc::new(rustls::crypto::ring::default_provider())
}

/// The certificates in a PEM file: one at least.
pub fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, String> {
    let reported = |error: rustls::pki_types::pem::Error| format!("{}: {error}", path.display());
    let found: Vec<_> =
        CertificateDer::pem_file_iter(path).map_err(reported)?.collect::<Result<_, _>>().map_err(reported)?;
    if found.is_empty() {
        return Err(format!("{} holds no certificate in PEM", path.display()));
    }
    Ok(found)
}

/// The authorities that the system trusts, read at most once: there are hundreds of them.
#[derive(Debug, Default)]
pub struct SystemRoots(OnceCell<Arc<RootCertStore>>);

impl SystemRoots {
    /// The authorities in the PEM file `ca`, or the system's. It is an error if there are none.
    pub fn or_in(&self, ca: Option<&Path>) -> Result<Arc<RootCertStore>, String> {
        let roots = match ca {
            None => self.get(),
            Some(path) => {
                let mut roots = RootCertStore::empty();
                for certificate in certificates(path)? {
                    roots.add(certificate).map_err(|error| format!("{}: {error}", path.display()))?;
                }
                Arc::new(roots)
            }
        };
        if roots.is_empty() {
            return Err("is missing, and the system has no trusted authorities".to_owned());
        }
        Ok(roots)
    }

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

/// How those are spoken to whose certificates `roots` have signed; `protocols` are offered by ALPN, the dearest first.
pub fn client_config(roots: Arc<RootCertStore>, protocols: &[&str]) -> Result<ClientConfig, rustls::Error> {
    let builder = ClientConfig::builder_with_provider(provider()).with_safe_default_protocol_versions()?;
    let mut config = builder.with_root_certificates(roots).with_no_client_auth();
    config.alpn_protocols = protocols.iter().map(|protocol| protocol.as_bytes().to_vec()).collect();
    Ok(config)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_systems_authorities_are_read_once_for_all() {
        let system = SystemRoots::default();
        assert!(Arc::ptr_eq(&system.get(), &system.get()));
    }
}
