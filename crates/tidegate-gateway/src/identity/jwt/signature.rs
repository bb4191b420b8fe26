//! Signatures are checked by `ring`, which TLS brings along: `jsonwebtoken`'s own backends would be a second
//! cryptographic library.

use jsonwebtoken::crypto::{CryptoProvider, JwtVerifier, KeyUtils};
use jsonwebtoken::errors::{Error, ErrorKind, Result};
use jsonwebtoken::signature::{Error as Mismatch, Verifier};
use jsonwebtoken::{Algorithm, DecodingKey, DecodingKeyKind};
use ring::{hmac, signature};

static RING: CryptoProvider = CryptoProvider {
    signer_factory: |_, _| Err(ErrorKind::UnsupportedAlgorithm.into()),
    verifier_factory: |algorithm, key| Ok(Box::new(RingVerifier::new(*algorithm, key)?)),
    // Used only for thumbprints and for keys made from private ones, which a gateway does not need.
    key_utils: KeyUtils::new_unimplemented(),
};

/// Must come before the first token. There is one provider a process; all calls after the first change nothing.
pub(super) fn use_ring() {
    let _already_in_use = RING.install_default();
}

struct RingVerifier {
    algorithm: Algorithm,
    scheme: Scheme,
    key: DecodingKey,
}

enum Scheme {
    Hmac(hmac::Algorithm),
    Rsa(&'static signature::RsaParameters),
    Curve(&'static dyn signature::VerificationAlgorithm),
}

impl RingVerifier {
    /// A key serves its own family: a public key must never become the secret of an HMAC.
    fn new(algorithm: Algorithm, key: &DecodingKey) -> Result<Self> {
        if algorithm.family() != key.family() {
            return Err(ErrorKind::InvalidAlgorithm.into());
        }
        let scheme = scheme(algorithm).ok_or_else(|| Error::from(ErrorKind::UnsupportedAlgorithm))?;
        Ok(Self { algorithm, scheme, key: key.clone() })
    }
}

fn scheme(algorithm: Algorithm) -> Option<Scheme> {
    Some(match algorithm {
        Algorithm::HS256 => Scheme::Hmac(hmac::HMAC_SHA256),
        Algorithm::HS384 => Scheme::Hmac(hmac::HMAC_SHA384),
        Algorithm::HS512 => Scheme::Hmac(hmac::HMAC_SHA512),
        Algorithm::RS256 => Scheme::Rsa(&signature::RSA_PKCS1_2048_8192_SHA256),
        Algorithm::RS384 => Scheme::Rsa(&signature::RSA_PKCS1_2048_8192_SHA384),
        Algorithm::RS512 => Scheme::Rsa(&signature::RSA_PKCS1_2048_8192_SHA512),
        Algorithm::PS256 => Scheme::Rsa(&signature::RSA_PSS_2048_8192_SHA256),
        Algorithm::PS384 => Scheme::Rsa(&signature::RSA_PSS_2048_8192_SHA384),
        Algorithm::PS512 => Scheme::Rsa(&signature::RSA_PSS_2048_8192_SHA512),
        Algorithm::ES256 => Scheme::Curve(&signature::ECDSA_P256_SHA256_FIXED),
        Algorithm::ES384 => Scheme::Curve(&signature::ECDSA_P384_SHA384_FIXED),
        Algorithm::EdDSA => Scheme::Curve(&signature::ED25519),
        // A later version of the library may have more algorithms, which are not supported here.
        _ => return None,
    })
}

impl Verifier<Vec<u8>> for RingVerifier {
    fn verify(&self, message: &[u8], tag: &Vec<u8>) -> std::result::Result<(), Mismatch> {
        let outcome = match (&self.scheme, self.key.kind()) {
            (Scheme::Hmac(hash), DecodingKeyKind::SecretOrDer(secret)) => {
                hmac::verify(&hmac::Key::new(*hash, secret), message, tag)
            }
            (Scheme::Rsa(parameters), DecodingKeyKind::RsaModulusExponent { n, e }) => {
                signature::RsaPublicKeyComponents { n, e }.verify(parameters, message, tag)
            }
            (Scheme::Rsa(parameters), DecodingKeyKind::SecretOrDer(der)) => {
                signature::UnparsedPublicKey::new(*parameters, der).verify(message, tag)
            }
            (Scheme::Curve(curve), DecodingKeyKind::SecretOrDer(point)) => {
                signature::UnparsedPublicKey::new(*curve, point).verify(message, tag)
            }
            (Scheme::Hmac(_) | Scheme::Curve(_), DecodingKeyKind::RsaModulusExponent { .. }) => {
                Err(ring::error::Unspecified)
            }
        };
        outcome.map_err(|_| Mismatch::new())
    }
}

impl JwtVerifier for RingVerifier {
    fn algorithm(&self) -> Algorithm {
        self.algorithm
    }
}

#[cfg(test)]
mod tests {
    use jsonwebtoken::AlgorithmFamily::{Ec, Ed, Hmac, Rsa};

    use super::*;

    /// The last line of defence: an HMAC made with the bytes of a public key would match here.
    #[test]
    fn a_key_checks_signatures_of_its_own_family_alone() {
        let bytes = [7; 65];
        let keys = [
            DecodingKey::from_secret(&bytes),
            DecodingKey::from_rsa_der(&bytes),
            DecodingKey::from_rsa_raw_components(&bytes, &[3]),
            DecodingKey::from_ec_der(&bytes),
            DecodingKey::from_ed_der(&bytes),
        ];
        for key in keys {
            for family in [Hmac, Rsa, Ec, Ed] {
                for algorithm in family.algorithms() {
                    let verifier = RingVerifier::new(*algorithm, &key);
                    assert_eq!(verifier.is_ok(), family == key.family(), "{algorithm:?} with {key:?}");
                }
            }
        }
    }
}
