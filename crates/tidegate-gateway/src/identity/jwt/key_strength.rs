//! Whether a key is valid and strong enough, and for which algorithms.

use jsonwebtoken::{Algorithm, AlgorithmFamily, DecodingKey, DecodingKeyKind};
use ring::agreement::{self, ECDH_P256, ECDH_P384, EphemeralPrivateKey, UnparsedPublicKey, agree_ephemeral};
use ring::rand::SystemRandom;

/// As long as the shortest hash (RFC 7518, 3.2): a shorter secret can be guessed offline from one token.
const MIN_SECRET_BYTES: usize = 32;

pub(super) fn algorithms_for(key: &DecodingKey) -> Result<Vec<Algorithm>, &'static str> {
    match (key.family(), key.kind()) {
        (AlgorithmFamily::Hmac, DecodingKeyKind::SecretOrDer(secret)) if secret.len() < MIN_SECRET_BYTES => {
            Err("must have at least 32 bytes")
        }
        (AlgorithmFamily::Rsa, kind) if !has_fitting_size(kind) => Err("must be an RSA key of 2048 to 8192 bits"),
        (AlgorithmFamily::Ec, DecodingKeyKind::SecretOrDer(point)) => match point.len() {
            65 if is_on_curve(&ECDH_P256, point) => Ok(vec![Algorithm::ES256]),
            97 if is_on_curve(&ECDH_P384, point) => Ok(vec![Algorithm::ES384]),
            _ => Err("must be a point on P-256 or P-384"),
        },
        (AlgorithmFamily::Ed, DecodingKeyKind::SecretOrDer(point)) if point.len() != 32 => {
            Err("must be an Ed25519 key")
        }
        (family, _) => Ok(family.algorithms().to_vec()),
    }
}

/// `ring` rejects other sizes at each token. Here the operator still learns of it.
fn has_fitting_size(key: &DecodingKeyKind) -> bool {
    match key {
        DecodingKeyKind::RsaModulusExponent { n, e } => {
            let top_bits = n.first().map_or(0, |byte| 8 - byte.leading_zeros() as usize);
            let bits = n.len().saturating_sub(1) * 8 + top_bits;
            (2048..=8192).contains(&bits) && !e.is_empty()
        }
        // PKCS #1: the modulus, 8 to 10 bytes around it, the exponent and 2 bytes around that.
        DecodingKeyKind::SecretOrDer(der) => (256 + 11..=1024 + 18).contains(&der.len()),
    }
}

/// Other curves have points of the same length. An agreement with a throw-away key is the check that `ring` offers.
fn is_on_curve(curve: &'static agreement::Algorithm, point: &[u8]) -> bool {
    EphemeralPrivateKey::generate(curve, &SystemRandom::new())
        .and_then(|ours| agree_ephemeral(ours, &UnparsedPublicKey::new(curve, point), |_| ()))
        .is_ok()
}
