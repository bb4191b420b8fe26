//! JSON Web Tokens, made by hand.

use ring::hmac;
use serde_json::Value;

pub(crate) const SECRET: &str = "a secret of thirty-two characters";

/// A token with these claims, signed with `secret` by HS256.
pub(crate) fn token(claims: &Value, secret: &str) -> String {
    signed(r#"{"alg":"HS256","typ":"JWT"}"#, claims, secret)
}

/// The same with any header.
pub(crate) fn signed(header: &str, claims: &Value, secret: &str) -> String {
    let signed = format!("{}.{}", base64url(header.as_bytes()), base64url(claims.to_string().as_bytes()));
    let key = hmac::Key::new(hmac::HMAC_SHA256, secret.as_bytes());
    let signature = hmac::sign(&key, signed.as_bytes());
    format!("{signed}.{}", base64url(signature.as_ref()))
}

/// RFC 4648 §5, without padding.
pub(crate) fn base64url(bytes: &[u8]) -> String {
    const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
    let mut text = String::new();
    for chunk in bytes.chunks(3) {
        let number =
            chunk.iter().fold(0_usize, |number, byte| number << 8 | usize::from(*byte)) << (8 * (3 - chunk.len()));
        for place in 0..=chunk.len() {
            text.push(char::from(ALPHABET[number >> (18 - 6 * place) & 63]));
        }
    }
    text
}
