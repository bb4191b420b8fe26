//! Makes keys and signs tokens, good and bad.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::LazyLock;
use std::sync::atomic::{AtomicU64, Ordering};

use base64::Engine;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use ring::rand::SystemRandom;
use ring::signature::{self, EcdsaKeyPair, Ed25519KeyPair, KeyPair, RsaKeyPair};
use ring::{hmac, rsa};
use serde_json::{Value, json};

use super::NOW;

/// 64 characters: enough for every HMAC.
pub(super) const SECRET: &str = "only for tests: 0123456789abcdef 0123456789abcdef 0123456789abcd";

/// `ring` makes no RSA keys, so here is one (PKCS #8) that protects nothing.
const RSA_KEY_FOR_TESTS: &str = "\
MIIEvwIBADANBgkqhkiG9w0BAQEFAASCBKkwggSlAgEAAoIBAQDLUjDFkpvi0xve9IR386GBbdxZXVWRPjnzg/uYYFqWX5l1rV2a+eobYY4GvX\
WlUaBL/B7Ej46+EdXhk6hgdwbMvY9fHgDBZ+TkRqrsdKzw+h/z617wAxzSZ7ioKbsw0BTVkFLj5dPf54Oc5++CFDzfxyd7DKWfzR03ta/v4XIo\
4HLIN3AR1J6+jklIgBoBebhP47jo/UKRfIdUz7dEy7LWY4bKT+DZeYjdGloWuBfCBbPF7SuPtSvla8VOqMUZoJJSuBHUv/i0GU8ujcT7UjbHfM\
2GiUVYOfnISZvEjCoMTE6Jlsn9oBJ003R/3fyr1ysnutUwbBOC8qKbXYgbkXKBAgMBAAECggEAEsST9vDZDd+Bz5tPjQkCrAFZmTAp4V3WmJli\
xIaEZiQN9NRbcx5Fk2B2bT3Y2blGrCzqJCfCO95GmWt5W+owyP5oeRW6aR/ve3jgdzIv8pCMGYZs/Ye0BeIIJBGyE0fp3GrVk+7Xl2/18KpiK+\
Y1Vky6Yrvgn/cdjtJpGqH7WTVwh6AG86R1UqQNC8NuIbCykrpVbIEvelCMipvnDX4arALSHRRazoPVbJz6NW3aCsnF670sduTDkOOmmvwO7Dp7\
DJcqJdyQiRrIz8bzkxBiysiLKTg4AHUY1Op8C7hQKg2PLZvmNqiRdiAn0GeMiQrOr7fDKXBPb2/ZbX7NlAkDvwKBgQDvib5lkCxFOcjgRL8PEi\
wlViPMAjxa6NDDTYOiHJGLV++1ABZKCM4dIo8sE/cYDUYgaBYysXyaD3td/B2oyyc3RCYdV7R6nS5hh24IZwwYgYI6wtBHcWCWA3Lw/sA60Y2V\
FwKNy29Sf3eA4mInxaz1yvGl6H5NSyTAwOVbaUNFEwKBgQDZS0V+uXUFHLJLwosytUr7Sp9bCiXFADQj3v36kKOaRoJJbQWbWT5Zk6MIgA24xq\
KkjAZ8c50Igj84YvSnilCtQXgWw7o0cygJ1W3ssY8vgrYghGZF1YmAzFYmerXJQVDhImJO1aFJzLVOw76cfGYZaR+k//gQEqMrHJSxicLgmwKB\
gQCPKqKzjUIIdgsLj8sptNDR1/Q5QLTWGQR9VlzwjWaoA/zvD4hC45RdcYRk8eHjbDuXrt5lmhNA+TPg7ojDk/hyXbbyHrNt/Xf1Lr6jIwPlub\
IecMWPjcIOpy0RwREflpOqokASg56bjjfcvnGwF8PSfGOFp7mldN4YnrH2uqlMJQKBgQCn4pNIDOwPzhMnm6DGxfGv5ADpaxaxda3TRTf//v6Y\
dP+20WfyleopdXsSVzXC3J3O+m0MfJsIdvF3lGUoiSI6KoopNIJKgeqeZmtu4+UYNSqYRxNpw0lg3P927XpEi5V8zH8eH8pk5afzuiMsbqTH30\
PWzPoRGQU+iu+LmD+cHwKBgQCNqzKN7fZsAk42lkuizlwVkhw7UlotXumeqUUmWI9auWyiLXpdH4lTHopo4aEphjnSsZ/CKn7clnTnWkGJQUmc\
02/GFNvTwEzonlNlucanpmHw8YGZqazeZLWgMZRuVYltb4IjUBV/xYPfsZYHuEyB/zh4InbCRB2iezbjsnb71w==";

static RSA: LazyLock<RsaKeyPair> = LazyLock::new(|| {
    let der = STANDARD.decode(RSA_KEY_FOR_TESTS).expect("base64");
    RsaKeyPair::from_pkcs8(&der).expect("an RSA key")
});

enum Signer {
    Hmac(hmac::Key),
    Rsa(&'static dyn signature::RsaEncoding),
    Ec(EcdsaKeyPair),
    Ed(Ed25519KeyPair),
}

/// Someone who issues tokens, all with one algorithm.
pub(super) struct Issuer {
    algorithm: &'static str,
    signer: Signer,
}

impl Issuer {
    /// With a new key, except for RSA and HMAC.
    pub(super) fn new(algorithm: &'static str) -> Self {
        let random = SystemRandom::new();
        let ec = |algorithm| {
            let key = EcdsaKeyPair::generate_pkcs8(algorithm, &random).expect("a key");
            Signer::Ec(EcdsaKeyPair::from_pkcs8(algorithm, key.as_ref(), &random).expect("its own key"))
        };
        let signer = match algorithm {
            "HS256" => Signer::Hmac(hmac::Key::new(hmac::HMAC_SHA256, SECRET.as_bytes())),
            "HS384" => Signer::Hmac(hmac::Key::new(hmac::HMAC_SHA384, SECRET.as_bytes())),
            "HS512" => Signer::Hmac(hmac::Key::new(hmac::HMAC_SHA512, SECRET.as_bytes())),
            "RS256" => Signer::Rsa(&signature::RSA_PKCS1_SHA256),
            "RS384" => Signer::Rsa(&signature::RSA_PKCS1_SHA384),
            "RS512" => Signer::Rsa(&signature::RSA_PKCS1_SHA512),
            "PS256" => Signer::Rsa(&signature::RSA_PSS_SHA256),
            "PS384" => Signer::Rsa(&signature::RSA_PSS_SHA384),
            "PS512" => Signer::Rsa(&signature::RSA_PSS_SHA512),
            "ES256" => ec(&signature::ECDSA_P256_SHA256_FIXED_SIGNING),
            "ES384" => ec(&signature::ECDSA_P384_SHA384_FIXED_SIGNING),
            "EdDSA" => {
                let key = Ed25519KeyPair::generate_pkcs8(&random).expect("a key");
                Signer::Ed(Ed25519KeyPair::from_pkcs8(key.as_ref()).expect("its own key"))
            }
            other => panic!("no issuer for {other}"),
        };
        Self { algorithm, signer }
    }

    /// HMAC with any secret, such as someone's public key.
    pub(super) fn with_secret(secret: &[u8]) -> Self {
        Self { algorithm: "HS256", signer: Signer::Hmac(hmac::Key::new(hmac::HMAC_SHA256, secret)) }
    }

    pub(super) fn token(&self, claims: &Value) -> String {
        self.token_with(&json!({"alg": self.algorithm, "typ": "JWT"}), claims)
    }

    pub(super) fn token_of_key(&self, kid: &str, claims: &Value) -> String {
        self.token_with(&json!({"alg": self.algorithm, "kid": kid}), claims)
    }

    /// The header can be anything; the signature is this issuer's.
    pub(super) fn token_with(&self, header: &Value, claims: &Value) -> String {
        let message = format!("{}.{}", part(header), part(claims));
        let signature = self.sign(message.as_bytes());
        format!("{message}.{}", URL_SAFE_NO_PAD.encode(signature))
    }

    fn sign(&self, message: &[u8]) -> Vec<u8> {
        let random = SystemRandom::new();
        match &self.signer {
            Signer::Hmac(key) => hmac::sign(key, message).as_ref().to_vec(),
            Signer::Rsa(encoding) => {
                let mut signature = vec![0; RSA.public().modulus_len()];
                RSA.sign(*encoding, &random, message, &mut signature).expect("it can sign");
                signature
            }
            Signer::Ec(key) => key.sign(&random, message).expect("it can sign").as_ref().to_vec(),
            Signer::Ed(key) => key.sign(message).as_ref().to_vec(),
        }
    }

    /// The key as a PEM public key, and the DER around it is the standard's: algorithm, curve, bits.
    pub(super) fn pem(&self) -> String {
        let (before, key) = match &self.signer {
            Signer::Hmac(_) => panic!("a secret has no public key"),
            Signer::Rsa(_) => ("30820122300d06092a864886f70d01010105000382010f00", RSA.public_key().as_ref()),
            Signer::Ec(key) if self.algorithm == "ES256" => {
                ("3059301306072a8648ce3d020106082a8648ce3d030107034200", key.public_key().as_ref())
            }
            Signer::Ec(key) => ("3076301006072a8648ce3d020106052b81040022036200", key.public_key().as_ref()),
            Signer::Ed(key) => ("302a300506032b6570032100", key.public_key().as_ref()),
        };
        let mut der = unhex(before);
        der.extend_from_slice(key);
        pem("PUBLIC KEY", &der)
    }

    /// The key in a JSON Web Key Set.
    pub(super) fn jwk(&self, kid: &str) -> Value {
        let number = |bytes: &[u8]| URL_SAFE_NO_PAD.encode(bytes);
        let mut jwk = match &self.signer {
            Signer::Hmac(_) => json!({"kty": "oct", "k": number(SECRET.as_bytes())}),
            Signer::Rsa(_) => {
                let key = rsa::PublicKeyComponents::<Vec<u8>>::from(RSA.public());
                json!({"kty": "RSA", "n": number(&key.n), "e": number(&key.e)})
            }
            Signer::Ec(key) => {
                let (x, y) = key.public_key().as_ref()[1..].split_at(key.public_key().as_ref().len() / 2);
                let curve = if self.algorithm == "ES256" { "P-256" } else { "P-384" };
                json!({"kty": "EC", "crv": curve, "x": number(x), "y": number(y)})
            }
            Signer::Ed(key) => json!({"kty": "OKP", "crv": "Ed25519", "x": number(key.public_key().as_ref())}),
        };
        jwk["kid"] = kid.into();
        jwk
    }
}

/// A part of a token.
pub(super) fn part(json: &Value) -> String {
    URL_SAFE_NO_PAD.encode(json.to_string())
}

/// The least a good token has.
pub(super) fn claims(user: &str) -> Value {
    json!({"sub": user, "exp": NOW + 60})
}

/// `base` with some claims changed, or removed by `null`.
pub(super) fn changed(mut base: Value, changes: &Value) -> Value {
    for (name, value) in changes.as_object().expect("changes are an object") {
        if value.is_null() {
            base.as_object_mut().expect("claims are an object").remove(name);
        } else {
            base[name] = value.clone();
        }
    }
    base
}

pub(super) fn pem(label: &str, der: &[u8]) -> String {
    let mut text = format!("-----BEGIN {label}-----\n");
    for line in STANDARD.encode(der).as_bytes().chunks(64) {
        text.push_str(std::str::from_utf8(line).expect("base64 is ASCII"));
        text.push('\n');
    }
    text + &format!("-----END {label}-----\n")
}

/// PKCS #1, as `openssl rsa -RSAPublicKey_out` writes it.
pub(super) fn rsa_pkcs1_pem() -> String {
    pem("RSA PUBLIC KEY", RSA.public_key().as_ref())
}

pub(super) fn rsa_private_pem() -> String {
    pem("PRIVATE KEY", &STANDARD.decode(RSA_KEY_FOR_TESTS).expect("base64"))
}

pub(super) fn unhex(text: &str) -> Vec<u8> {
    (0..text.len()).step_by(2).map(|at| u8::from_str_radix(&text[at..at + 2], 16).expect("hex")).collect()
}

/// A file that is gone when the test is.
pub(super) struct KeyFile(PathBuf);

impl KeyFile {
    pub(super) fn new(contents: impl AsRef<[u8]>) -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let name = format!("tidegate-identity-{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
        let path = std::env::temp_dir().join(name);
        fs::write(&path, contents).expect("the temporary directory takes files");
        Self(path)
    }

    pub(super) fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for KeyFile {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.0);
    }
}
