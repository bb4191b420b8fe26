# `make help` lists the targets.
.DEFAULT_GOAL := help
SHELL := bash

.PHONY: help
help: ## show this list
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 16

.PHONY: setup
setup: ## install what the tests need with apt-get: redis-server, chromium, prometheus, PyYAML
	@scripts/setup redis-server chromium prometheus python3-yaml

.PHONY: setup-bench
setup-bench: ## install what the benchmarks need: redis-server, nginx, wrk, hey, valgrind
	@scripts/setup redis-server nginx-light wrk hey valgrind

.PHONY: check
check: ## compile and lint: the fast inner loop
	cargo clippy --workspace --all-targets -- -D warnings

# Most tests wait for sockets and processes, so many run at once. Tests that send load on schedule run a few at once.
# Tests that a busy machine disturbs run one after the other, alone.
LIVE := adaptation:: demo::playing:: demo::terminal:: lab::live::
ALONE := load::freeze:: h2_attacks::readers_that_do_not_read
# Tests that judge times if TIDEGATE_TIMINGS is set. `make adapt` runs those of adaptation.
TIMED := shared::outage:: shared::followed:: adaptive::responses:: adaptive::election:: target::overload:: lab::live::

.PHONY: test
test: setup ## run everything: format, lint, all tests, doc tests, the report in a browser, the deployment
	cargo fmt --all --check
	cargo clippy --workspace --all-targets -- -D warnings
	RUSTDOCFLAGS="-D warnings" cargo doc --workspace --no-deps --quiet
	cargo test --workspace -- --test-threads 8 $(LIVE:%=--skip %) $(ALONE:%=--skip %)
	cargo test --workspace --test e2e -- --test-threads 1 $(ALONE)
	$(MAKE) --no-print-directory --jobs 2 --output-sync=target test-live check-deployment
	$(MAKE) --no-print-directory check-report

# It waits more than it works, and judges no times. A browser at the same time would take the processors that its
# loads need.
.PHONY: test-live
test-live: binary ## run the tests that send load on schedule: adaptation, the demo, live runs of the lab
	cargo test --workspace --test e2e -- --test-threads 4 $(LIVE)

# The binary as the tests have built it. Another selection of packages would build the dependencies again, with other
# features.
BINARY := target/debug/tidegate
.PHONY: binary
binary:
	@cargo test --workspace --no-run --quiet

REPORT := crates/tidegate-lab/report

.PHONY: report-page
report-page: ## bundle the report's page from its sources (needs Node.js); commit the result
	cd $(REPORT) && npm ci --no-audit --no-fund --ignore-scripts && npm run bundle

.PHONY: check-report
check-report: binary ## test the lab's report in a browser: made-up results, all simulated scenarios, a replay
	cd $(REPORT) && npm ci --no-audit --no-fund --ignore-scripts && npm run check && npm run build && npm test
	$(BINARY) lab simulate --out target/lab
	scripts/sample-log > target/lab/access.log
	$(BINARY) lab replay target/lab/access.log --config examples/config/by-client.yaml --suggest 0.1% --out target/lab/replay
	cd $(REPORT) && REPORT="$(CURDIR)/target/lab/report.html" REPLAY="$(CURDIR)/target/lab/replay/report.html" npm test

.PHONY: check-deployment
check-deployment: binary ## test compose, rules and dashboards with real services and Prometheus (no containers)
	scripts/check-deployment $(BINARY)

.PHONY: lab
lab: setup ## run all scenarios live, in about half an hour: lab-report/report.html
	cargo run --quiet --release -p tidegate -- lab run

.PHONY: bench
bench: setup ## measure what a decision costs: a table, and target/bench/decisions.json
	cargo bench -p tidegate-store --bench decisions

.PHONY: bench-gateway
bench-gateway: setup-bench ## measure the gateway next to nginx on one core: tables, and target/bench/gateway.json
	cargo bench -p tidegate --bench gateway

.PHONY: count
count: setup-bench ## count instructions per request, next to nginx: a table, and target/bench/count.json
	cargo bench -p tidegate --bench gateway -- count

.PHONY: bench-load
bench-load: setup-bench ## measure the load generator next to wrk and hey on one core: tables, and target/bench/load.json
	cargo bench -p tidegate --bench load

.PHONY: steady
steady: setup-bench ## run ten minutes at 70 % of capacity with everything in use: nothing may fail or grow
	cargo bench -p tidegate --bench gateway -- steady

.PHONY: stalled
stalled: ## attack with clients that stall, beside honest ones: who is served, latency, memory; target/bench/stalled.json
	cargo bench -p tidegate --bench gateway -- stalled

.PHONY: endpoints
endpoints: ## kill, freeze and restart endpoints under load: failed requests, recovery; target/bench/endpoints.json
	cargo bench -p tidegate --bench gateway -- endpoints

.PHONY: sick
sick: ## a dead, a frozen and a slow upstream beside a healthy one: does that one notice? target/bench/sick.json
	cargo bench -p tidegate --bench gateway -- sick

.PHONY: soak
soak: setup ## run the long checks: a million steps for each algorithm, bodies of 1 GiB, a minute of overload
	TIDEGATE_STEPS=1000000 cargo test --workspace --test redis -- differential
	TIDEGATE_BODY_MIB=1024 cargo test --workspace --test e2e -- protocols::streaming
	TIDEGATE_OVERLOAD_SECONDS=60 TIDEGATE_TIMINGS=1 cargo test --workspace --test e2e -- --nocapture target::overload::ten_times

.PHONY: timings
timings: setup ## judge times: recovery, budgets, live runs against simulated ones; needs a quiet machine
	TIDEGATE_TIMINGS=1 cargo test --workspace --test e2e -- --test-threads 1 $(TIMED)

.PHONY: parity
parity: ## compare our Prophet with Python's: a table of differences; DATA=DIR adds real series
	scripts/prophet-parity $(if $(DATA),--data "$(DATA)")

.PHONY: adapt
adapt: setup ## run adaptation live: spikes of 5 s every 20 s, with and without it; judges latencies too
	TIDEGATE_ADAPT_PERIOD=20 TIDEGATE_TIMINGS=1 cargo test --workspace --test e2e -- --nocapture --test-threads 1 adaptation::

.PHONY: demo
demo: ## run all services in one process, five scenarios in three minutes: demo-report/report.html
	cargo run --profile demo -p tidegate -- demo

.PHONY: reference
reference: ## write docs/configuration.md, the page of all settings, from the code
	@mkdir -p target
	cargo run --quiet -p tidegate -- check --reference > target/configuration.md
	mv target/configuration.md docs/configuration.md

.PHONY: forecast-table
forecast-table: ## print how good forecasts are, as a Markdown table; DATA=DIR adds CSV files with 5-minute steps
	cargo run --quiet --release -p tidegate-forecast --example table -- "$(DATA)"
