//! Which certificates of a target are trusted.

use std::path::Path;
use std::sync::Arc;

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{DigitallySignedStruct, Error, RootCertStore, SignatureScheme};
use tidegate_serve::tls::{SystemRoots, client_config, provider};

use crate::plan::Plan;
use crate::wire::Secured;

/// The TLS settings for the target of a plan; `None` without TLS. Trusts the authorities in `ca`, or the system's.
pub(crate) fn secured(plan: &Plan, ca: Option<&Path>) -> Result<Option<Secured>, String> {
    if !plan.target.is_tls {
        return Ok(None);
    }
    let name = ServerName::try_from(plan.target.host.clone()).map_err(|_| "has a host that no certificate can name")?;
    let protocols: &[&str] = if plan.request.is_http2 { &["h2"] } else { &["http/1.1"] };
    let roots =
        if plan.request.is_insecure { Arc::new(RootCertStore::empty()) } else { SystemRoots::default().or_in(ca)? };
    let mut config = client_config(roots, protocols).map_err(|error| error.to_string())?;
    if plan.request.is_insecure {
        config.dangerous().set_certificate_verifier(Arc::new(AnyCertificate(provider())));
    }
    Ok(Some(Secured { config: Arc::new(config), name }))
}

/// Trusts any server that proves that its certificate is its own.
#[derive(Debug)]
struct AnyCertificate(Arc<CryptoProvider>);

impl ServerCertVerifier for AnyCertificate {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls12_signature(message, certificate, signed, &self.0.signature_verification_algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls13_signature(message, certificate, signed, &self.0.signature_verification_algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}
