//! A configuration file with every setting there is.

use serde_json::{Value, json};
use tidegate_testkit::{Directory, text};

fn every_upstream() -> Value {
    json!({
        "app": {
            "url": "http://127.0.0.1:8081/base", "connect_timeout": 1, "answer_timeout": 1, "body_timeout": 1,
            "idle_timeout": 1, "max_idle": 1, "max_connections": 1, "max_head_bytes": 2048, "preserve_host": true,
            "ca": null, "server_name": null, "limits": ["provider"], "policy": "p",
            "request_buffer_bytes": 10, "response_buffer_bytes": 10
        },
        "pool": {
            "endpoints": ["http://127.0.0.1:8082", { "url": "http://127.0.0.1:8083", "weight": 2 }],
            "balance": "hash", "hash_key": "user", "slow_start": "5s",
            "health_check": {
                "path": "/health", "method": "HEAD", "statuses": [200, 204], "interval": "1s", "timeout": "500ms",
                "healthy": 1, "unhealthy": 2
            },
            "ejection": {
                "consecutive_failures": 3, "success_rate": false, "statuses": [503], "interval": "5s", "time": "10s",
                "max_time": "1m", "max_share": 0.3
            }
        }
    })
}

/// A file with every setting there is; the files it names are in `directory`.
pub(super) fn everything(directory: &Directory) -> Value {
    let pair = rcgen::generate_simple_self_signed(["localhost".to_owned()]).expect("a certificate");
    let certificate = text(&directory.file("certificate.pem", &pair.cert.pem()));
    let key = text(&directory.file("key.pem", &pair.signing_key.serialize_pem()));
    let numbers = json!({"algorithm": "token", "limit": 1, "window": 1, "capacity": 2, "fillRate": 0.5, "hold": 5});
    json!({
        "listeners": [
            {"address": "127.0.0.1:0", "tls": {"certificate": certificate, "key": key}, "h2c": false}
        ],
        "workers": 1,
        "connections": {
            "max": 100, "max_head_bytes": 16384, "max_headers": 50, "max_streams": 10, "max_body_bytes": 1_000_000,
            "head_timeout": "5s", "body_timeout": 5, "write_timeout": "500ms", "idle_timeout": "1m",
            "upgrade_timeout": "1h", "drain_timeout": 0, "max_total_streams": 50, "max_untaken_streams": 8,
            "max_client_share": 0.5, "min_rate": 100, "min_rate_window": "5s", "max_buffer_bytes": 1_000_000
        },
        "trusted_proxies": ["10.0.0.0/8"],
        "admin": {"listen": "127.0.0.1:0", "token": "a-token-of-some-length", "token_file": null, "open": false},
        "log": {"format": "json", "level": "warn"},
        "access_log": {"format": "json", "file": "access.log", "buffer": 10},
        "redis": {
            "url": "rediss://127.0.0.1:6379", "ca": certificate, "certificate": certificate, "key": key,
            "namespace": "shop", "budget": "20ms", "on_failure": "local", "lease_tokens": 10, "lease_span": 1
        },
        "adaptive": {
            "source": "shop",
            "forecaster": "https://127.0.0.1:8090/base", "ca": certificate, "mode": "shadow", "limit": "total",
            "interval": "10s", "timeout": 1, "ceiling": 500.5, "floor": 1, "step": 2, "dwell": 0,
            "algorithm_dwell": "10m", "latency": "100ms", "errors": 0.1, "misses": 5, "history": 10
        },
        "identity": {
            "default_tier": "free",
            "api_keys": {
                "header": "x-api-key",
                "keys": [{"key": "a", "sha256": null, "user": "ann", "tier": "pro", "client_id": "shop"}]
            },
            "jwt": {
                "secret": "a secret of thirty-two characters", "secret_file": null, "public_key": null, "jwks": null,
                "algorithms": ["HS256"], "issuer": "i", "audience": "a", "user_claim": "sub", "tier_claim": "tier",
                "client_id_claim": "azp", "leeway": 5
            },
            "trusted_headers": {"user": "x-user", "tier": "x-tier", "client_id": "x-client"}
        },
        "limits": {
            "default": {
                "algorithm": "token", "limit": 1, "window": 1, "capacity": 2, "fill_rate": 0.5, "hold": 5, "key": "ip",
                "missing": "share", "tiers": {"pro": numbers, "gold": "unlimited"}, "soft": 1, "cost": 1, "status": 429,
                "dry_run": false, "state": "memory", "max_keys": 10
            },
            "total": {"algorithm": "fixed", "limit": 100, "window": 1},
            "provider": {"algorithm": "gcra", "burst": 1, "fillRate": 1, "tiers": {"pro": {"burst": 1, "fill_rate": 1}}}
        },
        "common_limits": ["default", "total"],
        "upstreams": every_upstream(),
        "policies": {"p": every_policy()},
        "resolver": {
            "servers": ["127.0.0.1:5353", "10.0.0.2"], "timeout": "500ms", "attempts": 3, "min_ttl": 2, "max_ttl": "1h",
            "hosts_file": false
        },
        "routes": [{
            "name": "r", "host": "*.example.com", "path": "/x", "prefix": null, "pattern": null, "methods": ["GET"],
            "upstream": "app", "limits": [], "policy": "p"
        }]
    })
}

fn every_policy() -> Value {
    json!({
        "timeout": "7s", "attempt_timeout": 2,
        "retry": {
            "attempts": 3, "base": 0.2, "max": "2s", "factor": 2.0, "jitter": 0.3, "on": ["timeout", "429"],
            "idempotency_key": "idempotency-key", "budget": {"share": 0.2, "floor": 10.0},
            "hedge": {"quantile": 0.9, "min_delay": "20ms"}
        },
        "breaker": {
            "window": "30s", "minimum": 5, "failures": 0.5, "consecutive": 5, "slow": "1s", "slow_calls": 0.5,
            "open": "30s", "growth": 2.0, "max_open": "5m", "probes": 3, "probe_timeout": "30s", "on": ["5xx"]
        },
        "bulkhead": {"limit": 20, "queue": 20, "wait": "200ms"}
    })
}
