//! TLS to Redis: rustls with ring. Which authorities we trust, and which certificate we show.

use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};

use redis::{ClientTlsConfig, TlsCertificates};
use rustls::RootCertStore;
use rustls::crypto::ring;
use rustls::pki_types::pem::{self, PemObject};
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::sign::CertifiedKey;

/// PEM files for TLS to Redis, read once by [`Topology::with_tls`](crate::Topology::with_tls).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TlsFiles {
    /// The authorities to trust. Without it: the system's.
    pub ca: Option<PathBuf>,
    /// Our own certificate and its chain, for a Redis that asks for one (`tls-auth-clients`).
    pub certificate: Option<PathBuf>,
    /// The private key of `certificate`.
    pub key: Option<PathBuf>,
}

/// Why TLS can't be used with these [`TlsFiles`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InvalidTls {
    /// The field at fault.
    pub field: &'static str,
    /// What is wrong with it.
    pub reason: String,
}

impl fmt::Display for InvalidTls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "`{}`: {}", self.field, self.reason)
    }
}

impl std::error::Error for InvalidTls {}

fn wrong(field: &'static str, reason: impl Into<String>) -> InvalidTls {
    InvalidTls { field, reason: reason.into() }
}

impl TlsFiles {
    /// The first that is set.
    pub(crate) fn first(&self) -> Option<&'static str> {
        let fields = [("ca", &self.ca), ("certificate", &self.certificate), ("key", &self.key)];
        fields.into_iter().find_map(|(field, file)| file.as_ref().map(|_| field))
    }
}

/// What the files hold, in PEM: the `redis` crate takes nothing else.
#[derive(Clone, Default, PartialEq, Eq)]
pub(crate) struct Tls {
    ca: Option<Vec<u8>>,
    identity: Option<Identity>,
}

#[derive(Clone, PartialEq, Eq)]
struct Identity {
    certificate: Vec<u8>,
    key: Vec<u8>,
}

impl Tls {
    /// Reads the files, and sees whether they will do.
    pub(crate) fn read(files: &TlsFiles) -> Result<Self, InvalidTls> {
        let system = system_roots().map_err(|error| {
            let reason = format!("the system's authorities can't be read: {error}; SSL_CERT_FILE names others");
            wrong("ca", reason)
        })?;
        let ca = match &files.ca {
            Some(path) => Some(authorities(path).map_err(|reason| wrong("ca", reason))?),
            None if system.is_empty() => {
                return Err(wrong("ca", "is missing, and the system has no trusted authorities"));
            }
            None => None,
        };
        let identity = match (&files.certificate, &files.key) {
            (None, None) => None,
            (Some(certificate), Some(key)) => Some(Identity::read(certificate, key)?),
            (Some(_), None) => return Err(wrong("key", "is missing; `certificate` needs it")),
            (None, Some(_)) => return Err(wrong("certificate", "is missing; `key` needs it")),
        };
        Ok(Self { ca, identity })
    }

    /// What the `redis` crate needs. It reads the system's authorities itself, at every connection.
    pub(crate) fn certificates(&self) -> TlsCertificates {
        let client_tls = self
            .identity
            .as_ref()
            .map(|own| ClientTlsConfig { client_cert: own.certificate.clone(), client_key: own.key.clone() });
        TlsCertificates { client_tls, root_cert: self.ca.clone() }
    }
}

impl Identity {
    fn read(certificate: &Path, key: &Path) -> Result<Self, InvalidTls> {
        let (text, chain) = certificates(certificate).map_err(|reason| wrong("certificate", reason))?;
        let invalid = |reason: String| wrong("key", format!("{}: {reason}", key.display()));
        let key_text = fs::read(key).map_err(|error| invalid(error.to_string()))?;
        let parsed = PrivateKeyDer::from_pem_slice(&key_text).map_err(|error| match error {
            pem::Error::NoItemsFound => invalid("holds no private key in PEM".to_owned()),
            error => invalid(error.to_string()),
        })?;
        let fits = CertifiedKey::from_der(chain, parsed, &ring::default_provider());
        fits.map_err(|error| invalid(format!("can't be used with `certificate`: {error}")))?;
        Ok(Self { certificate: text, key: key_text })
    }
}

/// The text of a PEM file, and the certificates in it: one at least.
fn certificates(path: &Path) -> Result<(Vec<u8>, Vec<CertificateDer<'static>>), String> {
    let text = fs::read(path).map_err(|error| format!("{}: {error}", path.display()))?;
    let found = CertificateDer::pem_slice_iter(&text).collect::<Result<Vec<_>, _>>();
    let found = found.map_err(|error| format!("{}: {error}", path.display()))?;
    if found.is_empty() {
        return Err(format!("{}: holds no certificate in PEM", path.display()));
    }
    Ok((text, found))
}

fn authorities(path: &Path) -> Result<Vec<u8>, String> {
    let (text, found) = certificates(path)?;
    let mut roots = RootCertStore::empty();
    for certificate in found {
        roots.add(certificate).map_err(|error| format!("{}: {error}", path.display()))?;
    }
    Ok(text)
}

/// As strict as the `redis` crate, which does not connect at all if one of the system's authorities can't be read:
/// better reported at the start.
fn system_roots() -> Result<RootCertStore, String> {
    let mut found = rustls_native_certs::load_native_certs();
    if let Some(error) = found.errors.pop() {
        return Err(error.to_string());
    }
    let mut roots = RootCertStore::empty();
    for certificate in found.certs {
        roots.add(certificate).map_err(|error| error.to_string())?;
    }
    Ok(roots)
}

/// The `redis` crate leaves the choice of cryptography to the process, and rustls panics where none was made and it
/// can't guess. A choice that was made is kept; otherwise it is ring.
pub(crate) fn choose_cryptography() {
    let _chosen_already = ring::default_provider().install_default();
}
