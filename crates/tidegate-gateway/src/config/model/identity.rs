//! The identification of callers, as written.

use std::path::PathBuf;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::config::secret::Secret;
use crate::config::section::section;
use crate::config::span::Span;

section! {
    /// How callers are identified. Sources are checked in the order API key, token, header; the first that is present
    /// counts. A request with an unknown key or an invalid token is rejected with 401.
    #[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
    #[serde(deny_unknown_fields, default)]
    pub struct Identity {
        /// Tier of callers without one.
        pub default_tier: Option<String>, else "anonymous".to_owned();
        /// API keys and their owners.
        pub api_keys: Option<ApiKeys>;
        /// Tokens in `Authorization: Bearer`.
        pub jwt: Option<Jwt>;
        /// Headers that a trusted proxy has set. They are removed from all other requests.
        pub trusted_headers: Option<TrustedHeaders>;
    }
}

section! {
    /// A table of API keys.
    #[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
    #[serde(deny_unknown_fields)]
    pub struct ApiKeys {
        /// The header that carries the key.
        pub header: Option<String>, else "x-api-key".to_owned();
        /// The keys.
        pub keys: Vec<ApiKey>;
    }
}

section! {
    /// One API key, and its owner.
    #[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
    #[serde(deny_unknown_fields)]
    pub struct ApiKey {
        /// The SHA-256 of the key in hex, so that the file holds no secret (`printf %s KEY | sha256sum`).
        pub sha256: Option<String>;
        /// The key itself, instead of `sha256`.
        pub key: Option<Secret>;
        /// Its owner.
        pub user: String;
        /// The owner's tier.
        pub tier: Option<String>;
        /// The calling program, for limits by `clientId`. Default: the user.
        pub client_id: Option<String>;
    }
}

section! {
    /// JSON Web Tokens. Exactly one of `secret`, `secret_file`, `public_key` and `jwks` is needed.
    #[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
    #[serde(deny_unknown_fields, default)]
    pub struct Jwt {
        /// Shared secret (HS256, HS384, HS512), at least 32 bytes.
        pub secret: Option<Secret>;
        /// A file with that secret.
        pub secret_file: Option<PathBuf>;
        /// PEM file with a public key (RS256…, ES256…, `EdDSA`).
        pub public_key: Option<PathBuf>;
        /// File with a JSON Web Key Set.
        pub jwks: Option<PathBuf>;
        /// Accepted algorithms. Default: those that fit the key.
        pub algorithms: Vec<String>;
        /// Required `iss`.
        pub issuer: Option<String>;
        /// Required `aud`.
        pub audience: Option<String>;
        /// Claim with the user.
        pub user_claim: Option<String>, else "sub".to_owned();
        /// Claim with the tier.
        pub tier_claim: Option<String>, else "tier".to_owned();
        /// Claim with the calling program. Default: `client_id`, else `azp`.
        pub client_id_claim: Option<String>;
        /// How much clocks may differ. A larger value would make `exp` meaningless.
        pub leeway: Option<Span>, else Span::from_secs(30), in Span::from_secs(0)..=Span::from_secs(600);
    }
}

section! {
    /// Headers set by a trusted proxy.
    #[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
    #[serde(deny_unknown_fields, default)]
    pub struct TrustedHeaders {
        /// Header with the user, such as `x-auth-user`.
        pub user: Option<String>;
        /// Header with the tier.
        pub tier: Option<String>;
        /// Header with the calling program.
        pub client_id: Option<String>;
    }
}
