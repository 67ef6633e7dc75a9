//! TLS against a real server.
//!
//! `tests/tls` holds an authority, and a certificate of 127.0.0.1 from it with its key, valid
//! until 2120. The authority's key was thrown away.

#![expect(clippy::unwrap_used, reason = "a test fails by panic")]

use std::{net::TcpListener, sync::Arc, time::Duration};

use kvcm_clock::{BootClock, Clock, Moment};
use kvcm_redis::{Class, Config, Failure, Lease, Locator, Pool, Repeat, Route};
use kvcm_testkit::RedisServer;
use kvcm_uri::Uri;

const FILES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/tls");

fn within(ms: u64) -> Moment {
    BootClock.now() + Duration::from_millis(ms)
}

fn patiently() -> Moment {
    within(30_000)
}

/// A server and the port on which it speaks TLS.
fn start() -> (RedisServer, u16) {
    let free = TcpListener::bind("127.0.0.1:0").unwrap().local_addr();
    let port = free.unwrap().port();
    let args = [
        ("--tls-port", port.to_string()),
        ("--tls-cert-file", format!("{FILES}/cert.pem")),
        ("--tls-key-file", format!("{FILES}/key.pem")),
        ("--tls-ca-cert-file", format!("{FILES}/ca.pem")),
        ("--tls-auth-clients", "no".to_owned()),
    ];
    let args: Vec<_> = args
        .iter()
        .flat_map(|(name, value)| [*name, value.as_str()])
        .collect();
    (RedisServer::start(&args).unwrap(), port)
}

fn config(uri: &str) -> Config {
    Config::from_uri(&Uri::parse(uri).unwrap()).unwrap().0
}

async fn ping(config: Config, deadline: Moment) -> Result<String, Failure> {
    let locator = Arc::new(Locator::new(config));
    let lease = Lease::new(locator, Route::Primary, Arc::new(BootClock));
    lease
        .run(Repeat::Safe, deadline, |mut link, _| async move {
            redis::cmd("PING").query_async(&mut link.connection).await
        })
        .await
}

#[tokio::test]
async fn a_certificate_of_the_named_authority_is_trusted() {
    let (_server, port) = start();
    let config = config(&format!(
        "rediss://127.0.0.1:{port}/?tls_ca_file={FILES}/ca.pem"
    ));
    assert_eq!(ping(config.clone(), patiently()).await.unwrap(), "PONG");
    let locator = Arc::new(Locator::new(config));
    let pool = Pool::new(locator, Arc::new(BootClock)).unwrap();
    let pong: Result<String, _> = pool
        .run(
            &Route::Primary,
            Repeat::Safe,
            patiently(),
            |mut link, _| async move { redis::cmd("PING").query_async(&mut link.connection).await },
        )
        .await;
    assert_eq!(pong.unwrap(), "PONG");
}

#[tokio::test]
async fn any_other_certificate_is_refused_with_what_to_do() {
    let (_server, port) = start();
    let failure = ping(config(&format!("rediss://127.0.0.1:{port}")), patiently()).await;
    let failure = failure.unwrap_err();
    let Class::Fatal { hint } = failure.class else {
        panic!("{failure:?}");
    };
    assert!(hint.contains("tls_ca_file"), "{hint}");
}

#[tokio::test]
async fn tls_to_a_plain_port_and_plain_to_a_tls_port_end_by_the_deadline() {
    let (server, port) = start();
    let plain = server.address().port();
    for uri in [
        format!("rediss://127.0.0.1:{plain}/?tls_ca_file={FILES}/ca.pem"),
        format!("redis://127.0.0.1:{port}/"),
    ] {
        // Whatever the answer is, it comes.
        ping(config(&uri), within(500)).await.unwrap_err();
    }
}
