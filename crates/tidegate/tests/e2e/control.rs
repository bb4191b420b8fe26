//! The gateway as an operator meets it: its endpoints, limits, identities, logs, metrics and command line.
#![allow(clippy::float_cmp, reason = "counts and settings are whole, or shown as they were written")]

mod access_log;
mod addresses;
mod admin_safety;
mod algorithm_switch;
mod algorithms;
mod bad_changes;
mod check_command;
mod check_mistakes;
mod check_redis;
mod command_line;
mod config_api;
mod environment;
mod evasion;
mod every_setting;
mod examples;
mod gate;
mod hidden_routes;
mod identity;
mod keys;
mod levels;
mod limit_headers;
mod modes;
mod observability;
mod reload;
mod request_ids;
mod schema;
mod setting;
mod structured_fields;
mod tiers;
mod tokens;
