# One image for every service of the platform: `docker build -t tidegate .`, then for example
# `docker run --rm tidegate target --listen 0.0.0.0:8081`. compose.yaml runs all of them.

FROM rust:1.95-slim-bookworm AS build
# Certificate authorities, for upstreams, Redis and forecasters over TLS.
RUN apt-get update -qq \
 && apt-get install -y -qq --no-install-recommends ca-certificates \
 && rm -rf /var/lib/apt/lists/*
WORKDIR /src
# Without rust-toolchain.toml, which would fetch the newest compiler instead of using this image's.
COPY Cargo.toml Cargo.lock ./
COPY crates crates
COPY scenarios scenarios
# The binary is copied in the same step, because it would vanish with the mounted cache.
RUN --mount=type=cache,target=/usr/local/cargo/registry \
    --mount=type=cache,target=/src/target \
    cargo build --locked --release -p tidegate \
 && install -s target/release/tidegate /usr/local/bin/tidegate

FROM debian:bookworm-20260824-slim
COPY --from=build /etc/ssl/certs/ca-certificates.crt /etc/ssl/certs/ca-certificates.crt
COPY --from=build /usr/local/bin/tidegate /usr/local/bin/tidegate
COPY deploy/healthcheck /usr/local/bin/healthcheck
COPY LICENSE-MIT LICENSE-APACHE /usr/share/doc/tidegate/
# A forecaster keeps its --state in /var/lib/tidegate; a new volume there takes over the owner.
RUN useradd --system --uid 10001 --user-group --no-create-home --shell /usr/sbin/nologin tidegate \
 && install -d -o tidegate -g tidegate /var/lib/tidegate
USER 10001:10001
WORKDIR /var/lib/tidegate
EXPOSE 8080 8081 8082 8090
STOPSIGNAL SIGTERM
ENTRYPOINT ["tidegate"]
CMD ["--help"]
