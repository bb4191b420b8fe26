# `make help` lists the targets.
.DEFAULT_GOAL := help
SHELL := bash

.PHONY: help
help: ## this list
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 12

.PHONY: setup
setup: ## install what the tests need (redis-server, by apt-get)
	@scripts/setup

.PHONY: check
check: ## the fast inner loop: compile and lint
	cargo clippy --workspace --all-targets -- -D warnings

.PHONY: test
test: setup ## the one test command: format, lint, all tests, doc tests
	cargo fmt --all --check
	cargo clippy --workspace --all-targets -- -D warnings
	cargo test --workspace
	RUSTDOCFLAGS="-D warnings" cargo doc --workspace --no-deps --quiet

.PHONY: bench
bench: setup ## what a decision costs: a table, and target/bench/decisions.json
	cargo bench -p tidegate-store --bench decisions

.PHONY: soak
soak: setup ## the long checks: Rust and Lua fed a million steps for each algorithm
	TIDEGATE_STEPS=1000000 cargo test -p tidegate-store --test redis -- differential

.PHONY: demo
demo: ## the same bursts through every algorithm, in simulated time
	cargo run --quiet --release -p tidegate-policy --example compare
