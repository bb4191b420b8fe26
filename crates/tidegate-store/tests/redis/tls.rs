//! TLS to Redis: which authorities the store trusts, what it shows of itself, and what happens when that does not suit.

use std::path::PathBuf;
use std::sync::{Arc, Mutex};

use tidegate_store::{FailureMode, Observer, Sharing, Source, Store, StoreConfig, StoreEvent, TlsFiles, Topology};

use crate::failure::{expected, until};
use crate::setup::{MODES, admitted, all_rules, ask, leasable_rules, limit, patient};
use tidegate_testkit::redis_tls::{Certificates, SecureServer};

/// Trusts this authority, shows nothing.
pub(crate) fn trusting(certificates: &Certificates) -> TlsFiles {
    TlsFiles { ca: Some(certificates.file("ca.pem")), ..TlsFiles::default() }
}

/// Trusts this authority, and has a certificate of it.
pub(crate) fn known_to(certificates: &Certificates) -> TlsFiles {
    let (certificate, key) = (certificates.file("client.pem"), certificates.file("client.key"));
    TlsFiles { certificate: Some(certificate), key: Some(key), ..trusting(certificates) }
}

pub(crate) fn config(address: &str, files: &TlsFiles) -> StoreConfig {
    let topology = address.parse::<Topology>().expect("an address").with_tls(files).expect("files that can be used");
    StoreConfig { topology, on_failure: FailureMode::Closed, ..patient("redis://127.0.0.1:1") }
}

/// Why Redis could not be reached.
fn reasons() -> (Observer, Arc<Mutex<Vec<String>>>) {
    let reasons = Arc::new(Mutex::new(Vec::new()));
    let kept = Arc::clone(&reasons);
    let observer = move |event: StoreEvent<'_>| {
        if let StoreEvent::Unreached { error } = event {
            kept.lock().expect("nobody panicked here").push(error.to_owned());
        }
    };
    (Arc::new(observer), reasons)
}

/// Limits of 5 by every algorithm and either kind are kept exactly.
pub(crate) async fn limits_hold(config: StoreConfig) {
    let store = Store::connect(config).await.expect("sensible settings");
    assert!(!store.is_down());
    for rule in all_rules(5) {
        let limit = limit(&store, "exact", rule, Sharing::Exact);
        assert_eq!(admitted(&store, &limit, "ann", 7).await, 5, "{rule:?}");
    }
    for rule in leasable_rules(5) {
        let limit = limit(&store, "leased", rule, Sharing::Leased);
        assert_eq!(admitted(&store, &limit, "ann", 7).await, 5, "{rule:?}");
    }
    assert_eq!(
        ask(&store, &limit(&store, "exact", all_rules(5)[0], Sharing::Exact), "bob", 1).await.source,
        Source::Shared
    );
}

/// Redis counts as away, every mode decides as stated, and the observer hears why, in words that contain `reason`.
pub(crate) async fn is_away(address: &str, files: &TlsFiles, reason: &str) {
    for mode in MODES {
        let (observer, reasons) = reasons();
        let store = Store::connect(StoreConfig { on_failure: mode, observer, ..config(address, files) }).await;
        let store = store.expect("sensible settings");
        assert!(store.is_down());
        let limit = limit(&store, "any", all_rules(5)[0], Sharing::Exact);
        assert_eq!(admitted(&store, &limit, "ann", 20).await, expected(mode), "{mode:?}");
        assert_eq!(ask(&store, &limit, "ann", 1).await.source, Source::Failure(mode));
        let reasons = reasons.lock().expect("nobody panicked here");
        assert!(reasons.len() == 1 && reasons[0].contains(reason), "{reasons:?}");
    }
}

#[tokio::test]
async fn exact_and_leased_limits_hold_over_tls() {
    let certificates = Certificates::new();
    let server = SecureServer::start(&certificates, "no");
    limits_hold(config(&server.url(), &trusting(&certificates))).await;
    limits_hold(StoreConfig {
        namespace: crate::setup::name("by-name"),
        ..config(&format!("rediss://localhost:{}", server.port), &trusting(&certificates))
    })
    .await;
}

#[tokio::test]
async fn a_login_and_a_database_work_over_tls() {
    let certificates = Certificates::new();
    let server = SecureServer::start(&certificates, "no");
    let mut connection = server.plain.connection();
    redis::cmd("CONFIG").arg(&["SET", "requirepass", "s3cret"]).exec(&mut connection).expect("set");
    limits_hold(config(&format!("rediss://:s3cret@127.0.0.1:{}/3", server.port), &trusting(&certificates))).await;
    assert_eq!(redis::cmd("DBSIZE").query::<u64>(&mut connection), Ok(0));
    redis::cmd("SELECT").arg(3).exec(&mut connection).expect("selected");
    assert!(redis::cmd("DBSIZE").query::<u64>(&mut connection).expect("a count") > 0);
}

#[tokio::test]
async fn a_server_of_another_authority_is_not_trusted() {
    let (ours, theirs) = (Certificates::new(), Certificates::new());
    let server = SecureServer::start(&theirs, "no");
    is_away(&server.url(), &trusting(&ours), "invalid peer certificate").await;
    assert_eq!(redis::cmd("DBSIZE").query::<u64>(&mut server.plain.connection()), Ok(0), "nothing was sent");
}

#[tokio::test]
async fn a_server_with_a_certificate_for_another_name_is_not_trusted() {
    let certificates = Certificates::made_out_for(&["elsewhere.example"]);
    let server = SecureServer::start(&certificates, "no");
    is_away(&server.url(), &trusting(&certificates), "invalid peer certificate: certificate not valid for name").await;
}

/// Redis asks its clients for a certificate unless it is configured not to.
#[tokio::test]
async fn a_server_that_asks_for_a_certificate_gets_one() {
    let (certificates, others) = (Certificates::new(), Certificates::new());
    let server = SecureServer::start(&certificates, "yes");
    limits_hold(config(&server.url(), &known_to(&certificates))).await;
    // The rejection comes when the handshake is over for us: whether we read why before the connection is gone is a
    // matter of chance.
    is_away(&server.url(), &trusting(&certificates), "").await;
    let of_another = TlsFiles { ca: Some(certificates.file("ca.pem")), ..known_to(&others) };
    is_away(&server.url(), &of_another, "").await;
}

#[tokio::test]
async fn one_that_speaks_tls_and_one_that_does_not_do_not_understand_each_other() {
    let certificates = Certificates::new();
    let server = SecureServer::start(&certificates, "no");
    is_away(&format!("redis://127.0.0.1:{}", server.port), &TlsFiles::default(), "").await;
    is_away(&format!("rediss://127.0.0.1:{}", server.plain.port), &trusting(&certificates), "").await;
}

#[tokio::test]
async fn an_outage_is_survived_over_tls() {
    let certificates = Certificates::new();
    let mut server = SecureServer::start(&certificates, "yes");
    let store = Store::connect(config(&server.url(), &known_to(&certificates))).await.expect("sensible settings");
    let limit = limit(&store, "any", all_rules(5)[0], Sharing::Exact);
    assert_eq!(admitted(&store, &limit, "before", 7).await, 5);
    server.plain.kill();
    assert_eq!(admitted(&store, &limit, "meanwhile", 7).await, 0);
    assert!(store.is_down());
    server.plain.restart();
    until("Redis is back", async || !store.is_down()).await;
    assert_eq!(admitted(&store, &limit, "after", 7).await, 5);
}

#[test]
fn files_that_can_not_be_used_are_named_by_their_field() {
    let (ours, theirs) = (Certificates::new(), Certificates::new());
    let nothing = ours.write("nothing.pem", "nothing\n");
    let garbage = "-----BEGIN CERTIFICATE-----\nbm90IGEgY2VydGlmaWNhdGU=\n-----END CERTIFICATE-----\n";
    let garbage = ours.write("garbage.pem", garbage);
    let missing = ours.file("missing.pem");
    let ca = |path: &PathBuf| TlsFiles { ca: Some(path.clone()), ..TlsFiles::default() };
    let own = |certificate: Option<PathBuf>, key: Option<PathBuf>| TlsFiles { certificate, key, ..trusting(&ours) };
    let (certificate, key) = (|| Some(ours.file("client.pem")), || Some(ours.file("client.key")));
    for (files, field, reason) in [
        (ca(&missing), "ca", "missing.pem: No such file"),
        (ca(&nothing), "ca", "nothing.pem: holds no certificate"),
        (ca(&garbage), "ca", "garbage.pem: invalid peer certificate"),
        (ca(&ours.file("server.key")), "ca", "server.key: holds no certificate"),
        (own(certificate(), None), "key", "is missing"),
        (own(None, key()), "certificate", "is missing"),
        (own(Some(missing.clone()), key()), "certificate", "missing.pem: No such file"),
        (own(Some(nothing.clone()), key()), "certificate", "nothing.pem: holds no certificate"),
        (own(certificate(), Some(missing)), "key", "missing.pem: No such file"),
        (own(certificate(), certificate()), "key", "client.pem: holds no private key"),
        (own(certificate(), Some(theirs.file("client.key"))), "key", "client.key: can't be used with `certificate`"),
    ] {
        let error = "rediss://127.0.0.1:1".parse::<Topology>().expect("an address").with_tls(&files).expect_err(reason);
        assert_eq!(error.field, field, "{error}");
        assert!(error.reason.contains(reason), "{error}");
        assert!(error.to_string().starts_with(&format!("`{field}`: ")), "{error}");
    }
}

#[test]
fn files_for_an_address_without_tls_are_rejected() {
    let certificates = Certificates::new();
    let without_ca = TlsFiles { ca: None, ..known_to(&certificates) };
    let key_alone = TlsFiles { certificate: None, ..without_ca.clone() };
    for address in ["redis://h:1", "redis+sentinel://h:1/main", "redis+cluster://h:1"] {
        let topology = address.parse::<Topology>().expect("an address");
        for (files, field) in
            [(trusting(&certificates), "ca"), (without_ca.clone(), "certificate"), (key_alone.clone(), "key")]
        {
            let error = topology.clone().with_tls(&files).expect_err(address);
            assert_eq!(error.field, field, "{address}");
            assert!(error.reason.contains("`rediss`"), "{error}");
        }
        assert_eq!(topology.clone().with_tls(&TlsFiles::default()), Ok(topology), "no files, nothing to reject");
    }
}

/// Neither the key nor the certificate is of any use in a log.
#[test]
fn what_the_files_hold_is_not_shown() {
    let certificates = Certificates::new();
    let topology = "rediss://u:secret@h:1/2".parse::<Topology>().expect("an address");
    let topology = topology.with_tls(&known_to(&certificates)).expect("files that can be used");
    assert_eq!(format!("{topology:?}"), "rediss://***@h:1/2");
}
